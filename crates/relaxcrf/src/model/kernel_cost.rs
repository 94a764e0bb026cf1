//! Label costs of single kernels, for models whose kernels disagree about what a pair of labels costs.

use super::compatibility::{Compatibility, Kind};
use super::normalization::Normalization;
use crate::error::{Error, Result};

/// What it costs when two pixels that one kernel connects take labels i and j.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum KernelCost {
    /// The label cost of the model.
    #[default]
    Shared,
    /// The same number for all pairs of different labels, 0 for equal ones. A negative number favours different labels.
    Potts(f32),
    /// One number per label, the cost of two pixels that both have it; different labels cost 0. Negative numbers smooth.
    Diagonal(Vec<f32>),
    /// Any label cost.
    Matrix(Compatibility),
}

/// What one kernel has of its own.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KernelOptions {
    /// Its label cost.
    pub cost: KernelCost,
    /// How it is normalised; `None` as the model's other kernels.
    pub normalization: Option<Normalization>,
}

impl KernelCost {
    /// Fails unless the cost is finite and made for `labels` labels.
    pub(super) fn check(&self, labels: usize) -> Result<()> {
        let (numbers, fits) = match self {
            Self::Shared => (&[][..], true),
            Self::Potts(scale) => (std::slice::from_ref(scale), true),
            Self::Diagonal(costs) => (&costs[..], costs.len() == labels),
            Self::Matrix(costs) => (&[][..], costs.labels() == labels),
        };
        if let Some(bad) = numbers.iter().find(|v| !v.is_finite()) {
            return Err(Error::value("label cost of a kernel", bad, "finite"));
        }
        if fits {
            return Ok(());
        }
        let got = match self {
            Self::Matrix(costs) => costs.labels(),
            _ => numbers.len(),
        };
        Err(Error::shape("label cost of a kernel", format!("{got} labels"), format!("the model's {labels}")))
    }

    /// The cost itself where it is the model's.
    pub(super) fn resolve(&self, shared: &Compatibility) -> Self {
        match self {
            Self::Shared if shared.is_potts() => Self::Potts(1.0),
            Self::Shared => Self::Matrix(shared.clone()),
            Self::Matrix(costs) if costs.is_potts() => Self::Potts(1.0),
            other => other.clone(),
        }
    }

    /// μ(i, j).
    pub fn cost(&self, i: usize, j: usize) -> f32 {
        match self {
            Self::Shared => 0.0,
            Self::Potts(scale) => scale * f32::from(i != j),
            Self::Diagonal(costs) if i == j => costs[i],
            Self::Diagonal(_) => 0.0,
            Self::Matrix(costs) => costs.cost(i, j),
        }
    }

    /// α if `μ(i, j) = α [i ≠ j] + β` for some β: messages are then those of a Potts cost α, up to one number per pixel.
    pub(super) fn potts_weight(&self, labels: usize) -> Option<f32> {
        let pairs = || (0..labels).flat_map(|i| (0..i).map(move |j| (i, j)));
        match self {
            Self::Shared => None,
            Self::Potts(scale) => Some(*scale),
            Self::Diagonal(costs) => costs.iter().all(|&c| c == costs[0]).then(|| -costs[0]),
            Self::Matrix(costs) => match costs.kind() {
                Kind::Potts => Some(1.0),
                _ if labels < 2 => None,
                _ => {
                    let (same, different) = (costs.cost(0, 0), costs.cost(1, 0));
                    let uniform = (0..labels).all(|i| costs.cost(i, i) == same)
                        && pairs().all(|(i, j)| costs.cost(i, j) == different);
                    uniform.then_some(different - same)
                }
            },
        }
    }

    /// The factor s ≥ 0 with `μ = s μ'` for another label cost μ', where it is easily seen.
    pub(super) fn multiple_of(&self, other: &Compatibility) -> Option<f32> {
        let scale = match self {
            Self::Shared => Some(1.0),
            Self::Matrix(costs) if costs == other => Some(1.0),
            _ if other.is_potts() && self.cost(0, 0) == 0.0 => self.potts_weight(other.labels()),
            _ => None,
        };
        scale.filter(|&s| s >= 0.0)
    }

    /// Whether equal labels cost nothing.
    pub(super) fn has_zero_diagonal(&self) -> bool {
        match self {
            Self::Shared | Self::Potts(_) => true,
            Self::Diagonal(costs) => costs.iter().all(|&c| c == 0.0),
            Self::Matrix(costs) => costs.has_zero_diagonal(),
        }
    }

    /// The largest |μ(i, j)|.
    pub(super) fn largest_cost(&self) -> f32 {
        match self {
            Self::Shared => 0.0,
            Self::Potts(scale) => scale.abs(),
            Self::Diagonal(costs) => costs.iter().fold(0.0, |m, c| m.max(c.abs())),
            Self::Matrix(costs) => costs.largest_cost(),
        }
    }

    /// `out_i += Σ_j μ(i, j) row_j`; `work` is as long as the row.
    pub(super) fn multiply_add(&self, row: &[f32], out: &mut [f32], work: &mut [f32]) {
        match self {
            Self::Shared => {}
            Self::Potts(scale) => {
                let sum: f32 = row.iter().sum();
                out.iter_mut().zip(row).for_each(|(o, &v)| *o += scale * (sum - v));
            }
            Self::Diagonal(costs) => {
                out.iter_mut().zip(row).zip(costs).for_each(|((o, &v), &c)| *o += c * v);
            }
            Self::Matrix(costs) => {
                costs.multiply(row, work);
                out.iter_mut().zip(&*work).for_each(|(o, &v)| *o += v);
            }
        }
    }

    /// The same for some of the labels, in the order given.
    pub(super) fn restrict(&self, keep: &[usize]) -> Result<Self> {
        Ok(match self {
            Self::Shared | Self::Potts(_) => self.clone(),
            Self::Diagonal(costs) => Self::Diagonal(keep.iter().map(|&i| costs[i]).collect()),
            Self::Matrix(costs) => Self::Matrix(costs.restrict(keep)?),
        })
    }

    /// What is added to the text of a kernel that has this cost.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Shared => String::new(),
            Self::Potts(scale) => format!(" with label cost {scale}"),
            Self::Diagonal(_) => " with one cost per label".into(),
            Self::Matrix(_) => " with label costs of its own".into(),
        }
    }
}

/// One label cost for all kernels and a factor of each kernel's weight, if the kernels' costs are multiples of one another.
pub(super) fn common_cost(
    shared: &Compatibility,
    costs: &[&KernelCost],
) -> Option<(Compatibility, Vec<f32>)> {
    let own = |cost: &&KernelCost| match cost {
        KernelCost::Matrix(costs) => Some(costs.clone()),
        _ => None,
    };
    // Potts, the model's own, and the first of a kernel: others are no multiples of one another that could be seen here.
    let candidates =
        [Some(shared.clone()), costs.iter().find_map(own), Some(Compatibility::potts(shared.labels()))];
    candidates.into_iter().flatten().find_map(|base| {
        let factor = |cost: &&KernelCost| cost.resolve(shared).multiple_of(&base);
        let factors: Option<Vec<f32>> = costs.iter().map(factor).collect();
        factors.map(|factors| (base, factors))
    })
}

/// The mean of the kernels' costs, each with its kernel's weight: a summary for messages and for the choice of methods.
pub(super) fn mean_cost(labels: usize, costs: &[(KernelCost, f32)]) -> Result<Compatibility> {
    let total: f32 = costs.iter().map(|c| c.1).sum::<f32>().max(f32::MIN_POSITIVE);
    let pairs = (0..labels).flat_map(|i| (0..labels).map(move |j| (i, j)));
    let mean = |(i, j)| costs.iter().map(|(cost, weight)| weight / total * cost.cost(i, j)).sum();
    Compatibility::matrix(labels, pairs.map(mean).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples() -> Vec<KernelCost> {
        vec![
            KernelCost::Potts(2.5),
            KernelCost::Potts(-1.0),
            KernelCost::Diagonal(vec![-1.0, 0.5, 2.0]),
            KernelCost::Matrix(Compatibility::linear(3, None).unwrap()),
        ]
    }

    #[test]
    fn multiply_add_is_the_matrix_product() {
        let row = [0.3, -0.2, 0.7];
        for cost in examples() {
            let (mut out, mut work) = ([1.0; 3], [0.0; 3]);
            cost.multiply_add(&row, &mut out, &mut work);
            for (i, o) in out.iter().enumerate() {
                let expected: f32 =
                    1.0 + row.iter().enumerate().map(|(j, v)| cost.cost(i, j) * v).sum::<f32>();
                assert!((o - expected).abs() < 1e-6, "{cost:?}: {o} against {expected}");
            }
        }
    }

    #[test]
    fn potts_weight_is_found_where_costs_differ_from_potts_by_a_constant() {
        let matrix = |m: Vec<f32>| KernelCost::Matrix(Compatibility::matrix(2, m).unwrap());
        assert_eq!(matrix(vec![1.0, 4.0, 4.0, 1.0]).potts_weight(2), Some(3.0));
        assert_eq!(matrix(vec![1.0, 4.0, 4.0, 0.0]).potts_weight(2), None);
        assert_eq!(KernelCost::Diagonal(vec![-3.0; 4]).potts_weight(4), Some(3.0));
        assert_eq!(KernelCost::Diagonal(vec![-3.0, -2.0]).potts_weight(2), None);
    }

    #[test]
    fn costs_that_are_multiples_become_one_cost_with_factors() {
        let (potts, line) = (Compatibility::potts(3), Compatibility::linear(3, None).unwrap());
        let three =
            KernelCost::Matrix(Compatibility::matrix(3, vec![0., 3., 3., 3., 0., 3., 3., 3., 0.]).unwrap());
        let common = |shared: &Compatibility, costs: &[&KernelCost]| common_cost(shared, costs);
        let (base, factors) =
            common(&potts, &[&KernelCost::Shared, &three, &KernelCost::Potts(0.5)]).unwrap();
        assert!(base.is_potts());
        assert_eq!(factors, [1.0, 3.0, 0.5]);
        let own = KernelCost::Matrix(line.clone());
        assert_eq!(common(&potts, &[&own, &own]).unwrap(), (line.clone(), vec![1.0, 1.0]));
        assert_eq!(common(&line, &[&KernelCost::Potts(2.0)]).unwrap(), (potts.clone(), vec![2.0]));
        assert!(common(&potts, &[&own, &KernelCost::Shared]).is_none());
        assert!(
            common(&potts, &[&KernelCost::Potts(-1.0)]).is_none(),
            "attraction of different labels is no weight"
        );
        assert_eq!(common(&line, &[]).unwrap().0, line, "without kernels the model's own is left");
    }
}
