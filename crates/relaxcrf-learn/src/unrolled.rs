//! Reverse mode through a fixed number of updates, and through an update's fixed point.
//!
//! An update is `q ← f(-φ - 2 Σ_m w_m K̄_m q μ)`, where f is the softmax of mean field or, for methods such as `dc-neg`, the
//! projection onto the simplex. A run of T updates takes T products with K̄, its gradient T with the transpose. Because K̄ works
//! on pixels and μ on labels they commute, and the products of the gradient serve unaries, weights and label costs.

use rayon::prelude::*;
use relaxcrf::filter::Direction;
use relaxcrf::{Error, Result};

use crate::costs::LabelCosts;
use crate::kernel::{FeatureGradients, Kernel};
use crate::operator::{POINTS_PER_CHUNK, row_dot, sum_over};
use crate::real::Real;

/// What turns logits into the beliefs of the next update.
#[derive(Debug, Clone, PartialEq)]
pub enum Updates {
    /// So many mean-field updates: softmax.
    MeanField(usize),
    /// Projections onto the simplex (sparsemax) of the logits divided by these numbers, one per update.
    Projections(Vec<f64>),
}

impl Updates {
    /// Number of updates.
    pub fn count(&self) -> usize {
        match self {
            Self::MeanField(count) => *count,
            Self::Projections(scales) => scales.len(),
        }
    }

    fn activation(&self, t: usize) -> Activation {
        match self {
            Self::MeanField(_) => Activation::Softmax,
            Self::Projections(scales) => Activation::Projection(scales[t]),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Activation {
    Softmax,
    Projection(f64),
}

/// A problem whose gradients are asked for.
#[derive(Debug)]
pub struct Problem<'a, T> {
    /// Number of labels.
    pub labels: usize,
    /// Energies, one row per pixel.
    pub unary: &'a [T],
    /// Kernels and their weights.
    pub kernels: &'a [Kernel<T>],
    /// One weight per kernel.
    pub weights: &'a [f64],
    /// Label costs.
    pub costs: &'a LabelCosts,
    /// Labels whose beliefs are filtered.
    pub senders: Senders<'a>,
}

/// Labels whose beliefs are filtered. The others take part in every update, but send no messages.
#[derive(Debug, Clone, Copy)]
pub enum Senders<'a> {
    /// All labels.
    All,
    /// Labels with more belief than this somewhere (as a mean of 16 neighbours) before the first update.
    Believed(f64),
    /// These labels, in increasing order.
    Given(&'a [usize]),
}

/// Which gradients are computed beyond those of unaries, weights and label costs, which come at no extra filter call.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// One per kernel; missing ones are [`FeatureGradients::None`].
    pub features: Vec<FeatureGradients>,
}

/// Gradients of a scalar function of the beliefs.
#[derive(Debug, Clone)]
pub struct Gradients<T> {
    /// One row per pixel.
    pub unary: Vec<T>,
    /// One per kernel.
    pub weights: Vec<f64>,
    /// With respect to the entries of the matrix of label costs, row-major, every entry by itself.
    pub cost_entries: Vec<f64>,
    /// With respect to the logarithm of each feature's width, for every kernel; empty if not asked for.
    pub log_widths: Vec<Vec<f64>>,
    /// With respect to each kernel's feature rows; empty if not asked for.
    pub features: Vec<Vec<f64>>,
}

/// The beliefs of a run, as many as the gradient needs.
#[derive(Debug)]
pub struct Tape<T> {
    /// Beliefs before the updates `0, every, 2 every, ...`.
    kept: Vec<Vec<T>>,
    every: usize,
    active: Vec<usize>,
    /// The beliefs after the last update.
    pub beliefs: Vec<T>,
}

impl<'a, T: Real> Problem<'a, T> {
    /// Fails unless all parts belong together.
    pub fn check(&self) -> Result<()> {
        let points = self.unary.len() / self.labels.max(1);
        if self.labels == 0 || points == 0 || points * self.labels != self.unary.len() {
            let got = format!("{} values", self.unary.len());
            return Err(Error::shape("unary energies", got, format!("whole rows of {} labels", self.labels)));
        }
        if let Some(kernel) = self.kernels.iter().find(|k| k.points() != points) {
            return Err(Error::shape("kernel", format!("{} points", kernel.points()), format!("{points}")));
        }
        if self.weights.len() != self.kernels.len() {
            let got = format!("{} values", self.weights.len());
            return Err(Error::shape(
                "weights",
                got,
                format!("one for each of {} kernels", self.kernels.len()),
            ));
        }
        if let Some(weight) = self.weights.iter().find(|w| !w.is_finite()) {
            return Err(Error::value("weight", weight, "finite numbers"));
        }
        if let Some(at) = self.unary.iter().position(|e| !e.to_f64().is_finite()) {
            let got = format!(
                "{} at point {}, label {}",
                self.unary[at].to_f64(),
                at / self.labels,
                at % self.labels
            );
            return Err(Error::value(
                "unary energy",
                got,
                "finite numbers (clip probabilities away from zero)",
            ));
        }
        if let Senders::Given(labels) = self.senders
            && let Some(label) = labels.iter().find(|&&l| l >= self.labels)
        {
            return Err(Error::value(
                "label that sends messages",
                label,
                format!("labels below {}", self.labels),
            ));
        }
        self.costs.check(self.labels)
    }

    fn points(&self) -> usize {
        self.unary.len() / self.labels
    }

    fn start(&self) -> Vec<T> {
        let mut q: Vec<T> = self.unary.par_iter().map(|&e| -e).collect();
        activate(Activation::Softmax, &mut q, self.labels);
        q
    }

    /// Labels that are filtered.
    fn active_labels(&self, start: &[T]) -> Vec<usize> {
        let negligible = match self.senders {
            Senders::All => return (0..self.labels).collect(),
            Senders::Given(labels) => return labels.to_vec(),
            Senders::Believed(negligible) => negligible,
        };
        // Means over neighbours: single pixels of noise send no messages worth computing.
        const NEIGHBOURS: usize = 16;
        let largest: Vec<Vec<f64>> = start
            .par_chunks(POINTS_PER_CHUNK * self.labels)
            .map(|rows| {
                let mut largest = vec![0.0f64; self.labels];
                let mut sums = vec![0.0f64; self.labels];
                for near in rows.chunks(NEIGHBOURS * self.labels) {
                    sums.fill(0.0);
                    for row in near.chunks_exact(self.labels) {
                        sums.iter_mut().zip(row).for_each(|(s, v)| *s += v.to_f64());
                    }
                    largest.iter_mut().zip(&sums).for_each(|(m, s)| *m = m.max(s / NEIGHBOURS as f64));
                }
                largest
            })
            .collect();
        (0..self.labels).filter(|&l| largest.iter().any(|m| m[l] > negligible)).collect()
    }

    /// Replaces beliefs by those of the next update.
    fn update(&self, activation: Activation, active: &[usize], q: &[T], next: &mut Vec<T>) {
        let (labels, width) = (self.labels, active.len());
        next.clear();
        next.extend(self.unary.iter().map(|&e| -e));
        if !self.kernels.is_empty() && width > 0 {
            let gathered = gather(q, labels, active);
            let mut sums = vec![T::default(); gathered.len()];
            for (m, (kernel, &weight)) in self.kernels.iter().zip(self.weights).enumerate() {
                kernel.apply(Direction::Forward, &gathered, width, weight, m > 0, &mut sums);
            }
            let two = T::from_f64(2.0);
            let costs = Columns::<T>::new(self.costs, labels, active);
            next.par_chunks_exact_mut(labels).zip(sums.par_chunks_exact(width)).with_min_len(256).for_each(
                |(row, sums)| {
                    match &costs.columns {
                        // The sum of all messages is the same for every label.
                        None => active.iter().zip(sums).for_each(|(&l, &s)| row[l] += two * s),
                        Some(columns) => {
                            for (column, &s) in columns.chunks_exact(labels).zip(sums) {
                                let s = two * s;
                                row.iter_mut().zip(column).for_each(|(r, &c)| *r = *r - c * s);
                            }
                        }
                    }
                },
            );
        }
        activate(activation, next, labels);
    }

    /// Runs the updates and keeps the beliefs that their gradient needs, in at most about `memory` bytes.
    pub fn run(&self, updates: &Updates, memory: usize) -> Result<Tape<T>> {
        self.check()?;
        let count = updates.count();
        let bytes = size_of_val(self.unary).max(1);
        let all = count.saturating_mul(bytes) <= memory;
        let every = if all { 1 } else { (count as f64).sqrt().ceil().max(1.0) as usize };
        let mut q = self.start();
        let active = self.active_labels(&q);
        let mut kept = Vec::new();
        let mut next = Vec::with_capacity(q.len());
        for t in 0..count {
            self.update(updates.activation(t), &active, &q, &mut next);
            std::mem::swap(&mut q, &mut next);
            if t % every == 0 {
                kept.push(std::mem::replace(
                    &mut next,
                    Vec::with_capacity(if t + 1 < count { q.len() } else { 0 }),
                ));
            }
        }
        Ok(Tape { kept, every, active, beliefs: q })
    }

    /// The beliefs after the updates, without a tape.
    pub fn beliefs(&self, updates: &Updates) -> Result<Vec<T>> {
        self.check()?;
        let mut q = self.start();
        let active = self.active_labels(&q);
        let mut next = Vec::with_capacity(q.len());
        for t in 0..updates.count() {
            self.update(updates.activation(t), &active, &q, &mut next);
            std::mem::swap(&mut q, &mut next);
        }
        Ok(q)
    }

    /// The gradients of a function of the final beliefs, whose own gradient is given, one row per pixel.
    pub fn gradients(
        &self,
        updates: &Updates,
        tape: &Tape<T>,
        of_beliefs: &[T],
        request: &Request,
    ) -> Result<Gradients<T>> {
        check_rows(of_beliefs, self.unary.len())?;
        let mut backward = Backward::new(self, &tape.active, request);
        let mut cotangent = of_beliefs.to_vec();
        let mut after: &[T] = &tape.beliefs;
        let mut segment: Vec<Vec<T>> = Vec::new();
        let mut last_of_segment = Vec::new();
        for t in (0..updates.count()).rev() {
            let (at, offset) = (t / tape.every, t % tape.every);
            if tape.every > 1 && (offset == tape.every - 1 || t + 1 == updates.count()) {
                // Beliefs between two that were kept are computed again.
                last_of_segment.clear();
                last_of_segment.extend_from_slice(after);
                segment = vec![tape.kept[at].clone()];
                for step in at * tape.every..t {
                    let mut next = Vec::new();
                    self.update(
                        updates.activation(step),
                        &tape.active,
                        &segment[segment.len() - 1],
                        &mut next,
                    );
                    segment.push(next);
                }
            }
            let before: &[T] = if tape.every > 1 { &segment[offset] } else { &tape.kept[t] };
            let next: &[T] = if tape.every == 1 {
                after
            } else if offset + 1 < segment.len() {
                &segment[offset + 1]
            } else {
                &last_of_segment
            };
            let cotangent_before = backward.step(updates.activation(t), before, next, &cotangent);
            cotangent = cotangent_before;
            if tape.every == 1 || offset == 0 {
                after = &tape.kept[at];
            }
        }
        backward.start(after, &cotangent);
        Ok(backward.finish())
    }

    /// The gradients at a fixed point of the mean-field update, by solving the adjoint equation: equal to those of a run
    /// that is long enough. `beliefs` must have converged.
    ///
    /// Fails if the adjoint iteration does not converge, which is where the fixed point is not stable.
    pub fn gradients_at_fixed_point(
        &self,
        beliefs: &[T],
        of_beliefs: &[T],
        request: &Request,
        tolerance: f64,
        max_iterations: usize,
    ) -> Result<Gradients<T>> {
        self.check()?;
        check_rows(beliefs, self.unary.len())?;
        check_rows(of_beliefs, self.unary.len())?;
        let active = self.active_labels(beliefs);
        let norm = |x: &[T]| sum_over(x.len(), |i| [x[i].to_f64().powi(2)])[0].sqrt();
        let scale = norm(of_beliefs).max(1e-300);
        let mut adjoint = of_beliefs.to_vec();
        for _ in 0..max_iterations {
            let mut step = Backward::new(self, &active, &Request::default());
            let mut next = step.step(Activation::Softmax, beliefs, beliefs, &adjoint);
            next.par_iter_mut().zip(of_beliefs).for_each(|(n, &g)| *n += g);
            let moved =
                sum_over(next.len(), |i| [(next[i].to_f64() - adjoint[i].to_f64()).powi(2)])[0].sqrt();
            adjoint = next;
            if moved <= tolerance * scale {
                let mut last = Backward::new(self, &active, request);
                last.step(Activation::Softmax, beliefs, beliefs, &adjoint);
                return Ok(last.finish());
            }
            if !moved.is_finite() {
                break;
            }
        }
        let expected = format!(
            "a change below {tolerance:e} within {max_iterations} iterations (run more mean-field updates first, or use smaller weights)"
        );
        Err(Error::value("adjoint of the fixed point", "no convergence", expected))
    }
}

fn check_rows<T>(rows: &[T], expected: usize) -> Result<()> {
    if rows.len() == expected {
        return Ok(());
    }
    Err(Error::shape(
        "gradient of the beliefs",
        format!("{} values", rows.len()),
        format!("{expected}, one for each belief"),
    ))
}

/// The columns of μ that belong to active labels; none for Potts costs.
struct Columns<T> {
    /// One run of all labels per active label.
    columns: Option<Vec<T>>,
}

impl<T: Real> Columns<T> {
    fn new(costs: &LabelCosts, labels: usize, active: &[usize]) -> Self {
        if *costs == LabelCosts::Potts {
            return Self { columns: None };
        }
        let matrix = costs.matrix(labels);
        let columns = active.iter().flat_map(|&j| (0..labels).map(move |i| (i, j)));
        Self { columns: Some(columns.map(|(i, j)| T::from_f64(matrix[i * labels + j])).collect()) }
    }
}

fn gather<T: Real>(rows: &[T], labels: usize, active: &[usize]) -> Vec<T> {
    if active.len() == labels {
        return rows.to_vec();
    }
    let mut out = vec![T::default(); rows.len() / labels * active.len()];
    out.par_chunks_exact_mut(active.len()).zip(rows.par_chunks_exact(labels)).with_min_len(1024).for_each(
        |(to, from)| {
            to.iter_mut().zip(active).for_each(|(t, &l)| *t = from[l]);
        },
    );
    out
}

/// Logits to beliefs, row by row.
fn activate<T: Real>(activation: Activation, rows: &mut [T], labels: usize) {
    match activation {
        Activation::Softmax => rows.par_chunks_exact_mut(labels).with_min_len(256).for_each(softmax),
        Activation::Projection(scale) => {
            let inverse = T::from_f64(1.0 / scale);
            rows.par_chunks_exact_mut(labels).with_min_len(256).for_each(|row| {
                row.iter_mut().for_each(|v| *v = *v * inverse);
                project(row);
            });
        }
    }
}

fn softmax<T: Real>(row: &mut [T]) {
    let mut most = row[0];
    row.iter().for_each(|&v| most = most.larger(v));
    let mut sum = T::default();
    for v in row.iter_mut() {
        *v = (*v - most).exp();
        sum += *v;
    }
    let inverse = T::from_f64(1.0) / sum;
    row.iter_mut().for_each(|v| *v = *v * inverse);
}

/// The nearest point of the simplex.
fn project<T: Real>(row: &mut [T]) {
    let mut sorted: Vec<f64> = row.iter().map(|v| v.to_f64()).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut threshold) = (0.0, 0.0);
    for (k, v) in sorted.iter().enumerate() {
        sum += v;
        let candidate = (sum - 1.0) / (k + 1) as f64;
        if *v > candidate {
            threshold = candidate;
        }
    }
    row.iter_mut().for_each(|v| *v = T::from_f64((v.to_f64() - threshold).max(0.0)));
}

/// Accumulates gradients from the last update to the first.
struct Backward<'p, 'a, T> {
    problem: &'p Problem<'a, T>,
    active: &'p [usize],
    unary: Vec<T>,
    weights: Vec<f64>,
    /// With respect to the entries of μ among active labels.
    entries: Vec<f64>,
    /// μ among active labels; `None` for Potts.
    matrix: Option<Vec<f64>>,
    derivatives: Vec<Option<crate::kernel::Derivative<'p, T>>>,
}

impl<'p, 'a, T: Real> Backward<'p, 'a, T> {
    fn new(problem: &'p Problem<'a, T>, active: &'p [usize], request: &Request) -> Self {
        let labels = problem.labels;
        let matrix = (*problem.costs != LabelCosts::Potts).then(|| {
            let all = problem.costs.matrix(labels);
            active
                .iter()
                .flat_map(|&i| active.iter().map(move |&j| (i, j)))
                .map(|(i, j)| all[i * labels + j])
                .collect()
        });
        let derivative = |(m, kernel): (usize, &'p Kernel<T>)| {
            let of = request.features.get(m).copied().unwrap_or_default();
            (of != FeatureGradients::None).then(|| kernel.derivative(of))
        };
        Self {
            problem,
            active,
            unary: vec![T::default(); problem.unary.len()],
            weights: vec![0.0; problem.kernels.len()],
            entries: vec![0.0; active.len() * active.len()],
            matrix,
            derivatives: problem.kernels.iter().enumerate().map(derivative).collect(),
        }
    }

    /// The gradient with respect to the beliefs before an update, from that with respect to those after it.
    fn step(&mut self, activation: Activation, before: &[T], after: &[T], cotangent: &[T]) -> Vec<T> {
        let (problem, labels, width) = (self.problem, self.problem.labels, self.active.len());
        let points = problem.points();
        let mut of_logits = cotangent.to_vec();
        pull_back_activation(activation, after, &mut of_logits, labels);
        self.unary.par_iter_mut().zip(&of_logits).with_min_len(4096).for_each(|(u, &d)| *u = *u - d);
        let mut of_beliefs = vec![T::default(); before.len()];
        if problem.kernels.is_empty() || width == 0 {
            return of_beliefs;
        }
        let d = gather(&of_logits, labels, self.active);
        let q = gather(before, labels, self.active);
        // Received by each active label: -μ q, which for Potts is q itself up to what cancels within each row.
        let messages = self.multiply(&q);
        let row = |p: usize| p * width..(p + 1) * width;
        let mut sums = vec![T::default(); d.len()];
        let mut product = vec![T::default(); d.len()];
        let mut times_costs = None;
        for (m, (kernel, &weight)) in problem.kernels.iter().zip(problem.weights).enumerate() {
            kernel.apply(Direction::Transposed, &d, width, 1.0, false, &mut product);
            self.weights[m] += 2.0 * sum_over(points, |p| [row_dot(&product[row(p)], &messages[row(p)])])[0];
            let w = T::from_f64(weight);
            sums.par_iter_mut().zip(&product).with_min_len(4096).for_each(|(s, &v)| *s += w * v);
            if self.derivatives[m].is_some() {
                let a: &Vec<T> = times_costs.get_or_insert_with(|| self.multiply(&d));
                let back = self.multiply(&product);
                if let Some(derivative) = &mut self.derivatives[m] {
                    derivative.add(a, &q, &back, width, 2.0 * weight);
                }
            }
        }
        if self.matrix.is_some() {
            self.add_entries(&sums, &q);
        }
        let sums = self.multiply(&sums);
        let two = T::from_f64(2.0);
        of_beliefs
            .par_chunks_exact_mut(labels)
            .zip(sums.par_chunks_exact(width))
            .with_min_len(1024)
            .for_each(|(row, sums)| {
                self.active.iter().zip(sums).for_each(|(&l, &s)| row[l] = two * s);
            });
        of_beliefs
    }

    /// `-x μ` among active labels; for Potts x itself.
    fn multiply(&self, x: &[T]) -> Vec<T> {
        let Some(matrix) = &self.matrix else { return x.to_vec() };
        let width = self.active.len();
        let matrix: Vec<T> = matrix.iter().map(|&v| T::from_f64(-v)).collect();
        let mut out = vec![T::default(); x.len()];
        out.par_chunks_exact_mut(width).zip(x.par_chunks_exact(width)).with_min_len(256).for_each(
            |(out, x)| {
                for (column, &v) in matrix.chunks_exact(width).zip(x) {
                    out.iter_mut().zip(column).for_each(|(o, &c)| *o += c * v);
                }
            },
        );
        out
    }

    /// Adds `-2 Σ_p sums_pi q_pj` to the entries.
    fn add_entries(&mut self, sums: &[T], q: &[T]) {
        let width = self.active.len();
        let chunks: Vec<Vec<f64>> = sums
            .par_chunks(POINTS_PER_CHUNK * width)
            .zip(q.par_chunks(POINTS_PER_CHUNK * width))
            .map(|(sums, q)| {
                let mut entries = vec![0.0f64; width * width];
                for (s, q) in sums.chunks_exact(width).zip(q.chunks_exact(width)) {
                    for (entries, s) in entries.chunks_exact_mut(width).zip(s) {
                        entries.iter_mut().zip(q).for_each(|(e, v)| *e -= 2.0 * s.to_f64() * v.to_f64());
                    }
                }
                entries
            })
            .collect();
        for chunk in chunks {
            self.entries.iter_mut().zip(chunk).for_each(|(e, v)| *e += v);
        }
    }

    /// The part of the unaries through the beliefs before the first update.
    fn start(&mut self, beliefs: &[T], cotangent: &[T]) {
        let mut of_logits = cotangent.to_vec();
        pull_back_activation(Activation::Softmax, beliefs, &mut of_logits, self.problem.labels);
        self.unary.par_iter_mut().zip(&of_logits).with_min_len(4096).for_each(|(u, &d)| *u = *u - d);
    }

    fn finish(self) -> Gradients<T> {
        let labels = self.problem.labels;
        let mut cost_entries = vec![0.0; labels * labels];
        for (i, &l) in self.active.iter().enumerate() {
            for (j, &k) in self.active.iter().enumerate() {
                cost_entries[l * labels + k] = self.entries[i * self.active.len() + j];
            }
        }
        let finish = |d: Option<crate::kernel::Derivative<T>>| d.map(|d| d.finish()).unwrap_or_default();
        let (log_widths, features) = self.derivatives.into_iter().map(finish).unzip();
        Gradients { unary: self.unary, weights: self.weights, cost_entries, log_widths, features }
    }
}

/// From gradients of beliefs to gradients of logits, in place.
fn pull_back_activation<T: Real>(activation: Activation, beliefs: &[T], rows: &mut [T], labels: usize) {
    let pairs = rows.par_chunks_exact_mut(labels).zip(beliefs.par_chunks_exact(labels)).with_min_len(256);
    match activation {
        Activation::Softmax => pairs.for_each(|(row, q)| {
            let mut mean = T::default();
            row.iter().zip(q).for_each(|(&g, &q)| mean += g * q);
            row.iter_mut().zip(q).for_each(|(g, &q)| *g = q * (*g - mean));
        }),
        Activation::Projection(scale) => {
            let zero = T::default();
            let inverse = T::from_f64(1.0 / scale);
            pairs.for_each(|(row, q)| {
                let (mut sum, mut count) = (zero, 0.0);
                for (&g, &q) in row.iter().zip(q) {
                    if q > zero {
                        sum += g;
                        count += 1.0;
                    }
                }
                let mean = sum / T::from_f64(count);
                row.iter_mut()
                    .zip(q)
                    .for_each(|(g, &q)| *g = if q > zero { (*g - mean) * inverse } else { zero });
            });
        }
    }
}
