//! From sums of costs to disparities: the best of each pixel in both views, and where they agree.

use rayon::prelude::*;

use crate::volume::Volume;

/// The sums over paths of all candidates.
#[derive(Debug, Clone)]
pub(crate) struct Sums {
    pub volume: Volume,
    pub values: Vec<i16>,
}

impl Sums {
    /// The sums of a pixel's candidates, from `volume.first(a)` on.
    pub fn row(&self, a: usize) -> &[i16] {
        &self.values[a * self.volume.stride..][..self.volume.candidates(a)]
    }

    /// The sum of one disparity, if it is a candidate.
    fn at(&self, a: usize, disparity: usize) -> Option<i16> {
        let k = disparity.checked_sub(self.volume.first(a))?;
        self.row(a).get(k).copied()
    }

    /// The best disparity of every left pixel.
    pub fn best_left(&self) -> Vec<u16> {
        let one = |a: usize| {
            let row = self.row(a);
            let least = row.iter().copied().fold(i16::MAX, i16::min);
            let k = row.iter().position(|&v| v == least).unwrap_or(0);
            (self.volume.first(a) + k) as u16
        };
        (0..self.volume.width * self.volume.height).into_par_iter().map(one).collect()
    }

    /// The best disparity of every right pixel x: that of the left pixels x + d with their disparities d.
    pub fn best_right(&self) -> Vec<u16> {
        let width = self.volume.width;
        let mut best = vec![0u16; width * self.volume.height];
        best.par_chunks_mut(width).enumerate().for_each_init(
            || vec![0i16; width],
            |least, (y, best)| {
                least.fill(i16::MAX);
                for x in 0..width {
                    let a = y * width + x;
                    let first = self.volume.first(a);
                    let inside = (x + 1).saturating_sub(first);
                    for (k, &v) in self.row(a).iter().take(inside).enumerate() {
                        let to = x - first - k;
                        if v < least[to] {
                            (least[to], best[to]) = (v, (first + k) as u16);
                        }
                    }
                }
            },
        );
        best
    }

    /// The minimum between the disparities, from a parabola through the sums at the best one and its neighbours.
    pub fn refine_left(&self, best: &[u16]) -> Vec<f32> {
        let one = |(a, &d): (usize, &u16)| {
            let d = usize::from(d);
            refined(d, |d| self.at(a, d))
        };
        best.par_iter().enumerate().map(one).collect()
    }

    /// The same for the right view.
    pub fn refine_right(&self, best: &[u16]) -> Vec<f32> {
        let width = self.volume.width;
        let one = |(a, &d): (usize, &u16)| {
            let x = a % width;
            refined(usize::from(d), |d| if x + d < width { self.at(a + d, d) } else { None })
        };
        best.par_iter().enumerate().map(one).collect()
    }

    /// The belief in each pixel's disparity, give or take one: the softmax of its sums.
    pub fn confidence(&self, best: &[u16]) -> Vec<f32> {
        /// Eight paths, each with one part in a hundred of its largest cost.
        const TEMPERATURE: f32 = 60.0;
        let one = |(a, &d): (usize, &u16)| {
            let row = self.row(a);
            let k = usize::from(d).saturating_sub(self.volume.first(a)).min(row.len() - 1);
            let least = row.iter().copied().fold(i16::MAX, i16::min);
            let weight = |v: &i16| (-f32::from(v - least) / TEMPERATURE).exp();
            let near = row[k.saturating_sub(1)..(k + 2).min(row.len())].iter().map(weight).sum::<f32>();
            near / row.iter().map(weight).sum::<f32>()
        };
        best.par_iter().enumerate().map(one).collect()
    }
}

/// Where the parabola through the sums round a disparity has its minimum, at most half a pixel away.
fn refined(d: usize, at: impl Fn(usize) -> Option<i16>) -> f32 {
    let around = [d.checked_sub(1).and_then(&at), at(d), at(d + 1)];
    let [Some(before), Some(middle), Some(after)] = around.map(|v| v.map(f32::from)) else { return d as f32 };
    let curvature = before + after - 2.0 * middle;
    if curvature <= 0.0 {
        return d as f32;
    }
    d as f32 + ((before - after) / (2.0 * curvature)).clamp(-0.5, 0.5)
}

/// Left pixels whose match chooses the same disparity, give or take one.
pub(crate) fn is_consistent_left(left: &[u16], right: &[u16], width: usize) -> Vec<bool> {
    let agrees = |(a, &d): (usize, &u16)| {
        let d = usize::from(d);
        d <= a % width && usize::from(right[a - d]).abs_diff(d) <= 1
    };
    left.iter().enumerate().map(agrees).collect()
}

/// The same for right pixels.
pub(crate) fn is_consistent_right(left: &[u16], right: &[u16], width: usize) -> Vec<bool> {
    let agrees = |(a, &d): (usize, &u16)| {
        let d = usize::from(d);
        a % width + d < width && usize::from(left[a + d]).abs_diff(d) <= 1
    };
    right.iter().enumerate().map(agrees).collect()
}

/// Distrusts connected surfaces of fewer than `least` pixels; neighbours within one disparity belong together.
pub(crate) fn distrust_specks(disparities: &[f32], trusted: &mut [bool], width: usize, least: usize) {
    let n = disparities.len();
    let mut seen = vec![false; n];
    let mut speck = Vec::new();
    for first in 0..n {
        if seen[first] || !trusted[first] {
            continue;
        }
        speck.clear();
        speck.push(first);
        seen[first] = true;
        let mut next = 0;
        while next < speck.len() {
            let a = speck[next];
            next += 1;
            let x = a % width;
            let around = [
                (x > 0).then(|| a - 1),
                (x + 1 < width).then_some(a + 1),
                a.checked_sub(width),
                Some(a + width).filter(|&b| b < n),
            ];
            for b in around.into_iter().flatten() {
                if !seen[b] && trusted[b] && (disparities[a] - disparities[b]).abs() <= 1.0 {
                    seen[b] = true;
                    speck.push(b);
                }
            }
        }
        if speck.len() < least {
            speck.iter().for_each(|&a| trusted[a] = false);
        }
    }
}
