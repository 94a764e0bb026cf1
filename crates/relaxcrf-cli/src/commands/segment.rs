//! `relaxcrf segment`: one image from files to files.

mod tiled;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use relaxcrf::Beliefs;
use relaxcrf::Solve;
use relaxcrf_io::{self as io, LabelFile};
use relaxcrf_lab::choice::Choice;
use relaxcrf_lab::inputs::{self, Input, Source};
use relaxcrf_lab::messages::Messages;
use relaxcrf_lab::outputs::{Together, check_writable};
use relaxcrf_lab::progress::RunObserver;
use relaxcrf_lab::report::picture::Picture;
use relaxcrf_lab::report::{self, RunReport, advice};
use serde::Serialize;

use super::use_threads;
use crate::args::SegmentArgs;
use crate::class_fractions::{self, ClassFraction, class_fractions};
use crate::classes::Appearance;
use crate::forecast::seconds_per_pixel;
use crate::memory::Needs;
use crate::progress::Meter;
use crate::terminal::{print, print_json};

/// Side of the tiles in a TIFF file that is written at once.
const TIFF_SIDE: usize = 512;

/// Column of the values in the summary, behind the longest name.
const FACTS_COLUMN: usize = "lower bound".len() + 2;

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct SegmentReport {
    #[serde(flatten)]
    run: RunReport,
    /// Fractions of the labels that occur, before and after.
    classes: Vec<ClassFraction>,
}

/// Reads, minimises, writes.
pub fn run(args: &SegmentArgs) -> Result<()> {
    let source = args.source.files.or_labels(args.source.labels.as_ref());
    let mut inputs = source.files();
    inputs.push(&args.image);
    let mut appearance = Appearance::read(&args.show, &inputs)?;
    inputs.extend(args.start.init.iter().map(|init| init.path()));
    inputs.extend([&args.show.colours.colours, &args.show.names].into_iter().flatten().map(PathBuf::as_path));
    for output in
        [Some(&args.output), args.save_probs.as_ref(), args.show.overlay.as_ref()].into_iter().flatten()
    {
        check_writable(output, &inputs)?;
    }
    if args.show.overlay.as_ref() == Some(&args.output) {
        bail!("{}: cannot hold both the labels and the overlay; give two names", args.output.display());
    }
    if args.save_probs.as_ref() == Some(&args.output) {
        bail!("{}: cannot hold both the labels and the beliefs; give two names", args.output.display());
    }
    use_threads(&args.common)?;
    let choice = Choice::new(&args.model.options(), args.preset.preset.as_ref(), args.run.method.as_ref())?;
    let resources = &args.resources;
    if let Some(tile) = args.tiles.tile {
        if resources.dry_run || resources.max_memory.is_some() {
            bail!("--tile bounds memory by itself: give --tile-memory instead of --max-memory or --dry-run");
        }
        return tiled::run(args, tile, source, &choice, &appearance);
    }
    if resources.dry_run || resources.max_memory.is_some() {
        let (model, method) = (&choice.model, &choice.method);
        let needs =
            Needs::of_files(&args.image, source, &args.unary.options(), model, method, resources.max_memory)?;
        resources.max_memory.map_or(Ok(()), |limit| needs.check(limit))?;
        if resources.dry_run {
            return needs.show(Some(forecast(args, source, &choice)?), args.common.json);
        }
    }

    let mut meter = Meter::new(args.common.quiet, "building the model");
    let messages = meter.messages();
    let Input { image, model, values } =
        inputs::read(&args.image, source, &args.unary.options(), &choice.model, args.common.seed, &messages)?;
    // Only an overlay needs the image again.
    let image = args.show.overlay.is_some().then_some(image);
    appearance.fit(model.labels(), &messages);
    let settings = args.run.limits.settings(args.common.seed);
    let kept = inputs::kept_labels(&args.start.keep_labels, model.labels(), &values)?;
    let start = args.start.init.as_ref().map(|spec| {
        inputs::read_start(spec, (&args.image, &model), &kept, &values, &args.unary.options(), &messages)
    });
    let start = start.transpose()?;
    let restricted = (kept.len() < model.labels()).then(|| model.restrict(&kept));
    let restricted = restricted.transpose().context("--keep-labels")?;
    let solved = restricted.as_ref().unwrap_or(&model);
    if args.run.explain {
        advice::explain(&choice.method, solved, &settings, &messages);
    }
    meter.start(&choice.method, &settings);
    let run = Solve::new(solved).method(&choice.method).settings(&settings).init(start);
    let solution = run.observe(|p| meter.show(p)).run()?;
    let solution = match restricted {
        Some(_) => solution.with_labels_of(&kept, model.labels())?,
        None => solution,
    };
    let solution = args.run.take.labels_of(solution);
    if args.run.explain {
        advice::note_left_out(&solution, &messages);
    }
    advice::warn_about_constant(&solution, &args.image.display().to_string(), &choice, &messages);
    drop(meter);

    let (height, width) = (model.sizes()[0], model.sizes()[1]);
    let mut together = Together::default();
    if let Some(path) = &args.save_probs {
        together.write(path, || write_beliefs(path, width, height, &solution.beliefs))?;
    }
    let labels = &*values.restore(solution.labeling.as_slice());
    let palette = values.colours(appearance.given())?;
    together.write(&args.output, || -> Result<()> {
        if inputs::is_tiff(&args.output) {
            let geo = tiled::geo_tags(args, source)?;
            let (path, side) = (args.output.as_path(), TIFF_SIDE);
            let file = LabelFile { path, width, height, labels: values.end(model.labels()), side, geo: &geo };
            file.write::<relaxcrf::Error>(&palette, |put| put(&[0..height, 0..width], labels))?;
        } else {
            io::write_labels(&args.output, width, height, labels, &palette)?;
        }
        Ok(())
    })?;
    if let (Some(path), Some(image)) = (&args.show.overlay, &image) {
        let png = Picture::overlay(image, solution.labeling.as_slice(), &appearance.palette).png()?;
        together.write(path, || io::write_atomically(path, |out| out.write_all(&png)))?;
    }
    let mut classes =
        class_fractions(&model.unary_argmin(), &solution.labeling, model.labels(), &appearance.names);
    classes.iter_mut().for_each(|class| class.label = values.value(class.label));

    if args.common.json {
        let run = RunReport::new(&model, &choice.method, &solution, true);
        let run = run.with_trace(&solution.trace, args.run.trace.trace);
        return print_json(&SegmentReport { run, classes });
    }
    if args.common.quiet {
        return Ok(());
    }
    let report = RunReport::new(&model, &choice.method, &solution, false);
    let parts = [report.energy, report.unary_energy, report.pairwise_energy].map(report::number);
    let written =
        [Some(&args.output), args.save_probs.as_ref(), args.show.overlay.as_ref()].into_iter().flatten();
    let calls = format!("{} of the filter, {} ordered", report.filter_calls, report.ordered_calls);
    print(&report::facts(&[
        ("method", format!("{}: {}", report.method, report.status)),
        ("energy", format!("{} (unary {}, pairwise {})", parts[0], parts[1], parts[2])),
        ("lower bound", report::optional(report.lower_bound, report::number)),
        ("gap", report::optional(report.gap, report::percent)),
        ("labels used", format!("{} of {}", report.labels_used, report.label_count)),
        ("pixels", class_fractions::summary(&classes, FACTS_COLUMN)),
        ("calls", calls),
        ("seconds", format!("{:.2}", report.seconds)),
        ("written", written.map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")),
    ]))
}

/// Seconds that the run would take on one thread.
fn forecast(args: &SegmentArgs, source: Source, choice: &Choice) -> Result<f64> {
    let quiet = Messages::silent();
    let (image, unary) =
        inputs::image_and_unary(&args.image, source, &args.unary.options().for_model(&choice.model), &quiet)?;
    let settings = args.run.limits.settings(args.common.seed);
    let rate =
        seconds_per_pixel(&image, &unary.rows, unary.labels, &choice.model, &choice.method, &settings)?;
    Ok(rate * (image.width * image.height) as f64)
}

/// Writes beliefs as labels x height x width.
pub(super) fn write_beliefs(path: &Path, width: usize, height: usize, beliefs: &Beliefs) -> Result<()> {
    let labels = beliefs.labels();
    let mut planes = vec![0.0; beliefs.as_slice().len()];
    for (a, row) in beliefs.as_slice().chunks_exact(labels).enumerate() {
        for (i, &v) in row.iter().enumerate() {
            planes[i * width * height + a] = v;
        }
    }
    Ok(io::write_npy_f32(path, &[labels, height, width], &planes)?)
}
