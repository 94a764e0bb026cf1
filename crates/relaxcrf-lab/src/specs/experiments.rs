//! Option values of the commands that work on data sets.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use relaxcrf::presets::{self, Preset};
use relaxcrf::solve::Pipeline;
use relaxcrf_io::read_preset;
use relaxcrf_learn::bootstrap::Measure;
use relaxcrf_learn::loss::Loss;

use super::Parsed;

/// A preset's name, or a file with one; the file is read when it is needed.
#[derive(Debug, Clone, PartialEq)]
pub enum PresetSpec {
    /// One of the presets that come with the program.
    Named(&'static Preset),
    /// A TOML file.
    File(PathBuf),
}

impl PresetSpec {
    /// The parameters.
    pub fn resolve(&self) -> relaxcrf::Result<Preset> {
        match self {
            Self::Named(preset) => Ok((*preset).clone()),
            Self::File(path) => read_preset(path),
        }
    }
}

impl Default for PresetSpec {
    fn default() -> Self {
        Self::Named(&presets::PRESETS[0])
    }
}

impl FromStr for PresetSpec {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        match presets::find(text) {
            Ok(preset) => Ok(Self::Named(preset)),
            Err(_) if text.contains(['.', '/', '\\']) => Ok(Self::File(text.into())),
            Err(unknown) => Err(format!("{unknown}; or give a file such as mine.toml")),
        }
    }
}

impl fmt::Display for PresetSpec {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Self::Named(preset) => f.write_str(&preset.name),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}

/// A chain of methods as it takes part in a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Contestant {
    /// The methods.
    pub chain: Pipeline,
    /// Whether it runs with half of all weights and is scored with the full ones.
    pub half: bool,
}

impl Contestant {
    /// A chain that runs with the full weights.
    pub fn new(chain: Pipeline) -> Self {
        Self { chain, half: false }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}{}", self.chain, if self.half { " (half weights)" } else { "" })
    }
}

/// Which true label counts nowhere, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VoidSpec(pub Option<u16>);

impl FromStr for VoidSpec {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        match text {
            "none" => Ok(Self(None)),
            _ => text
                .parse()
                .map(|v| Self(Some(v)))
                .map_err(|_| "expected a label from 0 to 65535, or none".into()),
        }
    }
}

/// What tuning makes large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objective {
    /// Share of right pixels.
    Accuracy,
    /// Mean intersection over union.
    Iou,
    /// The mean of the two.
    Both,
}

impl Objective {
    /// The number to make large.
    pub fn score(self, accuracy: f64, iou: f64) -> f64 {
        match self {
            Self::Accuracy => accuracy,
            Self::Iou => iou,
            Self::Both => 0.5 * (accuracy + iou),
        }
    }
}

impl FromStr for Objective {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        match text {
            "accuracy" => Ok(Self::Accuracy),
            "iou" => Ok(Self::Iou),
            "both" => Ok(Self::Both),
            _ => Err("expected accuracy, iou or both".into()),
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Accuracy => "accuracy",
            Self::Iou => "iou",
            Self::Both => "both",
        })
    }
}

/// How tuning searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchKind {
    /// Gaussian process with expected improvement.
    Gp,
    /// Around the best so far.
    Random,
}

impl FromStr for SearchKind {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        match text {
            "gp" => Ok(Self::Gp),
            "random" => Ok(Self::Random),
            _ => Err("expected gp or random".into()),
        }
    }
}

impl fmt::Display for SearchKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Gp => "gp",
            Self::Random => "random",
        })
    }
}

/// What `learn` makes small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LearnLoss {
    /// One minus the mean soft intersection over union.
    Iou,
    /// Cross entropy.
    CrossEntropy,
    /// Expected fraction of wrong pixels.
    Accuracy,
    /// As `Iou`, counting only pixels near true edges.
    Edges,
}

impl LearnLoss {
    /// The loss, and the measure that decides which parts are freed.
    pub fn resolve(self) -> (Loss, Measure) {
        match self {
            Self::Iou | Self::Edges => (Loss::Iou, Measure::MeanIou),
            Self::CrossEntropy => (Loss::CrossEntropy, Measure::Accuracy),
            Self::Accuracy => (Loss::Accuracy, Measure::Accuracy),
        }
    }
}

impl FromStr for LearnLoss {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        match text {
            "iou" => Ok(Self::Iou),
            "ce" => Ok(Self::CrossEntropy),
            "accuracy" => Ok(Self::Accuracy),
            "edges" => Ok(Self::Edges),
            _ => Err("expected iou, ce, accuracy or edges".into()),
        }
    }
}

impl fmt::Display for LearnLoss {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Iou => "iou",
            Self::CrossEntropy => "ce",
            Self::Accuracy => "accuracy",
            Self::Edges => "edges",
        })
    }
}

/// Parameters that `learn` may free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LearnPart {
    /// Kernel weights.
    Weights,
    /// Kernel widths.
    Widths,
    /// A cost for each label.
    Compat,
    /// Temperature and bias of the unary energies.
    Unary,
}

impl FromStr for LearnPart {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        match text {
            "weights" => Ok(Self::Weights),
            "widths" => Ok(Self::Widths),
            "compat" => Ok(Self::Compat),
            "unary" => Ok(Self::Unary),
            _ => Err("expected weights, widths, compat or unary".into()),
        }
    }
}

impl fmt::Display for LearnPart {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Self::Weights => "weights",
            Self::Widths => "widths",
            Self::Compat => "compat",
            Self::Unary => "unary",
        })
    }
}

/// The kernel parameters that are tuned, in the order in which they are stored.
pub const PARAMETERS: [&str; 5] =
    ["gaussian-sigma", "gaussian-weight", "sigma-xy", "sigma-rgb", "bilateral-weight"];

/// `NAME=LO:HI`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RangeSpec {
    /// Position in [`PARAMETERS`].
    pub parameter: usize,
    /// Smallest value, above 0: the search is on a logarithmic scale.
    pub low: f64,
    /// Largest value.
    pub high: f64,
}

impl FromStr for RangeSpec {
    type Err = String;

    fn from_str(text: &str) -> Parsed<Self> {
        let expected = "expected NAME=LO:HI with 0 < LO <= HI, such as sigma-rgb=1:30";
        let (name, range) = text.split_once('=').ok_or(expected)?;
        let parameter = PARAMETERS
            .iter()
            .position(|p| *p == name.trim())
            .ok_or_else(|| format!("there is no parameter `{name}`; known: {}", PARAMETERS.join(", ")))?;
        let (low, high) = range.split_once(':').ok_or(expected)?;
        let number = |t: &str| t.trim().parse::<f64>().map_err(|_| format!("`{t}` is no number; {expected}"));
        let (low, high) = (number(low)?, number(high)?);
        if !(low > 0.0 && high >= low && high.is_finite()) {
            return Err(expected.into());
        }
        Ok(Self { parameter, low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preset_is_a_name_or_a_file() {
        assert_eq!("voc".parse::<PresetSpec>().unwrap().to_string(), "voc");
        assert_eq!("a/b.toml".parse(), Ok(PresetSpec::File("a/b.toml".into())));
        let e = "vok".parse::<PresetSpec>().unwrap_err();
        assert!(e.contains("vok") && e.contains("voc") && e.contains(".toml"), "{e}");
        assert_eq!(PresetSpec::default().resolve().unwrap().name, presets::DEFAULT);
    }

    #[test]
    fn search_ranges_are_read_and_bad_ones_refused() {
        assert_eq!("sigma-rgb=1:30".parse(), Ok(RangeSpec { parameter: 3, low: 1.0, high: 30.0 }));
        for bad in [
            "",
            "sigma-rgb",
            "sigma-rgb=1",
            "x=1:2",
            "sigma-xy=0:2",
            "sigma-xy=3:2",
            "sigma-xy=1:inf",
            "sigma-xy=a:2",
        ] {
            assert!(bad.parse::<RangeSpec>().is_err(), "{bad}");
        }
    }

    #[test]
    fn objectives_and_void_marks_are_read() {
        assert_eq!("both".parse::<Objective>().unwrap().score(0.9, 0.5), 0.7);
        assert_eq!("none".parse(), Ok(VoidSpec(None)));
        assert_eq!("11".parse(), Ok(VoidSpec(Some(11))));
        assert!("-1".parse::<VoidSpec>().is_err());
    }
}
