//! The inner loops in plain safe code, on rows of `W` floats for simplices of any number of vertices. The dispatching
//! functions compile all of it a second time for AVX2.
//!
//! There is no fused multiply-add in them, so both versions give the same bits.
// Loops over lanes index several arrays at once: that is what becomes vector code.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use super::super::simplices::Runs;
use super::unchecked;
use super::{WEIGHT_PADDING, with_width};
use crate::operator::Factors;
use crate::simd::Eight;

/// Adds the rows of one block, W wide and `stride` apart, to a band's piece of a table: the kernel for the width and
/// the dimension. `rows` may be longer than the block.
#[inline(always)]
pub(super) fn splat_block<V: Eight>(
    width: usize,
    runs: Runs,
    factors: Factors,
    rows: &[f32],
    stride: usize,
    table: &mut [f32],
) {
    with_width!(width, W => match (W, runs.vertices()) {
            (1, 3) => splat_one::<3>(runs, factors, rows, stride, table),
            (1, 6) => splat_one::<6>(runs, factors, rows, stride, table),
            (8, 3) => unchecked::splat_eight::<V, 3>(runs, factors, rows, stride, table),
            (8, 6) => unchecked::splat_eight::<V, 6>(runs, factors, rows, stride, table),
            (_, 3) => unchecked::splat::<W, 3>(runs, factors, rows, stride, table),
            (_, 6) => unchecked::splat::<W, 6>(runs, factors, rows, stride, table),
            _ => splat_any::<W>(runs, factors, rows, stride, table),
    })
}

/// Interpolates one block into rows, W wide and `stride` apart, or adds to them.
#[inline(always)]
pub(super) fn slice_block(
    width: usize,
    runs: Runs,
    factors: Factors,
    table: &[f32],
    rows: &mut [f32],
    stride: usize,
    add: bool,
) {
    with_width!(width, W => match (W, runs.vertices(), add) {
            (1, 3, _) => slice_one::<3>(runs, factors, table, rows, stride, add),
            (1, 6, _) => slice_one::<6>(runs, factors, table, rows, stride, add),
            (_, 3, false) => unchecked::slice::<W, 3, false>(runs, factors, table, rows, stride),
            (_, 3, true) => unchecked::slice::<W, 3, true>(runs, factors, table, rows, stride),
            (_, 6, false) => unchecked::slice::<W, 6, false>(runs, factors, table, rows, stride),
            (_, 6, true) => unchecked::slice::<W, 6, true>(runs, factors, table, rows, stride),
            _ => slice_any::<W>(runs, factors, table, rows, stride, add),
    })
}

/// Stores rows of `width`, or adds them, to a block of the channels of `out`.
#[inline(always)]
pub(super) fn store(
    rows: &[f32],
    width: usize,
    out: &mut [f32],
    channels: usize,
    block: Range<usize>,
    add: bool,
) {
    for (out, row) in out.chunks_exact_mut(channels).zip(rows.chunks_exact(width)) {
        let out = &mut out[block.clone()];
        if add {
            for (o, &r) in out.iter_mut().zip(row) {
                *o += r;
            }
        } else {
            for (o, &r) in out.iter_mut().zip(row) {
                *o = r;
            }
        }
    }
}

#[inline(always)]
pub(super) fn group<const G: usize>(values: &[f32], at: usize) -> &[f32; G] {
    match values[at..].first_chunk() {
        Some(group) => group,
        None => panic!("rows are too short for their width"),
    }
}

#[inline(always)]
pub(super) fn group_mut<const G: usize>(values: &mut [f32], at: usize) -> &mut [f32; G] {
    match values[at..].first_chunk_mut() {
        Some(group) => group,
        None => panic!("rows are too short for their width"),
    }
}

/// [`unchecked::splat`] of one channel: the vertices of a simplex, not the channels, lie side by side.
#[inline(always)]
pub(super) fn splat_one<const M: usize>(
    runs: Runs,
    factors: Factors,
    rows: &[f32],
    stride: usize,
    table: &mut [f32],
) {
    let mut start = 0;
    for (ids, &end) in runs.ids().chunks_exact(M).zip(runs.ends()) {
        let end = usize::from(end);
        let mut sums = [0.0f32; WEIGHT_PADDING];
        for p in start..end {
            let value = rows[p * stride] * factors.of(p);
            let weights = group::<WEIGHT_PADDING>(runs.weights, p * M);
            for k in 0..WEIGHT_PADDING {
                sums[k] += weights[k] * value;
            }
        }
        for k in 0..M {
            table[ids[k] as usize] += sums[k];
        }
        start = end;
    }
}

/// [`unchecked::splat`] for any number of vertices.
#[inline(always)]
pub(super) fn splat_any<const W: usize>(
    runs: Runs,
    factors: Factors,
    rows: &[f32],
    stride: usize,
    table: &mut [f32],
) {
    let m = runs.vertices();
    let mut start = 0;
    for (ids, &end) in runs.ids().chunks_exact(m).zip(runs.ends()) {
        let end = usize::from(end);
        for p in start..end {
            let value = group::<W>(rows, p * stride);
            let factor = factors.of(p);
            for (&id, &w) in ids.iter().zip(&runs.weights[p * m..p * m + m]) {
                let row = group_mut::<W>(table, id as usize * W);
                for c in 0..W {
                    row[c] += w * factor * value[c];
                }
            }
        }
        start = end;
    }
}

/// [`unchecked::slice`] of one channel.
#[inline(always)]
pub(super) fn slice_one<const M: usize>(
    runs: Runs,
    factors: Factors,
    table: &[f32],
    rows: &mut [f32],
    stride: usize,
    add: bool,
) {
    let mut start = 0;
    for (ids, &end) in runs.ids().chunks_exact(M).zip(runs.ends()) {
        let end = usize::from(end);
        let mut vertex = [0.0f32; M];
        for k in 0..M {
            vertex[k] = table[ids[k] as usize];
        }
        for p in start..end {
            let weights = group::<M>(runs.weights, p * M);
            // Two interleaved sums: half the latency of one.
            let mut sums = [0.0f32; 2];
            for k in 0..M {
                sums[k % 2] += weights[k] * vertex[k];
            }
            let value = factors.of(p) * (sums[0] + sums[1]);
            let row = &mut rows[p * stride];
            *row = if add { *row + value } else { value };
        }
        start = end;
    }
}

/// [`unchecked::slice`] for any number of vertices.
#[inline(always)]
pub(super) fn slice_any<const W: usize>(
    runs: Runs,
    factors: Factors,
    table: &[f32],
    rows: &mut [f32],
    stride: usize,
    add: bool,
) {
    let m = runs.vertices();
    let mut start = 0;
    for (ids, &end) in runs.ids().chunks_exact(m).zip(runs.ends()) {
        let end = usize::from(end);
        for p in start..end {
            let sum = interpolate::<W>(table, ids, &runs.weights[p * m..p * m + m]);
            let factor = factors.of(p);
            let row = group_mut::<W>(rows, p * stride);
            for c in 0..W {
                row[c] = if add { row[c] + factor * sum[c] } else { factor * sum[c] };
            }
        }
        start = end;
    }
}

#[inline(always)]
pub(super) fn interpolate<const W: usize>(table: &[f32], ids: &[u32], weights: &[f32]) -> [f32; W] {
    let mut sum = [0.0; W];
    for (&id, &w) in ids.iter().zip(weights) {
        let row = group::<W>(table, id as usize * W);
        for c in 0..W {
            sum[c] += w * row[c];
        }
    }
    sum
}

/// `table += other`.
#[inline(always)]
pub(super) fn add(table: &mut [f32], other: &[f32]) {
    table.iter_mut().zip(other).for_each(|(t, &o)| *t += o);
}

/// Raises `out` to the largest change in each row between two tables.
#[inline(always)]
pub(super) fn largest_changes<const W: usize>(now: &[f32], before: &[f32], out: &mut [f32]) {
    for ((out, now), before) in out.iter_mut().zip(now.chunks_exact(W)).zip(before.chunks_exact(W)) {
        let mut most = *out;
        for c in 0..W {
            most = most.max((now[c] - before[c]).abs());
        }
        *out = most;
    }
}
