//! Products of label costs with rows of numbers, `out_i = Σ_j μ(i, j) row_j`: the innermost loop of most methods.
//!
//! Costs that depend on `|i - j|` only take time proportional to the number of labels; other costs take a product with a
//! matrix whose columns are padded to whole vectors. Everything is plain code to be inlined into loops that are compiled
//! for the widest vectors of the CPU; there are no fused operations, so the bits do not depend on the CPU.

use relaxcrf_filter::reduce::row_sum;
use relaxcrf_filter::simd::LANES;

/// Labels up to which the padded row of a banded product is kept on the stack.
const STACK_LABELS: usize = 128;

/// Largest distance below the truncation that a banded product is used for: beyond, sums that slide along the row take fewer
/// operations.
const MAX_BAND: usize = 16;

/// Groups of lanes of the result that a matrix product keeps in registers at a time.
const GROUPS: usize = 4;

/// How to multiply, chosen once for the costs.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Product {
    /// 1 for different labels.
    Potts,
    /// `(w_i + w_j) / 2` for different labels.
    PerLabel(Vec<f32>),
    /// `level` less `taps[|i - j|]`, and `level` beyond the taps.
    Band { level: f32, taps: Vec<f32> },
    /// `|i - j|` or its square up to the distance `reach`, and `level` beyond.
    Line { squared: bool, level: f64, reach: usize },
    /// Any entries; `stride` from one row to the next.
    Dense { rows: Vec<f32>, stride: usize },
}

impl Product {
    /// For costs `min(|i - j|^power, truncation)` with a power of 1 or 2.
    pub fn on_a_line(labels: usize, squared: bool, truncation: f32) -> Self {
        let cost = |d: usize| if squared { (d * d) as f32 } else { d as f32 };
        let longest = labels.saturating_sub(1);
        let reach = (0..=longest).take_while(|&d| cost(d) < truncation).last().unwrap_or(0);
        if reach < longest && reach <= MAX_BAND {
            let taps = (0..=reach).map(|d| truncation - cost(d)).collect();
            return Self::Band { level: truncation, taps };
        }
        let level = if reach < longest { f64::from(truncation) } else { 0.0 };
        Self::Line { squared, level, reach }
    }

    /// For any symmetric matrix, row-major.
    pub fn dense(labels: usize, entries: &[f32]) -> Self {
        let stride = labels.next_multiple_of(LANES);
        let mut rows = vec![0.0; labels * stride];
        for (to, from) in rows.chunks_exact_mut(stride).zip(entries.chunks_exact(labels)) {
            to[..labels].copy_from_slice(from);
        }
        Self::Dense { rows, stride }
    }

    /// `out = μ row`.
    #[inline(always)]
    pub fn multiply(&self, row: &[f32], out: &mut [f32]) {
        match self {
            Self::Potts => {
                let sum = row_sum([row], |[v]| v);
                for (o, &v) in out.iter_mut().zip(row) {
                    *o = sum - v;
                }
            }
            Self::PerLabel(w) => {
                let sum = row_sum([row], |[v]| v);
                let weighted = row_sum([row, w], |[v, w]| v * w);
                for ((o, &v), &w) in out.iter_mut().zip(row).zip(w) {
                    *o = 0.5 * (w * sum + weighted) - w * v;
                }
            }
            Self::Band { level, taps } => banded(*level, taps, row, out),
            Self::Line { squared: false, level, reach } => linear(*level, *reach, row, out),
            Self::Line { squared: true, level, reach } => quadratic(*level, *reach, row, out),
            Self::Dense { rows, stride } => dense(rows, *stride, row, out),
        }
    }
}

#[inline(always)]
fn banded(level: f32, taps: &[f32], row: &[f32], out: &mut [f32]) {
    const STACK: usize = STACK_LABELS + LANES + 2 * MAX_BAND;
    let size = row.len() + LANES + 2 * MAX_BAND;
    if size <= STACK {
        convolve(level, taps, row, &mut [0.0; STACK], out);
    } else {
        convolve(level, taps, row, &mut vec![0.0; size], out);
    }
}

/// [`Product::Band`] with a buffer of zeros, [`MAX_BAND`] longer than the row on both sides.
#[inline(always)]
fn convolve(level: f32, taps: &[f32], row: &[f32], padded: &mut [f32], out: &mut [f32]) {
    let labels = row.len();
    padded[MAX_BAND..MAX_BAND + labels].copy_from_slice(row);
    let all = level * row_sum([row], |[v]| v);
    let Some((&own, taps)) = taps.split_first() else { return out.fill(all) };
    for (g, out) in out.chunks_mut(LANES).enumerate() {
        let at = MAX_BAND + g * LANES;
        let mut sums = [all; LANES];
        let here = &padded[at..at + LANES];
        for k in 0..LANES {
            sums[k] -= own * here[k];
        }
        for (d, &tap) in taps.iter().enumerate() {
            let (before, behind) = (&padded[at - d - 1..][..LANES], &padded[at + d + 1..][..LANES]);
            for k in 0..LANES {
                sums[k] -= tap * (before[k] + behind[k]);
            }
        }
        out.copy_from_slice(&sums[..out.len()]);
    }
}

/// `min(|i - j|, level)` by sums over the `reach` labels on both sides of i, which slide along.
#[inline(always)]
fn linear(level: f64, reach: usize, row: &[f32], out: &mut [f32]) {
    let at = |j: usize| row.get(j).map_or(0.0, |&v| f64::from(v));
    let total: f64 = row.iter().map(|&v| f64::from(v)).sum();
    // Sums over the labels before i and behind it, plain and with their distance.
    let [mut before, mut before_far] = [0.0f64; 2];
    let mut behind: f64 = (1..=reach).map(at).sum();
    let mut behind_far: f64 = (1..=reach).map(|d| d as f64 * at(d)).sum();
    let far = reach as f64;
    for (i, o) in out.iter_mut().enumerate() {
        let own = at(i);
        let near = before + behind + own;
        *o = (before_far + behind_far + level * (total - near)) as f32;
        let (leaving, entering) = (i.checked_sub(reach).map_or(0.0, &at), at(i + 1 + reach));
        before += own - leaving;
        before_far += before - far * leaving;
        behind_far += far * entering - behind;
        behind += entering - at(i + 1);
    }
}

/// `min((i - j)², level)` by moments of the labels within `reach` of i, which slide along.
#[inline(always)]
fn quadratic(level: f64, reach: usize, row: &[f32], out: &mut [f32]) {
    let at = |j: usize| row.get(j).map_or(0.0, |&v| f64::from(v));
    let total: f64 = row.iter().map(|&v| f64::from(v)).sum();
    let moments = |j: usize| {
        let (v, x) = (at(j), j as f64);
        [v, x * v, x * x * v]
    };
    let mut sums = [0.0f64; 3];
    for j in 0..=reach.min(row.len().saturating_sub(1)) {
        let m = moments(j);
        for k in 0..3 {
            sums[k] += m[k];
        }
    }
    for (i, o) in out.iter_mut().enumerate() {
        let x = i as f64;
        *o = (sums[2] - 2.0 * x * sums[1] + x * x * sums[0] + level * (total - sums[0])) as f32;
        let entering = moments(i + reach + 1);
        let leaving = i.checked_sub(reach).map_or([0.0; 3], moments);
        for k in 0..3 {
            sums[k] += entering[k] - leaving[k];
        }
    }
}

#[inline(always)]
fn dense(rows: &[f32], stride: usize, row: &[f32], out: &mut [f32]) {
    let mut at = 0;
    while at < stride {
        let left = (stride - at) / LANES;
        let done = match left {
            GROUPS.. => columns::<GROUPS>(rows, stride, row, at, out),
            3 => columns::<3>(rows, stride, row, at, out),
            2 => columns::<2>(rows, stride, row, at, out),
            _ => columns::<1>(rows, stride, row, at, out),
        };
        at += done;
    }
}

/// The entries of the product from `at` on, in N groups of lanes; returns how many.
#[inline(always)]
fn columns<const N: usize>(rows: &[f32], stride: usize, row: &[f32], at: usize, out: &mut [f32]) -> usize {
    let mut sums = [[0.0f32; LANES]; N];
    for (costs, &v) in rows.chunks_exact(stride).zip(row) {
        // Labels that nobody around believes in.
        if v == 0.0 {
            continue;
        }
        let (costs, _) = costs[at..at + N * LANES].as_chunks::<LANES>();
        for g in 0..N {
            for k in 0..LANES {
                sums[g][k] += v * costs[g][k];
            }
        }
    }
    let end = out.len().min(at + N * LANES);
    out[at..end].copy_from_slice(&sums.as_flattened()[..end - at]);
    N * LANES
}
