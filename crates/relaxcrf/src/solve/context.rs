//! What a solver works with: the model, one set of buffers, and honest counters.

use std::time::Instant;

use super::settings::Settings;
use crate::energy::{self, Energy};
use crate::filter::{Direction, OrderedMode, Scratch};
use crate::labeling::Labeling;
use crate::model::Model;

/// Hands a solver the model's operator and counts every use of it.
#[derive(Debug)]
pub struct Context<'m> {
    model: &'m Model,
    settings: &'m Settings,
    scratch: Scratch,
    deadline: Option<Instant>,
    counts: Counts,
}

/// How often the operator was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// K applied to all labels once.
    pub filter: usize,
    /// The ordered filter applied to all labels (or cuts) once.
    pub ordered: usize,
    /// Labellings evaluated; each costs about as much as a filter call.
    pub evaluations: usize,
}

impl<'m> Context<'m> {
    pub(super) fn new(model: &'m Model, settings: &'m Settings, started: Instant) -> Self {
        let deadline = settings.time_limit.and_then(|t| started.checked_add(t));
        Self { model, settings, scratch: Scratch::new(), deadline, counts: Counts::default() }
    }

    /// The problem.
    pub fn model(&self) -> &'m Model {
        self.model
    }

    /// The run's settings.
    pub fn settings(&self) -> &'m Settings {
        self.settings
    }

    /// The counters so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Whether the time is up. Solvers with inner loops ask between inner steps.
    pub fn out_of_time(&self) -> bool {
        self.deadline.is_some_and(|d| Instant::now() >= d)
    }

    /// Counts a filter call that was made elsewhere.
    pub(super) fn count_filter(&mut self) {
        self.counts.filter += 1;
    }

    /// `out = K y` for all labels: one filter call.
    pub fn filter(&mut self, y: &[f32], out: &mut [f32]) {
        self.counts.filter += 1;
        self.model.pairwise().apply(Direction::Forward, y, self.model.labels(), out, &mut self.scratch);
    }

    /// The ordered filter on `channels` values per pixel: one ordered call.
    pub fn ordered(&mut self, values: &[f32], channels: usize, mode: OrderedMode, out: &mut [f32]) {
        self.counts.ordered += 1;
        self.model.pairwise().apply_ordered(values, channels, mode, out, &mut self.scratch);
    }

    /// The energy of a labelling with as many labels as the model has pixels.
    pub fn evaluate(&mut self, labeling: &Labeling) -> Energy {
        self.counts.evaluations += 1;
        energy::of_checked(self.model, labeling, &mut self.scratch)
    }
}
