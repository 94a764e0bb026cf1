//! Mean-field updates for callers that need the beliefs only.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use crate::beliefs::Beliefs;
use crate::error::Result;
use crate::memory;
use crate::methods::{Method, Pipeline};
use crate::model::Model;
use crate::solver::{Context, Settings};

/// The beliefs of the method `mfN` with N = `updates`, or of fewer updates (one at least) once `stop` is set.
///
/// Equal to the beliefs of [`Solve`](super::Solve), bit by bit, without the cost of evaluating labellings.
pub fn mean_field_beliefs(model: &Model, updates: usize, stop: &AtomicBool) -> Result<Beliefs> {
    let method = Method::mean_field_updates(updates);
    memory::require_for_methods(model, &Pipeline::from(method))?;
    let settings = Settings::default();
    let mut context = Context::new(model, &settings, Instant::now());
    let (mut solver, mut beliefs) = match method.solver_from_start(model, updates) {
        Some(solver) => (solver, Beliefs::unwritten(model.pixels(), model.labels())),
        None => (method.solver(model)?, Beliefs::from_energies(model.unary(), model.labels())),
    };
    for _ in 0..updates {
        solver.step(&mut context, &mut beliefs);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    solver.write_beliefs(&mut context, &mut beliefs);
    Ok(beliefs)
}
