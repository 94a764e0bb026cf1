//! `relaxcrf reproduce`: the paper's experiments, one file each.

mod pairs;
mod segmentation;
mod stereo;

use anyhow::Result;

use crate::args::ReproduceCommand;

/// Runs an experiment.
pub fn run(which: &ReproduceCommand) -> Result<()> {
    match which {
        ReproduceCommand::Stereo(args) => stereo::run(args),
        ReproduceCommand::Segmentation(args) => segmentation::run(args),
    }
}
