//! Energy minimisation for dense (fully connected) conditional random fields.
//!
//! Given N pixels, L labels, unary energies φ and Gaussian kernels over any features, find the labelling x
//! with the lowest
//!
//! ```text
//! E(x) = Σ_a φ_a(x_a) + Σ_a Σ_{b≠a} μ(x_a, x_b) Σ_m w_m exp(-|f_a - f_b|² / 2)
//! ```
//!
//! where every pair of pixels is connected and counts twice, once from each end. (The common C++ code counts
//! pairs once: its weight w is w/2 here.) All methods take time linear in N, because they touch the pairs
//! only through Gaussian filtering.
//!
//! ```
//! use relaxcrf::{Method, ModelBuilder, Solve};
//!
//! # fn main() -> relaxcrf::Result<()> {
//! // Two labels on a picture with a dark and a bright half; every fifth pixel prefers the wrong one.
//! let (width, height) = (64, 48);
//! let bright = |a: usize| a % width >= width / 2;
//! let image: Vec<f32> = (0..width * height).map(|a| if bright(a) { 200.0 } else { 40.0 }).collect();
//! let unary = (0..width * height).flat_map(|a| if bright(a) == (a % 5 > 0) { [0.7, 0.0] } else { [0.0, 0.7] }).collect();
//! let model = ModelBuilder::image(width, height, 2)
//!     .unary(unary)
//!     .gaussian(3.0, 1.5)
//!     .bilateral(image, 40.0, 13.0, 5.0)
//!     .build()?;
//! let solution = Solve::new(&model).method(Method::MF).run()?;
//! let unary = relaxcrf::energy::of_labeling(&model, &model.unary_argmin())?;
//! assert!(solution.energy.total() < unary.total());
//! println!("{}: energy {}", solution.status, solution.energy.total());
//! # Ok(())
//! # }
//! ```
//!
//! The way through: [`ModelBuilder`] checks the parts and builds a [`Model`]; [`Solve`] runs a method,
//! or a chain such as `mf+dc-neg`, and returns a [`Solution`] with the best labelling, its
//! energy and, from methods that have one, a certified lower bound. [`solve::METHODS`] lists the methods.

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
    pub use crate::run::{Bound, LeftOut, Progress, ScoredLabeling, Solution, Solve, mean_field_beliefs};
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
