//! Row operations on the simplex: softmax and the Euclidean projection.

use crate::rows;
use relaxcrf_filter::fused::Block;
use relaxcrf_filter::simd::{LANES, exp_or_nothing, fold, keep_rows};

/// Replaces logits by `exp(v_i) / Σ exp(v_j)`. A row of nothing but `-∞` becomes uniform.
pub fn softmax(row: &mut [f32]) {
    softmax_rows(row, row.len().max(1));
}

/// [`softmax`] of every row of `width` logits: faster than row by row, since the exponentials of all rows
/// are taken together.
pub fn softmax_rows(rows: &mut [f32], width: usize) {
    for row in rows.chunks_exact_mut(width) {
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        row.iter_mut().for_each(|v| *v -= max);
    }
    rows.iter_mut().for_each(|v| *v = exp_or_nothing(*v));
    for row in rows.chunks_exact_mut(width) {
        let scale = 1.0 / row.iter().sum::<f32>();
        row.iter_mut().for_each(|v| *v *= scale);
    }
}

/// The update of mean field for a block of points of a [`FusedPass`](relaxcrf_filter::FusedPass): messages become
/// beliefs, `softmax(messages - energies)`; `energies` are those of the block's points, `labels` each.
pub fn softmax_points(points: &mut Block, labels: usize, energies: Option<&[f32]>) {
    let rows = &mut points.rows[..points.count * points.stride];
    rows::softmax_rows(rows, points.stride, labels, 1.0, energies);
}

/// Copies the block's rows, without padding, to where they are kept: one row of `labels` per point.
pub fn keep_points(points: &Block, labels: usize, out: &mut [f32]) {
    keep_rows(points.rows, points.stride, labels, out);
}

/// The update of mean field for two labels, of which only the second is filtered: on entry `messages` hold what
/// speaks for it against the first, on return belief in it, `1 / (1 + exp(-message))`.
pub fn logistic(messages: &mut [f32]) {
    rows::logistic(messages);
}

/// Replaces a row by the nearest point of the simplex, exactly up to rounding.
///
/// The projection is `max(v_i - τ, 0)` with τ such that the sum is one. Starting from all labels, labels
/// below the current τ are dropped and τ recomputed until none is left to drop: τ only rises, so at most
/// as many rounds as labels, and two or three in practice.
///
/// A step that overflowed still has an answer: entries of `+∞` share all, `-∞` and NaN get nothing, and a row of
/// nothing else becomes uniform.
#[inline(always)]
pub fn project(row: &mut [f32]) {
    if !project_finite(row) {
        mend(row);
        project_finite(row);
    }
}

/// Gives entries of the largest value, which is infinite, the same chance, and the others none.
#[cold]
fn mend(row: &mut [f32]) {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().for_each(|v| *v = if *v == max || max < 0.0 { 0.0 } else { f32::NEG_INFINITY });
}

/// [`project`], unless the largest entry is infinite: then nothing is done.
#[inline(always)]
fn project_finite(row: &mut [f32]) -> bool {
    // Short rows stay in registers throughout.
    match row.len() {
        0..=8 => project_padded::<1>(row),
        9..=16 => project_padded::<2>(row),
        17..=24 => project_padded::<3>(row),
        25..=32 => project_padded::<4>(row),
        _ => {
            let (groups, rest) = row.as_chunks_mut();
            let mut last = [f32::NEG_INFINITY; LANES];
            last[..rest.len()].copy_from_slice(rest);
            let done = project_groups(groups, &mut last);
            rest.copy_from_slice(&last[..rest.len()]);
            done
        }
    }
}

/// [`project`] of at most `N` groups of lanes.
#[inline(always)]
fn project_padded<const N: usize>(row: &mut [f32]) -> bool {
    let mut groups = [[f32::NEG_INFINITY; LANES]; N];
    groups.as_flattened_mut()[..row.len()].copy_from_slice(row);
    let (last, first) = groups.split_last_mut().expect("N is at least one");
    let done = project_groups(first, last);
    row.copy_from_slice(&groups.as_flattened()[..row.len()]);
    done
}

/// [`project`] of a row in groups of lanes, padded with minus infinity.
#[inline(always)]
fn project_groups(groups: &mut [[f32; LANES]], last: &mut [f32; LANES]) -> bool {
    let higher = |a: f32, b: f32| if b > a { b } else { a };
    let add = |a: f32, b: f32| a + b;
    let mut most = [f32::NEG_INFINITY; LANES];
    for group in groups.iter().chain([&*last]) {
        for k in 0..LANES {
            most[k] = higher(most[k], group[k]);
        }
    }
    let max = fold(most, higher);
    if max.is_infinite() {
        return false;
    }
    // Relative to the largest entry everything below -1 is zero in the result, and τ >= -1: no overflow,
    // and no loss of precision when the entries are large.
    let mut tau = -1.0f32;
    let mut kept = f32::INFINITY;
    loop {
        let (mut sums, mut counts) = ([0.0f32; LANES], [0.0f32; LANES]);
        for group in groups.iter().chain([&*last]) {
            for k in 0..LANES {
                let t = group[k] - max;
                sums[k] += if t > tau { t } else { 0.0 };
                counts[k] += if t > tau { 1.0 } else { 0.0 };
            }
        }
        let (sum, count) = (fold(sums, add), fold(counts, add));
        if count == 0.0 || count >= kept {
            break;
        }
        if count == 1.0 {
            // One label takes all, as at most pixels in the end.
            for v in groups.iter_mut().chain([last]).flatten() {
                *v = if *v == max { 1.0 } else { 0.0 };
            }
            return true;
        }
        kept = count;
        // Rounding must not let τ fall again: entries once dropped would come back.
        tau = higher(tau, (sum - 1.0) / count);
    }
    let mut totals = [0.0f32; LANES];
    for group in groups.iter_mut().chain([&mut *last]) {
        for k in 0..LANES {
            let t = group[k] - max - tau;
            group[k] = if t > 0.0 { t } else { 0.0 };
            totals[k] += group[k];
        }
    }
    // τ is rounded, and the error counts once for each entry kept. Shifting them all by their share of it spreads it
    // as thin as it came; scaling would put nearly all of it on the largest.
    let error = (fold(totals, add) - 1.0) / kept;
    for group in groups.iter_mut().chain([last]) {
        for v in group {
            let t = *v - error;
            *v = if *v > 0.0 && t > 0.0 { t } else { 0.0 };
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_that_overflowed_are_projected_all_the_same() {
        let (up, down, no) = (f32::INFINITY, f32::NEG_INFINITY, f32::NAN);
        for (row, expected) in [
            ([up, 0.0, 5.0], [1.0, 0.0, 0.0]),
            ([up, down, up], [0.5, 0.0, 0.5]),
            ([down, 3.0, down], [0.0, 1.0, 0.0]),
            ([down, 3.0, no], [0.0, 1.0, 0.0]),
            ([down; 3], [1.0 / 3.0; 3]),
            ([no; 3], [1.0 / 3.0; 3]),
            ([up, no, down], [1.0, 0.0, 0.0]),
            ([f32::MAX, f32::MIN, 0.0], [1.0, 0.0, 0.0]),
        ] {
            let mut got = row;
            project(&mut got);
            assert_eq!(got, expected, "{row:?}");
        }
    }

    /// By sorting, in f64: the textbook way.
    fn by_sorting(v: &[f32]) -> Vec<f64> {
        let mut u: Vec<f64> = v.iter().map(|&x| x.into()).collect();
        u.sort_by(|a, b| b.total_cmp(a));
        let (mut sum, mut tau) = (0.0, 0.0);
        for (r, &x) in u.iter().enumerate() {
            sum += x;
            let candidate = (sum - 1.0) / (r + 1) as f64;
            if x > candidate {
                tau = candidate;
            }
        }
        v.iter().map(|&x| (f64::from(x) - tau).max(0.0)).collect()
    }

    #[test]
    fn known_projection() {
        let mut v = [0.9, 0.5, -0.2];
        project(&mut v);
        for (got, want) in v.iter().zip([0.7, 0.3, 0.0]) {
            assert!((got - want).abs() < 1e-6);
        }
    }

    #[test]
    fn exponentials_are_right() {
        for k in 0..=320_000 {
            let t = -1e-4 * k as f32;
            let want = f64::from(t).exp();
            let error = (f64::from(exp_or_nothing(t)) - want).abs() / want;
            assert!(error < 2e-7, "exp({t}) is off by {error:e}");
        }
        assert_eq!(exp_or_nothing(0.0), 1.0);
        assert_eq!(exp_or_nothing(-32.1), 0.0);
        assert_eq!(exp_or_nothing(f32::NEG_INFINITY), 0.0);
        let mut undecided = [f32::NEG_INFINITY; 4];
        softmax(&mut undecided);
        assert!(undecided.iter().all(|v| (v - 0.25).abs() < 1e-6));
    }

    #[test]
    fn extreme_rows_stay_on_the_simplex() {
        for mut v in [vec![1e30, -1e30, 3.0], vec![0.0; 7], vec![-1e30; 3], vec![5.0], vec![1e-30, 0.0]] {
            let mut w = v.clone();
            project(&mut v);
            softmax(&mut w);
            for row in [v, w] {
                assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-6, "{row:?}");
                assert!(row.iter().all(|x| (0.0..=1.0).contains(x)), "{row:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn logistic_is_softmax_of_two(x in -60.0_f32..60.0) {
            let mut one = [x];
            logistic(&mut one);
            let mut two = [0.0, x];
            softmax(&mut two);
            prop_assert!((one[0] - two[1]).abs() < 1e-6);
        }

        #[test]
        fn projection_equals_sorting(
            mut v in prop::collection::vec(-3.0f32..3.0, 1..300),
            // Ties by the dozen: what was projected before has many zeros, right at τ.
            tied in 0usize..300,
        ) {
            let tied = tied.min(v.len());
            v[..tied].fill(0.0);
            let want = by_sorting(&v);
            let mut got = v.clone();
            project(&mut got);
            for (g, w) in got.iter().zip(&want) {
                prop_assert!((f64::from(*g) - w).abs() < 1e-6, "{got:?} against {want:?}");
            }
            let mut again = got.clone();
            project(&mut again);
            for (a, g) in again.iter().zip(&got) {
                prop_assert!((a - g).abs() < 1e-6, "projecting twice changes nothing");
            }
        }
    }
}
