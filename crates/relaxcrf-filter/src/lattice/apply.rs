//! Applying the lattice: splat into vertex rows, blur them, slice back, block of channels by block.

use std::ops::Range;

use rayon::prelude::*;

use super::build::Band;
use super::kernels::{self, Exchange, MAX_ROW_WIDTH, row_width, with_width};
use super::simplices::Runs;
use super::{Blur, Lattice};
use crate::blocks::{POINTS_PER_BLOCK, points_per_band};
use crate::fused::Fused;
use crate::operator::{Direction, Factors, Operator, Scaling, Workspace};
use crate::ordered::{MAX_CELLS, Ordered};

/// Bytes of vertex rows that a block of channels may take before it is cut narrower: about what stays in a
/// shared cache. Blocks are never narrower than [`MIN_BLOCK_WIDTH`].
const MAX_BLOCK_BYTES: usize = 8 << 20;
const MIN_BLOCK_WIDTH: usize = 8;

/// Channels per block: all of them if the vertex rows stay small, else a multiple of eight.
fn block_width(rows: usize, channels: usize) -> usize {
    let fitting = (MAX_BLOCK_BYTES / (4 * rows.max(1)) / 8 * 8).clamp(MIN_BLOCK_WIDTH, MAX_ROW_WIDTH);
    let blocks = channels.div_ceil(fitting);
    channels.div_ceil(blocks.max(1)).next_multiple_of(8).min(fitting).min(channels.max(1))
}

/// Bytes of the buffers that applying a lattice with so many vertex rows takes.
pub fn workspace_bytes(rows: usize, channels: usize) -> usize {
    2 * 4 * rows * row_width(block_width(rows, channels))
}

/// The same for the layers of the softened order, which are never cut into blocks.
pub fn layer_bytes(rows: usize) -> usize {
    2 * 4 * rows * row_width(MAX_CELLS + 1)
}

impl Lattice {
    /// Channels per block.
    pub(super) fn block_width(&self, channels: usize) -> usize {
        block_width(self.rows, channels)
    }

    /// Each band with its rows, `width` wide, of a table.
    pub(super) fn split<'t>(&self, width: usize, mut table: &'t mut [f32]) -> Vec<(&Band, &'t mut [f32])> {
        self.bands
            .iter()
            .map(|band| {
                let (piece, rest) = std::mem::take(&mut table).split_at_mut(band.rows.len() * width);
                table = rest;
                (band, piece)
            })
            .collect()
    }

    /// Fills a table band by band.
    pub(super) fn fill(&self, width: usize, table: &mut [f32], splat: impl Fn(&Band, &mut [f32]) + Sync) {
        self.split(width, table).into_par_iter().for_each(|(band, rows)| {
            rows.fill(0.0);
            splat(band, rows);
        });
    }

    /// Brings a filled table's bands together, blurs it, and gives copies their values. The result is to be scaled by
    /// what is returned. `other` is used by the symmetric operator only.
    pub(super) fn blur_table(
        &self,
        width: usize,
        direction: Option<Direction>,
        table: &mut [f32],
        other: &mut Vec<f32>,
    ) -> f32 {
        with_width!(width, W => self.blur_rows::<W>(direction, table, other))
    }

    fn blur_rows<const W: usize>(
        &self,
        direction: Option<Direction>,
        table: &mut [f32],
        other: &mut Vec<f32>,
    ) -> f32 {
        let mut factor = self.alpha();
        kernels::exchange::<W>(&self.copies, Exchange::Gather, table);
        match direction {
            Some(Direction::Forward) => self.axes.iter().for_each(|axis| kernels::blur::<W>(axis, table)),
            Some(Direction::Transposed) => {
                self.axes.iter().rev().for_each(|axis| kernels::blur::<W>(axis, table))
            }
            None => {
                other.resize(table.len().max(other.len()), 0.0);
                let other = &mut other[..table.len()];
                other.copy_from_slice(table);
                self.axes.iter().for_each(|axis| kernels::blur::<W>(axis, table));
                self.axes.iter().rev().for_each(|axis| kernels::blur::<W>(axis, other));
                kernels::add_in_parallel(table, other);
                factor *= 0.5;
            }
        }
        kernels::exchange::<W>(&self.copies, Exchange::Spread, table);
        factor
    }

    /// What `blur_table` is to be told for an operator in the given direction.
    pub(super) fn order(&self, direction: Direction) -> Option<Direction> {
        (self.blur == Blur::Classic).then_some(direction)
    }

    fn run(
        &self,
        direction: Option<Direction>,
        input: &[f32],
        channels: usize,
        scaling: Scaling,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) {
        debug_assert_eq!(input.len(), self.points * channels);
        debug_assert_eq!(out.len(), self.points * channels);
        let step = self.block_width(channels).max(1);
        for first in (0..channels).step_by(step) {
            let block = first..(first + step).min(channels);
            self.run_block(direction, input, channels, block, scaling, out, workspace);
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn run_block(
        &self,
        direction: Option<Direction>,
        input: &[f32],
        channels: usize,
        block: Range<usize>,
        scaling: Scaling,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) {
        let width = row_width(block.len());
        let size = self.rows * width;
        workspace.first.resize(size.max(workspace.first.len()), 0.0);
        let table = &mut workspace.first[..size];
        self.fill(width, table, |band, rows| {
            for (k, first) in band.points.clone().step_by(POINTS_PER_BLOCK).enumerate() {
                let runs = Runs::new(band, k, &self.weights);
                let right = Factors::from_point(scaling.right, 1.0, first);
                let at = first * channels + block.start;
                let count = POINTS_PER_BLOCK.min(band.points.end - first);
                if at + (count - 1) * channels + width <= input.len() {
                    kernels::splat_block(width, runs, right, &input[at..], channels, rows);
                } else {
                    // The last rows of all: a full row would reach beyond the end.
                    let mut padded = [0.0f32; POINTS_PER_BLOCK * MAX_ROW_WIDTH];
                    for (to, from) in padded.chunks_exact_mut(width).zip(input[at..].chunks(channels)) {
                        let some = block.len().min(from.len());
                        to[..some].copy_from_slice(&from[..some]);
                    }
                    kernels::splat_block(width, runs, right, &padded, width, rows);
                }
            }
        });
        let gain = scaling.gain * self.blur_table(width, direction, table, &mut workspace.second);
        let table = &*table;
        out.par_chunks_mut(points_per_band(self.points) * channels).zip(&self.bands).for_each(
            |(out, band)| {
                let table = &table[band.rows.start * width..band.rows.end * width];
                let mut rows = [0.0f32; POINTS_PER_BLOCK * MAX_ROW_WIDTH];
                for (k, out) in out.chunks_mut(POINTS_PER_BLOCK * channels).enumerate() {
                    let runs = Runs::new(band, k, &self.weights);
                    let left =
                        Factors::from_point(scaling.left, gain, band.points.start + k * POINTS_PER_BLOCK);
                    kernels::slice_block(width, runs, left, table, &mut rows, width, false);
                    kernels::store(&rows, width, out, channels, block.clone(), scaling.add);
                }
            },
        );
    }
}

impl Operator for Lattice {
    fn name(&self) -> &'static str {
        match self.blur {
            Blur::Classic => "lattice-classic",
            Blur::Symmetric => "lattice",
        }
    }

    fn points(&self) -> usize {
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
        workspace: &mut Workspace,
    ) {
        self.run(self.order(direction), input, channels, scaling, out, workspace);
    }

    fn diagonal(&self) -> Vec<f32> {
        self.closed_form_diagonal()
    }

    fn normalizer(&self) -> Vec<f32> {
        // Of the classic operator for both kinds: published normalised figures are made with it.
        let ones = vec![1.0; self.points];
        let mut out = vec![0.0; self.points];
        self.run(Some(Direction::Forward), &ones, 1, Scaling::NONE, &mut out, &mut Workspace::new());
        out
    }

    fn workspace_bytes(&self, channels: usize) -> u64 {
        workspace_bytes(self.rows, channels) as u64
    }

    fn size_hint(&self) -> usize {
        self.vertices
    }

    fn subset(&self, points: &[u32]) -> Option<Box<dyn Operator>> {
        Some(Box::new(self.among(points)?))
    }

    fn ordered(&self) -> Option<&dyn Ordered> {
        Some(self)
    }

    fn fused(&self) -> Option<&dyn Fused> {
        Some(self)
    }
}
