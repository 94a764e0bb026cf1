//! Tiles of huge images: the core's arithmetic for the Python side, which reads and writes the windows.

use pyo3::prelude::*;
use relaxcrf::solve::{Pipeline, Settings};
use relaxcrf::tiles;

use crate::errors::{ArgumentError, exception};
use crate::model::Model;

/// Starts and ends along every axis.
type Box = Vec<(usize, usize)>;

fn to_box(ranges: &[std::ops::Range<usize>]) -> Box {
    ranges.iter().map(|r| (r.start, r.end)).collect()
}

/// Pixels around a tile for kernels with these standard deviations.
#[pyfunction]
pub fn tile_halo(sigmas: Vec<f32>) -> usize {
    tiles::halo(sigmas)
}

/// Core and outer window of every tile, in raster order.
#[pyfunction]
pub fn tile_windows(sizes: Vec<usize>, side: usize, halo: Vec<usize>) -> PyResult<Vec<(Box, Box)>> {
    let tiling = tiles::Tiling::new(&sizes, side, &halo).map_err(exception)?;
    Ok(tiling.tiles().map(|t| (to_box(&t.core), to_box(&t.outer))).collect())
}

/// Windows from which the memory of a pixel is judged.
#[pyfunction]
pub fn tile_samples(sizes: Vec<usize>) -> Vec<Box> {
    tiles::samples(&sizes).iter().map(|window| to_box(window)).collect()
}

/// Bytes per pixel of a model like this one.
#[pyfunction]
pub fn tile_bytes_per_pixel(sample: &Bound<Model>, channels: usize) -> u64 {
    tiles::bytes_per_pixel(&sample.get().inner, channels)
}

/// The largest tile within so many bytes; without a number, those of the command line.
#[pyfunction]
#[pyo3(signature = (bytes_per_pixel, halo, axes, memory=None))]
pub fn tile_side(bytes_per_pixel: u64, halo: usize, axes: usize, memory: Option<u64>) -> PyResult<usize> {
    if bytes_per_pixel == 0 || axes == 0 {
        let text =
            format!("{bytes_per_pixel} bytes a pixel along {axes} axes: at least one of each is needed");
        return Err(ArgumentError::new_err(text));
    }
    tiles::side(memory.unwrap_or(tiles::DEFAULT_MEMORY), bytes_per_pixel, halo, axes).map_err(exception)
}

/// Fails for methods that cannot be used on tiles.
#[pyfunction]
pub fn tile_check_method(method: &str) -> PyResult<()> {
    let pipeline = method.parse::<Pipeline>().map_err(exception)?;
    tiles::check(&pipeline, &Settings::default()).map_err(exception)
}
