//! Difference of convex for conditionally negative compatibilities, solved exactly for Potts.
//!
//! The QP energy without self pairs is `E_c` with c_a = K_aa: a convex part, `K_aa |y_a|²` for Potts, minus
//! `y'Ky`. Linearising the latter at the current beliefs leaves one small problem per pixel, whose solution is
//! a projection on the simplex:
//!
//! `y_a ← Proj( (K y)_a / K_aa - φ_a / (2 K_aa) )`
//!
//! One filter call an iteration, and the energy never rises if K is positive semi-definite. A lattice is so
//! only up to a tiny negative part; a step that raised the energy is taken back and shortened.

use std::sync::atomic::{AtomicBool, Ordering};

use super::held::{self, Focus, OnHeldLabels, Task, stays_out};
use super::qp::smallest_curvature;
use super::quadratic::Quadratic;
use super::simplex::project;
use super::{Context, ROUNDING, Solver, Step};
use crate::beliefs::Beliefs;
use crate::error::{Error, Result};
use crate::model::Model;
use crate::numeric::{RowStep, for_row_pairs, row_sum};

/// A step shortened this often is as good as none.
const MOST_RETRIES: usize = 12;

/// The method `dc-neg`.
pub(super) struct DcNeg<'m> {
    quadratic: Quadratic<'m>,
    /// Once few labels are held, the rows below are of those.
    focus: Focus,
    filtered: Vec<f32>,
    next: Vec<f32>,
    next_filtered: Vec<f32>,
    energy: f64,
    /// 1 for the exact step; larger after a step that failed.
    caution: f32,
}

/// Fails unless the compatibility is conditionally negative.
pub(super) fn require_negative(model: &Model, method: &str) -> Result<()> {
    if model.compatibility().is_conditionally_negative() {
        return Ok(());
    }
    Err(Error::Method {
        method: method.into(),
        why: "the label compatibility is not conditionally negative semi-definite (some labels attract \
              when they differ)"
            .into(),
        instead: "dc-gen".into(),
    })
}

impl<'m> DcNeg<'m> {
    pub fn new(model: &'m Model) -> Result<Self> {
        require_negative(model, "dc-neg")?;
        Ok(Self {
            quadratic: Quadratic::new(model),
            focus: Focus::default(),
            filtered: Vec::new(),
            next: Vec::new(),
            next_filtered: Vec::new(),
            energy: f64::INFINITY,
            caution: 1.0,
        })
    }
}

/// Where a step is taken from: beliefs y and K y, possibly moved on along the last change.
#[derive(Clone, Copy)]
pub(super) struct Origin<'a> {
    pub y: &'a [f32],
    pub filtered: &'a [f32],
    /// Earlier beliefs and K of them; `share` of the way from there to here is added once more.
    pub earlier: Option<(&'a [f32], &'a [f32])>,
    pub share: f32,
    /// Every pixel's least energy of labels that the rows do not have.
    pub others: Option<&'a [f32]>,
}

/// Writes `Proj(y - ∇E_c(y) / (2 κ f c))` for every pixel into `next`: the exact minimiser of the convex part
/// plus the linearised concave part when f is one and the compatibility is Potts.
///
/// Returns whether that is so with the labels too that the rows do not have.
pub(super) fn projected_step(
    quadratic: &Quadratic,
    floor: f32,
    origin: Origin,
    c: impl Fn(usize) -> f32 + Sync,
    caution: f32,
    next: &mut [f32],
) -> bool {
    let intruded = AtomicBool::new(false);
    let step = ProjectedStep { quadratic, origin, c, caution, floor, intruded: &intruded };
    for_row_pairs(next, quadratic.labels(), step);
    !intruded.into_inner()
}

struct ProjectedStep<'a, C> {
    quadratic: &'a Quadratic<'a>,
    origin: Origin<'a>,
    c: C,
    caution: f32,
    floor: f32,
    intruded: &'a AtomicBool,
}

impl<C: Fn(usize) -> f32 + Sync> RowStep for ProjectedStep<'_, C> {
    #[inline(always)]
    fn row(&self, a: usize, out: &mut [f32], work: &mut [f32]) -> (f64, f64) {
        let (labels, share, c) = (out.len(), self.origin.share, (self.c)(a));
        let row = a * labels..(a + 1) * labels;
        let (mut y, mut filtered) = (&self.origin.y[row.clone()], &self.origin.filtered[row.clone()]);
        let (gradient, rest) = work.split_at_mut(labels);
        if let Some((y0, filtered0)) = self.origin.earlier {
            let (y0, filtered0) = (&y0[row.clone()], &filtered0[row]);
            let (v, rest) = rest.split_at_mut(labels);
            let kv = &mut rest[..labels];
            for i in 0..labels {
                v[i] = y[i] + share * (y[i] - y0[i]);
                kv[i] = filtered[i] + share * (filtered[i] - filtered0[i]);
            }
            (y, filtered) = (v, kv);
        }
        self.quadratic.gradient(a, filtered, y, c, gradient);
        let step = 1.0 / (2.0 * c * self.quadratic.curvature() * self.caution).max(self.floor);
        for i in 0..labels {
            out[i] = y[i] - step * gradient[i];
        }
        project(out);
        if let Some(others) = self.origin.others {
            let other = others[a] + 2.0 * row_sum([filtered, y], |[k, v]| k - c * v);
            if !stays_out(other, y, gradient, step, out) {
                self.intruded.store(true, Ordering::Relaxed);
            }
        }
        (0.0, 0.0)
    }
}

impl<'m> OnHeldLabels<'m> for DcNeg<'m> {
    fn focus(&mut self) -> &mut Focus {
        &mut self.focus
    }

    fn quadratic(&self) -> Quadratic<'m> {
        self.quadratic.clone()
    }

    fn let_go(&mut self) {
        (self.next, self.next_filtered) = Default::default();
    }

    fn carry(&mut self, convert: &dyn Fn(&[f32]) -> Vec<f32>, quadratic: &Quadratic, y: &[f32]) {
        self.filtered = convert(&self.filtered);
        self.next = vec![0.0; y.len()];
        self.next_filtered = vec![0.0; y.len()];
        // Sums of other terms are rounded otherwise.
        self.energy = quadratic.value(y, &self.filtered, quadratic.model().pairwise().diagonal());
    }

    fn attempt(&mut self, context: &mut Context, task: Task, y: &mut Vec<f32>) -> Option<Step> {
        let Task { quadratic, others } = task;
        let model = context.model();
        let c = model.pairwise().diagonal();
        for _ in 0..MOST_RETRIES {
            let origin = Origin { y, filtered: &self.filtered, earlier: None, share: 0.0, others };
            let floor = smallest_curvature(model);
            if !projected_step(quadratic, floor, origin, |a| c[a], self.caution, &mut self.next) {
                return None;
            }
            context.filter_rows(&self.next, quadratic.labels(), &mut self.next_filtered);
            let energy = quadratic.value(&self.next, &self.next_filtered, c);
            if energy <= self.energy {
                let gained = self.energy - energy;
                self.energy = energy;
                std::mem::swap(y, &mut self.next);
                std::mem::swap(&mut self.filtered, &mut self.next_filtered);
                return Some(Step { objective: energy, lower_bound: None, residual: gained });
            }
            self.caution *= 1.5;
            if energy - self.energy <= ROUNDING * model.scale() || context.out_of_time() {
                break;
            }
        }
        Some(Step { objective: self.energy, lower_bound: None, residual: 0.0 })
    }
}

impl Solver for DcNeg<'_> {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        if self.filtered.is_empty() {
            let y = beliefs.as_slice();
            self.filtered = vec![0.0; y.len()];
            context.filter(y, &mut self.filtered);
            self.carry(&<[f32]>::to_vec, &self.quadratic(), y);
        }
        held::step(self, context, beliefs)
    }
}
