//! Updates as a solver of the loop, and as a function for callers that need the beliefs only.

use super::{Run, Updates};
use crate::beliefs::Beliefs;
use crate::model::Model;
use crate::solver::{Context, Solver, Step};
use relaxcrf_filter::fused::Tables;

/// The updates of a model with at least two labels whose kernels are lattices and whose messages are those of Potts costs;
/// `None` for other models.
pub(crate) fn on_lattices(model: &Model) -> Option<Updates<'_>> {
    if model.labels() < 2 {
        return None;
    }
    let weights = model.potts_weights()?;
    let mut terms = model.pairwise().sweep_terms()?;
    // The energy counts every pair twice, once from each end.
    terms.iter_mut().zip(weights).for_each(|(term, weight)| term.scaling.gain *= 2.0 * weight);
    let terms = Some(terms).filter(|terms| !terms.is_empty())?;
    Some(Updates { labels: model.labels(), points: model.pixels(), unary: Some(model.linear()), terms })
}

/// The method `mfN` from `softmax(-φ)`: beliefs are written once, after the last update.
pub(in crate::methods) struct FromStart<'m> {
    /// `None` once the beliefs are written.
    run: Option<Run<'m>>,
}

impl<'m> FromStart<'m> {
    /// Prepares at most `planned` updates; `None` for models that need the plain method, and if there is no update to make.
    pub fn new(model: &'m Model, planned: usize) -> Option<Self> {
        if planned == 0 {
            return None;
        }
        let run = Run::new(on_lattices(model)?, planned, Tables::default())?;
        Some(Self { run: Some(run) })
    }
}

impl Solver for FromStart<'_> {
    fn step(&mut self, context: &mut Context, _beliefs: &mut Beliefs) -> Step {
        if let Some(run) = &mut self.run {
            let before = run.passes();
            run.step();
            (before..run.passes()).for_each(|_| context.count_filter());
        }
        Step { objective: f64::NAN, lower_bound: None, residual: f64::INFINITY }
    }

    fn has_beliefs(&self) -> bool {
        self.run.is_none()
    }

    fn write_beliefs(&mut self, context: &mut Context, beliefs: &mut Beliefs) {
        if let Some(mut run) = self.run.take() {
            let before = run.passes();
            run.read(beliefs.as_mut_slice());
            (before..run.passes()).for_each(|_| context.count_filter());
        }
    }
}
