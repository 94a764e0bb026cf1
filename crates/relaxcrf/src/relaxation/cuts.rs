//! Pairwise costs as a sum of cuts, and their subgradient: the part of the LP that needs the operator.
//!
//! With `s_a(T) = Σ_{i in T} y_a(i)` the pairwise part of the LP is `P(y) = Σ_T w_T Σ_ab K_ab |s_a(T) - s_b(T)|`.
//! The ordered filter turns s(T) into `z_T` with `Σ_ab K_ab |s_a(T) - s_b(T)| = 2 <z_T, s(T)>`, so
//!
//! `z_a(k) = Σ_{T ∋ k} 2 w_T z_T,a`  is a subgradient of P, and `<z, y> = P(y)`.
//!
//! However the order was found, `z_T,a = Σ_b K_ab f_ab` with antisymmetric `|f| <= 1`. For a symmetric
//! operator with entries of at least 0 then `<z, y'> <= P(y')` for *every* y', and so for every average of
//! such z (and for `z_T = 0`): [`bound`] is below the energy of every labelling.

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::model::{Cut, MOST_LABELS, Model};
use crate::solver::Context;
use relaxcrf_filter::reduce::rows_per_chunk;
use relaxcrf_filter::{Bins, OrderedMode};

/// The label costs as a sum of cuts, for a method that needs them so.
pub(crate) fn cuts_for(model: &Model, method: &str) -> Result<Vec<Cut>> {
    require_few_labels(model, method)?;
    model.compatibility().cuts().ok_or_else(|| Error::Method {
        method: method.into(),
        why: match model.compatibility().most_negative() {
            Some((i, j)) => format!(
                "labels {i} and {j} cost {}, and a sum of cuts is 0 or more",
                model.compatibility().cost(i, j)
            ),
            None => "no sum of cuts is known that gives the label costs".into(),
        },
        instead: "`qp+dc-gen`, which takes any symmetric costs".into(),
    })
}

/// Fails where a table of all pairs of labels would be too large.
pub(crate) fn require_few_labels(model: &Model, method: &str) -> Result<()> {
    if model.labels() <= MOST_LABELS {
        return Ok(());
    }
    Err(Error::Method {
        method: method.into(),
        why: format!("{} labels are too many for it, which takes {MOST_LABELS}", model.labels()),
        instead: "`dc-neg`, which takes any number".into(),
    })
}

/// Sums this close to 0 or 1 are 0 or 1: what is left of rounding should not cost bins.
const SNAP: f32 = 1e-6;

/// Cuts that hardly vary are left out while all of them together are worth less than this fraction of the gap.
pub(crate) const OMITTED_CUTS_FRACTION: f64 = 1e-3;

/// How the order of two sums counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Order {
    /// By its sign.
    Sharp(OrderedMode),
    /// In proportion to the distance where that is small: see [`Layers`](relaxcrf_filter::Layers).
    Softened { cells: usize },
}

/// How a subgradient was made: by which order, with which cuts.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub order: Order,
    pub used: Vec<usize>,
}

/// The cuts of a problem and the buffers for their subgradient.
#[derive(Debug)]
pub(crate) struct CutTerms {
    cuts: Vec<Term>,
    /// s(T) for all cuts, one row per pixel; then for the cuts in use only.
    inside: Vec<f32>,
    /// The ordered filter of it.
    ordered: Vec<f32>,
}

#[derive(Debug, Clone, PartialEq)]
struct Term {
    members: Vec<usize>,
    weight: f32,
}

impl CutTerms {
    pub fn new(model: &Model, cuts: &[Cut]) -> Self {
        let cuts = simplify(cuts);
        let size = model.pixels() * cuts.len();
        Self { cuts, inside: vec![0.0; size], ordered: vec![0.0; size] }
    }

    /// Writes a subgradient at `y` into `z`; or, if the order is softened, a gradient of a smoothed objective.
    ///
    /// Cuts that hardly vary are left out (their z is 0) as long as all of those together are worth at most
    /// `allowance`: the result is then a subgradient up to so much. Returns how it was made.
    pub fn subgradient(
        &mut self,
        context: &mut Context,
        y: &[f32],
        order: Order,
        allowance: f64,
        z: &mut [f32],
    ) -> Made {
        let worth = self.sum_up(context.model(), y);
        let made = Made { order, used: self.used(&worth, allowance) };
        self.compact(&made.used);
        self.filter(context, &made, z);
        made
    }

    /// The part of the z that `whole` has just made, as `made` says, that some of its pixels give each other: here are only those,
    /// and pairs of them have the same weights.
    pub fn subgradient_within(
        &mut self,
        context: &mut Context,
        (whole, made): (&CutTerms, &Made),
        pixels: &[usize],
        z: &mut [f32],
    ) {
        let channels = made.used.len();
        for c in 0..channels {
            let mut put = |value: &dyn Fn(usize) -> f32| {
                for (k, &a) in pixels.iter().enumerate() {
                    self.inside[k * channels + c] = value(a);
                }
            };
            if let Order::Sharp(OrderedMode::Binned { bins }) = made.order {
                // Fewer pixels would have other bins of their own. Values that stand for bins keep them apart as they were.
                let column = whole.inside.chunks_exact(channels).take(whole.pixels()).map(|row| row[c]);
                let bins = Bins::adaptive(&column.collect::<Vec<_>>(), bins);
                put(&|a| bins.representatives()[usize::from(bins.assignment()[a])]);
            } else {
                put(&|a| whole.inside[a * channels + c]);
            }
        }
        self.filter(context, made, z);
    }

    fn pixels(&self) -> usize {
        self.inside.len() / self.cuts.len().max(1)
    }

    /// Moves the sums of the cuts in use to the front of `inside`.
    fn compact(&mut self, used: &[usize]) {
        let (channels, all) = (used.len(), self.cuts.len());
        if channels == 0 || channels == all {
            return;
        }
        // No row is overwritten before it is read.
        for a in 0..self.pixels() {
            for (c, &t) in used.iter().enumerate() {
                self.inside[a * channels + c] = self.inside[a * all + t];
            }
        }
    }

    /// Writes z for the sums in the front of `inside`.
    fn filter(&mut self, context: &mut Context, made: &Made, z: &mut [f32]) {
        let Made { order, used } = made;
        let (labels, channels) = (context.model().labels(), used.len());
        if channels == 0 {
            z.fill(0.0);
            return;
        }
        let size = self.pixels() * channels;
        let (inside, ordered) = (&self.inside[..size], &mut self.ordered[..size]);
        match *order {
            Order::Sharp(mode) => context.ordered(inside, channels, mode, ordered),
            Order::Softened { cells } => context.softened(inside, channels, cells, ordered),
        }
        let rows = rows_per_chunk(labels);
        let cuts = &self.cuts;
        z.par_chunks_mut(rows * labels).zip(self.ordered[..size].par_chunks(rows * channels)).for_each(
            |(z, ordered)| {
                for (z, ordered) in z.chunks_exact_mut(labels).zip(ordered.chunks_exact(channels)) {
                    z.fill(0.0);
                    for (&t, &o) in used.iter().zip(ordered) {
                        let term = &cuts[t];
                        for &k in &term.members {
                            z[k] += 2.0 * term.weight * o;
                        }
                    }
                }
            },
        );
    }
}

impl CutTerms {
    /// Fills `inside` and returns, for every cut, the most that its part of P can be.
    fn sum_up(&mut self, model: &Model, y: &[f32]) -> Vec<f64> {
        let (labels, count) = (model.labels(), self.cuts.len());
        let (cuts, row_sums) = (&self.cuts, model.pairwise().row_sums());
        let rows = rows_per_chunk(labels.max(count));
        let parts: Vec<Vec<[f64; 2]>> = self
            .inside
            .par_chunks_mut(rows * count.max(1))
            .zip(y.par_chunks(rows * labels))
            .zip(row_sums.par_chunks(rows))
            .map(|((inside, y), row_sums)| {
                let mut sums = vec![[0.0; 2]; count];
                let pixels = inside.chunks_exact_mut(count).zip(y.chunks_exact(labels));
                for ((inside, y), &d) in pixels.zip(row_sums) {
                    for ((s, term), sums) in inside.iter_mut().zip(cuts).zip(&mut sums) {
                        *s = snapped(term.members.iter().map(|&i| y[i]).sum());
                        sums[0] += f64::from(d * *s);
                        sums[1] += f64::from(d * (1.0 - *s));
                    }
                }
                sums
            })
            .collect();
        // K_ab |s_a - s_b| <= K_ab (s_a + s_b), and the same with 1 - s.
        (0..count)
            .map(|t| {
                let total = |side: usize| parts.iter().map(|p| p[t][side]).sum::<f64>();
                2.0 * f64::from(self.cuts[t].weight) * total(0).min(total(1))
            })
            .collect()
    }

    /// The cuts that must be filtered: all but the least, which together are worth at most `allowance`.
    fn used(&self, worth: &[f64], allowance: f64) -> Vec<usize> {
        let mut by_worth: Vec<usize> = (0..worth.len()).collect();
        by_worth.sort_by(|&s, &t| worth[s].total_cmp(&worth[t]).then(s.cmp(&t)));
        let mut skipped = 0.0;
        by_worth.retain(|&t| {
            skipped += worth[t];
            skipped > allowance
        });
        by_worth.sort_unstable();
        by_worth
    }
}

fn snapped(s: f32) -> f32 {
    if s < SNAP {
        0.0
    } else if s > 1.0 - SNAP {
        1.0
    } else {
        s
    }
}

/// Leaves out cuts that separate nothing, and adds up those that separate the same: a set and its
/// complement do.
fn simplify(cuts: &[Cut]) -> Vec<Term> {
    let mut terms: Vec<Term> = Vec::new();
    let mut known = std::collections::HashMap::new();
    for cut in cuts.iter().filter(|c| c.weight > 0.0) {
        let count = cut.inside.iter().filter(|t| **t).count();
        if count == 0 || count == cut.inside.len() {
            continue;
        }
        // The smaller side, which is cheaper to sum up; of equal ones that with label 0.
        let small = 2 * count < cut.inside.len() || (2 * count == cut.inside.len() && cut.inside[0]);
        let members: Vec<usize> = (0..cut.inside.len()).filter(|&i| cut.inside[i] == small).collect();
        let at = *known.entry(members.clone()).or_insert(terms.len());
        match terms.get_mut(at) {
            Some(term) => term.weight += cut.weight,
            None => terms.push(Term { members, weight: cut.weight }),
        }
    }
    terms
}

/// Share of the problem's scale by which bounds are lowered in any case.
const ROUNDING: f64 = 1e-8;

/// `Σ_a min_i (φ_a(i) + z_a(i))`, less an allowance for the arithmetic in single precision.
///
/// What the arithmetic does to z can be seen: weights of pairs are antisymmetric, so every label's z adds up
/// to zero over the pixels but for rounding. Twice what is left is taken off, and a little more.
pub(crate) fn bound(model: &Model, z: &[f32]) -> f64 {
    let labels = model.labels();
    let rows = rows_per_chunk(labels);
    let parts: Vec<(f64, Vec<f64>)> = z
        .par_chunks(rows * labels)
        .zip(model.unary().par_chunks(rows * labels))
        .map(|(z, phi)| {
            let mut sums = vec![0.0; labels];
            let mut total = 0.0;
            for (z, phi) in z.chunks_exact(labels).zip(phi.chunks_exact(labels)) {
                let mut lowest = f64::INFINITY;
                for ((&z, &e), sum) in z.iter().zip(phi).zip(&mut sums) {
                    *sum += f64::from(z);
                    lowest = lowest.min(f64::from(e) + f64::from(z));
                }
                total += lowest;
            }
            (total, sums)
        })
        .collect();
    let total: f64 = parts.iter().map(|p| p.0).sum();
    let left: f64 = (0..labels).map(|i| parts.iter().map(|p| p.1[i]).sum::<f64>().abs()).sum();
    total - 2.0 * left - ROUNDING * model.scale()
}

#[cfg(test)]
mod tests;
