//! Label costs as sums of cuts.

/// A set of labels and what it costs when exactly one of two pixels is in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Cut {
    /// Membership of each label.
    pub inside: Vec<bool>,
    /// The cost.
    pub weight: f32,
}

/// One cut around every label.
pub(super) fn singles(labels: usize, weight: impl Fn(usize) -> f32) -> Vec<Cut> {
    let single = |i: usize| (0..labels).map(|j| j == i).collect();
    (0..labels).map(|i| Cut { inside: single(i), weight: weight(i) }).collect()
}

/// `min(|i - j|, t)` from windows: a window of length t sliding over the line holds exactly one of i and j at
/// `2 min(|i - j|, t)` of its positions. A fractional truncation mixes the two neighbouring whole ones.
pub(super) fn linear(labels: usize, truncation: f32) -> Vec<Cut> {
    let longest = labels.saturating_sub(1) as f32;
    if truncation >= longest {
        let below = |k: usize| (0..labels).map(|i| i <= k).collect::<Vec<_>>();
        return (0..labels.saturating_sub(1)).map(|k| Cut { inside: below(k), weight: 1.0 }).collect();
    }
    let (whole, fraction) = (truncation.floor(), truncation.fract());
    let windows = |length: usize, weight: f32| {
        let ends = if weight > 0.0 && length > 0 { 1..labels + length } else { 0..0 };
        ends.map(move |end| Cut {
            inside: (0..labels).map(|i| i < end && i + length >= end).collect(),
            weight: 0.5 * weight,
        })
    };
    windows(whole as usize, 1.0 - fraction).chain(windows(whole as usize + 1, fraction)).collect()
}

/// What the cuts add up to for every pair of labels, row-major.
pub(super) fn sums(labels: usize, cuts: &[Cut]) -> Vec<f32> {
    let mut sums = vec![0.0f64; labels * labels];
    for cut in cuts {
        let (inside, outside): (Vec<usize>, Vec<usize>) = (0..labels).partition(|&i| cut.inside[i]);
        for &i in &inside {
            for &j in &outside {
                sums[i * labels + j] += f64::from(cut.weight);
                sums[j * labels + i] += f64::from(cut.weight);
            }
        }
    }
    sums.into_iter().map(|s| s as f32).collect()
}
