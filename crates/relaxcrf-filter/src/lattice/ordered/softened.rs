//! The lattice with one channel per knot of a softened order: see [`Layers`].
//!
//! A point adds to the two knots round its value, or to none if that is 0, and reads two channels back:
//! splatting and slicing cost no more than for one or two channels, only the blur sees all of them.

use rayon::prelude::*;

use super::super::Lattice;
use super::super::simplices::Runs;
use crate::blocks::{POINTS_PER_BLOCK, points_per_band};
use crate::operator::{Direction, Factors, Scaling, Workspace};
use crate::ordered::Layers;

/// Vertex rows per parallel task.
const ROWS_PER_TASK: usize = 1024;

impl Lattice {
    /// [`Operator::apply_layers`](crate::Operator::apply_layers) with rows of W > `layers.cells`.
    pub(in crate::lattice) fn run_layers<const W: usize>(
        &self,
        layers: Layers,
        scaling: Scaling,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) {
        let size = self.rows * W;
        workspace.first.resize(size.max(workspace.first.len()), 0.0);
        let table = &mut workspace.first[..size];
        self.fill(W, table, |band, rows| {
            for (k, first) in band.points.clone().step_by(POINTS_PER_BLOCK).enumerate() {
                let runs = Runs::new(band, k, &self.weights);
                splat::<W>(runs, Factors::from_point(scaling.right, 1.0, first), layers, first, rows);
            }
        });
        let gain =
            scaling.gain * self.blur_table(W, self.order(Direction::Forward), table, &mut workspace.second);
        table.par_chunks_mut(ROWS_PER_TASK * W).for_each(|rows| add_up::<W>(rows, layers.cells));
        let table = &*table;
        out.par_chunks_mut(points_per_band(self.points)).zip(&self.bands).for_each(|(out, band)| {
            let table = &table[band.rows.start * W..band.rows.end * W];
            for (k, out) in out.chunks_mut(POINTS_PER_BLOCK).enumerate() {
                let first = band.points.start + k * POINTS_PER_BLOCK;
                let runs = Runs::new(band, k, &self.weights);
                slice::<W>(
                    runs,
                    Factors::from_point(scaling.left, gain, first),
                    layers,
                    first,
                    table,
                    scaling.add,
                    out,
                );
            }
        });
    }
}

/// Adds every point's value to the knots 1, 2, ... on both sides of it; channel 0 stays empty.
fn splat<const W: usize>(runs: Runs, factors: Factors, layers: Layers, first: usize, table: &mut [f32]) {
    let m = runs.vertices();
    let mut start = 0;
    for (ids, &end) in runs.ids().chunks_exact(m).zip(runs.ends()) {
        let end = usize::from(end);
        for p in start..end {
            let value = layers.values[first + p];
            if value.is_nan() || value <= 0.0 {
                continue;
            }
            let (part, place) = layers.place(value);
            let (low, high) = (factors.of(p) * (1.0 - place), factors.of(p) * place);
            for (&id, &w) in ids.iter().zip(&runs.weights[p * m..p * m + m]) {
                let knots = &mut table[id as usize * W + part..][..2];
                // What the lowest knot gets is never read.
                knots[0] += w * low;
                knots[1] += w * high;
            }
        }
        start = end;
    }
}

/// Turns the knots' sums into `ramp_k + ramp_k+1` for each part k, without the ramp before the first part.
fn add_up<const W: usize>(rows: &mut [f32], cells: usize) {
    for row in rows.chunks_exact_mut(W) {
        let mut above = 0.0;
        for k in (1..=cells).rev() {
            let ramp = above + row[k];
            row[k] = above + ramp;
            above = ramp;
        }
        row[0] = above;
    }
}

/// Reads the sums of each point's own part back, weighted by its place there.
fn slice<const W: usize>(
    runs: Runs,
    factors: Factors,
    layers: Layers,
    first: usize,
    table: &[f32],
    add: bool,
    out: &mut [f32],
) {
    let m = runs.vertices();
    let mut start = 0;
    for (ids, &end) in runs.ids().chunks_exact(m).zip(runs.ends()) {
        let end = usize::from(end);
        for (p, out) in out.iter_mut().enumerate().take(end).skip(start) {
            let (part, place) = layers.place(layers.values[first + p]);
            let (mut low, mut high) = (0.0, 0.0);
            for (&id, &w) in ids.iter().zip(&runs.weights[p * m..p * m + m]) {
                let sums = &table[id as usize * W + part..][..2];
                low += w * sums[0];
                high += w * sums[1];
            }
            let sum = factors.of(p) * ((1.0 - place) * low + place * high);
            *out = if add { *out + sum } else { sum };
        }
        start = end;
    }
}
