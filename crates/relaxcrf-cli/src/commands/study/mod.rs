//! `relaxcrf study`: parts of the method measured on their own.

mod filter;

use anyhow::Result;

use crate::args::StudyCommand;

/// Runs a study.
pub fn run(which: &StudyCommand) -> Result<()> {
    match which {
        StudyCommand::Filter(args) => filter::run(args),
    }
}
