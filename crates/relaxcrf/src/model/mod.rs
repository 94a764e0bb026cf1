//! The problem: unary energies, kernels, label compatibilities. Immutable once built.

mod builder;
mod compatibility;
mod coupling;
mod kernel;
mod kernel_cost;
mod learned;
mod normalization;
mod pairwise;
mod plan;
mod size;
mod spectrum;
pub mod trees;
pub mod unary;

use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

pub use self::builder::ModelBuilder;
pub use self::compatibility::{Compatibility, Cut, Kind as CompatibilityKind, MOST_LABELS};
use self::coupling::Coupling;
pub use self::kernel::{Features, Kernel};
pub use self::kernel_cost::{KernelCost, KernelOptions};
pub use self::learned::Learned;
pub use self::normalization::Normalization;
pub use self::pairwise::{Pairwise, Term};
pub use self::plan::{FilterKind, choose as choose_filter};
pub use self::size::{KernelSize, Problem};
use crate::error::{Error, Result};
use crate::labeling::Labeling;
use relaxcrf_filter::simd::NEGLIGIBLE_LOGIT;
use relaxcrf_filter::{Binned, Direction, Workspace, reduce};

/// A dense CRF: everything that defines the energy of a labelling.
///
/// Cloning, restricting to some labels and replacing the unaries share the filters, which are the
/// expensive part.
#[derive(Debug, Clone)]
pub struct Model {
    sizes: Vec<usize>,
    labels: usize,
    /// Energies as given, with `forbidden` in place of infinities.
    unary: Arc<Vec<f32>>,
    /// Linear part of the energy when self pairs are counted in the pairwise part: see [`Model::linear`].
    linear: Arc<Vec<f32>>,
    forbidden: f32,
    coupling: Coupling,
    /// Computed when first needed.
    scale: OnceLock<f64>,
    surrogates: Surrogates,
}

/// The same problem with other label costs, made when first needed; `None` where there are no such costs.
#[derive(Debug, Clone, Default)]
struct Surrogates {
    below: OnceLock<Option<Arc<Model>>>,
    nearest: OnceLock<Option<Arc<Model>>>,
}

impl Model {
    /// Puts checked parts together. `unary` may hold `+∞`, but no NaN, and no row of infinities only.
    fn assemble(mut unary: Vec<f32>, coupling: Coupling) -> Self {
        let labels = coupling.compatibility.labels();
        let forbidden = if unary.par_chunks(reduce::CHUNK).any(has_infinite) {
            let forbidden = forbidden_energy(&unary, labels, &coupling);
            unary.par_iter_mut().filter(|e| **e == f32::INFINITY).for_each(|e| *e = forbidden);
            forbidden
        } else {
            f32::INFINITY
        };
        Self::of_finite(Arc::new(unary), forbidden, coupling)
    }

    /// Puts checked parts together, with `forbidden` in place of infinite energies.
    fn of_finite(unary: Arc<Vec<f32>>, forbidden: f32, coupling: Coupling) -> Self {
        let labels = coupling.compatibility.labels();
        let linear = if coupling.has_no_self_costs() {
            Arc::clone(&unary)
        } else {
            // Worked out now, not by all threads at once.
            coupling.pairwise.diagonal();
            let mut linear = unary.as_ref().clone();
            linear.par_chunks_exact_mut(labels).enumerate().for_each(|(a, row)| {
                row.iter_mut().enumerate().for_each(|(i, e)| *e -= coupling.self_cost(a, i));
            });
            Arc::new(linear)
        };
        let sizes = coupling.pairwise.grid().sizes.clone();
        let (scale, surrogates) = (OnceLock::new(), Surrogates::default());
        Self { sizes, labels, unary, linear, forbidden, coupling, scale, surrogates }
    }

    /// Grid sizes, slowest axis first: `[height, width]` for an image, `[n]` for a point set.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Number of pixels or points N.
    pub fn pixels(&self) -> usize {
        self.coupling.pairwise.points()
    }

    /// Number of labels L.
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// Unary energies, one row of L per pixel. Forbidden labels hold [`Model::forbidden`].
    pub fn unary(&self) -> &[f32] {
        &self.unary
    }

    /// The stand-in for an infinite energy: larger than anything a labelling could gain by using it. Infinite itself if
    /// no label is forbidden anywhere.
    pub fn forbidden(&self) -> f32 {
        self.forbidden
    }

    /// The linear part of `E(y) = <linear, y> + Σ_ab K_ab y_a' μ y_b`, with self pairs (a = b) in the sum.
    ///
    /// On labellings this equals the energy, which has no self pairs: their cost `K_aa μ(i, i)` depends on
    /// one pixel only and is taken out here. With a zero diagonal of μ it is just the unary energies.
    pub fn linear(&self) -> &[f32] {
        &self.linear
    }

    /// The kernels as one operator.
    pub fn pairwise(&self) -> &Pairwise {
        &self.coupling.pairwise
    }

    /// The label compatibilities. Where kernels have costs of their own (see [`Model::has_kernel_costs`]) their mean, which
    /// energies are not made of.
    pub fn compatibility(&self) -> &Compatibility {
        &self.coupling.compatibility
    }

    /// Whether the label costs of the kernels differ, so that no single label cost stands for them all.
    #[inline]
    pub fn has_kernel_costs(&self) -> bool {
        self.coupling.costs.is_some()
    }

    /// The label cost of each kernel, if they differ.
    pub fn kernel_costs(&self) -> Option<&[KernelCost]> {
        self.coupling.costs.as_ref().map(|costs| &costs[..])
    }

    /// The largest label cost, whatever its sign.
    pub(crate) fn largest_cost(&self) -> f32 {
        self.coupling.largest_cost()
    }

    /// Whether equal labels cost nothing.
    pub(crate) fn has_zero_diagonal(&self) -> bool {
        self.coupling.has_zero_diagonal()
    }

    /// Whether no label cost of any kernel is negative.
    pub(crate) fn has_no_negative_cost(&self) -> bool {
        match self.kernel_costs() {
            None => self.compatibility().is_non_negative(),
            Some(costs) => {
                let pairs = || (0..self.labels).flat_map(|i| (0..=i).map(move |j| (i, j)));
                costs.iter().all(|cost| pairs().all(|(i, j)| cost.cost(i, j) >= 0.0))
            }
        }
    }

    /// Whether energies count every pixel as its own neighbour.
    pub(crate) fn counts_self_pairs(&self) -> bool {
        self.coupling.self_pairs
    }

    /// K y, or `Σ_m μ_m K_m y` if the kernels' costs differ: what [`Model::messages_of`] makes messages of.
    pub(crate) fn product(&self, y: &[f32], out: &mut [f32], workspace: &mut Workspace) {
        match &self.coupling.costs {
            None => self.pairwise().apply(Direction::Forward, y, self.labels, out, workspace),
            Some(costs) => self.coupling.messages(costs, y, self.labels, out, workspace),
        }
    }

    /// `Σ_m μ_m K_m y`, where a Potts cost α counts as -α for equal labels.
    pub(crate) fn common_code_messages(&self, y: &[f32], out: &mut [f32], workspace: &mut Workspace) {
        self.coupling.common_code_messages(y, self.labels, out, workspace);
    }

    /// `out = μ product` for one pixel's row of [`Model::product`]; a copy if the product has the costs in it.
    #[inline]
    pub(crate) fn messages_of(&self, product: &[f32], out: &mut [f32]) {
        match &self.coupling.costs {
            None => self.coupling.compatibility.multiply(product, out),
            Some(_) => out.copy_from_slice(product),
        }
    }

    /// `Σ_ab K_ab μ(x_a, x_b)` with the labels as bins, self pairs included: `bins` gives the place in `used` of each
    /// pixel's label.
    pub(crate) fn binned_pairs(&self, bins: &[u16], used: &[usize], workspace: &mut Workspace) -> f64 {
        let pairs = || used.iter().flat_map(|&i| used.iter().map(move |&j| (i, j)));
        let mut sums = vec![0.0; bins.len()];
        let Some(costs) = self.kernel_costs() else {
            let table: Vec<f32> = pairs().map(|(i, j)| self.compatibility().cost(i, j)).collect();
            self.pairwise().apply_binned(
                Binned { bins, count: used.len(), table: &table },
                &mut sums,
                workspace,
            );
            return reduce::sum(&sums);
        };
        let one = |(m, cost): (usize, &KernelCost)| {
            let table: Vec<f32> = pairs().map(|(i, j)| cost.cost(i, j)).collect();
            let binned = Binned { bins, count: used.len(), table: &table };
            self.pairwise().apply_binned_term(m, binned, &mut sums, workspace);
            reduce::sum(&sums)
        };
        costs.iter().enumerate().map(one).sum()
    }

    /// What label i costs a pixel as its own neighbour: `K_aa μ(i, i)`.
    pub(crate) fn self_cost(&self, a: usize, i: usize) -> f64 {
        f64::from(self.coupling.self_cost(a, i))
    }

    /// `Σ_ij K_aa y_i μ(i, j) y_j`: what self pairs add at a pixel with beliefs `y`.
    pub(crate) fn self_value(&self, a: usize, y: &[f32]) -> f64 {
        self.coupling.self_value(a, y)
    }

    /// The factors with which a Potts cost of each kernel sends the same messages as the kernels' own costs, up to one
    /// number per pixel, if every kernel has one.
    pub(crate) fn potts_weights(&self) -> Option<Vec<f32>> {
        match self.kernel_costs() {
            Some(costs) => costs.iter().map(|c| c.potts_weight(self.labels)).collect(),
            None if self.compatibility().is_potts() => Some(vec![1.0; self.pairwise().terms().len()]),
            None => {
                let weight = KernelCost::Matrix(self.compatibility().clone()).potts_weight(self.labels)?;
                Some(vec![weight; self.pairwise().terms().len()])
            }
        }
    }

    /// `Σ_ab K_ab μ(i, i)` for every label i, self pairs included.
    pub(crate) fn pairs_of_constants(&self) -> Vec<f64> {
        self.coupling.pairs_of_constants(self.labels)
    }

    /// The row sums of the kernel numbered `m`.
    pub(crate) fn row_sums_of(&self, m: usize) -> Vec<f32> {
        self.coupling.row_sums_of(m)
    }

    /// The same problem with the largest sum of cuts below its label costs ([`Compatibility::cuts_below`]): no labelling has
    /// a higher energy there, so its lower bounds hold here. `None` for costs below 0, and where
    /// kernels have costs of their own.
    pub fn with_cuts_below(&self) -> Option<&Self> {
        if self.has_kernel_costs() {
            return None;
        }
        let below = || {
            let coupling = self.coupling.with_costs(self.compatibility().cuts_below()?);
            Some(Arc::new(Self::assemble(self.unary_without_self_pairs(), coupling)))
        };
        self.surrogates.below.get_or_init(below).as_deref()
    }

    /// The same problem with the conditionally negative costs nearest to its own ([`Compatibility::nearest_negative`]): what
    /// works with such costs only finds good starts there. `None` for too many labels, and where
    /// kernels have costs of their own.
    pub fn with_nearest_negative(&self) -> Option<&Self> {
        if self.has_kernel_costs() {
            return None;
        }
        let nearest = || Some(Arc::new(self.with_costs(self.compatibility().nearest_negative()?)));
        self.surrogates.nearest.get_or_init(nearest).as_deref()
    }

    /// [`Model::linear`] with infinite energies for forbidden labels: energies of costs without a diagonal stay below these
    /// energies only if the self pairs' cost is taken off here as well.
    fn unary_without_self_pairs(&self) -> Vec<f32> {
        let mut unary = self.given_unary();
        for (given, &linear) in unary.iter_mut().zip(self.linear()) {
            if given.is_finite() {
                *given = linear;
            }
        }
        unary
    }

    /// The same problem with other costs for the same labels.
    fn with_costs(&self, compatibility: Compatibility) -> Self {
        Self::assemble(self.given_unary(), self.coupling.with_costs(compatibility))
    }

    /// What the energy could change by in all: the yardstick of relative tolerances. Unlike the energy
    /// itself it does not move when a constant is added to a pixel's unaries.
    pub fn scale(&self) -> f64 {
        if let Some(scale) = self.scale.get() {
            return *scale;
        }
        // Not under a lock: see `Pairwise::row_sums`.
        let ranges: Vec<f32> =
            self.unary.par_chunks_exact(self.labels).map(|row| range_below(row, self.forbidden)).collect();
        let strongest = f64::from(self.largest_cost());
        let scale = reduce::sum(&ranges) + strongest * reduce::sum(self.pairwise().row_sums());
        *self.scale.get_or_init(|| scale)
    }

    /// The labelling that minimises the unary energies alone.
    pub fn unary_argmin(&self) -> Labeling {
        let best = |row: &[f32]| {
            let mut best = 0;
            for (i, &e) in row.iter().enumerate() {
                if e < row[best] {
                    best = i;
                }
            }
            best as u16
        };
        Labeling::new(self.unary.par_chunks_exact(self.labels).map(best).collect())
    }

    /// The same pixels, kernels and labels with other unary energies. Nothing is rebuilt.
    pub fn with_unary(&self, rows: Vec<f32>) -> Result<Self> {
        builder::check_unary(&rows, self.pixels(), self.labels)?;
        Ok(Self::assemble(rows, self.coupling.clone()))
    }

    /// The same problem with one more kernel. The filters of the others are shared.
    pub fn with_kernel(&self, kernel: Kernel, options: KernelOptions) -> Result<Self> {
        let coupling = self.coupling.with_kernel(kernel, options)?;
        if self.forbidden.is_infinite() {
            return Ok(Self::of_finite(Arc::clone(&self.unary), self.forbidden, coupling));
        }
        // What stands for an infinite energy depends on the kernels.
        Ok(Self::assemble(self.given_unary(), coupling))
    }

    /// The unary energies with their infinities.
    fn given_unary(&self) -> Vec<f32> {
        self.unary.iter().map(|&e| if e >= self.forbidden { f32::INFINITY } else { e }).collect()
    }

    /// The problem with some of the labels only, in the order given. The filters are shared.
    pub fn restrict(&self, keep: &[usize]) -> Result<Self> {
        let repeated = (1..keep.len()).find(|&k| keep[..k].contains(&keep[k])).map(|k| keep[k]);
        let beyond = keep.iter().copied().find(|&i| i >= self.labels);
        if let Some(label) = beyond.or(repeated) {
            let expected = format!("labels below {}, each of them once", self.labels);
            return Err(Error::value("label to keep", label, expected));
        }
        let coupling = self.coupling.restrict(keep)?;
        let back = |e: f32| if e >= self.forbidden { f32::INFINITY } else { e };
        let rows = self
            .unary
            .chunks_exact(self.labels)
            .flat_map(|row| keep.iter().map(move |&i| back(row[i])))
            .collect::<Vec<_>>();
        builder::check_unary(&rows, self.pixels(), keep.len())?;
        Ok(Self::assemble(rows, coupling))
    }

    /// The problem of some pixels by themselves, with kernels that are at most the whole problem's (see
    /// `Pairwise::among`). Forbidden labels are just dear ones there.
    pub(crate) fn among(&self, pixels: &[usize]) -> Option<Self> {
        let coupling = self.coupling.with_pairwise(self.pairwise().among(pixels)?);
        let rows = pixels.iter().flat_map(|&a| &self.unary[a * self.labels..(a + 1) * self.labels]);
        Some(Self::assemble(rows.copied().collect(), coupling))
    }

    /// The same problem with its kernels behind another filter: `FilterKind::Exact` gives the true sums.
    pub fn with_filter(&self, kind: FilterKind) -> Result<Self> {
        Ok(Self::assemble(self.given_unary(), self.coupling.with_filter(kind)?))
    }
}

fn max(values: &[f32]) -> f32 {
    values.iter().copied().fold(0.0, f32::max)
}

/// The finite stand-in for infinite energies, which keeps the arithmetic free of infinities.
///
/// A forbidden label must lose against any other whatever the neighbours say, and by so much that a softmax gives it a
/// belief of exactly zero.
fn forbidden_energy(unary: &[f32], labels: usize, coupling: &Coupling) -> f32 {
    let ranges: Vec<f32> =
        unary.par_chunks_exact(labels).map(|row| range_below(row, f32::INFINITY)).collect();
    let strongest = coupling.largest_cost();
    let largest = unary.iter().filter(|e| e.is_finite()).fold(0.0f32, |m, e| m.max(e.abs()));
    let (range, sum) = (max(&ranges), max(coupling.pairwise.row_sums()));
    let forbidden = largest + 4.0 * (range + 2.0 * sum * strongest) - 2.0 * NEGLIGIBLE_LOGIT;
    // Next to energies of 1e30 the sum may be lost in rounding: no allowed label may look like a forbidden one.
    forbidden.max(largest.next_up())
}

/// Whether any number is `+∞`. Without an early exit, which makes it vector code.
fn has_infinite(values: &[f32]) -> bool {
    values.iter().fold(false, |any, e| any | (*e == f32::INFINITY))
}

/// The largest energy below `forbidden` less the smallest.
fn range_below(row: &[f32], forbidden: f32) -> f32 {
    let allowed = row.iter().copied().filter(|e| *e < forbidden);
    let (lo, hi) = allowed.fold((f32::INFINITY, f32::NEG_INFINITY), |(l, h), e| (l.min(e), h.max(e)));
    (hi - lo).max(0.0)
}
