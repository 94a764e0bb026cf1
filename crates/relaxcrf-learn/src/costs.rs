//! Label costs μ with an all-zero diagonal, and their gradients.

use relaxcrf::{Error, Result};

/// Costs of pairs of different labels.
#[derive(Debug, Clone, PartialEq)]
pub enum LabelCosts {
    /// Every pair of different labels costs 1.
    Potts,
    /// Labels i and j cost `(c_i + c_j) / 2`.
    PerLabel(Vec<f64>),
    /// A symmetric matrix with zeros on the diagonal, row-major.
    Matrix(Vec<f64>),
}

impl LabelCosts {
    /// Fails unless the costs fit so many labels, are finite, and the diagonal of a matrix is zero.
    pub fn check(&self, labels: usize) -> Result<()> {
        let (values, expected) = match self {
            Self::Potts => return Ok(()),
            Self::PerLabel(costs) => (costs, labels),
            Self::Matrix(entries) => (entries, labels * labels),
        };
        if values.len() != expected {
            return Err(Error::shape(
                "label costs",
                format!("{} values", values.len()),
                format!("{expected} for {labels} labels"),
            ));
        }
        if let Some(bad) = values.iter().find(|v| !v.is_finite()) {
            return Err(Error::value("label cost", bad, "finite numbers"));
        }
        if let Self::Matrix(entries) = self {
            for i in 0..labels {
                if entries[i * labels + i] != 0.0 {
                    let expected =
                        "zeros on the diagonal (what a label costs by itself belongs to the unary energies)";
                    return Err(Error::value("label costs", entries[i * labels + i], expected));
                }
                if (0..i).any(|j| (entries[i * labels + j] - entries[j * labels + i]).abs() > 1e-5) {
                    return Err(Error::value(
                        "label costs",
                        "a matrix that is not symmetric",
                        "a symmetric matrix",
                    ));
                }
            }
        }
        Ok(())
    }

    /// The costs as a matrix, row-major.
    pub fn matrix(&self, labels: usize) -> Vec<f64> {
        let entry = |i: usize, j: usize| match self {
            _ if i == j => 0.0,
            Self::Potts => 1.0,
            Self::PerLabel(c) => 0.5 * (c[i] + c[j]),
            Self::Matrix(m) => m[i * labels + j],
        };
        (0..labels * labels).map(|at| entry(at / labels, at % labels)).collect()
    }

    /// The gradient with respect to the costs' own numbers, from that with respect to the entries of the matrix. Entries of
    /// a symmetric matrix get the mean of both sides.
    pub fn pull_back(&self, labels: usize, entries: &[f64]) -> Vec<f64> {
        let both = |i: usize, j: usize| entries[i * labels + j] + entries[j * labels + i];
        match self {
            Self::Potts => Vec::new(),
            Self::PerLabel(_) => {
                (0..labels).map(|i| (0..labels).filter(|&j| j != i).map(|j| 0.5 * both(i, j)).sum()).collect()
            }
            Self::Matrix(_) => (0..labels * labels)
                .map(|at| if at / labels == at % labels { 0.0 } else { 0.5 * both(at / labels, at % labels) })
                .collect(),
        }
    }
}
