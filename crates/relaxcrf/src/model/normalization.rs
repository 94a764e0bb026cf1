//! How kernels are scaled.

use crate::error::{Error, Result};

/// How a kernel K is scaled, with n = K·1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Normalization {
    /// K as written. With the usual weights its optimum is close to one constant label.
    None,
    /// `n^-1/2 K n^-1/2`: what published parameters were found with.
    #[default]
    Symmetric,
    /// `K n^-1`. Not symmetric: no bounds.
    Before,
    /// `n^-1 K`. Not symmetric: no bounds.
    After,
}

impl std::str::FromStr for Normalization {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "none" => Ok(Self::None),
            "symmetric" => Ok(Self::Symmetric),
            "before" => Ok(Self::Before),
            "after" => Ok(Self::After),
            _ => Err(Error::parse("normalization", text, "expected none, symmetric, before or after")),
        }
    }
}

impl std::fmt::Display for Normalization {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Symmetric => "symmetric",
            Self::Before => "before",
            Self::After => "after",
        })
    }
}
