//! Sums over all pairs of points, block by block.
//!
//! What is summed against the kernel differs (channels, a table of bins, the sign of an order), so that part
//! is a small trait; the walk over pairs of blocks is written once.

use super::blocks::Blocks;
use super::kernel::{WIDTH, dot, dot_signs, kernel_values};
use crate::{Binned, Scaling};
use rayon::prelude::*;

/// Most feature dimensions: a target's coordinates live in an array of this size.
pub(crate) const MAX_DIMS: usize = 64;

/// What each target sums the kernel values of a source block against.
pub(crate) trait Weights: Sync {
    /// Sums per target.
    fn columns(&self) -> usize;

    /// Work that all targets of block `targets` share for the sources of block `sources`.
    fn prepare(&self, _targets: usize, _sources: usize, _shared: &mut Vec<f32>) {}

    /// Adds to `sums` what the sources of one block give to the target at a position.
    fn add(&self, target: usize, sources: usize, shared: &[f32], kernel: &[f32; WIDTH], sums: &mut [f64]);
}

/// Fills `out` (positions x columns, padded to whole blocks) with the sums over all sources.
///
/// Each block of targets is one task that walks the sources in order: the thread count never enters.
pub(crate) fn all_pairs<W: Weights>(blocks: &Blocks, weights: &W, out: &mut [f32]) {
    let columns = weights.columns();
    out.par_chunks_mut(WIDTH * columns).enumerate().for_each(|(targets, out)| {
        let mut sums = vec![0.0_f64; WIDTH * columns];
        let mut shared = Vec::new();
        for sources in 0..blocks.count() {
            if !blocks.is_far(sources, blocks.bounds(targets)) {
                weights.prepare(targets, sources, &mut shared);
                block_pairs(blocks, weights, targets, sources, &shared, &mut sums);
            }
        }
        for (o, &s) in out.iter_mut().zip(&sums) {
            *o = s as f32;
        }
    });
}

/// Adds what one block of sources gives to one block of targets: the hot loop.
#[inline(always)]
pub(crate) fn block_pairs<W: Weights>(
    blocks: &Blocks,
    weights: &W,
    targets: usize,
    sources: usize,
    shared: &[f32],
    sums: &mut [f64],
) {
    let source = blocks.coordinates(sources);
    let mut kernel = [0.0; WIDTH];
    let mut target = [0.0; MAX_DIMS];
    for (t, sums) in sums.chunks_exact_mut(weights.columns()).take(blocks.filled(targets)).enumerate() {
        let position = targets * WIDTH + t;
        for (k, x) in target[..blocks.dims()].iter_mut().enumerate() {
            *x = blocks.coordinate(position, k);
        }
        kernel_values(source, &target[..blocks.dims()], &mut kernel);
        weights.add(position, sources, shared, &kernel, sums);
    }
}

/// Plain channels: blocks x columns x `WIDTH` values, zero where the last block is filled up.
pub(crate) struct Channels<'a> {
    columns: usize,
    values: &'a [f32],
}

impl<'a> Channels<'a> {
    /// Brings row-major channels into block order, times `right`, using `buffer`.
    pub(crate) fn new(
        blocks: &Blocks,
        input: &[f32],
        columns: usize,
        scaling: &Scaling,
        buffer: &'a mut Vec<f32>,
    ) -> Self {
        pack(blocks, columns, buffer, |a, c| input[a * columns + c] * scaling.input(a));
        Self { columns, values: buffer }
    }
}

impl Weights for Channels<'_> {
    fn columns(&self) -> usize {
        self.columns
    }

    #[inline(always)]
    fn add(&self, _target: usize, sources: usize, _shared: &[f32], kernel: &[f32; WIDTH], sums: &mut [f64]) {
        let block = &self.values[sources * self.columns * WIDTH..(sources + 1) * self.columns * WIDTH];
        for (sum, weights) in sums.iter_mut().zip(block.chunks_exact(WIDTH)) {
            *sum += dot(kernel, weights);
        }
    }
}

/// A table over pairs of bins. Targets of one block that share a bin share its row of the table, looked
/// up once per source block.
pub(crate) struct BinPairs<'a> {
    binned: Binned<'a>,
    /// Bin and right factor at each position, zero where the last block is filled up.
    bins: Vec<u16>,
    right: Vec<f32>,
    /// The distinct bins of each block, and for each position the place of its bin among them.
    distinct: Vec<Vec<u16>>,
    slot: Vec<u8>,
}

// A block's distinct bins are counted in a byte.
const _: () = assert!(WIDTH <= 256);

impl<'a> BinPairs<'a> {
    pub(crate) fn new(blocks: &Blocks, binned: Binned<'a>, scaling: &Scaling) -> Self {
        let padded = blocks.count() * WIDTH;
        let mut bins: Vec<u16> = blocks.order().iter().map(|&a| binned.bins[a as usize]).collect();
        let mut right: Vec<f32> = blocks.order().iter().map(|&a| scaling.input(a as usize)).collect();
        bins.resize(padded, bins.last().copied().unwrap_or(0));
        right.resize(padded, 0.0);
        let mut distinct = Vec::with_capacity(blocks.count());
        let mut slot = Vec::with_capacity(padded);
        for block in bins.chunks_exact(WIDTH) {
            let mut here = block.to_vec();
            here.sort_unstable();
            here.dedup();
            slot.extend(block.iter().map(|bin| here.partition_point(|other| other < bin) as u8));
            distinct.push(here);
        }
        Self { binned, bins, right, distinct, slot }
    }
}

impl Weights for BinPairs<'_> {
    fn columns(&self) -> usize {
        1
    }

    fn prepare(&self, targets: usize, sources: usize, shared: &mut Vec<f32>) {
        let here = sources * WIDTH..(sources + 1) * WIDTH;
        shared.clear();
        for &bin in &self.distinct[targets] {
            let row = &self.binned.table[usize::from(bin) * self.binned.count..][..self.binned.count];
            let pairs = self.bins[here.clone()].iter().zip(&self.right[here.clone()]);
            shared.extend(pairs.map(|(&b, &r)| row[usize::from(b)] * r));
        }
    }

    #[inline(always)]
    fn add(&self, target: usize, _sources: usize, shared: &[f32], kernel: &[f32; WIDTH], sums: &mut [f64]) {
        let row = usize::from(self.slot[target]) * WIDTH;
        sums[0] += dot(kernel, &shared[row..row + WIDTH]);
    }
}

/// The sign of `value_a - value_b`, per channel.
pub(crate) struct Signs<'a> {
    columns: usize,
    values: &'a [f32],
    right: &'a [f32],
}

impl<'a> Signs<'a> {
    /// Brings row-major values and the right factors into block order, using two buffers.
    pub(crate) fn new(
        blocks: &Blocks,
        values: &[f32],
        columns: usize,
        scaling: &Scaling,
        buffers: (&'a mut Vec<f32>, &'a mut Vec<f32>),
    ) -> Self {
        pack(blocks, columns, buffers.0, |a, c| values[a * columns + c]);
        pack(blocks, 1, buffers.1, |a, _| scaling.input(a));
        Self { columns, values: buffers.0, right: buffers.1 }
    }
}

impl Weights for Signs<'_> {
    fn columns(&self) -> usize {
        self.columns
    }

    #[inline(always)]
    fn add(&self, target: usize, sources: usize, _shared: &[f32], kernel: &[f32; WIDTH], sums: &mut [f64]) {
        let size = self.columns * WIDTH;
        let right = &self.right[sources * WIDTH..(sources + 1) * WIDTH];
        let own = &self.values[target / WIDTH * size..];
        let block = &self.values[sources * size..(sources + 1) * size];
        for (c, (sum, values)) in sums.iter_mut().zip(block.chunks_exact(WIDTH)).enumerate() {
            *sum += dot_signs(kernel, right, values, own[c * WIDTH + target % WIDTH]);
        }
    }
}

/// Blocks x columns x `WIDTH` copies of `value(point, column)`, zero where the last block is filled up.
fn pack(blocks: &Blocks, columns: usize, buffer: &mut Vec<f32>, value: impl Fn(usize, usize) -> f32 + Sync) {
    buffer.clear();
    buffer.resize(blocks.count() * WIDTH * columns, 0.0);
    buffer.par_chunks_mut(WIDTH * columns).zip(blocks.order().par_chunks(WIDTH)).for_each(|(out, points)| {
        for (c, row) in out.chunks_exact_mut(WIDTH).enumerate() {
            for (x, &a) in row.iter_mut().zip(points) {
                *x = value(a as usize, c);
            }
        }
    });
}
