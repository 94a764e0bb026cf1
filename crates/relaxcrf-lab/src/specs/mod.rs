//! Option values that experiments share with the program: kernels, label costs, presets, search ranges.
//!
//! Each error says what was given and what was expected, because the program shows these texts as they are.

mod experiments;
mod kernels;
mod start;

use std::path::Path;

pub use self::experiments::{
    Contestant, LearnLoss, LearnPart, Objective, PARAMETERS, PresetSpec, RangeSpec, SearchKind, VoidSpec,
};
pub use self::kernels::{BilateralSpec, CompatSpec, CostSpec, GaussianSpec};
pub use self::start::InitSpec;

/// Why an option's value was not understood.
type Parsed<T> = Result<T, String>;

/// The ending of a file name in small letters, empty if there is none.
pub fn extension(path: &Path) -> String {
    path.extension().map(|e| e.to_string_lossy().to_ascii_lowercase()).unwrap_or_default()
}
