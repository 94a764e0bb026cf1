//! Runs a relaxation on the largest sum of cuts below the model's label costs.
//!
//! The LP relaxation needs a sum of cuts, the convex QP conditionally negative costs. For other costs of 0 or more both work
//! on a problem whose energies are nowhere above the model's (see [`Model::with_cuts_below`]), so that their lower bounds
//! are bounds of the model. Labellings are evaluated with the model's own costs.

use crate::beliefs::Beliefs;
use crate::error::Result;
use crate::labeling::Labeling;
use crate::model::{CompatibilityKind, Model};
use crate::relaxation::cuts::cuts_for;
use crate::solver::{Context, Solver, Step};

/// Fails unless the label costs are a sum of cuts, or have one below them.
pub(super) fn require_cuts(model: &Model, method: &str) -> Result<()> {
    match has_cuts(model) || model.with_cuts_below().is_none() {
        true => cuts_for(model, method).map(drop),
        false => Ok(()),
    }
}

/// A solver that needs a sum of cuts, made by `make`: of the model, or of the problem with the costs below.
pub(super) fn on_cuts<'m, S: Solver + 'm>(
    model: &'m Model,
    make: impl Fn(&'m Model) -> Result<S>,
) -> Result<Box<dyn Solver + 'm>> {
    if has_cuts(model) { Ok(Box::new(make(model)?)) } else { OnCostsBelow::boxed(model, make) }
}

fn has_cuts(model: &Model) -> bool {
    let costs = model.compatibility();
    matches!(costs.kind(), CompatibilityKind::Potts) || costs.cuts().is_some()
}

/// A solver of the problem with the costs below.
pub(super) struct OnCostsBelow<'m> {
    below: &'m Model,
    solver: Box<dyn Solver + 'm>,
}

impl<'m> OnCostsBelow<'m> {
    /// A solver made by `make` for the problem with the costs below; for the model itself if there are no such costs, so that
    /// the method says why it needs them.
    pub fn boxed<S: Solver + 'm>(
        model: &'m Model,
        make: impl Fn(&'m Model) -> Result<S>,
    ) -> Result<Box<dyn Solver + 'm>> {
        let Some(below) = model.with_cuts_below() else { return Ok(Box::new(make(model)?)) };
        Ok(Box::new(Self { below, solver: Box::new(make(below)?) }))
    }

    fn on_costs_below<T>(
        &mut self,
        context: &mut Context,
        work: impl FnOnce(&mut dyn Solver, &mut Context) -> T,
    ) -> T {
        let lowest = context.lowest_energy();
        let solver = &mut *self.solver;
        context.on(self.below, lowest, |context| work(solver, context))
    }
}

impl Solver for OnCostsBelow<'_> {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        self.on_costs_below(context, |solver, context| solver.step(context, beliefs))
    }

    fn has_beliefs(&self) -> bool {
        self.solver.has_beliefs()
    }

    fn write_beliefs(&mut self, context: &mut Context, beliefs: &mut Beliefs) {
        self.on_costs_below(context, |solver, context| solver.write_beliefs(context, beliefs));
    }

    fn proposal(&mut self) -> Option<Labeling> {
        self.solver.proposal()
    }

    fn candidates(&mut self, context: &mut Context, beliefs: &Beliefs) -> Vec<Labeling> {
        self.on_costs_below(context, |solver, context| solver.candidates(context, beliefs))
    }

    fn bound_remark(&self) -> &'static str {
        "with the largest sum of cuts below the label costs"
    }
}
