//! Gaussian filters: linear operators K on any number of channels, `(K x)_a = Σ_b k(f_a, f_b) x_b`.
//!
//! A filter knows points and their features, never labels, images or weights. Three of them implement one trait,
//! [`Operator`]:
//!
//! | filter | operator | cost of one channel | use |
//! |---|---|---|---|
//! | [`Exact`] | the Gaussian sum itself | O(N²) | oracle, tiny problems |
//! | [`Lattice`] | permutohedral lattice, classic or symmetric | O(d² N) | everything else |
//! | [`Separable`] | the Gaussian on a grid, cut at 5.3 standard deviations | O(N σ) | narrow spatial kernels |
//!
//! What only some operators can do is a trait of its own, which the operator returns if it has it:
//!
//! | capability | what it computes | operators |
//! |---|---|---|
//! | [`Ordered`] | sums by rank, by bin and by the softened order, as LP relaxations need them | all three |
//! | [`Fused`] | a whole iteration in one pass over the points: see [`FusedPass`] | [`Lattice`] |
//!
//! Arrays are row-major, one row of `channels` values per point. The self pair (a = b) is part of K.

mod blocks;
mod calibrate;
mod error;
mod exact;
pub mod fused;
pub mod lattice;
mod operator;
mod ordered;
pub mod reduce;
pub mod rng;
mod separable;
pub mod simd;

pub use blocks::POINTS_PER_BLOCK;
pub use calibrate::{Calibration, DEFAULT_SAMPLES, calibrate};
pub use error::{Error, Result};
pub use exact::Exact;
pub use fused::{Fused, FusedPass};
pub use lattice::{Blur, Lattice};
pub use operator::{Direction, Factors, Operator, Scaling, Workspace};
pub use ordered::{
    Binned, Bins, Layers, MAX_BINS, MAX_CELLS, Ordered, OrderedMode, binned_channels, binned_sums,
    huber_table, ordered, sign_table, softened_sums, sums_between,
};
pub use separable::Separable;
