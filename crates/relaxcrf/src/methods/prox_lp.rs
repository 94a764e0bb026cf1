//! The LP by proximal steps, each solved in its dual by conditional gradients.
//!
//! A proximal step minimises `S(y) + Σ_a |y_a - c_a|² / (2 λ_a)` round a centre c. For a fixed certificate z (see
//! `cuts.rs`) the best beliefs are `y = Proj(c - λ (φ + z))`, in closed form; and the subgradient s at y is the
//! certificate that the dual can gain most from, by `<s - z, y>` at first. So z moves towards s, by
//! `<s - z, y> / Σ λ |s - z|²`, which is safe because y is a λ-Lipschitz function of z. After a few such moves
//! c moves to y, and z is kept: it has become a good certificate for the LP itself. Once most pixels have made up their
//! minds, most moves are over the others (`reductions/open_pixels.rs`).

use super::costs_below::{on_cuts, require_cuts};
use super::info::MethodInfo;
use super::options::MethodOption;
use crate::beliefs::Beliefs;
use crate::error::Result;
use crate::labeling::Labeling;
use crate::model::{Cut, Model};
use crate::reductions::open_pixels::{self, Bounds, OpenPixels, RestrictPixels, move_towards};
use crate::relaxation::cuts::{self, CutTerms, Made, OMITTED_CUTS_FRACTION, Order, cuts_for};
use crate::relaxation::quadratic::smallest_curvature;
use crate::round;
use crate::rows::simplex;
use crate::solver::{Context, Solver, Step};
use relaxcrf_filter::reduce::{self, RowStep};
use relaxcrf_filter::rng::Rng;
use relaxcrf_filter::{MAX_BINS, OrderedMode};

/// Most moves of z for one centre.
const MAX_MOVES_PER_CENTRE: usize = 8;

/// The centre moves when z can gain less than this fraction of the gap.
const MIN_GAIN_FRACTION: f64 = 0.01;

/// The row of `prox-lp`.
pub(super) const ROW: MethodInfo = MethodInfo {
    options: &[
        MethodOption::number("lambda", "length of the proximal steps", f32::MAX, ProxOptions::DEFAULT.lambda),
        MethodOption::count(
            "bins",
            "bins for the beliefs of a label",
            (3, MAX_BINS),
            ProxOptions::DEFAULT.bins,
        ),
    ],
    tolerance: 1e-5,
    bytes: |problem| problem.arrays(6) + problem.column_bytes() + open_pixels::bytes(problem),
    fits: |model, _| require_cuts(model, "prox-lp"),
    ..MethodInfo::new(
        "prox-lp",
        "LP relaxation by proximal steps (options: lambda=X, bins=N)",
        "certified lower bound; exact at its optimum for two labels and for labels on a line",
        |model, options| {
            let options = ProxOptions { lambda: options.number("lambda"), bins: options.count("bins") };
            on_cuts(model, |model| ProxLp::new(model, options))
        },
    )
};

/// Options of the method `prox-lp`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ProxOptions {
    /// λ of a pixel is this over its row sum.
    pub lambda: f32,
    /// Bins per label.
    pub bins: usize,
}

impl ProxOptions {
    pub const DEFAULT: Self = Self { lambda: 1.2, bins: 16 };
}

/// The method `prox-lp`.
pub(crate) struct ProxLp {
    pub(crate) lp: OpenPixels<Proximal>,
}

/// Where the method stands on a problem.
pub(crate) struct Proximal {
    options: ProxOptions,
    terms: CutTerms,
    certified: bool,
    /// λ of every pixel.
    reach: Vec<f32>,
    /// The centre, z, and the newest subgradient; empty at first.
    centre: Vec<f32>,
    z: Vec<f32>,
    subgradient: Vec<f32>,
    made: Option<Made>,
    /// How far z moved towards the newest subgradient.
    share: f32,
    moves: usize,
    bounds: Bounds,
}

impl ProxLp {
    pub fn new(model: &Model, options: ProxOptions) -> Result<Self> {
        let cuts = cuts_for(model, "prox-lp")?;
        let whole = Proximal::new(model, &cuts, options);
        Ok(Self { lp: OpenPixels::new(model, cuts, whole) })
    }
}

impl Proximal {
    pub fn new(model: &Model, cuts: &[Cut], options: ProxOptions) -> Self {
        let floor = smallest_curvature(model);
        let reach = model.pairwise().row_sums().iter().map(|d| options.lambda / d.max(floor)).collect();
        Self {
            options,
            terms: CutTerms::new(model, cuts),
            certified: model.pairwise().is_symmetric(),
            reach,
            centre: Vec::new(),
            z: Vec::new(),
            subgradient: Vec::new(),
            made: None,
            share: 0.0,
            moves: 0,
            bounds: Bounds::new(f64::NEG_INFINITY),
        }
    }

    fn begin(&mut self, model: &Model, y: &[f32], z: Vec<f32>) {
        self.centre = y.to_vec();
        self.subgradient = vec![0.0; z.len()];
        self.bounds.raise(cuts::bound(model, &z));
        self.z = z;
    }

    /// `Proj(c - λ (φ + z))`.
    fn answer(&self, model: &Model, y: &mut [f32]) {
        let labels = model.labels();
        let Self { z, centre, reach, .. } = self;
        reduce::for_row_pairs(y, labels, Answer { phi: model.unary(), z, centre, reach });
    }
}

/// One row of [`Proximal::answer`].
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

impl RestrictPixels for Proximal {
    fn step(&mut self, context: &mut Context, y: &mut [f32]) -> (f64, f64) {
        let model = context.model();
        let labels = model.labels();
        if self.z.is_empty() {
            self.begin(model, y, vec![0.0; y.len()]);
        }
        self.answer(model, y);
        let left = (context.lowest_energy() - self.bounds.best).max(0.0);
        let allowance = if self.certified && left.is_finite() { OMITTED_CUTS_FRACTION * left } else { 0.0 };
        let order = Order::Sharp(OrderedMode::Binned { bins: self.options.bins });
        self.made = Some(self.terms.subgradient(context, y, order, allowance, &mut self.subgradient));

        let (z, s, reach) = (&self.z, &self.subgradient, &self.reach);
        let objective = reduce::dot(model.unary(), y) + reduce::dot(s, y);
        let gain = reduce::dot(s, y) - reduce::dot(z, y);
        let squared = reduce::sum_by(model.pixels(), reduce::rows_per_chunk(labels), |a| {
            let row = a * labels..(a + 1) * labels;
            let difference = s[row.clone()].iter().zip(&z[row]).map(|(s, z)| f64::from(s - z));
            f64::from(reach[a]) * difference.map(|x| x * x).sum::<f64>()
        });
        self.share = if squared > 0.0 { (gain / squared).clamp(0.0, 1.0) as f32 } else { 0.0 };
        move_towards(&mut self.z, &self.subgradient, self.share);
        self.bounds.raise(cuts::bound(model, &self.z));
        self.bounds.note();

        self.moves += 1;
        if self.moves >= MAX_MOVES_PER_CENTRE || gain <= MIN_GAIN_FRACTION * left {
            self.moves = 0;
            self.centre.copy_from_slice(y);
        }
        (objective, left)
    }

    fn last_subgradient(&self) -> Option<(&[f32], &CutTerms, &Made)> {
        self.made.as_ref().map(|made| (&*self.subgradient, &self.terms, made))
    }

    fn mean_to_continue(&self) -> Option<&[f32]> {
        // A few subgradients are a poor certificate, unlike gradients of a smoothed problem.
        Some(&self.z)
    }

    fn averaging_weight(&self, _averaged: f32) -> f32 {
        self.share
    }

    fn certificate(&self) -> &[f32] {
        &self.z
    }

    fn bounds(&mut self) -> &mut Bounds {
        &mut self.bounds
    }

    fn restrict_to(&self, model: &Model, cuts: &[Cut], y: &[f32], z: Vec<f32>, _averaged: f32) -> Self {
        let mut part = Self::new(model, cuts, self.options);
        part.begin(model, y, z);
        part
    }

    fn resume_from(&mut self, y: &[f32], _part: &Self, better: Option<(Vec<f32>, f32)>) {
        self.centre.copy_from_slice(y);
        self.moves = 0;
        if let Some((z, _)) = better {
            self.z = z;
        }
    }
}

impl Solver for ProxLp {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        let (objective, _) = self.lp.step(context, beliefs.as_mut_slice());
        let bound = self.lp.whole.bounds.best;
        let residual = (context.lowest_energy() - bound).max(0.0);
        Step { objective, lower_bound: self.lp.whole.certified.then_some(bound), residual }
    }

    fn candidates(&mut self, context: &mut Context, beliefs: &Beliefs) -> Vec<Labeling> {
        let settings = context.settings();
        let draw = |k| round::kleinberg_tardos(beliefs, Rng::stream(settings.seed, k as u64).next_u64());
        (0..settings.roundings).map(draw).collect()
    }
}
