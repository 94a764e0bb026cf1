//! Runs a fixed number of mean-field updates for a Potts model, without computing the objective or a bound.
//!
//! An update is `q ← softmax(Σ_k K_k q - φ)`, one sweep over the points. Most labels of a typical problem have next to no
//! belief anywhere after the first update, so inactive labels are dropped during the run. The message to a label, K q, is
//! never negative, and a label whose message is negligible at all points need not be filtered. Dropped labels stay in the
//! softmax as one merged label, the rest. It is filtered with the largest belief in any of them, which bounds all their
//! messages. If that bound exceeds [`NEGLIGIBLE`] anywhere, the updates are repeated with all labels. So the logits of
//! dropped labels are off by at most that bound, and those of the others only by what follows from it.
//!
//! Blocks of points that have converged are skipped as well ([`FusedPass::step_active_blocks`]), until the last update. Two labels
//! have a simpler form of their own: see `two_labels.rs`.

mod run;
mod solver;
mod two_labels;

use std::ops::AddAssign;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use self::run::Run;
pub(super) use self::solver::FromStart;
pub(crate) use self::solver::on_lattices;
use crate::rows::simplex::{keep_points, softmax_points};
use crate::rows::{self, LARGEST_LOGIT};
use relaxcrf_filter::POINTS_PER_BLOCK;
use relaxcrf_filter::fused::{Block, ConvergedBlock, FusedPass, FusedTerm, Tables};
use relaxcrf_filter::simd::least_of_lanes;

/// The message that a dropped label may be denied.
pub const NEGLIGIBLE: f32 = 0.03;

/// Block are as good as certain of a label when the logarithm of its odds is this: belief 0.9985.
const CERTAIN: f32 = 6.5;
/// And this is when they begin to count as certain.
const SETTLED: f32 = 7.5;

/// Labels are dropped when a sample of the points tells that their messages will be below this share of it.
const MARGIN: f32 = 1.0 / 12.0;
/// One block of points in so many is in the sample.
const SAMPLE: usize = 16;
/// Neighbours whose beliefs are averaged in the sample.
const NEAR: usize = 16;
/// How often it is looked for labels to drop.
const LOOKS: usize = 3;
/// Rows hold whole groups of so many labels: dropping fewer saves nothing.
const GROUP: usize = 8;

/// The problem: energies (one row of `labels` per point, none is all zeros) and kernels with their weights.
#[derive(Debug, Clone)]
pub struct Updates<'a> {
    /// Number of labels, at least 2.
    pub labels: usize,
    /// Number of points.
    pub points: usize,
    /// Energies.
    pub unary: Option<&'a [f32]>,
    /// Kernels; at least one.
    pub terms: Vec<FusedTerm<'a>>,
}

/// The labels that are filtered at some stage of a run.
struct Stage<'a> {
    sweep: FusedPass<'a>,
    /// The labels of the lanes. The rest, if there is one, has a lane behind them.
    kept: Vec<usize>,
    rest: Option<Rest>,
}

/// What stands for labels that were dropped.
struct Rest {
    /// Energies of the kept labels and of the rest, above the point's smallest; one row of the sweep's stride per point.
    energies: Vec<f32>,
    /// Belief in the most believed label of the rest as a share of that in the rest.
    shares: Vec<f32>,
    /// The largest sum of all messages to a point, in a sample.
    reach: f32,
}

/// The largest of some numbers.
#[derive(Clone, Copy, Default)]
struct Most(f32);

impl AddAssign for Most {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.max(other.0);
    }
}

/// What a sample tells: the largest sum of messages, and for every lane the largest mean belief in a row of points.
#[derive(Default)]
struct Sample {
    reach: Most,
    beliefs: Vec<Most>,
}

impl AddAssign for Sample {
    fn add_assign(&mut self, other: Self) {
        self.reach += other.reach;
        self.beliefs.resize(self.beliefs.len().max(other.beliefs.len()), Most::default());
        self.beliefs.iter_mut().zip(other.beliefs).for_each(|(a, b)| *a += b);
    }
}

impl<'a> Updates<'a> {
    /// The beliefs after `iterations` updates (at least one) of `softmax(-φ)`, or after fewer if told to stop.
    pub fn run(&self, iterations: usize, stop: &AtomicBool, tables: &mut Tables) -> Vec<f32> {
        let mut q = vec![0.0; self.points * self.labels];
        self.run_into(iterations, stop, tables, &mut q);
        q
    }

    /// [`Updates::run`] with the beliefs written into `q`.
    pub(crate) fn run_into(&self, iterations: usize, stop: &AtomicBool, tables: &mut Tables, q: &mut [f32]) {
        let Some(mut run) = Run::new(self.clone(), iterations, std::mem::take(tables)) else { return };
        for _ in 0..iterations {
            run.step();
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
        run.read(q);
        *tables = run.into_tables();
    }

    /// How often a run of so many updates looks for labels to drop.
    fn looks(&self, iterations: usize) -> usize {
        // K q must not be negative for its bounds to be bounds.
        let monotone = self.terms.iter().all(|t| t.scaling.gain >= 0.0);
        if monotone && self.unary.is_some() && self.labels > GROUP && iterations > 2 { LOOKS } else { 0 }
    }

    /// The energies from the row of a point on.
    fn rows_from(&self, point: usize) -> Option<&'a [f32]> {
        self.unary.map(|u| &u[point * self.labels..])
    }
}

impl<'a> Stage<'a> {
    fn lanes(&self) -> usize {
        self.kept.len() + usize::from(self.rest.is_some())
    }

    /// The lanes of some of the kept labels, and a one for all other lanes.
    fn lanes_of(&self, kept: &[usize]) -> (Vec<usize>, Vec<f32>) {
        let places: Vec<usize> = (0..self.kept.len()).filter(|&i| kept.contains(&self.kept[i])).collect();
        let mut gone = vec![1.0; self.lanes()];
        places.iter().for_each(|&place| gone[place] = 0.0);
        gone.resize(self.lanes().next_multiple_of(GROUP), 0.0);
        (places, gone)
    }

    /// From messages to beliefs. Returns the largest message that the rest is denied.
    fn update(&self, problem: &Updates, mut points: Block) -> Most {
        match &self.rest {
            None => {
                let energies = problem.rows_from(points.first).map(|u| &u[..points.count * problem.labels]);
                softmax_points(&mut points, problem.labels, energies);
                Most(0.0)
            }
            Some(rest) => {
                let (lanes, stride) = (self.lanes(), points.stride);
                let energies = &rest.energies[points.first * stride..][..points.count * stride];
                let shares = &rest.shares[points.first..][..points.count];
                let rows = &mut points.rows[..points.count * stride];
                let (denied, most) = rows::softmax_with_rest(rows, stride, lanes, energies, shares);
                Most(if most <= LARGEST_LOGIT { denied } else { f32::INFINITY })
            }
        }
    }

    /// [`Stage::update`], and whether all points agree about a label by now.
    fn update_and_settle(&self, problem: &Updates, points: Block) -> (Most, Option<ConvergedBlock>) {
        let Block { first, count, rows, stride } = points;
        let denied = self.update(problem, Block { first, count, rows, stride });
        let mut least = vec![0.0f32; stride];
        least_of_lanes(&rows[..count * stride], stride, &mut least);
        let best = least[..self.kept.len()].iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        let settlement = best.and_then(|(lane, &belief)| {
            let odds = (belief / (1.0 - belief).max(f32::EPSILON)).ln();
            // Messages for the label and against it move, and those of the rest, which do not count above.
            (odds > SETTLED).then(|| ConvergedBlock {
                lane,
                value: 1.0,
                change_budget: (odds - CERTAIN) / 3.0,
            })
        });
        (denied, settlement)
    }

    /// A stage without the labels that a sample tells are negligible, if that makes rows shorter.
    fn without_negligible(&self, problem: &Updates<'a>, tables: &mut Tables) -> Option<Stage<'a>> {
        let lanes = self.lanes();
        let sample = self.sweep.sample(SAMPLE, tables, |points| {
            let Block { first, count, rows, stride } = points;
            let reach = rows[..count * stride].chunks_exact(stride).map(|row| row[..lanes].iter().sum());
            let reach = Most(reach.fold(0.0, f32::max));
            self.update(problem, Block { first, count, rows, stride });
            let mut beliefs = vec![Most(0.0); lanes];
            for near in rows[..count * stride].chunks(NEAR * stride) {
                let mut sums = vec![0.0f32; lanes];
                for row in near.chunks_exact(stride) {
                    sums.iter_mut().zip(row).for_each(|(s, &v)| *s += v);
                }
                beliefs.iter_mut().zip(&sums).for_each(|(b, &s)| *b += Most(s / NEAR as f32));
            }
            Sample { reach, beliefs }
        });
        let reach = self.rest.as_ref().map_or(sample.reach.0, |rest| rest.reach);
        let kept: Vec<usize> = (self.kept.iter().zip(&sample.beliefs))
            .filter(|(_, belief)| reach * belief.0 > MARGIN * NEGLIGIBLE)
            .map(|(&label, _)| label)
            .collect();
        let lanes = kept.len() + 1;
        let (new, old) = (lanes.next_multiple_of(GROUP), self.lanes().next_multiple_of(GROUP));
        // Energies are copied for the new stage: with many labels that has to pay in memory as well.
        if new >= old || new > (old / 2).max(2 * GROUP) {
            return None;
        }
        let sweep = FusedPass::new(problem.terms.clone(), lanes)?;
        let rest = self.lump(problem, &kept, sweep.stride(), reach)?;
        Some(Stage { sweep, kept, rest: Some(rest) })
    }

    /// What stands for all labels but the `kept`, in rows of `stride`; none if there is a point without any possible label.
    fn lump(&self, problem: &Updates, kept: &[usize], stride: usize, reach: f32) -> Option<Rest> {
        let (lanes, points) = (self.lanes(), problem.points);
        let mut rest = Rest { energies: vec![0.0; points * stride], shares: vec![0.0; points], reach };
        let (places, mut gone) = self.lanes_of(kept);
        // The old rest is no label.
        gone[self.kept.len()..].fill(0.0);
        let old = self.sweep.stride();
        const PIECE: usize = 64 * POINTS_PER_BLOCK;
        let pieces = rest.energies.par_chunks_mut(PIECE * stride).zip(rest.shares.par_chunks_mut(PIECE));
        let possible = pieces.enumerate().map(|(piece, (energies, shares))| {
            // Without energies all labels are alike: none is negligible, and this is not called.
            let unary = problem.unary.unwrap_or(&[]);
            let mut lumps = [[0.0f32; 3]; POINTS_PER_BLOCK];
            let mut possible = true;
            let blocks =
                energies.chunks_mut(POINTS_PER_BLOCK * stride).zip(shares.chunks_mut(POINTS_PER_BLOCK));
            for (k, (energies, shares)) in blocks.enumerate() {
                let first = piece * PIECE + k * POINTS_PER_BLOCK;
                let (from, width, old_shares) = match &self.rest {
                    None => (&unary[first * problem.labels..], problem.labels, None),
                    Some(r) => (&r.energies[first * old..], old, Some(&r.shares[first..])),
                };
                let lumps = &mut lumps[..shares.len()];
                rows::lump_rows(from, width, lanes, &gone, old_shares, lumps);
                let rows = energies.chunks_exact_mut(stride).zip(shares);
                for ((row, share), (&mut [above, part, least], from)) in
                    rows.zip(lumps.iter_mut().zip(from.chunks(width)))
                {
                    possible &= least.is_finite();
                    row.fill(f32::INFINITY);
                    // Relative to the row's smallest energy: what the softmax of these stages wants.
                    row.iter_mut().zip(&places).for_each(|(to, &place)| *to = from[place] - least);
                    row[places.len()] = above;
                    *share = part;
                }
            }
            possible
        });
        possible.reduce(|| true, |a, b| a & b).then_some(rest)
    }

    /// An update after which `next`, a stage with fewer labels, goes on.
    fn change(&self, problem: &Updates, next: &Stage, tables: &mut Tables) -> Most {
        let (places, gone) = self.lanes_of(&next.kept);
        let stride = next.sweep.stride();
        self.sweep.change(&next.sweep, tables, |points, rows| {
            let Block { first, count, rows: from, stride: old } = points;
            let denied = self.update(problem, Block { first, count, rows: from, stride: old });
            // The rest is as believed in as the most believed of those that go there.
            let mut best = [0.0f32; POINTS_PER_BLOCK];
            rows::best_of_gone(&from[..count * old], old, &gone, &mut best);
            rows.fill(0.0);
            for ((row, from), &best) in
                rows.chunks_exact_mut(stride).zip(from.chunks_exact(old)).zip(&best).take(count)
            {
                row.iter_mut().zip(&places).for_each(|(to, &place)| *to = from[place]);
                row[places.len()] = best;
            }
            denied
        })
    }

    /// The last update: beliefs in all labels into `q`.
    fn finish(&self, problem: &Updates, all: &Stage, tables: &mut Tables, q: &mut [f32]) -> Most {
        let (labels, stride) = (problem.labels, all.sweep.stride());
        self.sweep.read(q, tables, |points, q| {
            let Block { first, count, rows, stride: old } = points;
            if self.rest.is_none() {
                self.update(problem, Block { first, count, rows, stride: old });
                keep_points(&Block { first, count, rows, stride: old }, labels, q);
                return Most(0.0);
            }
            let mut full = vec![0.0f32; count * stride];
            let mut denied = 0.0f32;
            for (full, row) in full.chunks_exact_mut(stride).zip(rows.chunks_exact(old)) {
                self.kept.iter().zip(row).for_each(|(&label, &message)| full[label] = message);
                denied = denied.max(row[self.kept.len()]);
            }
            let points = Block { first, count, rows: &mut full, stride };
            all.update(problem, Block { first, count, rows: points.rows, stride });
            keep_points(&points, labels, q);
            Most(denied)
        })
    }
}

#[cfg(test)]
mod tests;
