//! The LP by proximal steps, each solved in its dual by conditional gradients.
//!
//! A proximal step minimises `S(y) + Σ_a |y_a - c_a|² / (2 λ_a)` round a centre c. For a fixed certificate z (see
//! `cuts.rs`) the best beliefs are `y = Proj(c - λ (φ + z))`, in closed form; and the subgradient s at y is the
//! certificate that the dual can gain most from, by `<s - z, y>` at first. So z moves towards s, by
//! `<s - z, y> / Σ λ |s - z|²`, which is safe because y is a λ-Lipschitz function of z. After a few such moves
//! c moves to y, and z is kept: it has become a good certificate for the LP itself.

use std::fmt;

use rayon::prelude::*;

use super::cuts::{self, CutTerms, Order, cuts_for};
use super::{Context, Solver, Step, qp, simplex};
use crate::beliefs::Beliefs;
use crate::error::Result;
use crate::filter::{MAX_BINS, OrderedMode};
use crate::labeling::Labeling;
use crate::model::Model;
use crate::numeric::{self, RowStep};
use crate::rng::Rng;
use crate::round;

/// Most moves of z round one centre.
const MOVES: usize = 8;

/// A centre has done its work when z can gain less than this share of the gap.
const SETTLED: f64 = 0.01;

/// Cuts are left out while all of them together are worth less than this share of the gap.
const NEGLIGIBLE: f64 = 1e-3;

/// Options of the method `prox-lp`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProxOptions {
    /// λ of a pixel is this over its row sum.
    pub lambda: f32,
    /// Bins per label.
    pub bins: usize,
}

impl Default for ProxOptions {
    fn default() -> Self {
        Self { lambda: 1.2, bins: 16 }
    }
}

impl ProxOptions {
    /// Whether the numbers make sense.
    pub(super) fn check(lambda: f32, bins: usize) -> bool {
        lambda > 0.0 && lambda.is_finite() && (3..=MAX_BINS).contains(&bins)
    }
}

impl fmt::Display for ProxOptions {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if *self == Self::default() {
            Ok(())
        } else {
            write!(f, ":lambda={},bins={}", self.lambda, self.bins)
        }
    }
}

/// The method `prox-lp`.
pub(super) struct ProxLp {
    terms: CutTerms,
    order: Order,
    certified: bool,
    /// λ of every pixel.
    reach: Vec<f32>,
    centre: Vec<f32>,
    z: Vec<f32>,
    subgradient: Vec<f32>,
    moves: usize,
    bound: f64,
}

impl ProxLp {
    pub fn new(model: &Model, options: ProxOptions) -> Result<Self> {
        let cuts = cuts_for(model, "prox-lp")?;
        let floor = qp::smallest_curvature(model);
        let reach = model.pairwise().row_sums().iter().map(|d| options.lambda / d.max(floor)).collect();
        Ok(Self {
            terms: CutTerms::new(model, &cuts),
            order: Order::Sharp(OrderedMode::Binned { bins: options.bins }),
            certified: model.pairwise().is_symmetric(),
            reach,
            centre: Vec::new(),
            z: Vec::new(),
            subgradient: Vec::new(),
            moves: 0,
            bound: f64::NEG_INFINITY,
        })
    }

    /// `Proj(c - λ (φ + z))`.
    fn answer(&self, model: &Model, beliefs: &mut Beliefs) {
        let labels = model.labels();
        let Self { z, centre, reach, .. } = self;
        numeric::for_row_pairs(
            beliefs.as_mut_slice(),
            labels,
            Answer { phi: model.unary(), z, centre, reach },
        );
    }
}

/// One row of [`ProxLp::answer`].
struct Answer<'a> {
    phi: &'a [f32],
    z: &'a [f32],
    centre: &'a [f32],
    reach: &'a [f32],
}

impl RowStep for Answer<'_> {
    #[inline(always)]
    fn row(&self, a: usize, out: &mut [f32], _: &mut [f32]) -> (f64, f64) {
        let row = a * out.len()..(a + 1) * out.len();
        let (phi, z, centre) = (&self.phi[row.clone()], &self.z[row.clone()], &self.centre[row]);
        for i in 0..out.len() {
            out[i] = centre[i] - self.reach[a] * (phi[i] + z[i]);
        }
        simplex::project(out);
        (0.0, 0.0)
    }
}

impl Solver for ProxLp {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        let model = context.model();
        let labels = model.labels();
        if self.z.is_empty() {
            let zeros = vec![0.0; beliefs.as_slice().len()];
            (self.z, self.subgradient) = (zeros.clone(), zeros);
            self.centre = beliefs.as_slice().to_vec();
            self.bound = cuts::bound(model, &self.z);
        }
        self.answer(model, beliefs);
        let left = (context.lowest_energy() - self.bound).max(0.0);
        let allowance = if self.certified && left.is_finite() { NEGLIGIBLE * left } else { 0.0 };
        self.terms.subgradient(context, beliefs.as_slice(), self.order, allowance, &mut self.subgradient);

        let (z, s, y, reach) = (&self.z, &self.subgradient, beliefs.as_slice(), &self.reach);
        let objective = numeric::dot(model.unary(), y) + numeric::dot(s, y);
        let gain = numeric::dot(s, y) - numeric::dot(z, y);
        let squared = numeric::sum_by(model.pixels(), numeric::rows_per_chunk(labels), |a| {
            let row = a * labels..(a + 1) * labels;
            let difference = s[row.clone()].iter().zip(&z[row]).map(|(s, z)| f64::from(s - z));
            f64::from(reach[a]) * difference.map(|x| x * x).sum::<f64>()
        });
        let share = if squared > 0.0 { (gain / squared).clamp(0.0, 1.0) as f32 } else { 0.0 };
        let s = &self.subgradient;
        self.z.par_iter_mut().with_min_len(numeric::CHUNK).zip(s).for_each(|(z, &s)| {
            *z += share * (s - *z);
        });
        self.bound = self.bound.max(cuts::bound(model, &self.z));

        self.moves += 1;
        if self.moves >= MOVES || gain <= SETTLED * left {
            self.moves = 0;
            self.centre.copy_from_slice(beliefs.as_slice());
        }
        Step { objective, lower_bound: self.certified.then_some(self.bound), residual: left }
    }

    fn candidates(&mut self, context: &mut Context, beliefs: &Beliefs) -> Vec<Labeling> {
        let settings = context.settings();
        let draw = |k| round::kleinberg_tardos(beliefs, Rng::stream(settings.seed, k as u64).next_u64());
        (0..settings.roundings).map(draw).collect()
    }
}
