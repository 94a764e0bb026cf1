//! Runs the parts of a plan of `auto`, each from what the parts before it found.

use std::ops::ControlFlow;
use std::time::Instant;

use super::joining::Earlier;
use super::{PROVED, Progress, Solution};
use crate::auto::{Scope, plan};
use crate::beliefs::Beliefs;
use crate::error::Result;
use crate::labeling::Labeling;
use crate::memory;
use crate::methods::{Answer, Method, Pipeline};
use crate::model::Model;
use crate::solver::{Settings, Status};

/// How much of the beliefs that a run ended with is shared out among the labels of the best answer before the LP goes on
/// from them: from certain beliefs its bound rises slowly, from loosened ones as fast as from the start.
const LOOSENED: f32 = 0.3;

/// Plans, and runs what was planned.
pub(super) fn run(
    model: &Model,
    init: Option<Beliefs>,
    settings: &Settings,
    observer: &mut dyn FnMut(&Progress) -> ControlFlow<()>,
) -> Result<Solution> {
    let started = Instant::now();
    let mut sum: Option<Solution> = None;
    let mut left_out = None;
    for part in plan(model, settings).runs {
        let left = settings.time_limit.map(|t| t.saturating_sub(started.elapsed()));
        if let Some(sum) = sum.as_mut().filter(|_| left.is_some_and(|t| t.is_zero())) {
            sum.status = Status::TimeLimit;
            break;
        }
        let known = sum.as_ref().map(|s| &s.best.labeling);
        // A start that the user chose has all labels.
        let narrow = known.filter(|_| part.scope == Scope::Used && init.is_none()).map(|l| used(l, model));
        if narrow.as_ref().is_some_and(|keep| keep.len() == 1) {
            continue;
        }
        let focus = narrow.filter(|keep| keep.len() < model.labels()).and_then(|keep| {
            // Fails where a pixel may have none of these labels.
            let smaller = model.restrict(&keep).ok()?;
            Some((smaller, keep))
        });
        let most = [part.most_iterations, settings.max_iterations].into_iter().flatten().min();
        let mut settings = Settings { time_limit: left, max_iterations: most, ..settings.clone() };
        if let Some(schedule) = part.schedule().filter(|_| left.is_some()) {
            // Evaluating labellings all the way would take a tenth of the time. The best are at the end, or a little before.
            settings.evaluate_every = (schedule.steps * 7 / 8).max(1);
        }
        // What there is no memory for is left out, unless there is none for anything.
        let here = focus.as_ref().map_or(model, |(smaller, _)| smaller);
        if let Err(error) = memory::require_for_methods(here, &part.pipeline) {
            left_out = Some(error);
            continue;
        }
        let earlier = Earlier::of(sum.as_ref(), started);
        let mut watch = |progress: &Progress| observer(&earlier.added_to(progress));
        let mut solution = match focus {
            Some((smaller, keep)) => {
                // A bound of the smaller problem is none of the whole one.
                settings.until_gap = None;
                let mut part = super::run(
                    &smaller,
                    &part.pipeline,
                    None,
                    None,
                    Answer::BestSeen,
                    &settings,
                    &mut watch,
                )?;
                part.best.labeling = widened(&part.best.labeling, &keep);
                part.constant.0 = keep[usize::from(part.constant.0)] as u16;
                part.beliefs = spread(&part.beliefs, &keep, model.labels())?;
                part.lower_bound = None;
                part
            }
            None => {
                let start = match (part.scope, &sum) {
                    (Scope::Onward, Some(sum)) => {
                        Some(loosened(&sum.beliefs, &used(&sum.best.labeling, model))?)
                    }
                    _ => init.clone(),
                };
                super::run(
                    model,
                    &part.pipeline,
                    start,
                    known.cloned(),
                    Answer::BestSeen,
                    &settings,
                    &mut watch,
                )?
            }
        };
        earlier.add(&mut solution, sum.take(), started);
        let done = matches!(solution.status, Status::Stopped | Status::GapReached | Status::TimeLimit)
            || solution.gap().is_some_and(|g| g <= PROVED);
        sum = Some(solution);
        if done {
            break;
        }
    }
    match (sum, left_out) {
        (Some(solution), _) => Ok(solution),
        (None, Some(error)) => Err(error),
        (None, None) => {
            let pipeline = Pipeline::from(Method::MeanField);
            super::run(model, &pipeline, init, None, Answer::BestSeen, settings, observer)
        }
    }
}

/// The labels that occur.
fn used(labeling: &Labeling, model: &Model) -> Vec<usize> {
    let counts = labeling.histogram(model.labels());
    (0..counts.len()).filter(|&i| counts[i] > 0).collect()
}

/// Beliefs of which a part is shared out among the labels `among`.
fn loosened(beliefs: &Beliefs, among: &[usize]) -> Result<Beliefs> {
    let mut values: Vec<f32> = beliefs.as_slice().iter().map(|y| (1.0 - LOOSENED) * y).collect();
    for row in values.chunks_exact_mut(beliefs.labels()) {
        among.iter().for_each(|&i| row[i] += LOOSENED / among.len() as f32);
    }
    Beliefs::new(values, beliefs.labels())
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
