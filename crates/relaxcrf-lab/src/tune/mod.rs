//! Search for the kernel parameters that label a data set best.
//!
//! Every evaluation is stored before the next one starts; a search that was killed loses the one it was at.

mod point;
mod process;
mod search;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use relaxcrf::model::Normalization;
use relaxcrf::presets::Preset;
use relaxcrf::solve::{Pipeline, Settings, Solve};
use relaxcrf_io::write_preset;
use serde::{Deserialize, Serialize};

use self::point::Point;
use self::search::SearchBox;
use crate::dataset::Dataset;
use crate::journal::Journal;
use crate::messages::Messages;
use crate::metrics::Confusion;
use crate::options::{DataOptions, ModelOptions};
use crate::outputs::make_directory;
use crate::parallel;
use crate::progress::Observer;
use crate::report;
use crate::report::page::write_text;
use crate::report::plot::{Axis, Plot, Series};
use crate::specs::{BilateralSpec, CompatSpec, GaussianSpec, Objective, PresetSpec, RangeSpec, SearchKind};

/// A line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Line {
    /// What is searched: the first line.
    Search(Question),
    /// One set of parameters and how well it did.
    Evaluation(Evaluation),
}

/// Everything the scores depend on. A journal answers one question only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Question {
    data: String,
    split: String,
    images: usize,
    truth: String,
    void: Option<u16>,
    method: String,
    objective: String,
    ranges: String,
    start: String,
    spread: u32,
    search: String,
    seed: u64,
    version: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Evaluation {
    /// The name of a preset, or nothing.
    start: Option<String>,
    /// In the order of [`crate::specs::PARAMETERS`].
    parameters: Point,
    accuracy: f64,
    mean_iou: f64,
    score: f64,
    seconds: f64,
}

/// What to search for.
#[derive(Debug, Clone)]
pub struct TuneOptions {
    /// The data directory.
    pub data: DataOptions,
    /// Which images.
    pub split: String,
    /// Method to tune the kernels for.
    pub method: Pipeline,
    /// The measure to maximise.
    pub objective: Objective,
    /// Evaluations in all, those of earlier runs included.
    pub evaluations: usize,
    /// Evaluations spread evenly over the box at the start.
    pub spread: u32,
    /// Ranges other than the usual ones.
    pub range: Vec<RangeSpec>,
    /// Parameter sets to evaluate first.
    pub start: Vec<PresetSpec>,
    /// How to search; `None`: with the Gaussian process.
    pub search: Option<SearchKind>,
    /// Directory for evaluations.jsonl, best.toml and search.svg; made if absent.
    pub out: PathBuf,
    /// Seed of everything random.
    pub seed: u64,
}

/// The best parameters and the way to them.
#[derive(Debug, Serialize)]
pub struct Tuned {
    #[serde(flatten)]
    question: Question,
    best: Evaluation,
    flags: String,
    preset: String,
    #[serde(skip)]
    preset_name: String,
    evaluations: Vec<Evaluation>,
}

/// Searches, or goes on searching, and writes what was found.
pub fn run(args: &TuneOptions, observer: &dyn Observer) -> Result<Tuned> {
    let data = Dataset::open(&args.data, &args.split)?;
    let bounds = SearchBox::new(&args.range)?;
    let starts = args.start.iter().map(|s| Ok(s.resolve()?)).collect::<Result<Vec<_>>>()?;
    let kind = args.search.unwrap_or(SearchKind::Gp);
    let question = question(args, &data, &bounds, &starts, kind);
    let path = args.out.join("evaluations.jsonl");
    let done = resume(&path, &question)?;
    let fresh = done.is_none();
    make_directory(&args.out)?;
    let journal = Journal::append_to(&path)?;
    if fresh {
        journal.append(&Line::Search(question.clone()))?;
    }
    let mut done = done.unwrap_or_default();
    let total = args.evaluations;
    let tally = observer.count(total.max(done.len()), done.len(), "evaluations");
    let messages = tally.messages();
    while done.len() < total {
        let (start, parameters) = match starts.get(done.len()) {
            Some(preset) => (Some(preset.name.to_string()), search::of_preset(preset)),
            None => (None, choose(args, kind, &bounds, &done, starts.len())),
        };
        let evaluation = evaluate(args, &data, start, parameters, &messages)?;
        journal.append(&Line::Evaluation(evaluation.clone()))?;
        done.push(evaluation);
        if let Some(best) = best_of(&done) {
            tally.say(&format!("best {}: {}", args.objective, report::percent(best.score)));
        }
        tally.step();
    }
    drop(tally);
    finish(args, question, &data, done)
}

fn question(
    args: &TuneOptions,
    data: &Dataset,
    bounds: &SearchBox,
    starts: &[Preset],
    kind: SearchKind,
) -> Question {
    Question {
        data: data.name.clone(),
        split: args.split.clone(),
        images: data.items.len(),
        truth: args.data.truth.clone(),
        void: data.labels.void,
        method: args.method.to_string(),
        objective: args.objective.to_string(),
        ranges: bounds.describe(),
        start: starts.iter().map(|p| p.name.as_ref()).collect::<Vec<_>>().join(","),
        spread: args.spread,
        search: kind.to_string(),
        seed: args.seed,
        version: env!("CARGO_PKG_VERSION").into(),
    }
}

/// The evaluations of an earlier run of the same search; `None` if there was none.
fn resume(path: &Path, question: &Question) -> Result<Option<Vec<Evaluation>>> {
    let mut lines = Journal::read::<Line>(path)?.into_iter();
    let earlier = match lines.next() {
        None => return Ok(None),
        Some(Line::Search(earlier)) => earlier,
        Some(Line::Evaluation(_)) => bail!("{}: does not begin with what was searched", path.display()),
    };
    if earlier != *question {
        let [was, is] = [&earlier, question].map(serde_json::to_value);
        let (was, is) = (was?, is?);
        let differ = was.as_object().into_iter().flatten().filter(|(key, value)| is[key.as_str()] != **value);
        let differ: Vec<String> =
            differ.map(|(key, value)| format!("{key} was {value}, now {}", is[key])).collect();
        bail!(
            "{}: holds another search ({}); give the same options to go on with it, or another --out",
            path.display(),
            differ.join("; ")
        );
    }
    let evaluation = |line| match line {
        Line::Evaluation(evaluation) => Ok(evaluation),
        Line::Search(_) => bail!("{}: holds two searches; move it away to start afresh", path.display()),
    };
    lines.map(evaluation).collect::<Result<_>>().map(Some)
}

/// What to evaluate next, from nothing but what is known.
fn choose(
    args: &TuneOptions,
    kind: SearchKind,
    bounds: &SearchBox,
    done: &[Evaluation],
    starts: usize,
) -> Point {
    // A start outside of the box says nothing about the point of the box nearest to it.
    let inside = done.iter().filter(|e| bounds.contains(&e.parameters));
    let known: Vec<(Point, f64)> = inside.map(|e| (bounds.shares(&e.parameters), e.score)).collect();
    let shares = search::next(kind, done.len() - starts, args.spread as usize, args.seed, &known);
    bounds.at(shares)
}

/// Labels all images with these parameters, as `segment` would.
fn evaluate(
    args: &TuneOptions,
    data: &Dataset,
    start: Option<String>,
    parameters: Point,
    messages: &Messages,
) -> Result<Evaluation> {
    let started = Instant::now();
    let model_args = model_args(&parameters, &args.method);
    let settings = Settings { seed: args.seed, ..Settings::default() };
    let confusions = parallel::map(&data.items, |item| {
        let model = item.model(&model_args, args.seed, messages)?;
        let truth = item.truth(&model)?;
        let solution = Solve::new(&model)
            .method(&args.method)
            .settings(&settings)
            .run()
            .with_context(|| item.id.clone())?;
        item.compare(&model, &solution.labeling, &truth, data.labels.void)
    })?;
    let labels = confusions.iter().map(Confusion::labels).max().unwrap_or(1);
    let mut all = Confusion::new(labels);
    for (confusion, item) in confusions.iter().zip(&data.items) {
        if confusion.labels() != labels {
            bail!("image {} has {} labels, others have {labels}", item.id, confusion.labels());
        }
        all.merge(confusion);
    }
    let (Some(accuracy), Some(mean_iou)) = (all.accuracy(), all.mean_iou()) else {
        bail!("every true pixel is void; there is nothing to tune for (see --void)");
    };
    let score = args.objective.score(accuracy, mean_iou);
    Ok(Evaluation { start, parameters, accuracy, mean_iou, score, seconds: started.elapsed().as_secs_f64() })
}

fn model_args(p: &Point, method: &Pipeline) -> ModelOptions {
    let [sigma, weight, sigma_xy, sigma_rgb, bilateral_weight] = p.map(|v| v as f32);
    ModelOptions {
        gaussian: vec![GaussianSpec::new(sigma, weight)],
        bilateral: vec![BilateralSpec::new(sigma_xy, sigma_rgb, bilateral_weight)],
        normalization: Some(Normalization::Symmetric),
        filter: method.preferred_filter(),
        compat: CompatSpec::Potts,
        calibrate: false,
        learned: None,
    }
}

/// The first of the best.
fn best_of(done: &[Evaluation]) -> Option<&Evaluation> {
    done.iter().reduce(|best, e| if e.score > best.score { e } else { best })
}

fn finish(
    args: &TuneOptions,
    question: Question,
    data: &Dataset,
    evaluations: Vec<Evaluation>,
) -> Result<Tuned> {
    let best = best_of(&evaluations).context("there are no evaluations; expected at least one")?.clone();
    let preset = as_preset(&question, data, evaluations.len(), &best);
    let file = args.out.join("best.toml");
    write_preset(&file, &preset)?;
    write_text(&args.out.join("search.svg"), &plot(&question, &evaluations).file())?;
    let flags = model_args(&best.parameters, &args.method).kernel_flags();
    let (preset, preset_name) = (file.display().to_string(), preset.name.to_string());
    Ok(Tuned { question, best, flags, preset, preset_name, evaluations })
}

impl Tuned {
    /// Names and values for a terminal.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        let measures = |e: &Evaluation| {
            format!("accuracy {}, mean IoU {}", report::percent(e.accuracy), report::percent(e.mean_iou))
        };
        let mut facts = vec![("best", measures(&self.best)), ("flags", self.flags.clone())];
        for e in self.evaluations.iter().filter(|e| e.start.is_some()) {
            facts.push(("start", format!("{} {}", e.start.as_deref().unwrap_or_default(), measures(e))));
        }
        facts.push(("preset", format!("{}: use it with --preset {}", self.preset_name, self.preset)));
        let seconds: f64 = self.evaluations.iter().map(|e| e.seconds).sum();
        let (count, images) = (self.evaluations.len(), self.question.images);
        facts.push(("search", format!("{count} evaluations of {images} images, {seconds:.0} s")));
        facts
    }
}

fn as_preset(question: &Question, data: &Dataset, evaluations: usize, best: &Evaluation) -> Preset {
    let [sigma, weight, sigma_xy, sigma_rgb, bilateral_weight] = best.parameters.map(|v| v as f32);
    Preset {
        name: format!("{}-{}-tuned", data.name, question.method).into(),
        summary: format!("{} tuned for {}, objective {}", data.name, question.method, question.objective)
            .into(),
        source: format!(
            "relaxcrf tune, split {}, {} images, {evaluations} evaluations: accuracy {}, mean IoU {}",
            question.split,
            question.images,
            report::percent(best.accuracy),
            report::percent(best.mean_iou)
        )
        .into(),
        gaussian: (sigma, weight),
        bilateral: (sigma_xy, sigma_rgb, bilateral_weight),
        method: question.method.clone().into(),
        normalization: Normalization::Symmetric,
        learned: None,
    }
}

/// Scores one by one, and the best so far.
fn plot(question: &Question, done: &[Evaluation]) -> Plot {
    let percent = |k: usize, score: f64| ((k + 1) as f64, 100.0 * score);
    let single = done.iter().enumerate().map(|(k, e)| percent(k, e.score)).collect();
    let mut best = f64::NEG_INFINITY;
    let so_far = done.iter().enumerate().map(|(k, e)| {
        best = best.max(e.score);
        percent(k, best)
    });
    let so_far = so_far.collect();
    let title =
        format!("{} {}: {} of {}", question.data, question.split, question.objective, question.method);
    let mut plot = Plot::new(title, Axis::linear("evaluation"), Axis::linear("percent"))
        .with(Series::marks("evaluations", single))
        .with(Series::line("best so far", so_far));
    for e in done.iter().filter(|e| e.start.is_some()) {
        plot = plot.with_rule(e.start.clone().unwrap_or_default(), 100.0 * e.score);
    }
    plot
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_best_wins() {
        let one = |score| Evaluation {
            start: None,
            parameters: [1.0; point::COUNT],
            accuracy: score,
            mean_iou: score,
            score,
            seconds: 0.0,
        };
        let mut done = vec![one(0.5), one(0.7), one(0.7), one(0.6)];
        done[1].seconds = 1.0;
        assert_eq!(best_of(&done), Some(&done[1]));
        assert_eq!(best_of(&[]), None);
    }
}
