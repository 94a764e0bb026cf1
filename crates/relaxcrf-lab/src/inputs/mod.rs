//! Files to models: reads them, checks that they fit together, and warns of likely mistakes.

mod images;
mod labels;
mod source;
mod start;
mod unary;
mod values;
mod windows;

use std::path::Path;

use anyhow::{Context, Result, bail};
use relaxcrf::model::{Compatibility, KernelCost, KernelOptions};
use relaxcrf::{Image, Labeling, Model, ModelBuilder};
use relaxcrf_io as io;
use relaxcrf_io::Window;

pub use self::images::warn_about_image;
pub use self::labels::{LabelValues, Occurring, Reading, energies as energies_of_marks};
pub use self::source::{Source, is_tiff};
pub use self::start::{kept_labels, read_start};
pub use self::unary::{
    Channels, Unary, channels, check_header_size, check_label_count, label_count, read_unary,
};
pub use self::values::{energies as energies_of_values, labels_of_channels, note_foreground};
pub use self::windows::UnaryWindows;
use crate::messages::Messages;
use crate::options::{ModelOptions, UnaryOptions};
use crate::specs::{CompatSpec, CostSpec};

/// A model made from files, with its image and the values of its label map.
pub struct Input {
    /// The image.
    pub image: Image,
    /// The model on the image's grid.
    pub model: Model,
    /// The label map's values that stand for the labels.
    pub values: LabelValues,
}

/// Reads an image and its unary energies and builds the model.
pub fn read(
    image_path: &Path,
    source: Source,
    unary_options: &UnaryOptions,
    args: &ModelOptions,
    seed: u64,
    messages: &Messages,
) -> Result<Input> {
    let (image, unary) = image_and_unary(image_path, source, &unary_options.for_model(args), messages)?;
    let Unary { labels, rows, values } = unary;
    if labels == 1 {
        messages.warn(&format!(
            "{}: there is only one label, so there is nothing to decide; a two-label problem needs its \
             background as a label too",
            source.name()
        ));
    }
    warn_about_image(&image, image_path, &args.bilateral, messages);
    let model = assemble(&image, labels, rows, args, seed)
        .with_context(|| format!("{} with {}", image_path.display(), source.name()))?;
    Ok(Input { image, model, values })
}

/// An image and its unary energies.
pub fn image_and_unary(
    image_path: &Path,
    source: Source,
    unary_options: &UnaryOptions,
    messages: &Messages,
) -> Result<(Image, Unary)> {
    let image = io::read_image(image_path)?;
    let unary = read_unary(source, (image.width, image.height), image_path, unary_options, messages)?;
    Ok((image, unary))
}

/// A model on an image's grid with these unary energies, one row per pixel.
pub fn assemble(
    image: &Image,
    labels: usize,
    rows: Vec<f32>,
    args: &ModelOptions,
    seed: u64,
) -> Result<Model> {
    Ok(builder(image, labels, args, seed)?.unary(rows).build()?)
}

/// Everything of a model but its unary energies.
pub fn builder(image: &Image, labels: usize, args: &ModelOptions, seed: u64) -> Result<ModelBuilder> {
    let compatibility = compatibility(&args.compat, labels)?;
    let mut builder = ModelBuilder::image(image.width, image.height, labels)
        .compatibility(compatibility)
        .filter(args.filter)
        .normalization(args.normalization.unwrap_or_default())
        .learned(args.learned.clone());
    for (kernel, cost) in args.kernels(&image.data).into_iter().zip(args.kernel_costs()) {
        let cost = cost.map_or(Ok(KernelCost::Shared), |cost| kernel_cost(cost, labels))?;
        builder = builder.kernel_with(kernel, KernelOptions { cost, normalization: None });
    }
    Ok(if args.calibrate { builder.calibrate(seed) } else { builder })
}

/// A labelling to evaluate; it must fit the model. Its values are those of the model's label map, if there is one.
pub fn labeling(path: &Path, image_path: &Path, model: &Model, values: &LabelValues) -> Result<Labeling> {
    let map = io::read_labels(path)?;
    let size = (model.sizes()[1], model.sizes()[0]);
    check_size("label map", path, (map.width, map.height), image_path, size)?;
    if let Some(at) = map.labels.iter().position(|&v| values.label(v).is_none()) {
        let known: Vec<String> = (0..model.labels()).map(|l| values.value(l as u16).to_string()).collect();
        bail!(
            "{}: value {} at {}; expected a value of the label map that the unary energies are from: {}",
            path.display(),
            map.labels[at],
            place(at, &[0..size.1, 0..size.0]),
            known.join(", ")
        );
    }
    let labeling = Labeling::new(values.labels(&map.labels).into_owned());
    labeling.check(model.pixels(), model.labels()).with_context(|| path.display().to_string())?;
    Ok(labeling)
}

/// The label cost of one kernel.
fn kernel_cost(spec: &CostSpec, labels: usize) -> Result<KernelCost> {
    Ok(match spec {
        CostSpec::Potts(scale) => KernelCost::Potts(*scale),
        CostSpec::Table(table) => KernelCost::Matrix(compatibility(table, labels)?),
    })
}

/// The edges of a tree: a node, its parent and the edge's length in every line.
fn tree_edges(text: &str) -> Result<Vec<(usize, usize, f32)>> {
    let lines = text.lines().enumerate().map(|(k, line)| (k + 1, line.trim()));
    let edge = |(number, line): (usize, &str)| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let parsed = match fields[..] {
            [node, parent, length] => node.parse().ok().zip(parent.parse().ok()).zip(length.parse().ok()),
            _ => None,
        };
        match parsed {
            Some(((node, parent), length)) => Ok((node, parent, length)),
            None => bail!(
                "line {number} is `{}`; expected NODE,PARENT,LENGTH such as 0,21,1.5 (labels are the nodes 0, 1, 2, ...)",
                relaxcrf::error::plain(line)
            ),
        }
    };
    lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).map(edge).collect()
}

fn compatibility(spec: &CompatSpec, labels: usize) -> Result<Compatibility> {
    Ok(match spec {
        CompatSpec::Potts => Compatibility::potts(labels),
        CompatSpec::Linear(truncation) => Compatibility::linear(labels, *truncation)?,
        CompatSpec::Quadratic(truncation) => Compatibility::quadratic(labels, *truncation)?,
        CompatSpec::Tree(path) => {
            let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            let edges = tree_edges(&text).with_context(|| path.display().to_string())?;
            Compatibility::tree(labels, &edges).with_context(|| path.display().to_string())?
        }
        CompatSpec::Weights(weights) => {
            if weights.len() != labels {
                bail!(
                    "--compat has {} weights, but there are {labels} labels; expected one weight per label",
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
                    "{}: has shape {by}; expected {labels} x {labels}, a cost for every pair of labels",
                    path.display()
                );
            }
            Compatibility::matrix(labels, array.data).with_context(|| path.display().to_string())?
        }
    })
}

/// Sizes are width and height.
pub fn check_size(
    what: &str,
    path: &Path,
    got: (usize, usize),
    image_path: &Path,
    expected: (usize, usize),
) -> Result<()> {
    if got == expected {
        return Ok(());
    }
    let hint = if (got.1, got.0) == expected { ": transposed?" } else { "; both must have the same size" };
    bail!(
        "image {} is {}x{} but {what} {} is {}x{} (width x height){hint}",
        image_path.display(),
        expected.0,
        expected.1,
        path.display(),
        got.0,
        got.1
    )
}

/// Where a pixel of a window is, for messages.
fn place(at: usize, [rows, columns]: &Window) -> String {
    let width = columns.len().max(1);
    format!("x {}, y {}", columns.start + at % width, rows.start + at / width)
}
