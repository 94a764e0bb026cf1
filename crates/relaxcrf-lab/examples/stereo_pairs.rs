//! Writes generated stereo pairs for `bench/stereo`: pictures, true disparities, visible pixels.
//!
//! `cargo run -p relaxcrf-lab --example stereo_pairs -- DIR [WIDTH HEIGHT]`

use std::path::PathBuf;

use anyhow::{Context, Result};
use relaxcrf_io as io;
use relaxcrf_lab::synth::{StereoLook, stereo_with};

const DISPARITIES: usize = 48;

/// Name, seed and look of each pair.
const PAIRS: [(&str, u64, StereoLook); 6] = [
    ("rough-1", 1, StereoLook { roughness: 0.32, noise: 2.0, exposure: 0.98 }),
    ("rough-2", 2, StereoLook { roughness: 0.32, noise: 2.0, exposure: 0.98 }),
    ("smooth-3", 3, StereoLook { roughness: 0.04, noise: 1.0, exposure: 1.0 }),
    ("smooth-4", 4, StereoLook { roughness: 0.04, noise: 1.0, exposure: 1.0 }),
    ("noisy-5", 5, StereoLook { roughness: 0.2, noise: 6.0, exposure: 1.0 }),
    ("exposure-6", 6, StereoLook { roughness: 0.2, noise: 2.0, exposure: 0.7 }),
];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let root = PathBuf::from(arguments.next().context("expected a directory")?);
    let mut size = |default| arguments.next().map_or(Ok(default), |s| s.parse::<usize>());
    let (width, height) = (size(450)?, size(375)?);
    for (name, seed, look) in PAIRS {
        let scene = stereo_with(width, height, DISPARITIES, seed, &look)?;
        let place = root.join(name);
        std::fs::create_dir_all(&place)?;
        io::write_image(&place.join("left.png"), &scene.left)?;
        io::write_image(&place.join("right.png"), &scene.right)?;
        let visible: Vec<f32> = scene.visible.iter().map(|&v| f32::from(v)).collect();
        for (file, values) in [("truth.npy", &scene.exact), ("visible.npy", &visible)] {
            io::write_npy_f32(&place.join(file), &[height, width], values)?;
        }
        std::fs::write(place.join("disparities.txt"), DISPARITIES.to_string())?;
    }
    Ok(())
}
