//! Arguments of the program: clap's declarations.

mod batch;
mod datasets;
mod experiments;
mod show;
mod tiles;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use relaxcrf::model::{FilterKind, Normalization};
use relaxcrf::solve::{Pipeline, Settings, Solution};
use relaxcrf_lab::inputs::Source;
use relaxcrf_lab::options::{ModelOptions, UnaryOptions};
use relaxcrf_lab::specs::{BilateralSpec, CompatSpec, GaussianSpec, InitSpec};

pub use self::batch::{BatchArgs, ResourceArgs};
pub use self::datasets::{
    EvaluateArgs, LearnArgs, PresetArgs, PresetsArgs, ReproduceSegmentationArgs, TuneArgs,
};
pub use self::experiments::*;
pub use self::show::{ColourArgs, ShowArgs};
pub use self::tiles::TileArgs;
use crate::specs;

/// Refine segmentations and disparity maps with a dense CRF.
///
/// Every pixel is connected to every other; the energy counts each pair twice, once from each end.
#[derive(Debug, Parser)]
#[command(name = "relaxcrf", version, arg_required_else_help = true)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the methods on two generated scenes and write a page
    Demo(DemoArgs),
    /// Refine the labels of an image
    Segment(SegmentArgs),
    /// Refine the labels of many images; resumes after any interruption
    Batch(BatchArgs),
    /// Find the disparities of a rectified stereo pair
    Stereo(StereoArgs),
    /// Run several methods on one problem and report on them
    Compare(CompareArgs),
    /// Evaluate the energy of a labelling
    Energy(EnergyArgs),
    /// Repeat the paper's experiments on a directory of data
    #[command(subcommand)]
    Reproduce(ReproduceCommand),
    /// Measure parts of the methods, such as the filter
    #[command(subcommand)]
    Study(StudyCommand),
    /// List the methods
    Methods(MethodsArgs),
    /// List the parameter sets
    Presets(PresetsArgs),
    /// Measure label maps against the truth: accuracy, IoU, boundaries
    Evaluate(EvaluateArgs),
    /// Find the kernel parameters that label a data set best
    Tune(TuneArgs),
    /// Learn kernels, temperature, bias and label costs from labelled images
    Learn(LearnArgs),
}

/// `relaxcrf demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Directory for the page, index.html, and the scenes' files; created if absent
    #[arg(long, value_name = "DIR", default_value = "demo-out")]
    pub out: PathBuf,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// `relaxcrf methods`.
#[derive(Debug, Args)]
pub struct MethodsArgs {
    /// Also print what each method promises
    #[arg(long)]
    pub long: bool,
    /// Print one JSON array instead of a table
    #[arg(long)]
    pub json: bool,
}

/// `relaxcrf segment`.
#[derive(Debug, Args)]
#[command(
    override_usage = "relaxcrf segment [OPTIONS] <IMAGE>\n                        \
                      (--probs F... | --logits F | --unary F | --labels F) -o OUT",
    after_help = UNARY_HELP
)]
pub struct SegmentArgs {
    /// The image: PNG, JPEG, BMP, PNM, TIFF, PFM, or an H x W (x C) array (.npy, .npz)
    pub image: PathBuf,
    #[command(flatten)]
    pub source: SegmentSource,
    #[command(flatten)]
    pub unary: UnaryArgs,
    /// Label map to write: .png (8-bit indexed, 16-bit grey beyond 256 labels), .npy or .tif (keeps the georeference of a GeoTIFF)
    #[arg(short, long, value_name = "OUT", value_parser = specs::label_output)]
    pub output: PathBuf,
    /// Also write the beliefs that the last stage ended with, labels x height x width
    #[arg(long, value_name = "F.npy", value_parser = specs::array_output)]
    pub save_probs: Option<PathBuf>,
    #[command(flatten)]
    pub show: ShowArgs,
    #[command(flatten)]
    pub resources: ResourceArgs,
    #[command(flatten)]
    pub preset: PresetArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub start: StartArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub tiles: TileArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// `relaxcrf energy`.
#[derive(Debug, Args)]
#[command(
    override_usage = "relaxcrf energy [OPTIONS] <IMAGE> --labels L\n                       \
                      (--probs F... | --logits F | --unary F | --labels-as-unary F)",
    after_help = UNARY_HELP
)]
pub struct EnergyArgs {
    /// The image: PNG, JPEG, BMP, PNM, TIFF, PFM, or an H x W (x C) array (.npy, .npz)
    pub image: PathBuf,
    #[command(flatten)]
    pub source: EnergySource,
    #[command(flatten)]
    pub unary: UnaryArgs,
    /// The labelling to evaluate: indexed or grey image, or an integer H x W array
    #[arg(long, value_name = "L")]
    pub labels: PathBuf,
    /// Sum the Gaussians over all pairs, in time quadratic in the pixels, instead of using a fast filter. With
    /// --normalization none this is the energy of the formula
    #[arg(long)]
    pub exact: bool,
    #[command(flatten)]
    pub preset: PresetArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

// Paragraphs are single lines: clap breaks them to the terminal's width.
const UNARY_HELP: &str = "\
Arrays are labels x height x width unless --label-axis says otherwise. A .c_unary file holds scores, which become \
energies -log softmax(score). Energies of +inf forbid a label.

Without preset and kernels, the preset `network` is used: weak kernels that help the output of most networks, and ten \
mean-field updates (--method mf10). `relaxcrf presets` lists the others. A preset sets kernels, normalization and method; \
options win over it.

Every pair counts twice, once from each end, so weights are half of those in codes that count it once, such as pydensecrf.";

/// Files of unary energies in all commands.
#[derive(Debug, Args)]
#[group(skip)]
pub struct UnaryFiles {
    /// Probabilities: .npy, .npz, a TIFF with one band per label, a directory with one grey image per label, or those
    /// images in order. One channel is the probability of the foreground
    #[arg(long, value_name = "F", num_args = 1..)]
    pub probs: Vec<PathBuf>,
    /// Logits or other scores, higher is better (.npy, .npz, bands of a TIFF): energies are -log softmax
    #[arg(long, value_name = "F")]
    pub logits: Option<PathBuf>,
    /// Energies (.npy, .npz, bands of a TIFF), or compressed scores (.c_unary)
    #[arg(long, value_name = "F")]
    pub unary: Option<PathBuf>,
}

impl UnaryFiles {
    /// The source that was given, these files or hard labels.
    pub fn or_labels<'a>(&'a self, labels: Option<&'a PathBuf>) -> Source<'a> {
        Source::choose(&self.probs, self.logits.as_ref(), self.unary.as_ref(), labels)
    }
}

/// Where `segment` takes its unary energies from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false, args = ["probs", "logits", "unary", "labels"])]
pub struct SegmentSource {
    #[command(flatten)]
    pub files: UnaryFiles,
    /// Hard labels to correct: indexed or grey image, or an integer H x W array. Masks of 0 and 255 and sparse values
    /// become labels 0, 1, ... and are written as they were
    #[arg(long, value_name = "F")]
    pub labels: Option<PathBuf>,
}

/// Where `energy` takes its unary energies from: there, `--labels` is the labelling to evaluate.
#[derive(Debug, Args)]
#[group(required = true, multiple = false, args = ["probs", "logits", "unary", "labels_as_unary"])]
pub struct EnergySource {
    #[command(flatten)]
    pub files: UnaryFiles,
    /// Hard labels from which the unary energies are made
    #[arg(long, value_name = "F")]
    pub labels_as_unary: Option<PathBuf>,
}

/// How unary files are understood.
#[derive(Debug, Clone, Args)]
pub struct UnaryArgs {
    /// Axis of the labels in arrays; negative counts from the last
    #[arg(long, value_name = "A", default_value_t = 0, allow_hyphen_values = true)]
    pub label_axis: isize,
    /// Probability that a hard label is right
    #[arg(long, value_name = "C", default_value_t = 0.7, value_parser = specs::confidence)]
    pub confidence: f32,
    /// Hard label that means undecided
    #[arg(long, value_name = "V")]
    pub unsure: Option<u16>,
    /// Number of labels of hard labels, whose values are then taken as they are [default: the largest value + 1, or the
    /// number of different values if these are far fewer]
    #[arg(long, value_name = "L", value_parser = clap::value_parser!(u16).range(1..))]
    pub num_labels: Option<u16>,
}

impl UnaryArgs {
    /// The options as the lab takes them.
    pub fn options(&self) -> UnaryOptions {
        UnaryOptions {
            label_axis: self.label_axis,
            confidence: self.confidence,
            unsure: self.unsure,
            num_labels: self.num_labels,
            keep_values: false,
        }
    }
}

/// The pairwise part of the energy.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Model")]
pub struct ModelArgs {
    /// Kernel on position; S in pixels, or SX,SY. Repeatable. Pairs count twice: halve pydensecrf's weights. C is a label
    /// cost of this kernel alone, as for --compat, or potts:X
    #[arg(long, value_name = "S:W[:C]", allow_hyphen_values = true)]
    pub gaussian: Vec<GaussianSpec>,
    /// Kernel on position and colour, colours from 0 to 255; either may be a list. Repeatable
    #[arg(long, value_name = "SXY:SRGB:W[:C]", allow_hyphen_values = true)]
    pub bilateral: Vec<BilateralSpec>,
    /// none, symmetric, before or after. Published parameters were found with symmetric [default: the preset's,
    /// or symmetric]
    #[arg(long, value_name = "N")]
    pub normalization: Option<Normalization>,
    /// auto, exact, lattice, lattice-classic (the common code's) or separable
    #[arg(long, value_name = "F", default_value = "auto")]
    pub filter: FilterKind,
    /// Cost of two labels: potts, linear, linear:T (truncated), quadratic, quadratic:T, w:W0,W1,... (per
    /// label), FILE.npy (matrix) or FILE.csv (tree)
    #[arg(long, value_name = "C", default_value = "potts")]
    pub compat: CompatSpec,
    /// Scale each filter to the true Gaussian sum, measured on sampled pixels. Matters with
    /// --normalization none only
    #[arg(long)]
    pub calibrate: bool,
}

impl ModelArgs {
    /// The options as the lab takes them.
    pub fn options(&self) -> ModelOptions {
        ModelOptions {
            gaussian: self.gaussian.clone(),
            bilateral: self.bilateral.clone(),
            normalization: self.normalization,
            filter: self.filter,
            compat: self.compat.clone(),
            calibrate: self.calibrate,
            learned: None,
        }
    }
}

/// How to minimise, and when to stop.
#[derive(Debug, Args)]
#[command(next_help_heading = "Method")]
pub struct RunArgs {
    /// Method, or a chain of them such as qp+dc-neg: see `relaxcrf methods` [default: the preset's]
    #[arg(short, long, value_name = "M")]
    pub method: Option<Pipeline>,
    /// Labels to write: the method's own, or the best labelling seen, constant ones included
    #[arg(long, value_name = "own|best", default_value_t)]
    pub take: Take,
    /// Print what `auto` runs on this problem, and why
    #[arg(long)]
    pub explain: bool,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Where a run starts, and with which labels.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Method")]
pub struct StartArgs {
    /// Start from a label map, from probabilities (labels x height x width) or from scores:F.npy (logits) [default: the unary energies]
    #[arg(long, value_name = "F")]
    pub init: Option<InitSpec>,
    /// Solve with these labels only, such as 0,3,7. They keep their numbers
    #[arg(long, value_name = "L,L,...", value_delimiter = ',')]
    pub keep_labels: Vec<u16>,
}

/// Which labelling of a run is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Take {
    /// The method's own result
    #[default]
    Own,
    /// The lowest energy seen, unary argmin and constant labellings included
    Best,
}

impl Take {
    /// Puts the chosen labelling in place of the solution's own.
    pub fn labels_of(self, solution: Solution) -> Solution {
        match self {
            Self::Own => solution,
            Self::Best => solution.with_best_labeling(),
        }
    }
}

impl std::fmt::Display for Take {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(match self {
            Self::Own => "own",
            Self::Best => "best",
        })
    }
}

/// Whether reports list the iterations.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "General")]
pub struct TraceArgs {
    /// With --json: also report every iteration (time, filter calls, energy, bound)
    #[arg(long, requires = "json")]
    pub trace: bool,
}

/// When to stop.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Method")]
pub struct LimitArgs {
    /// Largest number of iterations of each stage [default: the method's own]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_iter: Option<u32>,
    /// Stop a stage when an iteration improves the objective by less than this fraction of the model's scale [default: the method's own]
    #[arg(long, value_name = "X", value_parser = specs::tolerance, allow_hyphen_values = true)]
    pub tol: Option<f64>,
    /// Stop after this time: 500ms, 2s, 1.5m
    #[arg(long, value_name = "T", value_parser = specs::duration, allow_hyphen_values = true)]
    pub time_limit: Option<Duration>,
    /// Stop when the energy is proved to be this close to the optimum: 0.1% or 0.001
    #[arg(long, value_name = "G", value_parser = specs::gap, allow_hyphen_values = true)]
    pub until_gap: Option<f64>,
    /// Random roundings tried at the end of each LP stage [default: 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub roundings: Option<u16>,
}

impl LimitArgs {
    /// The settings of a run within these limits.
    pub fn settings(&self, seed: u64) -> Settings {
        Settings {
            max_iterations: self.max_iter.map(|n| n as usize),
            tolerance: self.tol,
            time_limit: self.time_limit,
            until_gap: self.until_gap,
            seed,
            roundings: self.roundings.map_or(Settings::default().roundings, usize::from),
            ..Settings::default()
        }
    }
}

/// Largest number of threads. More are a typing error, and would exhaust the system's memory.
pub const MAX_THREADS: u16 = 1024;

/// Options of every command.
#[derive(Debug, Args)]
#[command(next_help_heading = "General")]
pub struct CommonArgs {
    /// Threads [default: RAYON_NUM_THREADS, or all cores]. Results do not depend on it
    #[arg(long, value_name = "N", env = "RELAXCRF_NUM_THREADS", value_parser = clap::value_parser!(u16).range(1..=i64::from(MAX_THREADS)))]
    pub threads: Option<u16>,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// Print one JSON object instead of a table
    #[arg(long)]
    pub json: bool,
    /// Print errors only: no progress, no warnings, no summary
    #[arg(short, long)]
    pub quiet: bool,
    /// Time between lines of progress if standard error is not a terminal
    #[arg(long, value_name = "T", default_value = "10s", value_parser = specs::duration, allow_hyphen_values = true)]
    pub progress_every: Duration,
}
