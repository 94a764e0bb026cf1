//! Work on whole rows of a vertex table that several tasks share: the blur along an axis, and the exchange between
//! vertices and their copies. Each row is one task's, by the way [`Chains`] and [`Copies`] are made.
#![allow(unsafe_code)]
// Loops over lanes index several arrays at once: that is what becomes vector code.
#![allow(clippy::needless_range_loop)]

use super::super::build::{Chains, Copies};
use super::ROWS_PER_TASK;
use crate::reduce::run_tasks;
use crate::simd::dispatch;

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
pub(in crate::lattice) enum Exchange {
    /// Copies are added to the vertex, in band order.
    Gather,
    /// Copies are set to the vertex.
    Spread,
}

/// Brings vertices and their copies together.
pub(in crate::lattice) fn exchange<const W: usize>(copies: &Copies, what: Exchange, table: &mut [f32]) {
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
pub(in crate::lattice) fn blur<const W: usize>(chains: &Chains, table: &mut [f32]) {
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

dispatch! {
    fn blur_runs[const W: usize][W](rows: SharedRows, order: &[u32], starts: &[u32]) = blur_runs_body::<W>
}
dispatch! {
    fn exchange_rows[const W: usize][W](
        rows: SharedRows, copies: &Copies, owners: &[u32], starts: &[u32], what: Exchange,
    ) = exchange_body::<W>
}
