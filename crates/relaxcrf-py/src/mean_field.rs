//! Mean field as the common code does it, one compatibility per kernel.
//!
//! The update is `q ← softmax(-u - Σ_k C_k K_k q)`, all points at once, with self pairs left in K. The core's
//! models have one compatibility for all kernels and count pairs twice, so this small loop of its own serves
//! pydensecrf's interface exactly: K_k are the core's classic lattices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use relaxcrf::filter::fused::{FusedTerm, Tables};
use relaxcrf::filter::{Blur, Direction, Lattice, Operator, Scaling, Workspace as FilterWorkspace};
use relaxcrf::model::Normalization;
use relaxcrf::reduce::{for_rows, rows_per_chunk, sum_by_rows};
use relaxcrf::solve::simplex::softmax_rows;
use relaxcrf::solve::updates::Updates;
use relaxcrf::{Error, Result};

/// What a kernel's message is multiplied by.
#[derive(Debug)]
pub enum Compatibility {
    /// `-w` times the message: positive smooths.
    Potts(f32),
    /// One factor per label, taken as it is: positive does the opposite of smoothing.
    PerLabel(Vec<f32>),
    /// A symmetric matrix, row-major; a positive entry off the diagonal is a penalty.
    Matrix(Vec<f32>),
}

/// One kernel: a lattice, its normalisation, its compatibility.
#[derive(Debug)]
pub struct Term {
    lattice: Lattice,
    left: Option<Vec<f32>>,
    right: Option<Vec<f32>>,
    compatibility: Compatibility,
}

impl Term {
    /// Builds the lattice on rows of `dims` features.
    pub fn new(
        features: &[f32],
        dims: usize,
        compatibility: Compatibility,
        normalization: Normalization,
    ) -> Result<Self> {
        let lattice = Lattice::new(features, dims, Blur::Classic)?;
        let sums = || lattice.normalizer().into_par_iter().with_min_len(1 << 14);
        let inverse = || sums().map(|n| 1.0 / (n + 1e-20)).collect::<Vec<_>>();
        let (left, right) = match normalization {
            Normalization::None => (None, None),
            Normalization::Before => (None, Some(inverse())),
            Normalization::After => (Some(inverse()), None),
            Normalization::Symmetric => {
                let both: Vec<f32> = sums().map(|n| 1.0 / (n + 1e-20).sqrt()).collect();
                (Some(both.clone()), Some(both))
            }
        };
        Ok(Self { lattice, left, right, compatibility })
    }

    fn scaling(&self, gain: f32, add: bool) -> Scaling<'_> {
        Scaling { left: self.left.as_deref(), right: self.right.as_deref(), gain, add }
    }

    fn filter(
        &self,
        q: &[f32],
        labels: usize,
        gain: f32,
        add: bool,
        out: &mut [f32],
        scratch: &mut FilterWorkspace,
    ) {
        self.lattice.apply(Direction::Forward, q, labels, self.scaling(gain, add), out, scratch);
    }
}

/// Buffers of a run, kept between runs.
#[derive(Debug, Default)]
pub struct Workspace {
    /// Logits of the next beliefs, then the beliefs.
    next: Vec<f32>,
    /// A filtered message that still has to meet its compatibility.
    message: Vec<f32>,
    scratch: FilterWorkspace,
    /// Vertex tables of the one-pass iteration.
    tables: Tables,
}

/// The problem at one moment: cheap to copy, never changed while somebody works with it.
#[derive(Debug, Clone)]
pub struct Problem {
    /// Number of points.
    pub points: usize,
    /// Number of labels.
    pub labels: usize,
    /// Energies, one row per point; none is all zeros.
    pub unary: Option<Arc<Vec<f32>>>,
    /// The kernels.
    pub terms: Vec<Arc<Term>>,
}

impl Problem {
    /// Takes other energies.
    pub fn set_unary(&mut self, rows: Vec<f32>) -> Result<()> {
        if let Some(at) = first_nan(&rows) {
            return Err(Error::Element {
                what: "unary energy".into(),
                got: "nan".into(),
                place: format!("label {}, point {}", at % self.labels, at / self.labels),
                expected: "numbers, or inf for a forbidden label".into(),
                fix: "the log of a negative number, or nan in the probabilities?".into(),
            });
        }
        self.unary = Some(Arc::new(rows));
        Ok(())
    }

    /// `softmax(-u)`, the start of every run.
    pub fn start(&self) -> Vec<f32> {
        let mut q = vec![0.0; self.points * self.labels];
        self.normalize(&mut q);
        q
    }

    /// The beliefs after `iterations` updates of the start, or fewer if told to stop.
    pub fn infer(&self, iterations: usize, stop: &AtomicBool, space: &mut Workspace) -> Vec<f32> {
        // With one label there is nothing to sweep for.
        if iterations > 0
            && self.labels > 1
            && let Some(terms) = self.sweep_terms()
        {
            // Beliefs are stored only at the end.
            let unary = self.unary.as_ref().map(|u| &u[..]);
            let updates = Updates { labels: self.labels, points: self.points, unary, terms };
            return updates.run(iterations, stop, &mut space.tables);
        }
        let mut q = self.start();
        for _ in 0..iterations {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            self.update(&q, space);
            std::mem::swap(&mut q, &mut space.next);
        }
        q
    }

    /// The kernels as terms of a sweep, if every compatibility is one number: then messages may be added up.
    fn sweep_terms(&self) -> Option<Vec<FusedTerm<'_>>> {
        let term = |term: &'_ Arc<Term>| match term.compatibility {
            Compatibility::Potts(gain) => Some(gain),
            _ => None,
        };
        let terms: Option<Vec<_>> = self
            .terms
            .iter()
            .map(|t| term(t).map(|gain| FusedTerm { operator: &t.lattice, scaling: t.scaling(gain, false) }))
            .collect();
        terms.filter(|t| !t.is_empty())
    }

    /// One update in place.
    pub fn step(&self, q: &mut [f32], space: &mut Workspace) {
        self.update(q, space);
        q.copy_from_slice(&space.next);
    }

    /// `Σ q log q + Σ u q + Σ_k <q, C_k K_k q>`: the number that the common code calls a KL divergence. It lacks
    /// log Z and counts the pairwise part in full, so it may well be negative.
    pub fn divergence(&self, q: &[f32], space: &mut Workspace) -> f64 {
        let labels = self.labels;
        let own = sum_by_rows(self.points, labels, |a: usize, _: &mut [f32]| {
            let row = &q[a * labels..][..labels];
            let entropy: f64 = row.iter().map(|&v| f64::from(v) * f64::from(v.max(1e-20).ln())).sum();
            let energy: f64 = self.unary.as_ref().map_or(0.0, |u| {
                // A forbidden label that is not believed in costs nothing.
                let terms = u[a * labels..][..labels].iter().zip(row).filter(|(_, v)| **v > 0.0);
                terms.map(|(&e, &v)| f64::from(e) * f64::from(v)).sum()
            });
            entropy + energy
        });
        let Workspace { next, scratch, message, .. } = space;
        next.clear();
        next.resize(q.len(), 0.0);
        for term in &self.terms {
            subtract_message(term, q, labels, false, next, message, scratch);
        }
        // `next` holds minus the messages.
        own - for_rows(next, labels, |first, rows| {
            rows.iter().zip(&q[first * labels..]).map(|(&m, &v)| f64::from(m) * f64::from(v)).sum()
        })
    }

    /// The update of `q` into `space.next`.
    fn update(&self, q: &[f32], space: &mut Workspace) {
        let Workspace { next, scratch, message, .. } = space;
        next.resize(q.len(), 0.0);
        let mut empty = true;
        for term in &self.terms {
            subtract_message(term, q, self.labels, empty, next, message, scratch);
            empty = false;
        }
        if empty {
            next.fill(0.0);
        }
        self.normalize(next);
    }

    /// Takes minus the messages and leaves beliefs.
    fn normalize(&self, logits: &mut [f32]) {
        let labels = self.labels;
        let piece = rows_per_chunk(labels) * labels;
        let Some(unary) = &self.unary else {
            return logits.par_chunks_mut(piece).for_each(|rows| softmax_rows(rows, labels));
        };
        logits.par_chunks_mut(piece).zip(unary.par_chunks(piece)).for_each(|(rows, unary)| {
            rows.iter_mut().zip(unary).for_each(|(l, &e)| *l -= e);
            softmax_rows(rows, labels);
        });
    }
}

/// Where the first number is that is none.
fn first_nan(values: &[f32]) -> Option<usize> {
    const PIECE: usize = 1 << 12;
    // Without an early exit within a piece: many times faster. Not in parallel: this runs outside of the pool, and what
    // rayon would use instead does not survive a fork.
    let piece = values.chunks(PIECE).position(|v| v.iter().fold(false, |any, e| any | e.is_nan()))?;
    values[piece * PIECE..].iter().position(|e| e.is_nan()).map(|at| piece * PIECE + at)
}

/// `logits -= C K q`, or `logits = -C K q` when they are empty, whatever they hold.
fn subtract_message(
    term: &Term,
    q: &[f32],
    labels: usize,
    empty: bool,
    logits: &mut [f32],
    message: &mut Vec<f32>,
    scratch: &mut FilterWorkspace,
) {
    if let Compatibility::Potts(weight) = term.compatibility {
        return term.filter(q, labels, weight, !empty, logits, scratch);
    }
    if empty {
        logits.fill(0.0);
    }
    message.resize(q.len(), 0.0);
    term.filter(q, labels, 1.0, false, message, scratch);
    let piece = rows_per_chunk(labels) * labels;
    logits.par_chunks_mut(piece).zip(message.par_chunks(piece)).for_each(|(logits, message)| {
        for (logits, message) in logits.chunks_exact_mut(labels).zip(message.chunks_exact(labels)) {
            match &term.compatibility {
                Compatibility::Potts(_) => {}
                Compatibility::PerLabel(factors) => {
                    for ((l, &m), &f) in logits.iter_mut().zip(message).zip(factors) {
                        *l -= f * m;
                    }
                }
                Compatibility::Matrix(entries) => {
                    for (l, row) in logits.iter_mut().zip(entries.chunks_exact(labels)) {
                        *l -= row.iter().zip(message).map(|(&c, &m)| c * m).sum::<f32>();
                    }
                }
            }
        }
    });
}
