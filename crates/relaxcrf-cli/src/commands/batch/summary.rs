//! Summary of a batch: lines for the terminal, JSON, and a page.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::Ordering;

use anyhow::Result;
use relaxcrf_io as io;
use relaxcrf_lab::choice::Choice;
use relaxcrf_lab::inputs::{self, Unary};
use relaxcrf_lab::messages::Messages;
use relaxcrf_lab::metrics::Confusion;
use relaxcrf_lab::report::page::{Block, Page, Section};
use relaxcrf_lab::report::picture::Picture;
use relaxcrf_lab::report::plot::{Axis, Plot, Series};
use relaxcrf_lab::report::sheet::{Best, Cell, Sheet};
use relaxcrf_lab::report::{self, percent};
use serde::Serialize;

use super::Counts;
use super::items::{Item, Items};
use super::record::{Pixels, Record, Removed, add_up, last_records};
use super::work::outputs;
use crate::args::BatchArgs;
use crate::classes::chosen_palette;
use crate::forecast::shown_time;

/// Largest number of rows in a table; pages with more open slowly.
const MAX_ROWS: usize = 1000;
/// Largest number of images shown before and after.
const MAX_PICTURES: usize = 4;

/// Summary of all images in the list of a run, those of earlier runs included unless a field says otherwise.
#[derive(Debug, Serialize)]
pub struct Summary {
    pub images: usize,
    /// By this run.
    pub done: usize,
    /// Before this run, or beside it.
    pub finished_before: usize,
    pub failed: usize,
    /// Of this run.
    pub seconds: f64,
    pub images_per_second: f64,
    pub megapixels_per_second: f64,
    pub jobs: usize,
    pub method: String,
    /// Mean fraction of pixels that changed.
    pub changed: Option<f64>,
    /// Images to look at: a label was removed, or more than a tenth of the pixels changed.
    pub flagged: usize,
    /// Means over images.
    pub gap: Option<f64>,
    /// Images with truth, and measures over all their pixels before and after.
    pub with_truth: usize,
    pub accuracy: Option<[Option<f64>; 2]>,
    pub mean_iou: Option<[Option<f64>; 2]>,
    #[serde(skip)]
    measures: Option<[Confusion; 2]>,
    /// One record for each image: flagged ones first, those with removed labels above all, then the most changed, then
    /// failures.
    #[serde(skip)]
    records: Vec<Record>,
}

impl Summary {
    /// Reads the logs, those of earlier runs too.
    pub fn new(
        args: &BatchArgs,
        choice: &Choice,
        items: &Items,
        jobs: usize,
        counts: &Counts,
        seconds: f64,
    ) -> Result<Self> {
        let names: HashSet<&str> = items.list.iter().map(|i| i.name.as_str()).collect();
        let mut records: Vec<Record> =
            last_records(&args.output, |name| names.contains(name))?.into_values().collect();
        let rank = |r: &Record| {
            let lost: f64 = r.removed.iter().map(|label| label.before).sum();
            (lost, r.changed.filter(|_| r.is_done()).unwrap_or(-1.0))
        };
        records.sort_by(|a, b| {
            let ((lost_a, changed_a), (lost_b, changed_b)) = (rank(a), rank(b));
            let most_first = lost_b.total_cmp(&lost_a).then_with(|| changed_b.total_cmp(&changed_a));
            most_first.then_with(|| a.item.cmp(&b.item))
        });
        let done = || records.iter().filter(|r| r.is_done());
        let mean = |of: fn(&Record) -> Option<f64>| {
            let values: Vec<f64> = done().filter_map(of).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let total = |of: fn(&Record) -> Option<&Pixels>| {
            let parts: Vec<_> = done().filter_map(|r| Some((r.labels?, of(r)?))).collect();
            add_up(parts.iter().copied())
        };
        let measures = total(|r| r.before.as_ref()).zip(total(|r| r.after.as_ref())).map(|(a, b)| [a, b]);
        let both = |of: fn(&Confusion) -> Option<f64>| measures.as_ref().map(|m| [of(&m[0]), of(&m[1])]);
        let now = counts.done.load(Ordering::Relaxed);
        let per_second = |n: usize| n as f64 / seconds.max(1e-9);
        Ok(Self {
            images: items.list.len(),
            done: now,
            finished_before: counts.finished_before.load(Ordering::Relaxed),
            failed: counts.failed.load(Ordering::Relaxed),
            seconds,
            images_per_second: per_second(now),
            megapixels_per_second: per_second(counts.pixels.load(Ordering::Relaxed)) / 1e6,
            jobs,
            method: choice.method.to_string(),
            changed: mean(|r| r.changed),
            flagged: done().filter(|r| r.is_flagged()).count(),
            gap: mean(|r| r.gap),
            with_truth: done().filter(|r| r.after.is_some()).count(),
            accuracy: both(Confusion::accuracy),
            mean_iou: both(Confusion::mean_iou),
            measures,
            records,
        })
    }

    /// Names and values.
    pub fn facts(&self, args: &BatchArgs, log: &Path) -> Vec<(&'static str, String)> {
        let mut facts = vec![
            (
                "images",
                format!(
                    "{}: {} done, {} finished before, {} failed",
                    self.images, self.done, self.finished_before, self.failed
                ),
            ),
            ("method", self.method.clone()),
            (
                "time",
                format!(
                    "{}, {:.2} images a second, {:.2} million pixels a second, {} at a time",
                    shown_time(self.seconds),
                    self.images_per_second,
                    self.megapixels_per_second,
                    self.jobs
                ),
            ),
            (
                "changed",
                format!("{} of the pixels of an image, on average", report::optional(self.changed, percent)),
            ),
        ];
        if self.flagged > 0 {
            let count =
                |of: &dyn Fn(&Record) -> bool| self.records.iter().filter(|r| r.is_done() && of(r)).count();
            let (lost, much) = (count(&|r| !r.removed.is_empty()), count(&Record::has_changed_much));
            let text = format!("{}: {lost} lost a label, {much} changed by more than a tenth", self.flagged);
            facts.push(("look at", text));
        }
        if let Some(gap) = self.gap {
            facts.push(("gap", format!("{} on average", percent(gap))));
        }
        let change = |[before, after]: [Option<f64>; 2]| {
            format!(
                "{} before, {} after",
                report::optional(before, percent),
                report::optional(after, percent)
            )
        };
        if let Some(accuracy) = self.accuracy {
            facts.push(("accuracy", format!("{}, on {} images", change(accuracy), self.with_truth)));
        }
        if let Some(mean_iou) = self.mean_iou {
            facts.push(("mean IoU", change(mean_iou)));
        }
        facts.push(("written", format!("{}, {}", args.output.join("labels").display(), log.display())));
        facts
    }

    /// The page.
    pub fn page(&self, args: &BatchArgs, choice: &Choice, items: &Items) -> Page {
        let log = args.output.join("log*.jsonl");
        let facts = self.facts(args, &log).into_iter().map(|(k, v)| (k.to_string(), v)).collect();
        let mut sections = vec![Section::new("").with(Block::Facts(facts))];
        let failures: Vec<&Record> = self.records.iter().filter(|r| !r.is_done()).collect();
        if !failures.is_empty() {
            let mut sheet = Sheet::new(&[("image", Best::None), ("what went wrong", Best::None)]);
            for r in failures.iter().take(MAX_ROWS) {
                sheet.add(vec![r.item.clone().into(), r.error.clone().unwrap_or_default().into()]);
            }
            let section = Section::new(format!("Failures: {}", failures.len())).with(Block::Table(sheet));
            sections.push(with_rest(section, failures.len()));
        }
        sections.extend(self.measured(items));
        let done: Vec<&Record> = self.records.iter().filter(|r| r.is_done()).collect();
        if !done.is_empty() {
            sections.push(self.pictures(args, items, &done));
            let title = "Images: flagged, then most changed first";
            let section = Section::new(title).with(Block::Plots(vec![changes(&done)]));
            sections.push(with_rest(section.with(Block::Table(rows(&done, items))), done.len()));
        }
        Page {
            title: format!("{}: {} by {}", items.title, plural(self.images), self.method),
            lead: choice.model.describe(),
            sections,
        }
    }

    /// Each label before and after.
    fn measured(&self, items: &Items) -> Option<Section> {
        let [before, after] = self.measures.as_ref()?;
        let heads = ["label", "true pixels", "accuracy before", "accuracy after", "IoU before", "IoU after"];
        let mut sheet = Sheet::new(&heads.map(|h| (h, Best::None)));
        let mut add = |name: String, pixels: u64, values: [Option<f64>; 4]| {
            let mut row = vec![name.into(), Cell::number(pixels as f64, |v| format!("{v}"))];
            row.extend(values.map(|v| Cell::number(v, percent)));
            sheet.add(row);
        };
        let both = |of: &dyn Fn(&Confusion) -> Option<f64>| [of(before), of(after)];
        let ([a, b], [c, d]) = (both(&Confusion::accuracy), both(&Confusion::mean_iou));
        add("all".into(), after.total(), [a, b, c, d]);
        for l in (0..after.labels()).filter(|&l| after.true_pixels(l) > 0) {
            let ([a, b], [c, d]) = (both(&|m| m.class_accuracy(l)), both(&|m| m.iou(l)));
            add(items.labels.name(l), after.true_pixels(l), [a, b, c, d]);
        }
        let title = format!("Against the truth, on {}", plural(self.with_truth));
        Some(Section::new(title).with(Block::Table(sheet)))
    }

    /// The images to look at first: what was given and what came out. An image that has gone meanwhile is left out.
    fn pictures(&self, args: &BatchArgs, items: &Items, done: &[&Record]) -> Section {
        let title = if self.flagged > 0 { "Flagged and most changed" } else { "Most changed" };
        let mut section = Section::new(title);
        if self.flagged > 0 {
            section = section.with(Block::Text(format!(
                "{} flagged: the refinement removed a label or changed more than a tenth of the pixels. Weaker kernels \
                 or another preset may suit them better.",
                plural(self.flagged)
            )));
        }
        for record in done.iter().filter(|r| r.changed > Some(0.0)).take(MAX_PICTURES) {
            let item = items.list.iter().find(|i| i.name == record.item);
            if let Some(shown) = item.and_then(|item| before_and_after(args, item).ok()) {
                let changed = report::optional(record.changed, percent);
                let flag = flag(record, items).map_or(String::new(), |flag| format!("; {flag}"));
                let captions = [
                    record.item.clone(),
                    "as it was given".into(),
                    format!("refined: {changed} changed{flag}"),
                ];
                section = section.with(Block::Pictures(captions.into_iter().zip(shown).collect()));
            }
        }
        section
    }
}

fn before_and_after(args: &BatchArgs, item: &Item) -> Result<[Picture; 3]> {
    let source = item.source.as_ref().map_err(|why| anyhow::anyhow!("{why}"))?.source();
    let quiet = Messages::silent();
    let (image, Unary { labels, rows, values }) = inputs::image_and_unary(
        &item.image,
        source,
        &args.unary.options().for_model(&args.model.options()),
        &quiet,
    )?;
    let lowest = |row: &[f32]| {
        let best = row.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        best.map_or(0, |(label, _)| label as u16)
    };
    let before: Vec<u16> = rows.chunks_exact(labels).map(lowest).collect();
    let after = io::read_labels(&args.output.join(outputs(args, &item.name).0))?;
    let size = (image.width, image.height);
    let palette = chosen_palette(&args.colours)?.unwrap_or_default();
    Ok([
        Picture::photo(&image),
        Picture::labels(size, &before, labels, &palette),
        Picture::labels(size, &values.labels(&after.labels), labels, &palette),
    ])
}

/// Plots the fraction of changed pixels over the images.
fn changes(done: &[&Record]) -> Plot {
    let percentile = |k: usize| 100.0 * (k as f64 + 0.5) / done.len() as f64;
    let mut changed: Vec<f64> = done.iter().filter_map(|r| r.changed).collect();
    changed.sort_by(|a, b| b.total_cmp(a));
    let step = done.len().div_ceil(400).max(1);
    let points = changed.iter().enumerate().map(|(k, changed)| (percentile(k), 100.0 * changed));
    let points: Vec<(f64, f64)> = points.step_by(step).collect();
    Plot::new("How much changed", Axis::linear("images, %"), Axis::linear("pixels changed, %"))
        .with(Series::new("changed", points))
}

/// Why an image should be looked at.
fn flag(record: &Record, items: &Items) -> Option<String> {
    let name = |removed: &Removed| {
        let name = items.labels.name(removed.label.into());
        format!("{name} removed ({} of the pixels)", percent(removed.before))
    };
    let mut reasons: Vec<String> = record.removed.iter().map(name).collect();
    if record.has_changed_much() {
        reasons.push("more than a tenth changed".into());
    }
    (!reasons.is_empty()).then(|| reasons.join(", "))
}

fn rows(done: &[&Record], items: &Items) -> Sheet {
    let truth = done.iter().any(|r| r.accuracy.is_some());
    let mut heads = vec![
        "image",
        "flag",
        "changed",
        "energy",
        "lower bound",
        "gap",
        "seconds",
        "pixels",
        "labels",
        "ended by",
    ];
    if truth {
        heads.extend(["accuracy before", "accuracy after", "IoU before", "IoU after"]);
    }
    let mut sheet = Sheet::new(&heads.iter().map(|h| (*h, Best::None)).collect::<Vec<_>>());
    for r in done.iter().take(MAX_ROWS) {
        let whole = |n: Option<usize>| Cell::number(n.map(|n| n as f64), |v| format!("{v}"));
        let mut row = vec![
            r.item.clone().into(),
            flag(r, items).map_or(Cell::Empty, Cell::Text),
            Cell::number(r.changed, percent),
            Cell::number(r.energy, report::number),
            Cell::number(r.lower_bound, report::number),
            Cell::number(r.gap, percent),
            Cell::number(r.seconds, |s| format!("{s:.2}")),
            whole(r.pixels),
            whole(r.labels),
            r.ended.clone().map_or(Cell::Empty, Cell::Text),
        ];
        if truth {
            let ([a, b], [c, d]) = (r.accuracy.unwrap_or_default(), r.mean_iou.unwrap_or_default());
            row.extend([a, b, c, d].map(|v| Cell::number(v, percent)));
        }
        sheet.add(row);
    }
    sheet
}

fn with_rest(section: Section, total: usize) -> Section {
    if total <= MAX_ROWS {
        return section;
    }
    section.with(Block::Text(format!("{} more are in the log.", total - MAX_ROWS)))
}

fn plural(images: usize) -> String {
    if images == 1 { "1 image".into() } else { format!("{images} images") }
}
