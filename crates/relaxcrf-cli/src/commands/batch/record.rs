//! The log: one line with the result or the error of one image.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use relaxcrf_lab::inputs::LabelValues;
use relaxcrf_lab::journal::{Journal, Tail};
use relaxcrf_lab::metrics::Confusion;
use serde::{Deserialize, Serialize};

/// True label, label given, pixels; void predictions have the number of labels.
pub type Pixels = Vec<(usize, usize, u64)>;

/// The result or the error of one image.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Record {
    pub item: String,
    /// `done` or `failed`.
    pub status: String,
    pub error: Option<String>,
    /// Of the labelling written; null if infinite.
    pub energy: Option<f64>,
    pub lower_bound: Option<f64>,
    pub gap: Option<f64>,
    /// Reading, building, solving and writing.
    pub seconds: f64,
    /// Fraction of pixels whose label is not the one with the lowest unary energy.
    pub changed: Option<f64>,
    /// Why the method stopped.
    pub ended: Option<String>,
    pub iterations: Option<usize>,
    pub pixels: Option<usize>,
    pub labels: Option<usize>,
    /// Against the truth, before and after, if there is one.
    pub accuracy: Option<[Option<f64>; 2]>,
    pub mean_iou: Option<[Option<f64>; 2]>,
    pub before: Option<Pixels>,
    pub after: Option<Pixels>,
    pub warnings: Vec<String>,
    /// Notes on how inputs were understood.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Labels (as they are written) of many pixels in the unary argmin that hardly any pixel has after refinement.
    #[serde(default)]
    pub removed: Vec<Removed>,
    /// The inputs' content and the settings.
    pub key: Option<String>,
    /// The files written, relative to the output directory, with their content.
    pub outputs: Vec<(PathBuf, String)>,
}

/// A label that the refinement removed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Removed {
    pub label: u16,
    /// Fractions of the pixels with this label.
    pub before: f64,
    pub after: f64,
}

/// Labels of at least this fraction of the pixels are expected to survive.
const NOTICEABLE: f64 = 0.01;
/// A label with at most this fraction of its pixels left is removed.
const REMNANT: f64 = 0.01;
/// A larger fraction of changed pixels is flagged.
const MUCH_CHANGED: f64 = 0.1;

impl Record {
    pub fn is_done(&self) -> bool {
        self.status == "done"
    }

    /// Whether the result should be looked at: a label was removed or much changed.
    pub fn is_flagged(&self) -> bool {
        self.is_done() && (!self.removed.is_empty() || self.has_changed_much())
    }

    /// Whether more than a tenth of the pixels changed.
    pub fn has_changed_much(&self) -> bool {
        self.changed.is_some_and(|changed| changed > MUCH_CHANGED)
    }
}

/// The labels that a refinement removed, the largest first.
pub fn removed_labels(before: &[u16], after: &[u16], labels: usize, values: &LabelValues) -> Vec<Removed> {
    let fractions = |of: &[u16]| {
        let mut counts = vec![0usize; labels];
        of.iter().for_each(|&l| counts[usize::from(l)] += 1);
        counts.into_iter().map(|n| n as f64 / of.len().max(1) as f64).collect::<Vec<f64>>()
    };
    let pairs = fractions(before).into_iter().zip(fractions(after)).enumerate();
    let mut removed: Vec<Removed> = pairs
        .filter(|(_, (b, a))| *b >= NOTICEABLE && *a <= REMNANT * b)
        .map(|(label, (before, after))| Removed { label: values.value(label as u16), before, after })
        .collect();
    removed.sort_by(|a, b| b.before.total_cmp(&a.before));
    removed
}

/// Identity of a finished image: the same key and outputs mean that nothing is to be done.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    pub key: String,
    pub outputs: Vec<(PathBuf, String)>,
}

/// Everything that is finished in an output directory, by the images' names.
#[derive(Debug)]
pub struct Finds {
    own: Tail,
    finished: HashMap<String, Finished>,
}

impl Finds {
    /// Reads all logs of a directory, and goes on reading `own`.
    pub fn read(folder: &Path, own: &Path) -> Result<Self> {
        let mut finds = Self { own: Tail::new(own), finished: HashMap::new() };
        for path in logs(folder)?.iter().filter(|path| *path != own) {
            Tail::new(path).read(|record| note(&mut finds.finished, record))?;
        }
        finds.refresh()?;
        Ok(finds)
    }

    /// Reads what was added to the run's own log, by this run or another.
    pub fn refresh(&mut self) -> Result<()> {
        self.own.read(|record| note(&mut self.finished, record))
    }

    pub fn get(&self, item: &str) -> Option<&Finished> {
        self.finished.get(item)
    }
}

/// Takes in a record; the last one of an image counts.
fn note(finished: &mut HashMap<String, Finished>, record: Record) {
    match record.key {
        Some(key) if record.status == "done" => {
            finished.insert(record.item, Finished { key, outputs: record.outputs });
        }
        _ => {
            finished.remove(&record.item);
        }
    }
}

/// The logs of a directory, one for each shard.
pub fn logs(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e).with_context(|| format!("{}: cannot be read", folder.display())),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| folder.display().to_string())?.path();
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with("log") && name.ends_with(".jsonl") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The last record of every image that `chosen` names.
pub fn last_records(folder: &Path, chosen: impl Fn(&str) -> bool) -> Result<HashMap<String, Record>> {
    let mut last: HashMap<String, Record> = HashMap::new();
    for path in logs(folder)? {
        Tail::new(&path).read(|record: Record| {
            if chosen(&record.item) {
                last.insert(record.item.clone(), record);
            }
        })?;
    }
    Ok(last)
}

/// The log that a run writes to.
pub fn open_log(path: &Path) -> Result<Journal> {
    Journal::open_shared(path)
}

/// The sum over many images, which may have different numbers of labels.
pub fn add_up<'a>(parts: impl Iterator<Item = (usize, &'a Pixels)> + Clone) -> Option<Confusion> {
    let labels = parts.clone().map(|(labels, _)| labels).max()?;
    // The last label of each image stands for its void predictions.
    let entries = parts.flat_map(|(own, part)| {
        part.iter().map(move |&(truth, given, n)| (truth, if given >= own { labels } else { given }, n))
    });
    Confusion::from_entries(labels, entries).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_is_removed_if_it_was_noticeable_and_hardly_a_pixel_is_left() {
        let map = |counts: &[usize]| -> Vec<u16> {
            counts.iter().enumerate().flat_map(|(l, &n)| vec![l as u16; n]).collect()
        };
        // Label 1 shrinks to one of 200 pixels, label 2 to a tenth, label 3 was too small to be noticed.
        let (before, after) = (map(&[590, 200, 201, 9]), map(&[979, 1, 20, 0]));
        let removed = removed_labels(&before, &after, 4, &LabelValues::default());
        assert_eq!(removed, [Removed { label: 1, before: 0.2, after: 0.001 }]);
    }

    #[test]
    fn record_is_flagged_if_a_label_was_removed_or_a_tenth_changed() {
        let record = |changed, removed| Record {
            status: "done".into(),
            changed: Some(changed),
            removed,
            ..Record::default()
        };
        assert!(!record(0.1, vec![]).is_flagged() && record(0.11, vec![]).is_flagged());
        assert!(record(0.02, vec![Removed { label: 3, before: 0.02, after: 0.0 }]).is_flagged());
        assert!(!Record { status: "failed".into(), ..record(0.5, vec![]) }.is_flagged());
    }

    #[test]
    fn records_of_earlier_versions_are_read() {
        let line = r#"{"item": "a", "status": "done", "error": null, "energy": 1.0, "lower_bound": null, "gap": null,
            "seconds": 1.0, "changed": 0.5, "ended": null, "iterations": null, "pixels": null, "labels": null,
            "accuracy": null, "mean_iou": null, "before": null, "after": null, "warnings": [], "key": "k", "outputs": []}"#;
        let record: Record = serde_json::from_str(line).unwrap();
        assert!(record.is_flagged() && record.removed.is_empty());
    }
}
