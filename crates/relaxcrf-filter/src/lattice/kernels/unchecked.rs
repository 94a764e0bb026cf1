//! The innermost loops for the usual simplices, with reads and writes whose indices are checked block by block instead of
//! one by one: [`Runs`] holds checked indices only.
#![allow(unsafe_code)]
// Loops over lanes index several arrays at once: that is what becomes vector code.
#![allow(clippy::needless_range_loop)]

use super::super::simplices::Runs;
use crate::blocks::POINTS_PER_BLOCK;
use crate::operator::Factors;
use crate::simd::{Eight, LANES};

/// Fails unless there are all table rows that the runs of a block name (they were checked when they were made, see
/// `simplices.rs`), and all else that [`splat`] and [`slice`] read. Returns the number of points.
#[inline(always)]
fn check_block<const W: usize, const M: usize>(
    runs: &Runs,
    table_rows: usize,
    values: usize,
    stride: usize,
) -> usize {
    let points = runs.points();
    assert!(runs.vertices() == M && runs.rows() <= table_rows, "lattice vertex out of range");
    assert!(
        points <= POINTS_PER_BLOCK
            && (points == 0 || runs.weights.len() >= points * M && values >= (points - 1) * stride + W),
        "rows are too short for their width"
    );
    points
}

/// Adds every point's row (`stride` apart, the first at the start of `rows`) to the rows of its vertices.
#[inline(always)]
pub(super) fn splat<const W: usize, const M: usize>(
    runs: Runs,
    factors: Factors,
    rows: &[f32],
    stride: usize,
    table: &mut [f32],
) {
    let (table, _) = table.as_chunks_mut::<W>();
    let points = check_block::<W, M>(&runs, table.len(), rows.len(), stride);
    let factors = factors.of_block(points);
    for p in 0..points {
        // SAFETY: `p` is below `points`, for which values and weights are there, and each has a run with ids, which are
        // rows of the table.
        unsafe {
            let mut value = *rows.as_ptr().add(p * stride).cast::<[f32; W]>();
            let factor = *factors.get_unchecked(p);
            value.iter_mut().for_each(|v| *v *= factor);
            let weights = &*runs.weights.as_ptr().add(p * M).cast::<[f32; M]>();
            // Not a loop over runs: they are short and of any length, its end would be guessed wrong every other time.
            let run = usize::from(*runs.of().get_unchecked(p));
            let ids = &*runs.ids().as_ptr().add(run * M).cast::<[u32; M]>();
            for k in 0..M {
                let row = table.get_unchecked_mut(ids[k] as usize);
                for c in 0..W {
                    row[c] += weights[k] * value[c];
                }
            }
        }
    }
}

/// [`splat`] of eight channels, whose sums stay in registers while the simplex is the same.
#[inline(always)]
pub(super) fn splat_eight<V: Eight, const M: usize>(
    runs: Runs,
    factors: Factors,
    rows: &[f32],
    stride: usize,
    table: &mut [f32],
) {
    let (table, _) = table.as_chunks_mut::<LANES>();
    let points = check_block::<LANES, M>(&runs, table.len(), rows.len(), stride);
    let factors = factors.of_block(points);
    let mut sums = [V::all(0.0); M];
    let mut last = u8::MAX;
    for p in 0..points {
        // SAFETY: as in `splat`.
        unsafe {
            let run = *runs.of().get_unchecked(p);
            let same = V::mask(run == last);
            last = run;
            let value = V::load(&*rows.as_ptr().add(p * stride).cast::<[f32; LANES]>());
            let value = value.mul(V::all(*factors.get_unchecked(p)));
            let weights = &*runs.weights.as_ptr().add(p * M).cast::<[f32; M]>();
            let ids = &*runs.ids().as_ptr().add(usize::from(run) * M).cast::<[u32; M]>();
            for k in 0..M {
                let row = table.get_unchecked_mut(ids[k] as usize);
                // What is in the register is in the row as well, but takes longer to come back from there.
                let before = sums[k].where_mask(V::load(row), same);
                sums[k] = before.add(V::all(weights[k]).mul(value));
                sums[k].store(row);
            }
        }
    }
}

/// Reads the blurred table back: `rows (+)= factor · interpolated row`.
#[inline(always)]
pub(super) fn slice<const W: usize, const M: usize, const ADD: bool>(
    runs: Runs,
    factors: Factors,
    table: &[f32],
    rows: &mut [f32],
    stride: usize,
) {
    let (table, _) = table.as_chunks::<W>();
    let points = check_block::<W, M>(&runs, table.len(), rows.len(), stride);
    let factors = factors.of_block(points);
    for p in 0..points {
        // SAFETY: as in `splat`.
        unsafe {
            let weights = &*runs.weights.as_ptr().add(p * M).cast::<[f32; M]>();
            let run = usize::from(*runs.of().get_unchecked(p));
            let ids = &*runs.ids().as_ptr().add(run * M).cast::<[u32; M]>();
            let mut sum = [0.0f32; W];
            for k in 0..M {
                let row = table.get_unchecked(ids[k] as usize);
                for c in 0..W {
                    sum[c] += weights[k] * row[c];
                }
            }
            let factor = *factors.get_unchecked(p);
            let row = &mut *rows.as_mut_ptr().add(p * stride).cast::<[f32; W]>();
            for c in 0..W {
                row[c] = if ADD { row[c] + factor * sum[c] } else { factor * sum[c] };
            }
        }
    }
}
