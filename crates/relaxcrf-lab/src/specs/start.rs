//! Where a run starts.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// A label map, an array of probabilities, or `scores:` and an array of scores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InitSpec {
    /// Labels, or probabilities of all labels.
    File(PathBuf),
    /// Scores (logits) of all labels.
    Scores(PathBuf),
}

impl InitSpec {
    /// The file.
    pub fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Scores(path) => path,
        }
    }
}

impl FromStr for InitSpec {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(match text.strip_prefix("scores:") {
            Some(path) => Self::Scores(path.into()),
            None => Self::File(text.into()),
        })
    }
}
