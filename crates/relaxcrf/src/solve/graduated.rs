//! From the convex end to the tight end of the family `E_c`, one filter call a step.
//!
//! Each step is the difference-of-convex step of the current member (see `dc_neg.rs`), taken from a point
//! moved on by momentum, while c falls geometrically from the typical row sum, where the problem is convex,
//! to a share of it; `dc-neg` finishes. What matters happens near the convex end: where labels compete
//! there, they settle by consensus of the neighbourhood instead of by the noise of single pixels. So the
//! schedule spends its steps there and leaves the rest of the way to the finish.

use super::dc_neg::{DcNeg, Origin, projected_step, require_negative};
use super::quadratic::Quadratic;
use super::{Context, Solver, Step};
use crate::beliefs::Beliefs;
use crate::error::Result;
use crate::model::Model;
use crate::numeric;

/// How c falls. It is one number for all pixels: following each pixel's own row sum was measurably worse.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Schedule {
    /// First c, as a share of the median row sum.
    pub from: f32,
    /// Last c, as a share of the median row sum.
    pub to: f32,
    /// Steps from first to last.
    pub steps: usize,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { from: 1.0, to: 0.85, steps: 80 }
    }
}

/// Share of the last change that is added once more, once the run is under way.
const MOMENTUM: f32 = 0.85;

/// The method `graduated`.
pub(super) struct Graduated<'m> {
    quadratic: Quadratic<'m>,
    schedule: Schedule,
    median_row_sum: f32,
    taken: usize,
    filtered: Vec<f32>,
    earlier: Vec<f32>,
    earlier_filtered: Vec<f32>,
    next: Vec<f32>,
    finish: DcNeg<'m>,
}

impl<'m> Graduated<'m> {
    pub fn new(model: &'m Model, schedule: Schedule) -> Result<Self> {
        require_negative(model, "graduated")?;
        Ok(Self {
            quadratic: Quadratic::new(model),
            schedule,
            median_row_sum: numeric::quantile(model.pairwise().row_sums(), 0.5).unwrap_or(0.0),
            taken: 0,
            filtered: Vec::new(),
            earlier: Vec::new(),
            earlier_filtered: Vec::new(),
            next: Vec::new(),
            finish: DcNeg::new(model)?,
        })
    }

    /// c of the step to be taken.
    fn c(&self) -> f32 {
        let Schedule { from, to, steps } = self.schedule;
        let progress = self.taken as f32 / (steps.max(2) - 1) as f32;
        from * (to / from).powf(progress) * self.median_row_sum
    }
}

impl Solver for Graduated<'_> {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        if self.taken >= self.schedule.steps {
            return self.finish.step(context, beliefs);
        }
        let model = context.model();
        if self.filtered.is_empty() {
            let zeros = vec![0.0; beliefs.as_slice().len()];
            (self.filtered, self.earlier_filtered, self.next) = (zeros.clone(), zeros.clone(), zeros.clone());
            self.earlier = zeros;
        }
        context.filter(beliefs.as_slice(), &mut self.filtered);
        let diagonal = model.pairwise().diagonal();
        let objective = self.quadratic.value(beliefs.as_slice(), &self.filtered, diagonal);

        let c = self.c();
        let started = self.taken > 0;
        let origin = Origin {
            y: beliefs.as_slice(),
            filtered: &self.filtered,
            earlier: started.then_some((&self.earlier[..], &self.earlier_filtered[..])),
            share: MOMENTUM.min(self.taken as f32 / (self.taken + 3) as f32),
        };
        projected_step(&self.quadratic, model, origin, |a| c.max(diagonal[a]), 1.0, &mut self.next);
        beliefs.swap(&mut self.next);
        std::mem::swap(&mut self.earlier, &mut self.next);
        std::mem::swap(&mut self.earlier_filtered, &mut self.filtered);
        self.taken += 1;
        if self.taken == self.schedule.steps {
            // The finish has buffers of its own.
            (self.filtered, self.earlier, self.earlier_filtered, self.next) = Default::default();
        }
        Step { objective, lower_bound: None, residual: f64::INFINITY }
    }
}
