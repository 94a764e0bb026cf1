//! The lattice with one channel per bin: what the ordered filter of the LP and energies of labellings use.

use std::ops::Range;

use rayon::prelude::*;

use super::Lattice;
use super::apply::factors;
use super::bands::{BLOCK, points_per_band};
use super::inner;
use super::runs::Runs;
use crate::{Binned, Direction, Scaling, Scratch};

impl Lattice {
    /// Adds to `out` what the bins of `range` (at most W) contribute.
    pub(super) fn run_bins<const W: usize>(
        &self,
        binned: Binned,
        range: Range<usize>,
        scaling: Scaling,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let size = self.rows * W;
        scratch.first.resize(size.max(scratch.first.len()), 0.0);
        let table = &mut scratch.first[..size];
        // A block's rows may be wider than the block: bins beyond it belong to the next one.
        self.fill(W, table, |band, rows| {
            for (k, first) in band.points.clone().step_by(BLOCK).enumerate() {
                let runs = Runs::new(band, k, &self.weights);
                let right = factors(scaling.right, 1.0, first);
                inner::splat_bins::<W>(runs, right, &binned.bins[first..], range.start, rows);
            }
        });
        let gain = scaling.gain * self.blur(W, self.order(Direction::Forward), table, &mut scratch.second);

        // Weighing the bins at the vertices costs the square of their number there, at the points only the number.
        let at_vertices = range.len() == binned.count && self.rows * binned.count <= 8 * self.points;
        if at_vertices {
            let mut turned = vec![0.0f32; binned.count * W];
            for (h, row) in turned.chunks_exact_mut(W).enumerate() {
                for (own, weight) in row[..binned.count].iter_mut().enumerate() {
                    *weight = binned.table[own * binned.count + h];
                }
            }
            table.par_chunks_mut(1024 * W).for_each(|rows| inner::weigh_bins::<W>(rows, &turned));
        }
        let table = &*table;
        out.par_chunks_mut(points_per_band(self.points)).zip(&self.bands).for_each(|(out, band)| {
            let table = &table[band.rows.start * W..band.rows.end * W];
            for (k, out) in out.chunks_mut(BLOCK).enumerate() {
                let first = band.points.start + k * BLOCK;
                let runs = Runs::new(band, k, &self.weights);
                let left = factors(scaling.left, gain, first);
                let bins = &binned.bins[first..];
                if at_vertices {
                    inner::slice_own_bin::<W>(runs, left, table, bins, out);
                } else {
                    let here = Binned { bins, ..binned };
                    inner::slice_bins::<W>(runs, left, table, here, range.clone(), out);
                }
            }
        });
    }
}
