//! Several runs as one.

use std::time::Instant;

use super::{Progress, Solution};
use crate::solver::Counts;

/// What was known and spent before a run.
pub(super) struct Earlier {
    stages: usize,
    iterations: usize,
    counts: Counts,
    seconds: f64,
    energy: f64,
    lower_bound: Option<f64>,
}

impl Earlier {
    pub fn of(sum: Option<&Solution>, started: Instant) -> Self {
        Self {
            stages: sum.and_then(|s| s.trace.last()).map_or(0, |p| p.stage + 1),
            iterations: sum.map_or(0, |s| s.iterations),
            counts: sum.map_or(Counts::default(), |s| s.counts),
            seconds: started.elapsed().as_secs_f64(),
            energy: sum.map_or(f64::INFINITY, |s| s.best.energy.total()),
            lower_bound: sum.and_then(|s| s.lower_bound.as_ref()).map(|b| b.value),
        }
    }

    /// The state after an iteration, as seen from the beginning of all runs.
    pub fn added_to(&self, progress: &Progress) -> Progress {
        Progress {
            stage: self.stages + progress.stage,
            seconds: self.seconds + progress.seconds,
            counts: self.counts + progress.counts,
            energy: self.energy.min(progress.energy),
            // The larger; None is less than every number.
            lower_bound: if progress.lower_bound > self.lower_bound {
                progress.lower_bound
            } else {
                self.lower_bound
            },
            ..progress.clone()
        }
    }

    /// Makes a run's solution that of all runs.
    pub fn add(&self, solution: &mut Solution, before: Option<Solution>, started: Instant) {
        let mut trace: Vec<Progress> = solution.trace.iter().map(|p| self.added_to(p)).collect();
        solution.iterations += self.iterations;
        solution.counts = self.counts + solution.counts;
        solution.seconds = started.elapsed().as_secs_f64();
        if let Some(before) = before {
            if before.best.energy.total() <= solution.best.energy.total() {
                solution.best = before.best;
            }
            if before.constant.1 < solution.constant.1 {
                solution.constant = before.constant;
            }
            let now = solution.lower_bound.as_ref().map(|b| b.value);
            if before.lower_bound.as_ref().map(|b| b.value) >= now {
                solution.lower_bound = before.lower_bound;
            }
            trace.splice(0..0, before.trace);
        }
        solution.take_best_labeling();
        solution.trace = trace;
    }
}
