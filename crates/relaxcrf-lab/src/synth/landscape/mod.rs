//! A landscape that looks like a photograph, for demonstrations.

mod backdrop;
mod things;

use rayon::prelude::*;

use self::backdrop::{Backdrop, HORIZON};
use self::things::Thing;
use super::segmentation::{SegmentationScene, classify};
use super::{Stream, check_size, render};
use relaxcrf::error::Result;
use relaxcrf::labeling::Labeling;
use relaxcrf::rng::Rng;

/// Names of the labels of [`landscape`].
pub const LANDSCAPE_LABELS: [&str; 8] =
    ["sky", "mountain", "tree", "grass", "water", "house", "sheep", "balloon"];

const SKY: u16 = 0;
const MOUNTAIN: u16 = 1;
const TREE: u16 = 2;
const GRASS: u16 = 3;
const WATER: u16 = 4;
const HOUSE: u16 = 5;
const SHEEP: u16 = 6;
const BALLOON: u16 = 7;

/// Standard deviation of the sensor's noise.
const GRAIN: f64 = 1.2;

/// Red, green and blue from 0 to 1.
type Colour = [f64; 3];

/// Generates a meadow with a lake, trees, a house and sheep in front of mountains, with truth and probabilities.
///
/// The labels are [`LANDSCAPE_LABELS`]; the probabilities imitate a coarse classifier, as those of [`segmentation`](super::segmentation).
pub fn landscape(width: usize, height: usize, seed: u64) -> Result<SegmentationScene> {
    check_size(width, height)?;
    let labels = LANDSCAPE_LABELS.len();
    let scene = Landscape::new(width as f64 / height as f64, seed);
    // Lengths are in picture heights.
    let place = |x: f64, y: f64| ((x + 0.5) / height as f64, (y + 0.5) / height as f64);
    let noise_stream = Stream::SensorNoise.rng(seed).next_u64();
    let image = render(width, height, GRAIN, noise_stream, |x, y| {
        let (x, y) = place(x, y);
        scene.sight(x, y).1.map(|c| 255.0 * c.clamp(0.0, 1.0))
    });
    let mut truth = vec![0u16; width * height];
    truth.par_chunks_mut(width).enumerate().for_each(|(row, line)| {
        for (column, label) in line.iter_mut().enumerate() {
            let (x, y) = place(column as f64, row as f64);
            *label = scene.sight(x, y).0;
        }
    });
    let probabilities = classify(width, height, labels, &truth, &mut Stream::Mistakes.rng(seed));
    Ok(SegmentationScene { image, probabilities, truth: Labeling::new(truth), labels })
}

struct Landscape {
    width: f64,
    backdrop: Backdrop,
    /// From the furthest to the nearest.
    things: Vec<Thing>,
}

impl Landscape {
    /// A landscape of height 1.
    fn new(width: f64, seed: u64) -> Self {
        let mut rng = Stream::Layout.rng(seed);
        let backdrop = Backdrop::new(&mut Stream::Materials.rng(seed), width);
        let mut things = vec![
            Thing::balloon(&mut rng, (0.3 * width, 0.31), 0.25),
            Thing::house(&mut rng, (0.3 * width, 0.6), 0.2),
            Thing::broadleaf(&mut rng, (0.1 * width, 0.7), 0.5),
        ];
        things.extend(conifers(&mut rng, width));
        for (x, y, size) in [(0.4, 0.74, 0.10), (0.54, 0.80, 0.13), (0.66, 0.70, 0.085), (0.3, 0.93, 0.19)] {
            let foot = ((x + rng.between(-0.03, 0.03)) * width, y + rng.between(-0.01, 0.01));
            things.push(Thing::sheep(&mut rng, foot, size));
        }
        things.sort_by(|a, b| a.nearness().total_cmp(&b.nearness()));
        Self { width, backdrop, things }
    }

    /// Label and colour at a point.
    fn sight(&self, x: f64, y: f64) -> (u16, Colour) {
        let front = self.things.iter().rev().find_map(|t| t.colour(x, y).map(|c| (t.label(), c)));
        let shadow = || self.things.iter().map(|t| t.shadow(x, y)).fold(0.0, f64::max);
        let (label, colour) = front.unwrap_or_else(|| self.backdrop.sight(x, y, shadow));
        // Lenses darken the corners.
        let (a, b) = (2.0 * x / self.width - 1.0, 2.0 * y - 1.0);
        (label, shade(colour, 1.02 - 0.07 * (a * a + b * b)))
    }
}

/// A group at the right edge, and a few further off.
fn conifers(rng: &mut Rng, width: f64) -> Vec<Thing> {
    let near = [(0.97, 0.84, 0.66), (0.87, 0.78, 0.5), (0.80, 0.73, 0.36)];
    let far = [(0.03, 0.50, 0.13), (0.16, 0.49, 0.11), (0.47, 0.48, 0.09), (0.52, 0.485, 0.11)];
    let place = |(x, y, size): (f64, f64, f64)| {
        let foot = ((x + rng.between(-0.015, 0.015)) * width, y.max(HORIZON + 0.03));
        let size = size * rng.between(0.92, 1.08);
        Thing::conifer(rng, foot, size)
    };
    near.into_iter().chain(far).map(place).collect()
}

/// From `a` at 0 to `b` at 1.
fn blend(a: Colour, b: Colour, t: f64) -> Colour {
    let t = t.clamp(0.0, 1.0);
    [0, 1, 2].map(|i| a[i] + (b[i] - a[i]) * t)
}

/// A colour in weaker or stronger light.
fn shade(colour: Colour, light: f64) -> Colour {
    colour.map(|c| c * light)
}
