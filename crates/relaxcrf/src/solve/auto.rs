//! The method `auto`: which methods to run on a model, and why.
//!
//! What is promised: no worse than `mf5`, `mf`, `qp+dc-neg` or the best constant labelling. So those are run, each
//! from the start, unless something before them has proved its labelling optimal; and with them what is
//! most likely to do better.

use super::method::{Method, Pipeline};
use super::settings::Settings;
use crate::model::Model;
use crate::numeric;

/// What `auto` will run, and the reasons, one sentence each.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The methods.
    pub pipeline: Pipeline,
    /// Why these.
    pub reasons: Vec<String>,
}

/// Decides from the model and the settings.
pub fn plan(model: &Model, settings: &Settings) -> Plan {
    let mut reasons = Vec::new();
    let mut say = |text: String| reasons.push(text);
    let pairwise = model.pairwise();
    let coupling = numeric::quantile(pairwise.row_sums(), 0.5).unwrap_or(0.0);
    let costs = model.compatibility();
    let safe = "mf5/mf/qp+dc-neg";
    say(format!(
        "{} pixels, {} labels, median row sum of the kernels {coupling:.3}",
        model.pixels(),
        model.labels()
    ));
    let text = if coupling <= 0.0 || model.labels() == 1 {
        say("nothing couples the pixels: the lowest unary energies are the optimum".into());
        "unary".to_string()
    } else if !costs.is_conditionally_negative() {
        say("some labels attract when they differ, which dc-neg and the LP cannot take: dc-gen".into());
        "mf5/mf/qp+dc-gen".to_string()
    } else if !pairwise.is_symmetric() {
        say(
            "the operator is not symmetric, so there are no bounds: plain methods and the graduated schedule"
                .into(),
        );
        format!("{safe}/graduated")
    } else if costs.cuts().is_none() {
        say("the label costs are not known as a sum of cuts, so there is no LP: the graduated schedule"
            .into());
        format!("{safe}/graduated")
    } else if model.labels() == 2 {
        say("two labels: `exact` finds the optimum and proves it; the others follow only if it runs out of steps".into());
        format!("exact/{safe}")
    } else if settings.time_limit.is_some() {
        say("a time limit: the quick methods first, then the graduated schedule, then the LP for as long as there is time".into());
        "mf5/mf/graduated/qp+dc-neg/smooth-lp+dc-neg".to_string()
    } else {
        say("more than two labels: the LP gives a bound and usually the lowest energy, after the methods it must not lose to".into());
        format!("{safe}/graduated/smooth-lp+dc-neg")
    };
    say(format!("so: {text}"));
    // The names above are the crate's own; a test runs every branch.
    let pipeline = text.parse().unwrap_or_else(|_| Pipeline::from(Method::MeanField));
    Plan { pipeline, reasons }
}
