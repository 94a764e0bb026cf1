//! The paper's experiments on segmentation: every method on every image, then the tables.
//!
//! Each result is stored as soon as it is there, so that a run that was killed goes on where it was.

mod tables;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use relaxcrf::presets::Preset;
use relaxcrf::solve::{Pipeline, Settings};
use relaxcrf_io::{Palette, write_labels};
use serde::{Deserialize, Serialize};

use self::tables::Experiment;
use crate::chains::{Chains, StageEnd, scored_by};
use crate::dataset::{Dataset, Item};
use crate::journal::Journal;
use crate::messages::Messages;
use crate::options::{DataOptions, ModelOptions};
use crate::outputs::make_directory;
use crate::progress::{Counter, Observer, Silent};
use crate::report::page::write_text;
use crate::specs::{Contestant, PresetSpec};
use crate::{choice, methods, parallel};

/// The parameter sets of the paper's two tables.
const PAPER: [&str; 2] = ["paper-voc-dc", "paper-voc-mf"];

/// One method on one image, as it is stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Record {
    /// Everything the result depends on besides image and method.
    setup: String,
    image: String,
    method: String,
    /// Of the labels that the method itself arrived at; null if infinite.
    energy: Option<f64>,
    /// Of the best labelling seen, constant ones included.
    best_energy: Option<f64>,
    lower_bound: Option<f64>,
    status: String,
    seconds: f64,
    filter_calls: usize,
    ordered_calls: usize,
    iterations: usize,
    labels: usize,
    /// True label, label given by the method itself, pixels.
    confusion: Vec<(usize, usize, u64)>,
    /// The same for the best labelling seen.
    best_confusion: Vec<(usize, usize, u64)>,
}

/// One parameter set with what identifies its results.
#[derive(Debug)]
struct Setup {
    /// The preset's name, or `given`.
    name: String,
    source: String,
    /// As flags.
    kernels: String,
    model: ModelOptions,
    key: String,
}

/// What to run.
#[derive(Debug, Clone)]
pub struct SegmentationOptions {
    /// The data directory.
    pub data: DataOptions,
    /// Which images.
    pub split: String,
    /// Directory for the results; made if absent.
    pub out: PathBuf,
    /// Methods to compare.
    pub methods: Vec<Contestant>,
    /// Parameter sets, one table each; the paper's two if empty and no kernels are given.
    pub preset: Vec<PresetSpec>,
    /// Kernels that override the presets'.
    pub model: ModelOptions,
    /// Iterations of an LP stage; 0: the method's own limit.
    pub lp_iterations: u32,
    /// Also write every method's label maps.
    pub save_labels: bool,
    /// Seed of everything random.
    pub seed: u64,
}

/// The tables.
#[derive(Debug)]
pub struct SegmentationResults {
    /// As Markdown.
    pub markdown: String,
    /// As JSON.
    pub summary: serde_json::Value,
}

/// Runs all methods on all images of a split and writes the tables.
pub fn run(args: &SegmentationOptions, observer: &dyn Observer) -> Result<SegmentationResults> {
    let data = Dataset::open(&args.data, &args.split)?;
    let methods = chosen_methods(args)?;
    let setups = setups(args, &data)?;
    make_directory(&args.out)?;
    let path = args.out.join("results.jsonl");
    let mut records: HashMap<(String, String, String), Record> = HashMap::new();
    for record in Journal::read::<Record>(&path)? {
        records.insert((record.setup.clone(), record.image.clone(), record.method.clone()), record);
    }
    // Missing results, image by image: the methods of one image use the same model.
    let key =
        |setup: &Setup, item: &Item, m: &Contestant| (setup.key.clone(), item.id.clone(), m.to_string());
    let mut tasks: Vec<(&Setup, &Item, Vec<&Contestant>)> = Vec::new();
    for setup in &setups {
        for item in &data.items {
            let missing: Vec<&Contestant> =
                methods.iter().filter(|m| !records.contains_key(&key(setup, item, m))).collect();
            if !missing.is_empty() {
                tasks.push((setup, item, missing));
            }
        }
    }
    let left: usize = tasks.iter().map(|(_, _, missing)| missing.len()).sum();
    let total = setups.len() * data.items.len() * methods.len();
    let tally = observer.count(total, total - left, "runs");
    let journal = Journal::append_to(&path)?;
    let made = parallel::map(&tasks, |(setup, item, missing)| {
        process(args, &data, setup, item, missing, &journal, &*tally)
    })?;
    drop(tally);
    for record in made.into_iter().flatten() {
        records.insert((record.setup.clone(), record.image.clone(), record.method.clone()), record);
    }
    let experiments = setups
        .iter()
        .map(|setup| {
            let rows = methods
                .iter()
                .map(|m| data.items.iter().map(|item| records.get(&key(setup, item, m))).collect())
                .collect::<Vec<Option<Vec<&Record>>>>();
            let rows = rows.into_iter().collect::<Option<Vec<_>>>().context("some results are missing")?;
            Experiment::new(setup, &data, &methods, &rows)
        })
        .collect::<Result<Vec<_>>>()?;
    let markdown = tables::markdown(&data, &args.split, &experiments);
    let summary = tables::summary(&data, &args.split, &experiments);
    for (name, text) in [
        ("report.md", markdown.clone()),
        ("summary.csv", tables::summary_csv(&experiments)),
        ("images.csv", tables::images_csv(&experiments)),
        ("summary.json", serde_json::to_string_pretty(&summary)? + "\n"),
        ("report.html", tables::page(&data, &args.split, &experiments).html()?),
    ] {
        write_text(&args.out.join(name), &text)?;
    }
    Ok(SegmentationResults { markdown, summary: serde_json::to_value(&summary)? })
}

/// The methods asked for; the unaries come first, because energies are relative to theirs.
fn chosen_methods(args: &SegmentationOptions) -> Result<Vec<Contestant>> {
    if let Some(several) = args.methods.iter().find(|m| !m.chain.is_one_chain()) {
        bail!("{several}: several chains cannot be one row; name them one by one, separated by commas");
    }
    let mut seen = HashSet::new();
    Ok(methods::unary()
        .into_iter()
        .chain(args.methods.iter().cloned())
        .filter(|m| seen.insert(m.to_string()))
        .collect())
}

fn setups(args: &SegmentationOptions, data: &Dataset) -> Result<Vec<Setup>> {
    let flags = !args.model.gaussian.is_empty() || !args.model.bilateral.is_empty();
    let presets: Vec<Option<Preset>> = if !args.preset.is_empty() {
        args.preset.iter().map(|p| Ok(Some(p.resolve()?))).collect::<Result<_>>()?
    } else if flags {
        vec![None]
    } else {
        let paper = PAPER.map(|name| name.parse::<PresetSpec>());
        paper.into_iter().flatten().map(|p| Ok(Some(p.resolve()?))).collect::<Result<_>>()?
    };
    let mut names = HashSet::new();
    presets
        .iter()
        .map(|preset| {
            let model = choice::with_preset(&args.model, preset.as_ref());
            let kernels = model.describe();
            let name = preset.as_ref().map_or("given".into(), |p| p.name.to_string());
            if !names.insert(name.clone()) {
                bail!("two parameter sets are called `{name}`; give each its own name");
            }
            let key = format!(
                "{} truth={} void={} {kernels} seed={} lp={} v{}",
                data.name,
                args.data.truth,
                data.labels.void.map_or("none".into(), |v| v.to_string()),
                args.seed,
                args.lp_iterations,
                env!("CARGO_PKG_VERSION")
            );
            let source = preset.as_ref().map_or(String::new(), |p| p.source.to_string());
            Ok(Setup { name, source, kernels, model, key })
        })
        .collect()
}

/// Runs the missing methods on one image.
fn process(
    args: &SegmentationOptions,
    data: &Dataset,
    setup: &Setup,
    item: &Item,
    missing: &[&Contestant],
    journal: &Journal,
    tally: &dyn Counter,
) -> Result<Vec<Record>> {
    let messages: Messages = tally.messages();
    let model = item.model(&setup.model, args.seed, &messages)?;
    let truth = item.truth(&model)?;
    let half_model = if missing.iter().any(|m| m.half) {
        Some(item.model(&setup.model.halved(), args.seed, &messages)?)
    } else {
        None
    };
    let settings = Settings { seed: args.seed, ..Settings::default() };
    let ends = lp_ends(args.lp_iterations);
    let mut chains = Chains::new(&model, settings.clone(), &ends);
    let mut half_chains = half_model.as_ref().map(|m| Chains::new(m, settings, &ends));
    let mut records = Vec::new();
    for (k, method) in missing.iter().enumerate() {
        tally.say(&format!("{}: {} {method}", setup.name, item.id));
        let later = missing[k + 1..].iter().filter(|m| m.half == method.half);
        let later: Vec<&Pipeline> = later.map(|m| &m.chain).collect();
        let run = match half_chains.as_mut().filter(|_| method.half) {
            Some(half) => {
                half.run(&method.chain, &later, &mut Silent).and_then(|run| scored_by(&model, &run))
            }
            None => chains.run(&method.chain, &later, &mut Silent),
        }
        .with_context(|| item.id.clone())?;
        let own = run.beliefs.argmax();
        if args.save_labels {
            let folder = args.out.join("labels").join(&setup.name).join(file_name(&method.to_string()));
            make_directory(&folder)?;
            let (height, width) = (model.sizes()[0], model.sizes()[1]);
            let path = folder.join(format!("{}.png", item.id));
            write_labels(&path, width, height, own.as_slice(), &Palette::voc())?;
        }
        let void = data.labels.void;
        let record = Record {
            setup: setup.key.clone(),
            image: item.id.clone(),
            method: method.to_string(),
            energy: finite(run.final_energy.total()),
            best_energy: finite(run.best.energy.total()),
            lower_bound: run.lower_bound.as_ref().map(|b| b.value),
            status: run.status.to_string(),
            seconds: run.seconds,
            filter_calls: run.counts.filter,
            ordered_calls: run.counts.ordered,
            iterations: run.iterations,
            labels: model.labels(),
            confusion: item.compare(&model, &own, &truth, void)?.entries().collect(),
            best_confusion: item.compare(&model, &run.best.labeling, &truth, void)?.entries().collect(),
        };
        journal.append(&record)?;
        records.push(record);
        tally.step();
    }
    Ok(records)
}

/// The iterations of LP stages; 0: the methods' own limits.
fn lp_ends(iterations: u32) -> Vec<StageEnd> {
    let end = |method| StageEnd { method, iterations: iterations as usize, tolerance: None };
    if iterations == 0 { Vec::new() } else { ["lp", "tree-lp"].map(end).into() }
}

fn finite(energy: f64) -> Option<f64> {
    energy.is_finite().then_some(energy)
}

/// A method's name as a folder's.
fn file_name(method: &str) -> String {
    method.replace(['/', ':', '=', ' ', '(', ')'], "_").trim_end_matches('_').to_string()
}
