//! Unary energies from whole files.

use std::path::Path;

use anyhow::{Context, Result, bail};
use relaxcrf::labeling::MAX_LABELS;
use relaxcrf_io as io;

use super::labels::{self, LabelValues};
use super::source::{Source, is_tiff};
use super::windows::UnaryWindows;
use super::{check_size, values};
use crate::messages::Messages;
use crate::options::UnaryOptions;
use crate::specs::extension;

/// Unary energies of an image's pixels.
pub struct Unary {
    /// Number of labels.
    pub labels: usize,
    /// One row of energies per pixel.
    pub rows: Vec<f32>,
    /// The label map's values that stand for the labels.
    pub values: LabelValues,
}

/// Position of the channels in an array: one per label, or one for the foreground.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channels {
    /// One channel per label, on this axis.
    OnAxis(usize),
    /// Height x width without an axis of channels.
    One,
}

/// Reads all unary energies.
pub fn read_unary(
    source: Source,
    size: (usize, usize),
    image_path: &Path,
    args: &UnaryOptions,
    messages: &Messages,
) -> Result<Unary> {
    let array = match source {
        Source::Labels(path) => return labels::read(path, size, image_path, args, messages),
        Source::Unary(path) if extension(path) == "c_unary" => {
            let scores = io::CompressedScores::read(path)?;
            let (width, height, labels) = (scores.width(), scores.height(), scores.labels());
            check_label_count(path, labels)?;
            check_size(source.what(), path, (width, height), image_path, size)?;
            let (rows, values) = (scores.energies().label_rows(), LabelValues::default());
            return Ok(Unary { labels, rows, values });
        }
        _ if source.files().len() == 1 && is_tiff(source.path()) => {
            let mut windows = UnaryWindows::open(source, size, image_path, args, messages)?;
            let rows = windows.read(&[0..size.1, 0..size.0], messages)?;
            return Ok(Unary { labels: windows.labels(), rows, values: LabelValues::default() });
        }
        Source::Probabilities([path]) if is_picture(path) => {
            io::read_label_images(std::slice::from_ref(path))?
        }
        Source::Probabilities(several @ [_, _, ..]) => io::read_label_images(several)?,
        _ => io::read_array(source.path())?,
    };
    let channels = channels(&array.shape, source, size, image_path, args)?;
    let (count, rows) = match channels {
        Channels::One => (1, array.data),
        Channels::OnAxis(axis) => {
            (array.shape[axis], array.into_label_rows(axis).with_context(|| source.name())?)
        }
    };
    let labels = values::labels_of_channels(source, count);
    if labels != count {
        values::note_foreground(source, messages);
    }
    let rows = values::energies(rows, count, source, &[0..size.1, 0..size.0], &mut false, messages)?;
    Ok(Unary { labels, rows, values: LabelValues::default() })
}

/// Counts the labels, from headers if possible.
pub fn label_count(source: Source, args: &UnaryOptions) -> Result<usize> {
    let along_axis = |shape: &[usize]| {
        let axis = if args.label_axis < 0 { args.label_axis + 3 } else { args.label_axis };
        // A shape that does not fit is reported when the array is read.
        let axis = usize::try_from(axis).ok().filter(|_| shape.len() == 3);
        values::labels_of_channels(source, axis.and_then(|axis| shape.get(axis).copied()).unwrap_or(1))
    };
    Ok(match source {
        Source::Unary(path) if extension(path) == "c_unary" => io::CompressedScores::read(path)?.labels(),
        Source::Probabilities(several @ [_, _, ..]) => several.len(),
        Source::Labels(path) => match args.num_labels {
            Some(labels) => labels.into(),
            None => {
                let quiet = Messages::silent();
                labels::reading(&io::read_labels(path)?.labels, path, args, &quiet).map_or(1, |r| r.labels)
            }
        },
        _ => along_axis(&header_shape(source.path())?),
    })
}

/// Fails if an array's header already tells that it does not fit the image's size.
pub fn check_header_size(
    source: Source,
    args: &UnaryOptions,
    image_path: &Path,
    size: (usize, usize),
) -> Result<()> {
    let path = match source {
        Source::Unary(path) | Source::Scores(path) if extension(path) != "c_unary" => path,
        Source::Probabilities([one]) => one,
        _ => return Ok(()),
    };
    let mut shape = header_shape(path)?;
    // Other mismatches are reported when the array is read.
    let axis = usize::try_from(if args.label_axis < 0 { args.label_axis + 3 } else { args.label_axis });
    if let (3, Ok(axis @ 0..3)) = (shape.len(), axis) {
        shape.remove(axis);
        check_size(source.what(), path, (shape[1], shape[0]), image_path, size)?;
    }
    Ok(())
}

/// The shape of an array, or of a picture as one.
fn header_shape(path: &Path) -> Result<Vec<usize>> {
    if path.is_dir() || !(is_picture(path) || is_tiff(path)) {
        return Ok(io::array_shape(path)?);
    }
    let (width, height, bands) = io::image_size(path)?;
    Ok(vec![bands, height, width])
}

/// Whether this is one grey picture and not an array. TIFF files are read by their bands.
fn is_picture(path: &Path) -> bool {
    !path.is_dir() && !is_tiff(path) && !matches!(extension(path).as_str(), "npy" | "npz")
}

/// Finds the channels in an array of this shape, which must fit the image.
pub fn channels(
    shape: &[usize],
    source: Source,
    size: (usize, usize),
    image_path: &Path,
    args: &UnaryOptions,
) -> Result<Channels> {
    let name = source.name();
    let by = shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
    if let &[height, width] = shape
        && source.can_be_foreground()
        && ((width, height) == size || (height, width) == size)
    {
        check_size(source.what(), source.path(), (width, height), image_path, size)?;
        return Ok(Channels::One);
    }
    if shape.len() == 4 {
        let array = source.what().replace(' ', "_");
        let fix = if shape[0] == 1 {
            format!("drop the batch axis: {array}[0]")
        } else {
            "save one array for each image, and use `relaxcrf batch` for many images".into()
        };
        bail!("{name}: has shape {by}; expected three axes, labels x height x width: {fix}");
    }
    if shape.len() != 3 {
        let or_map =
            if source.can_be_foreground() { ", or a foreground map of the image's size" } else { "" };
        bail!(
            "{name}: has shape {by}; expected three axes, labels x height x width (use --label-axis if labels are on \
             another axis){or_map}"
        );
    }
    let axis = if args.label_axis < 0 { args.label_axis + 3 } else { args.label_axis };
    let Some(axis) = usize::try_from(axis).ok().filter(|&a| a < 3) else {
        bail!("--label-axis is {}, but {name} has shape {by}; expected -3 to 2", args.label_axis);
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
    check_label_count(source.path(), shape[axis])?;
    check_size(source.what(), source.path(), (width, height), image_path, size)?;
    Ok(Channels::OnAxis(axis))
}

/// Fails if a file has more labels than a model can have, or none.
pub fn check_label_count(path: &Path, labels: usize) -> Result<()> {
    if (1..=MAX_LABELS).contains(&labels) {
        return Ok(());
    }
    bail!("{}: has {labels} labels; expected 1 to {MAX_LABELS} (see --label-axis)", path.display())
}
