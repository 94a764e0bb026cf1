//! The method `auto`: which methods to run on a model, and why.
//!
//! Without a time limit it is no worse than `mf5`, `mf`, `qp+dc-neg` or the best constant labelling: those are run, unless
//! something before them has proved its labelling optimal, and with them what is most likely to do better. With a time
//! limit what has the best chance in that time comes first.
//!
//! Of many labels an answer often holds a few. Going on with those alone is as much faster as they are fewer, and can
//! lose nothing, since the best labelling of all runs is returned.

use std::time::{Duration, Instant};

use crate::methods::{Method, Pipeline};
use crate::model::{MOST_LABELS, Model};
use crate::solver::Settings;
use relaxcrf_filter::reduce;
use relaxcrf_filter::{Direction, Workspace};

/// What `auto` will run, and the reasons, one sentence each.
#[derive(Debug, Clone)]
pub struct Plan {
    /// One after the other, while there is time.
    pub parts: Vec<Part>,
    /// Why these.
    pub reasons: Vec<String>,
    /// Whether `auto` chose the methods, and not the user.
    pub(crate) is_choice: bool,
}

impl Plan {
    /// A plan of one part: methods that the user chose.
    pub(crate) fn of(pipeline: Pipeline) -> Self {
        let part = Part { pipeline, scope: Scope::Whole, most_iterations: None };
        Self { parts: vec![part], reasons: Vec::new(), is_choice: false }
    }
}

/// A part of a plan.
#[derive(Debug, Clone)]
pub struct Part {
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
    /// All labels, from the beliefs that the run before ended with, softened.
    Onward,
    /// All labels, from the beliefs that the run before ended with.
    Continued,
    /// All labels, from the best labelling so far.
    Best,
    /// The problem with the nearest conditionally negative costs, from the start.
    Nearest,
}

impl Part {
    /// Steps of the schedule, if `graduated` is all that is run.
    pub(crate) fn schedule_steps(&self) -> Option<usize> {
        match self.pipeline.stages() {
            [alone] => alone.option("steps").map(|n| n as usize),
            _ => None,
        }
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self.scope {
            Scope::Whole => write!(f, "{}", self.pipeline),
            Scope::Used => write!(f, "{} on the labels of the best answer", self.pipeline),
            Scope::Onward | Scope::Continued => write!(f, "{} from there", self.pipeline),
            Scope::Best => write!(f, "{} from the best answer", self.pipeline),
            Scope::Nearest => write!(f, "{} with the nearest conditionally negative costs", self.pipeline),
        }
    }
}

/// A schedule so short that it takes little longer than `mf`, and still beats it nearly always.
const SHORT: &str = "graduated:steps=10";
/// Its steps and some of `dc-neg`: the last hundredths of a percent are for what comes after it.
const SHORT_ITERATIONS: usize = 25;
/// What must not win.
const SAFE: &str = "mf5/mf/qp+dc-neg";
/// The same where label costs are not conditionally negative.
const SAFE_FOR_ANY_COSTS: &str = "mf5/mf/qp+dc-gen";
/// An iteration of `graduated` takes about this many filter calls.
const CALLS_PER_STEP: f64 = 1.4;
/// What a schedule takes where at most half of the labels matter, as a share of what it takes with all of them.
const SHARE_OF_FEW_LABELS: f64 = 0.3;

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
    let certified = pairwise.is_symmetric()
        && !model.has_kernel_costs()
        && costs.is_non_negative()
        && model.labels() <= MOST_LABELS;
    let last = if !certified {
        None
    } else if model.labels() == 2 && costs.cuts().is_some() {
        Some(("exact", Whole))
    } else {
        Some(("smooth-lp+dc-neg", Onward))
    };
    let parts: Vec<(&str, Scope)> = if coupling <= 0.0 || model.labels() == 1 {
        say("nothing couples the pixels: the lowest unary energies are the optimum".into());
        vec![("unary", Whole)]
    } else if model.has_kernel_costs() {
        say("the kernels have different label costs, which dc-neg and the LP do not take: dc-gen".into());
        vec![("mf5/mf/qp+dc-gen", Whole)]
    } else if !costs.is_conditionally_negative() {
        for_any_costs(model, certified, updates.is_some(), &mut say)
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
                let quick = if updates >= share * schedule_steps() {
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
    let parts: Vec<Part> = parts
        .into_iter()
        .map(|(text, scope)| {
            // The names are the crate's own; a test runs every branch.
            let pipeline = text.parse().unwrap_or_else(|_| Pipeline::from(Method::MF));
            Part { pipeline, scope, most_iterations: (text == SHORT).then_some(SHORT_ITERATIONS) }
        })
        .collect();
    say(format!("so: {}", parts.iter().map(Part::to_string).collect::<Vec<_>>().join(", then ")));
    Plan { parts, reasons, is_choice: true }
}

/// Steps of the graduated schedule.
fn schedule_steps() -> f64 {
    Method::GRADUATED.option("steps").unwrap_or(0.0)
}

/// The plan for label costs that are not conditionally negative.
fn for_any_costs(
    model: &Model,
    certified: bool,
    in_a_hurry: bool,
    say: &mut impl FnMut(String),
) -> Vec<(&'static str, Scope)> {
    let costs = model.compatibility();
    say(costs.why_not_negative());
    let safe = (SAFE_FOR_ANY_COSTS, Scope::Whole);
    let mut parts = Vec::new();
    if costs.has_nearest_negative() {
        say("so the nearest costs that are, and then dc-gen with the given ones".into());
        parts.extend([("graduated", Scope::Nearest), ("dc-gen", Scope::Continued)]);
    }
    if certified {
        say("the LP with the largest sum of cuts below the costs gives a bound, and more labellings".into());
        parts.push(("smooth-lp+dc-gen", Scope::Onward));
    }
    if certified && costs.has_zero_diagonal() && costs.is_far_from_cuts() {
        say("which leaves much of the costs out: trees of labels too".into());
        parts.push(("tree-lp", Scope::Best));
    }
    if model.pairwise().is_symmetric() {
        parts.push(("swap", Scope::Best));
    }
    parts.insert(if in_a_hurry { parts.len() } else { 0 }, safe);
    parts
}

/// How many updates of the beliefs fit into the time, from one filter call with a few channels.
fn affordable(model: &Model, limit: Duration) -> f64 {
    let channels = model.labels().min(8);
    let values = vec![1.0; model.pixels() * channels];
    let mut out = vec![0.0; values.len()];
    let before = Instant::now();
    model.pairwise().apply(Direction::Forward, &values, channels, &mut out, &mut Workspace::new());
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
        let first =
            |model: &Model, updates: f64| plan_for(model, Some(updates)).parts[0].pipeline.to_string();
        let steps = schedule_steps();
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
