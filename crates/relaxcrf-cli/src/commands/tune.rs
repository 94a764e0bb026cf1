//! `relaxcrf tune`: the kernel parameters that label a data set best.

use anyhow::Result;
use relaxcrf_lab::report;
use relaxcrf_lab::tune::{self, TuneOptions};

use super::use_threads;
use crate::args::TuneArgs;
use crate::progress::Screen;
use crate::terminal::{print, print_json};

/// Searches and prints what was found.
pub fn run(args: &TuneArgs) -> Result<()> {
    use_threads(&args.common)?;
    let options = TuneOptions {
        data: args.data.options(),
        split: args.split.clone(),
        method: args.method.clone(),
        objective: args.objective,
        evaluations: args.evaluations as usize,
        spread: args.spread,
        range: args.range.clone(),
        start: args.start.clone(),
        search: args.search,
        out: args.out.clone(),
        seed: args.common.seed,
    };
    let tuned = tune::run(&options, &Screen { quiet: args.common.quiet })?;
    if args.common.json {
        return print_json(&tuned);
    }
    if args.common.quiet {
        return Ok(());
    }
    print(&report::facts(&tuned.facts()))
}
