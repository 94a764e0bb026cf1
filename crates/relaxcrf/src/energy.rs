//! The only place where an energy is computed.
//!
//! `E(x) = Σ_a φ_a(x_a) + Σ_a Σ_{b≠a} μ(x_a, x_b) K_ab`: every pair counts twice, once from each end, and
//! no constant is added or left out. The energy belongs to the model's operator K (a lattice, or the true
//! Gaussian sum of [`Model::with_filter`]`(FilterKind::Exact)`).

use rayon::prelude::*;

use crate::beliefs::Beliefs;
use crate::error::{Error, Result};
use crate::labeling::Labeling;
use crate::model::Model;
use relaxcrf_filter::reduce;
use relaxcrf_filter::{Direction, OrderedMode, Workspace};

/// An energy and its two parts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Energy {
    /// Σ_a φ_a(x_a).
    pub unary: f64,
    /// Σ_a Σ_{b≠a} μ(x_a, x_b) K_ab.
    pub pairwise: f64,
}

impl Energy {
    /// The sum of both parts.
    pub fn total(&self) -> f64 {
        self.unary + self.pairwise
    }
}

/// The energy of a labelling: infinite if it uses a forbidden label.
pub fn of_labeling(model: &Model, labeling: &Labeling) -> Result<Energy> {
    labeling.check(model.pixels(), model.labels())?;
    Ok(of_checked(model, labeling, &mut Workspace::new()))
}

/// [`of_labeling`] for labellings that are known to fit.
pub(crate) fn of_checked(model: &Model, labeling: &Labeling, scratch: &mut Workspace) -> Energy {
    Energy { unary: unary_part(model, labeling), pairwise: pairwise_part(model, labeling, scratch) }
}

/// Energies of the labellings that give every pixel the same label: no filter needed when equal labels
/// cost nothing, else one row-sum product.
pub fn of_constants(model: &Model) -> Vec<f64> {
    let labels = model.labels();
    let pieces = model.unary().par_chunks(reduce::CHUNK * labels).map(|rows| {
        let mut sums = vec![0.0; labels];
        for row in rows.chunks_exact(labels) {
            sums.iter_mut().zip(row).for_each(|(s, &e)| *s += unary_energy(model, e));
        }
        sums
    });
    let mut sums = vec![0.0; labels];
    for piece in pieces.collect::<Vec<_>>() {
        sums.iter_mut().zip(piece).for_each(|(s, part)| *s += part);
    }
    if !model.has_zero_diagonal() {
        for (i, (sum, pairs)) in sums.iter_mut().zip(model.pairs_of_constants()).enumerate() {
            *sum += pairs - self_pairs(model, |_| i);
        }
    }
    sums
}

/// A constant labelling whose energy is below that of another labelling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LowerConstant {
    /// The label at every pixel.
    pub label: u16,
    /// Energy of the constant labelling.
    pub energy: f64,
    /// Energy of the labelling that was asked about.
    pub compared_with: f64,
}

/// The constant labelling of lowest energy, if that is below the energy of `labeling`: a sign that the pairwise terms are
/// very strong for these unaries.
///
/// Takes no filter call where the unary energies alone tell that there is none.
pub fn lower_constant(model: &Model, labeling: &Labeling) -> Result<Option<LowerConstant>> {
    labeling.check(model.pixels(), model.labels())?;
    if model.has_zero_diagonal() {
        let unary = |i: usize| reduce::sum_by(model.pixels(), reduce::CHUNK, |a| unary_term(model, a, i));
        let lowest = (0..model.labels()).map(unary).fold(f64::INFINITY, f64::min);
        let most = model.pairwise().weight_of_all_pairs() * f64::from(model.largest_cost());
        if lowest >= unary_part(model, labeling) + most {
            return Ok(None);
        }
    }
    let energy = of_checked(model, labeling, &mut Workspace::new()).total();
    let constants = of_constants(model).into_iter().enumerate();
    let lowest = constants.min_by(|a, b| a.1.total_cmp(&b.1));
    Ok(lowest.filter(|c| is_below(c.1, energy)).map(|(label, constant)| LowerConstant {
        label: label as u16,
        energy: constant,
        compared_with: energy,
    }))
}

/// The sum of every pixel's least unary energy: a lower bound of every labelling's energy where no label cost is negative.
///
/// Where equal labels cost something, energies are without the cost of self pairs, and so are these unaries: see
/// [`Model::linear`].
pub(crate) fn least_unary(model: &Model) -> Option<f64> {
    let least = |a: usize| {
        let row = &model.linear()[a * model.labels()..][..model.labels()];
        f64::from(row.iter().copied().fold(f32::INFINITY, f32::min))
    };
    let rows = reduce::rows_per_chunk(model.labels());
    model.has_no_negative_cost().then(|| reduce::sum_by(model.pixels(), rows, least))
}

/// Whether an energy is below another by more than sums in another order differ.
pub(crate) fn is_below(energy: f64, other: f64) -> bool {
    const ROUNDING: f64 = 1e-9;
    energy < other - ROUNDING * other.abs()
}

/// The QP relaxation `<φ, y> + Σ_a Σ_{b≠a} K_ab y_a' μ y_b`, with the self pairs' part `Σ_a K_aa y_a' μ y_a`
/// taken out by the operator's closed-form diagonal.
pub fn qp(model: &Model, beliefs: &Beliefs) -> Energy {
    let (n, labels) = (model.pixels(), model.labels());
    let y = beliefs.as_slice();
    let mut product = vec![0.0; n * labels];
    model.product(y, &mut product, &mut Workspace::new());
    let pairwise = reduce::for_rows(&mut product, labels, |first, rows| {
        let mut total = 0.0;
        let mut messages = vec![0.0; labels];
        for (k, row) in rows.chunks_exact(labels).enumerate() {
            let y = &y[(first + k) * labels..][..labels];
            model.messages_of(row, &mut messages);
            total += messages.iter().zip(y).map(|(&m, &v)| f64::from(m) * f64::from(v)).sum::<f64>();
        }
        total
    });
    Energy { unary: reduce::dot(model.unary(), y), pairwise: pairwise - self_part(model, y) }
}

/// What the common code calls the KL divergence of mean field:
/// `Σ q log q + <φ, q> + 2 Σ_ab K_ab q_a' μ q_b`, where a Potts cost α counts as -α for equal labels.
///
/// It lacks the logarithm of the partition function and counts every pair in full, so it may be negative. A forbidden label
/// with zero belief contributes nothing.
pub fn common_code_divergence(model: &Model, beliefs: &[f32]) -> Result<f64> {
    let (n, labels) = (model.pixels(), model.labels());
    if beliefs.len() != n * labels {
        let expected = format!("{n} pixels x {labels} labels");
        return Err(Error::shape("beliefs", format!("{} values", beliefs.len()), expected));
    }
    let mut messages = vec![0.0; n * labels];
    model.common_code_messages(beliefs, &mut messages, &mut Workspace::new());
    let row_value = |a: usize| {
        let row = a * labels..(a + 1) * labels;
        let values = beliefs[row.clone()].iter().zip(&model.unary()[row.clone()]).zip(&messages[row]);
        let value = |((&q, &e), &m): ((&f32, &f32), &f32)| {
            let own = if q > 0.0 { unary_energy(model, e) * f64::from(q) } else { 0.0 };
            f64::from(q) * f64::from(q.max(1e-20).ln()) + own + 2.0 * f64::from(m) * f64::from(q)
        };
        values.map(value).sum::<f64>()
    };
    Ok(reduce::sum_by(n, reduce::rows_per_chunk(labels), row_value))
}

/// `Σ_a y_a' (Σ_m K_m,aa μ_m) y_a`, which self pairs would add to the QP relaxation; 0 if they count.
fn self_part(model: &Model, y: &[f32]) -> f64 {
    if model.counts_self_pairs() {
        return 0.0;
    }
    let labels = model.labels();
    reduce::sum_by(model.pixels(), reduce::rows_per_chunk(labels), |a| {
        model.self_value(a, &y[a * labels..][..labels])
    })
}

/// The LP relaxation `<φ, y> + Σ_T w_T Σ_ab K_ab |y_a(T) - y_b(T)|` over the cuts T of the compatibility
/// (for Potts, half the total variation of every label). `None` if no cuts are known for it.
///
/// With binned ordering the pairs inside a bin are missed: the value is then a little too small.
pub fn lp(model: &Model, beliefs: &Beliefs, mode: OrderedMode) -> Option<Energy> {
    let cuts = model.compatibility().cuts()?;
    let (n, labels) = (model.pixels(), model.labels());
    let mut scratch = Workspace::new();
    let mut inside = vec![0.0; n];
    let mut ordered = vec![0.0; n];
    let mut pairwise = 0.0;
    for cut in &cuts {
        for (s, row) in inside.iter_mut().zip(beliefs.as_slice().chunks_exact(labels)) {
            *s = row.iter().zip(&cut.inside).filter(|(_, t)| **t).map(|(&v, _)| v).sum();
        }
        model.pairwise().apply_ordered(&inside, 1, mode, &mut ordered, &mut scratch);
        // Σ_ab K_ab |s_a - s_b| = 2 Σ_a s_a z_a: every pair appears in z of both its ends.
        pairwise += f64::from(cut.weight) * 2.0 * reduce::dot(&ordered, &inside);
    }
    Some(Energy { unary: reduce::dot(model.unary(), beliefs.as_slice()), pairwise })
}

fn unary_term(model: &Model, a: usize, label: usize) -> f64 {
    unary_energy(model, model.unary()[a * model.labels() + label])
}

/// The energy that a number in [`Model::unary`] stands for.
fn unary_energy(model: &Model, e: f32) -> f64 {
    if e >= model.forbidden() { f64::INFINITY } else { f64::from(e) }
}

fn unary_part(model: &Model, labeling: &Labeling) -> f64 {
    let x = labeling.as_slice();
    reduce::sum_by(x.len(), reduce::CHUNK, |a| unary_term(model, a, usize::from(x[a])))
}

/// Bins up to which a square table of costs is small change.
const MOST_BINS: usize = 1024;

fn pairwise_part(model: &Model, labeling: &Labeling, scratch: &mut Workspace) -> f64 {
    let x = labeling.as_slice();
    let counts = labeling.histogram(model.labels());
    let used: Vec<usize> = (0..model.labels()).filter(|&i| counts[i] > 0).collect();
    if used.len() == 1 && model.has_zero_diagonal() {
        return 0.0;
    }
    let with_self = if used.len() <= MOST_BINS {
        let mut number = vec![0u16; model.labels()];
        used.iter().enumerate().for_each(|(k, &i)| number[i] = k as u16);
        let bins: Vec<u16> = x.iter().map(|&l| number[usize::from(l)]).collect();
        model.binned_pairs(&bins, &used, scratch)
    } else {
        blockwise_pairs(model, x, &used, scratch)
    };
    if model.has_zero_diagonal() {
        return with_self;
    }
    with_self - self_pairs(model, |a| usize::from(x[a]))
}

/// What self pairs cost a labelling, and energies leave out; 0 if they count.
fn self_pairs(model: &Model, label: impl Fn(usize) -> usize + Sync) -> f64 {
    if model.counts_self_pairs() {
        return 0.0;
    }
    model.pairwise().diagonal();
    reduce::sum_by(model.pixels(), reduce::CHUNK, |a| model.self_cost(a, label(a)))
}

/// The same sum when a table over all labels would be too large: a block of labels at a time.
fn blockwise_pairs(model: &Model, x: &[u16], used: &[usize], scratch: &mut Workspace) -> f64 {
    const BLOCK: usize = 32;
    let mu = model.compatibility();
    let mut total = 0.0;
    for block in used.chunks(BLOCK) {
        let width = block.len();
        let mut indicator = vec![0.0; x.len() * width];
        for (row, &l) in indicator.chunks_exact_mut(width).zip(x) {
            if let Ok(k) = block.binary_search(&usize::from(l)) {
                row[k] = 1.0;
            }
        }
        let mut sums = vec![0.0; x.len() * width];
        model.pairwise().apply(Direction::Forward, &indicator, width, &mut sums, scratch);
        total += reduce::sum_by(x.len(), reduce::rows_per_chunk(width), |a| {
            let cost = |k: usize| f64::from(mu.cost(usize::from(x[a]), block[k]));
            (0..width).map(|k| cost(k) * f64::from(sums[a * width + k])).sum()
        });
    }
    total
}
