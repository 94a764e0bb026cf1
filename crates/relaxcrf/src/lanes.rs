//! Row operations on beliefs in lanes of eight: plain safe code that becomes vector instructions, and that
//! `filter/lattice/simd.rs` compiles a second time for AVX2. No fused operations, so both give the same bits.
// Loops over lanes index several arrays at once: that is what becomes vector code.
#![allow(clippy::needless_range_loop)]

/// Beliefs below this are set to zero by softmax: far below `f32` resolution of a row that sums to
/// one, and it keeps denormal numbers, which are slow, out of the filters.
const NEGLIGIBLE_LOGIT: f32 = -32.0;

/// `exp(t)` for `t <= 0` to about one part in 10^7, zero below [`NEGLIGIBLE_LOGIT`].
///
/// Without branches, calls or table look-ups, so that a loop over it becomes vector instructions on any
/// processor: t = n log 2 + r, a polynomial for exp(r), and n put into the exponent's bits.
#[inline(always)]
pub(crate) fn exp_or_nothing(t: f32) -> f32 {
    // Adding this rounds to a whole number, which then stands in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let clipped = t.max(NEGLIGIBLE_LOGIT);
    let shifted = clipped * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = clipped - n * LN_2_HIGH - n * LN_2_LOW;
    let p = 1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0));
    let p = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * p))));
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
const LANES: usize = 8;

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// All eight into one, pairwise.
#[inline(always)]
fn fold(v: [f32; LANES], f: impl Fn(f32, f32) -> f32) -> f32 {
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

/// `rows ← softmax(factor · rows - energies)` for rows that are `stride` (a multiple of eight) apart, with the energies
/// of the same points packed tightly, or none. Lanes beyond the labels become zero.
///
/// Returns `Σ y_i (ln y_i + energy_i)` over all rows if `WITH_VALUE`: the part of the free energy that a point has to
/// itself.
#[inline(always)]
pub(crate) fn softmax_lanes<const WITH_VALUE: bool>(
    rows: &mut [f32],
    stride: usize,
    labels: usize,
    factor: f32,
    energies: Option<&[f32]>,
) -> f64 {
    // With the width known, the loops over a row's lanes dissolve.
    match stride {
        8 => softmax_of::<WITH_VALUE>(rows, 8, labels, factor, energies),
        16 => softmax_of::<WITH_VALUE>(rows, 16, labels, factor, energies),
        24 => softmax_of::<WITH_VALUE>(rows, 24, labels, factor, energies),
        32 => softmax_of::<WITH_VALUE>(rows, 32, labels, factor, energies),
        _ => softmax_of::<WITH_VALUE>(rows, stride, labels, factor, energies),
    }
}

#[inline(always)]
fn softmax_of<const WITH_VALUE: bool>(
    rows: &mut [f32],
    stride: usize,
    labels: usize,
    factor: f32,
    energies: Option<&[f32]>,
) -> f64 {
    assert!(stride == labels.next_multiple_of(LANES), "rows are whole groups of lanes");
    let (groups, last) = (stride / LANES, last_lanes(labels));
    let mut value = 0.0f64;
    for (k, row) in rows.chunks_exact_mut(stride).enumerate() {
        let mut most = [f32::NEG_INFINITY; LANES];
        for (g, lanes) in row.chunks_exact_mut(LANES).enumerate() {
            let energy = energies.map_or([0.0; LANES], |e| eight(e, k * labels + g * LANES));
            let used = if g + 1 == groups { last } else { ALL };
            for c in 0..LANES {
                let logit = factor * lanes[c] - energy[c];
                lanes[c] = chosen(logit, f32::NEG_INFINITY, used[c]);
                most[c] = larger(most[c], lanes[c]);
            }
        }
        let most = fold(most, larger);
        row.iter_mut().for_each(|v| *v -= most);
        if WITH_VALUE {
            let (mut sum, mut along) = ([0.0f32; LANES], [0.0f32; LANES]);
            for (g, lanes) in row.chunks_exact_mut(LANES).enumerate() {
                let energy = energies.map_or([0.0; LANES], |e| eight(e, k * labels + g * LANES));
                let used = if g + 1 == groups { last } else { ALL };
                for c in 0..LANES {
                    let e = chosen(exp_or_nothing(lanes[c]), 0.0, used[c]);
                    // What is not believed in costs nothing, even where it is infinite.
                    let cost = if e > 0.0 { lanes[c] + energy[c] } else { 0.0 };
                    sum[c] += e;
                    along[c] += e * cost;
                    lanes[c] = e;
                }
            }
            let sum = fold(sum, |a, b| a + b);
            let along = fold(along, |a, b| a + b);
            value += f64::from(along / sum) - f64::from(ln_positive(sum));
        }
    }
    if !WITH_VALUE {
        rows.iter_mut().for_each(|v| *v = exp_or_nothing(*v));
    }
    for row in rows.chunks_exact_mut(stride) {
        let mut sum = [0.0f32; LANES];
        for (g, lanes) in row.chunks_exact_mut(LANES).enumerate() {
            let used = if g + 1 == groups { last } else { ALL };
            for c in 0..LANES {
                // A row of infinite energies only is undecided, and then padding must not count either.
                lanes[c] = chosen(lanes[c], 0.0, used[c]);
                sum[c] += lanes[c];
            }
        }
        let scale = 1.0 / fold(sum, |a, b| a + b);
        row.iter_mut().for_each(|v| *v *= scale);
    }
    value
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
            let mut valued = rows.clone();
            let value = softmax_lanes::<true>(&mut valued, stride, labels, 2.0, given.map(|e| &e[..3 * labels]));
            softmax_lanes::<false>(&mut rows, stride, labels, 2.0, given);
            for (k, want) in want.iter().enumerate() {
                for (i, w) in want.iter().enumerate() {
                    prop_assert!((rows[k * stride + i] - w).abs() < 1e-6);
                    prop_assert!(k > 2 || (valued[k * stride + i] - w).abs() < 1e-6);
                }
                prop_assert!(rows[k * stride + labels..(k + 1) * stride].iter().all(|&v| v == 0.0));
            }
            let _ = value;
            let mut out = vec![0.0; 5 * labels];
            keep_lanes(&rows, stride, labels, &mut out);
            prop_assert_eq!(&out[2 * labels..3 * labels], &rows[2 * stride..2 * stride + labels]);
        }
    }
}
