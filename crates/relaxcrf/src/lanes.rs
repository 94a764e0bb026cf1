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
        match energies.map(|e| (e.get(k * labels..k * labels + stride), e)) {
            None => row.iter_mut().for_each(|v| *v *= factor),
            Some((Some(energies), _)) => {
                row.iter_mut().zip(energies).for_each(|(v, &e)| *v = factor * *v - e);
            }
            // Where the energies end, there is no full row of them.
            Some((None, all)) => {
                for (g, lanes) in row.chunks_exact_mut(LANES).enumerate() {
                    let energy = eight(all, k * labels + g * LANES);
                    lanes.iter_mut().zip(energy).for_each(|(v, e)| *v = factor * *v - e);
                }
            }
        }
        let (lanes, _) = row.as_chunks_mut::<LANES>();
        if let Some(lanes) = lanes.last_mut() {
            for c in 0..LANES {
                lanes[c] = chosen(lanes[c], f32::NEG_INFINITY, last[c]);
            }
        }
        let mut most = [f32::NEG_INFINITY; LANES];
        for lanes in lanes.iter() {
            for c in 0..LANES {
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
        let (lanes, _) = row.as_chunks_mut::<LANES>();
        if let Some(lanes) = lanes.last_mut() {
            // A row of infinite energies only is undecided, and then padding must not count either.
            for c in 0..LANES {
                lanes[c] = chosen(lanes[c], 0.0, last[c]);
            }
        }
        let mut sum = [0.0f32; LANES];
        for lanes in lanes.iter() {
            for c in 0..LANES {
                sum[c] += lanes[c];
            }
        }
        let scale = 1.0 / fold(sum, |a, b| a + b);
        row.iter_mut().for_each(|v| *v *= scale);
    }
    value
}

/// Logits are clipped here where it is known, or checked, that they stay below: exponentials do not overflow, nor do
/// sums of some thousands of them.
pub(crate) const LARGEST_LOGIT: f32 = 64.0;

/// `rows ← softmax(rows - energies)` for rows whose last label stands for several that are not filtered themselves: its
/// message, a bound on theirs, does not count, and on return only a `share` of its belief is left, that of the most
/// believed of them. Energies come in rows of `stride`, at least zero, infinite in lanes that are not used.
///
/// Returns the largest message of the last label and the largest of the others, which must not be above
/// [`LARGEST_LOGIT`].
#[inline(always)]
pub(crate) fn softmax_with_rest(
    rows: &mut [f32],
    stride: usize,
    labels: usize,
    energies: &[f32],
    shares: &[f32],
) -> (f32, f32) {
    match stride {
        8 => rest_softmax(rows, 8, labels, energies, shares),
        16 => rest_softmax(rows, 16, labels, energies, shares),
        24 => rest_softmax(rows, 24, labels, energies, shares),
        _ => rest_softmax(rows, stride, labels, energies, shares),
    }
}

#[inline(always)]
fn rest_softmax(
    rows: &mut [f32],
    stride: usize,
    labels: usize,
    energies: &[f32],
    shares: &[f32],
) -> (f32, f32) {
    let groups = stride / LANES;
    let mut rest = [0u32; LANES];
    rest[(labels - 1) % LANES] = u32::MAX;
    let (mut most, mut most_of_rest) = ([0.0f32; LANES], [0.0f32; LANES]);
    for (row, energies) in rows.chunks_exact_mut(stride).zip(energies.chunks_exact(stride)) {
        let both = row.as_chunks_mut::<LANES>().0.iter_mut().zip(energies.as_chunks::<LANES>().0);
        for (g, (lanes, energies)) in both.enumerate() {
            if g + 1 == groups {
                for c in 0..LANES {
                    most_of_rest[c] = larger(most_of_rest[c], lanes[c]);
                }
                for c in 0..LANES {
                    lanes[c] = chosen(0.0, lanes[c], rest[c]);
                }
            }
            for c in 0..LANES {
                most[c] = larger(most[c], lanes[c]);
            }
            for c in 0..LANES {
                let logit = lanes[c] - energies[c];
                lanes[c] = if logit > LARGEST_LOGIT { LARGEST_LOGIT } else { logit };
            }
        }
    }
    rows.iter_mut().for_each(|v| *v = exp_or_nothing(*v));
    for (row, &share) in rows.chunks_exact_mut(stride).zip(shares) {
        let mut sum = [0.0f32; LANES];
        for lanes in row.as_chunks::<LANES>().0 {
            for c in 0..LANES {
                sum[c] += lanes[c];
            }
        }
        let scale = 1.0 / fold(sum, |a, b| a + b);
        let of_rest = scale * share;
        for (g, lanes) in row.as_chunks_mut::<LANES>().0.iter_mut().enumerate() {
            for c in 0..LANES {
                lanes[c] *= if g + 1 == groups { chosen(of_rest, scale, rest[c]) } else { scale };
            }
        }
    }
    (most_of_rest[(labels - 1) % LANES], fold(most, larger))
}

/// Several labels as one. `rows` are beliefs without any messages, `softmax(-energies)`, `stride` apart; what goes to the
/// lump has a one in `gone`, what does not a zero. If `shares` are given, the last of the `labels` is itself a lump, of
/// before, and goes there in any case.
///
/// Leaves in `lumps`, for every row, by how much the energy of the lump is above the smallest, and belief in the most
/// believed label of the lump as a share of that in the lump.
#[inline(always)]
pub(crate) fn lump_rows(
    rows: &[f32],
    stride: usize,
    labels: usize,
    gone: &[f32],
    shares: Option<&[f32]>,
    lumps: &mut [[f32; 2]],
) {
    match stride {
        16 => lump_of(rows, 16, labels, gone, shares, lumps),
        24 => lump_of(rows, 24, labels, gone, shares, lumps),
        _ => lump_of(rows, stride, labels, gone, shares, lumps),
    }
}

#[inline(always)]
fn lump_of(
    rows: &[f32],
    stride: usize,
    labels: usize,
    gone: &[f32],
    shares: Option<&[f32]>,
    lumps: &mut [[f32; 2]],
) {
    let (gone, _) = gone.as_chunks::<LANES>();
    for (k, (row, lump)) in rows.chunks_exact(stride).zip(lumps.iter_mut()).enumerate() {
        let (mut sum, mut best, mut most) = ([0.0f32; LANES], [0.0f32; LANES], [0.0f32; LANES]);
        for (lanes, gone) in row.as_chunks::<LANES>().0.iter().zip(gone) {
            for c in 0..LANES {
                most[c] = larger(most[c], lanes[c]);
            }
            for c in 0..LANES {
                sum[c] += lanes[c] * gone[c];
            }
            for c in 0..LANES {
                best[c] = larger(best[c], lanes[c] * gone[c]);
            }
        }
        let (mut sum, mut best) = (fold(sum, |a, b| a + b), fold(best, larger));
        if let Some(shares) = shares {
            // The lump of before is the last of `labels`, and `gone` does not count it.
            sum += row[labels - 1];
            best = larger(best, shares[k] * row[labels - 1]);
        }
        *lump = [sum / fold(most, larger), best / larger(sum, f32::MIN_POSITIVE)];
    }
    for lump in lumps.iter_mut() {
        lump[0] = if lump[0] > f32::MIN_POSITIVE { -ln_positive(lump[0]) } else { f32::INFINITY };
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
