//! The inner loops, on rows of `W` floats for simplices of `M` vertices. Plain safe code;
//! `simd.rs` compiles all of it a second time for AVX2.
//!
//! There is no fused multiply-add in them, so both versions give the same bits.
// Loops over lanes index several arrays at once: that is what becomes vector code.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use super::bands::BLOCK;
use super::inner;
use super::runs::Runs;
use crate::Binned;
use crate::simd::Eight;

/// Weights may be read this far beyond the last point's.
pub(super) const WEIGHT_PADDING: usize = 8;

/// Widest rows.
pub(super) const WIDEST: usize = 32;

/// Calls `$body` with the constant `$w`, the smallest row width that holds `$width` channels.
macro_rules! with_width {
    ($width:expr, $w:ident => $body:expr) => {
        match $width {
            0..=1 => with_width!(@ 1, $w, $body),
            2..=4 => with_width!(@ 4, $w, $body),
            5..=8 => with_width!(@ 8, $w, $body),
            9..=16 => with_width!(@ 16, $w, $body),
            17..=24 => with_width!(@ 24, $w, $body),
            _ => with_width!(@ 32, $w, $body),
        }
    };
    (@ $value:literal, $w:ident, $body:expr) => {{
        const $w: usize = $value;
        $body
    }};
}
pub(super) use with_width;

/// The row width for so many channels.
pub(super) fn row_width(channels: usize) -> usize {
    with_width!(channels, W => W)
}

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
            (8, 3) => inner::splat_eight::<V, 3>(runs, factors, rows, stride, table),
            (8, 6) => inner::splat_eight::<V, 6>(runs, factors, rows, stride, table),
            (_, 3) => inner::splat::<W, 3>(runs, factors, rows, stride, table),
            (_, 6) => inner::splat::<W, 6>(runs, factors, rows, stride, table),
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
            (_, 3, false) => inner::slice::<W, 3, false>(runs, factors, table, rows, stride),
            (_, 3, true) => inner::slice::<W, 3, true>(runs, factors, table, rows, stride),
            (_, 6, false) => inner::slice::<W, 6, false>(runs, factors, table, rows, stride),
            (_, 6, true) => inner::slice::<W, 6, true>(runs, factors, table, rows, stride),
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

/// One factor for each point of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Factors<'a> {
    /// From the block's first point on; none is all ones.
    pub each: Option<&'a [f32]>,
    /// One for all.
    pub gain: f32,
}

impl Factors<'_> {
    /// Those of the block's first points, so many.
    #[inline(always)]
    pub(super) fn of_block(&self, points: usize) -> [f32; BLOCK] {
        let mut all = [self.gain; BLOCK];
        if let Some(each) = self.each {
            all[..points].iter_mut().zip(&each[..points]).for_each(|(f, &e)| *f *= e);
        }
        all
    }

    #[inline(always)]
    pub(super) fn of(&self, point: usize) -> f32 {
        self.each.map_or(self.gain, |f| self.gain * f[point])
    }
}

#[inline(always)]
fn group<const G: usize>(values: &[f32], at: usize) -> &[f32; G] {
    match values[at..].first_chunk() {
        Some(group) => group,
        None => panic!("rows are too short for their width"),
    }
}

#[inline(always)]
fn group_mut<const G: usize>(values: &mut [f32], at: usize) -> &mut [f32; G] {
    match values[at..].first_chunk_mut() {
        Some(group) => group,
        None => panic!("rows are too short for their width"),
    }
}

/// [`inner::splat`] of one channel: the vertices of a simplex, not the channels, lie side by side.
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

/// [`inner::splat`] for any number of vertices.
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

/// Adds to one channel per point the value 1, to that of the point's bin, for bins `first .. first + W`.
#[inline(always)]
pub(super) fn splat_bins<const W: usize>(
    runs: Runs,
    factors: Factors,
    bins: &[u16],
    first: usize,
    table: &mut [f32],
) {
    let m = runs.vertices();
    let mut start = 0;
    for (ids, &end) in runs.ids().chunks_exact(m).zip(runs.ends()) {
        let end = usize::from(end);
        let mut p = start;
        while p < end {
            // Neighbours are mostly in the same bin as well.
            let bin = bins[p];
            let from = p;
            while p < end && bins[p] == bin {
                p += 1;
            }
            let lane = usize::from(bin).wrapping_sub(first);
            if lane >= W {
                continue;
            }
            if m <= WEIGHT_PADDING {
                let mut sums = [0.0f32; WEIGHT_PADDING];
                for q in from..p {
                    let factor = factors.of(q);
                    let weights = group::<WEIGHT_PADDING>(runs.weights, q * m);
                    for k in 0..WEIGHT_PADDING {
                        sums[k] += weights[k] * factor;
                    }
                }
                for (&id, &s) in ids.iter().zip(&sums) {
                    table[id as usize * W + lane] += s;
                }
            } else {
                for q in from..p {
                    let factor = factors.of(q);
                    for (&id, &w) in ids.iter().zip(&runs.weights[q * m..q * m + m]) {
                        table[id as usize * W + lane] += w * factor;
                    }
                }
            }
        }
        start = end;
    }
}

/// [`inner::slice`] of one channel.
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

/// [`inner::slice`] for any number of vertices.
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
fn interpolate<const W: usize>(table: &[f32], ids: &[u32], weights: &[f32]) -> [f32; W] {
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

/// Reads the bins of `range` (at most W) back and adds them to `out` with the weights of each point's own bin.
#[inline(always)]
pub(super) fn slice_bins<const W: usize>(
    runs: Runs,
    factors: Factors,
    table: &[f32],
    binned: Binned,
    range: Range<usize>,
    out: &mut [f32],
) {
    let m = runs.vertices();
    let mut start = 0;
    for (ids, &end) in runs.ids().chunks_exact(m).zip(runs.ends()) {
        let end = usize::from(end);
        for p in start..end {
            let sum = interpolate::<W>(table, ids, &runs.weights[p * m..p * m + m]);
            let row = usize::from(binned.bins[p]) * binned.count;
            let weights = &binned.table[row + range.start..row + range.end];
            let mut total = 0.0;
            for (&s, &w) in sum.iter().zip(weights) {
                total += s * w;
            }
            out[p] += factors.of(p) * total;
        }
        start = end;
    }
}

/// Replaces every row, one channel per bin, by its products with the bins' table, so that a point needs
/// to read only the channel of its own bin. `turned` is the table's transpose in rows of W.
#[inline(always)]
pub(super) fn weigh_bins<const W: usize>(rows: &mut [f32], turned: &[f32]) {
    for row in rows.chunks_exact_mut(W) {
        let mut sum = [0.0f32; W];
        for (h, weights) in turned.chunks_exact(W).enumerate() {
            let value = row[h];
            if value != 0.0 {
                for c in 0..W {
                    sum[c] += value * weights[c];
                }
            }
        }
        row.copy_from_slice(&sum);
    }
}

/// Adds to `out` the channel of each point's own bin, from rows that [`weigh_bins`] made.
#[inline(always)]
pub(super) fn slice_own_bin<const W: usize>(
    runs: Runs,
    factors: Factors,
    table: &[f32],
    bins: &[u16],
    out: &mut [f32],
) {
    let m = runs.vertices();
    let mut start = 0;
    for (ids, &end) in runs.ids().chunks_exact(m).zip(runs.ends()) {
        let end = usize::from(end);
        for p in start..end {
            let lane = usize::from(bins[p]);
            let mut sum = 0.0;
            for (&id, &w) in ids.iter().zip(&runs.weights[p * m..p * m + m]) {
                sum += w * table[id as usize * W + lane];
            }
            out[p] += factors.of(p) * sum;
        }
        start = end;
    }
}
