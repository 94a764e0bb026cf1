//! When to stop, and why a run stopped.

use std::time::Duration;

use crate::error::{Error, Result};

/// Limits and choices of a run. Every field has a sensible default.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Most iterations per stage; `None`: the method's own.
    pub max_iterations: Option<usize>,
    /// A stage has converged when an iteration changes its objective (or leaves a gap) of less than this
    /// share of [`Model::scale`](crate::Model::scale); `None`: the method's own.
    pub tolerance: Option<f64>,
    /// Stop after this time, between iterations.
    pub time_limit: Option<Duration>,
    /// Stop when `(energy - lower bound) / |energy|` is at most this.
    pub until_gap: Option<f64>,
    /// Round the beliefs and evaluate the labelling every so many iterations (and at the end of a stage).
    pub evaluate_every: usize,
    /// Seed of everything random: rounding, tree sampling.
    pub seed: u64,
    /// Kleinberg-Tardos roundings tried at the end of each LP stage, besides the most believed labels.
    pub roundings: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_iterations: None,
            tolerance: None,
            time_limit: None,
            until_gap: None,
            evaluate_every: 10,
            seed: 0,
            roundings: 4,
        }
    }
}

impl Settings {
    /// Fails on numbers that make no sense.
    pub(crate) fn check(&self) -> Result<()> {
        let proper = |x: f64| x.is_finite() && x >= 0.0;
        if let Some(t) = self.tolerance.filter(|&t| !proper(t)) {
            return Err(Error::value("tolerance", t, "a finite number, 0 or more"));
        }
        if let Some(g) = self.until_gap.filter(|&g| !proper(g)) {
            return Err(Error::value("gap to stop at", g, "a finite number, 0 or more"));
        }
        if self.evaluate_every == 0 {
            return Err(Error::value("evaluation interval", 0, "at least 1"));
        }
        Ok(())
    }
}

/// Why a run stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The last stage reached its tolerance.
    Converged,
    /// The last stage used up its iterations.
    MaxIterations,
    /// The time limit was hit.
    TimeLimit,
    /// The observer asked to stop.
    Stopped,
    /// The gap asked for was reached.
    GapReached,
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Self::Converged => "converged",
            Self::MaxIterations => "iteration limit",
            Self::TimeLimit => "time limit",
            Self::Stopped => "stopped",
            Self::GapReached => "gap reached",
        })
    }
}
