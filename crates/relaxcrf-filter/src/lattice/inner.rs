//! The innermost loops, compiled for the CPU at hand, with the unsafe code that they need: reads and writes whose indices
//! are checked block by block, and parallel writes to a table of rows.
//!
//! Whatever is dispatched here gives the same bits on every CPU, because it has no fused operations, and
//! the same for any number of threads.
#![allow(unsafe_code)]
// Loops over lanes index several arrays at once: that is what becomes vector code.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use rayon::prelude::*;

use super::bands::{BLOCK, Builder, Copies, locate_band};
use super::chains::Chains;
use super::embed::Embedding;
use super::kernels::{self, Factors, with_width};
use super::runs::Runs;
use super::table::{Packing, Word};
use crate::Binned;
use crate::reduce::run_tasks;
use crate::simd::{Eight, LANES, Register, dispatch};

pub(super) use super::kernels::WEIGHT_PADDING;

/// Rows per parallel task: tens of microseconds of work.
const ROWS_PER_TASK: usize = 2048;

dispatch! {
    /// Locates the points of one band.
    pub(super) fn locate['p, W: Word][W](
        features: &[f32], embedding: &Embedding, packing: &'p Packing, weights: &mut [f32],
    ) -> Builder<'p, W> = locate_band
}
dispatch! {
    /// Adds the rows of one block, `width` wide and `stride` apart, to a band's piece of a table. `rows` may be longer
    /// than the block.
    pub(super) fn splat_block(
        width: usize, runs: Runs, factors: Factors, rows: &[f32], stride: usize, table: &mut [f32],
    ) = kernels::splat_block::<[f32; 8]>, kernels::splat_block::<Register>
}
dispatch! {
    /// Interpolates one block into rows, `width` wide and `stride` apart, or adds to them.
    pub(super) fn slice_block(
        width: usize, runs: Runs, factors: Factors, table: &[f32], rows: &mut [f32], stride: usize, add: bool,
    ) = kernels::slice_block
}
dispatch! {
    /// Stores rows of `width`, or adds them, to a block of the channels of `out`.
    pub(super) fn store(
        rows: &[f32], width: usize, out: &mut [f32], channels: usize, block: Range<usize>, add: bool,
    ) = kernels::store
}
dispatch! {
    /// Adds 1 to the channel of each point's bin, for bins from `first` on.
    pub(super) fn splat_bins[const W: usize][W](
        runs: Runs, factors: Factors, bins: &[u16], first: usize, table: &mut [f32],
    ) = kernels::splat_bins::<W>
}
dispatch! {
    /// Replaces rows of bins by their products with the bins' table, given turned, in rows of W.
    pub(super) fn weigh_bins[const W: usize][W](rows: &mut [f32], turned: &[f32]) = kernels::weigh_bins::<W>
}
dispatch! {
    /// Adds the channel of each point's own bin to `out`.
    pub(super) fn slice_own_bin[const W: usize][W](
        runs: Runs, factors: Factors, table: &[f32], bins: &[u16], out: &mut [f32],
    ) = kernels::slice_own_bin::<W>
}
dispatch! {
    /// Adds bins of `range` to `out`, weighed by each point's own.
    pub(super) fn slice_bins[const W: usize][W](
        runs: Runs, factors: Factors, table: &[f32], binned: Binned, range: Range<usize>, out: &mut [f32],
    ) = kernels::slice_bins::<W>
}
dispatch! {
    fn blur_runs[const W: usize][W](rows: SharedRows, order: &[u32], starts: &[u32]) = blur_runs_body::<W>
}
dispatch! {
    fn exchange_rows[const W: usize][W](
        rows: SharedRows, copies: &Copies, owners: &[u32], starts: &[u32], what: Exchange,
    ) = exchange_body::<W>
}

dispatch! {
    /// `table += other`.
    pub(super) fn add_here(table: &mut [f32], other: &[f32]) = kernels::add
}
dispatch! {
    fn changes[const W: usize][W](now: &[f32], before: &[f32], out: &mut [f32]) = kernels::largest_changes::<W>
}

/// Raises `out` to the largest change in each row, `width` wide, between two tables.
pub(super) fn largest_changes(width: usize, now: &[f32], before: &[f32], out: &mut [f32]) {
    with_width!(width, W => {
        let tables = now.par_chunks(ROWS_PER_TASK * W).zip(before.par_chunks(ROWS_PER_TASK * W));
        out.par_chunks_mut(ROWS_PER_TASK).zip(tables).for_each(|(out, (now, before))| changes::<W>(now, before, out));
    });
}

/// `table += other`.
pub(super) fn add(table: &mut [f32], other: &[f32]) {
    const PIECE: usize = 1 << 14;
    table.par_chunks_mut(PIECE).zip(other.par_chunks(PIECE)).for_each(|(t, o)| {
        add_here(t, o);
    });
}

/// Fails unless there are all table rows that the runs of a block name (they were checked when they were made, see
/// `runs.rs`), and all else that [`splat`] and [`slice`] read. Returns the number of points.
#[inline(always)]
fn check_block<const W: usize, const M: usize>(
    runs: &Runs,
    table_rows: usize,
    values: usize,
    stride: usize,
) -> usize {
    let points = runs.points();
    assert!(runs.vertices() == M && runs.rows() <= table_rows, "lattice vertex out of range");
    assert!(
        points <= BLOCK
            && (points == 0 || runs.weights.len() >= points * M && values >= (points - 1) * stride + W),
        "rows are too short for their width"
    );
    points
}

/// Adds every point's row (`stride` apart, the first at the start of `rows`) to the rows of its vertices.
#[inline(always)]
pub(super) fn splat<const W: usize, const M: usize>(
    runs: Runs,
    factors: Factors,
    rows: &[f32],
    stride: usize,
    table: &mut [f32],
) {
    let (table, _) = table.as_chunks_mut::<W>();
    let points = check_block::<W, M>(&runs, table.len(), rows.len(), stride);
    let factors = factors.of_block(points);
    for p in 0..points {
        // SAFETY: `p` is below `points`, for which values and weights are there, and each has a run with ids, which are
        // rows of the table.
        unsafe {
            let mut value = *rows.as_ptr().add(p * stride).cast::<[f32; W]>();
            let factor = *factors.get_unchecked(p);
            value.iter_mut().for_each(|v| *v *= factor);
            let weights = &*runs.weights.as_ptr().add(p * M).cast::<[f32; M]>();
            // Not a loop over runs: they are short and of any length, its end would be guessed wrong every other time.
            let run = usize::from(*runs.of().get_unchecked(p));
            let ids = &*runs.ids().as_ptr().add(run * M).cast::<[u32; M]>();
            for k in 0..M {
                let row = table.get_unchecked_mut(ids[k] as usize);
                for c in 0..W {
                    row[c] += weights[k] * value[c];
                }
            }
        }
    }
}

/// [`splat`] of eight channels, whose sums stay in registers while the simplex is the same.
#[inline(always)]
pub(super) fn splat_eight<V: Eight, const M: usize>(
    runs: Runs,
    factors: Factors,
    rows: &[f32],
    stride: usize,
    table: &mut [f32],
) {
    let (table, _) = table.as_chunks_mut::<LANES>();
    let points = check_block::<LANES, M>(&runs, table.len(), rows.len(), stride);
    let factors = factors.of_block(points);
    let mut sums = [V::all(0.0); M];
    let mut last = u8::MAX;
    for p in 0..points {
        // SAFETY: as in `splat`.
        unsafe {
            let run = *runs.of().get_unchecked(p);
            let same = V::mask(run == last);
            last = run;
            let value = V::load(&*rows.as_ptr().add(p * stride).cast::<[f32; LANES]>());
            let value = value.mul(V::all(*factors.get_unchecked(p)));
            let weights = &*runs.weights.as_ptr().add(p * M).cast::<[f32; M]>();
            let ids = &*runs.ids().as_ptr().add(usize::from(run) * M).cast::<[u32; M]>();
            for k in 0..M {
                let row = table.get_unchecked_mut(ids[k] as usize);
                // What is in the register is in the row as well, but takes longer to come back from there.
                let before = sums[k].where_mask(V::load(row), same);
                sums[k] = before.add(V::all(weights[k]).mul(value));
                sums[k].store(row);
            }
        }
    }
}

/// Reads the blurred table back: `rows (+)= factor · interpolated row`.
#[inline(always)]
pub(super) fn slice<const W: usize, const M: usize, const ADD: bool>(
    runs: Runs,
    factors: Factors,
    table: &[f32],
    rows: &mut [f32],
    stride: usize,
) {
    let (table, _) = table.as_chunks::<W>();
    let points = check_block::<W, M>(&runs, table.len(), rows.len(), stride);
    let factors = factors.of_block(points);
    for p in 0..points {
        // SAFETY: as in `splat`.
        unsafe {
            let weights = &*runs.weights.as_ptr().add(p * M).cast::<[f32; M]>();
            let run = usize::from(*runs.of().get_unchecked(p));
            let ids = &*runs.ids().as_ptr().add(run * M).cast::<[u32; M]>();
            let mut sum = [0.0f32; W];
            for k in 0..M {
                let row = table.get_unchecked(ids[k] as usize);
                for c in 0..W {
                    sum[c] += weights[k] * row[c];
                }
            }
            let factor = *factors.get_unchecked(p);
            let row = &mut *rows.as_mut_ptr().add(p * stride).cast::<[f32; W]>();
            for c in 0..W {
                row[c] = if ADD { row[c] + factor * sum[c] } else { factor * sum[c] };
            }
        }
    }
}

/// A table whose rows several tasks write, each row by one task only.
#[derive(Clone, Copy)]
struct SharedRows {
    start: *mut f32,
    rows: usize,
}

// SAFETY: tasks touch disjoint rows (see the callers), so moving the pointer between threads is sound.
unsafe impl Send for SharedRows {}
// SAFETY: as above; there is no access through a shared reference that is not to the task's own rows.
unsafe impl Sync for SharedRows {}

impl SharedRows {
    fn new<const W: usize>(table: &mut [f32]) -> Self {
        Self { start: table.as_mut_ptr(), rows: table.len() / W }
    }

    /// A row of the table.
    ///
    /// # Safety
    /// No other task reads or writes this row while the reference lives, nor does this one through another.
    #[inline(always)]
    unsafe fn row<'a, const W: usize>(self, row: u32) -> &'a mut [f32; W] {
        assert!((row as usize) < self.rows, "lattice vertex out of range");
        // SAFETY: the row lies inside the table by the check above, and the table is held mutably by whoever
        // made `self` until all tasks are done; the caller keeps others away from this row.
        unsafe { &mut *self.start.add(row as usize * W).cast::<[f32; W]>() }
    }
}

/// What happens between a vertex and its copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Exchange {
    /// Copies are added to the vertex, in band order.
    Gather,
    /// Copies are set to the vertex.
    Spread,
}

/// Brings vertices and their copies together.
pub(super) fn exchange<const W: usize>(copies: &Copies, what: Exchange, table: &mut [f32]) {
    let rows = SharedRows::new::<W>(table);
    run_tasks(copies.owners.len().div_ceil(ROWS_PER_TASK), &|task| {
        let first = task * ROWS_PER_TASK;
        let owners = &copies.owners[first..copies.owners.len().min(first + ROWS_PER_TASK)];
        exchange_rows::<W>(rows, copies, owners, &copies.starts[first..], what);
    });
}

#[inline(always)]
fn exchange_body<const W: usize>(
    rows: SharedRows,
    copies: &Copies,
    owners: &[u32],
    starts: &[u32],
    what: Exchange,
) {
    for (k, &owner) in owners.iter().enumerate() {
        for &copy in &copies.rows[starts[k] as usize..starts[k + 1] as usize] {
            // SAFETY: an owner stands once in the list and a copy in one owner's group only, and no row is both: so
            // both rows are this task's, and they are different rows.
            let (owner, copy) = unsafe { (rows.row::<W>(owner), rows.row::<W>(copy)) };
            match what {
                Exchange::Gather => {
                    for c in 0..W {
                        owner[c] += copy[c];
                    }
                }
                Exchange::Spread => *copy = *owner,
            }
        }
    }
}

/// One blur pass along an axis, in place: every row becomes itself plus half of each neighbour.
pub(super) fn blur<const W: usize>(chains: &Chains, table: &mut [f32]) {
    let rows = SharedRows::new::<W>(table);
    let tasks = chains.order.len().div_ceil(ROWS_PER_TASK).max(1);
    let runs = chains.starts.len() - 1;
    run_tasks(tasks, &|task| {
        // Cut the list of runs at the first run that starts at or after the task's share of the vertices.
        let cut = |t: usize| chains.starts[..runs].partition_point(|&s| (s as usize) < t * ROWS_PER_TASK);
        let (first, last) = (cut(task), if task + 1 == tasks { runs } else { cut(task + 1) });
        let range = chains.starts[first] as usize..chains.starts[last] as usize;
        blur_runs::<W>(rows, &chains.order[range], &chains.starts[first..=last]);
    });
}

#[inline(always)]
fn blur_runs_body<const W: usize>(rows: SharedRows, order: &[u32], starts: &[u32]) {
    // SAFETY: every vertex stands in exactly one run and every run in exactly one task, so no other task reads or
    // writes this row. References never overlap: each is copied out of, or written to, before the next is made.
    let row = |vertex: u32| unsafe { rows.row::<W>(vertex) };
    let base = starts[0];
    for run in starts.windows(2) {
        let run = &order[(run[0] - base) as usize..(run[1] - base) as usize];
        let mut before = [0.0; W];
        let mut here = *row(run[0]);
        for i in 0..run.len() {
            let after = match run.get(i + 1) {
                Some(&next) => *row(next),
                None => [0.0; W],
            };
            let target = row(run[i]);
            for c in 0..W {
                target[c] = here[c] + 0.5 * (before[c] + after[c]);
            }
            before = here;
            here = after;
        }
    }
}
