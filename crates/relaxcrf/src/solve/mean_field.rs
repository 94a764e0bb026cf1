//! Mean field: `y ← softmax(-φ - 2 μ K y)`, all pixels at once.
//!
//! The factor 2 belongs to an energy that counts every pair from both ends. Self pairs stay in K: with a
//! positive semi-definite K and Potts (or any conditionally negative) compatibilities the update then
//! minimises a convex upper bound of the free energy
//!
//! `F(y) = Σ y log y + <φ, y> + Σ_ab K_ab y_a' μ y_b`,
//!
//! so F cannot rise. For other models the update is damped in the log domain until it does not.

use rayon::prelude::*;

use super::simplex::softmax;
use super::{Context, ROUNDING, Solver, Step};
use crate::beliefs::Beliefs;
use crate::model::Model;
use crate::numeric::{row_sum, rows_per_chunk};

/// A failed update is repeated with half the step; below this the beliefs are as good as stationary.
const SMALLEST_STEP: f32 = 1.0 / 1024.0;

/// The method `unary`: all belief in the label that each pixel prefers on its own.
#[derive(Debug)]
pub(super) struct UnaryOnly;

impl Solver for UnaryOnly {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        *beliefs = Beliefs::from_labeling(&context.model().unary_argmin(), context.model().labels());
        let objective = crate::numeric::dot(context.model().unary(), beliefs.as_slice());
        Step { objective, lower_bound: None, residual: 0.0 }
    }
}

/// The methods `mf` and `mf5`.
#[derive(Debug)]
pub(super) struct MeanField {
    /// Whether an update that raises the free energy is taken back.
    guarded: bool,
    /// K y of the current beliefs; filled by the first step.
    filtered: Vec<f32>,
    /// The beliefs tried, and K of them.
    next: Vec<f32>,
    next_filtered: Vec<f32>,
    /// Free energy of the current beliefs.
    free_energy: Option<f64>,
    /// Share of the way to the full update, in the log domain.
    step: f32,
}

impl MeanField {
    /// With a free energy that never rises.
    pub fn monotone(model: &Model) -> Self {
        let size = model.pixels() * model.labels();
        Self {
            guarded: true,
            filtered: vec![0.0; size],
            next: vec![0.0; size],
            next_filtered: vec![0.0; size],
            free_energy: None,
            step: 1.0,
        }
    }

    /// Plain updates, one filter call each.
    pub fn plain(model: &Model) -> Self {
        let size = model.pixels() * model.labels();
        Self {
            guarded: false,
            filtered: vec![0.0; size],
            next: vec![0.0; size],
            next_filtered: Vec::new(),
            free_energy: None,
            step: 1.0,
        }
    }

    /// Writes the update of `beliefs` into `next`.
    fn update(&mut self, model: &Model, beliefs: &Beliefs) {
        let labels = model.labels();
        let rows = rows_per_chunk(labels) * labels;
        let (mu, step) = (model.compatibility(), self.step);
        let old = beliefs.as_slice();
        self.next
            .par_chunks_mut(rows)
            .zip(self.filtered.par_chunks(rows))
            .zip(model.linear().par_chunks(rows).zip(old.par_chunks(rows)))
            .for_each(|((next, filtered), (linear, old))| {
                let pixels = next.chunks_exact_mut(labels).zip(filtered.chunks_exact(labels));
                let given = linear.chunks_exact(labels).zip(old.chunks_exact(labels));
                for ((next, filtered), (linear, old)) in pixels.zip(given) {
                    mu.multiply(filtered, next);
                    for ((n, &e), &q) in next.iter_mut().zip(linear).zip(old) {
                        let full = -e - 2.0 * *n;
                        // log of an exact zero: far below the cut of `softmax`, but finite.
                        *n = if step == 1.0 { full } else { (1.0 - step) * q.max(1e-38).ln() + step * full };
                    }
                    softmax(next);
                }
            });
    }
}

/// F(y), given K y.
fn free_energy(model: &Model, y: &[f32], filtered: &[f32]) -> f64 {
    let labels = model.labels();
    let rows = rows_per_chunk(labels) * labels;
    let mu = model.compatibility();
    let parts: Vec<f64> = y
        .par_chunks(rows)
        .zip(filtered.par_chunks(rows))
        .zip(model.linear().par_chunks(rows))
        .map(|((y, filtered), linear)| {
            let mut product = vec![0.0; labels];
            let mut total = 0.0;
            let pixels = y.chunks_exact(labels).zip(filtered.chunks_exact(labels));
            for ((y, filtered), linear) in pixels.zip(linear.chunks_exact(labels)) {
                mu.multiply(filtered, &mut product);
                let share =
                    |i: usize| if y[i] > 0.0 { y[i] * (y[i].ln() + linear[i] + product[i]) } else { 0.0 };
                total += f64::from(row_sum(labels, share));
            }
            total
        })
        .collect();
    parts.iter().sum()
}

impl Solver for MeanField {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        let model = context.model();
        if !self.guarded {
            context.filter(beliefs.as_slice(), &mut self.filtered);
            let objective = free_energy(model, beliefs.as_slice(), &self.filtered);
            self.update(model, beliefs);
            beliefs.swap(&mut self.next);
            return Step { objective, lower_bound: None, residual: f64::INFINITY };
        }

        let old = *self.free_energy.get_or_insert_with(|| {
            context.filter(beliefs.as_slice(), &mut self.filtered);
            free_energy(model, beliefs.as_slice(), &self.filtered)
        });
        loop {
            self.update(model, beliefs);
            context.filter(&self.next, &mut self.next_filtered);
            let new = free_energy(model, &self.next, &self.next_filtered);
            if new <= old {
                beliefs.swap(&mut self.next);
                std::mem::swap(&mut self.filtered, &mut self.next_filtered);
                self.free_energy = Some(new);
                return Step { objective: new, lower_bound: None, residual: old - new };
            }
            self.step *= 0.5;
            let rounding = new - old <= ROUNDING * model.scale();
            if rounding || self.step < SMALLEST_STEP || context.out_of_time() {
                return Step { objective: old, lower_bound: None, residual: 0.0 };
            }
        }
    }
}
