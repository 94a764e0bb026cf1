//! The files that unary energies are made from.

use std::path::{Path, PathBuf};

use crate::specs::extension;

/// Where unary energies come from.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// Probabilities in an array, a directory, or one grey image per label.
    Probabilities(&'a [PathBuf]),
    /// Scores of a network (logits) in an array.
    Scores(&'a Path),
    /// Energies in an array, or compressed scores.
    Unary(&'a Path),
    /// Hard labels.
    Labels(&'a Path),
}

impl<'a> Source<'a> {
    /// Returns the source that was given; clap checks that there is exactly one.
    pub fn choose(
        probs: &'a [PathBuf],
        logits: Option<&'a PathBuf>,
        unary: Option<&'a PathBuf>,
        labels: Option<&'a PathBuf>,
    ) -> Self {
        match (logits, unary, labels) {
            (Some(path), ..) => Self::Scores(path),
            (_, Some(path), _) => Self::Unary(path),
            (_, _, Some(path)) => Self::Labels(path),
            _ => Self::Probabilities(probs),
        }
    }

    /// All files, for messages and for the check that no input is overwritten.
    pub fn files(&self) -> Vec<&'a Path> {
        match *self {
            Self::Probabilities(paths) => paths.iter().map(PathBuf::as_path).collect(),
            Self::Scores(path) | Self::Unary(path) | Self::Labels(path) => vec![path],
        }
    }

    /// The first file.
    pub fn path(&self) -> &'a Path {
        self.files().first().copied().unwrap_or(Path::new(""))
    }

    /// The values in it, for messages.
    pub fn what(&self) -> &'static str {
        match self {
            Self::Probabilities(_) => "probabilities",
            Self::Scores(_) => "logits",
            Self::Unary(_) => "unary",
            Self::Labels(_) => "label map",
        }
    }

    /// The file, or the first of several.
    pub fn name(&self) -> String {
        self.files().first().map(|path| path.display().to_string()).unwrap_or_default()
    }

    /// Whether one channel is enough: the probability or logit of the foreground determines both labels.
    pub fn can_be_foreground(&self) -> bool {
        matches!(self, Self::Probabilities([_]) | Self::Scores(_))
    }
}

/// Whether a file's name says that it is a TIFF; its content decides when it is read.
pub fn is_tiff(path: &Path) -> bool {
    matches!(extension(path).as_str(), "tif" | "tiff")
}
