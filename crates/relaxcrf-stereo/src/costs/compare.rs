//! How single pixels of a pair are compared.

use rayon::prelude::*;
use relaxcrf::Image;

use super::Measure;
use crate::pair::{CENSUS_BITS, View, equalized, signatures};

/// The cost of a left and a right pixel, by their indices.
pub(crate) trait Compare: Sync {
    fn cost(&self, left: usize, right: usize) -> f32;

    /// Pixels of either picture.
    fn pixels(&self) -> usize;
}

/// What is done with a comparison: compiled for each measure, so that loops over pixels hold no dispatch.
pub(crate) trait Visit {
    type Output;
    fn visit<C: Compare>(self, compare: &C) -> Self::Output;
}

/// Mean colour difference, and number of differing census bits, at which AD-census has reached 1 - 1/e of its maximum.
pub(crate) const COLOUR_SCALE: f32 = 7.0;
pub(crate) const CENSUS_SCALE: f32 = 20.0;

/// Prepares a comparison by `measure` and hands it on.
pub(crate) fn visit<V: Visit>(left: &Image, right: &Image, measure: Measure, visitor: V) -> V::Output {
    let channels = left.channels;
    match measure {
        Measure::AbsoluteDifference => {
            visitor.visit(&AbsoluteDifference { left: &left.data, right: &right.data, channels })
        }
        Measure::BirchfieldTomasi => {
            let ranges = [half_pixel_ranges(left), half_pixel_ranges(right)];
            visitor.visit(&BirchfieldTomasi { left: &left.data, right: &right.data, ranges, channels })
        }
        Measure::Census { radius } => visitor.visit(&Census {
            left: signatures(left.width, &left.brightness(), (radius, radius)),
            right: signatures(right.width, &right.brightness(), (radius, radius)),
        }),
        Measure::AdCensus => visitor.visit(&AdCensus::new(&View::new(left), &equalized(left, right))),
        Measure::Zncc { radius } => visitor.visit(&Zncc::new(left, right, radius)),
    }
}

struct AbsoluteDifference<'a> {
    left: &'a [f32],
    right: &'a [f32],
    channels: usize,
}

impl Compare for AbsoluteDifference<'_> {
    fn pixels(&self) -> usize {
        self.left.len() / self.channels
    }

    #[inline(always)]
    fn cost(&self, left: usize, right: usize) -> f32 {
        let n = self.channels;
        let (a, b) = (&self.left[left * n..][..n], &self.right[right * n..][..n]);
        a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f32>() / n as f32
    }
}

struct BirchfieldTomasi<'a> {
    left: &'a [f32],
    right: &'a [f32],
    ranges: [Vec<(f32, f32)>; 2],
    channels: usize,
}

impl Compare for BirchfieldTomasi<'_> {
    fn pixels(&self) -> usize {
        self.left.len() / self.channels
    }

    #[inline(always)]
    fn cost(&self, left: usize, right: usize) -> f32 {
        let [a, b] = &self.ranges;
        let one = |c: usize| {
            let (i, j) = (left * self.channels + c, right * self.channels + c);
            distance_to(self.left[i], b[j]).min(distance_to(self.right[j], a[i]))
        };
        (0..self.channels).map(one).sum::<f32>() / self.channels as f32
    }
}

struct Census {
    left: Vec<u64>,
    right: Vec<u64>,
}

impl Compare for Census {
    fn pixels(&self) -> usize {
        self.left.len()
    }

    #[inline(always)]
    fn cost(&self, left: usize, right: usize) -> f32 {
        (self.left[left] ^ self.right[right]).count_ones() as f32
    }
}

/// Colours and census, each through a table of its saturating part.
pub(crate) struct AdCensus {
    left: (Vec<[u8; 3]>, Vec<u64>),
    right: (Vec<[u8; 3]>, Vec<u64>),
    by_colour: Vec<f32>,
    by_bits: Vec<f32>,
}

impl AdCensus {
    pub fn new(left: &View, right: &View) -> Self {
        let saturating = |value: f32, scale: f32| 1.0 - (-value / scale).exp();
        Self {
            left: (left.colours.clone(), left.census()),
            right: (right.colours.clone(), right.census()),
            by_colour: (0..=3 * 255).map(|s| saturating(s as f32 / 3.0, COLOUR_SCALE)).collect(),
            by_bits: (0..=CENSUS_BITS).map(|b| saturating(b as f32, CENSUS_SCALE)).collect(),
        }
    }
}

impl Compare for AdCensus {
    fn pixels(&self) -> usize {
        self.left.0.len()
    }

    #[inline(always)]
    fn cost(&self, left: usize, right: usize) -> f32 {
        let (a, b) = (self.left.0[left], self.right.0[right]);
        let difference: u32 = (0..3).map(|i| u32::from(a[i].abs_diff(b[i]))).sum();
        let bits = (self.left.1[left] ^ self.right.1[right]).count_ones();
        self.by_colour[difference as usize] + self.by_bits[bits as usize]
    }
}

/// Windows of brightness, their means taken off and their lengths made one.
struct Zncc {
    left: Vec<f32>,
    right: Vec<f32>,
    area: usize,
}

impl Zncc {
    fn new(left: &Image, right: &Image, radius: usize) -> Self {
        let area = (2 * radius + 1).pow(2);
        Self { left: unit_windows(left, radius), right: unit_windows(right, radius), area }
    }
}

impl Compare for Zncc {
    fn pixels(&self) -> usize {
        self.left.len() / self.area
    }

    #[inline(always)]
    fn cost(&self, left: usize, right: usize) -> f32 {
        let (a, b) =
            (&self.left[left * self.area..][..self.area], &self.right[right * self.area..][..self.area]);
        (1.0 - a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>()).max(0.0)
    }
}

/// One window per pixel; the border repeats. Windows without contrast are all zeros, and correlate with nothing.
fn unit_windows(image: &Image, radius: usize) -> Vec<f32> {
    /// Contrast of noise: it shrinks the correlation of windows that have little more.
    const NOISE_DEVIATION: f32 = 1.0;
    let (width, height, side) = (image.width, image.height, 2 * radius + 1);
    let grey = image.brightness();
    let mut windows = vec![0f32; grey.len() * side * side];
    windows.par_chunks_mut(side * side).enumerate().for_each(|(a, window)| {
        let (x, y) = (a % width, a / width);
        for (k, value) in window.iter_mut().enumerate() {
            let u = (x + k % side).saturating_sub(radius).min(width - 1);
            let v = (y + k / side).saturating_sub(radius).min(height - 1);
            *value = grey[v * width + u];
        }
        let area = window.len() as f32;
        let mean = window.iter().sum::<f32>() / area;
        window.iter_mut().for_each(|v| *v -= mean);
        let squares: f32 = window.iter().map(|v| v * v).sum();
        let scale = 1.0 / (squares + area * NOISE_DEVIATION * NOISE_DEVIATION).sqrt();
        window.iter_mut().for_each(|v| *v *= scale);
    });
    windows
}

/// How far a value lies outside a range.
fn distance_to(v: f32, (low, high): (f32, f32)) -> f32 {
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
