//! Arguments of `stereo`, `compare`, `reproduce` and `study`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use relaxcrf_lab::disparity::{AggregationSpec, CostSpec, MatchingOptions, Truncation, TruthFiles};
use relaxcrf_lab::methods::{MethodList, STEREO};
use relaxcrf_stereo::{Aggregation, CostOptions, Measure, Quality};

use super::datasets::{PresetArgs, ReproduceSegmentationArgs};
use super::{CommonArgs, LimitArgs, ModelArgs, ResourceArgs, RunArgs, TraceArgs, UnaryArgs, UnaryFiles};
use crate::specs;

/// `relaxcrf stereo`.
#[derive(Debug, Args)]
#[command(
    override_usage = "relaxcrf stereo [OPTIONS] <LEFT> <RIGHT> -o OUT",
    after_help = STEREO_HELP
)]
pub struct StereoArgs {
    /// The left picture of a rectified pair
    pub left: PathBuf,
    /// The right picture: left pixel x matches right pixel x - disparity
    pub right: PathBuf,
    /// Number of disparities: the labels are 0 to N - 1 [default: estimated from the pictures]
    #[arg(short, long, value_name = "N")]
    pub disparities: Option<usize>,
    /// Work that goes into a map without a method or model of its own: fast, normal or best
    #[arg(long, value_name = "Q", default_value = "normal", value_parser = specs::quality)]
    pub quality: Quality,
    #[command(flatten)]
    pub cost: CostArgs,
    #[command(flatten)]
    pub truth: TruthArgs,
    /// Disparity map to write: .png (grey, disparity times a scale), .pfm or .npy. Repeatable
    #[arg(short, long, value_name = "OUT", required = true, value_parser = specs::disparity_output)]
    pub output: Vec<PathBuf>,
    /// Grey value per disparity in .png output [default: 8 bits: --scale, or as much as fits; 16 bits: 256]
    #[arg(long, value_name = "S", value_parser = specs::positive)]
    pub output_scale: Option<f64>,
    /// Bits of .png output: 8, or 16 as the KITTI files have
    #[arg(long, value_name = "B", default_value = "8", value_parser = ["8", "16"])]
    pub bits: String,
    /// Also write the disparities as a picture in colours
    #[arg(long, visible_alias = "colors", value_name = "F.png", value_parser = specs::picture_output)]
    pub colours: Option<PathBuf>,
    /// Also write the disparities of the right picture, as the output of the left one
    #[arg(long, value_name = "OUT", value_parser = specs::disparity_output)]
    pub right_output: Option<PathBuf>,
    /// Also write a mask, 255 where the right picture does not confirm the disparity: hidden, outside, or mismatched
    #[arg(long, value_name = "F.png", value_parser = specs::picture_output)]
    pub occluded: Option<PathBuf>,
    /// Also write how certain each disparity is, from 0 to 1 (.pfm, .npy) or 255 (.png)
    #[arg(long, value_name = "F", value_parser = specs::disparity_output)]
    pub confidence: Option<PathBuf>,
    /// Calibration: a Middlebury calib.txt, or the 16 numbers of a reprojection matrix Q
    #[arg(long, value_name = "F.txt")]
    pub calibration: Option<PathBuf>,
    /// Also write depths, in the unit of the calibration's baseline
    #[arg(long, value_name = "F", requires = "calibration", value_parser = specs::depth_output)]
    pub depth: Option<PathBuf>,
    /// Also write a coloured point cloud
    #[arg(long, value_name = "F.ply", requires = "calibration", value_parser = specs::points_output)]
    pub points: Option<PathBuf>,
    #[command(flatten)]
    pub resources: ResourceArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

// Paragraphs are single lines: clap breaks them to the terminal's width.
const STEREO_HELP: &str = "\
Without a method, kernels or limits, disparities come from costs summed along paths, checked in both pictures, filled \
where they do not agree, and refined to fractions of a pixel: seconds, and the best choice unless you study energies.

With --method, --gaussian, --bilateral, --compat or a limit of the method, the labels of that dense CRF on the matching \
costs are written as they are. Without kernels: --gaussian 3:8 --bilateral 20:10:16, the best of a few tried on two Middlebury pairs (census: \
as much weaker as its costs are smaller). The paper's \
experiments used much stronger ones; --gaussian 3:40 --bilateral 50:10:50 stands for them.";

/// How pixels of a pair are compared.
#[derive(Debug, Clone, Args)]
pub struct CostArgs {
    /// Matching cost: ad (absolute difference), bt (Birchfield-Tomasi), census, census:R, ad-census, zncc or zncc:R
    /// (correlation) [default: ad-census; ad for a dense CRF with a method of its own]
    #[arg(long, value_name = "C")]
    pub cost: Option<CostSpec>,
    /// Average costs over: none, cross (regions of like colour), box:R or edge:SXY:SRGB [default: cross; none for a dense
    /// CRF with a method of its own]
    #[arg(long, value_name = "A")]
    pub aggregate: Option<AggregationSpec>,
    /// Largest cost; `none` for no limit [default: ad 40, bt 20, census half its neighbours, ad-census 2,
    /// zncc 1]
    #[arg(long, value_name = "T")]
    pub truncate: Option<Truncation>,
    /// Round costs to multiples of this
    #[arg(long, value_name = "R", value_parser = specs::positive)]
    pub cost_step: Option<f64>,
}

impl CostArgs {
    /// The options as the lab takes them.
    pub fn options(&self) -> MatchingOptions {
        self.options_with(CostSpec(Measure::AbsoluteDifference))
    }

    /// What was typed, on costs averaged over regions.
    pub fn dense_options(&self) -> CostOptions {
        let options = self.options_with(CostSpec(Measure::AdCensus)).options();
        let aggregation = self.aggregate.map_or(Aggregation::Cross, |a| a.0);
        CostOptions { aggregation, ..options }
    }

    /// The cost that was typed, or the usual one.
    fn options_with(&self, usual: CostSpec) -> MatchingOptions {
        MatchingOptions {
            cost: self.cost.unwrap_or(usual),
            truncate: self.truncate,
            aggregation: self.aggregate,
            cost_step: self.cost_step,
        }
    }
}

/// What is known about the true disparities.
#[derive(Debug, Clone, Default, Args)]
pub struct TruthArgs {
    /// The truth to compare with. Disparities: .pfm, .npy or .npz in pixels, or grey values that --scale divides; 0 is
    /// unknown
    #[arg(long, value_name = "T")]
    pub truth: Option<PathBuf>,
    /// Grey value per pixel of disparity in the truth files
    #[arg(long, value_name = "S", requires = "truth", value_parser = specs::positive)]
    pub scale: Option<f64>,
    /// True disparities of the right picture: left pixels that disagree with it are occluded
    #[arg(long, value_name = "T", requires = "truth", conflicts_with = "visible")]
    pub truth_right: Option<PathBuf>,
    /// Mask whose largest value marks the pixels that both pictures see
    #[arg(long, value_name = "M", requires = "truth")]
    pub visible: Option<PathBuf>,
}

impl TruthArgs {
    /// The files that were named.
    pub fn files(&self) -> TruthFiles {
        TruthFiles {
            truth: self.truth.clone(),
            scale: self.scale,
            truth_right: self.truth_right.clone(),
            visible: self.visible.clone(),
        }
    }
}

/// `relaxcrf compare`.
#[derive(Debug, Args)]
#[command(override_usage = "relaxcrf compare [OPTIONS] <IMAGE> --report OUT.html\n                        \
                      (--probs F... | --logits F | --unary F | --labels F)\n       \
                      relaxcrf compare [OPTIONS] <LEFT> --right F --disparities N --report OUT.html")]
pub struct CompareArgs {
    /// The image to segment, or the left picture of a stereo pair
    pub image: PathBuf,
    #[command(flatten)]
    pub source: CompareSource,
    #[command(flatten)]
    pub unary: UnaryArgs,
    /// Number of disparities of a stereo pair
    #[arg(short, long, value_name = "N", requires = "right")]
    pub disparities: Option<usize>,
    #[command(flatten)]
    pub cost: CostArgs,
    #[command(flatten)]
    pub truth: TruthArgs,
    /// Methods and chains, separated by commas; see `relaxcrf methods` [default: all, and the paper's chains]
    #[arg(short, long, value_name = "M,M,...")]
    pub methods: Option<MethodList>,
    /// Methods to run also with half of all weights, scored with the full ones
    #[arg(long, value_name = "M,M,...")]
    pub half_weights: Option<MethodList>,
    /// Page to write: one HTML file with pictures, plots and tables, for any browser, no network needed
    #[arg(short, long, value_name = "F.html", value_parser = specs::page_output)]
    pub report: Option<PathBuf>,
    /// Table to write
    #[arg(long, value_name = "F.csv", value_parser = specs::csv_output)]
    pub csv: Option<PathBuf>,
    #[command(flatten)]
    pub preset: PresetArgs,
    #[command(flatten)]
    pub model: ModelArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub trace: TraceArgs,
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Where `compare` takes its unary energies from.
#[derive(Debug, Args)]
#[group(required = true, multiple = false, args = ["probs", "logits", "unary", "labels", "right"])]
pub struct CompareSource {
    #[command(flatten)]
    pub files: UnaryFiles,
    /// Hard labels to correct: indexed or grey image, or an integer H x W array
    #[arg(long, value_name = "F")]
    pub labels: Option<PathBuf>,
    /// The right picture of a stereo pair; needs --disparities
    #[arg(long, value_name = "F", requires = "disparities")]
    pub right: Option<PathBuf>,
}

/// `relaxcrf reproduce`.
#[derive(Debug, Subcommand)]
pub enum ReproduceCommand {
    /// Stereo pairs: final energies, energy against time, disparity maps
    Stereo(ReproduceStereoArgs),
    /// Images of a data directory: which method beats which on energy, accuracy and IoU
    Segmentation(ReproduceSegmentationArgs),
}

/// `relaxcrf reproduce stereo`.
#[derive(Debug, Args)]
#[command(after_help = LAYOUT_HELP)]
pub struct ReproduceStereoArgs {
    /// Directory of pairs: one folder each, or a pairs.csv
    pub dir: PathBuf,
    /// Directory for stereo.html, stereo.md, stereo.csv, pictures and plots; created if absent
    #[arg(long, value_name = "DIR", default_value = "reproduce-out")]
    pub out: PathBuf,
    /// Methods and chains to compare, separated by commas: see `relaxcrf methods`
    #[arg(short, long, value_name = "M,M,...", default_value = STEREO)]
    pub methods: MethodList,
    /// Methods to run also with half of all weights, scored with the full ones, as the paper's code ran its mean field
    /// [default: mf5,mf, unless methods are named]
    #[arg(long, value_name = "M,M,...")]
    pub half_weights: Option<MethodList>,
    /// Time limit of each stage of each method on each pair
    #[arg(long, value_name = "T", default_value = "90s", value_parser = specs::duration, allow_hyphen_values = true)]
    pub time_limit: Duration,
    /// Only pairs of these names
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub only: Vec<String>,
    #[command(flatten)]
    pub common: CommonArgs,
}

const LAYOUT_HELP: &str = "\
A folder holds a pair if it has im2 and im6 (Middlebury 2001 and 2003), im0 and im1, view1 and view5 (2005 and 2006), \
or scene1.row3.col3 and scene1.row3.col4 (Tsukuba), with the truth as disp2, disp0, disp1 or truedisp.row3.col3. \
Numbers of disparities and truth scales of the published sets are known by name.

pairs.csv has the columns name, left, right, disparities and, if known, truth, scale, truth_right, visible; files are \
relative to it.

Iterations: mf 350, dc-gen 20, lp 5 (as in the paper), smooth-lp 40, the others their own defaults. The model is the paper's: absolute differences cut at 40, kernels 3:40 and 50:10:50, Potts, symmetric normalisation.";

/// `relaxcrf study`.
#[derive(Debug, Subcommand)]
pub enum StudyCommand {
    /// The lattice against the true Gaussian sums: scale and shape, by image size and sigma
    Filter(StudyFilterArgs),
}

/// `relaxcrf study filter`.
#[derive(Debug, Args)]
pub struct StudyFilterArgs {
    /// Directory for filter.html, filter.md, filter.csv and the plots; created if absent
    #[arg(long, value_name = "DIR", default_value = "study-out")]
    pub out: PathBuf,
    /// Standard deviations in pixels
    #[arg(long, value_name = "S", value_delimiter = ',', default_value = "1,3,5,10,20,50", value_parser = specs::positive)]
    pub sigmas: Vec<f64>,
    /// Sides of the square images
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "10,20,40,80,120,160,200,260",
          value_parser = clap::value_parser!(u32).range(2..=1000))]
    pub sides: Vec<u32>,
    /// Image for the kernels on position and colour [default: a generated scene]
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<PathBuf>,
    #[command(flatten)]
    pub common: CommonArgs,
}
