//! Applying the lattice: splat into vertex rows, blur them, slice back, block of channels by block.

use super::kernels::Block;
use super::simd::{self, Source};
use super::{Blur, Lattice};
use crate::filter::{Binned, Direction, Filter, Scaling, Scratch, between_by_indicator};

/// Bytes of vertex rows that a block of channels may take before it is cut narrower: about what stays in a
/// shared cache. Blocks are never narrower than [`NARROWEST`].
const BLOCK_BYTES: usize = 8 << 20;
const NARROWEST: usize = 8;
const WIDEST: usize = 32;

/// Calls `$body` with the constant `$w` set to the smallest row width that holds `$width` channels.
macro_rules! with_width {
    ($width:expr, $w:ident => $body:expr) => {
        match $width {
            0..=1 => {
                const $w: usize = 1;
                $body
            }
            2 => {
                const $w: usize = 2;
                $body
            }
            3..=4 => {
                const $w: usize = 4;
                $body
            }
            5..=8 => {
                const $w: usize = 8;
                $body
            }
            9..=16 => {
                const $w: usize = 16;
                $body
            }
            17..=24 => {
                const $w: usize = 24;
                $body
            }
            _ => {
                const $w: usize = 32;
                $body
            }
        }
    };
}

impl Lattice {
    /// Channels per block: all of them if the vertex rows stay small, else a multiple of eight.
    fn block_width(&self, channels: usize) -> usize {
        let fitting = (BLOCK_BYTES / (4 * self.vertices.max(1)) / 8 * 8).clamp(NARROWEST, WIDEST);
        let blocks = channels.div_ceil(fitting);
        channels.div_ceil(blocks.max(1)).next_multiple_of(8).min(fitting).min(channels.max(1))
    }

    /// Splats one block and blurs it; leaves the result in `scratch.first`, to be scaled by the returned factor.
    fn splat_and_blur<const W: usize>(
        &self,
        direction: Option<Direction>,
        source: Source,
        scaling: Scaling,
        scratch: &mut Scratch,
    ) -> f32 {
        let size = self.vertices * W;
        scratch.first.resize(size.max(scratch.first.len()), 0.0);
        let table = &mut scratch.first[..size];
        let touching = (rayon::current_num_threads() > 1).then(|| self.touching());
        simd::splat::<W>(self.corners(), touching, source, scaling, table);
        match direction {
            Some(Direction::Forward) => self.axes.iter().for_each(|axis| simd::blur::<W>(axis, table)),
            Some(Direction::Transposed) => {
                self.axes.iter().rev().for_each(|axis| simd::blur::<W>(axis, table))
            }
            None => {
                scratch.second.resize(size.max(scratch.second.len()), 0.0);
                let other = &mut scratch.second[..size];
                other.copy_from_slice(table);
                self.axes.iter().for_each(|axis| simd::blur::<W>(axis, table));
                self.axes.iter().rev().for_each(|axis| simd::blur::<W>(axis, other));
                simd::add(table, other);
                return 0.5 * self.alpha();
            }
        }
        self.alpha()
    }

    fn run(
        &self,
        direction: Option<Direction>,
        input: &[f32],
        channels: usize,
        scaling: Scaling,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) {
        debug_assert_eq!(input.len(), self.points * channels);
        debug_assert_eq!(out.len(), self.points * channels);
        let step = self.block_width(channels).max(1);
        for first in (0..channels).step_by(step) {
            let block = Block { channels, first, width: step.min(channels - first) };
            with_width!(block.width, W => {
                let factor = self.splat_and_blur::<W>(direction, Source::Values(input, block), scaling, scratch);
                let scaling = Scaling { gain: scaling.gain * factor, ..scaling };
                simd::slice_values::<W>(self.corners(), &scratch.first[..self.vertices * W], block, scaling, out);
            });
        }
    }
}

impl Filter for Lattice {
    fn name(&self) -> &'static str {
        match self.blur {
            Blur::Classic => "lattice-classic",
            Blur::Symmetric => "lattice",
        }
    }

    fn len(&self) -> usize {
        self.points
    }

    fn is_symmetric(&self) -> bool {
        self.blur == Blur::Symmetric
    }

    fn apply(
        &self,
        direction: Direction,
        input: &[f32],
        channels: usize,
        scaling: Scaling,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) {
        let direction = (self.blur == Blur::Classic).then_some(direction);
        self.run(direction, input, channels, scaling, out, scratch);
    }

    fn apply_binned(&self, binned: Binned, scaling: Scaling, out: &mut [f32], scratch: &mut Scratch) {
        debug_assert_eq!(binned.bins.len(), self.points);
        if !scaling.add {
            out.fill(0.0);
        }
        let direction = (self.blur == Blur::Classic).then_some(Direction::Forward);
        let step = self.block_width(binned.count).max(1);
        for first in (0..binned.count).step_by(step) {
            // A block's rows may be wider than the block: bins beyond it belong to the next one.
            with_width!(step.min(binned.count - first), W => {
                let source = Source::Bins(binned.bins, first);
                let factor = self.splat_and_blur::<W>(direction, source, scaling, scratch);
                let scaling = Scaling { gain: scaling.gain * factor, ..scaling };
                let table = &scratch.first[..self.vertices * W];
                let last = (first + step).min(binned.count);
                simd::slice_binned::<W>(self.corners(), table, binned, first..last, scaling, out);
            });
        }
    }

    fn apply_between(
        &self,
        sources: &[u32],
        targets: &[u32],
        scaling: Scaling,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) {
        if self.is_small(sources.len()) {
            self.between(sources, targets, scaling, out, &mut scratch.reach);
        } else {
            between_by_indicator(self, sources, targets, scaling, out, scratch);
        }
    }

    fn diagonal(&self) -> Vec<f32> {
        self.closed_form_diagonal()
    }

    fn normalizer(&self) -> Vec<f32> {
        // Of the classic operator for both kinds: published normalised figures are made with it.
        let ones = vec![1.0; self.points];
        let mut out = vec![0.0; self.points];
        self.run(Some(Direction::Forward), &ones, 1, Scaling::NONE, &mut out, &mut Scratch::new());
        out
    }

    fn size_hint(&self) -> usize {
        self.vertices
    }
}
