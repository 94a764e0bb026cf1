//! Arguments of `batch`, and limits of memory.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use relaxcrf::solve::Pipeline;
use relaxcrf_lab::specs::VoidSpec;

use super::{ColourArgs, CommonArgs, LimitArgs, ModelArgs, PresetArgs, Take, UnaryArgs};
use crate::specs::{self, Shard};

/// Limits and forecasts of a run.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Resources")]
pub struct ResourceArgs {
    /// Refuse problems that need more memory than this: 2GiB, 500MB
    #[arg(long, value_name = "M", value_parser = specs::bytes)]
    pub max_memory: Option<u64>,
    /// Print how much memory and time the run would take, and do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// How label maps are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LabelFormat {
    /// Indexed PNG, 16-bit grey beyond 256 labels
    Png,
    /// NumPy array of the smallest unsigned type
    Npy,
}

impl LabelFormat {
    /// The ending of a file name.
    pub fn ending(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Npy => "npy",
        }
    }
}

/// `relaxcrf batch`.
#[derive(Debug, Args)]
#[command(
    override_usage = "relaxcrf batch [OPTIONS] <MANIFEST | DIR | 'GLOB' | IMAGE...> -o OUT",
    after_help = BATCH_HELP
)]
pub struct BatchArgs {
    /// A manifest (.csv, .jsonl), a directory, a glob pattern in quotes, or images: see below
    #[arg(value_name = "INPUT", required = true, num_args = 1..)]
    pub inputs: Vec<PathBuf>,
    /// Directory for the results; created if absent. An interrupted run resumes from it
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    #[command(flatten)]
    pub source: BatchSource,
    /// Directory of true label maps, to measure accuracy and IoU before and after [default: ../truth beside the images, if
    /// it is there]
    #[arg(long, value_name = "DIR", help_heading = "Data")]
    pub truth: Option<PathBuf>,
    /// True label that counts nowhere [default: from labels.json, else 255; `none`: every label counts]
    #[arg(long, value_name = "V", help_heading = "Data")]
    pub void: Option<VoidSpec>,
    /// Which images of a data directory: NAME for DIR/NAME.txt, a file with one ID per line, or `all`
    #[arg(long, value_name = "S", default_value = "all", help_heading = "Data")]
    pub split: String,
    /// Use only the first N images
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Data")]
    pub limit: Option<u32>,
    /// Do one part of the list only: I/N, counted from 1. All parts may write to the same OUT
    #[arg(long, value_name = "I/N", help_heading = "Data")]
    pub shard: Option<Shard>,
    #[command(flatten)]
    pub unary: UnaryArgs,
    /// How label maps are written
    #[arg(long, value_name = "F", default_value = "png")]
    pub format: LabelFormat,
    /// Also write the beliefs that the last stage ended with: OUT/probs/NAME.npy, labels x height x width
    #[arg(long, visible_alias = "probabilities")]
    pub save_probs: bool,
    /// Also write a page about the whole set: throughput, largest changes, failures, measures
    #[arg(long, value_name = "F.html", value_parser = specs::page_output)]
    pub report: Option<PathBuf>,
    #[command(flatten)]
    pub colours: ColourArgs,
    /// Images at the same time [default: the number of threads]. Threads are divided among them
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Skip finished images: same inputs, same settings, outputs still there. This is the default
    #[arg(long, conflicts_with = "fresh")]
    pub resume: bool,
    /// Do all images again, finished ones too
    #[arg(long, visible_alias = "no-resume")]
    pub fresh: bool,
    #[command(flatten)]
    pub resources: ResourceArgs,
    #[command(flatten)]
    pub preset: PresetArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    /// Method, or a chain of them such as qp+dc-neg: see `relaxcrf methods` [default: the preset's]
    #[arg(short, long, value_name = "M", help_heading = "Method")]
    pub method: Option<Pipeline>,
    /// Labels to write: the method's own, or the best labelling seen, constant ones included
    #[arg(long, value_name = "own|best", default_value_t, help_heading = "Method")]
    pub take: Take,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Where the unary energies of images are, if not beside them.
#[derive(Debug, Args)]
#[group(multiple = false)]
#[command(next_help_heading = "Data")]
pub struct BatchSource {
    /// Directory of probabilities: NAME.npy, NAME.npz, folders NAME with one grey image per label, or foreground maps
    /// NAME.png
    #[arg(long, value_name = "DIR")]
    pub probs: Option<PathBuf>,
    /// Directory of logits or other scores, higher is better (.npy, .npz): energies are -log softmax
    #[arg(long, value_name = "DIR")]
    pub logits: Option<PathBuf>,
    /// Directory of energies (.npy, .npz) or compressed scores (.c_unary)
    #[arg(long, value_name = "DIR")]
    pub unary: Option<PathBuf>,
    /// Directory of hard labels to correct: indexed or grey images, or integer arrays; masks of 0 and 255 too
    #[arg(long, value_name = "DIR")]
    pub labels: Option<PathBuf>,
}

const BATCH_HELP: &str = "\
INPUT is one of
  - a data directory: images/NAME.png (or .jpg, ...), and probs/, logits/, unary/ or labels/ with files of the same names; \
optionally truth/ and labels.json;
  - any other directory of images, a glob pattern, or images: each NAME.jpg with its probabilities NAME.npy (or .npz, or scores \
NAME.c_unary) beside it, in ../probs, or in the directory that --probs, --logits, --unary or --labels names;
  - a manifest: CSV with a heading, or one JSON object per line, with the columns image, one of probabilities, logits, \
unaries or labels, and optionally truth and output (the name of the results). Paths are relative to the manifest.

OUT gets labels/NAME.png, probs/NAME.npy if asked for, and log.jsonl with one line per image: energy, bound, seconds, the fraction \
of pixels that changed, or the error. An image that fails is reported and left out; the run continues, and the exit code \
is 1. Every file appears whole or not at all. After an interruption run the same command again: finished images are not done \
again. Several runs may work on the same OUT at the same time and share the work.

Examples:
  relaxcrf batch voc/ -o out --method mf5 --report out/report.html
  relaxcrf batch 'photos/*.jpg' --probs probs/ -o out --jobs 8 --max-memory 8GiB
  relaxcrf batch list.csv -o out --shard 3/16
  relaxcrf batch list.csv -o out --method auto --dry-run";
