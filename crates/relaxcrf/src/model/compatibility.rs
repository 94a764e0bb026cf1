//! Label compatibilities μ: what it costs when two pixels take labels i and j.

use super::spectrum::centred_range;
use crate::error::{Error, Result};

/// A symmetric matrix of label costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Compatibility {
    labels: usize,
    kind: Kind,
    spectrum: Spectrum,
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
    /// Any symmetric matrix, row-major.
    Matrix(Vec<f32>),
}

/// Eigenvalue range of μ restricted to directions that sum to zero: all that solvers on the simplex need.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spectrum {
    smallest: f64,
    largest: f64,
}

/// A set of labels and what it costs when exactly one of two pixels is in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// Membership of each label.
    pub inside: Vec<bool>,
    /// The cost.
    pub weight: f32,
}

impl Compatibility {
    /// Different labels cost 1.
    pub fn potts(labels: usize) -> Self {
        Self { labels, kind: Kind::Potts, spectrum: Spectrum { smallest: -1.0, largest: -1.0 } }
    }

    /// Different labels i, j cost `(w_i + w_j) / 2`.
    pub fn per_label(weights: Vec<f32>) -> Result<Self> {
        if let Some(i) = weights.iter().position(|w| !(w.is_finite() && *w >= 0.0)) {
            return Err(Error::Element {
                what: "per-label weights".into(),
                got: weights[i].to_string(),
                place: format!("label {i}"),
                wanted: "finite, non-negative weights".into(),
                fix: String::new(),
            });
        }
        Self::with_spectrum(weights.len(), Kind::PerLabel(weights))
    }

    /// Labels i, j cost `min(|i - j|, truncation)`; without truncation, the line metric.
    pub fn linear(labels: usize, truncation: Option<f32>) -> Result<Self> {
        let truncation = truncation.unwrap_or(f32::INFINITY);
        if truncation.is_nan() || truncation <= 0.0 {
            return Err(Error::value("truncation of the linear compatibility", truncation, "positive"));
        }
        Self::with_spectrum(labels, Kind::Linear { truncation })
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
                        wanted: "a symmetric matrix of finite numbers".into(),
                        fix: "use (M + M') / 2".into(),
                    });
                }
            }
        }
        Self::with_spectrum(labels, Kind::Matrix(entries))
    }

    fn with_spectrum(labels: usize, kind: Kind) -> Result<Self> {
        if !(1..=MOST_LABELS).contains(&labels) {
            let wanted = format!("1 to {MOST_LABELS} where label costs differ; Potts costs take any number");
            return Err(Error::value("number of labels", labels, wanted));
        }
        let mut c = Self { labels, kind, spectrum: Spectrum { smallest: 0.0, largest: 0.0 } };
        if labels > 1 {
            c.spectrum = c.find_spectrum();
        }
        Ok(c)
    }

    /// The range of eigenvalues of P μ P with P = I - 11'/L, without the one that belongs to the constant vector.
    fn find_spectrum(&self) -> Spectrum {
        let l = self.labels;
        let costs = (0..l).flat_map(|i| (0..l).map(move |j| f64::from(self.cost(i, j))));
        let (smallest, largest) = centred_range(l, costs.collect());
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
    pub fn is_potts(&self) -> bool {
        self.kind == Kind::Potts
    }

    /// μ(i, j).
    pub fn cost(&self, i: usize, j: usize) -> f32 {
        match &self.kind {
            Kind::Potts => f32::from(i != j),
            Kind::PerLabel(w) if i != j => 0.5 * (w[i] + w[j]),
            Kind::PerLabel(_) => 0.0,
            Kind::Linear { truncation } => (i.abs_diff(j) as f32).min(*truncation),
            Kind::Matrix(m) => m[i * self.labels + j],
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
    pub fn multiply(&self, row: &[f32], out: &mut [f32]) {
        match &self.kind {
            Kind::Potts => {
                let sum: f32 = row.iter().sum();
                for (o, &v) in out.iter_mut().zip(row) {
                    *o = sum - v;
                }
            }
            Kind::PerLabel(w) => {
                let sum: f32 = row.iter().sum();
                let weighted: f32 = row.iter().zip(w).map(|(&v, &w)| v * w).sum();
                for ((o, &v), &w) in out.iter_mut().zip(row).zip(w) {
                    *o = 0.5 * (w * sum + weighted) - w * v;
                }
            }
            Kind::Linear { .. } | Kind::Matrix(_) => {
                for (i, o) in out.iter_mut().enumerate() {
                    *o = row.iter().enumerate().map(|(j, &v)| self.cost(i, j) * v).sum();
                }
            }
        }
    }

    /// μ as a sum of cuts, `μ(i, j) = Σ_T weight_T [exactly one of i, j in T]`, where one is known.
    ///
    /// The LP relaxation is exact in that form: one ordered pass per cut, no distortion. None beyond [`MOST_LABELS`].
    pub fn cuts(&self) -> Option<Vec<Cut>> {
        if self.labels > MOST_LABELS {
            return None;
        }
        let single = |i: usize| (0..self.labels).map(|j| j == i).collect::<Vec<_>>();
        match &self.kind {
            Kind::Potts => Some((0..self.labels).map(|i| Cut { inside: single(i), weight: 0.5 }).collect()),
            Kind::PerLabel(w) => {
                Some((0..self.labels).map(|i| Cut { inside: single(i), weight: 0.5 * w[i] }).collect())
            }
            Kind::Linear { truncation } => Some(linear_cuts(self.labels, *truncation)),
            Kind::Matrix(_) => None,
        }
    }

    /// The restriction to some of the labels, in the order given.
    pub fn restrict(&self, keep: &[usize]) -> Result<Self> {
        match &self.kind {
            Kind::Potts => Ok(Self::potts(keep.len())),
            Kind::PerLabel(w) => Self::per_label(keep.iter().map(|&i| w[i]).collect()),
            _ => {
                let entries = keep
                    .iter()
                    .flat_map(|&i| keep.iter().map(move |&j| (i, j)))
                    .map(|(i, j)| self.cost(i, j));
                Self::matrix(keep.len(), entries.collect())
            }
        }
    }
}

/// min(|i - j|, t) from windows: a window of length t sliding over the line holds exactly one of i and j at
/// 2 min(|i - j|, t) of its positions. A fractional truncation mixes the two neighbouring whole ones.
fn linear_cuts(labels: usize, truncation: f32) -> Vec<Cut> {
    let longest = labels.saturating_sub(1) as f32;
    if truncation >= longest {
        let below = |k: usize| (0..labels).map(|i| i <= k).collect::<Vec<_>>();
        return (0..labels.saturating_sub(1)).map(|k| Cut { inside: below(k), weight: 1.0 }).collect();
    }
    let (whole, fraction) = (truncation.floor(), truncation.fract());
    let windows = |length: usize, weight: f32| {
        let ends = if weight > 0.0 && length > 0 { 1..labels + length } else { 0..0 };
        ends.map(move |end| Cut {
            inside: (0..labels).map(|i| i < end && i + length >= end).collect(),
            weight: 0.5 * weight,
        })
    };
    windows(whole as usize, 1.0 - fraction).chain(windows(whole as usize + 1, fraction)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<Compatibility> {
        vec![
            Compatibility::potts(4),
            Compatibility::per_label(vec![1.0, 0.5, 2.0]).unwrap(),
            Compatibility::linear(6, None).unwrap(),
            Compatibility::linear(7, Some(2.0)).unwrap(),
            Compatibility::linear(7, Some(2.5)).unwrap(),
            Compatibility::linear(5, Some(0.5)).unwrap(),
        ]
    }

    #[test]
    fn cuts_add_up_to_the_costs() {
        for c in examples() {
            let cuts = c.cuts().unwrap();
            for i in 0..c.labels() {
                for j in 0..c.labels() {
                    let sum: f32 = cuts.iter().filter(|t| t.inside[i] != t.inside[j]).map(|t| t.weight).sum();
                    assert!((sum - c.cost(i, j)).abs() < 1e-6, "{:?} at {i}, {j}: {sum}", c.kind());
                }
            }
            assert!(c.is_conditionally_negative(), "a sum of cuts is: {:?}", c.kind());
        }
    }

    #[test]
    fn multiply_is_the_matrix_product() {
        for c in examples() {
            let row: Vec<f32> = (0..c.labels()).map(|i| 0.3 * i as f32 - 0.4).collect();
            let mut out = vec![0.0; c.labels()];
            c.multiply(&row, &mut out);
            for (i, o) in out.iter().enumerate() {
                let want: f32 = row.iter().enumerate().map(|(j, v)| c.cost(i, j) * v).sum();
                assert!((o - want).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn potts_spectrum_is_known() {
        let potts = Compatibility::potts(3);
        let same = Compatibility::matrix(3, vec![0., 1., 1., 1., 0., 1., 1., 1., 0.]).unwrap();
        assert!((same.concavity() - potts.concavity()).abs() < 1e-9);
        assert!((same.convexity() - potts.convexity()).abs() < 1e-9);
        // Rewarding different labels is the opposite of smoothing.
        let opposite = Compatibility::matrix(2, vec![0.0, -1.0, -1.0, 0.0]).unwrap();
        assert!(!opposite.is_conditionally_negative());
        assert!((opposite.convexity() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn bad_matrices_are_refused() {
        assert!(Compatibility::matrix(2, vec![0.0, 1.0, 2.0, 0.0]).is_err());
        assert!(Compatibility::matrix(2, vec![0.0, f32::NAN, f32::NAN, 0.0]).is_err());
        assert!(Compatibility::matrix(2, vec![0.0; 3]).is_err());
        assert!(Compatibility::linear(3, Some(0.0)).is_err());
        assert!(Compatibility::per_label(vec![1.0, -1.0]).is_err());
    }
}
