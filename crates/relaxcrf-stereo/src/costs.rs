//! Matching costs in single precision: the unary energies of a disparity problem.
//!
//! Left pixel `(x, y)` with disparity `d` is compared with right pixel `(x - d, y)`. Where `x - d` falls
//! outside the picture nothing can be compared, and the cost is as bad as a cost can be: the truncation, or
//! without one the largest cost in the whole pair.

mod aggregate;
mod compare;

use rayon::prelude::*;

use relaxcrf::Image;
use relaxcrf::error::{Error, Result};
use relaxcrf::labeling::MAX_LABELS;

pub use self::aggregate::Aggregation;
pub(crate) use self::compare::{Compare, Visit, visit};

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
    /// Absolute difference and census (9 x 5 neighbours), both saturating: from 0 to 2. Colour decides where it can,
    /// census where exposures differ.
    AdCensus,
    /// 1 minus the correlation of two windows, their means taken off: from 0 to 2. Blind to local exposure.
    Zncc {
        /// 1 to 5: windows of 3 x 3 to 11 x 11 pixels.
        radius: usize,
    },
}

/// Settings of [`cost`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostOptions {
    /// How two pixels are compared.
    pub measure: Measure,
    /// What costs are averaged over, after the truncation.
    pub aggregation: Aggregation,
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
            Measure::AdCensus => 2.0,
            Measure::Zncc { .. } => 1.0,
        };
        Self { measure, aggregation: Aggregation::None, truncation: Some(truncation), rounding: None }
    }

    /// The largest cost there can be: the truncation, or what the measure can reach.
    pub(crate) fn largest(&self) -> f32 {
        self.truncation.unwrap_or(match self.measure {
            Measure::AbsoluteDifference | Measure::BirchfieldTomasi => 255.0,
            Measure::Census { radius } => census_neighbours(radius) as f32,
            Measure::AdCensus | Measure::Zncc { .. } => 2.0,
        })
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self.measure {
            Measure::Census { radius } if !(1..=3).contains(&radius) => {
                return Err(Error::value("census radius", radius, "1, 2 or 3"));
            }
            Measure::Zncc { radius } if !(1..=5).contains(&radius) => {
                return Err(Error::value("radius of the correlation", radius, "1 to 5"));
            }
            _ => {}
        }
        self.aggregation.check()?;
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
    visit(left, right, options.measure, Fill { costs: &mut costs, width: left.width, disparities });
    truncate(&mut costs, options.truncation);
    options.aggregation.apply(left, &mut costs, disparities)?;
    if let Some(step) = options.rounding {
        costs.par_iter_mut().for_each(|v| *v = ((f64::from(*v) / step).round() * step) as f32);
    }
    Ok(costs)
}

pub(crate) fn check_pair(left: &Image, right: &Image) -> Result<()> {
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

/// Sets the costs of pairs of pixels that exist; the others stay infinite.
struct Fill<'a> {
    costs: &'a mut [f32],
    width: usize,
    disparities: usize,
}

impl Visit for Fill<'_> {
    type Output = ();

    fn visit<C: Compare>(self, compare: &C) {
        let Self { costs, width, disparities } = self;
        costs.par_chunks_mut(width * disparities).enumerate().for_each(|(y, line)| {
            for (x, row) in line.chunks_exact_mut(disparities).enumerate() {
                let pixel = y * width + x;
                for (d, v) in row.iter_mut().enumerate().take(x + 1) {
                    *v = compare.cost(pixel, pixel - d);
                }
            }
        });
    }
}

/// Truncates, and gives the pixels that could not be compared their cost.
fn truncate(costs: &mut [f32], truncation: Option<f32>) {
    let cap = truncation.unwrap_or_else(|| {
        // Order does not matter to a maximum, so neither do the threads.
        costs.par_iter().copied().filter(|v| v.is_finite()).reduce(|| 0.0, f32::max)
    });
    costs.par_iter_mut().for_each(|v| *v = v.min(cap));
}

#[cfg(test)]
mod tests;
