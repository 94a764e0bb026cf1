//! How far a filter is from the Gaussian it stands for, measured on a sample of points.
//!
//! A lattice reproduces the shape of the kernel but not its scale: on sparse features no fixed constant is right.
//! One factor per kernel, from exact sums at a few hundred points, brings the scale back and tells the error left.

use crate::error::{Error, Result};
use crate::{Exact, Operator};

/// Points to sample where nothing else is asked for.
pub const DEFAULT_SAMPLES: usize = 200;

/// The factor that brings a filter to the scale of the Gaussian, and how well it fits after that.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// `Σ (K_exact·1) / Σ (K_filter·1)` over the sampled points; 1 where nothing can be said.
    pub scale: f32,
    /// Root of the summed squared error of `scale · K_filter·1`, relative to that of `K_exact·1`.
    pub rms_error: f32,
    /// Points sampled.
    pub samples: usize,
}

/// Compares the filter's K·1 with the exact one at `samples` points (all, if there are fewer); `features` are those
/// that the filter was built on, N x `dims`.
///
/// The points are drawn one from each of `samples` equal stretches of the point list, so they are spread over the
/// image; the same seed gives the same points.
pub fn calibrate(
    filter: &dyn Operator,
    features: &[f32],
    dims: usize,
    samples: usize,
    seed: u64,
) -> Result<Calibration> {
    let n = filter.points();
    if n.checked_mul(dims) != Some(features.len()) {
        return Err(Error::shape(
            "features to calibrate by",
            format!("{} numbers", features.len()),
            format!("{dims} for each of the filter's {n} points"),
        ));
    }
    let exact = Exact::new(features.to_vec(), dims)?;
    let points = sample(n, samples, seed);
    let all = filter.normalizer();
    let got: Vec<f64> = points.iter().map(|&a| f64::from(all[a as usize])).collect();
    let expected = exact.row_sums_at(&points);
    let total: f64 = got.iter().sum();
    let scale = if total > 0.0 { expected.iter().sum::<f64>() / total } else { 1.0 };
    let square = |x: f64| x * x;
    let error: f64 = got.iter().zip(&expected).map(|(g, w)| square(scale * g - w)).sum();
    // Every exact sum holds the self pair, so this is zero only without samples.
    let size: f64 = expected.iter().map(|&w| square(w)).sum();
    let rms_error = if size > 0.0 { (error / size).sqrt() } else { 0.0 };
    Ok(Calibration { scale: scale as f32, rms_error: rms_error as f32, samples: points.len() })
}

/// One point from each of `samples` stretches of `0..n`.
fn sample(n: usize, samples: usize, seed: u64) -> Vec<u32> {
    let samples = samples.min(n);
    let mut state = seed;
    let stretch = |i: usize| (i as u128 * n as u128 / samples as u128) as usize;
    (0..samples)
        .map(|i| {
            let (start, end) = (stretch(i), stretch(i + 1));
            start as u32 + (split_mix(&mut state) % (end - start) as u64) as u32
        })
        .collect()
}

/// The next number of Steele, Lea and Flood's SplitMix64 sequence.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, Scaling, Separable, Workspace};

    /// Another filter times a number, with every second row a little larger.
    #[derive(Debug)]
    struct Scaled(Separable, f32, f32);

    impl Operator for Scaled {
        fn name(&self) -> &'static str {
            "scaled"
        }
        fn points(&self) -> usize {
            self.0.points()
        }
        fn is_symmetric(&self) -> bool {
            false
        }
        fn apply(
            &self,
            direction: Direction,
            input: &[f32],
            channels: usize,
            scaling: Scaling,
            out: &mut [f32],
            workspace: &mut Workspace,
        ) {
            let gain = scaling.gain * self.1;
            self.0.apply(direction, input, channels, Scaling { gain, ..scaling }, out, workspace);
            out.chunks_mut(2).for_each(|pair| pair[0] *= self.2);
        }
        fn workspace_bytes(&self, channels: usize) -> u64 {
            self.0.workspace_bytes(channels)
        }
        fn diagonal(&self) -> Vec<f32> {
            vec![self.1; self.points()]
        }
    }

    fn positions() -> Vec<f32> {
        (0..20 * 30).flat_map(|p| [(p / 30) as f32 / 2.0, (p % 30) as f32 / 2.0]).collect()
    }

    fn grid(factor: f32, uneven: f32) -> Scaled {
        Scaled(Separable::new(&[20, 30], &[2.0, 2.0]).unwrap(), factor, uneven)
    }

    #[test]
    fn finds_the_scale_and_the_error() {
        let fair = calibrate(&grid(1.0, 1.0), &positions(), 2, 100, 7).unwrap();
        assert_eq!(fair.samples, 100);
        assert!((fair.scale - 1.0).abs() < 1e-5 && fair.rms_error < 1e-5, "{fair:?}");
        let half = calibrate(&grid(0.5, 1.0), &positions(), 2, 100, 7).unwrap();
        assert!((half.scale - 2.0).abs() < 1e-5 && half.rms_error < 1e-5, "{half:?}");
        // Rows alternate between 1 and 1.2 times the truth: about ±9 % round the scaled mean.
        let uneven = calibrate(&grid(1.0, 1.2), &positions(), 2, DEFAULT_SAMPLES, 7).unwrap();
        assert!((uneven.scale - 1.0 / 1.1).abs() < 0.02, "{uneven:?}");
        assert!((uneven.rms_error - 0.091).abs() < 0.01, "{uneven:?}");
    }

    #[test]
    fn edge_cases() {
        let all = calibrate(&grid(1.0, 1.0), &positions(), 2, 10_000, 1).unwrap();
        assert_eq!(all.samples, 600);
        let silent = calibrate(&grid(0.0, 1.0), &positions(), 2, 10, 1).unwrap();
        assert_eq!((silent.scale, silent.rms_error), (1.0, 1.0));
        let none = calibrate(&grid(1.0, 1.0), &positions(), 2, 0, 1).unwrap();
        assert_eq!(none, Calibration { scale: 1.0, rms_error: 0.0, samples: 0 });
        assert!(calibrate(&grid(1.0, 1.0), &positions(), 3, 10, 1).is_err());
        let mut broken = positions();
        broken[5] = f32::NAN;
        assert!(calibrate(&grid(1.0, 1.0), &broken, 2, 10, 1).is_err());
    }

    #[test]
    fn the_published_sequence() {
        let mut state = 0;
        let found = [(); 3].map(|()| split_mix(&mut state));
        assert_eq!(found, [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f]);
    }

    #[test]
    fn samples_are_distinct_and_repeatable() {
        for (n, samples) in [(600, 200), (7, 5), (5, 5), (1, 200)] {
            let points = sample(n, samples, 3);
            assert_eq!(points.len(), samples.min(n));
            assert!(points.windows(2).all(|w| w[0] < w[1]));
            assert!(points.iter().all(|&p| (p as usize) < n));
            assert_eq!(points, sample(n, samples, 3));
        }
        assert_ne!(sample(600, 200, 3), sample(600, 200, 4));
    }
}
