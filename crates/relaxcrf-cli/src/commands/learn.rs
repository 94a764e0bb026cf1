//! `relaxcrf learn`: parameters of the model learned from labelled images.

use anyhow::Result;
use relaxcrf_lab::learn::{self, LearnOptions};
use relaxcrf_lab::report;

use super::use_threads;
use crate::args::LearnArgs;
use crate::progress::Screen;
use crate::terminal::{print, print_json};

/// Learns and prints what was found.
pub fn run(args: &LearnArgs) -> Result<()> {
    use_threads(&args.common)?;
    let options = LearnOptions {
        data: args.data.options(),
        split: args.split.clone(),
        method: args.method.clone(),
        loss: args.loss,
        what: args.what.clone(),
        start: args.start.clone(),
        folds: usize::from(args.folds),
        output: args.output.clone(),
        report: args.report.clone(),
    };
    let learned = learn::run(&options, &Screen { quiet: args.common.quiet })?;
    if args.common.json {
        return print_json(&learned.as_json());
    }
    if args.common.quiet {
        return Ok(());
    }
    print(&report::facts(&learned.facts()))
}
