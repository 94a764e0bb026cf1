//! A Gaussian process on the unit box: what the evaluations so far say about all other points.

use relaxcrf::rng::Rng;

use super::point::{COUNT, Point};

/// Length scales that are tried first, the same for all axes.
const SCALES: [f64; 5] = [0.15, 0.25, 0.4, 0.7, 1.2];
/// Longest and shortest scale of an axis.
const SCALE_RANGE: (f64, f64) = (0.08, 4.0);
/// Variances of the noise that are tried, for scores of variance one.
const NOISES: [f64; 3] = [1e-4, 1e-2, 0.1];
/// Points at which the expected improvement is evaluated, before the best one is moved.
const CANDIDATES: usize = 1500;
/// Steps that move the best candidate.
const MOVES: usize = 200;

/// Scores at points, smoothed by a Matérn covariance whose scales maximise the likelihood.
pub struct Process {
    points: Vec<Point>,
    scales: Point,
    /// Lower triangle of the covariance's factor, row-major.
    factor: Vec<f64>,
    /// Inverse covariance times scores.
    weights: Vec<f64>,
    /// The best score, in units of their spread.
    best: f64,
}

impl Process {
    /// Fits a process to points with their scores; there must be at least one.
    pub fn new(done: &[(Point, f64)]) -> Self {
        let count = done.len() as f64;
        let mean = done.iter().map(|d| d.1).sum::<f64>() / count;
        // In units of their spread: differences in accuracy are small.
        let deviation = (done.iter().map(|d| (d.1 - mean).powi(2)).sum::<f64>() / count).sqrt().max(1e-9);
        let points: Vec<Point> = done.iter().map(|d| d.0).collect();
        let scores: Vec<f64> = done.iter().map(|d| (d.1 - mean) / deviation).collect();
        let likelihood = |scales: &Point, noise: f64| {
            fit(&points, &scores, scales, noise).map_or(f64::NEG_INFINITY, |f| f.2)
        };
        let mut best = (f64::NEG_INFINITY, [SCALES[2]; COUNT], NOISES[1]);
        for scale in SCALES {
            for noise in NOISES {
                let found = likelihood(&[scale; COUNT], noise);
                if found > best.0 {
                    best = (found, [scale; COUNT], noise);
                }
            }
        }
        // Axes that do not matter get long scales.
        for _ in 0..2 {
            for axis in 0..COUNT {
                for factor in [0.5, 2.0] {
                    let mut scales = best.1;
                    scales[axis] = (scales[axis] * factor).clamp(SCALE_RANGE.0, SCALE_RANGE.1);
                    let found = likelihood(&scales, best.2);
                    if found > best.0 {
                        best = (found, scales, best.2);
                    }
                }
            }
        }
        let (_, scales, noise) = best;
        // Without a factor every point looks like the mean; that cannot happen with noise on the diagonal.
        let (factor, weights, _) = fit(&points, &scores, &scales, noise).unwrap_or_default();
        let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { points, scales, factor, weights, best }
    }

    /// Mean and standard deviation at a point, in units of the scores' spread.
    fn predict(&self, at: &Point) -> (f64, f64) {
        let near: Vec<f64> = self.points.iter().map(|p| covariance(p, at, &self.scales)).collect();
        let mean = near.iter().zip(&self.weights).map(|(k, w)| k * w).sum();
        let explained: f64 = forward(&self.factor, &near).iter().map(|v| v * v).sum();
        (mean, (1.0 - explained).max(1e-12).sqrt())
    }

    /// How much better than the best score so far the score at a point is expected to be, in standard deviations of scores.
    fn expected_improvement(&self, at: &Point) -> f64 {
        let (mean, deviation) = self.predict(at);
        let z = (mean - self.best) / deviation;
        deviation * (z * normal_cdf(z) + (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt())
    }

    /// The point with the largest expected improvement that a search of fixed length finds.
    pub fn suggest(&self, rng: &mut Rng) -> Point {
        let mut best: (f64, Point) = (f64::NEG_INFINITY, [0.5; COUNT]);
        let mut consider = |point: Point| {
            let value = self.expected_improvement(&point);
            if value > best.0 {
                best = (value, point);
            }
            best.1
        };
        let mut at = [0.5; COUNT];
        for _ in 0..CANDIDATES {
            at = consider(std::array::from_fn(|_| rng.next_f64()));
        }
        for k in 0..MOVES {
            let step = 0.2 * 0.98f64.powi(k as i32);
            at = consider(at.map(|v| (v + step * rng.normal()).clamp(0.0, 1.0)));
        }
        at
    }
}

/// Matérn covariance (5/2) of two points.
fn covariance(a: &Point, b: &Point, scales: &Point) -> f64 {
    let squared: f64 = (0..COUNT).map(|k| ((a[k] - b[k]) / scales[k]).powi(2)).sum();
    let r = (5.0 * squared).sqrt();
    (1.0 + r + r * r / 3.0) * (-r).exp()
}

/// Factor of the covariance, weights and log likelihood; `None` if the covariance is not positive definite.
fn fit(points: &[Point], scores: &[f64], scales: &Point, noise: f64) -> Option<(Vec<f64>, Vec<f64>, f64)> {
    let n = points.len();
    let mut factor = vec![0.0; n * n];
    for i in 0..n {
        for j in 0..=i {
            let own = if i == j { 1.0 + noise } else { covariance(&points[i], &points[j], scales) };
            let sum: f64 = (0..j).map(|k| factor[i * n + k] * factor[j * n + k]).sum();
            factor[i * n + j] = if i == j {
                let rest = own - sum;
                if rest <= 0.0 {
                    return None;
                }
                rest.sqrt()
            } else {
                (own - sum) / factor[j * n + j]
            };
        }
    }
    let half = forward(&factor, scores);
    let log_determinant: f64 = (0..n).map(|i| factor[i * n + i].ln()).sum();
    let likelihood = -0.5 * half.iter().map(|v| v * v).sum::<f64>() - log_determinant;
    let mut weights = half;
    for i in (0..n).rev() {
        let sum: f64 = (i + 1..n).map(|k| factor[k * n + i] * weights[k]).sum();
        weights[i] = (weights[i] - sum) / factor[i * n + i];
    }
    Some((factor, weights, likelihood))
}

/// Solves with the lower triangle.
fn forward(factor: &[f64], right: &[f64]) -> Vec<f64> {
    let n = right.len();
    let mut out: Vec<f64> = Vec::with_capacity(n);
    if factor.is_empty() {
        return vec![0.0; n];
    }
    for i in 0..n {
        let sum: f64 = (0..i).map(|k| factor[i * n + k] * out[k]).sum();
        out.push((right[i] - sum) / factor[i * n + i]);
    }
    out
}

/// The standard normal distribution function, to 1e-7 (Abramowitz and Stegun 26.2.17).
fn normal_cdf(z: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * z.abs());
    let series = t
        * (0.319_381_530
            + t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
    let tail = (-0.5 * z * z).exp() / std::f64::consts::TAU.sqrt() * series;
    if z >= 0.0 { 1.0 - tail } else { tail }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores() -> Vec<(Point, f64)> {
        let mut rng = Rng::new(3);
        (0..25)
            .map(|_| {
                let p: Point = std::array::from_fn(|_| rng.next_f64());
                (p, 0.7 - 0.1 * ((p[0] - 0.3).powi(2) + (p[1] - 0.6).powi(2)))
            })
            .collect()
    }

    #[test]
    fn process_passes_near_the_scores_and_is_uncertain_elsewhere() {
        let done = scores();
        let process = Process::new(&done);
        let mean = done.iter().map(|d| d.1).sum::<f64>() / 25.0;
        let spread = (done.iter().map(|d| (d.1 - mean).powi(2)).sum::<f64>() / 25.0).sqrt();
        for (point, score) in &done {
            let (found, deviation) = process.predict(point);
            assert!(
                (found - (score - mean) / spread).abs() < 0.3 && deviation < 0.4,
                "{found} {score} {deviation}"
            );
        }
        // Nothing is known two boxes away.
        assert!(process.predict(&[3.0; COUNT]).1 > 2.0 * process.predict(&done[0].0).1);
    }

    #[test]
    fn suggestion_is_near_the_top_of_a_hill() {
        let process = Process::new(&scores());
        let point = process.suggest(&mut Rng::new(1));
        assert!((point[0] - 0.3).abs() < 0.25 && (point[1] - 0.6).abs() < 0.25, "{point:?}");
        assert_eq!(process.suggest(&mut Rng::new(1)), point);
    }

    #[test]
    fn normal_distribution_function_has_its_known_values() {
        for (z, expected) in [(0.0, 0.5), (1.0, 0.841_344_75), (-1.96, 0.024_997_9), (8.0, 1.0)] {
            assert!((normal_cdf(z) - expected).abs() < 1e-6);
        }
    }

    #[test]
    fn equal_scores_are_no_failure() {
        let process = Process::new(&[([0.5; COUNT], 0.6), ([0.5; COUNT], 0.6)]);
        assert!(process.suggest(&mut Rng::new(1)).iter().all(|v| (0.0..=1.0).contains(v)));
    }
}
