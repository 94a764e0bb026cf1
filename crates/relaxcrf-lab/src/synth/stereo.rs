//! A rectified pair of pictures of slanted surfaces.

use rayon::prelude::*;

use super::material::{Material, from_hue, lit};
use super::shape::Shape;
use super::{Stream, check_size, render};
use relaxcrf::Image;
use relaxcrf::error::{Error, Result};
use relaxcrf::labeling::{Labeling, MAX_LABELS};
use relaxcrf::rng::Rng;

/// A generated stereo problem: left pixel `(x, y)` is right pixel `(x - disparity, y)`.
#[derive(Debug, Clone)]
pub struct StereoScene {
    /// The left picture, three channels.
    pub left: Image,
    /// The right picture, three channels: another exposure, other noise.
    pub right: Image,
    /// The disparity of every left pixel, rounded; also of those that the right picture does not show.
    pub truth: Labeling,
    /// The same, not rounded.
    pub exact: Vec<f32>,
    /// Left pixels that the right picture shows as well.
    pub visible: Vec<bool>,
    /// Number of disparities: all are below it.
    pub disparities: usize,
}

/// What makes a scene easy or hard to match.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StereoLook {
    /// Strength of the fine texture on all things: 0.32 leaves most places matchable and many ambiguous.
    pub roughness: f64,
    /// Standard deviation of the sensors' noise, in grey values.
    pub noise: f64,
    /// Brightness of the right picture over that of the left one.
    pub exposure: f64,
}

impl Default for StereoLook {
    fn default() -> Self {
        Self { roughness: 0.32, noise: 2.0, exposure: 0.98 }
    }
}

/// A plane cut out along a shape. All coordinates are those of the left picture.
struct Surface {
    /// `None` reaches everywhere.
    shape: Option<Shape>,
    material: Material,
    /// Disparity at the left picture's origin, and its slopes along x and y.
    plane: [f64; 3],
    /// Brightness at the origin and its slopes: even light on a slanted plane.
    light: [f64; 3],
}

impl Surface {
    fn disparity(&self, x: f64, y: f64) -> f64 {
        self.plane[0] + self.plane[1] * x + self.plane[2] * y
    }

    /// Where on this surface the right picture's pixel looks, in left coordinates: `u - disparity(u) = x`.
    fn seen_from_right(&self, x: f64, y: f64) -> f64 {
        (x + self.plane[0] + self.plane[2] * y) / (1.0 - self.plane[1])
    }

    fn covers(&self, x: f64, y: f64) -> bool {
        self.shape.as_ref().is_none_or(|s| s.hit(x, y).is_some())
    }

    fn colour(&self, x: f64, y: f64) -> [f64; 3] {
        let light = (self.light[0] + self.light[1] * x + self.light[2] * y).clamp(0.55, 1.2);
        let colour = self.material.colour(x, y).map(|c| c * light);
        // Shading belongs to the surface, like paint, so that both pictures agree on it.
        self.shape.as_ref().and_then(|s| s.hit(x, y)).map_or(colour, |hit| lit(colour, hit))
    }
}

/// A pair of `width x height` pixels with disparities `0..disparities`.
///
/// Both pictures look at the same surfaces, exactly: a nearer surface hides those behind it in each picture
/// on its own, so occlusions are as in nature.
pub fn stereo(width: usize, height: usize, disparities: usize, seed: u64) -> Result<StereoScene> {
    stereo_with(width, height, disparities, seed, &StereoLook::default())
}

/// [`stereo`] with another look.
pub fn stereo_with(
    width: usize,
    height: usize,
    disparities: usize,
    seed: u64,
    look: &StereoLook,
) -> Result<StereoScene> {
    check_size(width, height)?;
    let most = width.min(MAX_LABELS);
    if !(2..=most).contains(&disparities) {
        return Err(Error::value(
            "number of disparities",
            disparities,
            format!("2 to {most} (the scene's width)"),
        ));
    }
    let surfaces = build(width as f64, height as f64, disparities, seed, look);
    let left_noise = Stream::SensorNoise.rng(seed).next_u64();
    let right_noise = Stream::OtherSensorNoise.rng(seed).next_u64();
    let left = render(width, height, look.noise, left_noise, |x, y| {
        let s = nearest(&surfaces, |_| x, y);
        s.colour(x, y)
    });
    let right = render(width, height, look.noise, right_noise, |x, y| {
        let s = nearest(&surfaces, |s| s.seen_from_right(x, y), y);
        // With another exposure, absolute differences of right matches are not zero.
        s.colour(s.seen_from_right(x, y), y).map(|c| look.exposure * c)
    });
    let pixel = |a: usize| {
        let (x, y) = ((a % width) as f64, (a / width) as f64);
        let surface = nearest(&surfaces, |_| x, y);
        let d = surface.disparity(x, y);
        let seen = x - d;
        let first = nearest(&surfaces, |s| s.seen_from_right(seen, y), y);
        (d, seen >= 0.0 && std::ptr::eq(first, surface))
    };
    let (exact, visible): (Vec<f64>, Vec<bool>) = (0..width * height).into_par_iter().map(pixel).unzip();
    let last = (disparities - 1) as f64;
    let truth = exact.iter().map(|d| d.round().clamp(0.0, last) as u16).collect();
    let exact = exact.into_iter().map(|d| d as f32).collect();
    Ok(StereoScene { left, right, truth: Labeling::new(truth), exact, visible, disparities })
}

/// The surface of greatest disparity among those that cover the place `(place(surface), y)`.
///
/// The first surface covers everything, so there always is one.
fn nearest(surfaces: &[Surface], place: impl Fn(&Surface) -> f64, y: f64) -> &Surface {
    let mut best = &surfaces[0];
    let mut depth = best.disparity(place(best), y);
    for s in &surfaces[1..] {
        let x = place(s);
        let d = s.disparity(x, y);
        if d > depth && s.covers(x, y) {
            (best, depth) = (s, d);
        }
    }
    best
}

/// Wall, floor, and things in between, all with disparities within the range.
fn build(w: f64, h: f64, disparities: usize, seed: u64, look: &StereoLook) -> Vec<Surface> {
    let mut rng = Stream::Layout.rng(seed);
    let mut paint = Stream::Materials.rng(seed);
    let top = (disparities - 1) as f64;
    let scale = 300.0 / w.hypot(h).max(60.0);
    let first_hue = paint.next_f64();
    let dull = |hue: f64, value: f64| from_hue(hue, 0.3, value);
    let wall = Surface {
        shape: None,
        material: Material::grainy(
            &mut paint,
            dull(first_hue, 0.78),
            dull(first_hue + 0.08, 0.5),
            0.05 * scale,
        ),
        plane: slanted(0.12 * top, rng.between(-0.06, 0.06) * top / w, 0.0, (0.5 * w, 0.5 * h)),
        light: [1.0, rng.between(-0.25, 0.25) / w, 0.0],
    };
    // The floor rises from the wall's depth at mid-height to nearly the nearest at the lower edge.
    let floor = Surface {
        shape: None,
        material: Material::grainy(
            &mut paint,
            dull(first_hue + 0.45, 0.62),
            dull(first_hue + 0.5, 0.38),
            0.07 * scale,
        ),
        plane: slanted(0.12 * top, 0.0, 0.55 * top / (0.45 * h), (0.5 * w, 0.55 * h)),
        light: [0.75, 0.0, 0.35 / h],
    };
    let mut surfaces = vec![wall, floor];
    let count = 6 + rng.below(3);
    for i in 0..count {
        let depth = (0.25 + 0.65 * (i as f64 + rng.next_f64()) / count as f64) * top;
        let mut thing = thing(&mut rng, &mut paint, (w, h), (depth, top), i, first_hue, scale);
        thing.material = thing.material.rough(look.roughness);
        surfaces.push(thing);
    }
    surfaces
}

/// A cut-out at about the given disparity, near things lower and larger.
fn thing(
    rng: &mut Rng,
    paint: &mut Rng,
    (w, h): (f64, f64),
    (depth, top): (f64, f64),
    index: usize,
    first_hue: f64,
    scale: f64,
) -> Surface {
    let nearness = depth / top.max(1.0);
    // Golden-ratio steps keep things from all standing in one place.
    let x = (0.1 + 0.8 * (0.5 + 0.618_034 * index as f64 + rng.between(-0.06, 0.06)).fract()) * w;
    let y = (0.3 + 0.4 * nearness + rng.between(-0.12, 0.08)) * h;
    let size = (0.09 + 0.08 * nearness) * rng.between(0.8, 1.25) * w.min(h);
    let shape = match rng.below(3) {
        0 => Shape::tree(rng, x, y, size),
        1 => Shape::creature(rng, x, y, size, 3),
        _ => Shape::creature(rng, x, y, 1.3 * size, 0),
    };
    // Slopes that change the disparity by at most a tenth of the range across the thing's width.
    let slope = |rng: &mut Rng| rng.between(-0.05, 0.05) * top / size.max(1.0);
    let (sx, sy) = (slope(rng).clamp(-0.3, 0.3), slope(rng));
    let hue = first_hue + 0.2 + 0.618_034 * index as f64;
    let frequency = paint.between(0.07, 0.12) * scale;
    Surface {
        shape: Some(shape),
        material: Material::coloured(paint, hue, frequency),
        plane: slanted(depth, sx, sy, (x, y)),
        light: slanted(1.0, rng.between(-0.2, 0.1) / size.max(1.0) * 0.4, 0.0, (x, y)),
    }
}

/// Coefficients of a plane with value `v` at a point, and the given slopes.
fn slanted(v: f64, sx: f64, sy: f64, (x, y): (f64, f64)) -> [f64; 3] {
    [v - sx * x - sy * y, sx, sy]
}
