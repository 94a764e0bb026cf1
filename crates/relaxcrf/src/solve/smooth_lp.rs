//! The smoothed LP by accelerated projected gradients: low energies and a tight bound from the same steps.
//!
//! The pairwise part of the LP adds up |s_a(T) - s_b(T)| over cuts T and pairs of pixels (see `cuts.rs`). Its
//! subgradient counts the order of two sums by sign; here differences within one of `cells` equal parts of [0, 1]
//! count in proportion (see [`Layers`](crate::filter::Layers)). That makes z a Lipschitz function of the beliefs,
//! with constant `cells · d_a`, so that momentum pays, and it leaves z a certificate: weights of pairs stay
//! antisymmetric and within ±1 for all beliefs. One step is
//!
//! `y⁺ = Proj(v - (φ + z(v)) / (cells · d)),   v⁺ = y⁺ + β (y⁺ - y)`.
//!
//! The bound is that of the running mean of z, later ones weighing more: the last z alone is worth little.
//! At the optimum of the smoothed problem the bound meets the objective, and the finer the parts the closer
//! that is to the LP. So parts are refined when little is left to gain with them. Now and then a few steps of `dc-neg` from the beliefs make a labelling of them.

use std::fmt;

use rayon::prelude::*;

use super::cuts::{self, CutTerms, Order, cuts_for};
use super::dc_neg::DcNeg;
use super::{Context, Solver, Step, qp, simplex};
use crate::beliefs::Beliefs;
use crate::error::Result;
use crate::filter::MAX_CELLS;
use crate::labeling::Labeling;
use crate::model::Model;
use crate::numeric::{self, RowStep};

/// Parts to begin with. With 15 and with 31 all rows of a lattice's tables are full.
const FIRST_CELLS: usize = 15;

/// Parts are refined when the gap of the smoothed problem is at most this share of the whole gap, and the bound
/// has risen by less than that share of it over a window of iterations.
const SETTLED: f64 = 0.2;
const STALLED: f64 = 0.05;
const WINDOW: usize = 20;

/// z number k of an average has weight k to this power, nearly.
const MEAN_POWER: f32 = 3.0;

/// Cuts are left out while all of them together are worth less than this share of the gap.
const NEGLIGIBLE: f64 = 1e-3;

/// Iterations from one labelling made by `dc-neg` to the next, and the most steps it takes.
const POLISH_EVERY: usize = 20;
const POLISH_STEPS: usize = 12;

/// Options of the method `smooth-lp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SmoothOptions {
    /// Most parts into which [0, 1] is cut.
    pub cells: usize,
}

impl Default for SmoothOptions {
    fn default() -> Self {
        Self { cells: MAX_CELLS }
    }
}

impl fmt::Display for SmoothOptions {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if *self == Self::default() { Ok(()) } else { write!(f, ":cells={}", self.cells) }
    }
}

/// The method `smooth-lp`.
pub(super) struct SmoothLp<'m> {
    model: &'m Model,
    terms: CutTerms,
    certified: bool,
    most_cells: usize,
    cells: usize,
    at_level: usize,
    taken: usize,
    /// Beliefs before the last step, the extrapolated point, its z, and the mean of those; empty at first.
    previous: Vec<f32>,
    point: Vec<f32>,
    z: Vec<f32>,
    mean: Vec<f32>,
    /// Terms of the mean, not all of which count in full after a refinement.
    averaged: f32,
    momentum: f64,
    extrapolation: f32,
    bound: f64,
    /// The bound after each iteration.
    bounds: Vec<f64>,
    proposal: Option<Labeling>,
}

impl<'m> SmoothLp<'m> {
    pub fn new(model: &'m Model, options: SmoothOptions) -> Result<Self> {
        let cuts = cuts_for(model, "smooth-lp")?;
        Ok(Self {
            model,
            terms: CutTerms::new(model, &cuts),
            certified: model.pairwise().is_symmetric(),
            most_cells: options.cells,
            cells: FIRST_CELLS.min(options.cells),
            at_level: 0,
            taken: 0,
            previous: Vec::new(),
            point: Vec::new(),
            z: Vec::new(),
            mean: Vec::new(),
            averaged: 0.0,
            momentum: 1.0,
            extrapolation: 0.0,
            bound: f64::NEG_INFINITY,
            bounds: Vec::new(),
            proposal: None,
        })
    }

    /// The mean of all z so far: a certificate of a bound.
    pub fn certificate(&self) -> &[f32] {
        &self.mean
    }

    /// Finer parts, if there are any, once the coarser ones have done their work.
    fn refine(&mut self, left_here: f64, left: f64) {
        self.at_level += 1;
        self.bounds.push(self.bound);
        let stalled = self.at_level > WINDOW
            && self.bound - self.bounds[self.bounds.len() - 1 - WINDOW] <= STALLED * left;
        if self.cells < self.most_cells && stalled && left_here <= SETTLED * left {
            self.cells = (2 * self.cells + 1).min(self.most_cells);
            self.at_level = 0;
            (self.momentum, self.extrapolation) = (1.0, 0.0);
            // The old mean stays a certificate; the new z should soon outweigh it.
            self.averaged /= MEAN_POWER;
        }
    }

    /// `Proj(v - (φ + z) / curvature)` into `beliefs`; whether the momentum points uphill there.
    fn walk(&self, beliefs: &mut Beliefs) -> bool {
        let model = self.model;
        let walk = Walk {
            phi: model.unary(),
            row_sums: model.pairwise().row_sums(),
            floor: qp::smallest_curvature(model),
            stiffness: self.cells as f32 * model.compatibility().concavity() as f32,
            point: &self.point,
            z: &self.z,
            previous: &self.previous,
        };
        let (uphill, _) = numeric::for_row_pairs(beliefs.as_mut_slice(), model.labels(), walk);
        uphill > 0.0
    }

    /// A labelling from the beliefs by a few steps of `dc-neg`.
    fn polished(&self, context: &mut Context, beliefs: &Beliefs) -> Option<Labeling> {
        let mut solver = DcNeg::new(self.model).ok()?;
        let mut beliefs = beliefs.clone();
        for _ in 0..POLISH_STEPS {
            let step = solver.step(context, &mut beliefs);
            if step.residual <= 1e-7 * self.model.scale() || context.out_of_time() {
                break;
            }
        }
        Some(beliefs.argmax())
    }
}

/// One step of [`SmoothLp::walk`].
struct Walk<'a> {
    phi: &'a [f32],
    row_sums: &'a [f32],
    floor: f32,
    stiffness: f32,
    point: &'a [f32],
    z: &'a [f32],
    previous: &'a [f32],
}

impl RowStep for Walk<'_> {
    #[inline(always)]
    fn row(&self, a: usize, out: &mut [f32], _: &mut [f32]) -> (f64, f64) {
        let labels = out.len();
        let row = a * labels..(a + 1) * labels;
        let (phi, z) = (&self.phi[row.clone()], &self.z[row.clone()]);
        let (point, previous) = (&self.point[row.clone()], &self.previous[row]);
        let curvature = (self.stiffness * self.row_sums[a]).max(self.floor);
        for i in 0..labels {
            out[i] = point[i] - (phi[i] + z[i]) / curvature;
        }
        simplex::project(out);
        let uphill = numeric::row_sum([point, out, previous], |[v, o, p]| (v - o) * (o - p));
        (f64::from(curvature * uphill), 0.0)
    }
}

impl Solver for SmoothLp<'_> {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        let model = self.model;
        if self.z.is_empty() {
            let zeros = vec![0.0; beliefs.as_slice().len()];
            self.previous = beliefs.as_slice().to_vec();
            (self.point, self.z, self.mean) = (zeros.clone(), zeros.clone(), zeros);
            // z = 0 is a certificate too.
            self.bound = cuts::bound(model, &self.mean);
        }

        // --- the gradient, a little ahead of the beliefs ---
        let (y, beta) = (beliefs.as_slice(), self.extrapolation);
        self.point.par_iter_mut().with_min_len(numeric::CHUNK).zip(y).zip(&self.previous).for_each(
            |((v, &y), &p)| {
                *v = y + beta * (y - p);
            },
        );
        let left = (context.lowest_energy() - self.bound).max(0.0);
        let allowance = if self.certified && left.is_finite() { NEGLIGIBLE * left } else { 0.0 };
        let order = Order::Softened { cells: self.cells };
        self.terms.subgradient(context, &self.point, order, allowance, &mut self.z);
        let objective = numeric::dot(model.unary(), &self.point) + numeric::dot(&self.z, &self.point);

        // --- the bound ---
        let share = ((MEAN_POWER + 1.0) / (self.averaged + MEAN_POWER + 1.0)).min(1.0);
        self.averaged += 1.0;
        self.mean.par_iter_mut().with_min_len(numeric::CHUNK).zip(&self.z).for_each(|(m, &z)| {
            *m += share * (z - *m);
        });
        let bound = cuts::bound(model, &self.mean);
        self.bound = self.bound.max(bound);

        // --- the step ---
        self.previous.copy_from_slice(y);
        if self.walk(beliefs) {
            (self.momentum, self.extrapolation) = (1.0, 0.0);
        } else {
            let next = 0.5 * (1.0 + (1.0 + 4.0 * self.momentum * self.momentum).sqrt());
            self.extrapolation = ((self.momentum - 1.0) / next) as f32;
            self.momentum = next;
        }

        self.taken += 1;
        if self.taken.is_multiple_of(POLISH_EVERY) {
            self.proposal = self.polished(context, beliefs);
        }
        let finest = self.cells == self.most_cells;
        self.refine(objective - bound, left);
        let residual = if finest { (objective - bound).min(left) } else { left };
        Step { objective, lower_bound: self.certified.then_some(self.bound), residual }
    }

    fn proposal(&mut self) -> Option<Labeling> {
        self.proposal.take()
    }

    fn candidates(&mut self, context: &mut Context, beliefs: &Beliefs) -> Vec<Labeling> {
        self.polished(context, beliefs).into_iter().collect()
    }
}
