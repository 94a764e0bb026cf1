//! What a run returns, and what an observer sees of it.

use super::best::{Bound, ScoredLabeling, relative_gap};
use crate::beliefs::Beliefs;
use crate::energy::{Energy, is_below};
use crate::error::{Error, Result};
use crate::labeling::Labeling;
use crate::solver::{Counts, Status};

/// One line of the trace: the state after an iteration.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Position of the stage in the chain.
    pub stage: usize,
    /// The stage's method.
    pub method: String,
    /// Iterations of this stage so far.
    pub iteration: usize,
    /// Since the start of the run.
    pub seconds: f64,
    /// Uses of the operator since the start of the run.
    pub counts: Counts,
    /// The method's own objective; NaN where it is not computed, as by `mfN` on lattices.
    pub objective: f64,
    /// Energy of the best labelling seen so far, the unary argmin and the constant labellings included.
    pub energy: f64,
    /// Energy of the most believed labels now; `None` where they were not evaluated after this iteration.
    pub own_energy: Option<f64>,
    /// Best lower bound so far.
    pub lower_bound: Option<f64>,
}

/// What a run returns.
#[derive(Debug, Clone)]
pub struct Solution {
    /// The labelling that the methods arrived at.
    ///
    /// A chain that ends with mean field (or `unary`) gives the most believed labels of [`Solution::beliefs`]. Other methods
    /// give the labelling of lowest energy among their own iterates and roundings. `auto` and `exact` give
    /// [`Solution::best`].
    pub labeling: Labeling,
    /// The energy of [`Solution::labeling`].
    pub energy: Energy,
    /// The lowest energy seen, the unary argmin and all constant labellings included.
    pub best: ScoredLabeling,
    /// The constant labelling of lowest energy: its label, and its energy.
    pub constant: (u16, f64),
    /// Energy of the most believed labels of [`Solution::beliefs`].
    pub final_energy: Energy,
    /// A number that no labelling's energy can be below, if a method gave one.
    pub lower_bound: Option<Bound>,
    /// The last stage's beliefs.
    pub beliefs: Beliefs,
    /// Why the run stopped.
    pub status: Status,
    /// Iterations of all stages.
    pub iterations: usize,
    /// Uses of the operator.
    pub counts: Counts,
    /// Wall-clock time.
    pub seconds: f64,
    /// One entry per iteration.
    pub trace: Vec<Progress>,
    /// Methods that `auto` had planned and left out, because memory or time was short.
    pub left_out: Vec<LeftOut>,
}

/// A part of a plan of `auto` that was not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// The methods.
    pub method: String,
    /// Why they were not run.
    pub why: String,
}

impl Solution {
    /// `(energy - lower bound) / |energy|`, never negative, infinite if the energy is next to nothing; `None` without a
    /// bound.
    pub fn gap(&self) -> Option<f64> {
        self.lower_bound.as_ref().map(|b| relative_gap(self.energy.total(), b.value))
    }

    /// The same with the best labelling seen in place of the methods' own.
    #[must_use]
    pub fn with_best_labeling(mut self) -> Self {
        self.take_best_labeling();
        self
    }

    /// The solution of a problem with the labels `keep` alone ([`Model::restrict`](crate::Model::restrict)) as one of the
    /// problem with all `labels`.
    pub fn with_labels_of(mut self, keep: &[usize], labels: usize) -> Result<Self> {
        if keep.len() != self.beliefs.labels() {
            let expected = format!("{} labels, as the solution", self.beliefs.labels());
            return Err(Error::shape("list of labels", format!("{} labels", keep.len()), expected));
        }
        if let Some(&label) = keep.iter().find(|&&label| label >= labels) {
            return Err(Error::value(
                "label to keep",
                label,
                format!("labels below {labels}, each of them once"),
            ));
        }
        self.labeling = widened(&self.labeling, keep);
        self.best.labeling = widened(&self.best.labeling, keep);
        self.constant.0 = keep[usize::from(self.constant.0)] as u16;
        self.beliefs = spread(&self.beliefs, keep, labels)?;
        Ok(self)
    }

    pub(super) fn take_best_labeling(&mut self) {
        (self.labeling, self.energy) = (self.best.labeling.clone(), self.best.energy);
    }

    /// The constant labelling of lowest energy, if that is below the energy of [`Solution::labeling`]: a sign that the
    /// pairwise terms are very strong for these unaries.
    pub fn constant_below(&self) -> Option<(u16, f64)> {
        Some(self.constant).filter(|c| is_below(c.1, self.energy.total()))
    }
}

/// A labelling of the problem with the labels `keep` as one of the whole problem.
fn widened(labeling: &Labeling, keep: &[usize]) -> Labeling {
    Labeling::new(labeling.as_slice().iter().map(|&l| keep[usize::from(l)] as u16).collect())
}

/// Beliefs in the labels `keep` as beliefs in all labels.
fn spread(beliefs: &Beliefs, keep: &[usize], labels: usize) -> Result<Beliefs> {
    let mut values = vec![0.0; beliefs.pixels() * labels];
    for (wide, narrow) in values.chunks_exact_mut(labels).zip(beliefs.as_slice().chunks_exact(keep.len())) {
        for (&i, &y) in keep.iter().zip(narrow) {
            wide[i] = y;
        }
    }
    Beliefs::new(values, labels)
}
