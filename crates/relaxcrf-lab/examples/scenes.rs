//! Writes generated scenes as one sheet: picture, truth and classifier; left, right and disparities.
//!
//! `cargo run -p relaxcrf-lab --example scenes -- SHEET.png [SEED [LABELS]]`

use std::path::PathBuf;

use relaxcrf::Result;
use relaxcrf_io::{Palette, write_rgb};
use relaxcrf_lab::synth;

const WIDTH: usize = 320;
const HEIGHT: usize = 240;
const DISPARITIES: usize = 32;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = PathBuf::from(arguments.next().unwrap_or_else(|| "scenes.png".into()));
    let mut number = |default| arguments.next().and_then(|s| s.parse().ok()).unwrap_or(default);
    let (seed, labels) = (number(1), number(6) as usize);

    let scene = synth::segmentation(WIDTH, HEIGHT, labels, seed)?;
    let best = |row: &[f32]| (0..labels).max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or(0) as u16;
    let guess: Vec<u16> = scene.probabilities.chunks_exact(labels).map(best).collect();
    let palette = Palette::voc();
    let coloured = |map: &[u16]| -> Vec<u8> { map.iter().flat_map(|&l| palette.colour(l)).collect() };
    let truth = scene.truth.as_slice();
    let right_pixels = truth.iter().zip(&guess).filter(|(a, b)| a == b).count();
    println!(
        "the classifier is right at {:.1} % of the pixels",
        100.0 * right_pixels as f64 / truth.len() as f64
    );

    let pair = synth::stereo(WIDTH, HEIGHT, DISPARITIES, seed)?;
    let grey = |&d: &u16| [(usize::from(d) * 255 / (DISPARITIES - 1)) as u8; 3];
    let tiles = [
        [scene.image.to_bytes(), coloured(truth), coloured(&guess)],
        [pair.left.to_bytes(), pair.right.to_bytes(), pair.truth.as_slice().iter().flat_map(grey).collect()],
    ];
    let mut sheet = Vec::new();
    for row in &tiles {
        for y in 0..HEIGHT {
            row.iter().for_each(|tile| sheet.extend(&tile[y * WIDTH * 3..(y + 1) * WIDTH * 3]));
        }
    }
    write_rgb(&path, 3 * WIDTH, 2 * HEIGHT, &sheet)
}
