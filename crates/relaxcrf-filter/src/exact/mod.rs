//! The Gaussian sum itself, over all pairs of points: the oracle that every other filter is measured by.
//!
//! The cost is O(N²), but with a fast exponential and with blocks of points skipped where the kernel is
//! below single precision, so that images of a hundred thousand pixels are a matter of seconds.

mod blocks;
mod kernel;
mod sums;

use crate::error::Result;
use crate::operator::{Direction, Operator, Scaling, Workspace, check_features, check_sizes, write_row};
use crate::ordered::{Binned, Ordered};
use blocks::{Blocks, gather};
use kernel::{WIDTH, dot, gaussian, kernel_values};
use rayon::prelude::*;
use sums::{BinPairs, Channels, MAX_DIMS, Signs, Weights, all_pairs};

/// Targets per task where sources and targets are lists.
const TARGETS_PER_TASK: usize = 32;

/// The exact Gaussian filter, `K_ab = exp(-|f_a - f_b|² / 2)`.
///
/// Pairs more than 7.5 standard deviations apart (weight below 7e-13) may be left out. Sums of non-negative
/// terms have a relative error of about 1e-6 at most.
#[derive(Debug)]
pub struct Exact {
    blocks: Blocks,
}

impl Exact {
    /// The filter on N points with `dims` features each, row-major.
    pub fn new(features: Vec<f32>, dims: usize) -> Result<Self> {
        check_features(&features, dims, MAX_DIMS, "exact")?;
        Ok(Self { blocks: Blocks::new(&features, dims) })
    }

    /// `(K·1)_a` for a few points only, at a cost of O(N) each.
    ///
    /// # Panics
    /// If a point does not exist.
    pub fn row_sums_at(&self, points: &[u32]) -> Vec<f64> {
        let blocks = &self.blocks;
        let sum_of = |&point: &u32| {
            let at = self.coordinates(point);
            let at = &at[..blocks.dims()];
            let bounds: Vec<(f32, f32)> = at.iter().map(|&x| (x, x)).collect();
            let mut kernel = [0.0; WIDTH];
            let mut sum = 0.0;
            for sources in (0..blocks.count()).filter(|&s| !blocks.is_far(s, &bounds)) {
                kernel_values(blocks.coordinates(sources), at, &mut kernel);
                sum += kernel[..blocks.filled(sources)].iter().map(|&k| f64::from(k)).sum::<f64>();
            }
            sum
        };
        points.par_iter().map(sum_of).collect()
    }

    /// A point's coordinates, in the front of the array.
    fn coordinates(&self, point: u32) -> [f32; MAX_DIMS] {
        let position = self.blocks.position(point as usize);
        let mut at = [0.0; MAX_DIMS];
        for (k, x) in at[..self.blocks.dims()].iter_mut().enumerate() {
            *x = self.blocks.coordinate(position, k);
        }
        at
    }

    /// Runs the sums and writes them, scaled, in the points' own order.
    fn write_sums<W: Weights>(&self, weights: &W, scaling: Scaling, out: &mut [f32], sums: &mut Vec<f32>) {
        let columns = weights.columns();
        sums.clear();
        sums.resize(self.blocks.count() * WIDTH * columns, 0.0);
        all_pairs(&self.blocks, weights, sums);
        out.par_chunks_mut(WIDTH * columns).enumerate().for_each(|(chunk, out)| {
            for (i, row) in out.chunks_exact_mut(columns).enumerate() {
                let a = chunk * WIDTH + i;
                let from = &sums[self.blocks.position(a) * columns..][..columns];
                write_row(row, from, scaling.out(a), scaling.add);
            }
        });
    }
}

impl Operator for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn points(&self) -> usize {
        self.blocks.points()
    }

    fn is_symmetric(&self) -> bool {
        true
    }

    fn apply(
        &self,
        _direction: Direction,
        input: &[f32],
        channels: usize,
        scaling: Scaling,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) {
        check_sizes(self.points(), channels, input.len(), out.len(), &scaling);
        if out.is_empty() {
            return;
        }
        let weights = Channels::new(&self.blocks, input, channels, &scaling, &mut workspace.first);
        self.write_sums(&weights, scaling, out, &mut workspace.second);
    }

    fn diagonal(&self) -> Vec<f32> {
        vec![1.0; self.points()]
    }

    fn workspace_bytes(&self, channels: usize) -> u64 {
        2 * 4 * (self.blocks.count() * WIDTH * channels) as u64
    }

    fn subset(&self, points: &[u32]) -> Option<Box<dyn Operator>> {
        let dims = self.blocks.dims();
        let features = points.iter().flat_map(|&a| self.coordinates(a).into_iter().take(dims)).collect();
        Some(Box::new(Self::new(features, dims).ok()?))
    }

    fn ordered(&self) -> Option<&dyn Ordered> {
        Some(self)
    }
}

impl Ordered for Exact {
    fn apply_binned(&self, binned: Binned, scaling: Scaling, out: &mut [f32], workspace: &mut Workspace) {
        binned.check(self.points());
        check_sizes(self.points(), 1, out.len(), out.len(), &scaling);
        let weights = BinPairs::new(&self.blocks, binned, &scaling);
        self.write_sums(&weights, scaling, out, &mut workspace.second);
    }

    fn apply_ordered(
        &self,
        values: &[f32],
        channels: usize,
        scaling: Scaling,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) {
        check_sizes(self.points(), channels, values.len(), out.len(), &scaling);
        if out.is_empty() {
            return;
        }
        let buffers = (&mut workspace.first, &mut workspace.third);
        let weights = Signs::new(&self.blocks, values, channels, &scaling, buffers);
        self.write_sums(&weights, scaling, out, &mut workspace.second);
    }

    fn apply_between(
        &self,
        sources: &[u32],
        targets: &[u32],
        scaling: Scaling,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) {
        let dims = self.blocks.dims();
        let place = |a: u32, k: usize| self.blocks.coordinate(self.blocks.position(a as usize), k);
        let coordinates = gather(sources, dims, place);
        let right = &mut workspace.first;
        right.clear();
        right.extend(sources.iter().map(|&b| scaling.input(b as usize)));
        right.resize(sources.len().next_multiple_of(WIDTH), 0.0);
        let sums = &mut workspace.second;
        sums.clear();
        sums.resize(targets.len(), 0.0);
        let tasks = sums.par_chunks_mut(TARGETS_PER_TASK).zip(targets.par_chunks(TARGETS_PER_TASK));
        tasks.for_each(|(sums, targets)| {
            let mut kernel = [0.0; WIDTH];
            for (sum, &a) in sums.iter_mut().zip(targets) {
                let at = self.coordinates(a);
                let blocks = coordinates.chunks_exact(WIDTH * dims).zip(right.chunks_exact(WIDTH));
                let total: f64 = blocks
                    .map(|(block, right)| {
                        kernel_values(block, &at[..dims], &mut kernel);
                        dot(&kernel, right)
                    })
                    .sum();
                *sum = total as f32;
            }
        });
        for (&sum, &a) in sums.iter().zip(targets) {
            out[a as usize] += scaling.out(a as usize) * sum;
        }
    }

    fn pair(&self, a: u32, b: u32) -> Option<f32> {
        let (p, q) = (self.blocks.position(a as usize), self.blocks.position(b as usize));
        let squared = (0..self.blocks.dims())
            .map(|k| self.blocks.coordinate(p, k) - self.blocks.coordinate(q, k))
            .map(|difference| difference * difference)
            .sum();
        Some(gaussian(squared))
    }
}

#[cfg(test)]
mod tests;
