//! The conditionally negative costs nearest to given ones.
//!
//! With `P = I - 11'/L`, costs are conditionally negative when `-P μ P` has no negative eigenvalue. What is subtracted
//! here is the part C of `P μ P` with positive eigenvalues; adding `(C_ii + C_jj) / 2` keeps the diagonal, and makes no
//! cost smaller than it was.

use super::MOST_LABELS;

/// Iterations of the matrix sign: the eigenvalues that they leave undecided are too small to matter.
const ITERATIONS: usize = 24;

/// Labels up to which a few dozen products of matrices take no time worth mentioning.
pub(super) const MAX_NEAREST_LABELS: usize = MOST_LABELS / 4;

/// Symmetric costs, row-major, moved to the nearest conditionally negative ones with the same diagonal.
pub(super) fn nearest_negative(labels: usize, costs: &[f64]) -> Vec<f64> {
    let mean = |row: &[f64]| row.iter().sum::<f64>() / labels as f64;
    let means: Vec<f64> = costs.chunks_exact(labels).map(mean).collect();
    let all = mean(&means);
    let centred: Vec<f64> =
        (0..labels * labels).map(|k| costs[k] - means[k / labels] - means[k % labels] + all).collect();
    let positive = positive_part(labels, &centred);
    let own = |i: usize| positive[i * labels + i];
    (0..labels * labels)
        .map(|k| {
            let (i, j) = (k / labels, k % labels);
            costs[k] - positive[k] + 0.5 * (own(i) + own(j))
        })
        .collect()
}

/// The part of a symmetric matrix with positive eigenvalues, `(A + |A|) / 2`, by Newton and Schulz's iteration for the sign.
fn positive_part(size: usize, matrix: &[f64]) -> Vec<f64> {
    // Eigenvalues are at most the largest absolute row sum.
    let rows = matrix.chunks_exact(size).map(|row| row.iter().map(|v| v.abs()).sum::<f64>());
    let largest = rows.fold(0.0f64, f64::max);
    if largest == 0.0 {
        return vec![0.0; size * size];
    }
    let mut sign: Vec<f64> = matrix.iter().map(|v| v / largest).collect();
    for _ in 0..ITERATIONS {
        let square = product(size, &sign, &sign);
        let cube = product(size, &square, &sign);
        sign.iter_mut().zip(&cube).for_each(|(s, c)| *s = 1.5 * *s - 0.5 * c);
    }
    let absolute = product(size, &sign, matrix);
    (0..size * size)
        .map(|k| {
            let mirrored = k % size * size + k / size;
            // Rounding leaves a little asymmetry.
            0.5 * matrix[k] + 0.25 * (absolute[k] + absolute[mirrored])
        })
        .collect()
}

fn product(size: usize, left: &[f64], right: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; size * size];
    for (out, left) in out.chunks_exact_mut(size).zip(left.chunks_exact(size)) {
        for (&v, right) in left.iter().zip(right.chunks_exact(size)) {
            out.iter_mut().zip(right).for_each(|(o, r)| *o += v * r);
        }
    }
    out
}
