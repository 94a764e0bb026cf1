//! The loop that every method shares, and the methods, each of which supplies one step.
//!
//! Read [`solve`] first, then one method, for example `mean_field.rs`.

mod best;
mod joining;
mod planned;
mod updates;

use std::ops::ControlFlow;
use std::time::Instant;

use self::best::Best;
pub use self::best::{Bound, ScoredLabeling};
pub use self::updates::mean_field_beliefs;
use crate::beliefs::Beliefs;
use crate::energy::{self, Energy, is_below};
use crate::error::{Error, Result};
use crate::labeling::Labeling;
use crate::memory;
use crate::methods::{Answer, Method, Pipeline};
use crate::model::Model;
use crate::solver::{Context, Counts, Settings, Status};

/// A relative gap that only rounding leaves: nothing is left to be found.
const PROVED: f64 = 1e-12;

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
}

impl Solution {
    /// `(energy - lower bound) / |energy|`, never negative, infinite if the energy is next to nothing; `None` without a
    /// bound.
    pub fn gap(&self) -> Option<f64> {
        self.lower_bound.as_ref().map(|b| best::relative_gap(self.energy.total(), b.value))
    }

    /// The same with the best labelling seen in place of the methods' own.
    #[must_use]
    pub fn with_best_labeling(mut self) -> Self {
        self.take_best_labeling();
        self
    }

    fn take_best_labeling(&mut self) {
        (self.labeling, self.energy) = (self.best.labeling.clone(), self.best.energy);
    }

    /// The constant labelling of lowest energy, if that is below the energy of [`Solution::labeling`]: a sign that the
    /// pairwise terms are very strong for these unaries.
    pub fn constant_below(&self) -> Option<(u16, f64)> {
        Some(self.constant).filter(|c| is_below(c.1, self.energy.total()))
    }
}

/// Runs a method, a chain of them, or several chains, on a model.
///
/// Every chain starts from `init`, or from `softmax(-unary)`. `observer` sees every iteration and may stop the run, which
/// then returns what it has: see [`Solution::labeling`] and [`Solution::best`].
pub fn solve(
    model: &Model,
    pipeline: &Pipeline,
    init: Option<Beliefs>,
    settings: &Settings,
    observer: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Solution> {
    settings.check()?;
    let init = init.map(|b| fitting(model, b)).transpose()?;
    if pipeline.is_auto() {
        planned::run(model, init, settings, observer)
    } else {
        run(model, pipeline, init, None, pipeline.answer(), settings, observer)
    }
}

/// The loop. `known` is a labelling to do better than.
fn run(
    model: &Model,
    pipeline: &Pipeline,
    init: Option<Beliefs>,
    known: Option<Labeling>,
    answer: Answer,
    settings: &Settings,
    observer: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Solution> {
    let started = Instant::now();
    memory::require_for_methods(model, pipeline)?;
    let start = || init.clone().unwrap_or_else(|| Beliefs::from_energies(model.unary(), model.labels()));
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
        method.solver(model)?;
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
    })
}

/// What a bound of a method is called.
fn bound_source(method: &Method, remark: &str) -> String {
    if remark.is_empty() { method.to_string() } else { format!("{method} {remark}") }
}

fn fitting(model: &Model, beliefs: Beliefs) -> Result<Beliefs> {
    if beliefs.pixels() != model.pixels() || beliefs.labels() != model.labels() {
        return Err(Error::shape(
            "initial beliefs",
            format!("{} pixels x {} labels", beliefs.pixels(), beliefs.labels()),
            format!("{} x {}", model.pixels(), model.labels()),
        ));
    }
    Ok(beliefs)
}
