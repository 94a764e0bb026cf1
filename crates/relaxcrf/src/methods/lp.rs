//! The LP relaxation by projected subgradients, with a certified bound on the way.
//!
//! `S(y) = <φ, y> + Σ_T w_T Σ_ab K_ab |s_a(T) - s_b(T)|` over the cuts T of the compatibility (see `cuts.rs`) is
//! convex and equals the energy on labellings. A step is `y ← Proj(y - α d / c)` with c the pixels' row sums,
//! d a running mean of the subgradients' feasible parts, and Polyak's α: as long as it should take to get
//! from S(y) down to a target between the lowest S so far and the bound. The bound is that of the averaged
//! subgradients z, later and longer steps weighing more. As the gap closes, the steps shrink.
//!
//! This is the rule `polyak`. By default the method takes the steps of `smooth-lp` instead: on weakly and on strongly coupled
//! problems both rules are well behind them, in energy and in the bound.
//!
//! `paper-step` is the published rule: `1 / (1 + t)` along the plain subgradient. That rule depends
//! on the unit in which energies are measured; here the unit is the first subgradient's typical length.

use rayon::prelude::*;

use super::costs_below::{on_cuts, require_cuts};
use super::info::MethodInfo;
use super::options::{MethodOption, Options};
use super::smooth_lp::{self, SmoothLp};
use crate::beliefs::Beliefs;
use crate::error::Result;
use crate::labeling::Labeling;
use crate::model::{CompatibilityKind, Cut, Model};
use crate::relaxation::cuts::{self, CutTerms, OMITTED_CUTS_FRACTION, Order, cuts_for};
use crate::relaxation::tangent;
use crate::round;
use crate::rows::simplex;
use crate::solver::{Context, Solver, Step};
use relaxcrf_filter::reduce::{self, rows_per_chunk};
use relaxcrf_filter::rng::Rng;
use relaxcrf_filter::{MAX_BINS, MAX_CELLS, OrderedMode};

/// Share of the old direction in the new one. On a stereo pair (20 labels), 40 steps reach S = 1.86e6 with
/// it and 2.37e6 without. Close to the optimum it does harm, so it ends with the first window that brings
/// little.
const MEMORY: f32 = 0.7;

/// What counts as little: this share of the gap.
const LITTLE: f64 = 0.1;

/// Steps first aim at this share of the gap: a whole gap's step would throw a good start away. Every step to a new
/// lowest value raises the share, every other one lowers it.
const FIRST_AMBITION: f64 = 0.05;
const RAISE: f64 = 2.0;
const LOWER: f64 = 0.9;
const LEAST_AMBITION: f64 = 0.01;

/// Iterations over which progress is judged: subgradient steps do not improve one by one.
const WINDOW: usize = 20;

/// Iterations without progress after which there will be none.
const LONG_WINDOW: usize = 60;

/// Points up to which divide and conquer goes pair by pair.
const LEAF: usize = 32;

/// The options of `lp`, with which those of `tree-lp` begin.
pub(super) const OPTIONS: [MethodOption; 4] = [
    MethodOption::flag("polyak", "subgradient steps of Polyak's length, with the bound as the target"),
    MethodOption::flag("dc", "order beliefs by divide and conquer, as in the paper"),
    MethodOption::flag("paper-step", "the published step rule, 1/(1+t)"),
    MethodOption::count("bins", "bins for the beliefs of a label", (3, MAX_BINS), DEFAULT_BINS),
];
const DEFAULT_BINS: usize = 16;

/// The row of `lp`.
pub(super) const ROW: MethodInfo = MethodInfo {
    options: &OPTIONS,
    tolerance: 1e-5,
    bytes: |problem| {
        let subgradients = problem.arrays(7) + problem.column_bytes();
        subgradients.max((smooth_lp::ROW.bytes)(problem))
    },
    fits: |model, _| require_cuts(model, "lp"),
    ..MethodInfo::new(
        "lp",
        "LP relaxation (options of projected subgradients: polyak, paper-step, dc, bins=N)",
        "certified lower bound; exact at its optimum for two labels and for labels on a line",
        |model, options| solver(model, LpOptions::of(options)),
    )
};

/// Options of the method `lp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LpOptions {
    /// Order the beliefs of each label by divide and conquer instead of bins, as in the paper.
    pub divide_and_conquer: bool,
    /// Bins per label; not used by divide and conquer.
    pub bins: usize,
    /// How long steps are.
    pub rule: StepRule,
}

/// Step rules of the method `lp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepRule {
    /// Accelerated steps along the gradient of the softened order, those of `smooth-lp`.
    Softened,
    /// Polyak's, along subgradients, with the bound as the target.
    Polyak,
    /// 1/(1+t), along subgradients, as in the paper.
    Paper,
}

impl LpOptions {
    pub fn of(options: &Options) -> Self {
        let (divide_and_conquer, bins) = (options.flag("dc"), options.count("bins"));
        let rule = if options.flag("paper-step") {
            StepRule::Paper
        } else if options.flag("polyak") || divide_and_conquer || bins != DEFAULT_BINS {
            // How the order is found matters to subgradients only.
            StepRule::Polyak
        } else {
            StepRule::Softened
        };
        Self { divide_and_conquer, bins, rule }
    }
}

/// A solver for the method `lp`.
pub(super) fn solver(model: &Model, options: LpOptions) -> Result<Box<dyn Solver + '_>> {
    match options.rule {
        StepRule::Softened => on_cuts(model, |model| SmoothLp::named(model, "lp", MAX_CELLS)),
        StepRule::Polyak | StepRule::Paper => on_cuts(model, |model| Lp::new(model, options)),
    }
}

/// The methods `lp` and, tree by tree, `tree-lp`.
#[derive(Debug)]
pub(super) struct Lp {
    terms: CutTerms,
    order: Order,
    paper_step: bool,
    memory: f32,
    /// Whether the cuts are the model's own costs and the operator is symmetric.
    certified: bool,
    /// Rounding that fits the costs: labels on a line keep their distances by intervals.
    on_a_line: bool,
    /// The metric of each pixel's step.
    stiffness: Vec<f32>,
    /// Subgradient of the pairwise part, and the average of those so far.
    z: Vec<f32>,
    mean: Vec<f32>,
    mean_weight: f64,
    /// The subgradient of the whole objective and the direction that the steps follow.
    gradient: Vec<f32>,
    direction: Vec<f32>,
    /// Length of the first subgradient, the paper's unit.
    unit: Option<f64>,
    bound: f64,
    lowest: f64,
    /// How far down towards the bound a step aims, as a share of the gap.
    ambition: f64,
    /// What was left to gain after each iteration.
    left: Vec<f64>,
    /// The iteration in which the memory ended: what came before says nothing about the steps since.
    settled: usize,
}

impl Lp {
    /// For compatibilities that are known as sums of cuts.
    pub fn new(model: &Model, options: LpOptions) -> Result<Self> {
        let cuts = cuts_for(model, "lp")?;
        Ok(Self::over(model, &cuts, options, true))
    }

    /// For any cuts; `exact` if they add up to the model's own costs, so that bounds are bounds.
    pub fn over(model: &Model, cuts: &[Cut], options: LpOptions, exact: bool) -> Self {
        let size = model.pixels() * model.labels();
        let row_sums = model.pairwise().row_sums();
        // Pixels that hardly have neighbours may move fast, but not without limit.
        let least = 0.1 * (reduce::sum(row_sums) / row_sums.len().max(1) as f64) as f32;
        let stiff = |&d: &f32| if options.rule == StepRule::Paper || least <= 0.0 { 1.0 } else { d + least };
        Self {
            terms: CutTerms::new(model, cuts),
            order: Order::Sharp(match options {
                LpOptions { divide_and_conquer: true, .. } => OrderedMode::DivideAndConquer { leaf: LEAF },
                LpOptions { bins, .. } => OrderedMode::Binned { bins },
            }),
            paper_step: options.rule == StepRule::Paper,
            memory: if options.rule == StepRule::Paper { 0.0 } else { MEMORY },
            certified: exact && model.pairwise().is_symmetric(),
            on_a_line: matches!(model.compatibility().kind(), CompatibilityKind::Linear { .. }),
            stiffness: row_sums.iter().map(stiff).collect(),
            z: vec![0.0; size],
            mean: vec![0.0; size],
            mean_weight: 0.0,
            gradient: vec![0.0; size],
            direction: vec![0.0; size],
            unit: None,
            bound: f64::NEG_INFINITY,
            lowest: f64::INFINITY,
            ambition: FIRST_AMBITION,
            left: Vec::new(),
            settled: 0,
        }
    }

    /// Fills `gradient` with `φ + z`, or the feasible part of it, and returns its squared length in the
    /// metric of the steps.
    fn find_gradient(&mut self, model: &Model, y: &[f32]) -> f64 {
        let labels = model.labels();
        let (phi, z, stiffness, plain) = (model.unary(), &self.z, &self.stiffness, self.paper_step);
        reduce::for_rows(&mut self.gradient, labels, |first, rows| {
            let mut total = 0.0;
            for (k, g) in rows.chunks_exact_mut(labels).enumerate() {
                let row = (first + k) * labels..(first + k + 1) * labels;
                for ((g, &e), &z) in g.iter_mut().zip(&phi[row.clone()]).zip(&z[row.clone()]) {
                    *g = e + z;
                }
                if plain {
                    tangent::centre(g);
                } else {
                    tangent::feasible(g, &y[row]);
                }
                let squared: f64 = g.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
                total += squared / f64::from(stiffness[first + k]);
            }
            total
        })
    }

    /// Takes z into the average, with a weight of its own.
    fn average(&mut self, weight: f64) {
        self.mean_weight += weight;
        let share = (weight / self.mean_weight) as f32;
        self.mean.par_iter_mut().with_min_len(reduce::CHUNK).zip(&self.z).for_each(|(m, &z)| {
            *m += share * (z - *m);
        });
    }

    /// `y ← Proj(y - step · direction / stiffness)`, after the direction has turned to the gradient.
    fn walk(&mut self, step: f64, labels: usize, y: &mut [f32]) {
        let memory = self.memory;
        let rows = rows_per_chunk(labels);
        y.par_chunks_mut(rows * labels)
            .zip(self.direction.par_chunks_mut(rows * labels))
            .zip(self.gradient.par_chunks(rows * labels))
            .zip(self.stiffness.par_chunks(rows))
            .for_each(|(((y, direction), gradient), stiffness)| {
                let rows = y.chunks_exact_mut(labels).zip(direction.chunks_exact_mut(labels));
                for (((y, d), g), &c) in rows.zip(gradient.chunks_exact(labels)).zip(stiffness) {
                    let length = (step / f64::from(c)).min(1e20) as f32;
                    for ((y, d), &g) in y.iter_mut().zip(d.iter_mut()).zip(g) {
                        *d = memory * *d + (1.0 - memory) * g;
                        *y -= length * *d;
                    }
                    simplex::project(y);
                }
            });
    }

    /// What the last iterations gained, or less if less is left. Ends the memory when they gained little.
    fn residual(&mut self) -> f64 {
        // Without symmetry the bound is none, but still a sensible target.
        let left = (self.lowest - self.bound).max(0.0);
        self.left.push(left);
        let now = self.left.len();
        let gained = |window: usize| {
            let start = now.checked_sub(window + 1).filter(|&k| k >= self.settled);
            start.map_or(f64::INFINITY, |k| self.left[k] - left)
        };
        let residual = gained(LONG_WINDOW).min(left);
        if self.memory > 0.0 && gained(WINDOW) < LITTLE * left {
            self.memory = 0.0;
            self.mean_weight = 0.0;
            self.settled = now;
            return left;
        }
        residual
    }
}

impl Solver for Lp {
    fn step(&mut self, context: &mut Context, beliefs: &mut Beliefs) -> Step {
        let model = context.model();
        let (labels, iteration) = (model.labels(), self.left.len());
        if iteration == 0 {
            // z = 0 is a certificate too.
            self.bound = cuts::bound(model, &self.z);
        }

        // --- the objective and its subgradient ---
        let gap = self.lowest - self.bound;
        let allowance =
            if self.certified && gap.is_finite() { OMITTED_CUTS_FRACTION * gap.max(0.0) } else { 0.0 };
        self.terms.subgradient(context, beliefs.as_slice(), self.order, allowance, &mut self.z);
        let objective =
            reduce::dot(model.unary(), beliefs.as_slice()) + reduce::dot(&self.z, beliefs.as_slice());
        self.ambition = if objective < self.lowest {
            (self.ambition * RAISE).min(1.0)
        } else {
            (self.ambition * LOWER).max(LEAST_AMBITION)
        };
        self.lowest = self.lowest.min(objective);

        // --- how far to go ---
        let squared = self.find_gradient(model, beliefs.as_slice());
        let step = if squared <= 0.0 {
            0.0
        } else if self.paper_step {
            let unit = *self.unit.get_or_insert((squared / model.pixels() as f64).sqrt());
            1.0 / (unit * (1.0 + iteration as f64))
        } else {
            let target = self.lowest - self.ambition * (self.lowest - self.bound).max(0.0);
            (objective - target).max(1e-9 * model.scale()) / squared
        };

        // --- the bound ---
        self.average(step.max(f64::MIN_POSITIVE) * (1.0 + iteration as f64));
        self.bound = self.bound.max(cuts::bound(model, &self.mean));
        if squared <= 0.0 {
            self.bound = self.bound.max(cuts::bound(model, &self.z));
        }

        if step > 0.0 {
            self.walk(step, labels, beliefs.as_mut_slice());
        }
        let residual = if step > 0.0 { self.residual() } else { 0.0 };
        Step { objective, lower_bound: self.certified.then_some(self.bound), residual }
    }

    fn candidates(&mut self, context: &mut Context, beliefs: &Beliefs) -> Vec<Labeling> {
        let settings = context.settings();
        let draw = |k: usize| {
            let seed = Rng::stream(settings.seed, k as u64).next_u64();
            // Intervals cut large jumps of truncated costs where thresholds would not: half of each.
            if self.on_a_line && k.is_multiple_of(2) {
                round::interval(beliefs, seed)
            } else {
                round::kleinberg_tardos(beliefs, seed)
            }
        };
        (0..settings.roundings).map(draw).collect()
    }
}
