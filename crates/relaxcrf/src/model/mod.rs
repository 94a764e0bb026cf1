//! The problem: unary energies, kernels, label compatibilities. Immutable once built.

mod builder;
mod compatibility;
mod kernel;
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
pub use self::kernel::{Features, Kernel};
pub use self::pairwise::{Normalization, Pairwise, Term};
pub use self::plan::{FilterKind, choose as choose_filter};
pub use self::size::{KernelSize, Problem};
use crate::error::Result;
use crate::labeling::Labeling;
use relaxcrf_filter::reduce;
use relaxcrf_filter::simd::NEGLIGIBLE_LOGIT;

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
    pairwise: Arc<Pairwise>,
    compatibility: Compatibility,
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
    fn assemble(
        sizes: Vec<usize>,
        mut unary: Vec<f32>,
        pairwise: Arc<Pairwise>,
        compatibility: Compatibility,
    ) -> Self {
        let labels = compatibility.labels();
        let forbidden = if unary.par_chunks(reduce::CHUNK).any(has_infinite) {
            let forbidden = forbidden_energy(&unary, labels, &pairwise, &compatibility);
            unary.par_iter_mut().filter(|e| **e == f32::INFINITY).for_each(|e| *e = forbidden);
            forbidden
        } else {
            f32::INFINITY
        };

        let unary = Arc::new(unary);
        let linear = if compatibility.has_zero_diagonal() {
            Arc::clone(&unary)
        } else {
            let mut linear = unary.as_ref().clone();
            linear.par_chunks_exact_mut(labels).zip(pairwise.diagonal()).for_each(|(row, &k)| {
                for (i, e) in row.iter_mut().enumerate() {
                    *e -= k * compatibility.cost(i, i);
                }
            });
            Arc::new(linear)
        };
        Self {
            sizes,
            labels,
            unary,
            linear,
            forbidden,
            pairwise,
            compatibility,
            scale: OnceLock::new(),
            surrogates: Surrogates::default(),
        }
    }

    /// Grid sizes, slowest axis first: `[height, width]` for an image, `[n]` for a point set.
    pub fn sizes(&self) -> &[usize] {
        &self.sizes
    }

    /// Number of pixels or points N.
    pub fn pixels(&self) -> usize {
        self.pairwise.points()
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
        &self.pairwise
    }

    /// The label compatibilities.
    pub fn compatibility(&self) -> &Compatibility {
        &self.compatibility
    }

    /// The same problem with the largest sum of cuts below its label costs ([`Compatibility::cuts_below`]): no labelling has
    /// a higher energy there, so its lower bounds hold here. `None` for costs below 0.
    pub fn with_cuts_below(&self) -> Option<&Self> {
        let below = || Some(Arc::new(self.with_costs(self.compatibility.cuts_below()?)));
        self.surrogates.below.get_or_init(below).as_deref()
    }

    /// The same problem with the conditionally negative costs nearest to its own ([`Compatibility::nearest_negative`]): what
    /// works with such costs only finds good starts there. `None` for too many labels.
    pub fn with_nearest_negative(&self) -> Option<&Self> {
        let nearest = || Some(Arc::new(self.with_costs(self.compatibility.nearest_negative()?)));
        self.surrogates.nearest.get_or_init(nearest).as_deref()
    }

    /// The same problem with other costs for the same labels.
    fn with_costs(&self, compatibility: Compatibility) -> Self {
        let rows = self.unary.iter().map(|&e| if e >= self.forbidden { f32::INFINITY } else { e }).collect();
        Self::assemble(self.sizes.clone(), rows, Arc::clone(&self.pairwise), compatibility)
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
        let strongest = f64::from(self.compatibility.largest_cost());
        let scale = reduce::sum(&ranges) + strongest * reduce::sum(self.pairwise.row_sums());
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
        Ok(Self::assemble(self.sizes.clone(), rows, Arc::clone(&self.pairwise), self.compatibility.clone()))
    }

    /// The problem with some of the labels only, in the order given. The filters are shared.
    pub fn restrict(&self, keep: &[usize]) -> Result<Self> {
        let compatibility = self.compatibility.restrict(keep)?;
        let back = |e: f32| if e >= self.forbidden { f32::INFINITY } else { e };
        let rows = self
            .unary
            .chunks_exact(self.labels)
            .flat_map(|row| keep.iter().map(move |&i| back(row[i])))
            .collect::<Vec<_>>();
        builder::check_unary(&rows, self.pixels(), keep.len())?;
        Ok(Self::assemble(self.sizes.clone(), rows, Arc::clone(&self.pairwise), compatibility))
    }

    /// The problem of some pixels by themselves, with kernels that are at most the whole problem's (see
    /// `Pairwise::among`). Forbidden labels are just dear ones there.
    pub(crate) fn among(&self, pixels: &[usize]) -> Option<Self> {
        let pairwise = Arc::new(self.pairwise.among(pixels)?);
        let rows = pixels.iter().flat_map(|&a| &self.unary[a * self.labels..(a + 1) * self.labels]);
        Some(Self::assemble(
            vec![pixels.len()],
            rows.copied().collect(),
            pairwise,
            self.compatibility.clone(),
        ))
    }

    /// The same problem with its kernels behind another filter: `FilterKind::Exact` gives the true sums.
    pub fn with_filter(&self, kind: FilterKind) -> Result<Self> {
        let kernels = self.pairwise.terms().iter().map(|t| t.kernel().clone()).collect();
        let grid = self.pairwise.grid().clone();
        let pairwise = Arc::new(Pairwise::new(grid, kernels, kind, self.pairwise.normalization(), None)?);
        let rows = self.unary.iter().map(|&e| if e >= self.forbidden { f32::INFINITY } else { e }).collect();
        Ok(Self::assemble(self.sizes.clone(), rows, pairwise, self.compatibility.clone()))
    }
}

fn max(values: &[f32]) -> f32 {
    values.iter().copied().fold(0.0, f32::max)
}

/// The finite stand-in for infinite energies, which keeps the arithmetic free of infinities.
///
/// A forbidden label must lose against any other whatever the neighbours say, and by so much that a softmax gives it a
/// belief of exactly zero.
fn forbidden_energy(unary: &[f32], labels: usize, pairwise: &Pairwise, compatibility: &Compatibility) -> f32 {
    let ranges: Vec<f32> =
        unary.par_chunks_exact(labels).map(|row| range_below(row, f32::INFINITY)).collect();
    let strongest = compatibility.largest_cost();
    let largest = unary.iter().filter(|e| e.is_finite()).fold(0.0f32, |m, e| m.max(e.abs()));
    let (range, sum) = (max(&ranges), max(pairwise.row_sums()));
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
