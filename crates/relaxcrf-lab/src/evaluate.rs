//! Label maps measured against the truth: accuracy, IoU, and both near the true boundaries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use relaxcrf_io::{self as io, LabelMap};
use serde::Serialize;

use crate::dataset::{LabelNames, label_maps};
use crate::messages::Messages;
use crate::metrics::{Confusion, boundary_band};
use crate::report::sheet::{Best, Cell, Sheet};
use crate::report::{self, align_numbers, table};
use crate::specs::VoidSpec;

/// With more labels only those that occur or have a name are listed.
const MAX_CLASSES: usize = 256;

/// What to measure.
#[derive(Debug, Clone)]
pub struct EvaluateOptions {
    /// Label map, or a directory of them.
    pub predicted: PathBuf,
    /// True label that counts nowhere; `None`: as `labels.json` says, else 255.
    pub void: Option<VoidSpec>,
    /// Number of labels; `None`: as `labels.json` says, else the largest label + 1.
    pub num_labels: Option<u16>,
    /// Names of the labels and the void mark; `None`: labels.json beside the truth directory.
    pub names: Option<PathBuf>,
    /// Also measure within these numbers of pixels of the true boundaries.
    pub bands: Vec<u16>,
}

/// The measures of one set of label maps against one truth.
#[derive(Debug, Serialize)]
pub struct Measures {
    truth: PathBuf,
    images: usize,
    pixels: u64,
    void: Option<u16>,
    accuracy: Option<f64>,
    mean_accuracy: Option<f64>,
    mean_iou: Option<f64>,
    classes: Vec<ClassMeasures>,
    bands: Vec<BandMeasures>,
}

#[derive(Debug, Serialize)]
struct ClassMeasures {
    label: usize,
    name: String,
    pixels: u64,
    accuracy: Option<f64>,
    iou: Option<f64>,
}

/// Within some pixels of the true boundaries.
#[derive(Debug, Serialize)]
struct BandMeasures {
    width: u16,
    pixels: u64,
    accuracy: Option<f64>,
    mean_iou: Option<f64>,
}

/// Measures label maps that are already there.
pub fn measure(args: &EvaluateOptions, truth: &Path, messages: &Messages) -> Result<Measures> {
    let pairs = pairs(&args.predicted, truth, messages)?;
    let names = match &args.names {
        Some(path) => {
            let mut names = LabelNames::read(path)?;
            names.void = args.void.map_or(names.void, |v| v.0);
            names
        }
        None => LabelNames::beside(truth.parent().unwrap_or(Path::new(".")), args.void)?,
    };
    let read = |path: &Path| -> Result<LabelMap> { Ok(io::read_labels(path)?) };
    let mut maps = Vec::new();
    for (predicted, truth) in &pairs {
        let (p, t) = (read(predicted)?, read(truth)?);
        if (p.width, p.height) != (t.width, t.height) {
            bail!(
                "{} is {}x{} but its truth {} is {}x{} (width x height); both must have the same size",
                predicted.display(),
                p.width,
                p.height,
                truth.display(),
                t.width,
                t.height
            );
        }
        maps.push((p, t));
    }
    let largest = || {
        let labels = maps.iter().flat_map(|(p, t)| p.labels.iter().chain(&t.labels));
        labels.copied().filter(|&l| Some(l) != names.void).max().map_or(1, |l| usize::from(l) + 1)
    };
    let labels = match args.num_labels {
        Some(n) => usize::from(n),
        None if names.names.is_empty() => largest(),
        None => names.names.len(),
    };
    let mut all = Confusion::new(labels);
    let mut bands: Vec<Confusion> = args.bands.iter().map(|_| Confusion::new(labels)).collect();
    for ((p, t), (predicted, true_path)) in maps.iter().zip(&pairs) {
        let about = || format!("{} against {}", predicted.display(), true_path.display());
        all.add(&p.labels, &t.labels, names.void).with_context(about)?;
        for (&width, confusion) in args.bands.iter().zip(&mut bands) {
            let band = boundary_band(&t.labels, t.width, width.into());
            confusion.add_where(&p.labels, &t.labels, names.void, |at| band[at])?;
        }
    }
    if all.total() == 0 {
        bail!("{}: every pixel is void; there is nothing to measure (see --void)", truth.display());
    }
    // Label numbers without names may be large and far between.
    let shown = |&l: &usize| {
        labels <= MAX_CLASSES || l < names.names.len() || all.true_pixels(l) + all.given_pixels(l) > 0
    };
    Ok(Measures {
        truth: truth.into(),
        images: pairs.len(),
        pixels: all.total(),
        void: names.void,
        accuracy: all.accuracy(),
        mean_accuracy: all.mean_accuracy(),
        mean_iou: all.mean_iou(),
        classes: (0..labels).filter(shown).map(|l| class(&all, &names, l)).collect(),
        bands: args.bands.iter().zip(&bands).map(|(&w, c)| band_of(w, c)).collect(),
    })
}

fn class(all: &Confusion, names: &LabelNames, label: usize) -> ClassMeasures {
    ClassMeasures {
        label,
        name: names.name(label),
        pixels: all.true_pixels(label),
        accuracy: all.class_accuracy(label),
        iou: all.iou(label),
    }
}

fn band_of(width: u16, confusion: &Confusion) -> BandMeasures {
    BandMeasures {
        width,
        pixels: confusion.total(),
        accuracy: confusion.accuracy(),
        mean_iou: confusion.mean_iou(),
    }
}

/// Predictions with their truths: two files, or the files of two directories with the same names.
fn pairs(predicted: &Path, truth: &Path, messages: &Messages) -> Result<Vec<(PathBuf, PathBuf)>> {
    match (predicted.is_dir(), truth.is_dir()) {
        (false, false) => Ok(vec![(predicted.into(), truth.into())]),
        (true, true) => {
            let truths: BTreeMap<String, PathBuf> = label_maps(truth)?;
            let mut pairs = Vec::new();
            for (stem, path) in label_maps(predicted)? {
                let Some(true_path) = truths.get(&stem) else {
                    bail!("{}: has no truth of that name in {}", path.display(), truth.display());
                };
                pairs.push((path, true_path.clone()));
            }
            if pairs.len() < truths.len() {
                messages.warn(&format!(
                    "{}: {} of {} label maps have no prediction in {} and do not count",
                    truth.display(),
                    truths.len() - pairs.len(),
                    truths.len(),
                    predicted.display()
                ));
            }
            Ok(pairs)
        }
        (is_dir, _) => {
            let kind = |dir: bool| if dir { "a directory" } else { "a file" };
            bail!(
                "{} is {} but {} is {}; expected two files or two directories",
                predicted.display(),
                kind(is_dir),
                truth.display(),
                kind(!is_dir)
            )
        }
    }
}

/// The measures for a terminal.
pub fn terminal(m: &Measures) -> String {
    let percent = |v| report::optional(v, report::percent);
    let mut shown = table(&["label", "pixels", "accuracy", "IoU"]);
    for c in m.classes.iter().filter(|c| c.pixels > 0) {
        shown.add_row([c.name.clone(), c.pixels.to_string(), percent(c.accuracy), percent(c.iou)]);
    }
    align_numbers(&mut shown);
    let images = if m.images == 1 { "1 image".into() } else { format!("{} images", m.images) };
    let mut lines = vec![
        ("truth", format!("{}: {images}, {} pixels that are not void", m.truth.display(), m.pixels)),
        ("accuracy", percent(m.accuracy)),
        ("mean accuracy", format!("{} over the labels in the truth", percent(m.mean_accuracy))),
        ("mean IoU", format!("{} over the labels in the truth", percent(m.mean_iou))),
    ];
    let names: Vec<String> = m.bands.iter().map(|b| format!("band of {}", b.width)).collect();
    for (name, b) in names.iter().zip(&m.bands) {
        let text = format!(
            "accuracy {}, mean IoU {}, {} pixels",
            percent(b.accuracy),
            percent(b.mean_iou),
            b.pixels
        );
        lines.push((name, text));
    }
    format!("{}{shown}\n", report::facts(&lines))
}

/// One row per measure, for spreadsheets and plots.
pub fn csv(all: &[Measures]) -> String {
    let names = ["truth", "part", "label", "pixels", "accuracy", "mean_accuracy", "iou"];
    let mut sheet = Sheet::new(&names.map(|name| (name, Best::None)));
    for m in all {
        let truth = m.truth.display().to_string();
        let mut row = |part: String, label: &str, pixels: u64, values: [Option<f64>; 3]| {
            let mut cells = vec![truth.clone().into(), part.into(), label.into(), pixels.to_string().into()];
            cells.extend(values.map(|v| Cell::number(v, report::percent)));
            sheet.add(cells);
        };
        row("all".into(), "", m.pixels, [m.accuracy, m.mean_accuracy, m.mean_iou]);
        for b in &m.bands {
            row(format!("band {}", b.width), "", b.pixels, [b.accuracy, None, b.mean_iou]);
        }
        for c in &m.classes {
            row("class".into(), &c.name, c.pixels, [c.accuracy, None, c.iou]);
        }
    }
    sheet.csv()
}
