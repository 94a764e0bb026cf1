//! `relaxcrf learn`: kernels, temperature, bias and label costs fitted to labelled images.
//!
//! Every evaluation is stored before the next one starts; a fit that was killed computes only the one it was at again.

mod show;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use relaxcrf::model::{Learned, Normalization};
use relaxcrf::presets::Preset;
use relaxcrf::solve::Pipeline;
use relaxcrf_io::write_preset;
use relaxcrf_learn::bootstrap::{Comparison, Measure, compare};
use relaxcrf_learn::calibration::{Calibration, calibrate};
use relaxcrf_learn::fit::{Fit, Memory, Task};
use relaxcrf_learn::kernel::FilterChoice;
use relaxcrf_learn::loss::VOID;
use relaxcrf_learn::parameters::{KernelKind, KernelParameters, Parameters, Part};
use relaxcrf_learn::sample::{RawSample, Sample};
use relaxcrf_learn::unrolled::Updates;
use serde::{Deserialize, Serialize};

use crate::dataset::{Dataset, Item};
use crate::journal::Journal;
use crate::messages::Messages;
use crate::metrics::boundary_band;
use crate::options::DataOptions;
use crate::parallel;
use crate::progress::{Counter, Observer};
use crate::specs::{LearnLoss, LearnPart, PresetSpec};

/// Pixels from a true edge within which `--loss edges` counts.
pub const EDGE_RADIUS: usize = 5;
/// Most updates that are differentiated.
const MAX_UPDATES: usize = 100;

/// What to learn from what.
#[derive(Debug, Clone)]
pub struct LearnOptions {
    /// The data directory.
    pub data: DataOptions,
    /// Which images.
    pub split: String,
    /// The method to learn for.
    pub method: Pipeline,
    /// What is made small.
    pub loss: LearnLoss,
    /// Which parameters may be freed.
    pub what: Vec<LearnPart>,
    /// The start, and the mean of the prior.
    pub start: PresetSpec,
    /// Folds of the cross-validation.
    pub folds: usize,
    /// The preset file to write.
    pub output: PathBuf,
    /// The page to write.
    pub report: Option<PathBuf>,
}

/// Everything the numbers depend on. A journal answers one question only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Question {
    data: String,
    split: String,
    images: Vec<String>,
    truth: String,
    void: Option<u16>,
    method: String,
    loss: String,
    what: String,
    start: String,
    folds: usize,
    version: String,
}

/// A line of the journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    Learn(Question),
    Evaluation { key: u64, numbers: Vec<f64> },
}

/// What was learned, and what it is worth on images that were left out.
#[derive(Debug)]
pub struct LearnedModel {
    question: Question,
    preset: Preset,
    start: Parameters,
    fit: Fit,
    measure: Measure,
    calibration: Calibration,
    seconds: f64,
    output: PathBuf,
}

/// Fits, or goes on fitting, and writes the preset and the report.
pub fn run(options: &LearnOptions, observer: &dyn Observer) -> Result<LearnedModel> {
    let started = Instant::now();
    let updates = updates_of(&options.method)?;
    let start = options.start.resolve()?;
    if start.normalization != Normalization::Symmetric {
        bail!(
            "preset {}: normalization is {}; expected symmetric to learn from it",
            start.name,
            start.normalization
        );
    }
    let parts = parts_of(&options.what);
    let data = Dataset::open(&options.data, &options.split)?;
    let folds = options.folds.min(data.items.len());
    let fits = parts.len() * (folds + usize::from(folds > 1)).max(1);
    let tally = observer.count(fits + 1, 0, "fits");
    tally.say("reading images");
    let messages = tally.messages();
    let samples = parallel::map(&data.items, |item| {
        read_sample(item, data.labels.void, options.loss, &messages).with_context(|| item.id.clone())
    })?;
    let labels = samples.first().map_or(0, Sample::labels);
    for (sample, item) in samples.iter().zip(&data.items) {
        if sample.labels() != labels {
            bail!("image {} has {} labels, others have {labels}", item.id, sample.labels());
        }
    }
    let parameters = parameters_of(&start, labels)?;
    // Nothing is stored before all parts are known to fit.
    let question = question(options, &data, &start);
    let path = journal_path(&options.output);
    let known = resume(&path, &question)?;
    let journal = Journal::append_to(&path)?;
    if known.is_none() {
        journal.append(&Line::Learn(question.clone()))?;
    }
    let known = known.unwrap_or_default();
    tally.say("calibration");
    let calibration = calibrate(&samples, labels)?;
    tally.step();
    let (loss, measure) = options.loss.resolve();
    let task = Task {
        samples: &samples,
        start: parameters,
        loss,
        measure,
        updates,
        filter: FilterChoice::LatticeClassic,
        normalization: start.normalization,
        folds,
    };
    let mut memory = StoredEvaluations { journal: &journal, known, tally: tally.as_ref(), has_begun: false };
    let fit = task.fit(&parts, &mut memory)?;
    drop(tally);
    let learned = LearnedModel {
        preset: preset_of(&question, &fit, measure),
        question,
        start: task.start.clone(),
        fit,
        measure,
        calibration,
        seconds: started.elapsed().as_secs_f64(),
        output: options.output.clone(),
    };
    write_preset(&options.output, &learned.preset)?;
    if let Some(report) = &options.report {
        learned.page(&data, &options.method, &messages)?.write(report)?;
    }
    std::fs::remove_file(&path).with_context(|| format!("{}: cannot be removed", path.display()))?;
    Ok(learned)
}

/// The updates of a method, if it is one that can be differentiated.
fn updates_of(method: &Pipeline) -> Result<Updates> {
    let updates = match method.stages() {
        [only] => only.updates().filter(|count| (1..=MAX_UPDATES).contains(count)),
        _ => None,
    };
    let Some(count) = updates else {
        bail!(
            "--method {method} cannot be learned for: expected mf1 to mf{MAX_UPDATES}, a fixed number of mean-field updates \
             (the result can be used with other methods: --preset learned.toml --method graduated)"
        )
    };
    Ok(Updates::MeanField(count))
}

/// The parts in the order in which they are freed.
fn parts_of(what: &[LearnPart]) -> Vec<Part> {
    let asked = |part: Part| match part {
        Part::Temperature | Part::Bias => LearnPart::Unary,
        Part::Weights => LearnPart::Weights,
        Part::Widths => LearnPart::Widths,
        Part::Costs => LearnPart::Compat,
    };
    Part::ALL.into_iter().filter(|&part| what.contains(&asked(part))).collect()
}

fn parameters_of(preset: &Preset, labels: usize) -> Result<Parameters> {
    let kernel = |kind, weight: f32, widths: &[f32]| KernelParameters {
        kind,
        weight: f64::from(weight),
        widths: widths.iter().map(|&w| f64::from(w)).collect(),
    };
    let ((sigma, weight), (sigma_xy, sigma_rgb, bilateral)) = (preset.gaussian, preset.bilateral);
    let kernels = vec![
        kernel(KernelKind::Gaussian, weight, &[sigma]),
        kernel(KernelKind::Bilateral, bilateral, &[sigma_xy, sigma_rgb]),
    ];
    let mut parameters = Parameters::new(labels, kernels)?;
    if let Some(learned) = &preset.learned {
        learned.check_labels(labels)?;
        parameters.temperature = f64::from(learned.temperature);
        let copy =
            |to: &mut [f64], from: &[f32]| to.iter_mut().zip(from).for_each(|(t, &f)| *t = f64::from(f));
        copy(&mut parameters.bias, &learned.bias);
        copy(&mut parameters.costs, &learned.label_costs);
    }
    Ok(parameters)
}

/// Five digits are more than the data can tell apart.
fn rounded(value: f64) -> f32 {
    format!("{value:.4e}").parse().unwrap_or(value as f32)
}

fn preset_of(question: &Question, fit: &Fit, measure: Measure) -> Preset {
    let p = &fit.parameters;
    let [_, before, after] = fit.left_out.each_ref().map(|counts| 100.0 * measure.of_all(counts));
    let name = match measure {
        Measure::MeanIou => "mean IoU",
        Measure::Accuracy => "accuracy",
    };
    let all_zero = p.bias.iter().all(|&b| b == 0.0);
    let learned = Learned {
        temperature: rounded(p.temperature),
        bias: if all_zero { Vec::new() } else { p.bias.iter().map(|&b| rounded(b)).collect() },
        label_costs: if p.has_potts_costs() {
            Vec::new()
        } else {
            p.costs.iter().map(|&c| rounded(c)).collect()
        },
    };
    let width = |kernel: usize, at: usize| p.kernels.get(kernel).map_or(1.0, |k| rounded(k.widths[at]));
    let weight = |kernel: usize| p.kernels.get(kernel).map_or(0.0, |k| rounded(k.weight));
    Preset {
        name: format!("{}-{}-learned", question.data, question.method).into(),
        summary: format!("{} learned for {}, loss {}", question.data, question.method, question.loss).into(),
        source: format!(
            "relaxcrf learn, split {}, {} images: {name} of left-out images {before:.2} -> {after:.2} (from preset {})",
            question.split,
            question.images.len(),
            question.start
        )
        .into(),
        gaussian: (width(0, 0), weight(0)),
        bilateral: (width(1, 0), width(1, 1), weight(1)),
        method: question.method.clone().into(),
        normalization: Normalization::Symmetric,
        learned: (learned != Learned::default()).then_some(learned),
    }
}

fn read_sample(item: &Item, void: Option<u16>, loss: LearnLoss, messages: &Messages) -> Result<Sample> {
    let (image, unary) = item.image_and_unary(messages)?;
    let map = item.truth_map()?;
    if (map.width, map.height) != (image.width, image.height) {
        bail!(
            "the image is {}x{} but its truth is {}x{} (width x height); both must have the same size",
            image.width,
            image.height,
            map.width,
            map.height
        );
    }
    let weights = match loss {
        LearnLoss::Edges => {
            let band = boundary_band(&map.labels, map.width, EDGE_RADIUS);
            band.into_iter().map(|inside| f32::from(u8::from(inside))).collect()
        }
        _ => Vec::new(),
    };
    let truth = map.labels.into_iter().map(|l| if Some(l) == void { VOID } else { l }).collect();
    Ok(Sample::new(RawSample {
        size: (image.width, image.height),
        labels: unary.labels,
        unary: &unary.rows,
        image: image.data,
        features: Vec::new(),
        truth,
        weights,
    })?)
}

fn question(options: &LearnOptions, data: &Dataset, start: &Preset) -> Question {
    Question {
        data: data.name.clone(),
        split: options.split.clone(),
        images: data.items.iter().map(|item| item.id.clone()).collect(),
        truth: options.data.truth.clone(),
        void: data.labels.void,
        method: options.method.to_string(),
        loss: options.loss.to_string(),
        what: options.what.iter().map(LearnPart::to_string).collect::<Vec<_>>().join(","),
        start: start.name.to_string(),
        folds: options.folds,
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

/// Beside the preset file, so that a second run with the same options finds it.
fn journal_path(output: &Path) -> PathBuf {
    let mut name = output.file_name().map(std::ffi::OsStr::to_os_string).unwrap_or_default();
    name.push(".progress.jsonl");
    output.with_file_name(name)
}

/// The evaluations of an earlier run of the same fit; `None` if there was none.
fn resume(path: &Path, question: &Question) -> Result<Option<HashMap<u64, Vec<f64>>>> {
    let mut lines = Journal::read::<Line>(path)?.into_iter();
    match lines.next() {
        None => return Ok(None),
        Some(Line::Learn(earlier)) if earlier == *question => {}
        Some(_) => bail!(
            "{}: holds the progress of another fit; give the same options to go on with it, or remove it to start afresh",
            path.display()
        ),
    }
    let evaluation = |line| match line {
        Line::Evaluation { key, numbers } => Some((key, numbers)),
        Line::Learn(_) => None,
    };
    Ok(Some(lines.filter_map(evaluation).collect()))
}

/// Evaluations in a journal, and progress on the screen.
struct StoredEvaluations<'a> {
    journal: &'a Journal,
    known: HashMap<u64, Vec<f64>>,
    tally: &'a dyn Counter,
    has_begun: bool,
}

impl Memory for StoredEvaluations<'_> {
    fn find(&mut self, key: u64) -> Option<Vec<f64>> {
        self.known.get(&key).cloned()
    }

    fn store(&mut self, key: u64, numbers: &[f64]) -> relaxcrf::Result<()> {
        let line = Line::Evaluation { key, numbers: numbers.to_vec() };
        self.journal.append(&line).map_err(|e| {
            relaxcrf::Error::value("progress file", format!("{e:#}"), "a file that can be written")
        })
    }

    fn progress(&mut self, what: &str, fraction: f64) {
        if fraction > 0.0 && self.has_begun {
            self.tally.step();
        }
        self.has_begun = fraction > 0.0 || self.has_begun;
        self.tally.say(what);
    }
}

impl LearnedModel {
    /// Left-out images with what was learned, against the network alone and against the start.
    pub fn comparisons(&self) -> [Comparison; 2] {
        let [network, start, learned] = &self.fit.left_out;
        [network, start].map(|before| compare(before, learned, self.measure))
    }
}
