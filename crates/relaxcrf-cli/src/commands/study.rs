//! `relaxcrf study`: parts of the method measured on their own.

use anyhow::Result;
use relaxcrf_lab::study::{self, FilterStudyOptions};

use super::use_threads;
use crate::args::{StudyCommand, StudyFilterArgs};
use crate::progress::Screen;
use crate::terminal::{print, print_json};

/// Runs a study and prints its tables.
pub fn run(which: &StudyCommand) -> Result<()> {
    match which {
        StudyCommand::Filter(args) => filter(args),
    }
}

fn filter(args: &StudyFilterArgs) -> Result<()> {
    use_threads(&args.common)?;
    let options = FilterStudyOptions {
        out: args.out.clone(),
        sigmas: args.sigmas.clone(),
        sides: args.sides.clone(),
        image: args.image.clone(),
        seed: args.common.seed,
    };
    let study = study::filter(&options, &Screen { quiet: args.common.quiet })?;
    if args.common.json {
        return print_json(&study);
    }
    if args.common.quiet {
        return Ok(());
    }
    print(&format!(
        "{}\n\nfilter.html, filter.md, filter.csv and the plots are in {}.\n",
        study.terminal(),
        args.out.display()
    ))
}
