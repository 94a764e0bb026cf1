//! Random numbers: one small generator, one place where seeds become streams.
//!
//! SplitMix64 (Steele, Lea and Flood 2014): a counter with an odd step, passed through a mixing function.
//! It is fast, has no bad seeds, and gives the same numbers everywhere and for ever, which is what rounding,
//! tests and generated scenes need. It is not for secrets.

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

/// The fractional part of the golden ratio, odd, in 64 bits.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Rng {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The `index`-th of many streams of one seed, for parts that must not depend on each other's length.
    pub fn stream(seed: u64, index: u64) -> Self {
        // Mixing twice keeps streams of neighbouring seeds and indices apart.
        Self { state: mix(mix(seed.wrapping_add(STEP)) ^ index.wrapping_mul(STEP)) }
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Uniform on `[0, 1)`, with 53 random bits.
    pub fn next_f64(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform between two bounds.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.next_f64()
    }

    /// Uniform on `0..n`, without bias; 0 when `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        let n = n as u64;
        // The high half of the product is uniform once the few products that wrapped unevenly are redrawn.
        let uneven = if n == 0 { 0 } else { n.wrapping_neg() % n };
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= uneven {
                return (product >> 64) as usize;
            }
        }
    }

    /// Normal with mean 0 and standard deviation 1 (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        // 1 - u lies in (0, 1], where the logarithm is finite.
        let radius = (-2.0 * (1.0 - self.next_f64()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.next_f64()).cos()
    }

    /// Puts the items in random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// 64 well-mixed bits of a number: equal in, equal out. A stateless source for noise at a place.
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_answers() {
        // The published outputs for seed 1234567.
        let mut rng = Rng::new(1_234_567);
        let first: Vec<u64> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn moments() {
        let mut rng = Rng::new(7);
        let n = 100_000;
        let uniform: Vec<f64> = (0..n).map(|_| rng.next_f64()).collect();
        let normal: Vec<f64> = (0..n).map(|_| rng.normal()).collect();
        let mean = |v: &[f64]| v.iter().sum::<f64>() / n as f64;
        let variance = |v: &[f64]| v.iter().map(|x| x * x).sum::<f64>() / n as f64 - mean(v).powi(2);
        assert!((mean(&uniform) - 0.5).abs() < 0.005 && (variance(&uniform) - 1.0 / 12.0).abs() < 0.002);
        assert!(mean(&normal).abs() < 0.015 && (variance(&normal) - 1.0).abs() < 0.02);
        assert!(uniform.iter().all(|u| (0.0..1.0).contains(u)));
        assert!(normal.iter().all(|u| u.is_finite()));
    }

    #[test]
    fn below_is_even_and_shuffle_keeps_items() {
        let mut rng = Rng::new(3);
        let mut counts = [0usize; 7];
        (0..70_000).for_each(|_| counts[rng.below(7)] += 1);
        assert!(counts.iter().all(|&c| c.abs_diff(10_000) < 400), "{counts:?}");
        assert_eq!((rng.below(0), rng.below(1)), (0, 0));
        let mut items: Vec<usize> = (0..50).collect();
        rng.shuffle(&mut items);
        assert!(items.windows(2).any(|w| w[0] > w[1]));
        items.sort();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn streams_differ() {
        let mut firsts: Vec<u64> =
            (0..40).flat_map(|s| (0..40).map(move |i| Rng::stream(s, i).next_u64())).collect();
        firsts.sort();
        firsts.dedup();
        assert_eq!(firsts.len(), 1600);
    }
}
