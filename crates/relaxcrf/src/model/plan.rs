//! Which filter serves which kernel: a decision in plain data, made before anything is built.

use super::kernel::{Features, Kernel};
use crate::error::{Error, Result};
use relaxcrf_filter::{Blur, Exact, Lattice, Operator, Separable};

/// The filter a user asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FilterKind {
    /// Chosen kernel by kernel: see [`choose`].
    #[default]
    Auto,
    /// The Gaussian sum over all pairs.
    Exact,
    /// The symmetric lattice operator.
    Lattice,
    /// The sequential blur of the common code.
    LatticeClassic,
    /// One pass per grid axis; only for kernels on position alone.
    Separable,
}

impl std::str::FromStr for FilterKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Self::Auto),
            "exact" => Ok(Self::Exact),
            "lattice" => Ok(Self::Lattice),
            "lattice-classic" => Ok(Self::LatticeClassic),
            "separable" => Ok(Self::Separable),
            _ => Err(Error::parse(
                "filter",
                text,
                "expected auto, exact, lattice, lattice-classic or separable",
            )),
        }
    }
}

impl std::fmt::Display for FilterKind {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::Exact => "exact",
            Self::Lattice => "lattice",
            Self::LatticeClassic => "lattice-classic",
            Self::Separable => "separable",
        })
    }
}

/// Up to this many points all pairs are as cheap as a lattice, and exact.
const FEW_POINTS: usize = 512;
/// Below this standard deviation (in pixels) a lattice on positions has more vertices than there are
/// pixels and is off by several percent, while a few taps per axis are exact.
const NARROW: f32 = 0.99;

/// The filter for one kernel: the user's choice, or for `Auto` the exact sum on tiny problems, the
/// separable filter for very narrow spatial kernels, the symmetric lattice for the rest. A kernel that the
/// separable filter cannot represent gets the lattice.
pub fn choose(asked: FilterKind, kernel: &Kernel, sizes: &[usize]) -> FilterKind {
    let narrow = match &kernel.features {
        Features::Position { sigma } => sigma.iter().all(|&s| s < NARROW),
        _ => false,
    };
    let spatial = matches!(kernel.features, Features::Position { .. });
    match asked {
        FilterKind::Auto if sizes.iter().product::<usize>() <= FEW_POINTS => FilterKind::Exact,
        FilterKind::Auto if narrow => FilterKind::Separable,
        FilterKind::Auto => FilterKind::Lattice,
        FilterKind::Separable if !spatial => FilterKind::Lattice,
        other => other,
    }
}

/// Builds what was chosen.
pub(super) fn build(
    choice: FilterKind,
    kernel: &Kernel,
    features: &[f32],
    dims: usize,
    sizes: &[usize],
) -> Result<Box<dyn Operator>> {
    Ok(match (choice, &kernel.features) {
        (FilterKind::Exact, _) => Box::new(Exact::new(features.to_vec(), dims)?),
        (FilterKind::Separable, Features::Position { sigma }) => {
            let sigma = if sigma.len() == 1 { vec![sigma[0]; sizes.len()] } else { sigma.clone() };
            let slowest_first: Vec<f32> = sigma.into_iter().rev().collect();
            Box::new(Separable::new(sizes, &slowest_first)?)
        }
        (FilterKind::LatticeClassic, _) => Box::new(Lattice::new(features, dims, Blur::Classic)?),
        _ => Box::new(Lattice::new(features, dims, Blur::Symmetric)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule() {
        let position = |sigma| Kernel { features: Features::Position { sigma: vec![sigma] }, weight: 1.0 };
        let given = Kernel { features: Features::Given { rows: vec![], dims: 3 }, weight: 1.0 };
        let image = [240, 320];
        assert_eq!(choose(FilterKind::Auto, &position(3.0), &image), FilterKind::Lattice);
        assert_eq!(choose(FilterKind::Auto, &position(0.7), &image), FilterKind::Separable);
        assert_eq!(choose(FilterKind::Auto, &given, &image), FilterKind::Lattice);
        assert_eq!(choose(FilterKind::Auto, &given, &[20, 20]), FilterKind::Exact);
        assert_eq!(choose(FilterKind::Separable, &given, &image), FilterKind::Lattice);
        assert_eq!(choose(FilterKind::LatticeClassic, &position(0.7), &image), FilterKind::LatticeClassic);
    }

    #[test]
    fn names_round_trip() {
        for name in ["auto", "exact", "lattice", "lattice-classic", "separable"] {
            assert_eq!(name.parse::<FilterKind>().unwrap().to_string(), name);
        }
        assert!("fast".parse::<FilterKind>().is_err());
    }
}
