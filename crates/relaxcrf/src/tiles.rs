//! Images that are too large to be solved whole: tiles, each solved with a margin of its surroundings, the halo.
//!
//! What keeps the seams invisible:
//!
//! - every tile's model knows its place ([`ModelBuilder::window`](crate::ModelBuilder::window)): positions, lattice
//!   cells and the choice of filter are those of the whole image;
//! - the halo is as wide as the kernels see, several times over ([`halo`]): what is cut off at its rim changes sums and
//!   normalisation there, not in the tile;
//! - the labels of a tile are the method's most believed ones ([`labels`]). The lowest energy seen in a tile may be
//!   that of a constant labelling, which the tile next to it need not share.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::methods::Pipeline;
use crate::model::{Features, Kernel, Model};
use crate::run::{Solution, Solve};
use crate::solver::Settings;

/// The halo in standard deviations of the widest kernel.
///
/// One lattice filter reaches at most 6 standard deviations, and gives less than 1 % of its weight to what is beyond 3;
/// updates carry news further, but damp it. Measured by bench/huge/seams.py: see docs/scale.md.
const REACH: f32 = 5.0;

/// Sides of automatic tiles are multiples of this, as those of most tiled files.
const STEP: usize = 256;
/// No image has a longer side.
const LONGEST: usize = 1 << 31;

/// Pixels of a sample.
const SAMPLE_PIXELS: usize = 384 * 384;

/// Memory for a tile unless told otherwise. A fixed number: what the machine has must not change results.
pub const DEFAULT_MEMORY: u64 = 3 << 29;

/// Pixels that surround a tile: what kernels with these standard deviations along an axis (in pixels) need.
pub fn halo(sigmas: impl IntoIterator<Item = f32>) -> usize {
    (REACH * sigmas.into_iter().filter(|s| s.is_finite()).fold(0.0, f32::max)).ceil() as usize
}

/// The halo along each of `axes` (slowest first) that these kernels need. Kernels without weight need none.
pub fn halos(kernels: &[Kernel], axes: usize) -> Result<Vec<usize>> {
    let mut sigmas = vec![Vec::new(); axes];
    for kernel in kernels.iter().filter(|k| k.weight > 0.0) {
        match &kernel.features {
            Features::Position { sigma } | Features::Bilateral { sigma, .. } => {
                // One for all axes, or one for each with the fastest first.
                for (k, along) in sigmas.iter_mut().rev().enumerate() {
                    along.extend(sigma.get(k.min(sigma.len().saturating_sub(1))).copied());
                }
            }
            Features::Given { .. } => {
                return Err(Error::value(
                    "kernel of a tiled image",
                    kernel.describe(),
                    "on position, or position and colour",
                ));
            }
        }
    }
    Ok(sigmas.into_iter().map(halo).collect())
}

/// Bytes that solving takes per pixel, by mean field, judged by a `sample`: the model of a small part of the image.
///
/// Most goes to the lattices, and how many vertices these have depends on the image: few where it is smooth, one or two
/// a pixel where it is noisy. Measured on scenes of all kinds (docs/scale.md): about right, and rather too much.
pub fn bytes_per_pixel(sample: &Model, channels: usize) -> u64 {
    let (pixels, labels) = (sample.pixels() as f64, sample.labels() as f64);
    let kernels: f64 = sample
        .pairwise()
        .terms()
        .iter()
        .map(|term| {
            let Some(lattice) = term.filter().fused().map(|f| f.size()) else { return 40.0 + 8.0 * labels };
            let vertices = lattice.rows as f64 / pixels;
            let dims = lattice.dims as f64;
            // Features, weights, vertex numbers and scalings of a pixel; keys, chains and values of a vertex.
            16.0 * dims + 20.0 + vertices * (26.0 * dims + 50.0 + 12.0 * labels)
        })
        .sum();
    (kernels + 20.0 * labels + 8.0 * channels as f64).ceil() as u64
}

/// Windows of an image whose models make good samples: in its middle and half way from there to its corners.
pub fn samples(sizes: &[usize]) -> Vec<Vec<Range<usize>>> {
    let longest = (SAMPLE_PIXELS as f64).powf(1.0 / sizes.len().max(1) as f64).round() as usize;
    let part = |size: usize, quarter: usize| {
        let side = size.min(longest);
        let start = (size * quarter / 4).saturating_sub(side / 2).min(size - side);
        start..start + side
    };
    let at = |quarter: &dyn Fn(usize) -> usize| {
        sizes.iter().enumerate().map(|(k, &size)| part(size, quarter(k))).collect::<Vec<_>>()
    };
    let mut windows = vec![at(&|_| 2)];
    windows.extend((0..1usize << sizes.len().min(8)).map(|corner| at(&|k| 1 + 2 * (corner >> k & 1))));
    windows.dedup();
    windows
}

/// The largest side of square (or cubic) tiles that are solved within `memory` bytes, halo included.
pub fn side(memory: u64, bytes_per_pixel: u64, halo: usize, axes: usize) -> Result<usize> {
    let bytes_per_pixel = bytes_per_pixel.max(1);
    // In floating point, since the halo of a kernel as wide as the world has no bounds.
    let needed = |side: usize| (side as f64 + 2.0 * halo as f64).powi(axes as i32) * bytes_per_pixel as f64;
    let fits = |side: usize| needed(side) <= memory as f64;
    if !fits(STEP) {
        let least = needed(STEP) / (1 << 20) as f64;
        return Err(Error::value(
            "memory for a tile",
            format!("{} MiB", memory >> 20),
            format!(
                "at least {:.0} MiB for tiles of {STEP} pixels with a halo of {halo} (smaller tiles can be asked for)",
                least.ceil()
            ),
        ));
    }
    let pixels = memory as f64 / bytes_per_pixel as f64;
    let root = pixels.powf(1.0 / axes.max(1) as f64) - 2.0 * halo as f64;
    let mut side = (root.clamp(STEP as f64, LONGEST as f64) as usize) / STEP * STEP;
    // The root is rounded.
    if fits(side + STEP) && side < LONGEST {
        side += STEP;
    }
    while !fits(side) {
        side -= STEP;
    }
    Ok(side)
}

/// One tile: the pixels whose labels it gives, and those it looks at. Ranges are along the axes of the image,
/// slowest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// What the tile is there for.
    pub core: Vec<Range<usize>>,
    /// The core and its halo, as far as the image goes.
    pub outer: Vec<Range<usize>>,
}

impl Tile {
    /// Where the outer window begins in the image.
    pub fn origin(&self) -> Vec<usize> {
        self.outer.iter().map(|r| r.start).collect()
    }

    /// Sizes of the outer window.
    pub fn sizes(&self) -> Vec<usize> {
        self.outer.iter().map(Range::len).collect()
    }

    /// The core's share of the outer window's rows, `width` values a pixel.
    pub fn crop<T: Copy>(&self, rows: &[T], width: usize) -> Vec<T> {
        let sizes = self.sizes();
        let inner: Vec<Range<usize>> =
            self.core.iter().zip(&self.outer).map(|(c, o)| c.start - o.start..c.end - o.start).collect();
        let mut out = Vec::with_capacity(inner.iter().map(Range::len).product::<usize>() * width);
        let Some((last, before)) = inner.split_last() else { return out };
        let lines: usize = before.iter().map(Range::len).product();
        for line in 0..lines {
            // The line's place along all axes but the last, in the outer window.
            let (mut rest, mut at, mut stride) = (line, 0, sizes[before.len()]);
            for (range, &size) in before.iter().zip(&sizes).rev() {
                at += (range.start + rest % range.len()) * stride;
                rest /= range.len();
                stride *= size;
            }
            out.extend_from_slice(&rows[(at + last.start) * width..(at + last.end) * width]);
        }
        out
    }
}

/// A partition of an image into tiles, in raster order.
#[derive(Debug, Clone)]
pub struct Tiling {
    sizes: Vec<usize>,
    side: usize,
    halo: Vec<usize>,
}

impl Tiling {
    /// Tiles with sides of `side` (less at the far borders) and this halo along each axis.
    pub fn new(sizes: &[usize], side: usize, halo: &[usize]) -> Result<Self> {
        if side == 0 {
            return Err(Error::value("tile side", side, "at least 1 pixel"));
        }
        if sizes.is_empty() || sizes.contains(&0) || halo.len() != sizes.len() {
            return Err(Error::value("size of the image to be tiled", format!("{sizes:?}"), "sizes above 0"));
        }
        Ok(Self { sizes: sizes.to_vec(), side, halo: halo.to_vec() })
    }

    /// Number of tiles.
    pub fn len(&self) -> usize {
        self.sizes.iter().map(|s| s.div_ceil(self.side)).product()
    }

    /// Never: an image has pixels.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The tiles' side.
    pub fn side(&self) -> usize {
        self.side
    }

    /// The halo along each axis.
    pub fn halo(&self) -> &[usize] {
        &self.halo
    }

    /// The tiles in raster order: whole rows of tiles follow each other.
    pub fn tiles(&self) -> impl Iterator<Item = Tile> + '_ {
        (0..self.len()).map(|index| self.tile(index))
    }

    fn tile(&self, index: usize) -> Tile {
        let mut rest = index;
        let mut core = Vec::with_capacity(self.sizes.len());
        for &size in self.sizes.iter().rev() {
            let count = size.div_ceil(self.side);
            let start = rest % count * self.side;
            core.push(start..size.min(start + self.side));
            rest /= count;
        }
        core.reverse();
        let around = |((range, &halo), &size): ((&Range<usize>, &usize), &usize)| {
            range.start.saturating_sub(halo)..size.min(range.end.saturating_add(halo))
        };
        let outer = core.iter().zip(&self.halo).zip(&self.sizes).map(around).collect();
        Tile { core, outer }
    }
}

/// Fails for runs that would not treat all tiles alike.
pub fn check(pipeline: &Pipeline, settings: &Settings) -> Result<()> {
    let refuse = |what: &str, why: &str| {
        let instead = "a number of iterations (--max-iter), or solve the image whole".to_string();
        Err(Error::Method { method: format!("{pipeline}{what}"), why: why.into(), instead })
    };
    if pipeline.is_auto() {
        let why = "it chooses for every tile anew, and tiles that are solved by different methods do not fit together";
        return Err(Error::Method {
            method: "auto".into(),
            why: why.into(),
            instead: "mf, or another by name".into(),
        });
    }
    if settings.time_limit.is_some() {
        return refuse(" with a time limit", "tiles would be solved to different ends");
    }
    if settings.until_gap.is_some() {
        return refuse(" until a gap is reached", "bounds of tiles are no bounds of the image");
    }
    Ok(())
}

/// Solves one tile's model.
pub fn run(model: &Model, pipeline: &Pipeline, settings: &Settings) -> Result<Solution> {
    check(pipeline, settings)?;
    Solve::new(model).method(pipeline).settings(settings).run()
}

/// The labels that a tile takes from a run on its model: the most believed ones of its core.
pub fn labels(tile: &Tile, solution: &Solution) -> Vec<u16> {
    tile.crop(solution.beliefs.argmax().as_slice(), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_every_pixel_once() {
        for (sizes, side, halo) in
            [(vec![10, 7], 4, vec![2, 3]), (vec![3, 5, 9], 4, vec![9, 1, 2]), (vec![5], 9, vec![1])]
        {
            let tiling = Tiling::new(&sizes, side, &halo).unwrap();
            let points: usize = sizes.iter().product();
            let values: Vec<usize> = (0..points).collect();
            let mut seen = vec![0; points];
            assert_eq!(tiling.tiles().count(), tiling.len());
            for tile in tiling.tiles() {
                for (k, (core, outer)) in tile.core.iter().zip(&tile.outer).enumerate() {
                    assert_eq!(outer.start, core.start.saturating_sub(halo[k]));
                    assert_eq!(outer.end, sizes[k].min(core.end + halo[k]));
                }
                // The outer window's values by brute force, two a pixel; its core by `crop`.
                let strides: Vec<usize> = (0..sizes.len()).map(|k| sizes[k + 1..].iter().product()).collect();
                let inside = |v: usize, ranges: &[Range<usize>]| {
                    ranges.iter().enumerate().all(|(k, r)| r.contains(&(v / strides[k] % sizes[k])))
                };
                let outer: Vec<usize> =
                    values.iter().copied().filter(|&v| inside(v, &tile.outer)).flat_map(|v| [v, v]).collect();
                let core: Vec<usize> =
                    values.iter().copied().filter(|&v| inside(v, &tile.core)).flat_map(|v| [v, v]).collect();
                assert_eq!(tile.crop(&outer, 2), core);
                core.iter().step_by(2).for_each(|&v| seen[v] += 1);
            }
            assert!(seen.iter().all(|&n| n == 1));
        }
        assert!(Tiling::new(&[3, 3], 0, &[1, 1]).is_err());
        assert!(Tiling::new(&[3, 0], 1, &[1, 1]).is_err());
        assert!(Tiling::new(&[3, 3], 1, &[1]).is_err());
    }

    #[test]
    fn the_halo_follows_the_widest_kernel() {
        assert_eq!(halo([3.0, 80.0]), 400);
        assert_eq!(halo([0.3]), 2);
        assert_eq!(halo([]), 0);
        assert_eq!(halo([f32::INFINITY, 1.0]), 5);
        let kernel = |sigma: Vec<f32>, weight| Kernel { features: Features::Position { sigma }, weight };
        assert_eq!(halos(&[kernel(vec![3.0], 1.0), kernel(vec![9.0, 2.0], 1.0)], 2).unwrap(), [15, 45]);
        assert_eq!(halos(&[kernel(vec![3.0], 1.0), kernel(vec![9.0], 0.0)], 3).unwrap(), [15; 3]);
        let given = Kernel { features: Features::Given { rows: vec![], dims: 1 }, weight: 1.0 };
        assert!(halos(&[given], 2).is_err());
    }

    #[test]
    fn samples_lie_inside() {
        for sizes in [vec![10, 10], vec![384, 2000], vec![20_000, 30_000], vec![1, 500], vec![70, 80, 90]] {
            let windows = samples(&sizes);
            for window in &windows {
                assert!(
                    window.iter().zip(&sizes).all(|(r, &s)| r.start < r.end && r.end <= s),
                    "{sizes:?} {window:?}"
                );
                assert!(window.iter().map(Range::len).product::<usize>() <= SAMPLE_PIXELS * 11 / 10);
            }
            assert_eq!(windows.len() > 1, sizes.iter().any(|&s| s > 384 || sizes.len() > 2), "{sizes:?}");
        }
    }

    #[test]
    fn automatic_sides_are_the_largest_that_fit_and_found_at_once() {
        for axes in [1, 2, 3] {
            for halo in [0, 7, 400] {
                for memory in [1u64 << 24, 12_345_678_901, 1 << 40, 1 << 62, u64::MAX] {
                    for bytes in [0, 1, 300] {
                        let Ok(side) = side(memory, bytes, halo, axes) else { continue };
                        let pixels =
                            |side: usize| ((side + 2 * halo) as f64).powi(axes as i32) * bytes.max(1) as f64;
                        assert!(side % STEP == 0 && side > 0 && pixels(side) <= memory as f64);
                        assert!(side >= LONGEST || pixels(side + STEP) > memory as f64, "{side}");
                    }
                }
            }
        }
    }

    #[test]
    fn automatic_sides_fit() {
        let bytes = 300;
        let at = |memory| side(memory, bytes, 268, 2);
        let chosen = at(DEFAULT_MEMORY).unwrap();
        assert!(chosen % STEP == 0 && ((chosen + 536) as u64).pow(2) * bytes <= DEFAULT_MEMORY);
        assert!(((chosen + STEP + 536) as u64).pow(2) * bytes > DEFAULT_MEMORY);
        assert!(at(1 << 20).unwrap_err().to_string().contains("at least"));
    }

    #[test]
    fn tiles_must_be_treated_alike() {
        let settings = Settings::default();
        assert!(check(&"mf".parse().unwrap(), &settings).is_ok());
        assert!(check(&"auto".parse().unwrap(), &settings).is_err());
        let limited = Settings { time_limit: Some(std::time::Duration::from_secs(1)), ..Settings::default() };
        assert!(check(&"mf".parse().unwrap(), &limited).unwrap_err().to_string().contains("time limit"));
        let gap = Settings { until_gap: Some(0.1), ..Settings::default() };
        assert!(check(&"mf".parse().unwrap(), &gap).is_err());
    }
}
