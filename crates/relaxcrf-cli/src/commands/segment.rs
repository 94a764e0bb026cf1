//! `relaxcrf segment`.

mod tiled;

use std::path::Path;

use anyhow::{Result, bail};
use indicatif::ProgressBar;
use relaxcrf::Beliefs;
use relaxcrf::io::{self, LabelFile};
use relaxcrf::solve::solve;

use super::use_threads;
use crate::args::{ModelArgs, SegmentArgs, SegmentSource};
use crate::forecast::seconds_per_pixel;
use crate::inputs::{self, Input, Source};
use crate::memory::Needs;
use crate::outputs::{Together, check_writable};
use crate::progress::Meter;
use crate::report::{self, Messages, RunReport};

/// Side of the tiles in a TIFF file that is written at once.
const TIFF_SIDE: usize = 512;

/// Reads, minimises, writes.
pub fn run(args: &SegmentArgs) -> Result<()> {
    let SegmentSource { probs, logits, unary, labels } = &args.source;
    let source = Source::choose(probs, logits.as_ref(), unary.as_ref(), labels.as_ref());
    let mut inputs = source.files();
    inputs.push(&args.image);
    for output in [Some(&args.output), args.save_probs.as_ref()].into_iter().flatten() {
        check_writable(output, &inputs)?;
    }
    if args.save_probs.as_ref() == Some(&args.output) {
        bail!("{}: cannot hold both the labels and the beliefs; give two names", args.output.display());
    }
    use_threads(&args.common)?;
    let model_args = inputs::with_preset(&args.model, inputs::preset(&args.preset)?.as_ref());
    let resources = &args.resources;
    if let Some(tile) = args.tiles.tile {
        if resources.dry_run || resources.max_memory.is_some() {
            bail!("--tile bounds memory by itself: give --tile-memory instead of --max-memory or --dry-run");
        }
        return tiled::run(args, tile, source, &model_args);
    }
    if resources.dry_run || resources.max_memory.is_some() {
        let (unary, method) = (&args.unary, &args.run.method);
        let needs = Needs::of_files(&args.image, source, unary, &model_args, method, resources.max_memory)?;
        resources.max_memory.map_or(Ok(()), |limit| needs.check(limit))?;
        if resources.dry_run {
            return needs.show(Some(forecast(args, source, &model_args)?), args.common.json);
        }
    }

    let mut meter = Meter::new(args.common.quiet, "building the model");
    let messages = meter.messages(args.common.quiet);
    let Input { model, values, .. } =
        inputs::read(&args.image, source, &args.unary, &model_args, args.common.seed, &messages)?;
    let settings = args.run.limits.settings(args.common.seed);
    report::explain(&args.run, &model, &settings, &messages);
    meter.start(&args.run.method, &settings);
    let solution = solve(&model, &args.run.method, None, &settings, &mut |p| meter.show(p))?;
    drop(meter);

    let (height, width) = (model.sizes()[0], model.sizes()[1]);
    let mut together = Together::default();
    if let Some(path) = &args.save_probs {
        together.write(path, || write_beliefs(path, width, height, &solution.beliefs))?;
    }
    let labels = &*values.restore(solution.labeling.as_slice());
    let palette = values.palette()?;
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

    if args.common.json {
        return report::print_json(&RunReport::new(&model, &args.run.method, &solution, true));
    }
    if args.common.quiet {
        return Ok(());
    }
    let report = RunReport::new(&model, &args.run.method, &solution, false);
    let parts = [report.energy, report.unary_energy, report.pairwise_energy].map(report::number);
    let calls = format!("{} of the filter, {} ordered", report.filter_calls, report.ordered_calls);
    report::print(&report::facts(&[
        ("method", format!("{}: {}", report.method, report.status)),
        ("energy", format!("{} (unary {}, pairwise {})", parts[0], parts[1], parts[2])),
        ("lower bound", report::optional(report.lower_bound, report::number)),
        ("gap", report::optional(report.gap, report::percent)),
        ("labels used", format!("{} of {}", report.labels_used, report.label_count)),
        ("calls", calls),
        ("seconds", format!("{:.2}", report.seconds)),
        ("written", args.output.display().to_string()),
    ]))
}

/// Seconds that the run would take on one thread.
fn forecast(args: &SegmentArgs, source: Source, model: &ModelArgs) -> Result<f64> {
    let quiet = Messages::new(true, ProgressBar::hidden());
    let (image, unary) = inputs::image_and_unary(&args.image, source, &args.unary.for_model(model), &quiet)?;
    let settings = args.run.limits.settings(args.common.seed);
    let rate = seconds_per_pixel(&image, &unary.rows, unary.labels, model, &args.run.method, &settings)?;
    Ok(rate * (image.width * image.height) as f64)
}

/// Labels x height x width, as networks and NumPy code have them.
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
