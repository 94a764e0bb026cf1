//! Joins runs: several, one after the other, as one.

use std::time::Instant;

use super::solution::{Progress, Solution};
use crate::methods::Answer;
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
    /// `seconds` have passed since the start of the first run.
    pub fn new(sum: Option<&Solution>, seconds: f64) -> Self {
        Self {
            stages: sum.and_then(|s| s.trace.last()).map_or(0, |p| p.stage + 1),
            iterations: sum.map_or(0, |s| s.iterations),
            counts: sum.map_or(Counts::default(), |s| s.counts),
            seconds,
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

    /// Makes a run's solution that of all runs; `answer` says which labelling is theirs.
    pub fn add(&self, solution: &mut Solution, before: Option<Solution>, answer: Answer, seconds: f64) {
        solution.iterations += self.iterations;
        solution.counts = self.counts + solution.counts;
        solution.seconds = seconds;
        if let Some(before) = before {
            solution.trace = solution.trace.iter().map(|p| self.added_to(p)).collect();
            solution.trace.splice(0..0, before.trace);
            solution.left_out.splice(0..0, before.left_out);
            if before.best.energy.total() <= solution.best.energy.total() {
                solution.best = before.best;
            }
            if answer == Answer::LowestOwn && before.energy.total() < solution.energy.total() {
                (solution.labeling, solution.energy) = (before.labeling, before.energy);
            }
            if before.constant.1 < solution.constant.1 {
                solution.constant = before.constant;
            }
            let now = solution.lower_bound.as_ref().map(|b| b.value);
            if before.lower_bound.as_ref().map(|b| b.value) >= now {
                solution.lower_bound = before.lower_bound;
            }
        }
        if answer == Answer::BestSeen {
            solution.take_best_labeling();
        }
    }
}

/// The time since the start of the first of several runs.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    started: Instant,
    before: f64,
}

impl Clock {
    /// Starts now, with the time that an earlier run took already on it.
    pub fn start(earlier: Option<&Solution>) -> Self {
        Self { started: Instant::now(), before: earlier.map_or(0.0, |e| e.seconds) }
    }

    /// Seconds of all runs.
    pub fn seconds(&self) -> f64 {
        self.before + self.started.elapsed().as_secs_f64()
    }

    /// What is left of a time limit that began when the clock was started.
    pub fn left_of(&self, limit: std::time::Duration) -> std::time::Duration {
        limit.saturating_sub(self.started.elapsed())
    }
}
