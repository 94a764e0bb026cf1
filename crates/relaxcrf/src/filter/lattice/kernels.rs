//! The inner loops, on rows of `W` floats. Plain safe code; `simd.rs` compiles each a second time for AVX2.
//!
//! There is no fused multiply-add in them, so both versions give the same bits.

use crate::filter::{Binned, Scaling};

/// A block of channels of a row-major matrix.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    /// Values per row of the whole matrix.
    pub channels: usize,
    /// First channel of the block.
    pub first: usize,
    /// Channels in the block, at most the row width of the kernels.
    pub width: usize,
}

/// Lattice vertices and weights of a range of pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Corners<'a> {
    /// Vertices per pixel: d+1.
    pub per_pixel: usize,
    pub ids: &'a [u32],
    pub weights: &'a [f32],
}

/// For every vertex the pixels that touch it: the transpose of [`Corners`].
#[derive(Debug)]
pub(super) struct Touching {
    pub starts: Vec<usize>,
    pub pixels: Vec<u32>,
    pub weights: Vec<f32>,
}

#[inline(always)]
fn read_row<const W: usize>(x: &[f32], block: Block, row: usize, scale: f32) -> [f32; W] {
    let mut out = [0.0; W];
    let at = row * block.channels + block.first;
    for (o, &v) in out[..block.width].iter_mut().zip(&x[at..at + block.width]) {
        *o = v * scale;
    }
    out
}

/// Adds every pixel's row to the rows of its vertices.
#[inline(always)]
pub(super) fn scatter<const W: usize>(
    corners: Corners,
    x: &[f32],
    block: Block,
    scaling: Scaling,
    table: &mut [f32],
) {
    let m = corners.per_pixel;
    for (a, (ids, weights)) in corners.ids.chunks_exact(m).zip(corners.weights.chunks_exact(m)).enumerate() {
        let value = read_row::<W>(x, block, a, scaling.input(a));
        for (&id, &w) in ids.iter().zip(weights) {
            let row = &mut table[id as usize * W..id as usize * W + W];
            for c in 0..W {
                row[c] += w * value[c];
            }
        }
    }
}

/// The same sums as [`scatter`], in the same order, collected vertex by vertex.
#[inline(always)]
pub(super) fn gather<const W: usize>(
    touching: &Touching,
    first_vertex: usize,
    x: &[f32],
    block: Block,
    scaling: Scaling,
    rows: &mut [f32],
) {
    for (v, row) in rows.chunks_exact_mut(W).enumerate() {
        let range = touching.starts[first_vertex + v]..touching.starts[first_vertex + v + 1];
        let mut sum = [0.0; W];
        for (&a, &w) in touching.pixels[range.clone()].iter().zip(&touching.weights[range]) {
            let value = read_row::<W>(x, block, a as usize, scaling.input(a as usize));
            for c in 0..W {
                sum[c] += w * value[c];
            }
        }
        row.copy_from_slice(&sum);
    }
}

/// Adds one to the channel of every pixel's bin, for bins `first .. first + W`.
#[inline(always)]
pub(super) fn scatter_bins<const W: usize>(
    corners: Corners,
    bins: &[u16],
    first: usize,
    scaling: Scaling,
    table: &mut [f32],
) {
    let m = corners.per_pixel;
    for (a, (ids, weights)) in corners.ids.chunks_exact(m).zip(corners.weights.chunks_exact(m)).enumerate() {
        let bin = usize::from(bins[a]).wrapping_sub(first);
        if bin < W {
            let value = scaling.input(a);
            for (&id, &w) in ids.iter().zip(weights) {
                table[id as usize * W + bin] += w * value;
            }
        }
    }
}

/// The same sums as [`scatter_bins`], vertex by vertex.
#[inline(always)]
pub(super) fn gather_bins<const W: usize>(
    touching: &Touching,
    first_vertex: usize,
    bins: &[u16],
    first: usize,
    scaling: Scaling,
    rows: &mut [f32],
) {
    for (v, row) in rows.chunks_exact_mut(W).enumerate() {
        let range = touching.starts[first_vertex + v]..touching.starts[first_vertex + v + 1];
        row.fill(0.0);
        for (&a, &w) in touching.pixels[range.clone()].iter().zip(&touching.weights[range]) {
            let bin = usize::from(bins[a as usize]).wrapping_sub(first);
            if bin < W {
                row[bin] += w * scaling.input(a as usize);
            }
        }
    }
}

#[inline(always)]
fn interpolate<const W: usize>(table: &[f32], ids: &[u32], weights: &[f32]) -> [f32; W] {
    let mut sum = [0.0; W];
    for (&id, &w) in ids.iter().zip(weights) {
        let row = &table[id as usize * W..id as usize * W + W];
        for c in 0..W {
            sum[c] += w * row[c];
        }
    }
    sum
}

/// Reads the blurred table back at the pixels `first_pixel ..`, one output row each.
#[inline(always)]
pub(super) fn slice<const W: usize>(
    corners: Corners,
    first_pixel: usize,
    table: &[f32],
    block: Block,
    scaling: Scaling,
    out: &mut [f32],
) {
    let m = corners.per_pixel;
    for (k, row) in out.chunks_exact_mut(block.channels).enumerate() {
        let a = first_pixel + k;
        let sum = interpolate::<W>(table, &corners.ids[a * m..a * m + m], &corners.weights[a * m..a * m + m]);
        let scale = scaling.out(a);
        let target = &mut row[block.first..block.first + block.width];
        if scaling.add {
            for (o, &s) in target.iter_mut().zip(&sum) {
                *o += scale * s;
            }
        } else {
            for (o, &s) in target.iter_mut().zip(&sum) {
                *o = scale * s;
            }
        }
    }
}

/// Reads the bins of `range` (at most W) back and adds them to `out` with the weights of each pixel's own bin.
#[inline(always)]
pub(super) fn slice_bins<const W: usize>(
    corners: Corners,
    first_pixel: usize,
    table: &[f32],
    binned: Binned,
    range: std::ops::Range<usize>,
    scaling: Scaling,
    out: &mut [f32],
) {
    let m = corners.per_pixel;
    for (k, o) in out.iter_mut().enumerate() {
        let a = first_pixel + k;
        let sum = interpolate::<W>(table, &corners.ids[a * m..a * m + m], &corners.weights[a * m..a * m + m]);
        let row = usize::from(binned.bins[a]) * binned.count;
        let weights = &binned.table[row + range.start..row + range.end];
        let mut total = 0.0;
        for (&s, &w) in sum.iter().zip(weights) {
            total += s * w;
        }
        *o += scaling.out(a) * total;
    }
}
