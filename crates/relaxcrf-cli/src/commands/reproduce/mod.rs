//! `relaxcrf reproduce`: the paper's experiments.

mod pairs;
mod stereo;

use anyhow::Result;

use crate::args::ReproduceCommand;

/// Runs an experiment.
pub fn run(which: &ReproduceCommand) -> Result<()> {
    match which {
        ReproduceCommand::Stereo(args) => stereo::run(args),
    }
}
