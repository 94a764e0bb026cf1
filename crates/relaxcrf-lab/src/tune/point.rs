//! A point of the search: one value for each parameter.

use crate::specs::PARAMETERS;

/// How many parameters there are.
pub const COUNT: usize = PARAMETERS.len();

/// Values of the parameters, in the order of [`PARAMETERS`].
pub type Point = [f64; COUNT];
