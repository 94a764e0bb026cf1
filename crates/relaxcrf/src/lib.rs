//! Energy minimisation for dense (fully connected) conditional random fields.
//!
//! # The problem
//!
//! Given N pixels, L labels, unary energies φ, label costs μ and Gaussian kernels over any features f, find the labelling x
//! with the lowest
//!
//! ```text
//! E(x) = Σ_a φ_a(x_a) + Σ_a Σ_{b≠a} μ(x_a, x_b) K_ab,      K_ab = Σ_m w_m exp(-|f_a - f_b|² / 2)
//! ```
//!
//! Every pair of pixels counts twice, once from each end. Methods touch the pairs only through Gaussian filtering, so that
//! their time is linear in N.
//!
//! ```
//! use relaxcrf::{Method, ModelBuilder, Solve};
//!
//! # fn main() -> relaxcrf::Result<()> {
//! // Two labels on an image with a dark and a bright half; at every fifth pixel the unaries prefer the wrong one.
//! let (width, height) = (64, 48);
//! let is_bright = |a: usize| a % width >= width / 2;
//! let image = (0..width * height).map(|a| if is_bright(a) { 200.0 } else { 40.0 }).collect();
//! let unary = (0..width * height).flat_map(|a| if is_bright(a) == (a % 5 > 0) { [0.7, 0.0] } else { [0.0, 0.7] });
//! let model = ModelBuilder::image(width, height, 2)
//!     .unary(unary.collect())
//!     .gaussian(3.0, 1.5)
//!     .bilateral(image, 40.0, 13.0, 5.0)
//!     .build()?;
//! let solution = Solve::new(&model).method(Method::MF).run()?;
//! assert!((0..width * height).all(|a| solution.labeling.as_slice()[a] == u16::from(is_bright(a))));
//! # Ok(())
//! # }
//! ```
//!
//! [`ModelBuilder`] checks the parts and builds a [`Model`]. [`Solve`] runs a method, or a chain such as `qp+dc-neg`, and
//! returns a [`Solution`]: labels, energy, beliefs and, from methods that have one, a certified lower bound.
//! `model.solve("qp+dc-neg")?` is short for a run with the default settings.
//!
//! # Methods
//!
//! | names | what they do | guarantee |
//! |---|---|---|
//! | `mf`, `mf5` | mean field, to convergence or for a number of updates | `mf`: the free energy never rises |
//! | `qp` | the convex QP relaxation | lower bound |
//! | `dc-neg`, `dc-gen`, `graduated` | the QP relaxation by differences of convex functions | `dc-*`: the QP energy never rises |
//! | `lp`, `smooth-lp`, `prox-lp`, `tree-lp` | the LP relaxation, whose bound is the tightest | lower bound |
//! | `exact` | two labels: the optimum | proof of it |
//! | `expand`, `swap` | moves that improve another method's labels | the energy never rises |
//! | `auto` | a choice among them for the model | no worse than `mf5`, `mf` and `qp+dc-neg` |
//!
//! [`solve::METHODS`] has all of them with their options.
//!
//! # Pitfalls
//!
//! - Code that counts each pair once, such as pydensecrf, needs twice the weights for the same energy: halve theirs.
//! - Without normalisation the usual weights are so strong that one label for all pixels is nearly optimal:
//!   [`Solution::constant_below`] tells.
//! - Colour standard deviations are in units of the image: 13 is for values from 0 to 255.
//! - Bounds need a symmetric operator: not [`LatticeClassic`](model::FilterKind::LatticeClassic), not the
//!   normalisations `before` and `after`.
//! - A run with a time limit depends on the speed of the machine. Without one, the same input gives the same bytes for any
//!   number of threads, unless memory was short ([`Solution::left_out`]).
//!
//! The crate has no features to choose. It needs Rust 1.89 or later.

mod allocation;
pub mod auto;
pub mod beliefs;
pub mod energy;
pub mod error;
mod image;
pub mod labeling;
pub mod memory;
mod methods;
pub mod model;
pub mod presets;
mod reductions;
mod relaxation;
pub mod round;
mod rows;
mod run;
mod solver;
pub mod tiles;

/// Runs: their methods, settings and results.
pub mod solve {
    pub use crate::auto;
    pub use crate::methods::{METHODS, Method, MethodInfo, MethodOption, Pipeline, updates};
    pub use crate::model::trees;
    pub use crate::rows::simplex;
    pub use crate::run::{
        Bound, LeftOut, MeanFieldBuffers, Progress, ScoredLabeling, Solution, Solve, mean_field_beliefs,
        mean_field_update,
    };
    pub use crate::solver::{Counts, Settings, Status};
}

pub use relaxcrf_filter as filter;
pub use relaxcrf_filter::{reduce, rng};

pub use beliefs::Beliefs;
pub use error::{Error, Result};
pub use image::Image;
pub use labeling::Labeling;
pub use methods::Method;
pub use model::{Model, ModelBuilder};
pub use run::{Solution, Solve};
