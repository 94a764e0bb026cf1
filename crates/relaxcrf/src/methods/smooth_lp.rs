//! The smoothed LP by accelerated projected gradients: low energies and a tight bound from the same steps.
//!
//! The pairwise part of the LP adds up |s_a(T) - s_b(T)| over cuts T and pairs of pixels (see `cuts.rs`). Its
//! subgradient counts the order of two sums by sign; here differences within one of `cells` equal parts of [0, 1]
//! count in proportion (see [`Layers`](relaxcrf_filter::Layers)). That makes z a Lipschitz function of the beliefs,
//! with constant `cells · d_a`, so that momentum pays, and it leaves z a certificate: weights of pairs stay
//! antisymmetric and within ±1 for all beliefs. One step is
//!
//! `y⁺ = Proj(v - (φ + z(v)) / (cells · d)),   v⁺ = y⁺ + β (y⁺ - y)`.
//!
//! The bound is that of the running mean of z, later ones weighing more: the last z alone is worth little.
//! At the optimum of the smoothed problem the bound meets the objective, and the finer the parts the closer
//! that is to the LP. So parts are refined when little is left to gain with them. Now and then a few steps of `dc-neg`
//! from the beliefs make a labelling of them. Once most pixels have made up their minds, most iterations are over the
//! others (`reductions/open_pixels.rs`).

use std::time::{Duration, Instant};

use rayon::prelude::*;

use super::costs_below::{on_cuts, require_cuts};
use super::dc_neg::DcNeg;
use super::info::MethodInfo;
use super::options::MethodOption;
use crate::beliefs::Beliefs;
use crate::error::Result;
use crate::labeling::Labeling;
use crate::model::{Cut, Model};
use crate::reductions::open_pixels::{self, Bounds, OpenPixels, RestrictPixels, move_towards};
use crate::relaxation::cuts::{self, CutTerms, Made, OMITTED_CUTS_FRACTION, Order, cuts_for};
use crate::relaxation::quadratic::smallest_curvature;
use crate::rows::simplex;
use crate::solver::{Context, Solver, Step};
use relaxcrf_filter::MAX_CELLS;
use relaxcrf_filter::reduce::{self, RowStep};

/// Parts to begin with. With 15 and with 31 all rows of a lattice's tables are full.
const FIRST_CELLS: usize = 15;

/// Parts are refined when the gap of the smoothed problem is at most this share of the whole gap, and the bound
/// has risen by less than that share of it over a window of iterations.
const REFINING_GAP_FRACTION: f64 = 0.2;
const REFINING_RISE_FRACTION: f64 = 0.05;
const WINDOW: usize = 20;

/// z number k of an average has weight k to this power, nearly.
const MEAN_POWER: f32 = 3.0;

/// Iterations from one labelling made by `dc-neg` to the next, and the most steps it takes.
const POLISH_EVERY: usize = 20;
const POLISH_STEPS: usize = 12;

/// The row of `smooth-lp`.
pub(super) const ROW: MethodInfo = MethodInfo {
    options: &[MethodOption::count("cells", "most parts of the softened order", (1, MAX_CELLS), MAX_CELLS)],
    tolerance: 1e-5,
    bytes: |problem| problem.arrays(9) + problem.layer_bytes() + open_pixels::bytes(problem),
    fits: |model, _| require_cuts(model, "smooth-lp"),
    ..MethodInfo::new(
        "smooth-lp",
        "smoothed LP relaxation by accelerated gradients (option: cells=N)",
        "certified lower bound, the tightest here for most problems",
        |model, options| on_cuts(model, |model| SmoothLp::new(model, options.count("cells"))),
    )
};

/// The method `smooth-lp`.
pub(crate) struct SmoothLp<'m> {
    model: &'m Model,
    pub(crate) lp: OpenPixels<Smoothed>,
    taken: usize,
    proposal: Option<Labeling>,
    clock: Clock,
}

/// Sees to it that a limited time ends with a labelling of the last beliefs.
struct Clock {
    /// How long a labelling takes, as far as known.
    polish: Duration,
    /// The time is as good as up, and its last labelling has been made.
    closed: bool,
}

/// Where the method stands on a problem.
pub(crate) struct Smoothed {
    terms: CutTerms,
    certified: bool,
    most_cells: usize,
    cells: usize,
    at_level: usize,
    /// Beliefs before the last step, the extrapolated point, its z, and the mean of those; empty at first.
    previous: Vec<f32>,
    point: Vec<f32>,
    z: Vec<f32>,
    mean: Vec<f32>,
    /// Terms of the mean, not all of which count in full after a refinement.
    averaged: f32,
    momentum: f64,
    extrapolation: f32,
    pub(crate) bounds: Bounds,
    /// How the last z was made.
    made: Option<Made>,
}

impl Smoothed {
    pub fn new(model: &Model, cuts: &[Cut], most_cells: usize) -> Self {
        Self {
            terms: CutTerms::new(model, cuts),
            certified: model.pairwise().is_symmetric(),
            most_cells,
            cells: FIRST_CELLS.min(most_cells),
            at_level: 0,
            previous: Vec::new(),
            point: Vec::new(),
            z: Vec::new(),
            mean: Vec::new(),
            averaged: 0.0,
            momentum: 1.0,
            extrapolation: 0.0,
            bounds: Bounds::new(f64::NEG_INFINITY),
            made: None,
        }
    }

    fn begin(&mut self, y: &[f32]) {
        let zeros = vec![0.0; y.len()];
        self.previous = y.to_vec();
        (self.point, self.z, self.mean) = (zeros.clone(), zeros.clone(), zeros);
    }

    /// Finer parts, if there are any, once the coarser ones have done their work.
    fn refine(&mut self, left_here: f64, left: f64) {
        self.at_level += 1;
        self.bounds.note();
        let stalled = self.at_level > WINDOW && self.bounds.rise(WINDOW) <= REFINING_RISE_FRACTION * left;
        if self.cells < self.most_cells && stalled && left_here <= REFINING_GAP_FRACTION * left {
            self.cells = (2 * self.cells + 1).min(self.most_cells);
            self.at_level = 0;
            (self.momentum, self.extrapolation) = (1.0, 0.0);
            // The old mean stays a certificate; the new z should soon outweigh it.
            self.averaged /= MEAN_POWER;
        }
    }

    /// `Proj(v - (φ + z) / curvature)` into `y`; whether the momentum points uphill there.
    fn walk(&self, model: &Model, y: &mut [f32]) -> bool {
        let walk = Walk {
            phi: model.unary(),
            row_sums: model.pairwise().row_sums(),
            floor: smallest_curvature(model),
            stiffness: self.cells as f32 * model.compatibility().concavity() as f32,
            point: &self.point,
            z: &self.z,
            previous: &self.previous,
        };
        let (uphill, _) = reduce::for_row_pairs(y, model.labels(), walk);
        uphill > 0.0
    }
}

impl RestrictPixels for Smoothed {
    fn step(&mut self, context: &mut Context, y: &mut [f32]) -> (f64, f64) {
        let model = context.model();
        if self.z.is_empty() {
            self.begin(y);
            // z = 0 is a certificate too.
            self.bounds.raise(cuts::bound(model, &self.mean));
        }

        // --- the gradient, a little ahead of the beliefs ---
        let beta = self.extrapolation;
        self.point.par_iter_mut().with_min_len(reduce::CHUNK).zip(&*y).zip(&self.previous).for_each(
            |((v, &y), &p)| {
                *v = y + beta * (y - p);
            },
        );
        let left = (context.lowest_energy() - self.bounds.best).max(0.0);
        let allowance = if self.certified && left.is_finite() { OMITTED_CUTS_FRACTION * left } else { 0.0 };
        let order = Order::Softened { cells: self.cells };
        self.made = Some(self.terms.subgradient(context, &self.point, order, allowance, &mut self.z));
        let objective = reduce::dot(model.unary(), &self.point) + reduce::dot(&self.z, &self.point);

        // --- the bound ---
        let share = self.averaging_weight(self.averaged);
        self.averaged += 1.0;
        move_towards(&mut self.mean, &self.z, share);
        let bound = cuts::bound(model, &self.mean);
        self.bounds.raise(bound);

        // --- the step ---
        self.previous.copy_from_slice(y);
        if self.walk(model, y) {
            (self.momentum, self.extrapolation) = (1.0, 0.0);
        } else {
            let next = 0.5 * (1.0 + (1.0 + 4.0 * self.momentum * self.momentum).sqrt());
            self.extrapolation = ((self.momentum - 1.0) / next) as f32;
            self.momentum = next;
        }

        let finest = self.cells == self.most_cells;
        self.refine(objective - bound, left);
        (objective, if finest { (objective - bound).min(left) } else { left })
    }

    fn last_subgradient(&self) -> Option<(&[f32], &CutTerms, &Made)> {
        self.made.as_ref().map(|made| (&*self.z, &self.terms, made))
    }

    fn mean_to_continue(&self) -> Option<&[f32]> {
        // A mean of the next few is as good, and the whole of it.
        None
    }

    fn averaging_weight(&self, averaged: f32) -> f32 {
        ((MEAN_POWER + 1.0) / (averaged + MEAN_POWER + 1.0)).min(1.0)
    }

    fn certificate(&self) -> &[f32] {
        &self.mean
    }

    fn bounds(&mut self) -> &mut Bounds {
        &mut self.bounds
    }

    fn restrict_to(&self, model: &Model, cuts: &[Cut], y: &[f32], mean: Vec<f32>, averaged: f32) -> Self {
        let mut part = Self::new(model, cuts, self.most_cells);
        (part.cells, part.averaged) = (self.cells, averaged);
        part.begin(y);
        part.bounds = Bounds::new(cuts::bound(model, &mean));
        part.mean = mean;
        part
    }

    fn resume_from(&mut self, y: &[f32], part: &Self, better: Option<(Vec<f32>, f32)>) {
        self.previous.copy_from_slice(y);
        (self.momentum, self.extrapolation) = (1.0, 0.0);
        if part.cells != self.cells {
            (self.cells, self.at_level) = (part.cells, 0);
        }
        if let Some((mean, averaged)) = better {
            (self.mean, self.averaged) = (mean, averaged);
        }
    }
}

impl<'m> SmoothLp<'m> {
    pub fn new(model: &'m Model, most_cells: usize) -> Result<Self> {
        Self::named(model, "smooth-lp", most_cells)
    }

    /// [`SmoothLp::new`] for a method of another name.
    pub fn named(model: &'m Model, name: &str, most_cells: usize) -> Result<Self> {
        Ok(Self::over(model, cuts_for(model, name)?, most_cells))
    }

    /// For any cuts that add up to the model's own costs.
    pub fn over(model: &'m Model, cuts: Vec<Cut>, most_cells: usize) -> Self {
        let whole = Smoothed::new(model, &cuts, most_cells);
        Self {
            model,
            lp: OpenPixels::new(model, cuts, whole),
            taken: 0,
            proposal: None,
            clock: Clock { polish: Duration::ZERO, closed: false },
        }
    }

    /// A mean of many z: a certificate of a bound.
    pub fn certificate(&self) -> &[f32] {
        self.lp.certificate()
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

/// One step of [`Smoothed::walk`].
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
        let uphill = reduce::row_sum([point, out, previous], |[v, o, p]| (v - o) * (o - p));
        (f64::from(curvature * uphill), 0.0)
    }
}

impl Solver for SmoothLp<'_> {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        let (y, started) = (beliefs.as_mut_slice(), Instant::now());
        let was_whole = self.lp.is_whole();
        let (objective, residual) = self.lp.step(context, y);
        let polish = if was_whole {
            self.taken += 1;
            self.taken.is_multiple_of(POLISH_EVERY)
        } else {
            // The restriction has ended.
            self.lp.is_whole()
        };
        let step = started.elapsed();
        // A labelling takes about as long as a few steps.
        let needed = step + self.clock.polish.max(2 * step);
        let closing = !self.clock.closed && context.time_left().is_some_and(|left| left <= needed);
        self.clock.closed |= closing;
        if polish || closing {
            let started = Instant::now();
            self.proposal = self.polished(context, beliefs);
            self.clock.polish = started.elapsed();
        }
        let bound = self.lp.whole.bounds.best;
        Step { objective, lower_bound: self.lp.whole.certified.then_some(bound), residual }
    }

    fn proposal(&mut self) -> Option<Labeling> {
        self.proposal.take()
    }

    fn candidates(&mut self, context: &mut Context, beliefs: &Beliefs) -> Vec<Labeling> {
        self.polished(context, beliefs).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::ModelBuilder;
    use crate::model::FilterKind;
    use crate::solver::Settings;

    const POINTS: usize = 60;

    fn model() -> Model {
        ModelBuilder::points(POINTS, 3)
            .unary((0..3 * POINTS).map(|k| ((k * k) as f32 * 0.37).sin()).collect())
            .features((0..POINTS).map(|a| 0.2 * a as f32).collect(), 1, 0.3)
            .filter(FilterKind::Exact)
            .build()
            .unwrap()
    }

    fn iterates(model: &Model, most_cells: usize) -> Smoothed {
        Smoothed::new(model, &model.compatibility().cuts().unwrap(), most_cells)
    }

    #[test]
    fn parts_are_refined_when_the_bound_stalls_and_little_is_left_with_them() {
        // A window after which the bound has risen by a share of the gap, 10, and what is left with these parts.
        let after = |rise: f64, left_here: f64| {
            let mut it = iterates(&model(), 63);
            (it.bounds.best, it.averaged, it.momentum, it.extrapolation) = (0.0, 30.0, 5.0, 0.5);
            let mut taken = 0;
            while it.cells == FIRST_CELLS && taken < 2 * WINDOW {
                taken += 1;
                it.bounds.best += 10.0 * rise / WINDOW as f64;
                it.refine(left_here, 10.0);
            }
            (it, taken)
        };
        let (it, taken) = after(0.04, 1.0);
        assert_eq!((it.cells, taken), (2 * FIRST_CELLS + 1, WINDOW + 1), "as soon as there is a window");
        // Steps begin anew, and the new z soon outweighs the mean of the old.
        assert_eq!((it.at_level, it.momentum, it.extrapolation), (0, 1.0, 0.0));
        assert_eq!(it.averaged, 30.0 / MEAN_POWER);
        assert_eq!(after(0.07, 1.0).0.cells, FIRST_CELLS, "the bound still rises");
        assert_eq!(after(0.04, 3.0).0.cells, FIRST_CELLS, "there is work left with these parts");
        let mut it = iterates(&model(), 40);
        it.bounds.best = 0.0;
        for _ in 0..5 * WINDOW {
            it.refine(0.1, 10.0);
        }
        assert_eq!(it.cells, 40, "not more than the most");
    }

    #[test]
    fn labellings_are_those_of_a_few_steps_of_dc_neg() {
        let model = model();
        let settings = Settings::default();
        let mut context = Context::new(&model, &settings, Instant::now());
        let mut solver = SmoothLp::new(&model, MAX_CELLS).unwrap();
        let mut beliefs = Beliefs::from_energies(model.unary(), 3);
        let by_dc_neg = |context: &mut Context, beliefs: &Beliefs| {
            let (mut dc_neg, mut y) = (DcNeg::new(&model).unwrap(), beliefs.clone());
            (0..POLISH_STEPS).for_each(|_| {
                dc_neg.step(context, &mut y);
            });
            y.argmax()
        };
        assert_eq!(solver.candidates(&mut context, &beliefs), [by_dc_neg(&mut context, &beliefs)]);
        for taken in 1..=2 * POLISH_EVERY {
            solver.step(&mut context, &mut beliefs);
            let expected = taken.is_multiple_of(POLISH_EVERY).then(|| by_dc_neg(&mut context, &beliefs));
            assert_eq!(solver.proposal(), expected, "iteration {taken}");
        }
    }
}
