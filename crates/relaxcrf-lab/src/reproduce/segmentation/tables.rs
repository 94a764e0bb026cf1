//! From stored results to the paper's tables.

use anyhow::{Context, Result};
use serde::Serialize;

use super::{Record, Setup};
use crate::dataset::Dataset;
use crate::metrics::Confusion;
use crate::report::page::{Block, Page, Section};
use crate::report::plot::{Axis, Plot, Series};
use crate::report::sheet::{Best, Cell, Sheet};
use crate::specs::Contestant;

/// All methods on all images with one parameter set.
#[derive(Debug, Serialize)]
pub struct Experiment {
    pub preset: String,
    pub source: String,
    pub kernels: String,
    pub methods: Vec<Row>,
    /// Per image, in the order of the split, then per method.
    pub images: Vec<ImageRow>,
}

/// One line of a table.
#[derive(Debug, Serialize)]
pub struct Row {
    pub method: String,
    /// Fraction of images on which this method's energy is strictly lower than that of each method.
    pub beats: Vec<f64>,
    /// Mean energy minus that of the unaries, of the labels that the method itself arrived at.
    pub energy: f64,
    /// The same for the best labelling seen, which may be a constant one.
    pub best_energy: f64,
    /// Mean of (energy - lower bound) / |energy| over images with a bound.
    pub gap: Option<f64>,
    pub accuracy: Option<f64>,
    pub mean_accuracy: Option<f64>,
    pub mean_iou: Option<f64>,
    pub best_accuracy: Option<f64>,
    pub best_mean_iou: Option<f64>,
    /// Mean per image, all stages.
    pub seconds: f64,
    pub filter_calls: f64,
}

/// One method on one image.
#[derive(Debug, Serialize)]
pub struct ImageRow {
    pub image: String,
    pub method: String,
    pub energy: Option<f64>,
    pub best_energy: Option<f64>,
    pub lower_bound: Option<f64>,
    pub accuracy: Option<f64>,
    pub mean_iou: Option<f64>,
    pub seconds: f64,
    pub status: String,
}

impl Experiment {
    /// `records`: by method, then by image. The first method is `unary`.
    pub fn new(
        setup: &Setup,
        data: &Dataset,
        methods: &[Contestant],
        records: &[Vec<&Record>],
    ) -> Result<Self> {
        let own: Vec<Vec<f64>> = energies(records, |r| r.energy);
        let best: Vec<Vec<f64>> = energies(records, |r| r.best_energy);
        let mean = |values: &mut dyn Iterator<Item = f64>| {
            let values: Vec<f64> = values.collect();
            values.iter().sum::<f64>() / values.len().max(1) as f64
        };
        let mut rows = Vec::new();
        for (m, method) in methods.iter().enumerate() {
            let of_method = &records[m];
            let confusion = merged(of_method, |r| &r.confusion)?;
            let best_confusion = merged(of_method, |r| &r.best_confusion)?;
            let gaps: Vec<f64> = of_method.iter().filter_map(|r| gap(r)).collect();
            rows.push(Row {
                method: method.to_string(),
                beats: own
                    .iter()
                    .map(|other| mean(&mut own[m].iter().zip(other).map(|(a, b)| f64::from(u8::from(a < b)))))
                    .collect(),
                energy: mean(&mut own[m].iter().zip(&own[0]).map(|(a, b)| a - b)),
                best_energy: mean(&mut best[m].iter().zip(&own[0]).map(|(a, b)| a - b)),
                gap: (!gaps.is_empty()).then(|| mean(&mut gaps.iter().copied())),
                accuracy: confusion.accuracy(),
                mean_accuracy: confusion.mean_accuracy(),
                mean_iou: confusion.mean_iou(),
                best_accuracy: best_confusion.accuracy(),
                best_mean_iou: best_confusion.mean_iou(),
                seconds: mean(&mut of_method.iter().map(|r| r.seconds)),
                filter_calls: mean(&mut of_method.iter().map(|r| r.filter_calls as f64)),
            });
        }
        let mut images = Vec::new();
        for k in 0..data.items.len() {
            for of_method in records {
                let r = of_method[k];
                let confusion = counted(r.labels, &r.confusion)?;
                images.push(ImageRow {
                    image: r.image.clone(),
                    method: r.method.clone(),
                    energy: r.energy,
                    best_energy: r.best_energy,
                    lower_bound: r.lower_bound,
                    accuracy: confusion.accuracy(),
                    mean_iou: confusion.mean_iou(),
                    seconds: r.seconds,
                    status: r.status.clone(),
                });
            }
        }
        let Setup { name, source, kernels, .. } = setup;
        Ok(Self {
            preset: name.clone(),
            source: source.clone(),
            kernels: kernels.clone(),
            methods: rows,
            images,
        })
    }
}

fn energies(records: &[Vec<&Record>], of: impl Fn(&Record) -> Option<f64>) -> Vec<Vec<f64>> {
    records.iter().map(|m| m.iter().map(|r| of(r).unwrap_or(f64::INFINITY)).collect()).collect()
}

fn gap(r: &Record) -> Option<f64> {
    let (energy, bound) = (r.best_energy?, r.lower_bound?);
    Some(((energy - bound) / energy.abs().max(f64::MIN_POSITIVE)).max(0.0))
}

/// What a record counted; what does not fit is no record of ours.
fn counted(labels: usize, entries: &[(usize, usize, u64)]) -> Result<Confusion> {
    Confusion::from_entries(labels, entries.iter().copied())
        .context("results.jsonl: a label is out of range; move the file away to start anew")
}

fn merged<'a>(
    records: &[&'a Record],
    of: impl Fn(&'a Record) -> &'a Vec<(usize, usize, u64)>,
) -> Result<Confusion> {
    let labels = records.iter().map(|r| r.labels).max().unwrap_or(1);
    let mut all = Confusion::new(labels);
    for &r in records {
        all.merge(&counted(labels, of(r))?);
    }
    Ok(all)
}

/// What `--json` prints and `summary.json` holds: without the images.
pub fn summary(data: &Dataset, split: &str, experiments: &[Experiment]) -> serde_json::Value {
    let tables: Vec<_> = experiments
        .iter()
        .map(|e| {
            serde_json::json!({
                "preset": e.preset, "source": e.source, "kernels": e.kernels, "methods": e.methods,
            })
        })
        .collect();
    serde_json::json!({
        "data": data.name, "split": split, "images": data.items.len(), "void": data.labels.void,
        "version": env!("CARGO_PKG_VERSION"), "tables": tables,
    })
}

/// The table as the paper has it.
fn sheet(e: &Experiment) -> Sheet {
    let percent = |v: f64| format!("{:.2}", 100.0 * v);
    let mut columns = vec![("method", Best::None)];
    columns.extend(e.methods.iter().map(|m| (m.method.as_str(), Best::None)));
    columns.extend([("avg. E", Best::Lowest), ("avg. best E", Best::Lowest), ("gap", Best::Lowest)]);
    columns.extend([("acc", Best::Highest), ("class acc", Best::Highest), ("IoU", Best::Highest)]);
    columns.push(("seconds", Best::None));
    let mut sheet = Sheet::new(&columns);
    for (k, m) in e.methods.iter().enumerate() {
        let mut row = vec![Cell::from(m.method.as_str())];
        row.extend(m.beats.iter().enumerate().map(|(other, &fraction)| {
            Cell::number((other != k).then_some(fraction), |v| format!("{:.0}", 100.0 * v))
        }));
        row.extend([m.energy, m.best_energy].map(|e| Cell::number(e, |e| format!("{e:.1}"))));
        row.push(Cell::number(m.gap, |g| format!("{:.3}", 100.0 * g)));
        row.extend([m.accuracy, m.mean_accuracy, m.mean_iou].map(|v| Cell::number(v, percent)));
        row.push(Cell::number(m.seconds, |v| format!("{v:.2}")));
        sheet.add(row);
    }
    sheet
}

const LEGEND: &str = "Columns named after methods: percentage of images on which the row's energy is strictly lower than \
                      the column's. avg. E: mean energy minus that of the unaries, of the labels that the method itself \
                      arrived at; avg. best E: of the best labelling it saw, constant ones included. gap: mean certified \
                      distance to the optimum in percent. Accuracy and IoU in percent over all pixels that are not void; \
                      class acc and IoU are means over the labels in the truth. Seconds: mean per image, one thread. \
                      Rows with half weights: the method ran with half of all weights and is scored with the full ones.";

fn title(data: &Dataset, split: &str) -> String {
    format!("{} ({split}, {} images)", data.name, data.items.len())
}

/// The tables for people.
pub fn markdown(data: &Dataset, split: &str, experiments: &[Experiment]) -> String {
    let mut text = format!("# {}\n", title(data, split));
    for e in experiments {
        text += &format!("\n## Parameters {}\n\n`{}`\n\n{}", e.preset, e.kernels, sheet(e).markdown());
    }
    text + "\n" + LEGEND + "\n"
}

/// The tables on a page, with every image's energies as curves.
pub fn page(data: &Dataset, split: &str, experiments: &[Experiment]) -> Page {
    let mut page = Page { title: title(data, split), lead: LEGEND.into(), sections: Vec::new() };
    for e in experiments {
        let mut facts = vec![("kernels".to_string(), e.kernels.clone())];
        if !e.source.is_empty() {
            facts.push(("from".into(), e.source.clone()));
        }
        page.sections.push(
            Section::new(format!("Parameters {}", e.preset))
                .with(Block::Facts(facts))
                .with(Block::Table(sheet(e)))
                .with(Block::Plots(vec![curves(e)])),
        );
    }
    page
}

/// Energies relative to the best method of each image: who wins, by how much, and how often.
fn curves(e: &Experiment) -> Plot {
    let methods = e.methods.len();
    let mut plot = Plot::new(
        "energy above the best of all methods, images sorted for each method",
        Axis::linear("images"),
        Axis::linear("energy above the best"),
    );
    for (k, m) in e.methods.iter().enumerate().filter(|(_, m)| m.method != "unary") {
        let mut above: Vec<f64> = e
            .images
            .chunks_exact(methods)
            .filter_map(|rows| {
                let best = rows.iter().filter_map(|r| r.energy).min_by(f64::total_cmp)?;
                Some(rows[k].energy? - best)
            })
            .collect();
        above.sort_by(f64::total_cmp);
        let points = above.iter().enumerate().map(|(k, &v)| ((k + 1) as f64, v)).collect();
        plot = plot.with(Series::line(m.method.clone(), points).coloured(k));
    }
    plot
}

/// One line per parameter set and method, in full precision.
pub fn summary_csv(experiments: &[Experiment]) -> String {
    let methods = experiments.first().map_or(&[][..], |e| &e.methods);
    let beats: Vec<String> = methods.iter().map(|m| format!("beats {}", m.method)).collect();
    let names = ["energy", "best_energy", "gap", "accuracy", "mean_accuracy", "mean_iou", "best_accuracy"];
    let names = names.into_iter().chain(["best_mean_iou", "seconds", "filter_calls"]);
    let columns: Vec<(&str, Best)> = ["preset", "method"]
        .into_iter()
        .chain(beats.iter().map(String::as_str))
        .chain(names)
        .map(|name| (name, Best::None))
        .collect();
    let mut sheet = Sheet::new(&columns);
    for e in experiments {
        for m in &e.methods {
            let first = [Some(m.energy), Some(m.best_energy), m.gap, m.accuracy, m.mean_accuracy, m.mean_iou];
            let more = [m.best_accuracy, m.best_mean_iou, Some(m.seconds), Some(m.filter_calls)];
            let numbers = m.beats.iter().copied().map(Some).chain(first).chain(more);
            let mut row = vec![Cell::from(e.preset.as_str()), Cell::from(m.method.as_str())];
            row.extend(numbers.map(|v| Cell::number(v, |v| v.to_string())));
            sheet.add(row);
        }
    }
    sheet.csv()
}

/// One line per parameter set, image and method.
pub fn images_csv(experiments: &[Experiment]) -> String {
    let names = ["preset", "image", "method", "status", "energy", "best_energy", "lower_bound", "accuracy"];
    let names: Vec<_> = names.into_iter().chain(["mean_iou", "seconds"]).map(|n| (n, Best::None)).collect();
    let mut sheet = Sheet::new(&names);
    for e in experiments {
        for r in &e.images {
            let texts = [&e.preset, &r.image, &r.method, &r.status];
            let mut row: Vec<Cell> = texts.map(|t| Cell::from(t.as_str())).to_vec();
            let numbers = [r.energy, r.best_energy, r.lower_bound, r.accuracy, r.mean_iou, Some(r.seconds)];
            row.extend(numbers.map(|v| Cell::number(v, |v| v.to_string())));
            sheet.add(row);
        }
    }
    sheet.csv()
}
