//! `relaxcrf stereo`: disparities of a rectified pair.

mod dense;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use relaxcrf::solve::{Method, Pipeline, Solve};
use relaxcrf_lab::disparity::{self, Score, Scores, Truth};
use relaxcrf_lab::outputs::{Together, check_writable};
use relaxcrf_lab::progress::RunObserver;
use relaxcrf_lab::report::picture::{ColourMap, Picture};
use relaxcrf_lab::report::{self, RunReport, advice, percent};
use relaxcrf_lab::specs::{CompatSpec, extension};
use serde::Serialize;

use super::use_threads;
use crate::args::StereoArgs;
use crate::forecast::seconds_per_pixel;
use crate::memory::Needs;
use crate::progress::Meter;
use crate::terminal::{print, print_json};

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct StereoReport {
    #[serde(flatten)]
    run: RunReport,
    truth: Option<Scores>,
}

/// Reads, matches, minimises, writes.
pub fn run(args: &StereoArgs) -> Result<()> {
    check_outputs(args)?;
    use_threads(&args.common)?;
    if !args.has_model() {
        return dense::run(args);
    }
    args.check_plain_outputs()?;
    let count = args.count()?;
    if args.resources.dry_run || args.resources.max_memory.is_some() {
        check_resources(args, count)?;
        if args.resources.dry_run {
            return Ok(());
        }
    }
    let mut meter = Meter::new(args.common.quiet, "building the model");
    let messages = meter.messages();
    let seed = args.common.seed;
    let files = (args.left.as_path(), args.right.as_path());
    let pair =
        disparity::read_pair(files, count, &args.cost.options(), &args.model.options(), seed, &messages)?;
    let size = (pair.left.width, pair.left.height);
    let truth = Truth::read(&args.truth.files(), &args.left, size)?;
    if let Some(largest) = truth.as_ref().map(Truth::largest).filter(|&d| d >= count as f32) {
        messages.warn(&format!(
            "the true disparities go up to {largest}, beyond the {} that are tried: wrong --scale, or too few --disparities?",
            count
        ));
    }
    let settings = args.run.limits.settings(seed);
    let method = args.method();
    if args.run.explain {
        advice::explain(&method, &pair.model, &settings, &messages);
    }
    meter.start(&method, &settings);
    let solution =
        Solve::new(&pair.model).method(&method).settings(&settings).observe(|p| meter.show(p)).run()?;
    let solution = args.run.take.labels_of(solution);
    if args.run.explain {
        advice::note_left_out(&solution, &messages);
    }
    let labels = solution.labeling.as_slice();
    if let Some((disparity, energy)) = solution.constant_below().filter(|_| !method.is_unary()) {
        messages.warn(&format!(
            "disparity {disparity} at every pixel has lower energy ({}) than these disparities ({}): the kernels' weights \
             are too large for these matching costs",
            report::number(energy),
            report::number(solution.energy.total())
        ));
    }
    drop(meter);

    let mut together = Together::default();
    if let Some(path) = &args.colours {
        let values: Vec<f32> = labels.iter().map(|&l| f32::from(l)).collect();
        together.write(path, || write_colours(path, size, &values, count))?;
    }
    for path in output_files(args) {
        let write = || disparity::write(path, size, labels, args.png_scale(count), &args.bits, count);
        together.write(path, write)?;
    }

    let scores = truth.as_ref().map(|t| t.scores(labels));
    let run = RunReport::new(&pair.model, &method, &solution, args.common.json)
        .with_trace(&solution.trace, args.run.trace.trace);
    if args.common.json {
        return print_json(&StereoReport { run, truth: scores });
    }
    if args.common.quiet {
        return Ok(());
    }
    show(args, &run, scores)
}

/// The maps to write. Devices are written to first: a failure there leaves no other files.
fn output_files(args: &StereoArgs) -> Vec<&PathBuf> {
    let (files, devices): (Vec<_>, Vec<_>) = args.output.iter().partition(|p| p.is_file() || !p.exists());
    devices.into_iter().chain(files).collect()
}

/// Writes disparities in colours.
fn write_colours(path: &Path, size: (usize, usize), values: &[f32], count: usize) -> Result<()> {
    let last = count.saturating_sub(1).max(1) as f32;
    let png = Picture::numbers(size, values, (-0.04 * last, 1.04 * last), ColourMap::Turbo).png()?;
    Ok(relaxcrf_io::write_atomically(path, |out| out.write_all(&png))?)
}

impl StereoArgs {
    /// Whether a model or a method was asked for.
    fn has_model(&self) -> bool {
        let (model, limits) = (&self.model, &self.run.limits);
        self.run.method.is_some()
            || self.run.explain
            || self.run.trace.trace
            || !model.gaussian.is_empty()
            || !model.bilateral.is_empty()
            || model.normalization.is_some()
            || model.compat != CompatSpec::Potts
            || limits.max_iter.is_some()
            || limits.tol.is_some()
            || limits.time_limit.is_some()
            || limits.until_gap.is_some()
    }

    /// Fails if something was asked for that comes with disparities checked in both pictures only.
    fn check_plain_outputs(&self) -> Result<()> {
        let others = [
            ("--right-output", &self.right_output),
            ("--occluded", &self.occluded),
            ("--confidence", &self.confidence),
            ("--depth", &self.depth),
            ("--points", &self.points),
        ];
        match others.into_iter().find(|(_, path)| path.is_some()) {
            Some((option, _)) => bail!(
                "{option} is not available with a method or model of its own; expected only the pictures, --quality and \
                 --cost beside it"
            ),
            None => Ok(()),
        }
    }

    /// The number of disparities, given or estimated.
    fn count(&self) -> Result<usize> {
        if let Some(count) = self.disparities {
            return Ok(count);
        }
        let (left, right) = (relaxcrf_io::read_image(&self.left)?, relaxcrf_io::read_image(&self.right)?);
        Ok(relaxcrf_stereo::estimate_range(&left, &right)?.disparities)
    }

    /// All files to write.
    fn written(&self) -> impl Iterator<Item = &PathBuf> {
        let others =
            [&self.colours, &self.right_output, &self.occluded, &self.confidence, &self.depth, &self.points];
        self.output.iter().chain(others.into_iter().flatten())
    }

    fn method(&self) -> Pipeline {
        self.run.method.clone().unwrap_or_else(|| Method::MF.into())
    }

    /// Grey values per disparity: as given, or for 8 bits as in the truth file.
    fn png_scale(&self, count: usize) -> Option<f64> {
        let as_truth = self.truth.scale.filter(|s| self.bits == "8" && s * (count as f64 - 1.0) <= 255.0);
        self.output_scale.or(as_truth)
    }
}

/// Checks the memory of the pair against --max-memory, and prints it for --dry-run.
fn check_resources(args: &StereoArgs, count: usize) -> Result<()> {
    let left = relaxcrf_io::read_image(&args.left)?;
    let what = format!("{} with {}", args.left.display(), args.right.display());
    let model = disparity::with_usual_kernels(&args.model.options(), args.cost.options().cost.0);
    let needs = Needs::of_image(what, &left, count, &model, &args.method())?;
    args.resources.max_memory.map_or(Ok(()), |limit| needs.check(limit))?;
    if args.resources.dry_run {
        let files = (args.left.as_path(), args.right.as_path());
        let (left, _, costs) = disparity::read_costs(files, count, &args.cost.options())?;
        let settings = args.run.limits.settings(args.common.seed);
        let rate = seconds_per_pixel(&left, &costs, count, &model, &args.method(), &settings)?;
        return needs.show(Some(rate * (left.width * left.height) as f64), args.common.json);
    }
    Ok(())
}

fn check_outputs(args: &StereoArgs) -> Result<()> {
    let mut inputs: Vec<&Path> = vec![&args.left, &args.right];
    inputs.extend(args.calibration.as_deref());
    let truth = args.truth.files();
    inputs.extend(truth.paths());
    let outputs: Vec<&Path> = args.written().map(|p| p.as_path()).collect();
    for (k, output) in outputs.iter().enumerate() {
        check_writable(output, &inputs)?;
        if outputs[..k].contains(output) {
            bail!("{}: is asked for twice; give two names", output.display());
        }
    }
    let Some(count) = args.disparities else { return Ok(()) };
    if count > usize::from(u16::MAX) {
        bail!("--disparities is {count}; expected at most {}, and no more than the width", u16::MAX);
    }
    let eight_bits = args.bits == "8" && args.output.iter().any(|p| extension(p) == "png");
    if eight_bits {
        disparity::eight_bit_scale(args.png_scale(count), count)?;
    }
    Ok(())
}

fn show(args: &StereoArgs, r: &RunReport, scores: Option<Scores>) -> Result<()> {
    let written: Vec<String> =
        args.output.iter().chain(&args.colours).map(|p| p.display().to_string()).collect();
    let mut facts = vec![
        ("method", format!("{}: {}", r.method, r.status)),
        ("energy", report::number(r.energy)),
        ("lower bound", report::optional(r.lower_bound, report::number)),
        ("gap", report::optional(r.gap, percent)),
        ("disparities used", format!("{} of {}", r.labels_used, r.label_count)),
        ("seconds", format!("{:.2}", r.seconds)),
    ];
    if let Some(scores) = scores {
        facts.push(("all known pixels", shown(&scores.all)));
        if let Some(visible) = &scores.visible {
            facts.push(("visible in both", shown(visible)));
        }
    }
    facts.push(("written", written.join(", ")));
    print(&report::facts(&facts))
}

fn shown(score: &Score) -> String {
    format!(
        "{} off by more than 0.5, {} by more than 1, {} by more than 2; mean error {:.3} ({} pixels)",
        percent(score.bad_0_5),
        percent(score.bad_1),
        percent(score.bad_2),
        score.mean_error,
        score.pixels
    )
}
