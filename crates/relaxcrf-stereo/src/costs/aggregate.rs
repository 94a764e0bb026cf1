//! Averages of matching costs over neighbourhoods, one disparity at a time.

use rayon::prelude::*;
use relaxcrf::Image;
use relaxcrf::error::{Error, Result};
use relaxcrf::filter::{Blur, Direction, Lattice, Operator, Scaling, Workspace};

use crate::pair::View;
use crate::support::{Arms, Support};

/// What costs are averaged over.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub enum Aggregation {
    /// Nothing: the costs of single pixels.
    #[default]
    None,
    /// Squares of `2 radius + 1` pixels, cut at the border.
    Box {
        /// 1 or more.
        radius: usize,
    },
    /// Crosses of like colour: along the rows and then the columns, up to where the colour changes.
    Cross,
    /// Neighbours weighted by a Gaussian of position and colour, with this crate's lattice filter.
    EdgeAware {
        /// Standard deviation in pixels.
        sigma_xy: f32,
        /// Standard deviation of colours, from 0 to 255.
        sigma_rgb: f32,
    },
}

impl Aggregation {
    pub(super) fn check(&self) -> Result<()> {
        let is_positive = |v: f32| v > 0.0 && v.is_finite();
        match *self {
            Self::Box { radius } if !(1..=100).contains(&radius) => {
                Err(Error::value("radius of the aggregation", radius, "1 to 100"))
            }
            Self::EdgeAware { sigma_xy, sigma_rgb } if !is_positive(sigma_xy) || !is_positive(sigma_rgb) => {
                Err(Error::value(
                    "standard deviations of the aggregation",
                    format!("{sigma_xy} and {sigma_rgb}"),
                    "finite numbers above 0",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Replaces rows of `labels` costs, one per pixel, by their averages.
    pub(super) fn apply(&self, image: &Image, costs: &mut Vec<f32>, labels: usize) -> Result<()> {
        match *self {
            Self::None => {}
            Self::Box { radius } => {
                let row = image.width * labels;
                let reach = |_, _| [radius; 2];
                costs
                    .par_chunks_mut(row)
                    .for_each_init(Vec::new, |sums, line| average(line, labels, labels, reach, sums));
                // Along the columns, items are whole rows.
                average(costs, row, labels, reach, &mut Vec::new());
            }
            Self::Cross => {
                let arms = Arms::new(&View::new(image), &Support::default());
                let (width, rows) = (image.width, image.width * labels);
                let lengths = |sides: [&[u8]; 2], a: usize| sides.map(|s| usize::from(s[a]));
                costs.par_chunks_mut(rows).enumerate().for_each_init(Vec::new, |sums, (y, line)| {
                    let reach = |x: usize, _| lengths([&arms.left, &arms.right], y * width + x);
                    average(line, labels, labels, reach, sums);
                });
                let reach = |y: usize, x: usize| lengths([&arms.up, &arms.down], y * width + x);
                average(costs, rows, labels, reach, &mut Vec::new());
            }
            Self::EdgeAware { sigma_xy, sigma_rgb } => {
                let features = features(image, sigma_xy, sigma_rgb);
                let lattice = Lattice::new(&features, 2 + image.channels, Blur::Symmetric)?;
                let mut workspace = Workspace::new();
                let ones = vec![1.0; image.pixels()];
                let mut norms = ones.clone();
                lattice.apply(Direction::Forward, &ones, 1, Scaling::NONE, &mut norms, &mut workspace);
                norms.iter_mut().for_each(|v| *v = 1.0 / v.max(f32::MIN_POSITIVE));
                let scaling = Scaling { left: Some(&norms), ..Scaling::NONE };
                let mut out = vec![0.0; costs.len()];
                lattice.apply(Direction::Forward, costs, labels, scaling, &mut out, &mut workspace);
                *costs = out;
            }
        }
        Ok(())
    }
}

/// Position and colours over their standard deviations.
fn features(image: &Image, sigma_xy: f32, sigma_rgb: f32) -> Vec<f32> {
    let mut features = Vec::with_capacity(image.pixels() * (2 + image.channels));
    for (a, colour) in image.data.chunks_exact(image.channels).enumerate() {
        features.push((a % image.width) as f32 / sigma_xy);
        features.push((a / image.width) as f32 / sigma_xy);
        features.extend(colour.iter().map(|v| v / sigma_rgb));
    }
    features
}

/// Replaces each item, `width` values in pieces of `piece`, by the mean of its neighbours: `reach(item, piece)` of them
/// before and after it.
fn average(
    items: &mut [f32],
    width: usize,
    piece: usize,
    reach: impl Fn(usize, usize) -> [usize; 2],
    sums: &mut Vec<f64>,
) {
    let count = items.len() / width;
    sums.clear();
    sums.resize((count + 1) * width, 0.0);
    for (i, item) in items.chunks_exact(width).enumerate() {
        let (before, after) = sums.split_at_mut((i + 1) * width);
        let running = before[i * width..].iter().zip(item);
        after.iter_mut().zip(running).for_each(|(to, (s, &v))| *to = s + f64::from(v));
    }
    for (i, item) in items.chunks_exact_mut(width).enumerate() {
        for (k, values) in item.chunks_exact_mut(piece).enumerate() {
            let [before, after] = reach(i, k);
            let (first, last) = (i.saturating_sub(before), (i + after).min(count - 1));
            let scale = 1.0 / (last + 1 - first) as f64;
            let (low, high) = (&sums[first * width + k * piece..], &sums[(last + 1) * width + k * piece..]);
            values.iter_mut().zip(low).zip(high).for_each(|((v, l), h)| *v = ((h - l) * scale) as f32);
        }
    }
}
