//! Where to look next: a box of five parameters on logarithmic scales, and ways to choose points in it.
//!
//! Every choice depends on nothing but the evaluations so far and the seed, so a search that was killed goes on as
//! if nothing had happened.

use anyhow::{Result, bail};
use relaxcrf::presets::Preset;
use relaxcrf::rng::Rng;

use super::point::{COUNT, Point};
use super::process::Process;
use crate::specs::{PARAMETERS, RangeSpec, SearchKind};

/// What the published search seems to have used (many of its results lie on these bounds), and wider where unaries
/// are sharper than in 2010: weights down to 0.1, positions up to 100, colours up to 30.
const USUAL: [(f64, f64); COUNT] = [(1.0, 10.0), (0.1, 100.0), (10.0, 100.0), (1.0, 30.0), (0.1, 100.0)];

/// The range of every parameter.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchBox {
    ranges: [(f64, f64); COUNT],
}

impl SearchBox {
    /// The usual ranges with those given in their place.
    pub fn new(given: &[RangeSpec]) -> Result<Self> {
        let mut ranges = USUAL;
        let mut seen = [false; COUNT];
        for range in given {
            if std::mem::replace(&mut seen[range.parameter], true) {
                bail!("--range {} is given twice", PARAMETERS[range.parameter]);
            }
            ranges[range.parameter] = (range.low, range.high);
        }
        Ok(Self { ranges })
    }

    /// The parameters at shares between 0 and 1 of the logarithmic ranges.
    pub fn at(&self, shares: Point) -> Point {
        std::array::from_fn(|k| {
            let (low, high) = self.ranges[k];
            let value = low * (high / low).powf(shares[k].clamp(0.0, 1.0));
            // Five digits are more than the data can tell apart, and make flags that can be typed.
            format!("{value:.4e}").parse::<f64>().unwrap_or(value).clamp(low, high)
        })
    }

    /// The way back; outside of the box, the nearest point in it.
    pub fn shares(&self, point: &Point) -> Point {
        std::array::from_fn(|k| {
            let (low, high) = self.ranges[k];
            if high > low { ((point[k] / low).ln() / (high / low).ln()).clamp(0.0, 1.0) } else { 0.5 }
        })
    }

    /// Whether a point lies in the box.
    pub fn contains(&self, point: &Point) -> bool {
        point.iter().zip(self.ranges).all(|(&v, (low, high))| (low..=high).contains(&v))
    }

    /// The ranges as they are typed.
    pub fn describe(&self) -> String {
        let one = |(name, (low, high)): (&&str, &(f64, f64))| format!("{name}={low}:{high}");
        PARAMETERS.iter().zip(&self.ranges).map(one).collect::<Vec<_>>().join(" ")
    }
}

/// The parameters of a preset.
pub fn of_preset(p: &Preset) -> Point {
    let (sigma_xy, sigma_rgb, weight) = p.bilateral;
    // Through text: 0.1f32 is 0.1, not 0.10000000149.
    [p.gaussian.0, p.gaussian.1, sigma_xy, sigma_rgb, weight]
        .map(|v| v.to_string().parse().unwrap_or_else(|_| f64::from(v)))
}

/// The next point: `spread` points evenly over the box, then by `kind`. `done` are the points so far, as shares, with
/// their scores; `index` counts the points after the given starts.
pub fn next(kind: SearchKind, index: usize, spread: usize, seed: u64, done: &[(Point, f64)]) -> Point {
    // The Gaussian process needs a few points to learn from, whatever the user says.
    if index < spread || done.len() < 2 {
        return evenly(index, seed);
    }
    match kind {
        SearchKind::Random => near_the_best(index, spread, seed, done),
        SearchKind::Gp => gaussian_process(index, seed, done),
    }
}

/// The `index`-th point of a sequence that fills the box evenly, shifted by the seed: the additive recurrence with
/// powers of the root of x^6 = x + 1, the golden ratio of five dimensions.
fn evenly(index: usize, seed: u64) -> Point {
    const ROOT: f64 = 1.134_724_138_401_519_5;
    let mut shift = Rng::stream(seed, 0);
    std::array::from_fn(|k| (shift.next_f64() + (index + 1) as f64 * ROOT.powi(-(k as i32 + 1))).fract())
}

/// A normal step from the best point, shorter and shorter; one in four points is anywhere.
fn near_the_best(index: usize, spread: usize, seed: u64, done: &[(Point, f64)]) -> Point {
    let mut rng = Rng::stream(seed, index as u64 + 1);
    if rng.below(4) == 0 {
        return evenly(index, seed);
    }
    let best = best_of(done).unwrap_or([0.5; COUNT]);
    let step = (0.25 * 0.97f64.powi((index - spread).min(1000) as i32)).max(0.02);
    best.map(|v| {
        let moved = v + step * rng.normal();
        // Reflected at the walls, so that they attract nothing.
        (1.0 - (moved.rem_euclid(2.0) - 1.0).abs()).clamp(0.0, 1.0)
    })
}

fn best_of(done: &[(Point, f64)]) -> Option<Point> {
    done.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(point, _)| *point)
}

/// Expected improvement under a Gaussian process fitted to all evaluations.
fn gaussian_process(index: usize, seed: u64, done: &[(Point, f64)]) -> Point {
    let point = Process::new(done).suggest(&mut Rng::stream(seed, index as u64 + 1));
    let known = done.iter().any(|(p, _)| p.iter().zip(&point).all(|(a, b)| (a - b).abs() < 1e-6));
    // A process that is sure of its best point learns nothing from asking there again.
    if known { near_the_best(index, 0, seed, done) } else { point }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(kind: SearchKind, evaluations: usize, score: impl Fn(&Point) -> f64) -> (Point, f64) {
        let mut done: Vec<(Point, f64)> = Vec::new();
        for index in 0..evaluations {
            let point = next(kind, index, 10, 7, &done);
            assert!(point.iter().all(|v| (0.0..=1.0).contains(v)), "{point:?}");
            done.push((point, score(&point)));
        }
        done.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap()
    }

    /// A hill with its top at 0.3, 0.6, 0.3, ...
    fn hill(p: &Point) -> f64 {
        p.iter().enumerate().map(|(k, v)| -(v - if k % 2 == 0 { 0.3 } else { 0.6 }).powi(2)).sum()
    }

    #[test]
    fn even_points_are_spread_and_repeatable() {
        let points: Vec<Point> = (0..64).map(|k| evenly(k, 1)).collect();
        for k in 0..COUNT {
            for quarter in 0..4 {
                let inside = points.iter().filter(|p| (4.0 * p[k]) as usize == quarter).count();
                assert!((12..=20).contains(&inside), "{inside} of 64 in quarter {quarter} of axis {k}");
            }
        }
        assert_eq!(evenly(5, 1), points[5]);
        assert_ne!(evenly(5, 2), points[5]);
    }

    #[test]
    fn random_search_climbs() {
        let (_, spread) = search(SearchKind::Random, 10, hill);
        let (_, after) = search(SearchKind::Random, 60, hill);
        assert!(after > spread && after > -0.05, "{spread} -> {after}");
    }

    #[test]
    fn the_gaussian_process_climbs_faster_and_repeats_itself() {
        let (point, best) = search(SearchKind::Gp, 24, hill);
        let (_, random) = search(SearchKind::Random, 24, hill);
        assert!(best > random && best > -0.02, "{best} against {random}");
        assert_eq!(search(SearchKind::Gp, 24, hill), (point, best));
    }

    #[test]
    fn boxes_go_there_and_back() {
        let ranges = ["sigma-rgb=2:8", "sigma-xy=50:50"].map(|r| r.parse().unwrap());
        let bounds = SearchBox::new(&ranges).unwrap();
        assert_eq!(bounds.at([0.0; COUNT]), [1.0, 0.1, 50.0, 2.0, 0.1]);
        assert_eq!(bounds.at([1.0; COUNT]), [10.0, 100.0, 50.0, 8.0, 100.0]);
        let middle = bounds.at([0.5; COUNT]);
        assert!((middle[3] - 4.0).abs() < 1e-3 && bounds.contains(&middle));
        for (there, back) in bounds.shares(&middle).into_iter().zip([0.5; COUNT]) {
            assert!((there - back).abs() < 1e-3);
        }
        assert!(!bounds.contains(&[1.0, 1.0, 49.0, 4.0, 1.0]));
        assert!(SearchBox::new(&[ranges[0], ranges[0]]).unwrap_err().to_string().contains("sigma-rgb"));
        assert!(bounds.describe().contains("sigma-rgb=2:8"));
    }
}
