//! From the convex end to the tight end of the family `E_c`, one filter call a step.
//!
//! Each step is the difference-of-convex step of the current member (see `dc_neg.rs`), while c falls
//! geometrically from the row sums, where the problem is convex, to a share of them; `dc-neg` finishes.
//! Most is decided near the convex end: where labels compete there, they settle by consensus of the
//! neighbourhood instead of by the noise of single pixels.

use super::dc_neg::{DcNeg, projected_step, require_negative};
use super::quadratic::Quadratic;
use super::{Context, Solver, Step};
use crate::beliefs::Beliefs;
use crate::error::Result;
use crate::model::Model;

/// How c falls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// First c, as a share of the row sums.
    pub from: f32,
    /// Last c, as a share of the row sums.
    pub to: f32,
    /// Steps in between.
    pub steps: usize,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { from: 1.0, to: 0.33, steps: 80 }
    }
}

/// The method `graduated`.
pub(super) struct Graduated<'m> {
    quadratic: Quadratic<'m>,
    schedule: Schedule,
    taken: usize,
    filtered: Vec<f32>,
    next: Vec<f32>,
    finish: DcNeg<'m>,
}

impl<'m> Graduated<'m> {
    pub fn new(model: &'m Model, schedule: Schedule) -> Result<Self> {
        require_negative(model, "graduated")?;
        Ok(Self {
            quadratic: Quadratic::new(model),
            schedule,
            taken: 0,
            filtered: Vec::new(),
            next: Vec::new(),
            finish: DcNeg::new(model)?,
        })
    }
}

impl Solver for Graduated<'_> {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        if self.taken >= self.schedule.steps {
            return self.finish.step(context, beliefs);
        }
        let model = context.model();
        if self.filtered.is_empty() {
            self.filtered = vec![0.0; beliefs.as_slice().len()];
            self.next = self.filtered.clone();
        }
        let Schedule { from, to, steps } = self.schedule;
        let progress = self.taken as f32 / (steps.max(2) - 1) as f32;
        let share = from * (to / from).powf(progress);
        let (sums, diagonal) = (model.pairwise().row_sums(), model.pairwise().diagonal());
        let c = |a: usize| (share * sums[a]).max(diagonal[a]);

        context.filter(beliefs.as_slice(), &mut self.filtered);
        let objective = self.quadratic.value(beliefs.as_slice(), &self.filtered, diagonal);
        projected_step(&self.quadratic, model, beliefs.as_slice(), &self.filtered, c, 1.0, &mut self.next);
        beliefs.swap(&mut self.next);
        self.taken += 1;
        Step { objective, lower_bound: None, residual: f64::INFINITY }
    }
}
