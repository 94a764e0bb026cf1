//! Extreme eigenvalues of a symmetric matrix over vectors that sum to zero.
//!
//! A Householder reflection turns the constant vector into a coordinate axis, so that deleting that axis leaves the
//! matrix restricted to its orthogonal complement. More reflections make it tridiagonal, and bisection on Sturm counts
//! finds its smallest and largest eigenvalue (Golub and Van Loan, Matrix Computations, 8.3 and 8.4).

/// Smallest and largest eigenvalue of `P m P` with `P = I - 11'/n`, without the one of the constant vector.
///
/// `matrix` is symmetric, row-major, `size * size` numbers; both results are 0 for a size below 2, and infinite for a matrix
/// with entries that are not finite.
pub(super) fn centred_range(size: usize, matrix: Vec<f64>) -> (f64, f64) {
    if size < 2 {
        return (0.0, 0.0);
    }
    if !matrix.iter().all(|entry| entry.is_finite()) {
        return (f64::NEG_INFINITY, f64::INFINITY);
    }
    let mut square = Square { size, entries: matrix };
    // The reflection that maps the constant vector to a multiple of the first axis.
    square.reflect(0, &axis_mirror(&vec![1.0; size]).0);
    let (diagonal, beside) = square.tridiagonal(1);
    let bound = gershgorin(&diagonal, &beside);
    let last = diagonal.len();
    (kth_smallest(&diagonal, &beside, bound, 1), kth_smallest(&diagonal, &beside, bound, last))
}

/// The vector `v` whose reflection `I - 2 vv'/v'v` maps `x` to a multiple of the first axis, and that multiple.
fn axis_mirror(x: &[f64]) -> (Vec<f64>, f64) {
    // Scaled first: squares of large numbers must not overflow, nor those of small ones vanish.
    let largest = x.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    if largest == 0.0 {
        return (vec![0.0; x.len()], 0.0);
    }
    let mut v: Vec<f64> = x.iter().map(|x| x / largest).collect();
    let length = v.iter().map(|v| v * v).sum::<f64>().sqrt();
    // Adding numbers of the same sign cancels no digits.
    let signed = length.copysign(v[0]);
    v[0] += signed;
    (v, -signed * largest)
}

/// A symmetric matrix with all of its entries.
struct Square {
    size: usize,
    entries: Vec<f64>,
}

impl Square {
    fn row(&self, i: usize) -> &[f64] {
        &self.entries[i * self.size..][..self.size]
    }

    /// Replaces the block `B` of rows and columns from `first` on by `H B H` with `H = I - 2 vv'/v'v`.
    fn reflect(&mut self, first: usize, v: &[f64]) {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let norm = dot(v, v);
        if norm == 0.0 {
            return;
        }
        let scale = 2.0 / norm;
        // H B H = B - v w' - w v' with p = scale B v and w = p - (v'p / v'v) v.
        let p: Vec<f64> = (first..self.size).map(|i| scale * dot(&self.row(i)[first..], v)).collect();
        let share = dot(v, &p) / norm;
        let w: Vec<f64> = p.iter().zip(v).map(|(p, v)| p - share * v).collect();
        for (i, row) in self.entries.chunks_exact_mut(self.size).skip(first).enumerate() {
            for ((entry, &vj), &wj) in row[first..].iter_mut().zip(v).zip(&w) {
                *entry -= v[i] * wj + w[i] * vj;
            }
        }
    }

    /// Diagonal and off-diagonal of a tridiagonal matrix with the eigenvalues of the block from `first` on.
    fn tridiagonal(mut self, first: usize) -> (Vec<f64>, Vec<f64>) {
        let mut beside = Vec::with_capacity(self.size);
        for k in first..self.size - 1 {
            let (v, entry) = axis_mirror(&self.row(k)[k + 1..]);
            self.reflect(k + 1, &v);
            beside.push(entry);
        }
        ((first..self.size).map(|i| self.row(i)[i]).collect(), beside)
    }
}

/// An interval that holds all eigenvalues: by Gershgorin's discs, and a little more for rounding.
fn gershgorin(diagonal: &[f64], beside: &[f64]) -> (f64, f64) {
    let near = |i: usize| beside.get(i).map_or(0.0, |e| e.abs());
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for (i, d) in diagonal.iter().enumerate() {
        let radius = near(i) + if i > 0 { near(i - 1) } else { 0.0 };
        (low, high) = (low.min(d - radius), high.max(d + radius));
    }
    let margin = 4.0 * f64::EPSILON * low.abs().max(high.abs());
    (low - margin, high + margin)
}

/// The `k`-th smallest eigenvalue of a tridiagonal matrix, counted from 1, by bisection of an interval that holds it.
fn kth_smallest(diagonal: &[f64], beside: &[f64], (mut low, mut high): (f64, f64), k: usize) -> f64 {
    loop {
        let middle = 0.5 * (low + high);
        // Also ends where the interval is not a number.
        let is_inside = low < middle && middle < high;
        if !is_inside {
            return middle;
        }
        if eigenvalues_below(diagonal, beside, middle) >= k { high = middle } else { low = middle }
    }
}

/// How many eigenvalues of a tridiagonal matrix are less than `x`: the negative pivots of its factorisation minus `x`.
fn eigenvalues_below(diagonal: &[f64], beside: &[f64], x: f64) -> usize {
    let largest = beside.iter().fold(0.0f64, |m, e| m.max(e * e));
    let tiny = f64::MIN_POSITIVE * largest.max(1.0);
    let (mut count, mut pivot) = (0, 1.0);
    for (i, d) in diagonal.iter().enumerate() {
        let coupling = if i > 0 { beside[i - 1] * beside[i - 1] / pivot } else { 0.0 };
        pivot = d - x - coupling;
        // A pivot of zero is an eigenvalue of a leading block; either sign is right up to rounding.
        if pivot.abs() < tiny {
            pivot = -tiny;
        }
        count += usize::from(pivot < 0.0);
    }
    count
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(size: usize, entry: impl Fn(usize, usize) -> f64) -> (f64, f64) {
        centred_range(size, (0..size * size).map(|k| entry(k / size, k % size)).collect())
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 1e-12 * (1.0 + a.abs().max(b.abs()))
    }

    #[test]
    fn range_is_that_of_the_textbook_for_known_matrices() {
        for n in [2, 3, 7, 40] {
            let (low, high) = range(n, |i, j| f64::from(u8::from(i != j)));
            assert!(close(low, -1.0) && close(high, -1.0), "Potts, {n} labels: {low} to {high}");
            let (low, high) = range(n, |i, j| if i == j { i as f64 } else { 0.0 });
            // The restriction of a diagonal matrix interlaces it: both ends lie strictly inside.
            assert!(low >= -1e-12 && high <= n as f64 - 1.0 + 1e-12 && low <= high);
            // The second difference with free ends keeps the constant vector; its other eigenvalues are known.
            let (low, high) = range(n, |i, j| match i.abs_diff(j) {
                0 => 2.0 - f64::from(u8::from(i == 0)) - f64::from(u8::from(i + 1 == n)),
                1 => -1.0,
                _ => 0.0,
            });
            let wave = |k: f64| 2.0 - 2.0 * (std::f64::consts::PI * k / n as f64).cos();
            assert!(close(low, wave(1.0)) && close(high, wave(n as f64 - 1.0)), "{n}: {low} to {high}");
        }
        assert_eq!(range(3, |_, _| 0.0), (0.0, 0.0));
        assert_eq!(range(1, |_, _| 5.0), (0.0, 0.0));
    }

    #[test]
    fn range_of_entries_that_are_not_finite_is_infinite() {
        for bad in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert_eq!(range(3, |i, j| if i == j { 0.0 } else { bad }), (f64::NEG_INFINITY, f64::INFINITY));
        }
        // Sums of these overflow: any answer will do, but there must be one.
        let _ = range(3, |i, j| if i == j { 0.0 } else { f64::MAX });
    }

    #[test]
    fn range_does_not_depend_on_a_constant_added_to_all_entries() {
        let entry = |i: usize, j: usize| ((i * j) as f64 * 0.7).sin() + (i as f64 - j as f64).abs();
        let (plain, shifted) = (range(9, entry), range(9, |i, j| entry(i, j) + 100.0));
        assert!((plain.0 - shifted.0).abs() < 1e-10 && (plain.1 - shifted.1).abs() < 1e-10);
    }

    #[test]
    fn range_survives_the_largest_and_smallest_costs() {
        for scale in [1e-38, 1e-3, 1.0, 1e38] {
            let (low, high) = range(5, |i, j| scale * (i as f64 - j as f64).abs());
            let (one, two) = range(5, |i, j| (i as f64 - j as f64).abs());
            assert!(close(low / scale, one) && close(high / scale, two), "{scale}");
        }
    }

    proptest! {
        /// Rayleigh quotients lie in the range, and power iteration from both ends reaches its ends.
        #[test]
        fn range_is_reached_by_power_iteration(size in 2usize..7, seed in any::<u64>()) {
            let mut rng = relaxcrf_filter::rng::Rng::new(seed);
            let mut m = vec![0.0; size * size];
            for i in 0..size {
                for j in 0..=i {
                    let value = rng.between(-1.0, 1.0);
                    (m[i * size + j], m[j * size + i]) = (value, value);
                }
            }
            let (low, high) = centred_range(size, m.clone());
            let centred = |v: &mut Vec<f64>| {
                let mean = v.iter().sum::<f64>() / size as f64;
                v.iter_mut().for_each(|x| *x -= mean);
                let norm = v.iter().map(|x| x * x).sum::<f64>().sqrt();
                v.iter_mut().for_each(|x| *x /= norm);
            };
            let times = |v: &[f64]| -> Vec<f64> {
                (0..size).map(|i| (0..size).map(|j| m[i * size + j] * v[j]).sum()).collect()
            };
            for (sign, end) in [(1.0, high), (-1.0, low)] {
                let mut v: Vec<f64> = (0..size).map(|_| rng.between(-0.5, 0.5)).collect();
                centred(&mut v);
                for _ in 0..3000 {
                    let mut next: Vec<f64> =
                        times(&v).iter().zip(&v).map(|(mv, v)| sign * mv + 2.0 * size as f64 * v).collect();
                    centred(&mut next);
                    v = next;
                }
                let quotient: f64 = times(&v).iter().zip(&v).map(|(a, b)| a * b).sum();
                prop_assert!(quotient >= low - 1e-9 && quotient <= high + 1e-9);
                prop_assert!((quotient - end).abs() < 1e-3, "{quotient} for {low} to {high}");
            }
        }
    }
}
