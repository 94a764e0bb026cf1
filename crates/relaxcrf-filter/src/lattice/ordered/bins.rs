//! The lattice with one channel per bin: what the ordered filter of the LP and energies of labellings use.

use std::ops::Range;

use rayon::prelude::*;

use super::super::Lattice;
use super::super::kernels;
use super::super::simplices::Runs;
use crate::blocks::{POINTS_PER_BLOCK, points_per_band};
use crate::operator::{Direction, Factors, Scaling, Workspace};
use crate::ordered::Binned;

impl Lattice {
    /// Adds to `out` what the bins of `range` (at most W) contribute.
    pub(in crate::lattice) fn run_bins<const W: usize>(
        &self,
        binned: Binned,
        range: Range<usize>,
        scaling: Scaling,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) {
        let size = self.rows * W;
        workspace.first.resize(size.max(workspace.first.len()), 0.0);
        let table = &mut workspace.first[..size];
        // A block's rows may be wider than the block: bins beyond it belong to the next one.
        self.fill(W, table, |band, rows| {
            for (k, first) in band.points.clone().step_by(POINTS_PER_BLOCK).enumerate() {
                let runs = Runs::new(band, k, &self.weights);
                let right = Factors::from_point(scaling.right, 1.0, first);
                kernels::splat_bins::<W>(runs, right, &binned.bins[first..], range.start, rows);
            }
        });
        let gain =
            scaling.gain * self.blur_table(W, self.order(Direction::Forward), table, &mut workspace.second);

        // Weighing the bins at the vertices costs the square of their number there, at the points only the number.
        let at_vertices = range.len() == binned.count && self.rows * binned.count <= 8 * self.points;
        if at_vertices {
            let mut turned = vec![0.0f32; binned.count * W];
            for (h, row) in turned.chunks_exact_mut(W).enumerate() {
                for (own, weight) in row[..binned.count].iter_mut().enumerate() {
                    *weight = binned.table[own * binned.count + h];
                }
            }
            table.par_chunks_mut(1024 * W).for_each(|rows| kernels::weigh_bins::<W>(rows, &turned));
        }
        let table = &*table;
        out.par_chunks_mut(points_per_band(self.points)).zip(&self.bands).for_each(|(out, band)| {
            let table = &table[band.rows.start * W..band.rows.end * W];
            for (k, out) in out.chunks_mut(POINTS_PER_BLOCK).enumerate() {
                let first = band.points.start + k * POINTS_PER_BLOCK;
                let runs = Runs::new(band, k, &self.weights);
                let left = Factors::from_point(scaling.left, gain, first);
                let bins = &binned.bins[first..];
                if at_vertices {
                    kernels::slice_own_bin::<W>(runs, left, table, bins, out);
                } else {
                    let here = Binned { bins, ..binned };
                    kernels::slice_bins::<W>(runs, left, table, here, range.clone(), out);
                }
            }
        });
    }
}
