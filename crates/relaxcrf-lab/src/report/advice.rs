//! Explanations and warnings about a run.

use relaxcrf::Model;
use relaxcrf::solve::{Pipeline, Settings, Solution};

use super::number;
use crate::choice::Choice;
use crate::messages::Messages;

/// Explains what `auto` runs on a model.
pub fn explain(method: &Pipeline, model: &Model, settings: &Settings, messages: &Messages) {
    for reason in relaxcrf::solve::auto::plan(model, settings).reasons {
        messages.show(&format!("auto: {reason}"));
    }
    let chosen = method.to_string();
    if chosen != "auto" {
        messages.show(&format!("what runs is {chosen}; to run auto, pass --method auto"));
    }
}

/// Says which methods of its plan `auto` left out for lack of memory or time.
pub fn note_left_out(solution: &Solution, messages: &Messages) {
    for part in &solution.left_out {
        messages.show(&format!("auto: left out {}: {}", part.method, part.why));
    }
}

/// Warns if one label for all pixels has lower energy than the labels to be written.
pub fn warn_about_constant(solution: &Solution, what: &str, choice: &Choice, messages: &Messages) {
    // Labels without smoothing say nothing about the kernels.
    if choice.method.is_unary() {
        return;
    }
    if let Some((label, energy)) = solution.constant_below() {
        let instead = if choice.has_default_kernels() { "smaller weights" } else { "--preset network" };
        messages.warn(&format!(
            "{what}: label {label} at every pixel has lower energy ({}) than these labels ({}): the kernels are very strong \
             for these unaries. Try {instead}; --take best writes the labelling of lower energy",
            number(energy),
            number(solution.energy.total())
        ));
    }
}
