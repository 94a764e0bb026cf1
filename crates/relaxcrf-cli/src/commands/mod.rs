//! One file per command.

mod batch;
mod compare;
mod demo;
mod energy;
mod evaluate;
mod learn;
mod methods;
mod presets;
mod reproduce;
mod segment;
mod stereo;
mod study;
mod tune;

use anyhow::{Context, Result, bail};
use relaxcrf_lab::parallel::STACK;

use crate::args::{Command, CommonArgs, MAX_THREADS};

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
        Command::Learn(args) => learn::run(&args),
    }
}

/// Sets up the threads and the clock of progress for the whole process. Without a number, rayon reads its own variable.
fn use_threads(common: &CommonArgs) -> Result<()> {
    crate::progress::begin(common.progress_every);
    const VARIABLE: &str = "RAYON_NUM_THREADS";
    let asked = std::env::var(VARIABLE).ok().and_then(|n| n.parse::<u128>().ok());
    if let (None, Some(n)) = (common.threads, asked.filter(|&n| n > u128::from(MAX_THREADS))) {
        bail!("{VARIABLE} is {n}; expected at most {MAX_THREADS}");
    }
    // Without this check threads would fail one by one when memory runs out, without a message.
    let count = common.threads.map(Into::into).or(asked.filter(|&n| n > 0).map(|n| n as usize));
    let count: usize = count.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, Into::into));
    let cannot_start = "the threads cannot be started (fewer with --threads, or is memory limited?)";
    relaxcrf::memory::require("memory for the threads", (count * STACK) as u64).context(cannot_start)?;
    // At its first use rayon would panic if the system refused a thread.
    rayon::ThreadPoolBuilder::new()
        .stack_size(STACK)
        .num_threads(common.threads.map_or(0, Into::into))
        .build_global()
        .context(cannot_start)?;
    // Allocators reserve memory for every thread that uses some; make them do so before the free memory is measured.
    rayon::broadcast(|_| drop(std::hint::black_box(vec![0u8; 64])));
    Ok(relaxcrf::memory::require("memory for the program", 0)?)
}
