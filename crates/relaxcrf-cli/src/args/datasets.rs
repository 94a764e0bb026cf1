//! Arguments of `evaluate`, `presets`, `reproduce segmentation` and `tune`.

use std::path::PathBuf;

use clap::Args;
use relaxcrf::solve::Pipeline;
use relaxcrf_lab::methods::{MethodList, SEGMENTATION};
use relaxcrf_lab::options::DataOptions;
use relaxcrf_lab::specs::{LearnLoss, LearnPart, Objective, PresetSpec, RangeSpec, SearchKind, VoidSpec};

use super::{CommonArgs, ModelArgs};
use crate::specs;

/// A parameter set for the kernels.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Model")]
pub struct PresetArgs {
    /// Kernels and method: a name from `relaxcrf presets`, or a preset file (.toml). Options win over it [default:
    /// network, unless kernels are given]
    #[arg(long, value_name = "P")]
    pub preset: Option<PresetSpec>,
}

/// `relaxcrf presets`.
#[derive(Debug, Args)]
pub struct PresetsArgs {
    /// Print only these, in full: names, or preset files (.toml)
    #[arg(value_name = "PRESET")]
    pub presets: Vec<PresetSpec>,
    /// Print all of them in full
    #[arg(long)]
    pub long: bool,
    /// Print one JSON array instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `relaxcrf evaluate`.
#[derive(Debug, Args)]
#[command(after_help = EVALUATE_HELP)]
pub struct EvaluateArgs {
    /// Label map, or a directory of them
    pub predicted: PathBuf,
    /// The true label map, or a directory of them; several are compared with one after the other
    #[arg(required = true, num_args = 1..)]
    pub truth: Vec<PathBuf>,
    /// True label that counts nowhere [default: from labels.json, else 255; `none`: every label counts]
    #[arg(long, value_name = "V")]
    pub void: Option<VoidSpec>,
    /// Number of labels [default: from labels.json, else the largest label found + 1]
    #[arg(long, value_name = "L", value_parser = clap::value_parser!(u16).range(1..))]
    pub num_labels: Option<u16>,
    /// Names of the labels and the void mark [default: labels.json beside the truth directory]
    #[arg(long, value_name = "F.json")]
    pub names: Option<PathBuf>,
    /// Also measure within this many pixels of the true boundaries. Repeatable, or 4,8,16
    #[arg(long, value_name = "W", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..))]
    pub band: Vec<u16>,
    /// Also write the table as CSV
    #[arg(long, value_name = "F")]
    pub csv: Option<PathBuf>,
    #[command(flatten)]
    pub common: CommonArgs,
}

const EVALUATE_HELP: &str = "\
Label maps are indexed or grey images, or integer arrays (.npy, .npz). Files of two directories belong together when \
their names agree up to the ending. Means are over the labels that occur in the truth.";

/// A directory of images with unaries and truth.
#[derive(Debug, Args)]
pub struct DataArgs {
    /// Data directory, see below
    #[arg(value_name = "DIR")]
    pub data: PathBuf,
    /// Use only the first N images
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Data")]
    pub limit: Option<u32>,
    /// Folder of the true label maps
    #[arg(long, value_name = "NAME", default_value = "truth", help_heading = "Data")]
    pub truth: String,
    /// True label that counts nowhere [default: from labels.json, else 255; `none`: every label counts]
    #[arg(long, value_name = "V", help_heading = "Data")]
    pub void: Option<VoidSpec>,
}

impl DataArgs {
    /// The options as the lab takes them.
    pub fn options(&self) -> DataOptions {
        DataOptions {
            data: self.data.clone(),
            limit: self.limit.map(|n| n as usize),
            truth: self.truth.clone(),
            void: self.void,
        }
    }
}

const DATA_HELP: &str = "\
The data directory holds images/ID.png (or .jpg, .bmp, .ppm, .tif), truth/ID.png (indexed or grey), and either probs/ID.npz \
(or .npy; labels x height x width) or unary/ID.npz (or .npy, .c_unary; energies or compressed scores); NAME.txt with one \
ID per line for every split; and optionally labels.json: {\"classes\": [{\"name\": ...}, ...], \"void_index\": 255}.";

/// `relaxcrf reproduce segmentation`.
#[derive(Debug, Args)]
#[command(after_help = DATA_HELP)]
pub struct ReproduceSegmentationArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Which images: NAME for DIR/NAME.txt, a file with one ID per line, or `all`
    #[arg(long, value_name = "S", default_value = "test", help_heading = "Data")]
    pub split: String,
    /// Directory for the results; created if absent. An interrupted run resumes from it
    #[arg(long, value_name = "DIR", default_value = "reproduce-out")]
    pub out: PathBuf,
    /// Methods and chains to compare, separated by commas: see `relaxcrf methods`
    #[arg(short, long, value_name = "M,M,...", default_value = SEGMENTATION)]
    pub methods: MethodList,
    /// Methods to run also with half of all weights, scored with the full ones, as the paper's code ran its mean field
    /// [default: mf5,mf, unless methods are named]
    #[arg(long, value_name = "M,M,...")]
    pub half_weights: Option<MethodList>,
    /// Parameter set, a name or a file; repeatable, one table each [default: the paper's two, paper-voc-dc and
    /// paper-voc-mf]. Kernel flags override its kernels
    #[arg(long, value_name = "P", help_heading = "Model")]
    pub preset: Vec<PresetSpec>,
    #[command(flatten)]
    pub model: ModelArgs,
    /// Iterations of an LP stage (lp, tree-lp); the paper made 5. 0: the method's own limit
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub lp_iterations: u32,
    /// Also write every method's label maps
    #[arg(long)]
    pub save_labels: bool,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// `relaxcrf tune`.
#[derive(Debug, Args)]
#[command(after_help = DATA_HELP)]
pub struct TuneArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Which images: NAME for DIR/NAME.txt, a file with one ID per line, or `all`
    #[arg(long, value_name = "S", default_value = "val", help_heading = "Data")]
    pub split: String,
    /// Method, or a chain of them, to tune the kernels for: see `relaxcrf methods`
    #[arg(short, long, value_name = "M", default_value = &*relaxcrf::presets::default().method)]
    pub method: Pipeline,
    /// Measure to maximise: accuracy, iou (mean IoU), or both (their mean)
    #[arg(long, value_name = "O", default_value = "accuracy")]
    pub objective: Objective,
    /// Evaluations in all, those of earlier runs included
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub evaluations: u32,
    /// Evaluations spread evenly over the box before the search uses their results
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub spread: u32,
    /// Range of a parameter: gaussian-sigma, gaussian-weight, sigma-xy, sigma-rgb or bilateral-weight. Repeatable
    /// [default: 1:10, 0.1:100, 10:100, 1:30 and 0.1:100]
    #[arg(long, value_name = "NAME=LO:HI")]
    pub range: Vec<RangeSpec>,
    /// Parameter set to evaluate first: a name or a file. Repeatable
    #[arg(long, value_name = "P", default_values_t = [PresetSpec::default()])]
    pub start: Vec<PresetSpec>,
    /// How to search: gp (Gaussian process, expected improvement) or random (spread, then around the best) [default: gp]
    #[arg(long, value_name = "S")]
    pub search: Option<SearchKind>,
    /// Directory for evaluations.jsonl, best.toml and search.svg; created if absent. An interrupted search resumes
    /// from it
    #[arg(long, value_name = "DIR", default_value = "tune-out")]
    pub out: PathBuf,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// `relaxcrf learn`.
#[derive(Debug, Args)]
#[command(after_help = DATA_HELP)]
pub struct LearnArgs {
    #[command(flatten)]
    pub data: DataArgs,
    /// Which images: NAME for DIR/NAME.txt, a file with one ID per line, or `all`. Ten are a start
    #[arg(long, value_name = "S", default_value = "val")]
    pub split: String,
    /// Method to learn for: mf5, or another number of mean-field updates
    #[arg(short, long, value_name = "M", default_value = "mf5")]
    pub method: Pipeline,
    /// What to make small: iou (one minus mean IoU), ce (cross entropy), accuracy (wrong pixels), or edges (iou within 5
    /// pixels of true edges)
    #[arg(long, value_name = "L", default_value = "iou")]
    pub loss: LearnLoss,
    /// Which parameters may change, separated by commas: weights, widths, compat (a cost for each label), unary
    /// (temperature, and a bias for each label). Cross-validation decides which of them do
    #[arg(long, value_name = "W,...", value_delimiter = ',', default_values = ["weights", "widths", "compat", "unary"])]
    pub what: Vec<LearnPart>,
    /// Parameter set to start from, and to stay near: a name or a file
    #[arg(long, value_name = "P", default_value_t = PresetSpec::default())]
    pub start: PresetSpec,
    /// Folds of the cross-validation; 1 for none
    #[arg(long, value_name = "K", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub folds: u16,
    /// Preset file to write. Progress is kept beside it: an interrupted run goes on from there
    #[arg(short, long, value_name = "F.toml", default_value = "learned.toml", value_parser = specs::preset_output)]
    pub output: PathBuf,
    /// Page to write: curves, parameters before and after, pictures
    #[arg(long, value_name = "F.html", value_parser = specs::page_output)]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub common: CommonArgs,
}
