//! `relaxcrf reproduce`: the paper's experiments.

use anyhow::Result;
use relaxcrf_lab::reproduce::{segmentation, stereo};

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

fn run_stereo(args: &ReproduceStereoArgs) -> Result<()> {
    use_threads(&args.common)?;
    let options = stereo::StereoOptions {
        dir: args.dir.clone(),
        out: args.out.clone(),
        methods: args.methods.0.clone(),
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
        methods: args.methods.clone(),
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
