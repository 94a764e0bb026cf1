//! `relaxcrf demo`: two generated scenes with known truth, every method, one table each.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Result;
use relaxcrf::io::{Palette, write_image, write_labels};
use relaxcrf::solve::{Pipeline, Settings, Solution, solve};
use relaxcrf::stereo::{CostOptions, Measure, cost};
use relaxcrf::{Error, Image, Labeling, Model, ModelBuilder, synth};
use serde::Serialize;

use super::use_threads;
use crate::args::DemoArgs;
use crate::methods;
use crate::outputs::make_directory;
use crate::progress::Meter;
use crate::report::{self, RunReport, align_numbers, table};

/// What all methods together may take on a scene, so that a slow machine gets through the demo too.
const SCENE_BUDGET: Duration = Duration::from_secs(13);

/// A problem with its answer.
struct Scene {
    name: &'static str,
    /// What counts as right, for the reader.
    right_means: &'static str,
    pictures: Vec<(&'static str, Image)>,
    truth: Labeling,
    /// Labels this far from the truth are still right.
    slack: u16,
    palette: Palette,
    model: Model,
}

/// What `--json` prints for a scene.
#[derive(Debug, Serialize)]
struct SceneReport {
    name: &'static str,
    width: usize,
    height: usize,
    runs: Vec<Run>,
}

#[derive(Debug, Serialize)]
struct Run {
    #[serde(flatten)]
    report: RunReport,
    accuracy: f64,
    file: PathBuf,
}

/// Runs all methods on both scenes.
pub fn run(args: &DemoArgs) -> Result<()> {
    use_threads(&args.common)?;
    make_directory(&args.out)?;
    let mut reports = Vec::new();
    for build in [segmentation, stereo] {
        let meter = Meter::new(args.common.quiet, "building a scene");
        let scene = build(args.common.seed)?;
        drop(meter);
        let report = compare(&scene, args)?;
        if !args.common.json {
            show(&scene, &report)?;
        }
        reports.push(report);
    }
    if args.common.json {
        return report::print_json(&reports);
    }
    report::print(&format!("\nPictures and label maps are in {}.\n", args.out.display()))
}

/// Shapes in front of a backdrop, and the coarse, partly wrong probabilities of a pretended network.
fn segmentation(seed: u64) -> Result<Scene> {
    let (width, height, labels) = (240, 180, 6);
    let scene = synth::segmentation(width, height, labels, SEGMENTATION_SEED.wrapping_add(seed))?;
    let model = ModelBuilder::image(width, height, labels)
        .probabilities(&scene.probabilities)?
        .gaussian(3.0, 1.5)
        .bilateral(scene.image.data.clone(), 40.0, 13.0, 5.0)
        .build()?;
    Ok(Scene {
        name: "segmentation",
        right_means: "the pixel's label is the true one",
        pictures: vec![("image", scene.image)],
        truth: scene.truth,
        slack: 0,
        palette: Palette::voc(),
        model,
    })
}

/// Surfaces at several depths seen by two cameras; labels are disparities.
fn stereo(seed: u64) -> Result<Scene> {
    let (width, height, disparities) = (200, 150, 16);
    let scene = synth::stereo(width, height, disparities, STEREO_SEED.wrapping_add(seed))?;
    let options = CostOptions::new(Measure::BirchfieldTomasi);
    let costs = cost(&scene.left, &scene.right, disparities, &options)?;
    let model = ModelBuilder::image(width, height, disparities)
        .unary(costs)
        .gaussian(2.0, 0.7)
        .bilateral(scene.left.data.clone(), 15.0, 10.0, 2.1)
        .build()?;
    let ramp: Vec<[u8; 3]> = (0..disparities).map(|d| [(255 * d / (disparities - 1)) as u8; 3]).collect();
    Ok(Scene {
        name: "stereo",
        right_means: "the disparity is at most one off",
        pictures: vec![("left", scene.left), ("right", scene.right)],
        truth: scene.truth,
        slack: 1,
        palette: Palette::new(&ramp)?,
        model,
    })
}

/// Scenes that look well at the default seed.
const SEGMENTATION_SEED: u64 = 1;
const STEREO_SEED: u64 = 1;

fn compare(scene: &Scene, args: &DemoArgs) -> Result<SceneReport> {
    let folder = args.out.join(scene.name);
    make_directory(&folder)?;
    for (name, picture) in &scene.pictures {
        write_image(&folder.join(format!("{name}.png")), picture)?;
    }
    let (height, width) = (scene.model.sizes()[0], scene.model.sizes()[1]);
    let write = |path: &Path, labeling: &Labeling| {
        write_labels(path, width, height, labeling.as_slice(), &scene.palette)
    };
    write(&folder.join("truth.png"), &scene.truth)?;
    let mut runs = Vec::new();
    let pipelines: Vec<Pipeline> = methods::for_comparison().into_iter().map(|c| c.chain).collect();
    let started = Instant::now();
    for (k, pipeline) in pipelines.iter().enumerate() {
        // Twice a fair share of what is left: the quick ones leave enough for the others.
        let left = SCENE_BUDGET.saturating_sub(started.elapsed());
        let limit = left.mul_f64(2.0 / (pipelines.len() - k) as f64).min(left);
        let Some(solution) = minimise(scene, pipeline, limit, args)? else { continue };
        let file = folder.join(format!("{pipeline}.png"));
        write(&file, &solution.labeling)?;
        let report = RunReport::new(&scene.model, pipeline, &solution, args.common.json)
            .with_trace(&solution.trace, args.trace.trace);
        runs.push(Run { report, accuracy: accuracy(scene, &solution.labeling), file });
    }
    Ok(SceneReport { name: scene.name, width, height, runs })
}

/// `None` if the method is not made for this model.
fn minimise(
    scene: &Scene,
    pipeline: &Pipeline,
    limit: Duration,
    args: &DemoArgs,
) -> Result<Option<Solution>> {
    let settings = Settings { time_limit: Some(limit), seed: args.common.seed, ..Settings::default() };
    let mut meter = Meter::new(args.common.quiet, "preparing");
    meter.start(pipeline, &settings);
    match solve(&scene.model, pipeline, None, &settings, &mut |p| meter.show(p)) {
        Ok(solution) => Ok(Some(solution)),
        Err(Error::Method { .. }) => Ok(None),
        Err(other) => Err(other.into()),
    }
}

/// Share of pixels whose label is close enough to the true one.
fn accuracy(scene: &Scene, labeling: &Labeling) -> f64 {
    let pairs = labeling.as_slice().iter().zip(scene.truth.as_slice());
    let right = pairs.filter(|(a, b)| a.abs_diff(**b) <= scene.slack).count();
    right as f64 / labeling.len().max(1) as f64
}

fn show(scene: &Scene, report: &SceneReport) -> Result<()> {
    let mut shown = table(&["method", "energy", "lower bound", "gap", "accuracy", "seconds", "filter calls"]);
    for Run { report: r, accuracy, .. } in &report.runs {
        shown.add_row([
            r.method.clone(),
            report::number(r.energy),
            report::optional(r.lower_bound, report::number),
            report::optional(r.gap, report::percent),
            report::percent(*accuracy),
            format!("{:.2}{}", r.seconds, if r.out_of_time() { "*" } else { " " }),
            r.filter_calls.to_string(),
        ]);
    }
    align_numbers(&mut shown);
    let SceneReport { name, width, height, .. } = report;
    let labels = scene.model.labels();
    let cut_short = report.runs.iter().any(|run| run.report.out_of_time());
    let note = if cut_short { "* stopped by the demo's time limit\n" } else { "" };
    report::print(&format!(
        "\n{name}: {width} x {height} pixels, {labels} labels; accuracy: {}\n{shown}\n{note}",
        scene.right_means
    ))
}
