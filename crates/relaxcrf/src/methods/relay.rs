//! From one iteration to the next for methods whose update at a pixel needs nothing but K y there.
//!
//! With lattices only, an iteration is one sweep (see `filter/lattice/sweep.rs`): K y is never stored. Other filters
//! store it; the methods see no difference.

use rayon::prelude::*;

use crate::model::Model;
use crate::solver::Context;
use relaxcrf_filter::POINTS_PER_BLOCK;
use relaxcrf_filter::fused::{Block, FusedPass, Tables};
use relaxcrf_filter::reduce::rows_per_chunk;

/// K of the beliefs that were put in last.
pub(super) enum Relay<'m> {
    /// In vertex tables.
    Swept { sweep: FusedPass<'m>, tables: Tables },
    /// In full.
    Stored { filtered: Vec<f32> },
}

/// Two sums that an update returns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    /// What the new beliefs contribute to the objective by themselves.
    pub own: f64,
    /// What is known of the old ones now that K of them is.
    pub pairwise: f64,
}

impl std::ops::AddAssign for Sums {
    fn add_assign(&mut self, other: Self) {
        self.own += other.own;
        self.pairwise += other.pairwise;
    }
}

impl<'m> Relay<'m> {
    pub fn new(model: &'m Model) -> Self {
        match model.pairwise().sweep(model.labels()) {
            // A sweep's rows hold whole groups of eight labels, and add up over the kernels before costs come in.
            Some(sweep) if model.labels() > 1 && !model.has_kernel_costs() => {
                Self::Swept { sweep, tables: Tables::default() }
            }
            _ => Self::Stored { filtered: Vec::new() },
        }
    }

    /// Puts beliefs in.
    pub fn start(&mut self, y: &[f32]) {
        match self {
            Self::Swept { sweep, tables } => sweep.start(y, tables),
            Self::Stored { filtered } => filtered.resize(y.len(), 0.0),
        }
    }

    /// One iteration from `y`, the beliefs put in last: `update` is given K y of some pixels and their rows of `next`; it
    /// leaves the new beliefs in both. One filter call: that of the new beliefs comes with the next iteration.
    pub fn step(
        &mut self,
        context: &mut Context,
        y: &[f32],
        next: &mut [f32],
        update: impl Fn(Block, &mut [f32]) -> Sums + Sync,
    ) -> Sums {
        match self {
            Self::Swept { sweep, tables } => {
                context.count_filter();
                sweep.step(next, tables, update)
            }
            Self::Stored { filtered } => {
                context.filter(y, filtered);
                let labels = context.model().labels();
                let stride = labels.next_multiple_of(8);
                let chunk = rows_per_chunk(labels).next_multiple_of(POINTS_PER_BLOCK);
                let parts: Vec<Sums> = next
                    .par_chunks_mut(chunk * labels)
                    .zip(filtered.par_chunks(chunk * labels))
                    .enumerate()
                    .map(|(c, (next, filtered))| {
                        let mut rows = vec![0.0; POINTS_PER_BLOCK * stride];
                        let mut sums = Sums::default();
                        let blocks = next.chunks_mut(POINTS_PER_BLOCK * labels);
                        for (k, (next, filtered)) in
                            blocks.zip(filtered.chunks(POINTS_PER_BLOCK * labels)).enumerate()
                        {
                            for (row, from) in
                                rows.chunks_exact_mut(stride).zip(filtered.chunks_exact(labels))
                            {
                                row[..labels].copy_from_slice(from);
                            }
                            let first = c * chunk + k * POINTS_PER_BLOCK;
                            let count = next.len() / labels;
                            sums += update(Block { first, count, rows: &mut rows, stride }, next);
                        }
                        sums
                    })
                    .collect();
                parts.into_iter().fold(Sums::default(), |mut total, part| {
                    total += part;
                    total
                })
            }
        }
    }
}
