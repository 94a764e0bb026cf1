//! Named parameter sets that people use, in this crate's convention.
//!
//! Weights count every pair twice, once from each end: the common C++ code and pydensecrf write twice these
//! numbers. Colour standard deviations are for images on the 0 to 255 scale.

use super::pairwise::Normalization;
use crate::error::{Error, Result};

/// A Gaussian kernel, a bilateral kernel, and how long to run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Preset {
    /// What users type.
    pub name: &'static str,
    /// What it is for.
    pub summary: &'static str,
    /// Where the numbers come from.
    pub source: &'static str,
    /// Standard deviation in pixels and weight.
    pub gaussian: (f32, f32),
    /// Standard deviation in pixels, in colour units, and weight.
    pub bilateral: (f32, f32, f32),
    /// Mean-field updates.
    pub iterations: usize,
    /// How both kernels are normalised.
    pub normalization: Normalization,
}

/// The preset used when none is named.
pub const DEFAULT: &str = "voc";

/// All presets; the default comes first.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "voc",
        summary: "network scores on photographs, many labels",
        source: "DeepLab post-processing and its descendants (1/3, 67/3/4, 10 iterations)",
        gaussian: (1.0, 1.5),
        bilateral: (67.0, 3.0, 2.0),
        iterations: 10,
        normalization: Normalization::Symmetric,
    },
    Preset {
        name: "pydensecrf",
        summary: "the example that most code started from",
        source: "pydensecrf's README (3/3, 80/13/10, 5 iterations)",
        gaussian: (3.0, 1.5),
        bilateral: (80.0, 13.0, 5.0),
        iterations: 5,
        normalization: Normalization::Symmetric,
    },
    Preset {
        name: "pseudo-labels",
        summary: "coarse class activation maps, weak supervision",
        source: "the pseudo-label step of weakly supervised segmentation (3/3, 50/5/10, 10 iterations)",
        gaussian: (3.0, 1.5),
        bilateral: (50.0, 5.0, 5.0),
        iterations: 10,
        normalization: Normalization::Symmetric,
    },
    Preset {
        name: "masks",
        summary: "binary object masks from spectral or graph methods",
        source: "unsupervised object discovery (3/7, 50/5/10, 10 iterations)",
        gaussian: (3.0, 3.5),
        bilateral: (50.0, 5.0, 5.0),
        iterations: 10,
        normalization: Normalization::Symmetric,
    },
    Preset {
        name: "text",
        summary: "small crops of comic pages, hard text masks",
        source: "comic text removal (1/3, 23/7/20, 5 iterations, not normalised)",
        gaussian: (1.0, 1.5),
        bilateral: (23.0, 7.0, 10.0),
        iterations: 5,
        normalization: Normalization::None,
    },
    Preset {
        name: "volume",
        summary: "medical volumes with values on the 0 to 255 scale",
        source: "3-D medical practice (2/2, 5/4/3, 5 iterations)",
        gaussian: (2.0, 1.0),
        bilateral: (5.0, 4.0, 1.5),
        iterations: 5,
        normalization: Normalization::Symmetric,
    },
];

/// The preset of that name.
pub fn find(name: &str) -> Result<&'static Preset> {
    PRESETS.iter().find(|p| p.name == name).ok_or_else(|| {
        let names = PRESETS.iter().map(|p| p.name).collect::<Vec<_>>().join(", ");
        Error::parse("preset", name, format!("known presets: {names}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        assert_eq!(find(DEFAULT).unwrap().name, PRESETS[0].name);
        for preset in PRESETS {
            assert_eq!(find(preset.name).unwrap(), preset);
        }
        assert!(find("none such").unwrap_err().to_string().contains("voc"));
    }
}
