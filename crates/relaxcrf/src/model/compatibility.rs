//! Label compatibilities μ: what it costs when two pixels take labels i and j.

mod cuts;
mod facts;
mod nearest;
mod packing;
mod products;
#[cfg(test)]
mod tests;
mod tree;

pub use self::cuts::Cut;
use self::products::Product;
use super::spectrum::centred_range;
use crate::error::{Error, Result};

/// A symmetric matrix of label costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Compatibility {
    labels: usize,
    kind: Kind,
    spectrum: Spectrum,
    product: Product,
}

/// Labels up to which a table of all pairs is made: it has as many rows as columns, and its eigenvalues take the third
/// power.
pub const MOST_LABELS: usize = 1024;

/// What is known about the matrix beyond its entries.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// 1 for different labels.
    Potts,
    /// `(w_i + w_j) / 2` for different labels.
    PerLabel(Vec<f32>),
    /// `min(|i - j|, truncation)`.
    Linear {
        /// Largest cost; `f32::INFINITY` for the plain line metric.
        truncation: f32,
    },
    /// `min((i - j)², truncation)`.
    Quadratic {
        /// Largest cost; `f32::INFINITY` for the plain square.
        truncation: f32,
    },
    /// A sum of cuts, for example the distances in a tree, with its entries, row-major.
    Cuts(Vec<Cut>, Vec<f32>),
    /// Any symmetric matrix, row-major.
    Matrix(Vec<f32>),
}

/// Eigenvalue range of μ restricted to directions that sum to zero: all that solvers on the simplex need.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spectrum {
    smallest: f64,
    largest: f64,
}

impl Compatibility {
    /// Different labels cost 1.
    pub fn potts(labels: usize) -> Self {
        let spectrum = Spectrum { smallest: -1.0, largest: -1.0 };
        Self { labels, kind: Kind::Potts, spectrum, product: Product::Potts }
    }

    /// Different labels i, j cost `(w_i + w_j) / 2`.
    pub fn per_label(weights: Vec<f32>) -> Result<Self> {
        if let Some(i) = weights.iter().position(|w| !(w.is_finite() && *w >= 0.0)) {
            return Err(Error::Element {
                what: "per-label weights".into(),
                got: weights[i].to_string(),
                place: format!("label {i}"),
                expected: "finite, non-negative weights".into(),
                fix: String::new(),
            });
        }
        let product = Product::PerLabel(weights.clone());
        Self::with_spectrum(weights.len(), Kind::PerLabel(weights), product)
    }

    /// Labels i, j cost `min(|i - j|, truncation)`; without truncation, the line metric.
    pub fn linear(labels: usize, truncation: Option<f32>) -> Result<Self> {
        let truncation = checked_truncation("linear", truncation)?;
        let product = Product::on_a_line(labels, false, truncation);
        Self::with_spectrum(labels, Kind::Linear { truncation }, product)
    }

    /// Labels i, j cost `min((i - j)², truncation)`.
    pub fn quadratic(labels: usize, truncation: Option<f32>) -> Result<Self> {
        let truncation = checked_truncation("quadratic", truncation)?;
        let product = Product::on_a_line(labels, true, truncation);
        Self::with_spectrum(labels, Kind::Quadratic { truncation }, product)
    }

    /// Labels i, j cost the sum of the weights of all cuts that separate them.
    pub fn sum_of_cuts(labels: usize, cuts: Vec<Cut>) -> Result<Self> {
        if let Some(cut) = cuts.iter().find(|c| c.inside.len() != labels) {
            return Err(Error::shape("cut", format!("{} labels", cut.inside.len()), labels.to_string()));
        }
        if let Some(cut) = cuts.iter().find(|c| !(c.weight.is_finite() && c.weight >= 0.0)) {
            return Err(Error::value("weight of a cut", cut.weight, "finite, 0 or more"));
        }
        check_labels(labels)?;
        let entries = cuts::sums(labels, &cuts);
        let product = Product::dense(labels, &entries);
        Self::with_spectrum(labels, Kind::Cuts(cuts, entries), product)
    }

    /// Any symmetric matrix of finite numbers, row-major.
    pub fn matrix(labels: usize, entries: Vec<f32>) -> Result<Self> {
        if Some(entries.len()) != labels.checked_mul(labels) {
            return Err(Error::shape(
                "compatibility matrix",
                format!("{} entries", entries.len()),
                format!("{labels} x {labels}"),
            ));
        }
        let size = entries.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        for i in 0..labels {
            for j in 0..labels {
                let (x, y) = (entries[i * labels + j], entries[j * labels + i]);
                if !x.is_finite() || (x - y).abs() > 1e-5 * size {
                    return Err(Error::Element {
                        what: "compatibility matrix".into(),
                        got: format!("{x} (and {y} across the diagonal)"),
                        place: format!("row {i}, column {j}"),
                        expected: "a symmetric matrix of finite numbers".into(),
                        fix: "use (M + M') / 2".into(),
                    });
                }
            }
        }
        check_labels(labels)?;
        let product = Product::dense(labels, &entries);
        Self::with_spectrum(labels, Kind::Matrix(entries), product)
    }

    fn with_spectrum(labels: usize, kind: Kind, product: Product) -> Result<Self> {
        check_labels(labels)?;
        let mut c = Self { labels, kind, spectrum: Spectrum { smallest: 0.0, largest: 0.0 }, product };
        if labels > 1 {
            c.spectrum = c.find_spectrum();
        }
        Ok(c)
    }

    /// The range of eigenvalues of P μ P with P = I - 11'/L, without the one that belongs to the constant vector.
    fn find_spectrum(&self) -> Spectrum {
        let l = self.labels;
        let (smallest, largest) = centred_range(l, self.entries());
        Spectrum { smallest, largest }
    }

    /// Number of labels.
    pub fn labels(&self) -> usize {
        self.labels
    }

    /// What kind it is.
    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// Whether it is the Potts model.
    #[inline]
    pub fn is_potts(&self) -> bool {
        // Asked for every pixel: comparing by `==` would be a call.
        matches!(self.kind, Kind::Potts)
    }

    /// μ(i, j).
    pub fn cost(&self, i: usize, j: usize) -> f32 {
        match &self.kind {
            Kind::Potts => f32::from(i != j),
            Kind::PerLabel(w) if i != j => 0.5 * (w[i] + w[j]),
            Kind::PerLabel(_) => 0.0,
            Kind::Linear { truncation } => (i.abs_diff(j) as f32).min(*truncation),
            Kind::Quadratic { truncation } => (i.abs_diff(j).pow(2) as f32).min(*truncation),
            Kind::Cuts(_, m) | Kind::Matrix(m) => m[i * self.labels + j],
        }
    }

    /// The largest |μ(i, j)|.
    pub fn largest_cost(&self) -> f32 {
        match &self.kind {
            Kind::Potts => 1.0,
            _ => (0..self.labels)
                .flat_map(|i| (0..self.labels).map(move |j| (i, j)))
                .fold(0.0, |m, (i, j)| m.max(self.cost(i, j).abs())),
        }
    }

    /// Whether equal labels cost nothing.
    pub fn has_zero_diagonal(&self) -> bool {
        (0..self.labels).all(|i| self.cost(i, i) == 0.0)
    }

    /// Whether no entry is negative.
    pub fn is_non_negative(&self) -> bool {
        !matches!(&self.kind, Kind::Matrix(m) if m.iter().any(|&x| x < 0.0))
    }

    /// Whether μ is conditionally negative semi-definite: the pairwise term is then concave for
    /// positive semi-definite kernels, and `dc-neg` applies.
    pub fn is_conditionally_negative(&self) -> bool {
        self.spectrum.largest <= 1e-5 * self.spectrum.smallest.abs().max(1e-30)
    }

    /// The largest eigenvalue of -μ over directions that sum to zero (1 for Potts).
    pub fn concavity(&self) -> f64 {
        (-self.spectrum.smallest).max(0.0)
    }

    /// The largest eigenvalue of μ over directions that sum to zero (0 or less when conditionally negative).
    pub fn convexity(&self) -> f64 {
        self.spectrum.largest
    }

    /// `out_i = Σ_j μ(i, j) row_j`.
    #[inline(always)]
    pub fn multiply(&self, row: &[f32], out: &mut [f32]) {
        self.product.multiply(row, out);
    }

    /// All costs, row-major.
    pub(super) fn entries(&self) -> Vec<f64> {
        let l = self.labels;
        (0..l).flat_map(|i| (0..l).map(move |j| f64::from(self.cost(i, j)))).collect()
    }

    /// μ as a sum of cuts, `μ(i, j) = Σ_T weight_T [exactly one of i, j in T]`, where one is known.
    ///
    /// The LP relaxation is exact in that form: one ordered pass per cut, no distortion. None beyond [`MOST_LABELS`].
    pub fn cuts(&self) -> Option<Vec<Cut>> {
        if self.labels > MOST_LABELS {
            return None;
        }
        match &self.kind {
            Kind::Potts => Some(cuts::singles(self.labels, |_| 0.5)),
            Kind::PerLabel(w) => Some(cuts::singles(self.labels, |i| 0.5 * w[i])),
            Kind::Linear { truncation } => Some(cuts::linear(self.labels, *truncation)),
            // Up to there the square makes no difference.
            Kind::Quadratic { truncation } if *truncation <= 2.0 => {
                Some(cuts::linear(self.labels, *truncation))
            }
            Kind::Cuts(cuts, _) => Some(cuts.clone()),
            // Two labels are separated or not.
            Kind::Matrix(m) if self.labels == 2 && self.has_zero_diagonal() && m[1] >= 0.0 => {
                Some(cuts::singles(2, |_| 0.5 * m[1]))
            }
            Kind::Quadratic { .. } | Kind::Matrix(_) => None,
        }
    }

    /// The largest sum of cuts that is nowhere above μ: μ itself where it is a sum of cuts. An energy with it is a lower bound
    /// of the energy with μ. `None` for costs below 0, and beyond [`MOST_LABELS`].
    pub fn cuts_below(&self) -> Option<Self> {
        if self.labels > MOST_LABELS || !self.is_non_negative() {
            return None;
        }
        if self.cuts().is_some() && self.has_zero_diagonal() {
            return Some(self.clone());
        }
        let sets = packing::largest_cuts_below(self.labels, &self.entries());
        let cuts = sets.into_iter().map(|(inside, weight)| Cut { inside, weight: weight as f32 });
        Self::sum_of_cuts(self.labels, cuts.collect()).ok()
    }

    /// The conditionally negative costs nearest to μ, nowhere below it, with the same diagonal: μ itself where it is
    /// conditionally negative. `None` for too many labels.
    pub fn nearest_negative(&self) -> Option<Self> {
        if self.is_conditionally_negative() {
            return Some(self.clone());
        }
        if self.labels > nearest::MAX_NEAREST_LABELS {
            return None;
        }
        let entries = nearest::nearest_negative(self.labels, &self.entries());
        let entries: Vec<f32> = entries.into_iter().map(|e| e as f32).collect();
        let mut nearest = Self::matrix(self.labels, entries).ok()?;
        // What rounding leaves above zero does no harm: every step is checked.
        nearest.spectrum.largest = nearest.spectrum.largest.min(0.0);
        Some(nearest)
    }

    /// Whether [`Compatibility::nearest_negative`] gives costs.
    pub(crate) fn has_nearest_negative(&self) -> bool {
        self.labels <= nearest::MAX_NEAREST_LABELS
    }

    /// Whether the largest sum of cuts below leaves much of the costs out, and they are no costs on a line.
    pub(crate) fn is_far_from_cuts(&self) -> bool {
        const MOST_COVERED: f32 = 0.9;
        let Some(below) = self.cuts_below().filter(|_| matches!(self.kind, Kind::Matrix(_))) else {
            return false;
        };
        let pairs = || (0..self.labels).flat_map(|i| (0..i).map(move |j| (i, j)));
        let sum = |costs: &Self| pairs().map(|(i, j)| costs.cost(i, j)).sum::<f32>();
        sum(&below) < MOST_COVERED * sum(self)
    }

    /// The restriction to some of the labels, in the order given.
    pub fn restrict(&self, keep: &[usize]) -> Result<Self> {
        let consecutive = keep.windows(2).all(|pair| pair[0] + 1 == pair[1]);
        match &self.kind {
            Kind::Potts => Ok(Self::potts(keep.len())),
            Kind::PerLabel(w) => Self::per_label(keep.iter().map(|&i| w[i]).collect()),
            Kind::Linear { truncation } if consecutive => Self::linear(keep.len(), Some(*truncation)),
            Kind::Quadratic { truncation } if consecutive => Self::quadratic(keep.len(), Some(*truncation)),
            // What is left of a sum of cuts is one.
            Kind::Linear { .. } | Kind::Quadratic { .. } | Kind::Cuts(..) if self.cuts().is_some() => {
                let inside = |cut: &Cut| keep.iter().map(|&i| cut.inside[i]).collect();
                let cuts = self.cuts().into_iter().flatten();
                let kept = cuts.map(|cut| Cut { inside: inside(&cut), weight: cut.weight });
                Self::sum_of_cuts(keep.len(), kept.collect())
            }
            _ => {
                let pairs = keep.iter().flat_map(|&i| keep.iter().map(move |&j| (i, j)));
                Self::matrix(keep.len(), pairs.map(|(i, j)| self.cost(i, j)).collect())
            }
        }
    }
}

fn check_labels(labels: usize) -> Result<()> {
    if (1..=MOST_LABELS).contains(&labels) {
        return Ok(());
    }
    let expected = format!("1 to {MOST_LABELS} where label costs differ; Potts costs take any number");
    Err(Error::value("number of labels", labels, expected))
}

fn checked_truncation(shape: &str, truncation: Option<f32>) -> Result<f32> {
    let truncation = truncation.unwrap_or(f32::INFINITY);
    if truncation.is_nan() || truncation <= 0.0 {
        return Err(Error::value(format!("truncation of the {shape} compatibility"), truncation, "positive"));
    }
    Ok(truncation)
}
