//! The program `relaxcrf`: a dense CRF from files to files.
//!
//! Results go to standard output and to files, messages to standard error. Exit codes: 0 done, 1 failed,
//! 2 bad usage. A closed standard output (`relaxcrf methods | head -1`) is not a failure.

mod args;
mod class_fractions;
mod classes;
mod commands;
mod failure;
mod forecast;
mod memory;
mod progress;
mod specs;
mod spellings;
mod terminal;

use std::process::ExitCode;
use std::thread;

use clap::Parser;

/// Stack of the thread that runs the program, in bytes. That of the first thread may be limited by the system.
const STACK: usize = 8 << 20;

fn main() -> ExitCode {
    match thread::Builder::new().stack_size(STACK).spawn(program) {
        Ok(thread) => thread.join().unwrap_or(ExitCode::FAILURE),
        // If no thread can be started, commands that need none still work.
        Err(_) => program(),
    }
}

fn program() -> ExitCode {
    failure::guard(|| match args::Cli::try_parse() {
        Ok(cli) => failure::exit_code(commands::run(cli.command)),
        Err(usage) => failure::explain_usage(&usage),
    })
}
