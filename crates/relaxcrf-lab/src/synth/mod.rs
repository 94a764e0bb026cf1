//! Generated scenes with known truth, for demonstrations, tests and benchmarks.
//!
//! Nothing is stored: a scene is computed from its size and a seed, the same on every run and for any number
//! of threads. Surfaces have colour, texture, shading and sensor noise; boundaries are curved; some parts are
//! only a few pixels thin. That is what makes a dense CRF earn its keep, and what shows where it fails.

mod landscape;
mod material;
mod noise;
mod segmentation;
mod shape;
mod stereo;

pub use landscape::{LANDSCAPE_LABELS, landscape};
pub use segmentation::{SegmentationScene, segmentation};
pub use stereo::{StereoLook, StereoScene, stereo, stereo_with};

use rayon::prelude::*;

use relaxcrf::Image;
use relaxcrf::error::{Error, Result};
use relaxcrf::rng::{Rng, mix};

/// Longest side of a scene; enough for any benchmark, and keeps every size computation small.
const MAX_SIDE: usize = 16_384;

fn check_size(width: usize, height: usize) -> Result<()> {
    for (what, side) in [("scene width", width), ("scene height", height)] {
        if !(1..=MAX_SIDE).contains(&side) {
            return Err(Error::value(what, side, format!("1 to {MAX_SIDE}")));
        }
    }
    Ok(())
}

/// What random streams of one seed are for: separate ones, so that changing one part of a scene leaves the
/// others alone.
#[derive(Clone, Copy)]
enum Stream {
    Materials,
    Layout,
    Mistakes,
    SensorNoise,
    OtherSensorNoise,
}

impl Stream {
    fn rng(self, seed: u64) -> Rng {
        Rng::stream(seed, self as u64)
    }
}

/// A colour picture of `colour(x, y)`, four samples to a pixel so that edges are smooth, plus sensor noise of
/// standard deviation `grain`, whose `stream` must differ between pictures.
fn render(
    width: usize,
    height: usize,
    grain: f64,
    stream: u64,
    colour: impl Fn(f64, f64) -> [f64; 3] + Sync,
) -> Image {
    let mut data = vec![0f32; width * height * 3];
    data.par_chunks_mut(width * 3).enumerate().for_each(|(y, row)| {
        // One stream a row: the rows may be computed in any order.
        let mut rng = Rng::new(mix(stream ^ mix(y as u64)));
        for (x, pixel) in row.chunks_exact_mut(3).enumerate() {
            let mut sum = [0.0; 3];
            for (dx, dy) in [(-0.25, -0.25), (0.25, -0.25), (-0.25, 0.25), (0.25, 0.25)] {
                let c = colour(x as f64 + dx, y as f64 + dy);
                (0..3).for_each(|i| sum[i] += 0.25 * c[i]);
            }
            for (v, s) in pixel.iter_mut().zip(sum) {
                // A camera gives whole numbers.
                *v = (s + grain * rng.normal()).round().clamp(0.0, 255.0) as f32;
            }
        }
    });
    Image { width, height, channels: 3, data }
}

#[cfg(test)]
mod tests;
