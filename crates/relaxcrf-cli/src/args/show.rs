//! Arguments for pictures: colours, names, overlays.

use std::path::PathBuf;

use clap::Args;

use crate::specs;

/// Colours of label maps.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Display")]
pub struct ColourArgs {
    /// Colours of the labels in PNG files, in order: lines `R G B name` or `#rrggbb name`, a CSV with the columns name, r, g, b,
    /// or labels.json [default: the colours of PASCAL VOC]
    #[arg(long, visible_alias = "colors", value_name = "FILE")]
    pub colours: Option<PathBuf>,
}

/// How `segment` shows its result.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Display")]
pub struct ShowArgs {
    /// Also write the image with the labels' colours blended in and their borders drawn
    #[arg(long, value_name = "F.png", value_parser = specs::picture_output)]
    pub overlay: Option<PathBuf>,
    #[command(flatten)]
    pub colours: ColourArgs,
    /// Names of the labels for the summary: one per line, or a file as --colours takes [default: those of --colours, or of
    /// labels.json in the directory of the image or above it]
    #[arg(long, value_name = "FILE")]
    pub names: Option<PathBuf>,
}
