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

use anyhow::{Context, Result, bail};

use crate::args::{Command, CommonArgs, MOST_THREADS};

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
    const VARIABLE: &str = "RAYON_NUM_THREADS";
    let Some(threads) = common.threads else {
        let asked = std::env::var(VARIABLE).ok().and_then(|n| n.parse::<u128>().ok());
        if let Some(n) = asked.filter(|&n| n > u128::from(MOST_THREADS)) {
            bail!("{VARIABLE} is {n}; wanted at most {MOST_THREADS}");
        }
        return Ok(());
    };
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads.into())
        .build_global()
        .with_context(|| format!("{threads} threads cannot be started"))
}
