//! `smooth-lp` over the pixels that have not made up their minds, with the others frozen and every bound valid.
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

use super::smooth_lp::{Iterates, move_towards};
use super::{Context, cuts};
use crate::model::{Cut, Model};

/// A pixel has made up its mind when it believes in one label by as much.
const CERTAIN: f32 = 0.999;

/// Most of the pixels that may be undecided: with more, a smaller problem would not be much smaller.
pub(crate) const MOST_OPEN: f64 = 0.2;

/// Iterations of the whole problem before the first view, and between two of them.
const BEFORE_FIRST: usize = 10;
const BETWEEN: usize = 2;

/// Iterations for which z' is watched.
const WATCHED: usize = 10;

/// Most iterations of the smaller problem; it ends when the bound has risen by less than this share of the
/// gap over so many of them.
const MOST_STEPS: usize = 80;
const LITTLE: f64 = 0.01;
const OVER: usize = 10;

/// The views of a run, one after the other.
pub(super) struct Frozen {
    cuts: Vec<Cut>,
    state: State,
    /// Iterations of the whole problem from one view to the next: twice as many after one that gained nothing.
    between: usize,
    #[cfg(test)]
    opened: usize,
}

enum State {
    /// So many iterations of the whole problem are to come.
    Whole { wait: usize },
    /// z' of the view is averaged along.
    Watched(Box<View>),
    /// The smaller problem is worked on.
    Open(Box<View>),
}

struct View {
    /// The pixels of A.
    pixels: Vec<usize>,
    model: Model,
    inner: Iterates,
    y: Vec<f32>,
    /// Certificate of the whole problem, averaged since the view was chosen.
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

impl Frozen {
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

    /// After an iteration of the whole problem that led to the beliefs `y`.
    pub fn watch(&mut self, context: &mut Context, whole: &Iterates, y: &[f32]) {
        match &mut self.state {
            State::Whole { wait } if *wait > 0 => *wait -= 1,
            State::Whole { wait } => match View::choose(context.model(), &self.cuts, whole, y) {
                Some(view) => self.state = State::Watched(Box::new(view)),
                None => *wait = self.between,
            },
            State::Watched(view) => {
                view.watch(context, whole);
                if view.averaged as usize >= WATCHED {
                    self.open(context, whole, y);
                }
            }
            State::Open(_) => {}
        }
    }

    fn open(&mut self, context: &mut Context, whole: &Iterates, y: &[f32]) {
        let wait = self.between;
        if let State::Watched(mut view) = std::mem::replace(&mut self.state, State::Whole { wait })
            && view.open(context.model(), whole, y).is_some()
        {
            self.state = State::Open(view);
            #[cfg(test)]
            {
                self.opened += 1;
            }
        }
    }

    /// Iterations of the smaller problem, if there is one: as many as take about as long as one of the whole. Returns the
    /// objective and what is left to gain, raises the whole problem's bound, and hands over to it at the end.
    pub fn step(&mut self, context: &mut Context, whole: &mut Iterates, y: &mut [f32]) -> Option<(f64, f64)> {
        let State::Open(view) = &mut self.state else { return None };
        let together = context.model().pixels() / view.pixels.len();
        let mut result = (0.0, 0.0);
        let mut spent = false;
        for _ in 0..together {
            result = view.step(context, whole);
            spent = view.is_spent(context, whole);
            if spent || context.out_of_time() {
                break;
            }
        }
        view.scatter(y);
        if spent {
            view.hand_over(context.model(), whole, y);
            let gained = whole.bound - view.bound_before > LITTLE * left(context, whole);
            self.between = if gained { BETWEEN } else { 2 * self.between };
            self.state = State::Whole { wait: self.between };
        }
        Some(result)
    }
}

/// What the lowest energy and the bound are apart.
fn left(context: &Context, whole: &Iterates) -> f64 {
    (context.lowest_energy() - whole.bound).max(0.0)
}

impl View {
    /// The view of the undecided pixels, if they are few enough.
    fn choose(model: &Model, cuts: &[Cut], whole: &Iterates, y: &[f32]) -> Option<Self> {
        let labels = model.labels();
        let undecided = |row: &[f32]| row.iter().all(|&v| v < CERTAIN);
        let rows = y.chunks_exact(labels).enumerate();
        let pixels: Vec<usize> = rows.filter(|(_, row)| undecided(row)).map(|(a, _)| a).collect();
        if pixels.is_empty() || pixels.len() as f64 > MOST_OPEN * model.pixels() as f64 {
            return None;
        }
        let smaller = model.among(&pixels)?;
        let size = pixels.len() * labels;
        let mut inner = Iterates::new(&smaller, cuts, whole.cells());
        inner.mean = vec![0.0; size];
        Some(Self {
            inner,
            model: smaller,
            y: vec![0.0; size],
            window: vec![0.0; y.len()],
            averaged: 0.0,
            base: Vec::new(),
            fixed: 0.0,
            objective: 0.0,
            bound_before: f64::NEG_INFINITY,
            steps: 0,
            pixels,
        })
    }

    /// Rows of the pixels in A.
    fn gather(&self, all: &[f32]) -> Vec<f32> {
        let labels = self.model.labels();
        self.pixels.iter().flat_map(|&a| &all[a * labels..(a + 1) * labels]).copied().collect()
    }

    fn watch(&mut self, context: &mut Context, whole: &Iterates) {
        let Some(last) = &whole.last else { return };
        let share = Iterates::share(self.averaged);
        self.averaged += 1.0;
        move_towards(&mut self.window, &whole.z, share);
        let point = self.gather(&whole.point);
        let (model, inner) = (&self.model, &mut self.inner);
        let lowest = context.lowest_energy();
        let mut mean = std::mem::take(&mut inner.mean);
        context.on(model, lowest, |context| {
            move_towards(&mut mean, inner.z_like(context, &point, last), share);
        });
        inner.mean = mean;
    }

    /// Makes the smaller problem from what was watched.
    fn open(&mut self, model: &Model, whole: &Iterates, y: &[f32]) -> Option<()> {
        let labels = model.labels();
        let mean = std::mem::take(&mut self.inner.mean);
        self.base = self.gather(&self.window);
        self.base.iter_mut().zip(&mean).for_each(|(b, m)| *b -= m);
        let unary = self.gather(model.unary()).iter().zip(&self.base).map(|(e, b)| e + b).collect();
        self.model = self.model.with_unary(unary).ok()?;
        self.y = self.gather(y);

        let mut open = self.pixels.iter().peekable();
        let (mut fixed, mut objective) = (0.0, 0.0);
        // base has weights that are antisymmetric too: every label's adds up to zero, but for rounding.
        let mut sums = vec![0.0; labels];
        let rows = model.unary().chunks_exact(labels).zip(self.window.chunks_exact(labels));
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
        for row in self.base.chunks_exact(labels) {
            row.iter().zip(&mut sums).for_each(|(&b, sum)| *sum += f64::from(b));
        }
        self.fixed = fixed - 2.0 * sums.iter().map(|s| s.abs()).sum::<f64>();
        self.objective = objective;
        self.bound_before = whole.bound;
        let (model, y) = (&self.model, &self.y);
        self.inner.resume(model, y, whole, mean, self.averaged);
        Some(())
    }

    fn step(&mut self, context: &mut Context, whole: &mut Iterates) -> (f64, f64) {
        self.steps += 1;
        let lowest = context.lowest_energy() - self.fixed;
        let (model, inner, y) = (&self.model, &mut self.inner, &mut self.y);
        let (objective, residual) = context.on(model, lowest, |context| inner.step(context, y));
        whole.bound = whole.bound.max(self.fixed + self.inner.bound);
        (self.objective + objective, residual)
    }

    /// Whether the smaller problem has little left to give.
    fn is_spent(&self, context: &Context, whole: &Iterates) -> bool {
        let left = left(context, whole);
        left <= 0.0 || self.steps >= MOST_STEPS || self.inner.rise(OVER) <= LITTLE * left
    }

    /// Puts beliefs and certificate in their places in the whole problem's.
    fn scatter(&mut self, y: &mut [f32]) {
        let labels = self.model.labels();
        let rows = self.y.chunks_exact(labels).zip(self.base.chunks_exact(labels));
        let rows = rows.zip(self.inner.mean.chunks_exact(labels));
        for (&a, ((own, base), mean)) in self.pixels.iter().zip(rows) {
            let at = a * labels..(a + 1) * labels;
            y[at.clone()].copy_from_slice(own);
            for ((z, b), m) in self.window[at].iter_mut().zip(base).zip(mean) {
                *z = b + m;
            }
        }
    }

    /// Back to the whole problem, with the better of the two certificates.
    fn hand_over(&mut self, model: &Model, whole: &mut Iterates, y: &[f32]) {
        whole.rest(y, self.inner.cells());
        if cuts::bound(model, &self.window) >= cuts::bound(model, &whole.mean) {
            std::mem::swap(&mut whole.mean, &mut self.window);
            whole.averaged = self.averaged;
        }
    }
}

#[cfg(test)]
mod tests;
