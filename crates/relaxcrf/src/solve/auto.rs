//! The method `auto`: which methods to run on a model, and why.
//!
//! Without a time limit it is no worse than `mf5`, `mf`, `qp+dc-neg` or the best constant labelling: those are run, unless
//! something before them has proved its labelling optimal, and with them what is most likely to do better. With a time
//! limit what has the best chance in that time comes first.
//!
//! Of many labels an answer often holds a few. Going on with those alone is as much faster as they are fewer, and can
//! lose nothing, since the best labelling of all runs is returned.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::context::Counts;
use super::graduated::Schedule;
use super::method::{Answer, Method, Pipeline};
use super::settings::{Settings, Status};
use super::{PROVED, Progress, Solution};
use crate::beliefs::Beliefs;
use crate::error::Result;
use crate::labeling::Labeling;
use crate::memory;
use crate::model::Model;
use relaxcrf_filter::reduce;
use relaxcrf_filter::{Direction, Scratch};

/// What `auto` will run, and the reasons, one sentence each.
#[derive(Debug, Clone)]
pub struct Plan {
    /// One after the other, while there is time.
    pub runs: Vec<Run>,
    /// Why these.
    pub reasons: Vec<String>,
}

/// A part of a plan.
#[derive(Debug, Clone)]
pub struct Run {
    /// The methods.
    pub pipeline: Pipeline,
    /// Where they begin and what they work on.
    pub scope: Scope,
    /// Most iterations, if fewer than the settings allow.
    pub most_iterations: Option<usize>,
}

/// Where a run begins and what it works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All labels, from the start.
    Whole,
    /// The labels of the best labelling so far, from the start.
    Used,
    /// All labels, from the beliefs that the run before ended with, loosened.
    Onward,
}

impl Run {
    /// The schedule, if it is all that is run.
    fn schedule(&self) -> Option<Schedule> {
        match self.pipeline.stages() {
            [Method::Graduated(schedule)] => Some(*schedule),
            _ => None,
        }
    }
}

impl std::fmt::Display for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self.scope {
            Scope::Whole => write!(f, "{}", self.pipeline),
            Scope::Used => write!(f, "{} on the labels of the best answer", self.pipeline),
            Scope::Onward => write!(f, "{} from there", self.pipeline),
        }
    }
}

/// A schedule so short that it takes little longer than `mf`, and still beats it nearly always.
const SHORT: &str = "graduated:steps=10";
/// Its steps and some of `dc-neg`: the last hundredths of a percent are for what comes after it.
const SHORT_ITERATIONS: usize = 25;
/// What must not win.
const SAFE: &str = "mf5/mf/qp+dc-neg";
/// An iteration of `graduated` takes about this many filter calls.
const CALLS_PER_STEP: f64 = 1.4;
/// What a schedule takes where at most half of the labels matter, as a share of what it takes with all of them.
const SHARE_OF_FEW_LABELS: f64 = 0.3;

/// How much of the beliefs that a run ended with is shared out among the labels of the best answer before the LP goes on
/// from them: from certain beliefs its bound rises slowly, from loosened ones as fast as from the start.
const LOOSENED: f32 = 0.3;

/// Decides from the model and the settings. With a time limit, one filter call is made to see how long it takes.
pub fn plan(model: &Model, settings: &Settings) -> Plan {
    plan_for(model, settings.time_limit.map(|limit| affordable(model, limit)))
}

/// Decides from the model and how many updates of the beliefs there is time for, if it is limited.
fn plan_for(model: &Model, updates: Option<f64>) -> Plan {
    use Scope::{Onward, Used, Whole};
    let mut reasons = Vec::new();
    let mut say = |text: String| reasons.push(text);
    let pairwise = model.pairwise();
    let coupling = reduce::quantile(pairwise.row_sums(), 0.5).unwrap_or(0.0);
    let costs = model.compatibility();
    say(format!(
        "{} pixels, {} labels, median row sum of the kernels {coupling:.3}",
        model.pixels(),
        model.labels()
    ));
    let certified = pairwise.is_symmetric() && costs.cuts().is_some();
    let last = if !certified {
        None
    } else if model.labels() == 2 {
        Some(("exact", Whole))
    } else {
        Some(("smooth-lp+dc-neg", Onward))
    };
    let parts: Vec<(&str, Scope)> = if coupling <= 0.0 || model.labels() == 1 {
        say("nothing couples the pixels: the lowest unary energies are the optimum".into());
        vec![("unary", Whole)]
    } else if !costs.is_conditionally_negative() {
        say("some labels attract when they differ, which dc-neg and the LP cannot take: dc-gen".into());
        vec![("mf5/mf/qp+dc-gen", Whole)]
    } else {
        match last {
            None => say("no bound is known for such an operator or such label costs: no LP".into()),
            Some(("exact", _)) => say("two labels: `exact` finds the optimum and proves it".into()),
            Some(_) => say("the LP gives a bound and usually the lowest energy".into()),
        }
        match updates {
            Some(updates) => {
                say(format!("the time limit is enough for about {updates:.0} updates"));
                // Where few labels matter, most steps of the schedule are made with those alone.
                let share = if few_labels(model) { SHARE_OF_FEW_LABELS } else { 1.0 };
                let quick = if updates >= share * Schedule::default().steps as f64 {
                    say("which is enough for the graduated schedule".into());
                    vec![("graduated", Whole)]
                } else {
                    say("so a short schedule first, then a longer one on the labels that it leaves".into());
                    vec![(SHORT, Whole), ("graduated", Used)]
                };
                // What must not win comes last: the others have hardly ever been worse.
                quick.into_iter().chain(last).chain([(SAFE, Whole)]).collect()
            }
            None if last == Some(("exact", Whole)) => vec![("exact", Whole), (SAFE, Whole)],
            None => {
                say("before that the methods that must not win, and the graduated schedule".into());
                [(SAFE, Whole), (SHORT, Whole), ("graduated", Used)].into_iter().chain(last).collect()
            }
        }
    };
    let runs: Vec<Run> = parts
        .into_iter()
        .map(|(text, scope)| {
            // The names are the crate's own; a test runs every branch.
            let pipeline = text.parse().unwrap_or_else(|_| Pipeline::from(Method::MeanField));
            Run { pipeline, scope, most_iterations: (text == SHORT).then_some(SHORT_ITERATIONS) }
        })
        .collect();
    say(format!("so: {}", runs.iter().map(Run::to_string).collect::<Vec<_>>().join(", then ")));
    Plan { runs, reasons }
}

/// How many updates of the beliefs fit into the time, from one filter call with a few channels.
fn affordable(model: &Model, limit: Duration) -> f64 {
    let channels = model.labels().min(8);
    let values = vec![1.0; model.pixels() * channels];
    let mut out = vec![0.0; values.len()];
    let before = Instant::now();
    model.pairwise().apply(Direction::Forward, &values, channels, &mut out, &mut Scratch::new());
    updates_within(limit, before.elapsed(), channels, model.labels())
}

/// How many updates fit into the time if a filter call for some of the labels takes so long.
fn updates_within(limit: Duration, call: Duration, channels: usize, labels: usize) -> f64 {
    let call = call.as_secs_f64() * labels as f64 / channels as f64;
    limit.as_secs_f64() / (CALLS_PER_STEP * call).max(1e-9)
}

/// Whether at most half of the labels are the unaries' choice anywhere that matters.
fn few_labels(model: &Model) -> bool {
    let least = model.pixels() / 1000;
    let counts = model.unary_argmin().histogram(model.labels());
    2 * counts.into_iter().filter(|&n| n > least).count() <= model.labels()
}

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

/// What was known and spent before a run.
struct Earlier {
    stages: usize,
    iterations: usize,
    counts: Counts,
    seconds: f64,
    energy: f64,
    lower_bound: Option<f64>,
}

impl Earlier {
    fn of(sum: Option<&Solution>, started: Instant) -> Self {
        Self {
            stages: sum.and_then(|s| s.trace.last()).map_or(0, |p| p.stage + 1),
            iterations: sum.map_or(0, |s| s.iterations),
            counts: sum.map_or(Counts::default(), |s| s.counts),
            seconds: started.elapsed().as_secs_f64(),
            energy: sum.map_or(f64::INFINITY, |s| s.best.energy.total()),
            lower_bound: sum.and_then(|s| s.lower_bound.as_ref()).map(|b| b.value),
        }
    }

    /// The state after an iteration, as seen from the beginning of all runs.
    fn added_to(&self, progress: &Progress) -> Progress {
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

    /// Makes a run's solution that of all runs.
    fn add(&self, solution: &mut Solution, before: Option<Solution>, started: Instant) {
        let mut trace: Vec<Progress> = solution.trace.iter().map(|p| self.added_to(p)).collect();
        solution.iterations += self.iterations;
        solution.counts = self.counts + solution.counts;
        solution.seconds = started.elapsed().as_secs_f64();
        if let Some(before) = before {
            if before.best.energy.total() <= solution.best.energy.total() {
                solution.best = before.best;
            }
            if before.constant.1 < solution.constant.1 {
                solution.constant = before.constant;
            }
            let now = solution.lower_bound.as_ref().map(|b| b.value);
            if before.lower_bound.as_ref().map(|b| b.value) >= now {
                solution.lower_bound = before.lower_bound;
            }
            trace.splice(0..0, before.trace);
        }
        solution.take_best_labeling();
        solution.trace = trace;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ModelBuilder;

    /// Pixels that choose one of so many labels, and are coupled.
    fn choosing(labels: usize, chosen: usize) -> Model {
        const POINTS: usize = 24;
        let unary = (0..POINTS * labels).map(|k| f32::from(u8::from(k % labels != k / labels % chosen)));
        ModelBuilder::points(POINTS, labels)
            .unary(unary.collect())
            .features((0..POINTS).map(|a| a as f32).collect(), 1, 1.0)
            .build()
            .unwrap()
    }

    #[test]
    fn the_schedule_comes_first_if_there_is_time_for_it() {
        let first = |model: &Model, updates: f64| plan_for(model, Some(updates)).runs[0].pipeline.to_string();
        let steps = Schedule::default().steps as f64;
        let many = choosing(4, 4);
        assert_eq!(first(&many, steps), "graduated");
        assert_eq!(first(&many, steps - 0.5), SHORT);
        // Steps with few labels take less.
        let few = choosing(8, 3);
        assert_eq!(first(&few, SHARE_OF_FEW_LABELS * steps + 0.5), "graduated");
        assert_eq!(first(&few, SHARE_OF_FEW_LABELS * steps - 0.5), SHORT);
    }

    #[test]
    fn updates_are_what_the_time_is_enough_for() {
        let seconds = Duration::from_secs_f64;
        // 8 of 16 labels in 0.05 s: an update of all takes 1.4 times 0.1 s.
        let found = updates_within(seconds(14.0), seconds(0.05), 8, 16);
        assert!((found - 100.0).abs() < 1e-6, "{found}");
        assert!(updates_within(seconds(1.0), Duration::ZERO, 1, 1).is_finite());
        // Twice the time is enough for about twice as much, whatever a call takes here.
        let model = choosing(4, 4);
        assert!(affordable(&model, seconds(1000.0)) > 10.0 * affordable(&model, seconds(1.0)));
    }

    #[test]
    fn labels_are_few_if_half_of_them_are_chosen_by_nobody_who_matters() {
        const POINTS: usize = 3000;
        // Every pixel's choice.
        let few = |labels: usize, choice: &dyn Fn(usize) -> usize| {
            let unary = (0..POINTS * labels).map(|i| f32::from(u8::from(i % labels != choice(i / labels))));
            few_labels(&ModelBuilder::points(POINTS, labels).unary(unary.collect()).build().unwrap())
        };
        assert!(few(6, &|a| a % 3), "three of six");
        assert!(!few(6, &|a| a % 4), "four of six");
        assert!(!few(5, &|a| a % 3), "three of five");
        // One pixel in a thousand does not count, more do.
        assert!(few(6, &|a| if a < 3 { 5 } else { a % 3 }));
        assert!(!few(6, &|a| if a < 4 { 5 } else { a % 3 }));
    }
}
