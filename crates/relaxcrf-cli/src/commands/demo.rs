//! `relaxcrf demo`: two generated scenes with known truth, a page that shows the results, and commands to try.

mod page;
mod scenes;
mod try_it;

use std::path::PathBuf;

use anyhow::Result;
use relaxcrf::model::FilterKind;
use relaxcrf::solve::{Pipeline, Settings, Solution, Solve};
use relaxcrf::{Labeling, energy};
use relaxcrf_lab::outputs::make_directory;
use relaxcrf_lab::progress::RunObserver;
use relaxcrf_lab::report::RunReport;
use serde::Serialize;

use self::scenes::{Scene, Task};
use super::use_threads;
use crate::args::DemoArgs;
use crate::progress::Meter;
use crate::terminal::{print, print_json};

/// What `--json` prints for a scene.
#[derive(Debug, Serialize)]
struct SceneReport {
    name: &'static str,
    width: usize,
    height: usize,
    /// The page that shows both scenes.
    page: PathBuf,
    /// The scene's inputs, truth and resulting labels.
    files: Vec<PathBuf>,
    /// The labels before any refinement: the network's argmax, or the cheapest match of every pixel.
    start: Start,
    runs: Vec<Run>,
}

#[derive(Debug, Serialize)]
struct Start {
    energy: f64,
    #[serde(flatten)]
    quality: Quality,
    #[serde(skip)]
    labels: Labeling,
}

#[derive(Debug, Serialize)]
struct Run {
    #[serde(flatten)]
    report: RunReport,
    #[serde(flatten)]
    quality: Quality,
    #[serde(skip)]
    labels: Labeling,
}

/// How good labels are.
#[derive(Debug, Clone, Copy, Serialize)]
struct Quality {
    /// Fraction of pixels with the true label; of disparities, at most one off.
    accuracy: f64,
    /// Mean over the classes of intersection over union; `None` for disparities.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_iou: Option<f64>,
    /// Mean absolute error of disparities, in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_error: Option<f64>,
}

/// Runs the methods on both scenes, writes the files and the page.
pub fn run(args: &DemoArgs) -> Result<()> {
    use_threads(&args.common)?;
    make_directory(&args.out)?;
    let (quiet, seed) = (args.common.quiet, args.common.seed);
    let page = args.out.join("index.html");
    let mut results = Vec::new();
    for build in [scenes::segmentation, scenes::stereo] {
        let meter = Meter::new(quiet, "building a scene");
        let scene = build(seed)?;
        drop(meter);
        let mut report = compare(&scene, args)?;
        report.page = page.clone();
        report.files = scene.write(&args.out, &report)?;
        results.push((scene, report));
    }
    page::page(&results, args).write(&page)?;
    if args.common.json {
        let reports: Vec<&SceneReport> = results.iter().map(|(_, report)| report).collect();
        return print_json(&reports);
    }
    if quiet {
        return Ok(());
    }
    let mut out = String::new();
    for (scene, report) in &results {
        let SceneReport { name, width, height, .. } = report;
        let labels = scene.model.labels();
        out += &format!("\n{name}: {width} x {height} pixels, {labels} labels\n");
        out += &format!("{}\n", page::table(scene, report).terminal());
    }
    print(&format!("{out}\n{}", try_it::text(&args.out, &page)))
}

fn compare(scene: &Scene, args: &DemoArgs) -> Result<SceneReport> {
    let labels = scene.start.clone();
    let start = Start {
        energy: energy::of_labeling(&scene.model, &labels)?.total(),
        quality: scene.quality(&labels)?,
        labels,
    };
    let mut runs = Vec::new();
    for name in scene.methods() {
        runs.push(minimise(scene, name, args)?);
    }
    let (width, height) = scene.size();
    Ok(SceneReport { name: scene.name, width, height, page: PathBuf::new(), files: Vec::new(), start, runs })
}

fn minimise(scene: &Scene, name: &str, args: &DemoArgs) -> Result<Run> {
    let pipeline: Pipeline = name.parse()?;
    let until_gap = (name == "auto").then_some(scene.task.auto_gap());
    let settings = Settings { until_gap, seed: args.common.seed, ..Settings::default() };
    let mut meter = Meter::new(args.common.quiet, "preparing");
    meter.start(&pipeline, &settings);
    // The operator that `segment` and `stereo` would take, so that their labels are the same.
    let own_model = match pipeline.preferred_filter() {
        FilterKind::Auto => None,
        kind => Some(scene.model.with_filter(kind)?),
    };
    let model = own_model.as_ref().unwrap_or(&scene.model);
    let solution: Solution =
        Solve::new(model).method(&pipeline).settings(&settings).observe(|p| meter.show(p)).run()?;
    let report = RunReport::new(&scene.model, &pipeline, &solution, args.common.json)
        .with_trace(&solution.trace, args.trace.trace);
    Ok(Run { report, quality: scene.quality(&solution.labeling)?, labels: solution.labeling })
}

impl SceneReport {
    /// The run of the method that `segment` or `stereo` uses by default.
    fn default_run(&self, task: &Task) -> Option<&Run> {
        self.runs.iter().find(|r| r.report.method == task.default_method())
    }
}
