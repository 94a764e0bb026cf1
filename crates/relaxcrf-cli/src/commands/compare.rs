//! `relaxcrf compare`: several methods on one problem.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, bail};
use relaxcrf::solve::Settings;
use relaxcrf_io as io;
use relaxcrf_lab::choice;
use relaxcrf_lab::compare::{Comparison, Problem, Task};
use relaxcrf_lab::disparity::{self, Truth};
use relaxcrf_lab::inputs::{self, Input, Source};
use relaxcrf_lab::messages::Messages;
use relaxcrf_lab::methods::{self, MethodList};
use relaxcrf_lab::options::ModelOptions;
use relaxcrf_lab::outputs::check_writable;
use relaxcrf_lab::progress::{Part, RunObserver};
use relaxcrf_lab::report;
use relaxcrf_lab::report::page::{Block, Page, Section, write_text};
use relaxcrf_lab::report::picture::Picture;
use relaxcrf_lab::specs::Contestant;

use super::use_threads;
use crate::args::CompareArgs;
use crate::progress::{Meter, Screen};
use crate::terminal::{print, print_json};

/// Default time limit of a stage.
const DEFAULT_LIMIT: Duration = Duration::from_secs(60);

/// Reads the problem, runs the methods, reports.
pub fn run(args: &CompareArgs) -> Result<()> {
    check_outputs(args)?;
    use_threads(&args.common)?;
    let meter = Meter::new(args.common.quiet, "building the model");
    let messages = meter.messages();
    let problem = match (&args.source.right, args.disparities) {
        (Some(right), Some(disparities)) => stereo(args, right, disparities, &messages)?,
        _ => segmentation(args, &messages)?,
    };
    drop(meter);

    let settings = args.limits.settings(args.common.seed);
    let settings = Settings { time_limit: settings.time_limit.or(Some(DEFAULT_LIMIT)), ..settings };
    let screen = Screen { quiet: args.common.quiet };
    let mut comparison =
        problem.compare(&contestants(args), &settings, &[], &Part::whole(), &screen, &mut |_| {})?;
    for warning in &comparison.skipped {
        messages.warn(warning);
    }

    if let Some(path) = &args.report {
        page(args, &problem, &comparison, &messages).write(path)?;
    }
    if let Some(path) = &args.csv {
        write_text(path, &comparison.everything().csv())?;
    }
    if args.common.json {
        comparison.list_iterations(args.trace.trace);
        return print_json(&comparison);
    }
    if args.common.quiet {
        return Ok(());
    }
    let mut out = format!("{}\n", comparison.energies().terminal());
    if let Some(qualities) = comparison.qualities() {
        out += &format!("\n{}\n", qualities.terminal());
    }
    for warning in comparison.warnings() {
        out += &format!("\n{warning}\n");
    }
    for path in [&args.report, &args.csv].into_iter().flatten() {
        out += &format!("\nwritten: {}\n", path.display());
    }
    print(&out)
}

fn source(args: &CompareArgs) -> Source<'_> {
    args.source.files.or_labels(args.source.labels.as_ref())
}

fn contestants(args: &CompareArgs) -> Vec<Contestant> {
    let half = args.half_weights.clone().unwrap_or_else(|| MethodList(Vec::new()));
    args.methods.clone().unwrap_or_else(methods::for_comparison).with_half_weights(&half)
}

fn check_outputs(args: &CompareArgs) -> Result<()> {
    let source = source(args);
    let mut inputs: Vec<&Path> = source.files();
    inputs.push(&args.image);
    inputs.extend(args.source.right.as_deref());
    let truth = args.truth.files();
    inputs.extend(truth.paths());
    for output in [&args.report, &args.csv].into_iter().flatten() {
        check_writable(output, &inputs)?;
    }
    Ok(())
}

fn stereo(args: &CompareArgs, right: &Path, disparities: usize, messages: &Messages) -> Result<Problem> {
    let files = (args.image.as_path(), right);
    let read = |model: &ModelOptions| {
        disparity::read_pair(files, disparities, &args.cost.options(), model, args.common.seed, messages)
    };
    let model_args = disparity::with_usual_kernels(&args.model.options(), args.cost.options().cost.0);
    let pair = read(&model_args)?;
    let half = wants_half(args).then(|| read(&model_args.halved())).transpose()?.map(|p| p.model);
    let truth = Truth::read(&args.truth.files(), &args.image, (pair.left.width, pair.left.height))?;
    let inputs =
        vec![("left".to_string(), Picture::photo(&pair.left)), ("right".into(), Picture::photo(&pair.right))];
    Ok(Problem { name: name(&args.image), model: pair.model, half, inputs, task: Task::Stereo { truth } })
}

fn segmentation(args: &CompareArgs, messages: &Messages) -> Result<Problem> {
    for (given, option) in [
        (args.disparities.is_some(), "--disparities"),
        (args.truth.scale.is_some(), "--scale"),
        (args.truth.truth_right.is_some(), "--truth-right"),
        (args.truth.visible.is_some(), "--visible"),
    ] {
        if given {
            bail!(
                "{option} belongs to a stereo pair; give its right picture with --right, or leave {option} out"
            );
        }
    }
    let source = source(args);
    let model_args = choice::model(&args.model.options(), args.preset.preset.as_ref())?;
    let read = |model: &ModelOptions, messages: &Messages| {
        inputs::read(&args.image, source, &args.unary.options(), model, args.common.seed, messages)
    };
    let Input { image, model, values } = read(&model_args, messages)?;
    // The same files: warnings would be repeated.
    let quiet = Messages::silent();
    let half = wants_half(args).then(|| read(&model_args.halved(), &quiet)).transpose()?.map(|p| p.model);
    let truth = match &args.truth.truth {
        Some(path) => {
            let map = io::read_labels(path)?;
            inputs::check_size(
                "truth",
                path,
                (map.width, map.height),
                &args.image,
                (image.width, image.height),
            )?;
            let labels = values.labels(&map.labels).into_owned();
            if labels.iter().all(|&l| usize::from(l) >= model.labels()) {
                bail!(
                    "{}: no label in it is below {}, the number of labels of the problem",
                    path.display(),
                    model.labels()
                );
            }
            Some(labels)
        }
        None => None,
    };
    let inputs = vec![("image".to_string(), Picture::photo(&image))];
    Ok(Problem { name: name(&args.image), model, half, inputs, task: Task::Segmentation { truth } })
}

fn wants_half(args: &CompareArgs) -> bool {
    contestants(args).iter().any(|c| c.half)
}

fn name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into_owned())
}

fn page(args: &CompareArgs, problem: &Problem, comparison: &Comparison, messages: &Messages) -> Page {
    let mut sections = Vec::new();
    let said: Vec<Block> =
        messages.said().into_iter().filter(|w| !comparison.skipped.contains(w)).map(Block::Warning).collect();
    if !said.is_empty() {
        sections.push(Section { title: "Warnings".into(), blocks: said });
    }
    sections.extend(comparison.sections(problem));
    let mut facts = report::model_facts(&problem.model);
    facts.push(("seed".into(), args.common.seed.to_string()));
    sections.push(Section::new("Parameters").with(Block::Facts(facts)));
    Page {
        title: format!("{}: {} methods compared", problem.name, comparison.runs.len()),
        lead: "The same dense CRF, minimised by each method in turn. Lower energy is better; every pair of pixels counts \
               twice, once from each end."
            .into(),
        sections,
    }
}
