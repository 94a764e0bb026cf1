//! One image from its files to its results.

use std::borrow::Cow;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, Result, anyhow};
use relaxcrf::Solve;
use relaxcrf::{Labeling, Model};
use relaxcrf_io::{Palette, read_labels, write_labels};
use relaxcrf_lab::choice::Choice;
use relaxcrf_lab::inputs::{self, Input, LabelValues};
use relaxcrf_lab::journal::Journal;
use relaxcrf_lab::messages::Messages;
use relaxcrf_lab::metrics::Confusion;
use relaxcrf_lab::outputs::make_directory;
use relaxcrf_lab::report::advice;

use super::claims::Claims;
use super::identity;
use super::items::Item;
use super::record::{Finds, Finished, Record, removed_labels};
use crate::args::BatchArgs;
use crate::commands::segment::write_beliefs;
use crate::memory::{Budget, Needs};

/// Void in maps whose values are mapped to labels.
const VOID: u16 = u16::MAX;

/// Everything that all images of a run have in common.
pub struct Shop<'a> {
    pub args: &'a BatchArgs,
    pub choice: Choice,
    /// All settings that a result depends on.
    pub settings: String,
    /// True label that counts nowhere.
    pub void: Option<u16>,
    /// Colours that the user chose for label maps.
    pub palette: Option<Palette>,
    pub claims: Claims,
    pub log: Journal,
    pub finds: Mutex<Finds>,
    pub budget: Option<Budget>,
}

/// Outcome of an image's turn.
pub enum Turn {
    /// Another run has it; try later.
    Busy,
    /// It was finished before, by this run or another.
    Finished,
    /// It was done or failed, and that is in the log.
    Ended(Box<Record>),
}

impl Shop<'_> {
    /// Takes an image's turn. An error ends the whole run.
    pub fn turn(&self, item: &Item) -> Result<Turn> {
        let Some(_claim) = self.claims.take(&item.name)? else { return Ok(Turn::Busy) };
        let started = Instant::now();
        let mut record = Record { item: item.name.clone(), status: "failed".into(), ..Record::default() };
        match self.guarded(item, &mut record) {
            Ok(true) => return Ok(Turn::Finished),
            Ok(false) => record.status = "done".into(),
            Err(e) => record.error = Some(format!("{e:#}").replace('\n', " ")),
        }
        record.seconds = started.elapsed().as_secs_f64();
        self.log.append(&record).context(
            "the run cannot go on without its log; free some space and run the same command again: finished images are \
             not done again",
        )?;
        Ok(Turn::Ended(Box::new(record)))
    }

    /// Refines one image; a panic becomes a failure of this image.
    fn guarded(&self, item: &Item, record: &mut Record) -> Result<bool> {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.process(item, record)));
        outcome.unwrap_or_else(|_| {
            Err(anyhow!("internal error; this is a mistake in relaxcrf, please report it"))
        })
    }

    /// Whether the image was finished already; if not, it is now.
    fn process(&self, item: &Item, record: &mut Record) -> Result<bool> {
        let source = item.source.as_ref().map_err(|why| anyhow!("{why}"))?;
        let key = identity::of_item(item, &self.settings)?;
        record.key = Some(key.clone());
        if !self.args.fresh && self.is_finished(item, &key)? {
            return Ok(true);
        }
        let args = self.args;
        let _room = match &self.budget {
            Some(budget) => {
                let needs = Needs::of_files(
                    &item.image,
                    source.source(),
                    &args.unary.options(),
                    &self.choice.model,
                    &self.choice.method,
                    Some(budget.limit()),
                )?;
                Some(budget.wait_for(&needs)?)
            }
            None => None,
        };
        let seed = args.common.seed;
        // Warnings go to the log: those of thousands of images would fill the terminal.
        let messages = Messages::silent();
        let Input { model, values, .. } = inputs::read(
            &item.image,
            source.source(),
            &args.unary.options(),
            &self.choice.model,
            seed,
            &messages,
        )?;
        let settings = args.limits.settings(seed);
        let solution = Solve::new(&model).method(&self.choice.method).settings(&settings).run()?;
        let solution = args.take.labels_of(solution);
        advice::warn_about_constant(&solution, &item.name, &self.choice, &messages);
        record.warnings = messages.said();
        record.notes = messages.noted();

        let (height, width) = (model.sizes()[0], model.sizes()[1]);
        let (labels, probs) = outputs(args, &item.name);
        if let Some(path) = &probs {
            write_beliefs(&self.place(path)?, width, height, &solution.beliefs)?;
        }
        let path = self.place(&labels)?;
        let written = values.restore(solution.labeling.as_slice());
        write_labels(&path, width, height, &written, &values.colours(self.palette.as_ref())?)?;
        for output in [Some(labels), probs].into_iter().flatten() {
            let content = identity::of_file(&args.output.join(&output))?;
            record.outputs.push((output, content));
        }

        let before = model.unary_argmin();
        let differing = before.as_slice().iter().zip(solution.labeling.as_slice()).filter(|(a, b)| a != b);
        record.changed = Some(differing.count() as f64 / model.pixels() as f64);
        record.removed =
            removed_labels(before.as_slice(), solution.labeling.as_slice(), model.labels(), &values);
        record.energy = Some(solution.energy.total()).filter(|e| e.is_finite());
        record.lower_bound = solution.lower_bound.as_ref().map(|b| b.value);
        record.gap = solution.gap().filter(|g| g.is_finite());
        record.ended = Some(solution.status.to_string());
        record.iterations = Some(solution.iterations);
        record.pixels = Some(model.pixels());
        record.labels = Some(model.labels());
        if let Some(truth) = &item.truth {
            self.measure(&model, &values, truth, item, [&before, &solution.labeling], record)?;
        }
        Ok(false)
    }

    /// Whether the log has a result with this identity, and its files still have the logged content.
    fn is_finished(&self, item: &Item, key: &str) -> Result<bool> {
        let known: Option<Finished> = {
            let mut finds = self.finds.lock().unwrap_or_else(PoisonError::into_inner);
            finds.refresh()?;
            finds.get(&item.name).cloned()
        };
        let whole = |(path, content): &(PathBuf, String)| {
            identity::of_file(&self.args.output.join(path)).is_ok_and(|now| now == *content)
        };
        Ok(known.is_some_and(|k| k.key == key && !k.outputs.is_empty() && k.outputs.iter().all(whole)))
    }

    /// A path in the output directory, with its folder made.
    fn place(&self, relative: &Path) -> Result<PathBuf> {
        let path = self.args.output.join(relative);
        if let Some(folder) = path.parent().filter(|folder| !folder.is_dir()) {
            make_directory(folder)?;
        }
        Ok(path)
    }

    fn measure(
        &self,
        model: &Model,
        values: &LabelValues,
        truth: &Path,
        item: &Item,
        labelings: [&Labeling; 2],
        record: &mut Record,
    ) -> Result<()> {
        let map = read_labels(truth)?;
        let size = (model.sizes()[1], model.sizes()[0]);
        inputs::check_size("truth", truth, (map.width, map.height), &item.image, size)?;
        let (labels, void) = self.true_labels(&map.labels, model.labels(), values, record);
        let mut measured = Vec::new();
        for labeling in labelings {
            let mut confusion = Confusion::new(model.labels());
            confusion
                .add(labeling.as_slice(), &labels, void)
                .with_context(|| format!("{}: does not fit the model", truth.display()))?;
            measured.push(confusion);
        }
        let [before, after] = [&measured[0], &measured[1]];
        record.accuracy = Some([before.accuracy(), after.accuracy()]);
        record.mean_iou = Some([before.mean_iou(), after.mean_iou()]);
        record.before = Some(before.entries().collect());
        record.after = Some(after.entries().collect());
        Ok(())
    }
}

impl Shop<'_> {
    /// The truth in the model's labels, and the label that counts nowhere. 255 is no void mark where it is the foreground
    /// of a mask, unless --void says so.
    fn true_labels<'t>(
        &self,
        truth: &'t [u16],
        labels: usize,
        values: &LabelValues,
        record: &mut Record,
    ) -> (Cow<'t, [u16]>, Option<u16>) {
        if values.is_mapped() {
            let void = self.void.filter(|&v| self.args.void.is_some() || values.label(v).is_none());
            let label = |&v: &u16| if Some(v) == void { VOID } else { values.label(v).unwrap_or(VOID) };
            return (truth.iter().map(label).collect(), Some(VOID));
        }
        let is_mask = labels == 2 && truth.contains(&255) && truth.iter().all(|v| [0, 255].contains(v));
        if is_mask && self.args.void.is_none() {
            record.notes.push("the truth is a mask with the values 0 and 255; 255 taken as label 1".into());
            return (truth.iter().map(|&v| v.min(1)).collect(), None);
        }
        (Cow::Borrowed(truth), self.void)
    }
}

/// Where an image's results go, relative to the output directory: labels, and beliefs if they are asked for.
pub fn outputs(args: &BatchArgs, name: &str) -> (PathBuf, Option<PathBuf>) {
    let labels = Path::new("labels").join(format!("{name}.{}", args.format.ending()));
    (labels, args.save_probs.then(|| Path::new("probs").join(format!("{name}.npy"))))
}

/// Fails if results would be written where inputs lie.
pub fn check_folders(out: &Path, items: &[Item]) -> Result<()> {
    let ours: Vec<PathBuf> =
        ["labels", "probs"].iter().filter_map(|f| fs::canonicalize(out.join(f)).ok()).collect();
    let mut last: Option<&Path> = None;
    for item in items {
        let source = item.source.as_ref().ok().map(|s| s.path());
        for input in [Some(item.image.as_path()), source, item.truth.as_deref()].into_iter().flatten() {
            let Some(folder) = input.parent() else { continue };
            // Most images lie where the one before did.
            if last == Some(folder) {
                continue;
            }
            last = Some(folder);
            let whole = fs::canonicalize(if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
            if whole.is_ok_and(|whole| ours.iter().any(|o| whole.starts_with(o))) {
                return Err(anyhow!(
                    "{}: is an input, and results would be written to the same directory; give another -o",
                    input.display()
                ));
            }
        }
    }
    Ok(())
}
