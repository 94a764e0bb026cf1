//! Runs the parts of a plan, each from what the parts before it found.
//!
//! A pipeline that the user names is a plan of one part; `auto` plans several.

use std::ops::ControlFlow;

use super::best::ScoredLabeling;
use super::joining::{Clock, Earlier};
use super::solution::{LeftOut, Progress, Solution};
use super::stages::{self, PROVED};
use crate::auto::{Part, Plan, Scope};
use crate::beliefs::Beliefs;
use crate::energy;
use crate::error::Result;
use crate::labeling::Labeling;
use crate::memory;
use crate::methods::{Answer, Method, Pipeline};
use crate::model::Model;
use crate::solver::{Settings, Status};

/// Fraction of the beliefs that is spread over the labels of the best labelling before the LP continues from them. From
/// beliefs of 0 and 1 its bound rises slowly; from softened ones as fast as from the start.
const SOFTENED_FRACTION: f32 = 0.3;

/// Runs a plan from `init`, or from `softmax(-unary)`, and adds it to an earlier run if there is one.
pub(super) fn run(
    model: &Model,
    plan: &Plan,
    answer: Answer,
    (init, earlier): (Option<&Beliefs>, Option<&Solution>),
    settings: &Settings,
    observer: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Solution> {
    let clock = Clock::start(earlier);
    // The solution so far, and whether a part of the plan has been run.
    let (mut sum, mut any) = (earlier.cloned(), false);
    let (mut left_out, mut no_memory) = (Vec::new(), None);
    for part in &plan.parts {
        let mut leave_out =
            |why: &str| left_out.push(LeftOut { method: part.to_string(), why: why.to_string() });
        let left = settings.time_limit.map(|limit| clock.left_of(limit));
        if let Some(sum) = sum.as_mut().filter(|_| any && left.is_some_and(|t| t.is_zero())) {
            sum.status = Status::TimeLimit;
        }
        if any && sum.as_ref().is_some_and(is_done) {
            if sum.as_ref().is_some_and(|s| s.status == Status::TimeLimit) {
                leave_out("the time limit was reached");
                continue;
            }
            break;
        }
        let restricted = match (part.scope, &sum) {
            // A start that the user chose has all labels.
            (Scope::Used, Some(sum)) if init.is_none() => match Labels::of(model, &sum.best.labeling) {
                Labels::One => continue,
                Labels::Some(restricted) => Some(restricted),
                Labels::All => None,
            },
            _ => None,
        };
        let mut settings = Settings {
            time_limit: left,
            max_iterations: [part.most_iterations, settings.max_iterations].into_iter().flatten().min(),
            ..settings.clone()
        };
        if let Some(steps) = part.schedule_steps().filter(|_| plan.is_choice && left.is_some()) {
            // Evaluating labellings all the way would take a tenth of the time. The best are at the end, or a little before.
            settings.evaluate_every = (steps * 7 / 8).max(1);
        }
        // What there is no memory for is left out, unless there is none for anything.
        let nearest = match part.scope {
            Scope::Nearest => Some(model.with_nearest_negative().unwrap_or(model)),
            _ => None,
        };
        let here = restricted.as_ref().map_or(model, |r| &r.model);
        if let Err(error) = memory::require_for_methods(here, &part.pipeline) {
            leave_out(&error.to_string());
            no_memory = Some(error);
            continue;
        }
        let before = Earlier::new(sum.as_ref(), clock.seconds());
        let mut watch = |progress: &Progress| match &sum {
            Some(_) => observer(&before.added_to(progress)),
            None => observer(progress),
        };
        let mut solution = match (restricted, nearest) {
            (_, Some(nearest)) => on_nearest(model, nearest, part, init, settings, &mut watch)?,
            (Some(restricted), _) => restricted.run(part, answer, settings, &mut watch, model.labels())?,
            (None, None) => {
                let known = match (part.scope, &sum) {
                    (Scope::Onward, Some(sum)) => {
                        Some(softened(&sum.beliefs, &used(&sum.best.labeling, model))?)
                    }
                    (Scope::Continued, Some(sum)) => Some(sum.beliefs.clone()),
                    (Scope::Best, Some(sum)) => {
                        Some(Beliefs::from_labeling(&sum.best.labeling, model.labels()))
                    }
                    _ => None,
                };
                let start = known.as_ref().or(init);
                let known = sum.as_ref().filter(|_| any).map(|s| s.best.labeling.clone());
                stages::run(model, &part.pipeline, start, known, answer, &settings, &mut watch)?
            }
        };
        before.add(&mut solution, sum.take(), answer, clock.seconds());
        (sum, any) = (Some(solution), true);
    }
    let mut solution = match (sum.filter(|_| any), no_memory) {
        (Some(solution), _) => solution,
        (None, Some(error)) => return Err(error),
        (None, None) => {
            let pipeline = Pipeline::from(Method::MF);
            stages::run(model, &pipeline, init, None, Answer::BestSeen, settings, observer)?
        }
    };
    solution.left_out.append(&mut left_out);
    Ok(solution)
}

/// Runs a part of a plan on the problem with other label costs, and evaluates its solution with those of the model.
fn on_nearest(
    model: &Model,
    nearest: &Model,
    part: &Part,
    init: Option<&Beliefs>,
    mut settings: Settings,
    observer: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Solution> {
    // Energies and bounds there are none of the model.
    settings.until_gap = None;
    let without_others =
        |progress: &Progress| Progress { own_energy: None, lower_bound: None, ..progress.clone() };
    let mut watch = |progress: &Progress| observer(&without_others(progress));
    let answer = Answer::BestSeen;
    let mut solution = stages::run(nearest, &part.pipeline, init, None, answer, &settings, &mut watch)?;
    let last = solution.beliefs.argmax();
    solution.final_energy = energy::of_labeling(model, &last)?;
    solution.best.energy = energy::of_labeling(model, &solution.best.labeling)?;
    if solution.final_energy.total() < solution.best.energy.total() {
        solution.best = ScoredLabeling { labeling: last, energy: solution.final_energy };
    }
    solution.take_best_labeling();
    solution.lower_bound = None;
    solution.trace = solution.trace.iter().map(without_others).collect();
    Ok(solution)
}

/// Whether nothing that could follow would be of use.
fn is_done(solution: &Solution) -> bool {
    matches!(solution.status, Status::Stopped | Status::GapReached | Status::TimeLimit)
        || solution.gap().is_some_and(|g| g <= PROVED)
}

/// A problem with the labels of a labelling alone.
struct Restricted {
    model: Model,
    keep: Vec<usize>,
}

/// The labels of a labelling, as a problem of their own.
enum Labels {
    /// One label: there is nothing to choose from.
    One,
    /// Fewer than all.
    Some(Box<Restricted>),
    /// All, or too few for some pixel.
    All,
}

impl Labels {
    fn of(model: &Model, labeling: &Labeling) -> Self {
        let keep = used(labeling, model);
        match keep.len() {
            1 => Self::One,
            count if count == model.labels() => Self::All,
            // Fails where a pixel may have none of these labels.
            _ => model
                .restrict(&keep)
                .map_or(Self::All, |model| Self::Some(Box::new(Restricted { model, keep }))),
        }
    }
}

impl Restricted {
    /// Runs a part here, and returns its solution as one of the problem with all labels.
    fn run(
        &self,
        part: &Part,
        answer: Answer,
        mut settings: Settings,
        observer: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
        labels: usize,
    ) -> Result<Solution> {
        let Self { model, keep } = self;
        // A bound of the smaller problem is none of the whole one.
        settings.until_gap = None;
        let mut solution = stages::run(model, &part.pipeline, None, None, answer, &settings, observer)?;
        solution.lower_bound = None;
        solution.with_labels_of(keep, labels)
    }
}

/// The labels that occur.
fn used(labeling: &Labeling, model: &Model) -> Vec<usize> {
    let counts = labeling.histogram(model.labels());
    (0..counts.len()).filter(|&i| counts[i] > 0).collect()
}

/// Softens beliefs: spreads a fraction of them evenly over the labels `among`.
fn softened(beliefs: &Beliefs, among: &[usize]) -> Result<Beliefs> {
    let mut values: Vec<f32> = beliefs.as_slice().iter().map(|y| (1.0 - SOFTENED_FRACTION) * y).collect();
    for row in values.chunks_exact_mut(beliefs.labels()) {
        among.iter().for_each(|&i| row[i] += SOFTENED_FRACTION / among.len() as f32);
    }
    Beliefs::new(values, beliefs.labels())
}
