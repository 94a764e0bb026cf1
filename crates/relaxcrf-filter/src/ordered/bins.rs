//! Values sorted into bins, so that an order (or a smoothed one) over N points becomes a small table.

use super::Binned;

/// Most bins: their table of pairs has the square of this many entries.
pub const MAX_BINS: usize = 1024;

/// Cells of the histogram from which quantiles are read: values closer than 1/16384 may share a bin.
const CELLS: usize = 1 << 14;

/// A bin for each point and a value for each bin; bins are in the order of their values and none is empty
/// unless the bins were asked for by place ([`Bins::uniform`]).
#[derive(Debug, Clone, PartialEq)]
pub struct Bins {
    assignment: Vec<u16>,
    representatives: Vec<f32>,
}

impl Bins {
    /// At most `max` bins (at least 3, at most [`MAX_BINS`]) for values from 0 to 1.
    ///
    /// Zeros and ones have bins of their own, since projected beliefs are mostly that; the rest is shared out
    /// evenly. Where `max` bins are enough for all distinct values each gets its own; equal values are never
    /// parted. Values below 0 (and NaN) count as 0, values above 1 as 1. Takes O(N).
    pub fn adaptive(values: &[f32], max: usize) -> Self {
        let max = max.clamp(3, MAX_BINS);
        match distinct_values(values, max) {
            Some(distinct) => {
                let place = |&v: &f32| distinct.partition_point(|&d| d < unit(v)) as u16;
                Self { assignment: values.iter().map(place).collect(), representatives: distinct }
            }
            None => Self::quantiles(values, max),
        }
    }

    /// `count` bins (1 to [`MAX_BINS`]) round evenly spaced representatives from `low` to `high`, both included;
    /// each value goes to the nearest. With one bin, or an empty range, everything shares one.
    pub fn uniform(values: &[f32], low: f32, high: f32, count: usize) -> Self {
        let count = if high > low { count.clamp(1, MAX_BINS) } else { 1 };
        let last = (count - 1) as f32;
        // As casts saturate and send NaN to 0, no value can leave the range.
        let place = |&v: &f32| (((v - low) / (high - low) * last).round() as u16).min(last as u16);
        let spot = |h: usize| if h == 0 { low } else { low + (high - low) * (h as f32 / last) };
        Self {
            assignment: if count == 1 { vec![0; values.len()] } else { values.iter().map(place).collect() },
            representatives: (0..count).map(spot).collect(),
        }
    }

    /// The bin of each point.
    pub fn assignment(&self) -> &[u16] {
        &self.assignment
    }

    /// The value that stands for each bin, rising.
    pub fn representatives(&self) -> &[f32] {
        &self.representatives
    }

    /// Number of bins.
    pub fn count(&self) -> usize {
        self.representatives.len()
    }

    /// The bins with a table of weights for pairs of them.
    pub fn with_table<'a>(&'a self, table: &'a [f32]) -> Binned<'a> {
        Binned { bins: &self.assignment, count: self.count(), table }
    }

    /// Own bins for 0 and 1, quantiles between: there are more than `max` distinct values.
    fn quantiles(values: &[f32], max: usize) -> Self {
        let mut counts = vec![0_u32; CELLS];
        let mut sums = vec![0.0_f64; CELLS];
        let (mut zeros, mut ones) = (0_usize, 0_usize);
        for v in values.iter().map(|&v| unit(v)) {
            if v == 0.0 {
                zeros += 1;
            } else if v == 1.0 {
                ones += 1;
            } else {
                counts[cell(v)] += 1;
                sums[cell(v)] += f64::from(v);
            }
        }
        let mut representatives = Vec::with_capacity(max);
        if zeros > 0 {
            representatives.push(0.0);
        }
        let mut bins_left = max - usize::from(zeros > 0) - usize::from(ones > 0);
        let mut points_left = values.len() - zeros - ones;
        let mut bin_of = vec![0_u16; CELLS];
        let (mut points, mut sum) = (0, 0.0);
        for (c, (&count, &total)) in counts.iter().zip(&sums).enumerate() {
            bin_of[c] = representatives.len() as u16;
            points += count as usize;
            sum += total;
            // The last bin never closes early: its share is all that is left.
            if points > 0 && points >= points_left.div_ceil(bins_left.max(1)) {
                representatives.push((sum / points as f64) as f32);
                points_left -= points;
                bins_left = bins_left.saturating_sub(1);
                (points, sum) = (0, 0.0);
            }
        }
        let top = representatives.len() as u16;
        if ones > 0 {
            representatives.push(1.0);
        }
        let place = |&v: &f32| match unit(v) {
            0.0 => 0,
            1.0 => top,
            v => bin_of[cell(v)],
        };
        Self { assignment: values.iter().map(place).collect(), representatives }
    }
}

/// The value as it is binned: from 0 to 1, NaN as 0.
fn unit(v: f32) -> f32 {
    if v > 0.0 { v.min(1.0) } else { 0.0 }
}

fn cell(v: f32) -> usize {
    ((v * CELLS as f32) as usize).min(CELLS - 1)
}

/// The distinct values in rising order, unless there are more than `max`.
fn distinct_values(values: &[f32], max: usize) -> Option<Vec<f32>> {
    let mut distinct: Vec<f32> = Vec::with_capacity(max);
    let mut previous = f32::NAN;
    for v in values.iter().map(|&v| unit(v)) {
        if v == previous {
            continue;
        }
        previous = v;
        let at = distinct.partition_point(|&d| d < v);
        if distinct.get(at) != Some(&v) {
            if distinct.len() == max {
                return None;
            }
            distinct.insert(at, v);
        }
    }
    Some(distinct)
}

/// The table of the ordered filter: +1 where the other bin is lower, -1 where it is higher.
pub fn sign_table(count: usize) -> Vec<f32> {
    let sign = |h: usize, other: usize| f32::from(u8::from(other < h)) - f32::from(u8::from(other > h));
    (0..count * count).map(|i| sign(i / count, i % count)).collect()
}

/// The table of the smoothed LP: `clip((t_h - t_h') / delta, -1, 1)`; the signs themselves for `delta <= 0`.
pub fn huber_table(representatives: &[f32], delta: f32) -> Vec<f32> {
    let slope = |t: f32, other: f32| {
        if t == other {
            0.0
        } else if delta > 0.0 {
            ((t - other) / delta).clamp(-1.0, 1.0)
        } else {
            (t - other).signum()
        }
    };
    representatives.iter().flat_map(|&t| representatives.iter().map(move |&other| slope(t, other))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zeros_and_ones_stand_apart() {
        let kinds = |i: usize| [0.0, 1.0, 1e-6, 1.0 - 1e-6, i as f32 / 3000.0][i % 5];
        let values: Vec<f32> = (0..3000).map(kinds).collect();
        let bins = Bins::adaptive(&values, 8);
        assert_eq!((bins.representatives()[0], *bins.representatives().last().unwrap()), (0.0, 1.0));
        for (&v, &bin) in values.iter().zip(bins.assignment()) {
            assert_eq!(v == 0.0, bin == 0);
            assert_eq!(v == 1.0, usize::from(bin) == bins.count() - 1);
        }
    }

    #[test]
    fn quantiles_share_out_evenly() {
        let values: Vec<f32> = (1..10_001).map(|i| (i as f32 / 10_001.0).powi(3)).collect();
        let bins = Bins::adaptive(&values, 20);
        assert_eq!(bins.count(), 20);
        let mut counts = [0; 20];
        bins.assignment().iter().for_each(|&b| counts[usize::from(b)] += 1);
        // The cube crowds the lowest cell of the histogram; every other bin has its even share.
        assert!(counts.iter().all(|&c| (400..=620).contains(&c)), "{counts:?}");
    }

    #[test]
    fn uniform_bins_hold_both_ends() {
        let bins = Bins::uniform(&[0.0, 0.12, 0.13, 0.5, 1.0, 7.0, -2.0, f32::NAN], 0.0, 1.0, 5);
        assert_eq!(bins.representatives(), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(bins.assignment(), [0, 0, 1, 2, 4, 4, 0, 0]);
        let bins = Bins::uniform(&[-3.0, -1.6, 0.0, 4.0, 5.0, 5.1], -3.0, 5.0, 9);
        assert_eq!(bins.representatives(), [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(bins.assignment(), [0, 1, 3, 7, 8, 8]);
        assert_eq!(Bins::uniform(&[0.3, 0.9], 1.0, 1.0, 9).assignment(), [0, 0]);
        assert_eq!(Bins::uniform(&[0.3, 0.9], 0.0, 1.0, 1).representatives(), [0.0]);
    }

    #[test]
    fn empty_and_odd_values_are_taken() {
        assert_eq!(Bins::adaptive(&[], 16).count(), 0);
        let bins = Bins::adaptive(&[f32::NAN, -3.0, -0.0, 2.0, f32::INFINITY, 1.0, 0.5], 0);
        assert_eq!(bins.representatives(), [0.0, 0.5, 1.0]);
        assert_eq!(bins.assignment(), [0, 0, 0, 2, 2, 2, 1]);
    }

    #[test]
    fn tables_are_antisymmetric() {
        assert_eq!(sign_table(3), [0.0, -1.0, -1.0, 1.0, 0.0, -1.0, 1.0, 1.0, 0.0]);
        let table = huber_table(&[0.0, 0.25, 1.0], 0.5);
        assert_eq!(table, [0.0, -0.5, -1.0, 0.5, 0.0, -1.0, 1.0, 1.0, 0.0]);
        assert_eq!(huber_table(&[0.0, 0.1, 0.7], 0.0), sign_table(3));
    }

    proptest! {
        #[test]
        fn bins_keep_the_order(values in prop::collection::vec(-0.2_f32..1.2, 0..400), max in 0_usize..40) {
            let bins = Bins::adaptive(&values, max);
            prop_assert!(bins.count() <= max.max(3));
            prop_assert!(bins.representatives().windows(2).all(|w| w[0] < w[1]));
            let mut used = vec![false; bins.count()];
            for &bin in bins.assignment() {
                used[usize::from(bin)] = true;
            }
            prop_assert!(used.iter().all(|&u| u));
            for (i, &v) in values.iter().enumerate() {
                for (j, &w) in values.iter().enumerate() {
                    if v <= w {
                        prop_assert!(bins.assignment()[i] <= bins.assignment()[j]);
                    }
                }
            }
        }
    }
}
