//! The loop: one step of a method after the other, stage by stage, until a limit or a tolerance is reached.

use std::ops::ControlFlow;
use std::time::Instant;

use super::best::{self, Best, ScoredLabeling};
use super::solution::{Progress, Solution};
use crate::beliefs::Beliefs;
use crate::energy;
use crate::error::Result;
use crate::labeling::Labeling;
use crate::memory;
use crate::methods::{Answer, Method, Pipeline};
use crate::model::Model;
use crate::solver::{Context, Settings, Status};

/// A relative gap that only rounding leaves: nothing is left to be found.
pub(super) const PROVED: f64 = 1e-12;

/// Runs the stages of a pipeline one after the other. `known` is a labelling to do better than.
pub(super) fn run(
    model: &Model,
    pipeline: &Pipeline,
    init: Option<&Beliefs>,
    known: Option<Labeling>,
    answer: Answer,
    settings: &Settings,
    observer: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Solution> {
    let started = Instant::now();
    memory::require_for_methods(model, pipeline)?;
    let start = || init.cloned().unwrap_or_else(|| Beliefs::from_energies(model.unary(), model.labels()));
    let limit = |method: &Method| settings.max_iterations.unwrap_or(method.default_iterations());
    // The fast solver of a stage that begins with `softmax(-unary)`, if it has one. Its beliefs are written at its end.
    let from_start = |stage: usize| {
        let method = &pipeline.stages()[stage];
        let applies = init.is_none() && pipeline.starts_anew(stage);
        if applies { method.solver_from_start(model, limit(method)) } else { None }
    };
    let written = from_start(0).is_none();
    let mut beliefs = if written { start() } else { Beliefs::unwritten(model.pixels(), model.labels()) };
    // Before anything is run: does every method fit the model?
    for method in pipeline.stages() {
        method.require_fit(model)?;
    }

    let mut context = Context::new(model, settings, started);
    let mut best = Best::new(&mut context, written.then_some(&beliefs), answer == Answer::BestSeen);
    if let Some(labeling) = known {
        best.saw(&mut context, labeling);
    }
    let mut trace = Vec::new();
    let mut iterations = 0;
    let mut status = Status::Converged;

    'run: for (stage, method) in pipeline.stages().iter().enumerate() {
        let mut solver = match from_start(stage) {
            Some(solver) => solver,
            None => {
                if stage > 0 && pipeline.starts_anew(stage) {
                    beliefs = start();
                }
                method.solver(model)?
            }
        };
        let relative = settings.tolerance.unwrap_or(method.default_tolerance());
        // The scale is not worked out where it makes no difference.
        let tolerance = if relative > 0.0 { relative * model.scale() } else { relative };
        let limit = limit(method);
        status = Status::MaxIterations;

        for iteration in 1..=limit {
            // --- one step of the method ---
            let step = solver.step(&mut context, &mut beliefs);
            iterations += 1;

            // --- what is known now ---
            if step.lower_bound.is_some() && best.bound().is_none() {
                best.raise_bound(energy::least_unary(model), || "unary energies alone".into());
            }
            best.raise_bound(step.lower_bound, || bound_source(method, solver.bound_remark()));
            if let Some(labeling) = solver.proposal() {
                best.offer(&mut context, labeling);
            }
            let last = step.residual <= tolerance || iteration == limit || context.out_of_time();
            if last {
                solver.write_beliefs(&mut context, &mut beliefs);
            }
            let evaluate = solver.has_beliefs() && (last || iteration % settings.evaluate_every == 0);
            let own = evaluate.then(|| best.offer(&mut context, beliefs.argmax()));
            trace.push(Progress {
                stage,
                method: method.to_string(),
                iteration,
                seconds: started.elapsed().as_secs_f64(),
                counts: context.counts(),
                objective: step.objective,
                energy: best.energy().total(),
                own_energy: own.map(|e| e.total()),
                lower_bound: best.bound().map(|b| b.value),
            });

            // --- go on? ---
            let stop = if observer(&trace[trace.len() - 1]).is_break() {
                Some(Status::Stopped)
            } else if settings.until_gap.is_some_and(|g| best.gap().is_some_and(|now| now <= g)) {
                Some(Status::GapReached)
            } else if context.out_of_time() {
                Some(Status::TimeLimit)
            } else {
                None
            };
            if let Some(reason) = stop {
                status = reason;
                solver.write_beliefs(&mut context, &mut beliefs);
                best.offer(&mut context, beliefs.argmax());
                break 'run;
            }
            if step.residual <= tolerance {
                status = Status::Converged;
                break;
            }
        }
        for labeling in solver.candidates(&mut context, &beliefs) {
            best.offer(&mut context, labeling);
        }
        if best.gap().is_some_and(|g| g <= PROVED) {
            break;
        }
    }

    let last = beliefs.argmax();
    let last = ScoredLabeling { energy: best.evaluate(&mut context, &last), labeling: last };
    let final_energy = last.energy;
    let best::Parts { own, seen, constant, bound } = best.into_parts();
    let own = match answer {
        Answer::Beliefs => last,
        Answer::LowestOwn | Answer::BestSeen => own.unwrap_or(last),
    };
    Ok(Solution {
        labeling: own.labeling,
        energy: own.energy,
        best: seen,
        constant,
        final_energy,
        lower_bound: bound,
        beliefs,
        status,
        iterations,
        counts: context.counts(),
        seconds: started.elapsed().as_secs_f64(),
        trace,
        left_out: Vec::new(),
    })
}

/// What a bound of a method is called.
fn bound_source(method: &Method, remark: &str) -> String {
    if remark.is_empty() { method.to_string() } else { format!("{method} {remark}") }
}
