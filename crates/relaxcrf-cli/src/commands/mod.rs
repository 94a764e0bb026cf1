//! One file per command.

mod batch;
mod compare;
mod demo;
mod energy;
mod evaluate;
mod methods;
mod presets;
mod reproduce;
mod segment;
mod stereo;
mod study;
mod tune;

use anyhow::{Context, Result};

use crate::args::{Command, CommonArgs};

/// Runs a command.
pub fn run(command: Command) -> Result<()> {
    match command {
        Command::Demo(args) => demo::run(&args),
        Command::Segment(args) => segment::run(&args),
        Command::Batch(args) => batch::run(&args),
        Command::Stereo(args) => stereo::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Energy(args) => energy::run(&args),
        Command::Reproduce(which) => reproduce::run(&which),
        Command::Study(which) => study::run(&which),
        Command::Methods(args) => methods::run(&args),
        Command::Presets(args) => presets::run(&args),
        Command::Evaluate(args) => evaluate::run(&args),
        Command::Tune(args) => tune::run(&args),
    }
}

/// Sets up the threads for the whole process. Without a number, rayon reads its own variable.
fn use_threads(common: &CommonArgs) -> Result<()> {
    let Some(threads) = common.threads else { return Ok(()) };
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads.into())
        .build_global()
        .with_context(|| format!("{threads} threads cannot be started"))
}
