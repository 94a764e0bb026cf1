//! Runs methods on a model: the loop that all methods share, the best labelling and bound so far, joined runs.
//!
//! Read `stages.rs` first: it is the loop. [`Solve`] is how a run is asked for.

mod best;
mod joining;
mod parts;
mod solution;
mod solve;
mod stages;
mod updates;

pub use self::best::{Bound, ScoredLabeling};
pub use self::solution::{LeftOut, Progress, Solution};
pub use self::solve::Solve;
pub use self::updates::{MeanFieldBuffers, mean_field_beliefs, mean_field_update};
