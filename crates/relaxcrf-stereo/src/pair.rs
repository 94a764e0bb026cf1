//! The pictures of a pair in the forms that matching reads.

use rayon::prelude::*;
use relaxcrf::Image;

/// Half the columns and rows of the census window of AD-census: 34 neighbours.
const CENSUS_REACH: (usize, usize) = (3, 2);

/// Bits of its signature.
pub(crate) const CENSUS_BITS: usize = (2 * CENSUS_REACH.0 + 1) * (2 * CENSUS_REACH.1 + 1) - 1;

/// One picture of a pair.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub width: usize,
    pub height: usize,
    /// Three channels per pixel; a grey picture repeats its own.
    pub colours: Vec<[u8; 3]>,
    /// Brightness, unrounded: 16-bit pictures keep what their lower bits tell.
    pub grey: Vec<f32>,
}

impl View {
    pub fn new(image: &Image) -> Self {
        Self::adjusted(image, &[(1.0, 0.0); 3])
    }

    /// The view with each channel scaled and shifted.
    fn adjusted(image: &Image, adjustments: &[(f32, f32); 3]) -> Self {
        let byte = |v: f32, c: usize| {
            let (gain, offset) = adjustments[c];
            (gain * v + offset).round().clamp(0.0, 255.0) as u8
        };
        let colour = |p: &[f32]| match p {
            [r, g, b, ..] => [byte(*r, 0), byte(*g, 1), byte(*b, 2)],
            _ => [byte(p[0], 0); 3],
        };
        Self {
            width: image.width,
            height: image.height,
            colours: image.data.par_chunks_exact(image.channels).map(colour).collect(),
            grey: image.brightness(),
        }
    }

    /// The view in a mirror: a right view becomes a left one.
    pub fn mirrored(&self) -> Self {
        let mut other = self.clone();
        other.colours.chunks_exact_mut(self.width).for_each(<[_]>::reverse);
        other.grey.chunks_exact_mut(self.width).for_each(<[_]>::reverse);
        other
    }

    pub fn census(&self) -> Vec<u64> {
        signatures(self.width, &self.grey, CENSUS_REACH)
    }

    /// Colours averaged over a square window, cut at the border: regions instead of texture.
    pub fn averaged_colours(&self, radius: usize) -> Vec<[u8; 3]> {
        let (width, height) = (self.width, self.height);
        let mut sums = vec![[0u32; 3]; (width + 1) * (height + 1)];
        for y in 0..height {
            let mut row = [0u32; 3];
            for x in 0..width {
                for c in 0..3 {
                    row[c] = row[c].wrapping_add(u32::from(self.colours[y * width + x][c]));
                    sums[(y + 1) * (width + 1) + x + 1][c] =
                        sums[y * (width + 1) + x + 1][c].wrapping_add(row[c]);
                }
            }
        }
        let one = |a: usize| {
            let (x, y) = (a % width, a / width);
            let (l, r) = (x.saturating_sub(radius), (x + radius + 1).min(width));
            let (t, b) = (y.saturating_sub(radius), (y + radius + 1).min(height));
            let count = ((r - l) * (b - t)) as u32;
            std::array::from_fn(|c| {
                let at = |x: usize, y: usize| sums[y * (width + 1) + x][c];
                let sum = at(r, b).wrapping_sub(at(l, b)).wrapping_sub(at(r, t)).wrapping_add(at(l, t));
                ((sum + count / 2) / count) as u8
            })
        };
        (0..width * height).into_par_iter().map(one).collect()
    }
}

/// The right view with the exposure of the left one, if they differ: quartiles of each channel are brought together.
pub(crate) fn equalized(left: &Image, right: &Image) -> View {
    /// Differences in grey values that hidden surfaces explain as well.
    const SAME_EXPOSURE: f32 = 12.0;
    let channels = left.channels;
    let mut adjustments = [(1.0, 0.0); 3];
    for (c, adjustment) in adjustments.iter_mut().enumerate().take(if channels < 3 { 1 } else { 3 }) {
        let (a, b) = (quartiles(left, c), quartiles(right, c));
        let gain = ((a[2] - a[0]) / (b[2] - b[0]).max(1.0)).clamp(0.5, 2.0);
        let offset = a[1] - gain * b[1];
        if b.iter().any(|v| (gain * v + offset - v).abs() > SAME_EXPOSURE) {
            *adjustment = (gain, offset);
        }
    }
    View::adjusted(right, &adjustments)
}

fn quartiles(image: &Image, channel: usize) -> [f32; 3] {
    let mut counts = [0usize; 256];
    for v in image.data.iter().skip(channel).step_by(image.channels) {
        counts[usize::from(v.round().clamp(0.0, 255.0) as u8)] += 1;
    }
    let n = image.pixels();
    [n / 4, n / 2, n - n / 4].map(|rank| {
        let mut seen = 0;
        let found = counts.iter().position(|&count| {
            seen += count;
            seen > rank
        });
        found.unwrap_or(255) as f32
    })
}

/// One census signature per pixel: a bit per neighbour that is darker than the centre. The border repeats.
pub(crate) fn signatures(width: usize, grey: &[f32], (across, down): (usize, usize)) -> Vec<u64> {
    let height = grey.len() / width;
    let padded_width = width + 2 * across;
    let mut padded = vec![0f32; padded_width * height];
    for (to, from) in padded.chunks_exact_mut(padded_width).zip(grey.chunks_exact(width)) {
        to[..across].fill(from[0]);
        to[across..][..width].copy_from_slice(from);
        to[across + width..].fill(from[width - 1]);
    }
    let mut signatures = vec![0u64; width * height];
    signatures.par_chunks_mut(width).enumerate().for_each(|(y, bits)| {
        let centre = &grey[y * width..][..width];
        for row in 0..=2 * down {
            let v = (y + row).saturating_sub(down).min(height - 1);
            for column in 0..=2 * across {
                if (row, column) == (down, across) {
                    continue;
                }
                let neighbours = &padded[v * padded_width + column..][..width];
                for ((b, &n), &c) in bits.iter_mut().zip(neighbours).zip(centre) {
                    *b = *b << 1 | u64::from(n < c);
                }
            }
        }
    });
    signatures
}
