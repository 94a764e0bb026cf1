//! Generic difference of convex: the concave-convex procedure for any symmetric compatibility.
//!
//! The energy is the convex member of the family (c the row sums, see `quadratic.rs`) minus the convex
//! function `Σ_a (c_a - K_aa) (y_a' C y_a - <diag C, y_a>)`. Each iteration linearises the latter at the current
//! beliefs and goes some way towards the minimum of the remaining convex problem, by accelerated projected
//! gradient steps of one filter call each, from where it stands. It need not get there: every decrease of
//! the inner problem is at least as large a decrease of the energy. So the inner loop stops when its steps
//! gain little compared with its first.

use super::info::MethodInfo;
use crate::beliefs::Beliefs;
use crate::model::Model;
use crate::relaxation::quadratic::{Quadratic, smallest_curvature};
use crate::rows::simplex::project;
use crate::solver::{Context, Solver, Step};
use relaxcrf_filter::reduce::{RowStep, RowValue, for_row_pairs, row_sum, sum_by_rows};

/// Most inner steps per iteration.
const INNER_STEPS: usize = 10;
/// An inner step that gains less than this share of the best one so far ends the inner loop.
const INNER_SHARE: f64 = 0.1;

/// The row of `dc-gen`.
pub(super) const ROW: MethodInfo = MethodInfo {
    iterations: |_| 30,
    any_kernel_costs: true,
    tolerance: 1e-7,
    bytes: |problem| problem.arrays(6),
    used_percent: 100,
    ..MethodInfo::new(
        "dc-gen",
        "difference of convex for any symmetric compatibility",
        "energy of the QP never rises",
        |model, _| Ok(Box::new(DcGen::new(model))),
    )
};

/// The method `dc-gen`.
pub(super) struct DcGen<'m> {
    quadratic: Quadratic<'m>,
    /// K y of the current beliefs.
    filtered: Vec<f32>,
    /// Beliefs at the start of the iteration, where the concave part is linearised.
    anchor: Vec<f32>,
    previous: Vec<f32>,
    previous_filtered: Vec<f32>,
    next: Vec<f32>,
    energy: f64,
}

impl<'m> DcGen<'m> {
    pub fn new(model: &'m Model) -> Self {
        Self {
            quadratic: Quadratic::new(model),
            filtered: Vec::new(),
            anchor: Vec::new(),
            previous: Vec::new(),
            previous_filtered: Vec::new(),
            next: Vec::new(),
            energy: f64::INFINITY,
        }
    }

    /// Gradient row of the inner problem, and the pixel's share of its value.
    #[inline(always)]
    fn inner(&self, model: &Model, a: usize, k: &[f32], y: &[f32], out: &mut [f32], work: &mut [f32]) -> f64 {
        let labels = model.labels();
        let (sum, own) = (model.pairwise().row_sums()[a], model.pairwise().diagonal()[a]);
        let value = self.quadratic.gradient(a, k, y, sum, out).value();
        let (tilt, work) = work.split_at_mut(labels);
        tilt.fill(0.0);
        let anchor = &self.anchor[a * labels..(a + 1) * labels];
        self.quadratic.add_change(anchor, own - sum, tilt, &mut work[..labels]);
        for (o, &t) in out.iter_mut().zip(tilt.iter()) {
            *o += t;
        }
        value + row_sum([tilt, y], |[t, v]| f64::from(t) * f64::from(v))
    }

    fn inner_value(&self, model: &Model, y: &[f32], k: &[f32]) -> f64 {
        sum_by_rows(model.pixels(), 3 * model.labels(), InnerValue { solver: self, model, y, k })
    }
}

/// The pixels' shares of the inner problem's value.
struct InnerValue<'a> {
    solver: &'a DcGen<'a>,
    model: &'a Model,
    y: &'a [f32],
    k: &'a [f32],
}

impl RowValue for InnerValue<'_> {
    #[inline(always)]
    fn value(&self, a: usize, work: &mut [f32]) -> f64 {
        let labels = self.model.labels();
        let range = a * labels..(a + 1) * labels;
        let (row, work) = work.split_at_mut(labels);
        self.solver.inner(self.model, a, &self.k[range.clone()], &self.y[range], row, work)
    }
}

/// A projected gradient step of the inner problem, from `y + β (y - y⁻)`.
struct InnerStep<'a> {
    solver: &'a DcGen<'a>,
    model: &'a Model,
    y: &'a [f32],
    beta: f32,
    floor: f32,
}

impl RowStep for InnerStep<'_> {
    #[inline(always)]
    fn row(&self, a: usize, out: &mut [f32], work: &mut [f32]) -> (f64, f64) {
        let (labels, beta, solver) = (out.len(), self.beta, self.solver);
        let range = a * labels..(a + 1) * labels;
        let (y, y0) = (&self.y[range.clone()], &solver.previous[range.clone()]);
        let (k, k0) = (&solver.filtered[range.clone()], &solver.previous_filtered[range]);
        let (v, rest) = work.split_at_mut(labels);
        let (kv, rest) = rest.split_at_mut(labels);
        for i in 0..labels {
            v[i] = y[i] + beta * (y[i] - y0[i]);
            kv[i] = k[i] + beta * (k[i] - k0[i]);
        }
        solver.inner(self.model, a, kv, v, out, rest);
        let curvature = self.model.pairwise().row_sums()[a] * solver.quadratic.lipschitz();
        let step = 1.0 / curvature.max(self.floor);
        for i in 0..labels {
            out[i] = v[i] - step * out[i];
        }
        project(out);
        (0.0, 0.0)
    }
}

impl Solver for DcGen<'_> {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        let model = context.model();
        let labels = model.labels();
        let own = model.pairwise().diagonal();
        if self.filtered.is_empty() {
            let zeros = vec![0.0; beliefs.as_slice().len()];
            self.filtered = zeros.clone();
            self.previous_filtered = zeros.clone();
            self.next = zeros;
            context.filter(beliefs.as_slice(), &mut self.filtered);
            self.energy = self.quadratic.value(beliefs.as_slice(), &self.filtered, own);
        }
        self.anchor = beliefs.as_slice().to_vec();
        self.previous = self.anchor.clone();
        self.previous_filtered.copy_from_slice(&self.filtered);

        let mut value = self.inner_value(model, beliefs.as_slice(), &self.filtered);
        let (mut beta, mut best_gain) = (0.0f32, 0.0f64);
        for inner in 0..INNER_STEPS {
            let mut next = std::mem::take(&mut self.next);
            let y = beliefs.as_slice();
            let step = InnerStep { solver: self, model, y, beta, floor: smallest_curvature(model) };
            for_row_pairs(&mut next, labels, step);
            self.previous.copy_from_slice(beliefs.as_slice());
            beliefs.swap(&mut next);
            self.next = next;
            std::mem::swap(&mut self.filtered, &mut self.previous_filtered);
            context.filter(beliefs.as_slice(), &mut self.filtered);

            let new = self.inner_value(model, beliefs.as_slice(), &self.filtered);
            let gain = value - new;
            if gain <= 0.0 {
                // Momentum overshot, or rounding is all that is left: back to the better point.
                beliefs.as_mut_slice().copy_from_slice(&self.previous);
                self.filtered.copy_from_slice(&self.previous_filtered);
                if beta == 0.0 {
                    break;
                }
                beta = 0.0;
                continue;
            }
            value = new;
            best_gain = best_gain.max(gain);
            if gain < INNER_SHARE * best_gain || context.out_of_time() {
                break;
            }
            beta = (inner + 1) as f32 / (inner + 4) as f32;
        }
        let energy = self.quadratic.value(beliefs.as_slice(), &self.filtered, own);
        let gained = self.energy - energy;
        self.energy = energy;
        Step { objective: energy, lower_bound: None, residual: gained }
    }
}
