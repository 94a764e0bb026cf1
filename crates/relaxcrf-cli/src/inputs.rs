//! From files to a model: reads, checks that the parts belong together, and warns of likely mistakes.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use relaxcrf::labeling::MAX_LABELS;
use relaxcrf::model::{Compatibility, Kernel, unary};
use relaxcrf::{Image, Labeling, Model, ModelBuilder, io};

use crate::args::{ModelArgs, UnaryArgs};
use crate::report::Messages;
use crate::specs::{BilateralSpec, CompatSpec, GaussianSpec, extension};
use crate::windows::UnaryWindows;

/// Where unary energies come from.
#[derive(Debug, Clone, Copy)]
pub enum Source<'a> {
    /// Probabilities in an array, a directory, or one grey image per label.
    Probabilities(&'a [PathBuf]),
    /// Energies in an array, or compressed scores.
    Unary(&'a Path),
    /// Hard labels.
    Labels(&'a Path),
}

impl<'a> Source<'a> {
    /// The one that was given; clap has seen to it that there is exactly one.
    pub fn choose(probs: &'a [PathBuf], unary: Option<&'a PathBuf>, labels: Option<&'a PathBuf>) -> Self {
        match (unary, labels) {
            (Some(path), _) => Self::Unary(path),
            (None, Some(path)) => Self::Labels(path),
            (None, None) => Self::Probabilities(probs),
        }
    }

    /// All files, for messages and for the check that no input is overwritten.
    pub fn files(&self) -> Vec<&'a Path> {
        match *self {
            Self::Probabilities(paths) => paths.iter().map(PathBuf::as_path).collect(),
            Self::Unary(path) | Self::Labels(path) => vec![path],
        }
    }

    pub fn what(&self) -> &'static str {
        match self {
            Self::Probabilities(_) => "probabilities",
            Self::Unary(_) => "unary",
            Self::Labels(_) => "label map",
        }
    }

    /// The file, or the first of several.
    pub fn name(&self) -> String {
        self.files().first().map(|path| path.display().to_string()).unwrap_or_default()
    }
}

/// Unary energies of an image's pixels.
pub struct Unary {
    /// Their number.
    pub labels: usize,
    /// One row of energies per pixel.
    pub rows: Vec<f32>,
}

/// Reads everything that `segment` and `energy` share and builds the model.
pub fn model(
    image_path: &Path,
    source: Source,
    unary_args: &UnaryArgs,
    args: &ModelArgs,
    seed: u64,
    messages: &Messages,
) -> Result<Model> {
    Ok(image_and_model(image_path, source, unary_args, args, seed, messages)?.1)
}

/// The same for those who show the image too.
pub fn image_and_model(
    image_path: &Path,
    source: Source,
    unary_args: &UnaryArgs,
    args: &ModelArgs,
    seed: u64,
    messages: &Messages,
) -> Result<(Image, Model)> {
    let (image, labels, rows) = image_and_rows(image_path, source, unary_args, messages)?;
    if labels == 1 {
        messages.warn(&format!(
            "{}: there is only one label, so there is nothing to decide; a two-label problem needs its \
             background as a label too",
            source.name()
        ));
    }
    warn_about_scale(&image, image_path, &args.bilateral, messages);
    let model = assemble(&image, labels, rows, args, seed)
        .with_context(|| format!("{} with {}", image_path.display(), source.name()))?;
    Ok((image, model))
}

/// An image, its number of labels, and its unary energies, one row per pixel.
pub fn image_and_rows(
    image_path: &Path,
    source: Source,
    unary_args: &UnaryArgs,
    messages: &Messages,
) -> Result<(Image, usize, Vec<f32>)> {
    let image = io::read_image(image_path)?;
    let unary = read_unary(source, (image.width, image.height), image_path, unary_args, messages)?;
    Ok((image, unary.labels, unary.rows))
}

/// A model on an image's grid with these unary energies, one row per pixel.
pub fn assemble(image: &Image, labels: usize, rows: Vec<f32>, args: &ModelArgs, seed: u64) -> Result<Model> {
    Ok(builder(image, labels, args, seed)?.unary(rows).build()?)
}

/// The kernels on an image.
pub fn kernels(args: &ModelArgs, image: &[f32]) -> Vec<Kernel> {
    let bilateral = args.bilateral.iter().map(|b| b.kernel(image.to_vec()));
    args.gaussian.iter().map(GaussianSpec::kernel).chain(bilateral).collect()
}

/// Everything of a model but its unary energies.
pub fn builder(image: &Image, labels: usize, args: &ModelArgs, seed: u64) -> Result<ModelBuilder> {
    let compatibility = compatibility(&args.compat, labels)?;
    let mut builder = ModelBuilder::image(image.width, image.height, labels)
        .compatibility(compatibility)
        .filter(args.filter)
        .normalization(args.normalization.unwrap_or_default());
    for kernel in kernels(args, &image.data) {
        builder = builder.kernel(kernel);
    }
    Ok(if args.calibrate { builder.calibrate(seed) } else { builder })
}

/// A labelling to evaluate; it must fit the model.
pub fn labeling(path: &Path, image_path: &Path, model: &Model) -> Result<Labeling> {
    let map = io::read_labels(path)?;
    let size = (model.sizes()[1], model.sizes()[0]);
    check_size("label map", path, (map.width, map.height), image_path, size)?;
    let labeling = Labeling::new(map.labels);
    labeling.check(model.pixels(), model.labels()).with_context(|| path.display().to_string())?;
    Ok(labeling)
}

/// The same model with half of all weights.
pub fn halved(args: &ModelArgs) -> ModelArgs {
    ModelArgs {
        gaussian: args.gaussian.iter().map(GaussianSpec::halved).collect(),
        bilateral: args.bilateral.iter().map(BilateralSpec::halved).collect(),
        ..args.clone()
    }
}

/// The flags that make this model, all of them: what identifies stored results.
pub fn describe(args: &ModelArgs) -> String {
    let mut flags = vec![kernel_flags(args)];
    flags.push(format!("--normalization {}", args.normalization.unwrap_or_default()));
    flags.push(format!("--filter {}", args.filter));
    if args.compat != CompatSpec::Potts {
        flags.push(format!("--compat {}", args.compat));
    }
    if args.calibrate {
        flags.push("--calibrate".into());
    }
    flags.join(" ")
}

/// The kernels as they are typed.
pub fn kernel_flags(args: &ModelArgs) -> String {
    let gaussian = args.gaussian.iter().map(GaussianSpec::flag);
    gaussian.chain(args.bilateral.iter().map(BilateralSpec::flag)).collect::<Vec<_>>().join(" ")
}

/// Reads all unary energies.
pub fn read_unary(
    source: Source,
    size: (usize, usize),
    image_path: &Path,
    args: &UnaryArgs,
    messages: &Messages,
) -> Result<Unary> {
    match source {
        Source::Unary(path) if extension(path) == "c_unary" => {
            let scores = io::CompressedScores::read(path)?;
            let (width, height, labels) = (scores.width(), scores.height(), scores.labels());
            check_label_count(path, labels)?;
            check_size(source.what(), path, (width, height), image_path, size)?;
            Ok(Unary { labels, rows: scores.energies().label_rows() })
        }
        Source::Unary(path) if is_tiff(path) => whole_raster(source, size, image_path, args, messages),
        Source::Unary(path) => rows_of(io::read_array(path)?, source, size, image_path, args),
        Source::Probabilities(paths) => {
            let array = match paths {
                [one] if is_tiff(one) => return whole_raster(source, size, image_path, args, messages),
                [one] if one.is_dir() || matches!(extension(one).as_str(), "npy" | "npz") => {
                    io::read_array(one)?
                }
                several => io::read_label_images(several)?,
            };
            let mut unary = rows_of(array, source, size, image_path, args)?;
            warn_about_sums(&unary.rows, unary.labels, source, messages);
            unary.rows = unary::from_probabilities(&unary.rows, unary.labels, unary::DEFAULT_FLOOR)
                .with_context(|| source.name())?;
            Ok(unary)
        }
        Source::Labels(path) => from_labels(path, size, image_path, args, messages),
    }
}

/// How many labels there are, from headers where they say so.
pub fn label_count(source: Source, args: &UnaryArgs) -> Result<usize> {
    let along_axis = |shape: &[usize]| {
        let axis = if args.label_axis < 0 { args.label_axis + 3 } else { args.label_axis };
        // What does not fit is explained when it is read.
        usize::try_from(axis).ok().and_then(|axis| shape.get(axis).copied()).unwrap_or(1)
    };
    Ok(match source {
        Source::Unary(path) if extension(path) == "c_unary" => io::CompressedScores::read(path)?.labels(),
        Source::Unary(path) => along_axis(&io::array_shape(path)?),
        Source::Probabilities([one]) => along_axis(&io::array_shape(one)?),
        Source::Probabilities(several) => several.len(),
        Source::Labels(path) => match args.num_labels {
            Some(labels) => labels.into(),
            None => {
                let map = io::read_labels(path)?;
                let largest = map.labels.iter().copied().filter(|&l| Some(l) != args.unsure).max();
                largest.map_or(1, |l| usize::from(l) + 1)
            }
        },
    })
}

/// Fails if an array's header already tells that it does not fit the image's size.
pub fn check_header_size(
    source: Source,
    args: &UnaryArgs,
    image_path: &Path,
    size: (usize, usize),
) -> Result<()> {
    let path = match source {
        Source::Unary(path) if extension(path) != "c_unary" => path,
        Source::Probabilities([one]) => one,
        _ => return Ok(()),
    };
    let mut shape = io::array_shape(path)?;
    // What does not fit otherwise is explained when it is read.
    let axis = usize::try_from(if args.label_axis < 0 { args.label_axis + 3 } else { args.label_axis });
    if let (3, Ok(axis @ 0..3)) = (shape.len(), axis) {
        shape.remove(axis);
        check_size(source.what(), path, (shape[1], shape[0]), image_path, size)?;
    }
    Ok(())
}

/// All bands of a TIFF file.
fn whole_raster(
    source: Source,
    size: (usize, usize),
    image_path: &Path,
    args: &UnaryArgs,
    messages: &Messages,
) -> Result<Unary> {
    let mut windows = UnaryWindows::open(source, size, image_path, args, messages)?;
    let rows = windows.read(&[0..size.1, 0..size.0], messages)?;
    Ok(Unary { labels: windows.labels(), rows })
}

/// One row of values per pixel from an array with a label axis and two of space.
fn rows_of(
    array: io::Array,
    source: Source,
    size: (usize, usize),
    image_path: &Path,
    args: &UnaryArgs,
) -> Result<Unary> {
    let axis = label_axis(&array.shape, source, size, image_path, args)?;
    let labels = array.shape[axis];
    let rows = array.into_label_rows(axis).with_context(|| source.name())?;
    Ok(Unary { labels, rows })
}

/// The axis of the labels in an array of this shape, which must fit the image.
pub fn label_axis(
    shape: &[usize],
    source: Source,
    size: (usize, usize),
    image_path: &Path,
    args: &UnaryArgs,
) -> Result<usize> {
    let name = source.name();
    let by = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
    if shape.len() != 3 {
        bail!(
            "{name}: holds an array of {by}; wanted three axes: labels x height x width (see --label-axis)"
        );
    }
    let axis = if args.label_axis < 0 { args.label_axis + 3 } else { args.label_axis };
    let Some(axis) = usize::try_from(axis).ok().filter(|&a| a < 3) else {
        bail!("--label-axis is {}, but {name} is an array of {by}: wanted -3 to 2", args.label_axis);
    };
    let space = |axis: usize| {
        let rest: Vec<usize> = (0..3).filter(|&a| a != axis).map(|a| shape[a]).collect();
        (rest[1], rest[0])
    };
    let (width, height) = space(axis);
    let better = (0..3).find(|&a| a != axis && space(a) == size);
    if let Some(better) = better.filter(|_| (width, height) != size) {
        bail!(
            "image {} is {}x{} but {} {name} is {width}x{height} with {} labels: are the labels on axis {better} \
             (--label-axis {better})?",
            image_path.display(),
            size.0,
            size.1,
            source.what(),
            shape[axis],
        );
    }
    let path = source.files().first().copied().unwrap_or(Path::new(""));
    check_label_count(path, shape[axis])?;
    check_size(source.what(), path, (width, height), image_path, size)?;
    Ok(axis)
}

fn from_labels(
    path: &Path,
    size: (usize, usize),
    image_path: &Path,
    args: &UnaryArgs,
    messages: &Messages,
) -> Result<Unary> {
    let map = io::read_labels(path)?;
    check_size("label map", path, (map.width, map.height), image_path, size)?;
    let largest = map.labels.iter().copied().filter(|&l| Some(l) != args.unsure).max();
    let labels = match (args.num_labels, largest) {
        (Some(n), _) => usize::from(n),
        (None, Some(l)) => usize::from(l) + 1,
        (None, None) => {
            bail!("{}: every pixel is marked unsure; wanted some labels, or --num-labels", path.display())
        }
    };
    if args.num_labels.is_none() && labels == 256 {
        messages.warn(&format!(
            "{}: label 255 occurs and makes 256 labels; if it means undecided, say --unsure 255",
            path.display()
        ));
    }
    check_label_count(path, labels)?;
    let rows = unary::from_labels(&map.labels, labels, args.confidence, args.unsure)
        .with_context(|| path.display().to_string())?;
    Ok(Unary { labels, rows })
}

fn compatibility(spec: &CompatSpec, labels: usize) -> Result<Compatibility> {
    Ok(match spec {
        CompatSpec::Potts => Compatibility::potts(labels),
        CompatSpec::Linear(truncation) => Compatibility::linear(labels, *truncation)?,
        CompatSpec::Weights(weights) => {
            if weights.len() != labels {
                bail!(
                    "--compat has {} weights, but there are {labels} labels: wanted one each",
                    weights.len()
                );
            }
            Compatibility::per_label(weights.clone())?
        }
        CompatSpec::File(path) => {
            let array = io::read_array(path)?;
            if array.shape != [labels, labels] {
                let by = array.shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
                bail!(
                    "{}: holds an array of {by}; wanted {labels} x {labels}, a cost for every pair of labels",
                    path.display()
                );
            }
            Compatibility::matrix(labels, array.data).with_context(|| path.display().to_string())?
        }
    })
}

pub fn check_label_count(path: &Path, labels: usize) -> Result<()> {
    if (1..=MAX_LABELS).contains(&labels) {
        return Ok(());
    }
    bail!("{}: has {labels} labels; wanted 1 to {MAX_LABELS} (see --label-axis)", path.display())
}

/// Sizes are width and height.
pub fn check_size(
    what: &str,
    path: &Path,
    got: (usize, usize),
    image_path: &Path,
    wanted: (usize, usize),
) -> Result<()> {
    if got == wanted {
        return Ok(());
    }
    let hint = if (got.1, got.0) == wanted { ": transposed?" } else { "; both must have the same size" };
    bail!(
        "image {} is {}x{} but {what} {} is {}x{} (width x height){hint}",
        image_path.display(),
        wanted.0,
        wanted.1,
        path.display(),
        got.0,
        got.1
    )
}

pub fn warn_about_scale(image: &Image, path: &Path, bilateral: &[BilateralSpec], messages: &Messages) {
    let largest = image.data.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let widest = bilateral.iter().map(BilateralSpec::widest_color).fold(0.0, f32::max);
    // A black image is just that.
    if largest > 0.0 && largest <= 1.0 && widest > 1.0 {
        messages.warn(&format!(
            "{}: no value exceeds {largest}, but a colour sigma is {widest}: is the image scaled from 0 to 1? \
             Sigmas are in the image's own units",
            path.display()
        ));
    }
}

/// Whether a warning was due.
pub fn warn_about_sums(rows: &[f32], labels: usize, source: Source, messages: &Messages) -> bool {
    // Room for eight-bit images, whose every value is rounded.
    let slack = 0.01 + 0.002 * labels as f32;
    let sums = rows.chunks_exact(labels).map(|row| row.iter().sum::<f32>());
    let off: Vec<f32> = sums.filter(|sum| (sum - 1.0).abs() > slack).collect();
    let worst =
        off.iter().copied().fold(1.0f32, |w, s| if (s - 1.0).abs() > (w - 1.0).abs() { s } else { w });
    if !off.is_empty() {
        messages.warn(&format!(
            "{}: the probabilities of {} of {} pixels do not sum to 1 (one sums to {worst:.3}); are these scores, \
             or is the label axis another one?",
            source.name(),
            off.len(),
            rows.len() / labels
        ));
    }
    !off.is_empty()
}

/// Whether the file's name says so; what is in it decides when it is read.
pub fn is_tiff(path: &Path) -> bool {
    matches!(extension(path).as_str(), "tif" | "tiff")
}
