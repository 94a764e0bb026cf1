//! Restricts an LP method to the undecided pixels without invalidating its lower bound.
//!
//! Let A be some of the pixels and K' ≤ K the operator between them (`Pairwise::among`). A certificate of the whole problem
//! is `z_a = Σ_b K_ab f_ab` with antisymmetric weights |f| <= 1 (see `cuts.rs`). Take the part with K' out of it:
//!
//! `base = z - z',   z'_a = Σ_{b in A} K'_ab f_ab` with the same weights.
//!
//! Then base certifies the costs with K - K', which has no negative entries, so for every labelling x
//!
//! `E(x) >= Σ_{a not in A} (φ + base)_a(x_a) + [Σ_{a in A} (φ + base)_a(x_a) + P'(x)]`,
//!
//! P' the pairwise costs with K'. In brackets stands a problem of the pixels in A alone. A lower bound of it, and the
//! least of every other pixel's own term, add up to a lower bound of E; and z' is the certificate of the smaller problem
//! that gives the bound that z gave. Nothing is assumed of the decided pixels: what fixing them can cost is the quality of
//! the bound, never its truth.
//!
//! The certificate in use is a mean over iterations, so its part in A must be averaged along: for some iterations of
//! the whole problem z' is *averaged*, then the restricted problem takes over until its bound stalls, and so on.
//! A method may begin a new mean for that, or go on with the one it has. Then only a fraction w of the certificate was averaged:
//! base = z - w z' certifies the costs with K - w K', and the smaller problem has w K'.

use rayon::prelude::*;

use crate::model::{Cut, Model, Problem};
use crate::relaxation::cuts::{self, CutTerms, Made};
use crate::solver::Context;
use relaxcrf_filter::reduce;

/// Largest belief from which a pixel counts as decided.
const DECIDED_BELIEF: f32 = 0.999;

/// Largest fraction of undecided pixels: with more, the restricted problem would not be much smaller.
const MAX_OPEN_FRACTION: f64 = 0.2;

/// Bytes of the restricted problem, and of its certificate for all pixels.
pub(crate) fn bytes(problem: &Problem) -> u64 {
    let part = (10 * problem.arrays(1) + problem.kernel_bytes()) as f64 * MAX_OPEN_FRACTION;
    problem.arrays(1) + part as u64
}

/// Iterations on all pixels before the first restriction, and between two restrictions.
const FULL_ITERATIONS_FIRST: usize = 10;
const FULL_ITERATIONS_BETWEEN: usize = 2;

/// Fewest and most iterations of averaging, and the fraction of the certificate that may be averaged sooner.
const AVERAGING_ITERATIONS: std::ops::RangeInclusive<usize> = 10..=40;
const SUFFICIENT_FRACTION: f32 = 0.9;

/// Most iterations on the restricted problem. It ends when the bound has risen by less than this fraction of the gap over a
/// window of iterations.
const MAX_RESTRICTED_ITERATIONS: usize = 80;
const MIN_RISE_FRACTION: f64 = 0.01;
const RISE_WINDOW: usize = 10;

/// The state of an LP method on a problem: that of all pixels, or the restricted one.
///
/// Its certificate is a mean of z, and every iteration adds one z to it.
pub(crate) trait RestrictPixels: Sized {
    /// One iteration: the objective, and what it could at most still fall by.
    fn step(&mut self, context: &mut Context, y: &mut [f32]) -> (f64, f64);

    /// The z of the last iteration, the terms that made it, and how; `None` before the first.
    fn last_subgradient(&self) -> Option<(&[f32], &CutTerms, &Made)>;

    /// The certificate that a new mean continues from; `None` to start with the next z.
    fn mean_to_continue(&self) -> Option<&[f32]>;

    /// The weight of the last z in a mean of `averaged` z before it: 1 for the first if the mean starts with it.
    fn averaging_weight(&self, averaged: f32) -> f32;

    /// The mean.
    fn certificate(&self) -> &[f32];

    /// The best bound, and how far it has risen after each iteration.
    fn bounds(&mut self) -> &mut Bounds;

    /// The same method on the restricted problem, from the beliefs `y` and a certificate that is a mean of `averaged` z.
    fn restrict_to(
        &self,
        model: &Model,
        cuts: &[Cut],
        y: &[f32],
        certificate: Vec<f32>,
        averaged: f32,
    ) -> Self;

    /// Continues from beliefs that `part` has changed, and from its certificate if that is better.
    fn resume_from(&mut self, y: &[f32], part: &Self, better: Option<(Vec<f32>, f32)>);
}

/// The best bound so far, and that after each iteration.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub best: f64,
    after: Vec<f64>,
}

impl Bounds {
    pub fn new(first: f64) -> Self {
        Self { best: first, after: Vec::new() }
    }

    pub fn raise(&mut self, bound: f64) {
        self.best = self.best.max(bound);
    }

    /// An iteration has ended.
    pub fn note(&mut self) {
        self.after.push(self.best);
    }

    /// How far the bound has risen over the last iterations; infinity if there were fewer.
    pub fn rise(&self, iterations: usize) -> f64 {
        let before = self.after.len().checked_sub(iterations + 1).map(|k| self.after[k]);
        before.map_or(f64::INFINITY, |b| self.best - b)
    }
}

/// `mean += weight (z - mean)`.
pub(crate) fn move_towards(mean: &mut [f32], z: &[f32], weight: f32) {
    mean.par_iter_mut().with_min_len(reduce::CHUNK).zip(z).for_each(|(m, &z)| {
        *m += weight * (z - *m);
    });
}

/// A method that works on all pixels and, from time to time, on the undecided ones alone.
pub(crate) struct OpenPixels<I> {
    /// The method on all pixels.
    pub whole: I,
    cuts: Vec<Cut>,
    phase: Phase<I>,
    /// Iterations on all pixels until the next restriction: twice as many after one that gained nothing.
    between: usize,
    #[cfg(test)]
    opened: usize,
}

enum Phase<I> {
    /// Iterates on all pixels `wait` times more.
    Full { wait: usize },
    /// Iterates on all pixels, and averages z' of the undecided ones.
    Averaging(Box<Averaging>),
    /// Iterates on the undecided pixels.
    Restricted(Box<Restricted<I>>),
}

impl<I: RestrictPixels> OpenPixels<I> {
    pub fn new(model: &Model, cuts: Vec<Cut>, whole: I) -> Self {
        // Without symmetry there is no bound to keep.
        let wait = if model.pairwise().is_symmetric() { FULL_ITERATIONS_FIRST } else { usize::MAX };
        Self {
            whole,
            cuts,
            phase: Phase::Full { wait },
            between: FULL_ITERATIONS_BETWEEN,
            #[cfg(test)]
            opened: 0,
        }
    }

    /// Whether the next iteration is one on all pixels.
    pub fn is_whole(&self) -> bool {
        !matches!(self.phase, Phase::Restricted(_))
    }

    /// The certificate of the problem of all pixels.
    pub fn certificate(&self) -> &[f32] {
        match &self.phase {
            Phase::Restricted(restricted) => &restricted.window,
            _ => self.whole.certificate(),
        }
    }

    /// Takes one iteration on all pixels, or as many on the undecided ones as take about as long. Returns the objective and
    /// what is left to gain, as [`RestrictPixels::step`] does.
    pub fn step(&mut self, context: &mut Context, y: &mut [f32]) -> (f64, f64) {
        if let Phase::Restricted(restricted) = &mut self.phase {
            let whole = &mut self.whole;
            let (result, spent) = restricted.steps(context, whole, y);
            if spent {
                let gained = restricted.merge_back(context, whole, y);
                self.between = if gained { FULL_ITERATIONS_BETWEEN } else { 2 * self.between };
                self.phase = Phase::Full { wait: self.between };
            }
            return result;
        }
        let result = self.whole.step(context, y);
        self.update_phase(context, y);
        result
    }

    /// Chooses the phase after an iteration on all pixels that led to the beliefs `y`.
    fn update_phase(&mut self, context: &mut Context, y: &[f32]) {
        let whole = &mut self.whole;
        match &mut self.phase {
            Phase::Full { wait } if *wait > 0 => *wait -= 1,
            Phase::Full { wait } => match Averaging::choose(context.model(), &self.cuts, whole, y) {
                Some(averaging) => self.phase = Phase::Averaging(Box::new(averaging)),
                None => *wait = self.between,
            },
            Phase::Averaging(averaging) => {
                averaging.add(context, whole);
                if averaging.is_ready() {
                    self.restrict(context.model(), y);
                }
            }
            Phase::Restricted(_) => {}
        }
    }

    fn restrict(&mut self, model: &Model, y: &[f32]) {
        let wait = self.between;
        if let Phase::Averaging(averaging) = std::mem::replace(&mut self.phase, Phase::Full { wait })
            && let Some(restricted) = averaging.restrict(model, &self.cuts, &mut self.whole, y)
        {
            self.phase = Phase::Restricted(Box::new(restricted));
            #[cfg(test)]
            {
                self.opened += 1;
            }
        }
    }
}

/// Absolute gap between the lowest energy and the best bound.
fn absolute_gap(context: &Context, whole: &mut impl RestrictPixels) -> f64 {
    (context.lowest_energy() - whole.bounds().best).max(0.0)
}

/// Rows of some pixels.
fn gather(pixels: &[usize], labels: usize, all: &[f32]) -> Vec<f32> {
    pixels.iter().flat_map(|&a| &all[a * labels..(a + 1) * labels]).copied().collect()
}

/// The undecided pixels and their part of the certificate.
struct Averaging {
    /// The pixels of A.
    pixels: Vec<usize>,
    model: Model,
    terms: CutTerms,
    /// Certificate of the problem of all pixels, and the number of z averaged since the pixels were chosen.
    window: Vec<f32>,
    averaged: f32,
    /// Their fraction of it, the mean of their z' and the last z'.
    fraction: f32,
    part: Vec<f32>,
    z: Vec<f32>,
}

impl Averaging {
    /// The undecided pixels, if they are few enough.
    fn choose(model: &Model, cuts: &[Cut], whole: &impl RestrictPixels, y: &[f32]) -> Option<Self> {
        let labels = model.labels();
        let undecided = |row: &[f32]| row.iter().all(|&v| v < DECIDED_BELIEF);
        let rows = y.chunks_exact(labels).enumerate();
        let pixels: Vec<usize> = rows.filter(|(_, row)| undecided(row)).map(|(a, _)| a).collect();
        if pixels.is_empty() || pixels.len() as f64 > MAX_OPEN_FRACTION * model.pixels() as f64 {
            return None;
        }
        let smaller = model.among(&pixels)?;
        let size = pixels.len() * labels;
        Some(Self {
            terms: CutTerms::new(&smaller, cuts),
            model: smaller,
            z: vec![0.0; size],
            part: vec![0.0; size],
            window: whole.mean_to_continue().map_or_else(|| vec![0.0; y.len()], <[f32]>::to_vec),
            averaged: 0.0,
            fraction: 0.0,
            pixels,
        })
    }

    /// Adds the z of an iteration on all pixels.
    fn add(&mut self, context: &mut Context, whole: &impl RestrictPixels) {
        let Some((z, terms, made)) = whole.last_subgradient() else { return };
        let weight = whole.averaging_weight(self.averaged);
        self.averaged += 1.0;
        self.fraction += weight * (1.0 - self.fraction);
        move_towards(&mut self.window, z, weight);
        let Self { model, terms: own_terms, pixels, z: own, .. } = self;
        let lowest = context.lowest_energy();
        context
            .on(model, lowest, |context| own_terms.subgradient_within(context, (terms, made), pixels, own));
        move_towards(&mut self.part, &self.z, weight);
    }

    /// Whether the mean is good enough to continue with.
    fn is_ready(&self) -> bool {
        let averaged = self.averaged as usize;
        averaged >= *AVERAGING_ITERATIONS.end()
            || averaged >= *AVERAGING_ITERATIONS.start() && self.fraction >= SUFFICIENT_FRACTION
    }

    /// Makes the restricted problem.
    fn restrict<I: RestrictPixels>(
        self,
        model: &Model,
        cuts: &[Cut],
        whole: &mut I,
        y: &[f32],
    ) -> Option<Restricted<I>> {
        let Self { pixels, model: smaller, part, window, averaged, fraction, .. } = self;
        let labels = model.labels();
        let cuts: Vec<Cut> = cuts.iter().map(|c| Cut { weight: fraction * c.weight, ..c.clone() }).collect();
        let mut base = gather(&pixels, labels, &window);
        base.iter_mut().zip(&part).for_each(|(b, m)| *b -= m);
        let unary = gather(&pixels, labels, model.unary());
        let smaller = smaller.with_unary(unary.iter().zip(&base).map(|(e, b)| e + b).collect()).ok()?;

        let mut open = pixels.iter().peekable();
        let (mut fixed, mut objective) = (0.0, 0.0);
        // base has weights that are antisymmetric too: every label's adds up to zero, but for rounding.
        let mut sums = vec![0.0; labels];
        let rows = model.unary().chunks_exact(labels).zip(window.chunks_exact(labels));
        for (a, ((phi, z), y)) in rows.zip(y.chunks_exact(labels)).enumerate() {
            if open.next_if_eq(&&a).is_some() {
                continue;
            }
            let mut least = f64::INFINITY;
            for i in 0..labels {
                let value = f64::from(phi[i]) + f64::from(z[i]);
                least = least.min(value);
                objective += value * f64::from(y[i]);
                sums[i] += f64::from(z[i]);
            }
            fixed += least;
        }
        for row in base.chunks_exact(labels) {
            row.iter().zip(&mut sums).for_each(|(&b, sum)| *sum += f64::from(b));
        }
        let y = gather(&pixels, labels, y);
        Some(Restricted {
            inner: whole.restrict_to(&smaller, &cuts, &y, part, averaged),
            pixels,
            model: smaller,
            y,
            window,
            averaged,
            base,
            fixed: fixed - 2.0 * sums.iter().map(|s| s.abs()).sum::<f64>(),
            objective,
            bound_before: whole.bounds().best,
            steps: 0,
        })
    }
}

/// The problem of the undecided pixels.
struct Restricted<I> {
    /// The pixels of A.
    pixels: Vec<usize>,
    model: Model,
    inner: I,
    y: Vec<f32>,
    /// Certificate of the whole problem, a mean of so many z.
    window: Vec<f32>,
    averaged: f32,
    /// base of the pixels in A.
    base: Vec<f32>,
    /// What the decided pixels add to the bound and to the objective.
    fixed: f64,
    objective: f64,
    /// The bound that it began with.
    bound_before: f64,
    steps: usize,
}

impl<I: RestrictPixels> Restricted<I> {
    /// Takes as many iterations as last about as long as one on all pixels; also says whether little is left to gain.
    fn steps(&mut self, context: &mut Context, whole: &mut I, y: &mut [f32]) -> ((f64, f64), bool) {
        let together = context.model().pixels() / self.pixels.len();
        let mut result = (0.0, 0.0);
        let mut converged = false;
        for _ in 0..together {
            result = self.step(context, whole);
            converged = self.has_converged(context, whole);
            if converged || context.out_of_time() {
                break;
            }
        }
        self.scatter(y);
        (result, converged)
    }

    fn step(&mut self, context: &mut Context, whole: &mut I) -> (f64, f64) {
        self.steps += 1;
        let lowest = context.lowest_energy() - self.fixed;
        let (model, inner, y) = (&self.model, &mut self.inner, &mut self.y);
        let (objective, residual) = context.on(model, lowest, |context| inner.step(context, y));
        whole.bounds().raise(self.fixed + self.inner.bounds().best);
        (self.objective + objective, residual)
    }

    fn has_converged(&mut self, context: &Context, whole: &mut I) -> bool {
        let left = absolute_gap(context, whole);
        left <= 0.0
            || self.steps >= MAX_RESTRICTED_ITERATIONS
            || self.inner.bounds().rise(RISE_WINDOW) <= MIN_RISE_FRACTION * left
    }

    /// Writes beliefs and certificate to their places among those of all pixels.
    fn scatter(&mut self, y: &mut [f32]) {
        let labels = self.model.labels();
        let rows = self.y.chunks_exact(labels).zip(self.base.chunks_exact(labels));
        let rows = rows.zip(self.inner.certificate().chunks_exact(labels));
        for (&a, ((own, base), mean)) in self.pixels.iter().zip(rows) {
            let at = a * labels..(a + 1) * labels;
            y[at.clone()].copy_from_slice(own);
            for ((z, b), m) in self.window[at].iter_mut().zip(base).zip(mean) {
                *z = b + m;
            }
        }
    }

    /// Returns to all pixels, with the better of the two certificates. Says whether the bound has risen enough.
    fn merge_back(&mut self, context: &Context, whole: &mut I, y: &[f32]) -> bool {
        let model = context.model();
        let better = cuts::bound(model, &self.window) >= cuts::bound(model, whole.certificate());
        let better = better.then(|| (std::mem::take(&mut self.window), self.averaged));
        whole.resume_from(y, &self.inner, better);
        whole.bounds().best - self.bound_before > MIN_RISE_FRACTION * absolute_gap(context, whole)
    }
}

#[cfg(test)]
mod tests;
