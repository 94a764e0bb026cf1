//! `relaxcrf reproduce`: the experiments of the paper, one file each.

mod segmentation;

use anyhow::Result;

use crate::args::ReproduceCommand;

/// Runs an experiment.
pub fn run(which: &ReproduceCommand) -> Result<()> {
    match which {
        ReproduceCommand::Segmentation(args) => segmentation::run(args),
    }
}
