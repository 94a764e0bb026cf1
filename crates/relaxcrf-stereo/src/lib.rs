//! Matching costs from a rectified stereo pair: the unary energies of a disparity problem.
//!
//! Left pixel `(x, y)` with disparity `d` is compared with right pixel `(x - d, y)`. Where `x - d` falls
//! outside the picture nothing can be compared, and the cost is as bad as a cost can be: the truncation, or
//! without one the largest cost in the whole pair.

use rayon::prelude::*;

use relaxcrf::Image;
use relaxcrf::error::{Error, Result};
use relaxcrf::labeling::MAX_LABELS;

/// How two pixels are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Measure {
    /// Mean over the channels of the absolute difference.
    AbsoluteDifference,
    /// Mean over the channels of Birchfield and Tomasi's difference: the smallest within half a pixel to
    /// either side, linearly interpolated, so that sampling does not punish a right match.
    BirchfieldTomasi,
    /// Number of neighbours within `radius` rows and columns that are darker than the centre in one picture
    /// but not in the other. Blind to exposure.
    Census {
        /// 1 to 3, that is 8, 24 or 48 neighbours.
        radius: usize,
    },
}

/// Settings of [`cost`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostOptions {
    /// How two pixels are compared.
    pub measure: Measure,
    /// No cost exceeds this; `None` leaves costs as they are.
    pub truncation: Option<f32>,
    /// Costs are rounded to multiples of this; `None` leaves them as they are.
    pub rounding: Option<f64>,
}

impl CostOptions {
    /// The measure with its usual truncation (40 grey values, half the neighbours), not rounded.
    pub fn new(measure: Measure) -> Self {
        let truncation = match measure {
            Measure::AbsoluteDifference => 40.0,
            Measure::BirchfieldTomasi => 20.0,
            Measure::Census { radius } => census_neighbours(radius) as f32 / 2.0,
        };
        Self { measure, truncation: Some(truncation), rounding: None }
    }

    fn check(&self) -> Result<()> {
        match self.measure {
            Measure::Census { radius } if !(1..=3).contains(&radius) => {
                return Err(Error::value("census radius", radius, "1, 2 or 3"));
            }
            _ => {}
        }
        for (what, value) in [("truncation", self.truncation.map(f64::from)), ("rounding", self.rounding)] {
            if let Some(v) = value.filter(|v| !(v.is_finite() && *v > 0.0)) {
                return Err(Error::value(
                    format!("{what} of the matching cost"),
                    v,
                    "a finite number above 0, or none",
                ));
            }
        }
        Ok(())
    }
}

impl Default for CostOptions {
    fn default() -> Self {
        Self::new(Measure::AbsoluteDifference)
    }
}

fn census_neighbours(radius: usize) -> usize {
    let side = radius.saturating_mul(2).saturating_add(1);
    side.saturating_mul(side) - 1
}

/// The cost of each disparity `0..disparities` at each left pixel: one row per pixel `y * width + x`.
pub fn cost(left: &Image, right: &Image, disparities: usize, options: &CostOptions) -> Result<Vec<f32>> {
    check_pair(left, right)?;
    options.check()?;
    let most = MAX_LABELS.min(left.width);
    if !(1..=most).contains(&disparities) {
        return Err(Error::value(
            "number of disparities",
            disparities,
            format!("1 to {most} (the image's width)"),
        ));
    }
    let mut costs = Vec::new();
    let n = left.pixels().checked_mul(disparities);
    if n.is_none_or(|n| costs.try_reserve_exact(n).is_err()) {
        return Err(Error::value(
            "number of disparities",
            disparities,
            format!("fewer for {} x {} pixels: their costs do not fit into memory", left.width, left.height),
        ));
    }
    costs.resize(n.unwrap_or(0), f32::INFINITY);
    let channels = left.channels;
    match options.measure {
        Measure::AbsoluteDifference => fill(&mut costs, left.width, disparities, |l, r| {
            let (a, b) = (&left.data[l * channels..][..channels], &right.data[r * channels..][..channels]);
            a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f32>() / channels as f32
        }),
        Measure::BirchfieldTomasi => {
            let (a, b) = (half_pixel_ranges(left), half_pixel_ranges(right));
            fill(&mut costs, left.width, disparities, |l, r| {
                let sum: f32 = (0..channels)
                    .map(|c| {
                        let (i, j) = (l * channels + c, r * channels + c);
                        beyond(left.data[i], b[j]).min(beyond(right.data[j], a[i]))
                    })
                    .sum();
                sum / channels as f32
            });
        }
        Measure::Census { radius } => {
            let (a, b) = (census(left, radius), census(right, radius));
            fill(&mut costs, left.width, disparities, |l, r| (a[l] ^ b[r]).count_ones() as f32);
        }
    }
    finish(&mut costs, options);
    Ok(costs)
}

fn check_pair(left: &Image, right: &Image) -> Result<()> {
    left.check()?;
    right.check()?;
    let size = |i: &Image| format!("{} x {} pixels of {} channels", i.width, i.height, i.channels);
    if (left.width, left.height, left.channels) != (right.width, right.height, right.channels) {
        return Err(Error::Shape {
            what: "right image".into(),
            got: size(right),
            expected: format!("the left image's {}", size(left)),
            fix: "the pair must be rectified".into(),
        });
    }
    for (what, image) in [("left image", left), ("right image", right)] {
        if let Some(at) = image.data.iter().position(|v| !v.is_finite()) {
            return Err(Error::Element {
                what: what.into(),
                got: image.data[at].to_string(),
                place: format!("pixel {}, channel {}", at / image.channels, at % image.channels),
                expected: "finite numbers".into(),
                fix: String::new(),
            });
        }
    }
    Ok(())
}

/// Sets what can be compared, by the indices of the left and the right pixel; the rest stays infinite.
fn fill(costs: &mut [f32], width: usize, disparities: usize, compare: impl Fn(usize, usize) -> f32 + Sync) {
    costs.par_chunks_mut(width * disparities).enumerate().for_each(|(y, line)| {
        for (x, row) in line.chunks_exact_mut(disparities).enumerate() {
            let pixel = y * width + x;
            for (d, v) in row.iter_mut().enumerate().take(x + 1) {
                *v = compare(pixel, pixel - d);
            }
        }
    });
}

/// Truncates, rounds, and gives the pixels that could not be compared their cost.
fn finish(costs: &mut [f32], options: &CostOptions) {
    let cap = options.truncation.unwrap_or_else(|| {
        // Order does not matter to a maximum, so neither do the threads.
        costs.par_iter().copied().filter(|v| v.is_finite()).reduce(|| 0.0, f32::max)
    });
    costs.par_iter_mut().for_each(|v| {
        *v = v.min(cap);
        if let Some(step) = options.rounding {
            *v = ((f64::from(*v) / step).round() * step) as f32;
        }
    });
}

/// How far a value lies outside a range.
fn beyond(v: f32, (low, high): (f32, f32)) -> f32 {
    (v - high).max(low - v).max(0.0)
}

/// For every value, the range it covers half a pixel to the left and right in its row.
fn half_pixel_ranges(image: &Image) -> Vec<(f32, f32)> {
    let (width, channels) = (image.width, image.channels);
    let mut ranges = Vec::with_capacity(image.data.len());
    for row in image.data.chunks_exact(width * channels) {
        for (i, &v) in row.iter().enumerate() {
            let half = |j: Option<usize>| j.and_then(|j| row.get(j)).map_or(v, |&w| 0.5 * (v + w));
            let (a, b) = (half(i.checked_sub(channels)), half(i.checked_add(channels)));
            ranges.push((a.min(b).min(v), a.max(b).max(v)));
        }
    }
    ranges
}

/// One bit per neighbour: is it darker than the centre? The border repeats.
fn census(image: &Image, radius: usize) -> Vec<u64> {
    let (width, height) = (image.width, image.height);
    let grey = image.brightness();
    let mut out = vec![0u64; grey.len()];
    out.par_chunks_mut(width).enumerate().for_each(|(y, line)| {
        for (x, bits) in line.iter_mut().enumerate() {
            let centre = grey[y * width + x];
            for v in y..=y + 2 * radius {
                for u in x..=x + 2 * radius {
                    if (u, v) == (x + radius, y + radius) {
                        continue;
                    }
                    let (u, v) =
                        (u.saturating_sub(radius).min(width - 1), v.saturating_sub(radius).min(height - 1));
                    *bits = *bits << 1 | u64::from(grey[v * width + u] < centre);
                }
            }
        }
    });
    out
}

#[cfg(test)]
mod tests;
