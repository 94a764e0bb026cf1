//! The inner loops for one channel per bin.
// Loops over lanes index several arrays at once: that is what becomes vector code.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use super::super::simplices::Runs;
use super::WEIGHT_PADDING;
use super::plain::{group, interpolate};
use crate::operator::Factors;
use crate::ordered::Binned;

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
