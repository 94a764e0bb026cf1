//! One line of the log: what became of one image.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use relaxcrf::metrics::Confusion;
use serde::{Deserialize, Serialize};

use crate::journal::{Journal, Tail};

/// True label, label given, pixels; void predictions have the number of labels.
pub type Pixels = Vec<(usize, usize, u64)>;

/// What became of one image.
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
    /// Share of pixels whose label is not the one with the lowest unary energy.
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
    /// The inputs' content and the settings.
    pub key: Option<String>,
    /// The files written, relative to the output directory, with their content.
    pub outputs: Vec<(PathBuf, String)>,
}

impl Record {
    pub fn is_done(&self) -> bool {
        self.status == "done"
    }
}

/// What has to be the same for an image to count as finished.
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

/// The last word on an image counts.
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

/// The logs of a directory: one of its own for every part of a list, so that machines need not share one.
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

/// The last record of every image that `wanted` names.
pub fn last_records(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<HashMap<String, Record>> {
    let mut last: HashMap<String, Record> = HashMap::new();
    for path in logs(folder)? {
        Tail::new(&path).read(|record: Record| {
            if wanted(&record.item) {
                last.insert(record.item.clone(), record);
            }
        })?;
    }
    Ok(last)
}

/// The log that a run writes to.
pub fn open_log(path: &Path) -> Result<Journal> {
    Journal::share(path)
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
