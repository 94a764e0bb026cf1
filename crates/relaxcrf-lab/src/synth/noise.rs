//! Smooth random fields: gradient noise (Perlin 1985) on a hashed lattice, and sums of its octaves.

use relaxcrf::rng::mix;

/// A smooth random function of the plane, of about unit feature size and values in about -1 to 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noise {
    seed: u64,
}

impl Noise {
    pub fn new(seed: u64) -> Self {
        Self { seed: mix(seed) }
    }

    /// One octave.
    pub fn at(&self, x: f64, y: f64) -> f64 {
        let (cell_x, cell_y) = (x.floor(), y.floor());
        let (fx, fy) = (x - cell_x, y - cell_y);
        let corner = |i: i64, j: i64| {
            let place = (cell_x as i64 + i) as u64 ^ mix((cell_y as i64 + j) as u64);
            let h = mix(self.seed ^ mix(place));
            // Two independent components in -1..1 from the two halves of the hash.
            let (gx, gy) =
                ((h >> 32) as f64 / 2f64.powi(31) - 1.0, (h & 0xffff_ffff) as f64 / 2f64.powi(31) - 1.0);
            gx * (fx - i as f64) + gy * (fy - j as f64)
        };
        let (sx, sy) = (fade(fx), fade(fy));
        let top = lerp(corner(0, 0), corner(1, 0), sx);
        let bottom = lerp(corner(0, 1), corner(1, 1), sx);
        // Raw values rarely exceed 0.6.
        1.6 * lerp(top, bottom, sy)
    }

    /// Octaves of doubling frequency and falling amplitude, scaled back to about -1 to 1.
    pub fn fractal(&self, x: f64, y: f64, octaves: usize) -> f64 {
        let (mut sum, mut total, mut weight, mut scale) = (0.0, 0.0, 1.0, 1.0);
        for octave in 0..octaves {
            // Shifted, or all octaves would vanish together at the lattice's origin.
            let shift = octave as f64 * 17.3;
            sum += weight * self.at(x * scale + shift, y * scale - shift);
            total += weight;
            weight *= 0.55;
            scale *= 2.0;
        }
        1.3 * sum / total
    }
}

/// Smooth step from 0 to 1 with flat ends (zero first and second derivative).
fn fade(t: f64) -> f64 {
    t * t * t * (t * (t * 6.0 - 15.0) + 10.0)
}

/// Linear interpolation.
pub(super) fn lerp(a: f64, b: f64, t: f64) -> f64 {
    a + (b - a) * t
}

/// 0 below `low`, 1 above `high`, smooth between.
pub(super) fn step(low: f64, high: f64, v: f64) -> f64 {
    let t = ((v - low) / (high - low)).clamp(0.0, 1.0);
    t * t * (3.0 - 2.0 * t)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_smooth_centred_and_bounded() {
        let noise = Noise::new(5);
        let (mut sum, mut squares, n) = (0.0, 0.0, 20_000);
        for i in 0..n {
            let (x, y) = (i as f64 * 0.371 - 900.0, i as f64 * 0.113 + 3.0);
            let v = noise.fractal(x, y, 4);
            assert!(v.abs() < 2.0);
            assert!((noise.at(x + 1e-6, y) - noise.at(x, y)).abs() < 1e-4);
            sum += v;
            squares += v * v;
        }
        assert!((sum / n as f64).abs() < 0.03);
        let deviation = (squares / n as f64).sqrt();
        assert!((0.15..0.6).contains(&deviation), "{deviation}");
        assert_ne!(Noise::new(6).at(0.5, 0.5), noise.at(0.5, 0.5));
    }
}
