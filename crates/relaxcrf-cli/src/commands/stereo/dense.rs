//! `relaxcrf stereo` without a method or model of its own: dense disparities in seconds.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result};
use relaxcrf::Image;
use relaxcrf_io as io;
use relaxcrf_lab::disparity::{self, Scores, Truth};
use relaxcrf_lab::inputs::check_size;
use relaxcrf_lab::messages::Messages;
use relaxcrf_lab::outputs::Together;
use relaxcrf_lab::progress::RunObserver;
use relaxcrf_lab::report::{self, percent};
use relaxcrf_lab::specs::extension;
use relaxcrf_stereo::{Calibration, Matching, Options, estimate_range};
use serde::Serialize;

use super::{output_files, shown, write_colours};
use crate::args::StereoArgs;
use crate::memory::{Needs, PROGRAM};
use crate::progress::Meter;
use crate::terminal::{print, print_json};

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct DenseReport {
    method: &'static str,
    quality: String,
    pixels: usize,
    disparities: usize,
    /// Fraction of the left pixels that the right picture does not confirm.
    occluded: f64,
    mean_confidence: f64,
    seconds: f64,
    truth: Option<Scores>,
}

/// Reads, matches, fills, writes.
pub fn run(args: &StereoArgs) -> Result<()> {
    let calibration = read_calibration(args)?;
    let meter = Meter::new(args.common.quiet, "matching");
    let messages = meter.messages();
    let (left, right) = read_images(&args.left, &args.right)?;
    let size = (left.width, left.height);
    let count = count_disparities(args, (&left, &right), &messages)?;
    let truth = Truth::read(&args.truth.files(), &args.left, size)?;
    let mut options =
        Options { quality: args.quality, cost: args.cost.dense_options(), ..Options::default() };
    if let Some(limit) = args.resources.max_memory {
        options.max_bytes = options.max_bytes.min(limit / 2);
    }
    if check_memory(args, size, count, &options)? {
        return Ok(());
    }
    let start = Instant::now();
    let names = || format!("{} with {}", args.left.display(), args.right.display());
    let matching = Matching::new(&left, &right, count, &options).with_context(names)?;
    let labels = matching.crf_labels(&left, &options)?;
    let found = matching.finish(labels.as_deref());
    let seconds = start.elapsed().as_secs_f64();
    drop(meter);

    let mut together = Together::default();
    if let Some(path) = &args.colours {
        together.write(path, || write_colours(path, size, &found.left, count))?;
    }
    if let Some(path) = &args.right_output {
        let right = matching.finish_right(labels.as_deref());
        together.write(path, || write_map(args, path, size, &right, count))?;
    }
    if let Some(path) = &args.occluded {
        let mask = found.occluded.iter().map(|&o| if o { 255.0 } else { 0.0 }).collect();
        together.write(path, || io::write_image(path, &Image::new(size.0, size.1, 1, mask)?))?;
    }
    if let Some(path) = &args.confidence {
        together.write(path, || write_values(path, size, &found.confidence, 255.0))?;
    }
    if let Some(calibration) = calibration {
        if let Some(path) = &args.depth {
            let depths = calibration.depths(&found.left);
            together.write(path, || write_values(path, size, &depths, 1.0))?;
        }
        if let Some(path) = &args.points {
            let file = calibration.points(&left, &found.left);
            together.write(path, || io::write_atomically(path, |out| out.write_all(&file)))?;
        }
    }
    for path in output_files(args) {
        together.write(path, || write_map(args, path, size, &found.left, count))?;
    }

    let occluded = found.occluded.iter().filter(|o| **o).count() as f64 / found.occluded.len() as f64;
    let confidence =
        found.confidence.iter().map(|&c| f64::from(c)).sum::<f64>() / found.confidence.len() as f64;
    let scores = truth.as_ref().map(|t| t.scores_of(&found.left));
    let quality = format!("{:?}", args.quality).to_lowercase();
    if args.common.json {
        return print_json(&DenseReport {
            method: "paths",
            quality,
            pixels: found.left.len(),
            disparities: count,
            occluded,
            mean_confidence: confidence,
            seconds,
            truth: scores,
        });
    }
    if args.common.quiet {
        return Ok(());
    }
    let mut facts = vec![
        ("quality", quality),
        ("disparities", format!("0 to {}", count - 1)),
        ("not confirmed", format!("{} of the pixels, filled from their neighbours", percent(occluded))),
        ("mean confidence", format!("{confidence:.2}")),
        ("seconds", format!("{seconds:.2}")),
    ];
    if let Some(scores) = scores {
        facts.push(("all known pixels", shown(&scores.all)));
        if let Some(visible) = &scores.visible {
            facts.push(("visible in both", shown(visible)));
        }
    }
    let written: Vec<String> = args.written().map(|p| p.display().to_string()).collect();
    facts.push(("written", written.join(", ")));
    print(&report::facts(&facts))
}

fn read_images(left_path: &Path, right_path: &Path) -> Result<(Image, Image)> {
    let (left, right) = (io::read_image(left_path)?, io::read_image(right_path)?);
    let size = |image: &Image| (image.width, image.height);
    check_size("right picture", right_path, size(&right), left_path, size(&left))?;
    Ok((left, right))
}

/// The number of disparities: as given, or estimated. Says what looks wrong with the pair.
pub fn count_disparities(args: &StereoArgs, pair: (&Image, &Image), messages: &Messages) -> Result<usize> {
    if let Some(count) = args.disparities.filter(|c| !(1..=pair.0.width).contains(c)) {
        anyhow::bail!(
            "--disparities is {count}, but must be 1 to {} (the image's width); leave it out to have it estimated",
            pair.0.width
        );
    }
    let names = || format!("{} with {}", args.left.display(), args.right.display());
    let estimate = estimate_range(pair.0, pair.1).with_context(names)?;
    for note in &estimate.notes {
        messages.warn(&format!("{}: {note}", names()));
    }
    Ok(args.disparities.unwrap_or(estimate.disparities))
}

/// Whether nothing else was asked for than what it takes.
fn check_memory(args: &StereoArgs, size: (usize, usize), count: usize, options: &Options) -> Result<bool> {
    if !args.resources.dry_run && args.resources.max_memory.is_none() {
        return Ok(false);
    }
    let needs = Needs {
        what: format!("{} with {}", args.left.display(), args.right.display()),
        pixels: size.0 * size.1,
        labels: count,
        method: format!("{:?}", args.quality).to_lowercase(),
        peak: options.bytes(size.0, size.1, count) + PROGRAM,
    };
    args.resources.max_memory.map_or(Ok(()), |limit| needs.check(limit))?;
    if args.resources.dry_run {
        needs.show(None, args.common.json)?;
    }
    Ok(args.resources.dry_run)
}

fn write_map(
    args: &StereoArgs,
    path: &Path,
    size: (usize, usize),
    values: &[f32],
    count: usize,
) -> Result<()> {
    disparity::write_values(path, size, values, args.png_scale(count), &args.bits, count)
}

/// Writes numbers as .pfm or .npy, or scaled to grey.
fn write_values(path: &Path, size: (usize, usize), values: &[f32], scale: f32) -> Result<()> {
    match extension(path).as_str() {
        "npy" => io::write_npy_f32(path, &[size.1, size.0], values)?,
        "pfm" => io::write_pfm(path, &Image::new(size.0, size.1, 1, values.to_vec())?)?,
        _ => {
            let scaled = values.iter().map(|v| v * scale).collect();
            io::write_image(path, &Image::new(size.0, size.1, 1, scaled)?)?;
        }
    }
    Ok(())
}

fn read_calibration(args: &StereoArgs) -> Result<Option<Calibration>> {
    let Some(path) = &args.calibration else { return Ok(None) };
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(Some(Calibration::parse(&text).with_context(|| path.display().to_string())?))
}
