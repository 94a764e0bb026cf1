//! The only unsafe code of the crate: the choice of AVX2 at run time, and the blur's parallel writes.
//!
//! Every function here has the signature of its namesake in `kernels.rs` (plus the pieces to run in
//! parallel) and gives the same bits on every CPU and for any number of threads.
#![allow(unsafe_code)]

use std::ops::Range;

use rayon::prelude::*;

use super::chains::Chains;
use super::kernels::{self, Block, Corners, Touching};
use crate::filter::{Binned, Scaling};

/// Vertices per parallel task of a gather, pixels per task of a slice: tens of microseconds of work.
const ROWS_PER_TASK: usize = 2048;
/// Runs of vertices per parallel task of a blur.
const VERTICES_PER_TASK: usize = 2048;

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    std::arch::is_x86_feature_detected!("avx2")
}

/// Defines `$name`, which runs `kernels::$name`, compiled for AVX2 where the CPU has it.
macro_rules! dispatch {
    ($name:ident ( $($arg:ident : $ty:ty),* $(,)? )) => {
        fn $name<const W: usize>($($arg: $ty),*) {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn fast<const W: usize>($($arg: $ty),*) {
                    kernels::$name::<W>($($arg),*);
                }
                if has_avx2() {
                    // SAFETY: the CPU has AVX2, which is all that `fast` asks for.
                    return unsafe { fast::<W>($($arg),*) };
                }
            }
            kernels::$name::<W>($($arg),*);
        }
    };
}

dispatch!(scatter(corners: Corners, x: &[f32], block: Block, scaling: Scaling, table: &mut [f32]));
dispatch!(gather(
    touching: &Touching, first_vertex: usize, x: &[f32], block: Block, scaling: Scaling, rows: &mut [f32]
));
dispatch!(scatter_bins(corners: Corners, bins: &[u16], first: usize, scaling: Scaling, table: &mut [f32]));
dispatch!(gather_bins(
    touching: &Touching, first_vertex: usize, bins: &[u16], first: usize, scaling: Scaling, rows: &mut [f32]
));
dispatch!(slice(
    corners: Corners, first_pixel: usize, table: &[f32], block: Block, scaling: Scaling, out: &mut [f32]
));
dispatch!(slice_bins(
    corners: Corners, first_pixel: usize, table: &[f32], binned: Binned, range: Range<usize>,
    scaling: Scaling, out: &mut [f32]
));

/// What goes into the lattice.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// A block of channels of a matrix.
    Values(&'a [f32], Block),
    /// One indicator channel per bin, from the given bin on.
    Bins(&'a [u16], usize),
}

/// Splats `source` into `table` (vertices x `W`), whose old contents do not matter.
///
/// With `touching` the vertices are filled in parallel; both ways add each vertex's terms in pixel order.
pub(super) fn splat<const W: usize>(
    corners: Corners,
    touching: Option<&Touching>,
    source: Source,
    scaling: Scaling,
    table: &mut [f32],
) {
    let Some(touching) = touching else {
        table.fill(0.0);
        return match source {
            Source::Values(x, block) => scatter::<W>(corners, x, block, scaling, table),
            Source::Bins(bins, first) => scatter_bins::<W>(corners, bins, first, scaling, table),
        };
    };
    table.par_chunks_mut(ROWS_PER_TASK * W).enumerate().for_each(|(task, rows)| match source {
        Source::Values(x, block) => gather::<W>(touching, task * ROWS_PER_TASK, x, block, scaling, rows),
        Source::Bins(bins, first) => {
            gather_bins::<W>(touching, task * ROWS_PER_TASK, bins, first, scaling, rows);
        }
    });
}

/// Slices a block of channels of `table` into the rows of `out`.
pub(super) fn slice_values<const W: usize>(
    corners: Corners,
    table: &[f32],
    block: Block,
    scaling: Scaling,
    out: &mut [f32],
) {
    out.par_chunks_mut(ROWS_PER_TASK * block.channels).enumerate().for_each(|(task, rows)| {
        slice::<W>(corners, task * ROWS_PER_TASK, table, block, scaling, rows);
    });
}

/// Slices the bins of `range`, which start the rows of `table`, weighted by the bins' table, onto `out`.
pub(super) fn slice_binned<const W: usize>(
    corners: Corners,
    table: &[f32],
    binned: Binned,
    range: Range<usize>,
    scaling: Scaling,
    out: &mut [f32],
) {
    out.par_chunks_mut(ROWS_PER_TASK).enumerate().for_each(|(task, piece)| {
        slice_bins::<W>(corners, task * ROWS_PER_TASK, table, binned, range.clone(), scaling, piece);
    });
}

/// `table += other`.
pub(super) fn add(table: &mut [f32], other: &[f32]) {
    const PIECE: usize = 1 << 14;
    table.par_chunks_mut(PIECE).zip(other.par_chunks(PIECE)).for_each(|(t, o)| {
        for (t, &o) in t.iter_mut().zip(o) {
            *t += o;
        }
    });
}

/// A table whose rows several tasks write, each row by one task only.
#[derive(Clone, Copy)]
struct SharedRows {
    start: *mut f32,
    rows: usize,
}

// SAFETY: tasks touch disjoint rows (see `blur`), so moving the pointer between threads is sound.
unsafe impl Send for SharedRows {}
// SAFETY: as above; there is no access through a shared reference that is not to the task's own rows.
unsafe impl Sync for SharedRows {}

/// One blur pass along an axis, in place: every row becomes itself plus half of each neighbour.
pub(super) fn blur<const W: usize>(chains: &Chains, table: &mut [f32]) {
    let rows = SharedRows { start: table.as_mut_ptr(), rows: table.len() / W };
    let tasks = chains.order.len().div_ceil(VERTICES_PER_TASK).max(1);
    let runs = chains.starts.len() - 1;
    (0..tasks).into_par_iter().for_each(|task| {
        // Cut the list of runs at the first run that starts at or after the task's share of the vertices.
        let cut = |t: usize| chains.starts[..runs].partition_point(|&s| (s as usize) < t * VERTICES_PER_TASK);
        let (first, last) = (cut(task), if task + 1 == tasks { runs } else { cut(task + 1) });
        let range = chains.starts[first] as usize..chains.starts[last] as usize;
        blur_runs::<W>(rows, &chains.order[range], &chains.starts[first..=last]);
    });
}

fn blur_runs<const W: usize>(rows: SharedRows, order: &[u32], starts: &[u32]) {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(enable = "avx2")]
        fn fast<const W: usize>(rows: SharedRows, order: &[u32], starts: &[u32]) {
            blur_runs_body::<W>(rows, order, starts);
        }
        if has_avx2() {
            // SAFETY: the CPU has AVX2, which is all that `fast` asks for.
            return unsafe { fast::<W>(rows, order, starts) };
        }
    }
    blur_runs_body::<W>(rows, order, starts);
}

#[inline(always)]
fn blur_runs_body<const W: usize>(rows: SharedRows, order: &[u32], starts: &[u32]) {
    let row = |vertex: u32| {
        assert!((vertex as usize) < rows.rows, "lattice vertex out of range");
        // SAFETY: the row lies inside the table by the check above. Every vertex stands in exactly one run
        // and every run in exactly one task, so no other task reads or writes this row; the table outlives
        // the tasks because `blur` holds it mutably until they are done. References made from the pointer
        // never overlap: each is copied out of, or written to, before the next is made.
        unsafe { &mut *rows.start.add(vertex as usize * W).cast::<[f32; W]>() }
    };
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
