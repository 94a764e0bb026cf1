//! The inner loops of the lattice, compiled for any processor and once more for AVX2.
//!
//! Whatever is dispatched here gives the same bits on every processor, because it has no fused operations, and the same
//! for any number of threads.

mod bins;
mod plain;
mod rows;
mod unchecked;

use std::ops::Range;

use rayon::prelude::*;

use super::build::{Embedding, Local, Memory, Packing, Word, locate_band};
use super::simplices::Runs;
use crate::operator::Factors;
use crate::ordered::Binned;
use crate::simd::{LANES, Register, dispatch};

pub(super) use self::rows::{Exchange, blur, exchange};

/// Rows per parallel task: tens of microseconds of work.
const ROWS_PER_TASK: usize = 2048;

/// Weights may be read this far beyond the last point's.
pub(super) const WEIGHT_PADDING: usize = 8;

/// Widest rows.
pub(crate) const MAX_ROW_WIDTH: usize = 32;

/// Calls `$body` with the constant `$w`, the smallest row width that holds `$width` channels.
macro_rules! with_width {
    ($width:expr, $w:ident => $body:expr) => {
        match $width {
            0..=1 => with_width!(@ 1, $w, $body),
            2..=4 => with_width!(@ 4, $w, $body),
            5..=8 => with_width!(@ 8, $w, $body),
            9..=16 => with_width!(@ 16, $w, $body),
            17..=24 => with_width!(@ 24, $w, $body),
            _ => with_width!(@ 32, $w, $body),
        }
    };
    (@ $value:literal, $w:ident, $body:expr) => {{
        const $w: usize = $value;
        $body
    }};
}
pub(super) use with_width;

/// The row width for so many channels.
pub(crate) fn row_width(channels: usize) -> usize {
    with_width!(channels, W => W)
}

dispatch! {
    /// Locates the points of one band.
    pub(super) fn locate[W: Word][W](
        features: &[f32], embedding: &Embedding, packing: &Packing, weights: &mut [f32], memory: &mut Memory<W>,
    ) -> Option<Local<W>> = locate_band
}
dispatch! {
    /// Adds the rows of one block, `width` wide and `stride` apart, to a band's piece of a table. `rows` may be longer
    /// than the block.
    pub(super) fn splat_block(
        width: usize, runs: Runs, factors: Factors, rows: &[f32], stride: usize, table: &mut [f32],
    ) = plain::splat_block::<[f32; LANES]>, plain::splat_block::<Register>
}
dispatch! {
    /// Interpolates one block into rows, `width` wide and `stride` apart, or adds to them.
    pub(super) fn slice_block(
        width: usize, runs: Runs, factors: Factors, table: &[f32], rows: &mut [f32], stride: usize, add: bool,
    ) = plain::slice_block
}
dispatch! {
    /// Stores rows of `width`, or adds them, to a block of the channels of `out`.
    pub(super) fn store(
        rows: &[f32], width: usize, out: &mut [f32], channels: usize, block: Range<usize>, add: bool,
    ) = plain::store
}
dispatch! {
    /// Adds 1 to the channel of each point's bin, for bins from `first` on.
    pub(super) fn splat_bins[const W: usize][W](
        runs: Runs, factors: Factors, bins: &[u16], first: usize, table: &mut [f32],
    ) = bins::splat_bins::<W>
}
dispatch! {
    /// Replaces rows of bins by their products with the bins' table, given turned, in rows of W.
    pub(super) fn weigh_bins[const W: usize][W](rows: &mut [f32], turned: &[f32]) = bins::weigh_bins::<W>
}
dispatch! {
    /// Adds the channel of each point's own bin to `out`.
    pub(super) fn slice_own_bin[const W: usize][W](
        runs: Runs, factors: Factors, table: &[f32], bins: &[u16], out: &mut [f32],
    ) = bins::slice_own_bin::<W>
}
dispatch! {
    /// Adds bins of `range` to `out`, weighed by each point's own.
    pub(super) fn slice_bins[const W: usize][W](
        runs: Runs, factors: Factors, table: &[f32], binned: Binned, range: Range<usize>, out: &mut [f32],
    ) = bins::slice_bins::<W>
}

dispatch! {
    /// `table += other`.
    pub(crate) fn add_table(table: &mut [f32], other: &[f32]) = plain::add
}
dispatch! {
    fn changes[const W: usize][W](now: &[f32], before: &[f32], out: &mut [f32]) = plain::largest_changes::<W>
}

/// Raises `out` to the largest change in each row, `width` wide, between two tables.
pub(crate) fn largest_changes(width: usize, now: &[f32], before: &[f32], out: &mut [f32]) {
    with_width!(width, W => {
        let tables = now.par_chunks(ROWS_PER_TASK * W).zip(before.par_chunks(ROWS_PER_TASK * W));
        out.par_chunks_mut(ROWS_PER_TASK).zip(tables).for_each(|(out, (now, before))| changes::<W>(now, before, out));
    });
}

/// `table += other`.
pub(super) fn add_in_parallel(table: &mut [f32], other: &[f32]) {
    const VALUES_PER_TASK: usize = 1 << 14;
    table.par_chunks_mut(VALUES_PER_TASK).zip(other.par_chunks(VALUES_PER_TASK)).for_each(|(t, o)| {
        add_table(t, o);
    });
}
