//! Arguments for images that are too large to be solved whole.

use clap::Args;

use crate::specs::{self, SizeSpec};

/// Tiles and their halo.
#[derive(Debug, Args)]
#[command(next_help_heading = "Huge images")]
pub struct TileArgs {
    /// Solve in square tiles: N pixels wide (made a multiple of 16), or as wide as --tile-memory allows. Image and arrays
    /// are read, and labels written, by window: TIFF, BigTIFF, GeoTIFF and .npy never as a whole
    #[arg(long, value_name = "auto|N")]
    pub tile: Option<SizeSpec>,
    /// Pixels around a tile that its solution uses [default: auto, 5 standard deviations of the widest kernel]
    #[arg(long, value_name = "auto|N", requires = "tile")]
    pub halo: Option<SizeSpec>,
    /// Memory for --tile auto, such as 800M or 2GiB [default: 1.5GiB]
    #[arg(long, value_name = "BYTES", requires = "tile", value_parser = specs::bytes)]
    pub tile_memory: Option<u64>,
}
