//! Colours and textures of surfaces.

use super::noise::{Noise, lerp, step};
use super::shape::Hit;
use relaxcrf::rng::Rng;

/// A surface: two colours and the pattern that mixes them.
#[derive(Debug, Clone)]
pub(super) struct Material {
    base: [f64; 3],
    second: [f64; 3],
    pattern: Pattern,
    /// Pattern cells per pixel.
    frequency: f64,
    /// Relative strength of the fine roughness on top of the pattern, a few pixels in size.
    roughness: f64,
    /// Direction of stripes.
    turn: (f64, f64),
    noise: Noise,
}

#[derive(Debug, Clone, Copy)]
enum Pattern {
    Cloudy,
    Stripes,
    Spots,
    Grain,
}

impl Material {
    /// A surface of a hue (0 to 1 round the circle), with a random pattern. `frequency` sets its scale.
    pub fn coloured(rng: &mut Rng, hue: f64, frequency: f64) -> Self {
        let base = from_hue(hue, rng.between(0.45, 0.75), rng.between(0.5, 0.85));
        let shift = rng.between(0.03, 0.07) * if rng.next_f64() < 0.5 { -1.0 } else { 1.0 };
        let second = from_hue(hue + shift, rng.between(0.35, 0.65), rng.between(0.38, 0.72));
        let patterns = [Pattern::Cloudy, Pattern::Stripes, Pattern::Spots, Pattern::Grain];
        let pattern = patterns[rng.below(patterns.len())];
        Self::new(rng, base, second, pattern, frequency)
    }

    /// A broad, calm surface between two given colours: sky, wall.
    pub fn cloudy(rng: &mut Rng, base: [f64; 3], second: [f64; 3], frequency: f64) -> Self {
        Self::new(rng, base, second, Pattern::Cloudy, frequency)
    }

    /// A rough surface between two given colours: grass, sand.
    pub fn grainy(rng: &mut Rng, base: [f64; 3], second: [f64; 3], frequency: f64) -> Self {
        Self::new(rng, base, second, Pattern::Grain, frequency)
    }

    fn new(rng: &mut Rng, base: [f64; 3], second: [f64; 3], pattern: Pattern, frequency: f64) -> Self {
        let (sin, cos) = rng.between(0.0, std::f64::consts::TAU).sin_cos();
        let noise = Noise::new(rng.next_u64());
        Self { base, second, pattern, frequency, roughness: 0.08, turn: (cos, sin), noise }
    }

    /// The same surface with another roughness: what stereo matching lives on.
    pub fn rough(self, roughness: f64) -> Self {
        Self { roughness, ..self }
    }

    /// The unlit colour at a point of the surface.
    pub fn colour(&self, x: f64, y: f64) -> [f64; 3] {
        let (u, v) = (x * self.frequency, y * self.frequency);
        let noise = &self.noise;
        let t = match self.pattern {
            Pattern::Cloudy => 0.5 + 0.7 * noise.fractal(u, v, 4),
            Pattern::Stripes => {
                let along = 3.0 * (u * self.turn.0 + v * self.turn.1) + 1.2 * noise.at(u, v);
                0.5 + 0.35 * (along * std::f64::consts::PI).sin() + 0.25 * noise.fractal(4.0 * u, 4.0 * v, 2)
            }
            Pattern::Spots => {
                step(0.1, 0.3, noise.at(2.2 * u, 2.2 * v)) + 0.25 * noise.fractal(5.0 * u, 5.0 * v, 2)
            }
            Pattern::Grain => {
                0.5 + 0.45 * noise.fractal(1.5 * u, 1.5 * v, 2) + 0.5 * noise.fractal(8.0 * u, 8.0 * v, 3)
            }
        };
        let fine = 1.0 + self.roughness * noise.fractal(0.23 * x + 50.0, 0.23 * y, 2);
        [0, 1, 2].map(|i| fine * lerp(self.base[i], self.second[i], t.clamp(-0.2, 1.2)))
    }
}

/// The colour under a light from the upper left, for an inflated shape.
pub(super) fn lit(colour: [f64; 3], hit: Hit) -> [f64; 3] {
    let nz = (1.0 - hit.nx * hit.nx - hit.ny * hit.ny).max(0.0).sqrt();
    let light = (-0.48 * hit.nx - 0.57 * hit.ny + 0.67 * nz).max(0.0);
    let shade = 0.58 + 0.56 * light;
    colour.map(|c| c * shade)
}

/// A colour on the 0..255 scale from hue, saturation and value.
pub(super) fn from_hue(hue: f64, saturation: f64, value: f64) -> [f64; 3] {
    // Each channel is a trapezoid of the hue, a third of the circle apart.
    [0.0, 2.0 / 3.0, 1.0 / 3.0].map(|offset| {
        let place = (hue + offset).rem_euclid(1.0) * 6.0;
        let level = ((place - 3.0).abs() - 1.0).clamp(0.0, 1.0);
        255.0 * value * (1.0 - saturation * (1.0 - level))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hues_are_distinct_and_bright() {
        assert_eq!(from_hue(0.0, 1.0, 1.0), [255.0, 0.0, 0.0]);
        let near = |a: [f64; 3], b: [f64; 3]| a.iter().zip(b).all(|(x, y)| (x - y).abs() < 1e-9);
        assert!(near(from_hue(1.0 / 3.0, 1.0, 1.0), [0.0, 255.0, 0.0]));
        assert!(near(from_hue(2.0 / 3.0, 1.0, 1.0), [0.0, 0.0, 255.0]));
        assert!(near(from_hue(1.0 / 6.0, 1.0, 1.0), [255.0, 255.0, 0.0]));
        assert!(near(from_hue(0.4, 0.0, 0.5), [127.5; 3]));
    }
}
