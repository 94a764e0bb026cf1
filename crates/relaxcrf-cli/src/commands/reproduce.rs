//! `relaxcrf reproduce`: the paper's experiments.

use anyhow::Result;
use relaxcrf_lab::methods::{HALF_WEIGHTS, MethodList, SEGMENTATION, STEREO};
use relaxcrf_lab::reproduce::{segmentation, stereo};
use relaxcrf_lab::specs::Contestant;

use super::use_threads;
use crate::args::{ReproduceCommand, ReproduceSegmentationArgs, ReproduceStereoArgs};
use crate::progress::Screen;
use crate::terminal::{print, print_json};

/// Runs an experiment and prints its tables.
pub fn run(which: &ReproduceCommand) -> Result<()> {
    match which {
        ReproduceCommand::Stereo(args) => run_stereo(args),
        ReproduceCommand::Segmentation(args) => run_segmentation(args),
    }
}

/// The rows of the tables: by default also those of the paper's code, which halved the weights of mean field.
fn contestants(methods: &MethodList, half: Option<&MethodList>, usual: &str) -> Vec<Contestant> {
    let is_usual = usual.parse().is_ok_and(|usual: MethodList| usual == *methods);
    let of_the_paper = || HALF_WEIGHTS.parse().ok().filter(|_| is_usual);
    let half = half.cloned().or_else(of_the_paper).unwrap_or_else(|| MethodList(Vec::new()));
    methods.with_half_weights(&half)
}

fn run_stereo(args: &ReproduceStereoArgs) -> Result<()> {
    use_threads(&args.common)?;
    let options = stereo::StereoOptions {
        dir: args.dir.clone(),
        out: args.out.clone(),
        methods: contestants(&args.methods, args.half_weights.as_ref(), STEREO),
        time_limit: args.time_limit,
        only: args.only.clone(),
        seed: args.common.seed,
    };
    let results = stereo::run(&options, &Screen { quiet: args.common.quiet })?;
    if args.common.json {
        return print_json(&results.comparisons());
    }
    if args.common.quiet {
        return Ok(());
    }
    print(&format!(
        "{}\n\nstereo.html, stereo.md, stereo.csv and pictures are in {}.\n",
        results.terminal(),
        args.out.display()
    ))
}

fn run_segmentation(args: &ReproduceSegmentationArgs) -> Result<()> {
    use_threads(&args.common)?;
    let options = segmentation::SegmentationOptions {
        data: args.data.options(),
        split: args.split.clone(),
        out: args.out.clone(),
        methods: contestants(&args.methods, args.half_weights.as_ref(), SEGMENTATION),
        preset: args.preset.clone(),
        model: args.model.options(),
        lp_iterations: args.lp_iterations,
        save_labels: args.save_labels,
        seed: args.common.seed,
    };
    let results = segmentation::run(&options, &Screen { quiet: args.common.quiet })?;
    if args.common.json {
        return print_json(&results.summary);
    }
    if args.common.quiet {
        return Ok(());
    }
    print(&format!(
        "{}\nWritten to {}: report.html, report.md, summary.csv, summary.json, images.csv, results.jsonl.\n",
        results.markdown,
        args.out.display()
    ))
}
