//! LP methods over the pixels that have not made up their minds, with the others frozen and every bound valid.
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
//! that gives the bound that z gave. Nothing is assumed of the frozen pixels: what freezing them can cost is the quality of
//! the bound, never its truth.
//!
//! The certificate in use is a mean over iterations, so its part in A must be averaged along: for some iterations of
//! the whole problem z' is *watched*, then the smaller problem takes over until it has little left to give, and so on.
//! A method may begin a new mean for that, or go on with the one it has. Then only a share w of the certificate was watched:
//! base = z - w z' certifies the costs with K - w K', and the smaller problem has w K'.

use rayon::prelude::*;

use crate::model::{Cut, Model, Problem};
use crate::relaxation::cuts::{self, CutTerms, Made};
use crate::solver::Context;
use relaxcrf_filter::reduce;

/// A pixel has made up its mind when it believes in one label by as much.
const CERTAIN: f32 = 0.999;

/// Most of the pixels that may be undecided: with more, a smaller problem would not be much smaller.
const MOST_OPEN: f64 = 0.2;

/// Bytes of a problem of some of the pixels beside the whole one, and its certificate in the whole one.
pub(crate) fn bytes(problem: &Problem) -> u64 {
    let part = (10 * problem.arrays(1) + problem.kernel_bytes()) as f64 * MOST_OPEN;
    problem.arrays(1) + part as u64
}

/// Iterations of the whole problem before the first view, and between two of them.
const BEFORE_FIRST: usize = 10;
const BETWEEN: usize = 2;

/// Fewest and most iterations of watching, and the share of a certificate that is enough of it.
const WATCHED: std::ops::RangeInclusive<usize> = 10..=40;
const ENOUGH: f32 = 0.9;

/// Most iterations of the smaller problem; it ends when the bound has risen by less than this share of the
/// gap over so many of them.
const MOST_STEPS: usize = 80;
const LITTLE: f64 = 0.01;
const OVER: usize = 10;

/// Where a method stands on a problem: that of all pixels, or of those that have not made up their minds.
///
/// Its certificate is a mean of z, one of which every iteration adds.
pub(crate) trait Iterates: Sized {
    /// One iteration: the objective, and what it could at most still fall by.
    fn step(&mut self, context: &mut Context, y: &mut [f32]) -> (f64, f64);

    /// The z of the last iteration, the terms that made it, and how; `None` before the first.
    fn newest(&self) -> Option<(&[f32], &CutTerms, &Made)>;

    /// The certificate that a watched mean goes on from; `None` to begin with the next z.
    fn ongoing(&self) -> Option<&[f32]>;

    /// The weight of the newest z in the watched mean, before it of so many: 1 for the first if that begins with it.
    fn share(&self, averaged: f32) -> f32;

    /// The mean.
    fn certificate(&self) -> &[f32];

    /// The best bound, and how far it has risen after each iteration.
    fn bounds(&mut self) -> &mut Bounds;

    /// The same method on a problem of some of the pixels, at the beliefs `y` and with a certificate that is a mean of so many z.
    fn on(&self, model: &Model, cuts: &[Cut], y: &[f32], certificate: Vec<f32>, averaged: f32) -> Self;

    /// Goes on from beliefs that `part` has moved, and from another certificate if that is better.
    fn rest(&mut self, y: &[f32], part: &Self, better: Option<(Vec<f32>, f32)>);
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

/// `mean += share (z - mean)`.
pub(crate) fn move_towards(mean: &mut [f32], z: &[f32], share: f32) {
    mean.par_iter_mut().with_min_len(reduce::CHUNK).zip(z).for_each(|(m, &z)| {
        *m += share * (z - *m);
    });
}

/// The views of a run, one after the other.
pub(crate) struct Frozen<I> {
    cuts: Vec<Cut>,
    state: State<I>,
    /// Iterations of the whole problem from one view to the next: twice as many after one that gained nothing.
    between: usize,
    #[cfg(test)]
    opened: usize,
}

enum State<I> {
    /// So many iterations of the whole problem are to come.
    Whole { wait: usize },
    /// z' of some pixels is averaged along.
    Watched(Box<Watched>),
    /// The smaller problem is worked on.
    Open(Box<View<I>>),
}

impl<I: Iterates> Frozen<I> {
    pub fn new(model: &Model, cuts: Vec<Cut>) -> Self {
        // Without symmetry there is no bound to keep.
        let wait = if model.pairwise().is_symmetric() { BEFORE_FIRST } else { usize::MAX };
        Self {
            cuts,
            state: State::Whole { wait },
            between: BETWEEN,
            #[cfg(test)]
            opened: 0,
        }
    }

    /// Whether the next iteration is one of the whole problem.
    pub fn is_whole(&self) -> bool {
        !matches!(self.state, State::Open(_))
    }

    /// The certificate of the smaller problem as one of the whole one.
    pub fn certificate(&self) -> Option<&[f32]> {
        match &self.state {
            State::Open(view) => Some(&view.window),
            _ => None,
        }
    }

    /// One iteration of the whole problem, or iterations of the smaller one that take about as long. Returns the
    /// objective and what is left to gain, as [`Iterates::step`] does.
    pub fn step(&mut self, context: &mut Context, whole: &mut I, y: &mut [f32]) -> (f64, f64) {
        if let State::Open(view) = &mut self.state {
            let (result, spent) = view.steps(context, whole, y);
            if spent {
                let gained = view.hand_over(context, whole, y);
                self.between = if gained { BETWEEN } else { 2 * self.between };
                self.state = State::Whole { wait: self.between };
            }
            return result;
        }
        let result = whole.step(context, y);
        self.watch(context, whole, y);
        result
    }

    /// After an iteration of the whole problem that led to the beliefs `y`.
    fn watch(&mut self, context: &mut Context, whole: &mut I, y: &[f32]) {
        match &mut self.state {
            State::Whole { wait } if *wait > 0 => *wait -= 1,
            State::Whole { wait } => match Watched::choose(context.model(), &self.cuts, whole, y) {
                Some(watched) => self.state = State::Watched(Box::new(watched)),
                None => *wait = self.between,
            },
            State::Watched(watched) => {
                watched.watch(context, whole);
                if watched.is_ready() {
                    self.open(context.model(), whole, y);
                }
            }
            State::Open(_) => {}
        }
    }

    fn open(&mut self, model: &Model, whole: &mut I, y: &[f32]) {
        let wait = self.between;
        if let State::Watched(watched) = std::mem::replace(&mut self.state, State::Whole { wait })
            && let Some(view) = watched.open(model, &self.cuts, whole, y)
        {
            self.state = State::Open(Box::new(view));
            #[cfg(test)]
            {
                self.opened += 1;
            }
        }
    }
}

/// What the lowest energy and the bound are apart.
fn left(context: &Context, whole: &mut impl Iterates) -> f64 {
    (context.lowest_energy() - whole.bounds().best).max(0.0)
}

/// Rows of some pixels.
fn gather(pixels: &[usize], labels: usize, all: &[f32]) -> Vec<f32> {
    pixels.iter().flat_map(|&a| &all[a * labels..(a + 1) * labels]).copied().collect()
}

/// The undecided pixels and their part of the certificate.
struct Watched {
    /// The pixels of A.
    pixels: Vec<usize>,
    model: Model,
    terms: CutTerms,
    /// Certificate of the whole problem, to which so many z have been added since the pixels were chosen.
    window: Vec<f32>,
    averaged: f32,
    /// The share of them in it, their z' as a part of it, and the newest.
    share: f32,
    part: Vec<f32>,
    z: Vec<f32>,
}

impl Watched {
    /// The undecided pixels, if they are few enough.
    fn choose(model: &Model, cuts: &[Cut], whole: &impl Iterates, y: &[f32]) -> Option<Self> {
        let labels = model.labels();
        let undecided = |row: &[f32]| row.iter().all(|&v| v < CERTAIN);
        let rows = y.chunks_exact(labels).enumerate();
        let pixels: Vec<usize> = rows.filter(|(_, row)| undecided(row)).map(|(a, _)| a).collect();
        if pixels.is_empty() || pixels.len() as f64 > MOST_OPEN * model.pixels() as f64 {
            return None;
        }
        let smaller = model.among(&pixels)?;
        let size = pixels.len() * labels;
        Some(Self {
            terms: CutTerms::new(&smaller, cuts),
            model: smaller,
            z: vec![0.0; size],
            part: vec![0.0; size],
            window: whole.ongoing().map_or_else(|| vec![0.0; y.len()], <[f32]>::to_vec),
            averaged: 0.0,
            share: 0.0,
            pixels,
        })
    }

    /// After an iteration of the whole problem.
    fn watch(&mut self, context: &mut Context, whole: &impl Iterates) {
        let Some((z, terms, made)) = whole.newest() else { return };
        let share = whole.share(self.averaged);
        self.averaged += 1.0;
        self.share += share * (1.0 - self.share);
        move_towards(&mut self.window, z, share);
        let Self { model, terms: own_terms, pixels, z: own, .. } = self;
        let lowest = context.lowest_energy();
        context
            .on(model, lowest, |context| own_terms.subgradient_within(context, (terms, made), pixels, own));
        move_towards(&mut self.part, &self.z, share);
    }

    /// Whether enough was watched to go on with.
    fn is_ready(&self) -> bool {
        let watched = self.averaged as usize;
        watched >= *WATCHED.end() || watched >= *WATCHED.start() && self.share >= ENOUGH
    }

    /// The smaller problem made of what was watched.
    fn open<I: Iterates>(self, model: &Model, cuts: &[Cut], whole: &mut I, y: &[f32]) -> Option<View<I>> {
        let Self { pixels, model: smaller, part, window, averaged, share, .. } = self;
        let labels = model.labels();
        let cuts: Vec<Cut> = cuts.iter().map(|c| Cut { weight: share * c.weight, ..c.clone() }).collect();
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
        Some(View {
            inner: whole.on(&smaller, &cuts, &y, part, averaged),
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
struct View<I> {
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
    /// What the frozen pixels add to the bound and to the objective.
    fixed: f64,
    objective: f64,
    /// The bound that it began with.
    bound_before: f64,
    steps: usize,
}

impl<I: Iterates> View<I> {
    /// As many iterations as take about as long as one of the whole problem, and whether there is little left to give.
    fn steps(&mut self, context: &mut Context, whole: &mut I, y: &mut [f32]) -> ((f64, f64), bool) {
        let together = context.model().pixels() / self.pixels.len();
        let mut result = (0.0, 0.0);
        let mut spent = false;
        for _ in 0..together {
            result = self.step(context, whole);
            spent = self.is_spent(context, whole);
            if spent || context.out_of_time() {
                break;
            }
        }
        self.scatter(y);
        (result, spent)
    }

    fn step(&mut self, context: &mut Context, whole: &mut I) -> (f64, f64) {
        self.steps += 1;
        let lowest = context.lowest_energy() - self.fixed;
        let (model, inner, y) = (&self.model, &mut self.inner, &mut self.y);
        let (objective, residual) = context.on(model, lowest, |context| inner.step(context, y));
        whole.bounds().raise(self.fixed + self.inner.bounds().best);
        (self.objective + objective, residual)
    }

    fn is_spent(&mut self, context: &Context, whole: &mut I) -> bool {
        let left = left(context, whole);
        left <= 0.0 || self.steps >= MOST_STEPS || self.inner.bounds().rise(OVER) <= LITTLE * left
    }

    /// Puts beliefs and certificate in their places in the whole problem's.
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

    /// Back to the whole problem, with the better of the two certificates. Returns whether the view was worth it.
    fn hand_over(&mut self, context: &Context, whole: &mut I, y: &[f32]) -> bool {
        let model = context.model();
        let better = cuts::bound(model, &self.window) >= cuts::bound(model, whole.certificate());
        let better = better.then(|| (std::mem::take(&mut self.window), self.averaged));
        whole.rest(y, &self.inner, better);
        whole.bounds().best - self.bound_before > LITTLE * left(context, whole)
    }
}

#[cfg(test)]
mod tests;
