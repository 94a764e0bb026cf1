//! Disparities of rectified stereo pairs.
//!
//! Left pixel `(x, y)` with disparity `d` shows the same point as right pixel `(x - d, y)`.
//!
//! [`match_pair`] goes all the way from two pictures to a dense map: matching costs (`volume`), averaged over regions of
//! like colour (`support`), summed along paths (`paths`), the best disparities of both views (`select`), optionally a dense
//! CRF on those sums ([`Matching::unaries`]), and disparities for the pixels that only one picture sees (`fill`).
//! [`cost()`] gives plain matching costs as unary energies for models of your own.

mod costs;
mod depth;
mod fill;
mod matching;
mod median;
mod pair;
mod paths;
mod range;
mod select;
mod support;
mod volume;

pub use costs::{Aggregation, CostOptions, Measure, cost};
pub use depth::Calibration;
pub use matching::{Disparities, Matching, Options, Quality, match_pair};
pub use range::{Note, RangeEstimate, estimate_range};

#[cfg(test)]
mod tests;
