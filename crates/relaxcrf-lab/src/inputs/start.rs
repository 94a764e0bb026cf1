//! Where a run starts, and with which labels: `--init` and `--keep-labels`.

use std::path::Path;

use anyhow::{Result, bail};
use relaxcrf::{Beliefs, Model};
use relaxcrf_io as io;

use super::{LabelValues, Source, labeling, read_unary};
use crate::messages::Messages;
use crate::options::UnaryOptions;
use crate::specs::InitSpec;

/// The labels of `values` that `given` values of the label map stand for, in rising order; all labels if none are given.
pub fn kept_labels(given: &[u16], labels: usize, values: &LabelValues) -> Result<Vec<usize>> {
    if given.is_empty() {
        return Ok((0..labels).collect());
    }
    let mut kept = Vec::new();
    for &value in given {
        let Some(label) = values.label(value).map(usize::from).filter(|&label| label < labels) else {
            let last = values.value((labels - 1) as u16);
            bail!("--keep-labels names label {value}; expected labels of the model, which go up to {last}");
        };
        if kept.contains(&label) {
            bail!("--keep-labels names label {value} twice; expected every label once");
        }
        kept.push(label);
    }
    kept.sort_unstable();
    Ok(kept)
}

/// Reads the beliefs that a run of `model` starts from, in the labels `kept` of it.
///
/// A pixel that has none of them starts with equal beliefs.
pub fn read_start(
    spec: &InitSpec,
    (image_path, model): (&Path, &Model),
    kept: &[usize],
    values: &LabelValues,
    options: &UnaryOptions,
    messages: &Messages,
) -> Result<Beliefs> {
    let labels = model.labels();
    let size = (model.sizes()[1], model.sizes()[0]);
    let path = spec.path();
    let is_label_map = !matches!(spec, InitSpec::Scores(_)) && !has_three_axes(path)?;
    let all = if is_label_map {
        Beliefs::from_labeling(&labeling(path, image_path, model, values)?, labels)
    } else {
        let paths = [path.to_path_buf()];
        let source = match spec {
            InitSpec::Scores(path) => Source::Scores(path),
            InitSpec::File(_) => Source::Probabilities(&paths),
        };
        let energies = read_unary(source, size, image_path, options, messages)?;
        if energies.labels != labels {
            bail!("{}: has {} labels; expected {labels}, as the model", path.display(), energies.labels);
        }
        Beliefs::from_energies(&energies.rows, labels)
    };
    if kept.len() == labels {
        return Ok(all);
    }
    let mut rows = Vec::with_capacity(model.pixels() * kept.len());
    for row in all.as_slice().chunks_exact(labels) {
        let sum: f32 = kept.iter().map(|&i| row[i]).sum();
        rows.extend(kept.iter().map(|&i| if sum > 0.0 { row[i] / sum } else { 1.0 / kept.len() as f32 }));
    }
    Ok(Beliefs::new(rows, kept.len())?)
}

/// Whether a file is an array of labels x height x width rather than a label map.
fn has_three_axes(path: &Path) -> Result<bool> {
    let is_array = matches!(crate::specs::extension(path).as_str(), "npy" | "npz");
    Ok(is_array && io::array_shape(path)?.len() == 3)
}
