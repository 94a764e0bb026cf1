//! Named parameter sets that people use, in this crate's convention.
//!
//! Weights count every pair twice, once from each end: the common C++ code and pydensecrf write twice these
//! numbers. Colour standard deviations are for images on the 0 to 255 scale.

use std::borrow::Cow;

use crate::error::{Error, Result};
use crate::methods::Pipeline;
use crate::model::{Learned, Normalization};

/// A Gaussian kernel, a bilateral kernel, and the method to run. `io::read_preset` reads one from a file.
#[derive(Debug, Clone, PartialEq)]
pub struct Preset {
    /// What users type.
    pub name: Cow<'static, str>,
    /// What it is for: one line of at most 60 characters.
    pub summary: Cow<'static, str>,
    /// Where the numbers come from.
    pub source: Cow<'static, str>,
    /// Standard deviation in pixels and weight.
    pub gaussian: (f32, f32),
    /// Standard deviation in pixels, in colour units, and weight.
    pub bilateral: (f32, f32, f32),
    /// Method, or chain of methods, such as `mf10` (ten mean-field updates).
    pub method: Cow<'static, str>,
    /// How both kernels are normalised.
    pub normalization: Normalization,
    /// What was learned about unary energies and label costs; only in presets from files.
    pub learned: Option<Learned>,
}

impl Preset {
    /// Fails on standard deviations and weights that make no kernel, and on an unknown method.
    pub fn check(&self) -> Result<()> {
        let (sigma, weight) = self.gaussian;
        let (sigma_xy, sigma_rgb, bilateral_weight) = self.bilateral;
        for (what, value) in [("gaussian sigma", sigma), ("sigma_xy", sigma_xy), ("sigma_rgb", sigma_rgb)] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::value(what, value, "a positive, finite number"));
            }
        }
        for (what, value) in [("gaussian weight", weight), ("bilateral weight", bilateral_weight)] {
            if !(value >= 0.0 && value.is_finite()) {
                return Err(Error::value(what, value, "a finite number, 0 or more"));
            }
        }
        if let Some(learned) = &self.learned {
            learned.check()?;
        }
        self.pipeline().map(|_| ())
    }
}

impl Preset {
    /// The method.
    pub fn pipeline(&self) -> Result<Pipeline> {
        self.method.parse()
    }
}

/// The preset used when neither a preset nor kernels are given.
pub const DEFAULT: &str = "network";

/// The paper counts pairs twice too, so its weights stand as they are. Its own mean field moved as if they were
/// half as large, which is what its mean-field sets were tuned with.
const PAPER: &str = "Desmaison et al., ECCV 2016, cross-validated sets shipped with its code: weights as there, except \
                     that its mean field used half of them";

/// All presets; the default comes first.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: Cow::Borrowed("network"),
        summary: Cow::Borrowed("probabilities of a trained network; gentle"),
        source: Cow::Borrowed("`voc` with half its weights, measured on three data sets (docs/presets.md)"),
        gaussian: (1.0, 0.75),
        bilateral: (67.0, 3.0, 1.0),
        method: Cow::Borrowed("mf10"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("voc"),
        summary: Cow::Borrowed("DeepLab's published values; twice as strong as `network`"),
        source: Cow::Borrowed("DeepLab post-processing and its descendants (1/3, 67/3/4, 10 iterations)"),
        gaussian: (1.0, 1.5),
        bilateral: (67.0, 3.0, 2.0),
        method: Cow::Borrowed("mf10"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("contours"),
        summary: Cow::Borrowed("exact object contours in photographs; strong"),
        source: Cow::Borrowed(
            "four MSRC images with exact contours, checked on three data sets (docs/presets.md)",
        ),
        gaussian: (1.0, 1.5),
        bilateral: (60.0, 5.0, 5.0),
        method: Cow::Borrowed("mf10"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("pydensecrf"),
        summary: Cow::Borrowed("pydensecrf's README example, strong; to match older code"),
        source: Cow::Borrowed("pydensecrf's README (3/3, 80/13/10, 5 iterations)"),
        gaussian: (3.0, 1.5),
        bilateral: (80.0, 13.0, 5.0),
        method: Cow::Borrowed("mf5"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("pseudo-labels"),
        summary: Cow::Borrowed("class activation maps of weakly supervised networks"),
        source: Cow::Borrowed(
            "the pseudo-label step of weakly supervised segmentation (3/3, 50/5/10, 10 iterations)",
        ),
        gaussian: (3.0, 1.5),
        bilateral: (50.0, 5.0, 5.0),
        method: Cow::Borrowed("mf10"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("masks"),
        summary: Cow::Borrowed("one object against its background, from object discovery"),
        source: Cow::Borrowed("unsupervised object discovery (3/7, 50/5/10, 10 iterations)"),
        gaussian: (3.0, 3.5),
        bilateral: (50.0, 5.0, 5.0),
        method: Cow::Borrowed("mf10"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("text"),
        summary: Cow::Borrowed("text masks in small crops of comic pages"),
        source: Cow::Borrowed("comic text removal (1/3, 23/7/20, 5 iterations, not normalised)"),
        gaussian: (1.0, 1.5),
        bilateral: (23.0, 7.0, 10.0),
        method: Cow::Borrowed("mf5"),
        normalization: Normalization::None,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("volume"),
        summary: Cow::Borrowed("medical volumes with values from 0 to 255"),
        source: Cow::Borrowed("3-D medical practice (2/2, 5/4/3, 5 iterations)"),
        gaussian: (2.0, 1.0),
        bilateral: (5.0, 4.0, 1.5),
        method: Cow::Borrowed("mf5"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("seeds"),
        summary: Cow::Borrowed("coarse scores grown from image-level labels"),
        source: Cow::Borrowed(
            "seed, expand and constrain, and its descendants (3/3, 80/13/10, 10 iterations)",
        ),
        gaussian: (3.0, 1.5),
        bilateral: (80.0, 13.0, 5.0),
        method: Cow::Borrowed("mf10"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("satellite"),
        summary: Cow::Borrowed("per-pixel classifiers of aerial and satellite images"),
        source: Cow::Borrowed("land-cover scripts (5/15, 2/15/25, 1 iteration)"),
        gaussian: (5.0, 7.5),
        bilateral: (2.0, 15.0, 12.5),
        method: Cow::Borrowed("mf1"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("clip-as-rnn"),
        summary: Cow::Borrowed("masks of objects named in a text, as CLIP-as-RNN does"),
        source: Cow::Borrowed("CLIP-as-RNN (1/3, 67/3/4, 10 iterations); the numbers of `voc`"),
        gaussian: (1.0, 1.5),
        bilateral: (67.0, 3.0, 2.0),
        method: Cow::Borrowed("mf10"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("ov-seg"),
        summary: Cow::Borrowed("open-vocabulary masks, as OV-Seg and MaskCut do"),
        source: Cow::Borrowed("OV-Seg, MaskCut (3/3, 80/13/10, 5 iterations); the numbers of `pydensecrf`"),
        gaussian: (3.0, 1.5),
        bilateral: (80.0, 13.0, 5.0),
        method: Cow::Borrowed("mf5"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    // A colour sigma of 0.05 on images in 0..1 is 12.75 here. W-Net has no Gaussian kernel: its weight is zero.
    Preset {
        name: Cow::Borrowed("w-net"),
        summary: Cow::Borrowed("soft segments found without labels, as W-Net does"),
        source: Cow::Borrowed(
            "W-Net (no Gaussian kernel, 25/0.05/100 on images in 0..1, 150 iterations): colour sigma times 255",
        ),
        gaussian: (1.0, 0.0),
        bilateral: (25.0, 12.75, 50.0),
        method: Cow::Borrowed("mf150"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("paper-voc-dc"),
        summary: Cow::Borrowed("the paper's main table: PASCAL VOC 2010, for dc-neg"),
        source: Cow::Borrowed(PAPER),
        gaussian: (3.071_772, 0.5),
        bilateral: (49.785_68, 1.0, 0.960_811),
        method: Cow::Borrowed("qp+dc-neg"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("paper-voc-mf"),
        summary: Cow::Borrowed("the paper's second table: PASCAL VOC 2010, for mean field"),
        source: Cow::Borrowed(PAPER),
        gaussian: (1.0, 100.0),
        bilateral: (50.0, 5.454_272, 74.877_398),
        method: Cow::Borrowed("mf"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("paper-voc-mf5"),
        summary: Cow::Borrowed("PASCAL VOC 2010, for five mean-field updates"),
        source: Cow::Borrowed(PAPER),
        gaussian: (4.105_884, 77.047_68),
        bilateral: (47.793_787, 4.693_766, 100.0),
        method: Cow::Borrowed("mf5"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("paper-msrc-dc"),
        summary: Cow::Borrowed("MSRC-21, for dc-neg"),
        source: Cow::Borrowed(PAPER),
        gaussian: (3.535_267, 2.247_081),
        bilateral: (31.232_626, 7.949_97, 1.699_011),
        method: Cow::Borrowed("qp+dc-neg"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
    Preset {
        name: Cow::Borrowed("paper-msrc-mf"),
        summary: Cow::Borrowed("MSRC-21, for mean field"),
        source: Cow::Borrowed(PAPER),
        gaussian: (1.0, 7.467_846),
        bilateral: (35.865_96, 11.209_644, 4.028_773),
        method: Cow::Borrowed("mf"),
        normalization: Normalization::Symmetric,
        learned: None,
    },
];

/// The preset used when neither a preset nor kernels are given.
pub fn default() -> &'static Preset {
    &PRESETS[0]
}

/// The preset of that name.
pub fn find(name: &str) -> Result<&'static Preset> {
    PRESETS.iter().find(|p| p.name == name).ok_or_else(|| {
        let names = PRESETS.iter().map(|p| p.name.as_ref()).collect::<Vec<_>>().join(", ");
        Error::parse("preset", name, format!("known presets: {names}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        assert_eq!(find(DEFAULT).unwrap(), default());
        for preset in PRESETS {
            assert_eq!(find(&preset.name).unwrap(), preset);
            assert!(preset.check().is_ok(), "{}", preset.name);
        }
        assert!(find("none such").unwrap_err().to_string().contains("voc"));
    }

    #[test]
    fn every_preset_is_valid_and_its_summary_fits_one_line_of_a_terminal() {
        for preset in PRESETS {
            preset.check().unwrap();
            let length = preset.summary.chars().count();
            assert!((10..=60).contains(&length), "{}: {length} characters", preset.name);
            assert!(!preset.source.is_empty(), "{}", preset.name);
        }
    }

    #[test]
    fn presets_of_other_projects_have_half_of_their_published_weights() {
        let kernels = |name: &str| {
            let p = find(name).unwrap();
            (p.gaussian, p.bilateral, p.method.as_ref())
        };
        assert_eq!(kernels("clip-as-rnn"), ((1.0, 3.0 / 2.0), (67.0, 3.0, 4.0 / 2.0), "mf10"));
        assert_eq!(kernels("ov-seg"), ((3.0, 3.0 / 2.0), (80.0, 13.0, 10.0 / 2.0), "mf5"));
        assert_eq!(kernels("w-net"), ((1.0, 0.0), (25.0, 0.05 * 255.0, 100.0 / 2.0), "mf150"));
    }
}
