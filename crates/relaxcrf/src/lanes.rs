//! Row operations on beliefs in lanes of eight: plain safe code that becomes vector instructions, and that
//! `filter/lattice/simd.rs` compiles a second time for AVX2. No fused operations, so both give the same bits.
// Loops over lanes index several arrays at once: that is what becomes vector code.
#![allow(clippy::needless_range_loop)]

mod rest;
mod softmax;

pub(crate) use self::rest::{LARGEST_LOGIT, best_of_gone, lump_rows, softmax_with_rest};
pub(crate) use self::softmax::{softmax_lanes, softmax_lanes_with_value};

/// Beliefs below this are set to zero by softmax: far below `f32` resolution of a row that sums to
/// one, and it keeps denormal numbers, which are slow, out of the filters.
pub(crate) const NEGLIGIBLE_LOGIT: f32 = -32.0;

/// Adding this rounds to a whole number, which then stands in the lowest bits.
pub(crate) const ROUND: f32 = 12_582_912.0;
pub(crate) const LN_2_HIGH: f32 = 0.693_359_4;
pub(crate) const LN_2_LOW: f32 = -2.121_944_4e-4;

/// exp(r) = 1 + r + r² (c_0 + c_1 r + ...) for |r| <= ln(2) / 2, with the smallest largest error that this degree can
/// have: 1.8e-7 of the value, rounding included. From the highest power down.
pub(crate) const EXP_TERMS: [f32; 4] = [8.312_501e-3, 4.189_033e-2, 0.166_671_16, 0.499_992_3];

/// `exp(t)` for `t <= 0` to two parts in 10^7, zero below [`NEGLIGIBLE_LOGIT`].
///
/// Without branches, calls or table look-ups, so that a loop over it becomes vector instructions on any
/// processor: t = n log 2 + r, a polynomial for exp(r), and n put into the exponent's bits.
#[inline(always)]
pub(crate) fn exp_or_nothing(t: f32) -> f32 {
    let clipped = t.max(NEGLIGIBLE_LOGIT);
    let shifted = clipped * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = clipped - n * LN_2_HIGH - n * LN_2_LOW;
    let [c3, c2, c1, c0] = EXP_TERMS;
    let p = 1.0 + r * (1.0 + r * (c0 + r * (c1 + r * (c2 + r * c3))));
    let power = f32::from_bits(shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23);
    if t < NEGLIGIBLE_LOGIT { 0.0 } else { p * power }
}

/// `ln(z)` for normal positive numbers to about one part in 10^7 of max(1, |ln z|), as free of branches as
/// [`exp_or_nothing`]: z = 2^n m with m near 1, and ln m = 2 artanh((m - 1) / (m + 1)) as a polynomial.
#[inline(always)]
fn ln_positive(z: f32) -> f32 {
    const SQRT_HALF: u32 = 0x3f35_04f3;
    let bits = z.to_bits().wrapping_sub(SQRT_HALF);
    let n = (bits as i32 >> 23) as f32;
    let m = f32::from_bits((bits & 0x007f_ffff).wrapping_add(SQRT_HALF));
    let s = (m - 1.0) / (m + 1.0);
    let q = s * s;
    let p = 2.0 / 3.0 + q * (2.0 / 5.0 + q * (2.0 / 7.0 + q * (2.0 / 9.0)));
    n * std::f32::consts::LN_2 + (2.0 * s + s * q * p)
}

/// Lanes of a row that are handled together.
pub(crate) const LANES: usize = 8;

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// Eight numbers side by side: an array, or one vector register (`filter/lattice/simd.rs`), with the same bits as result.
pub(crate) trait Eight: Copy {
    fn load(from: &[f32; LANES]) -> Self;
    fn store(self, to: &mut [f32; LANES]);
    fn all(value: f32) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// [`larger`] of each two.
    fn larger(self, other: Self) -> Self;
    /// [`chosen`]: these where all bits of the mask are set, the others where none is.
    fn chosen(self, other: Self, used: &[u32; LANES]) -> Self;
    /// All bits set, or none.
    fn mask(set: bool) -> Self;
    /// These if all bits of the mask are set, the others if none is.
    fn where_mask(self, other: Self, mask: Self) -> Self;
    /// [`exp_or_nothing`] of each.
    fn exp_or_nothing(self) -> Self;
    /// [`fold`] by [`larger`].
    fn largest(self) -> f32;
    /// [`fold`] by addition.
    fn sum(self) -> f32;
}

impl Eight for [f32; LANES] {
    #[inline(always)]
    fn load(from: &[f32; LANES]) -> Self {
        *from
    }
    #[inline(always)]
    fn store(self, to: &mut [f32; LANES]) {
        *to = self;
    }
    #[inline(always)]
    fn all(value: f32) -> Self {
        [value; LANES]
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        std::array::from_fn(|c| self[c] + other[c])
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        std::array::from_fn(|c| self[c] - other[c])
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        std::array::from_fn(|c| self[c] * other[c])
    }
    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        std::array::from_fn(|c| larger(self[c], other[c]))
    }
    #[inline(always)]
    fn chosen(self, other: Self, used: &[u32; LANES]) -> Self {
        std::array::from_fn(|c| chosen(self[c], other[c], used[c]))
    }
    #[inline(always)]
    fn mask(set: bool) -> Self {
        [f32::from_bits(0u32.wrapping_sub(u32::from(set))); LANES]
    }
    #[inline(always)]
    fn where_mask(self, other: Self, mask: Self) -> Self {
        std::array::from_fn(|c| chosen(self[c], other[c], mask[c].to_bits()))
    }
    #[inline(always)]
    fn exp_or_nothing(self) -> Self {
        self.map(exp_or_nothing)
    }
    #[inline(always)]
    fn largest(self) -> f32 {
        fold(self, larger)
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        fold(self, |a, b| a + b)
    }
}

/// All eight into one, pairwise: three steps that wait for each other instead of seven.
#[inline(always)]
pub(crate) fn fold<T: Copy>(v: [T; LANES], f: impl Fn(T, T) -> T) -> T {
    f(f(f(v[0], v[4]), f(v[2], v[6])), f(f(v[1], v[5]), f(v[3], v[7])))
}

/// All lanes of a group are used.
const ALL: [u32; LANES] = [u32::MAX; LANES];

/// Which lanes of a row's last group are labels: all bits set, or none.
#[inline(always)]
fn last_lanes(labels: usize) -> [u32; LANES] {
    let used = labels - (labels - 1) / LANES * LANES;
    std::array::from_fn(|c| if c < used { u32::MAX } else { 0 })
}

/// `a` where all bits of `used` are set, `b` where none is: a choice that never becomes a branch.
#[inline(always)]
fn chosen(a: f32, b: f32, used: u32) -> f32 {
    f32::from_bits((a.to_bits() & used) | (b.to_bits() & !used))
}

/// Eight values from `at` on; where the array ends, the rest is zero.
#[inline(always)]
fn eight(values: &[f32], at: usize) -> [f32; LANES] {
    match values.get(at..).and_then(|rest| rest.first_chunk::<LANES>()) {
        Some(v) => *v,
        None => {
            let mut out = [0.0; LANES];
            for (o, &v) in out.iter_mut().zip(values.get(at..).unwrap_or(&[])) {
                *o = v;
            }
            out
        }
    }
}

/// Which lanes of a row's last group are labels, for rows of `stride`.
#[inline(always)]
fn padding(stride: usize, labels: usize) -> [u32; LANES] {
    assert!(stride == labels.next_multiple_of(LANES), "rows are whole groups of lanes");
    last_lanes(labels)
}

/// The smallest value of each lane in all rows.
#[inline(always)]
pub(crate) fn least_of_lanes(rows: &[f32], stride: usize, least: &mut [f32]) {
    for (g, least) in least.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
        let mut here = [f32::INFINITY; LANES];
        for row in rows.chunks_exact(stride) {
            let (groups, _) = row.as_chunks::<LANES>();
            for c in 0..LANES {
                here[c] = if groups[g][c] < here[c] { groups[g][c] } else { here[c] };
            }
        }
        *least = here;
    }
}

/// `Σ_rows (Σ_i y_i Σ_j k_j - Σ_i y_i k_i)` for rows k that are `stride` apart and y packed tightly: the pairwise value
/// of the Potts model, given K y.
#[inline(always)]
pub(crate) fn potts_value(rows: &[f32], stride: usize, labels: usize, y: &[f32]) -> f64 {
    let (groups, last) = (stride / LANES, last_lanes(labels));
    let mut total = 0.0f64;
    for (k, row) in rows.chunks_exact(stride).enumerate() {
        let (mut sum, mut mass, mut along) = ([0.0f32; LANES], [0.0f32; LANES], [0.0f32; LANES]);
        for (g, lanes) in row.chunks_exact(LANES).enumerate() {
            let beliefs = eight(y, k * labels + g * LANES);
            let used = if g + 1 == groups { last } else { ALL };
            for c in 0..LANES {
                let (v, b) = (chosen(lanes[c], 0.0, used[c]), chosen(beliefs[c], 0.0, used[c]));
                sum[c] += v;
                mass[c] += b;
                along[c] += v * b;
            }
        }
        let add = |a: f32, b: f32| a + b;
        total += f64::from(fold(sum, add) * fold(mass, add) - fold(along, add));
    }
    total
}

/// Copies rows without their padding: `labels` of every `stride` values, as many as `out` holds.
#[inline(always)]
pub(crate) fn keep_lanes(rows: &[f32], stride: usize, labels: usize, out: &mut [f32]) {
    let count = out.len() / labels;
    for (k, row) in rows.chunks_exact(stride).take(count).enumerate() {
        let at = k * labels;
        match out.get_mut(at..at + stride) {
            // The padding goes where the next row is about to be written.
            Some(to) => to.copy_from_slice(row),
            None => out[at..at + labels].copy_from_slice(&row[..labels]),
        }
    }
}

/// `1 / (1 + exp(-v))`.
#[inline(always)]
pub(crate) fn logistic(values: &mut [f32]) {
    for v in values.iter_mut() {
        // exp of what is not positive, so that nothing overflows.
        let e = exp_or_nothing(if *v > 0.0 { -*v } else { *v });
        let share = 1.0 / (1.0 + e);
        *v = if *v > 0.0 { share } else { e * share };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::simplex::softmax;
    use proptest::prelude::*;

    #[test]
    fn logarithms_are_right() {
        for k in 1..200_000 {
            let z = 1e-3 * k as f32;
            let want = f64::from(z).ln();
            let error = (f64::from(ln_positive(z)) - want).abs() / want.abs().max(1.0);
            assert!(error < 3e-7, "ln({z}) is off by {error:e}");
        }
    }

    proptest! {
        #[test]
        fn softmax_in_lanes_equals_softmax(
            labels in 1_usize..40, seed in 0_u32..1000, energies in prop::bool::ANY,
        ) {
            let stride = labels.next_multiple_of(LANES);
            let number = |i: usize, k: f32| ((i as f32 + seed as f32) * k).sin() * 9.0;
            let mut rows: Vec<f32> = (0..5 * stride).map(|i| number(i, 0.71)).collect();
            let mut energy: Vec<f32> = (0..5 * labels).map(|i| number(i, 1.37)).collect();
            energy[3 * labels..4 * labels].fill(f32::INFINITY);
            let given = energies.then_some(&energy[..]);
            let want: Vec<Vec<f32>> = (0..5).map(|k| {
                let mut row: Vec<f32> = rows[k * stride..][..labels].to_vec();
                for (i, v) in row.iter_mut().enumerate() {
                    *v = 2.0 * *v - given.map_or(0.0, |e| e[k * labels + i]);
                }
                softmax(&mut row);
                row
            }).collect();
            // Rows with a label that is possible, which have a value: `Σ y (log y + e)`.
            let mut valued = rows[..3 * stride].to_vec();
            let value = softmax_lanes_with_value(&mut valued, stride, labels, 2.0, given);
            let believed = want[..3].iter().flatten().enumerate().filter(|(_, y)| **y > 0.0);
            let want_value: f64 = believed
                .map(|(at, &y)| f64::from(y) * (f64::from(y).ln() + f64::from(given.map_or(0.0, |e| e[at]))))
                .sum();
            prop_assert!((value - want_value).abs() < 1e-4, "{} for {}", value, want_value);
            softmax_lanes::<[f32; LANES]>(&mut rows, stride, labels, 2.0, given);
            for (k, want) in want.iter().enumerate() {
                for (i, w) in want.iter().enumerate() {
                    prop_assert!((rows[k * stride + i] - w).abs() < 1e-6);
                    prop_assert!(k > 2 || (valued[k * stride + i] - w).abs() < 1e-6);
                }
                prop_assert!(rows[k * stride + labels..(k + 1) * stride].iter().all(|&v| v == 0.0));
            }
            let mut out = vec![0.0; 5 * labels];
            keep_lanes(&rows, stride, labels, &mut out);
            prop_assert_eq!(&out[2 * labels..3 * labels], &rows[2 * stride..2 * stride + labels]);
        }
    }
}
