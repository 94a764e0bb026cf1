//! Sky, mountains, meadow and lake: everything behind the things that stand on the ground.

use super::super::noise::{Noise, lerp, step};
use super::{Colour, GRASS, MOUNTAIN, SKY, TREE, WATER, blend, shade};
use relaxcrf::rng::Rng;

/// Height of the horizon, in picture heights from the top.
pub(super) const HORIZON: f64 = 0.43;

/// Where the far edge of the meadow lies.
const FIELD_EDGE: f64 = HORIZON + 0.012;

const HAZE: Colour = [0.73, 0.82, 0.91];

/// Everything behind the things. Lengths are in picture heights.
pub(super) struct Backdrop {
    middle: f64,
    clouds: Noise,
    ridges: Noise,
    hills: Noise,
    rock: Noise,
    forest: Noise,
    shore: Noise,
    ripples: Noise,
    meadow: Noise,
    lake: Lake,
}

/// An ellipse with an uneven shore.
struct Lake {
    centre: (f64, f64),
    radii: (f64, f64),
}

impl Backdrop {
    /// A backdrop of the given width.
    pub fn new(rng: &mut Rng, width: f64) -> Self {
        let mut noise = || Noise::new(rng.next_u64());
        let [clouds, ridges, hills, rock, forest, shore, ripples, meadow] = std::array::from_fn(|_| noise());
        let centre = (rng.between(0.62, 0.72) * width, HORIZON + rng.between(0.085, 0.095));
        let radii = (rng.between(0.36, 0.42) * width, rng.between(0.055, 0.065));
        let lake = Lake { centre, radii };
        Self { middle: 0.5 * width, clouds, ridges, hills, rock, forest, shore, ripples, meadow, lake }
    }

    /// Label and colour at a point; `shadow` darkens the ground.
    pub fn sight(&self, x: f64, y: f64, shadow: impl Fn() -> f64) -> (u16, Colour) {
        let edge = FIELD_EDGE + 0.004 * self.forest.fractal(5.0 * x, 7.0, 2);
        if y < edge {
            return self.far(x, y);
        }
        let shore = self.shore_distance(x, y);
        if shore < 1.0 {
            return (WATER, self.water(x, y, shore));
        }
        (GRASS, shade(self.grass(x, y, shore), 1.0 - 0.5 * shadow()))
    }

    /// Sky, mountains and the forest at the far edge of the meadow.
    fn far(&self, x: f64, y: f64) -> (u16, Colour) {
        let crowns = self.forest.fractal(26.0 * x, 0.3, 2).abs();
        let forest = HORIZON - 0.016 - 0.022 * self.forest.fractal(3.0 * x, 2.0, 3) - 0.02 * crowns;
        if y > forest {
            return (TREE, self.forest_colour(x, y, y - forest));
        }
        let hills = HORIZON - 0.045 - 0.06 * self.hills.fractal(1.7 * x, 0.0, 5);
        if y > hills {
            return (MOUNTAIN, self.hill_colour(x, y, y - hills));
        }
        let ridge = self.ridge(x);
        if y > ridge {
            return (MOUNTAIN, self.rock_colour(x, y, y - ridge));
        }
        (SKY, self.sky(x, y))
    }

    /// Height of the mountains' outline.
    fn ridge(&self, x: f64) -> f64 {
        let peak = |frequency: f64, row: f64| 1.0 - 1.5 * self.ridges.at(frequency * x, row).abs();
        let peaks = 0.12 * peak(2.3, 0.5) + 0.06 * peak(5.1, 3.3);
        HORIZON - 0.06 - peaks.max(0.0) - 0.022 * self.ridges.fractal(16.0 * x, 3.0, 4)
    }

    fn sky(&self, x: f64, y: f64) -> Colour {
        let down = (y / HORIZON).clamp(0.0, 1.0);
        let clear = blend([0.25, 0.47, 0.78], [0.76, 0.86, 0.93], down.powf(1.25));
        // Clouds lie in a level sheet, so they close up towards the horizon.
        let depth = 1.0 / (HORIZON + 0.14 - y);
        let (u, v) = (0.62 * (x - self.middle) * depth, 1.05 * depth);
        let density = |u: f64, v: f64| self.clouds.fractal(u, 1.5 * v, 5);
        let here = density(u, v);
        let cover = step(-0.1, 0.42, here) * (1.0 - 0.45 * down.powi(3));
        let lit = (0.72 + 1.1 * (here - density(u - 0.16, v - 0.12))).clamp(0.0, 1.0);
        blend(clear, blend([0.74, 0.78, 0.84], [0.99, 0.98, 0.96], lit), cover)
    }

    fn rock_colour(&self, x: f64, y: f64, below: f64) -> Colour {
        // Slopes run down to both sides of the ridges: the relief is stretched along them.
        let relief = |x: f64, y: f64| self.rock.fractal(6.0 * x + 2.0 * y, 5.0 * y - x, 5);
        let here = relief(x, y);
        let light = (0.5 + 4.0 * (relief(x + 0.012, y + 0.008) - here)).clamp(0.0, 1.0);
        let rock = blend([0.28, 0.31, 0.38], [0.56, 0.55, 0.54], light);
        let snow = blend([0.66, 0.72, 0.82], [0.97, 0.97, 0.97], light);
        // Snow lies above a line, lower in the gullies.
        let above = HORIZON - 0.135 - y + 0.075 * here - 0.02 * light;
        let colour = blend(rock, snow, step(-0.006, 0.012, above));
        blend(colour, HAZE, 0.3 + 0.3 * step(0.0, 0.22, below))
    }

    fn hill_colour(&self, x: f64, y: f64, below: f64) -> Colour {
        let woods = self.rock.fractal(9.0 * x, 16.0 * y, 4);
        let light = 0.5 + 0.55 * woods + 0.2 * self.rock.at(60.0 * x, 75.0 * y);
        let colour = blend([0.16, 0.27, 0.20], [0.38, 0.47, 0.27], light.clamp(0.0, 1.0));
        blend(colour, HAZE, 0.36 + 0.12 * step(0.0, 0.08, below))
    }

    fn forest_colour(&self, x: f64, y: f64, below: f64) -> Colour {
        let crowns = self.forest.fractal(34.0 * x, 46.0 * y, 3);
        let light = (0.75 - 14.0 * below + 0.55 * crowns).clamp(0.0, 1.0);
        blend(blend([0.07, 0.13, 0.08], [0.27, 0.37, 0.16], light), HAZE, 0.12)
    }

    /// Below 1 in the lake, 1 on its shore.
    fn shore_distance(&self, x: f64, y: f64) -> f64 {
        let Lake { centre, radii } = self.lake;
        let (u, v) = ((x - centre.0) / radii.0, (y - centre.1) / radii.1);
        u * u + v * v + 0.42 * self.shore.fractal(3.5 * x, 9.0 * y, 3)
    }

    fn water(&self, x: f64, y: f64, shore: f64) -> Colour {
        let near = step(HORIZON, HORIZON + 0.2, y);
        let wave = self.ripples.fractal(9.0 * x, 90.0 * y, 3);
        // The far side is mirrored at the horizon; waves shake its picture.
        let mirrored = 2.0 * HORIZON - y + (0.004 + 0.02 * near) * wave;
        let (_, seen) = self.far(x + 0.006 * wave, mirrored.min(HORIZON));
        let colour = blend(shade(seen, 0.9), [0.12, 0.27, 0.34], 0.12 + 0.35 * near);
        shade(colour, (1.0 + 0.07 * wave) * (0.72 + 0.28 * step(0.0, 0.16, 1.0 - shore)))
    }

    fn grass(&self, x: f64, y: f64, shore: f64) -> Colour {
        let near = step(HORIZON, 1.05, y);
        let distance = 0.6 / (y - HORIZON + 0.01);
        let across = (x - self.middle) * distance;
        let broad = self.meadow.fractal(0.55 * across, 0.5 * distance, 4);
        let tufts = self.meadow.fractal(5.0 * across, 5.0 * distance, 3) * near;
        // Blades stand upright whatever the distance.
        let blades = self.meadow.fractal(75.0 * x, 24.0 * y, 2) * near * near;
        let mut colour = blend([0.31, 0.41, 0.16], [0.53, 0.58, 0.28], 0.5 + 0.6 * broad);
        colour = shade(colour, 1.0 + 0.13 * tufts + 0.16 * blades);
        let bloom =
            self.meadow.at(70.0 * x + 300.0, 80.0 * y) + 0.35 * self.meadow.at(5.0 * x, 9.0 * y + 40.0);
        colour = blend(colour, [0.93, 0.90, 0.66], 0.8 * step(0.86, 0.94, bloom) * step(0.2, 0.7, near));
        colour = blend([0.62, 0.60, 0.42], colour, lerp(0.25, 1.0, step(1.0, 1.22, shore)));
        blend(colour, [0.66, 0.73, 0.55], 0.45 * (1.0 - near).powi(6))
    }
}
