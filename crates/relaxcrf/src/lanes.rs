//! Row operations on beliefs in lanes of eight: plain safe code that becomes vector instructions, and that
//! `filter/lattice/simd.rs` compiles a second time for AVX2. No fused operations, so both give the same bits.
// Loops over lanes index several arrays at once: that is what becomes vector code.
#![allow(clippy::needless_range_loop)]

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

/// `rows ← softmax(factor · rows - energies)` for rows that are `stride` (a multiple of eight) apart, with the energies
/// of the same points packed tightly, or none. Lanes beyond the labels become zero.
#[inline(always)]
pub(crate) fn softmax_lanes<V: Eight>(
    rows: &mut [f32],
    stride: usize,
    labels: usize,
    factor: f32,
    energies: Option<&[f32]>,
) {
    // With the width known, a row stays in registers.
    match stride {
        8 => softmax_groups::<V, 1>(rows, labels, factor, energies),
        16 => softmax_groups::<V, 2>(rows, labels, factor, energies),
        24 => softmax_groups::<V, 3>(rows, labels, factor, energies),
        32 => softmax_groups::<V, 4>(rows, labels, factor, energies),
        _ => softmax_wide::<V>(rows, stride, labels, factor, energies),
    }
}

#[inline(always)]
fn softmax_groups<V: Eight, const G: usize>(
    rows: &mut [f32],
    labels: usize,
    factor: f32,
    energies: Option<&[f32]>,
) {
    let last = padding(G * LANES, labels);
    let factor = V::all(factor);
    for (k, row) in rows.chunks_exact_mut(G * LANES).enumerate() {
        let (row, _) = row.as_chunks_mut::<LANES>();
        let mut values = [V::all(0.0); G];
        // Where the energies end, there is no full row of them.
        let full = energies.and_then(|e| e.get(k * labels..k * labels + G * LANES));
        for g in 0..G {
            let energy = match (full, energies) {
                (Some(full), _) => V::load(&full.as_chunks::<LANES>().0[g]),
                (None, Some(all)) => V::load(&eight(all, k * labels + g * LANES)),
                (None, None) => V::all(0.0),
            };
            values[g] = factor.mul(V::load(&row[g])).sub(energy);
        }
        values[G - 1] = values[G - 1].chosen(V::all(f32::NEG_INFINITY), &last);
        let mut most = values[0];
        for g in 1..G {
            most = most.larger(values[g]);
        }
        let most = V::all(most.largest());
        for g in 0..G {
            values[g] = values[g].sub(most).exp_or_nothing();
        }
        // A row of infinite energies only is undecided, and then padding must not count either.
        values[G - 1] = values[G - 1].chosen(V::all(0.0), &last);
        let mut sum = values[0];
        for g in 1..G {
            sum = sum.add(values[g]);
        }
        let scale = V::all(1.0 / sum.sum());
        for g in 0..G {
            values[g].mul(scale).store(&mut row[g]);
        }
    }
}

#[inline(always)]
fn softmax_wide<V: Eight>(
    rows: &mut [f32],
    stride: usize,
    labels: usize,
    factor: f32,
    energies: Option<&[f32]>,
) {
    let (groups, last) = (stride / LANES, padding(stride, labels));
    let factor = V::all(factor);
    for (k, row) in rows.chunks_exact_mut(stride).enumerate() {
        let (row, _) = row.as_chunks_mut::<LANES>();
        let full = energies.and_then(|e| e.get(k * labels..k * labels + stride));
        let mut most = V::all(f32::NEG_INFINITY);
        for (g, lanes) in row.iter_mut().enumerate() {
            let energy = match (full, energies) {
                (Some(full), _) => V::load(&full.as_chunks::<LANES>().0[g]),
                (None, Some(all)) => V::load(&eight(all, k * labels + g * LANES)),
                (None, None) => V::all(0.0),
            };
            let mut value = factor.mul(V::load(lanes)).sub(energy);
            if g + 1 == groups {
                value = value.chosen(V::all(f32::NEG_INFINITY), &last);
            }
            most = most.larger(value);
            value.store(lanes);
        }
        let most = V::all(most.largest());
        let mut sum = V::all(0.0);
        for (g, lanes) in row.iter_mut().enumerate() {
            let mut value = V::load(lanes).sub(most).exp_or_nothing();
            if g + 1 == groups {
                value = value.chosen(V::all(0.0), &last);
            }
            sum = sum.add(value);
            value.store(lanes);
        }
        let scale = V::all(1.0 / sum.sum());
        for lanes in row.iter_mut() {
            V::load(lanes).mul(scale).store(lanes);
        }
    }
}

/// [`softmax_lanes`], and `Σ y_i (ln y_i + energy_i)` over all rows: the part of the free energy that a point has to
/// itself.
#[inline(always)]
pub(crate) fn softmax_lanes_with_value(
    rows: &mut [f32],
    stride: usize,
    labels: usize,
    factor: f32,
    energies: Option<&[f32]>,
) -> f64 {
    match stride {
        8 => softmax_of(rows, 8, labels, factor, energies),
        16 => softmax_of(rows, 16, labels, factor, energies),
        24 => softmax_of(rows, 24, labels, factor, energies),
        32 => softmax_of(rows, 32, labels, factor, energies),
        _ => softmax_of(rows, stride, labels, factor, energies),
    }
}

#[inline(always)]
fn softmax_of(rows: &mut [f32], stride: usize, labels: usize, factor: f32, energies: Option<&[f32]>) -> f64 {
    let (groups, last) = (stride / LANES, padding(stride, labels));
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
        let scale = 1.0 / sum;
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
pub(crate) fn softmax_with_rest<V: Eight>(
    rows: &mut [f32],
    stride: usize,
    labels: usize,
    energies: &[f32],
    shares: &[f32],
) -> (f32, f32) {
    match stride {
        8 => rest_softmax::<V>(rows, 8, labels, energies, shares),
        16 => rest_softmax::<V>(rows, 16, labels, energies, shares),
        24 => rest_softmax::<V>(rows, 24, labels, energies, shares),
        _ => rest_softmax::<V>(rows, stride, labels, energies, shares),
    }
}

#[inline(always)]
fn rest_softmax<V: Eight>(
    rows: &mut [f32],
    stride: usize,
    labels: usize,
    energies: &[f32],
    shares: &[f32],
) -> (f32, f32) {
    let groups = stride / LANES;
    let mut rest = [0u32; LANES];
    rest[(labels - 1) % LANES] = u32::MAX;
    let zero = V::all(0.0);
    let (mut most, mut most_of_rest) = (zero, zero);
    for ((row, energies), &share) in
        rows.chunks_exact_mut(stride).zip(energies.chunks_exact(stride)).zip(shares)
    {
        let (row, _) = row.as_chunks_mut::<LANES>();
        let mut sum = zero;
        for (g, (lanes, energies)) in row.iter_mut().zip(energies.as_chunks::<LANES>().0).enumerate() {
            let mut message = V::load(lanes);
            if g + 1 == groups {
                most_of_rest = most_of_rest.larger(message.chosen(zero, &rest));
                message = zero.chosen(message, &rest);
            }
            most = most.larger(message);
            // Minus the larger of minus both: the smaller.
            let logit = V::load(energies).sub(message).larger(V::all(-LARGEST_LOGIT));
            let belief = zero.sub(logit).exp_or_nothing();
            sum = sum.add(belief);
            belief.store(lanes);
        }
        let scale = 1.0 / sum.sum();
        for (g, lanes) in row.iter_mut().enumerate() {
            let scale = match g + 1 == groups {
                true => V::all(scale * share).chosen(V::all(scale), &rest),
                false => V::all(scale),
            };
            V::load(lanes).mul(scale).store(lanes);
        }
    }
    (most_of_rest.largest(), most.largest())
}

/// Several labels as one, for rows of `labels` energies, `width` apart, the first at the start of `energies`. What goes to
/// the lump has a one in `gone`, what does not a zero, up to whole groups. If `shares` are given, the last label is
/// itself a lump, of before, and goes there in any case.
///
/// Leaves in `lumps`, for every row, by how much the energy of the lump is above the smallest of the row, belief in the
/// most believed label of the lump as a share of that in the lump (energies alone), and the smallest energy.
#[inline(always)]
pub(crate) fn lump_rows<V: Eight>(
    energies: &[f32],
    width: usize,
    labels: usize,
    gone: &[f32],
    shares: Option<&[f32]>,
    lumps: &mut [[f32; 3]],
) {
    let (gone, _) = gone.as_chunks::<LANES>();
    let last = last_lanes(labels);
    let zero = V::all(0.0);
    for (k, lump) in lumps.iter_mut().enumerate() {
        let full = energies.get(k * width..k * width + gone.len() * LANES);
        let mut most = V::all(f32::NEG_INFINITY);
        for g in 0..gone.len() {
            let minus = match full {
                Some(full) => zero.sub(V::load(&full.as_chunks::<LANES>().0[g])),
                None => zero.sub(V::load(&eight(energies, k * width + g * LANES))),
            };
            most = most.larger(match g + 1 == gone.len() {
                true => minus.chosen(V::all(f32::NEG_INFINITY), &last),
                false => minus,
            });
        }
        let least = -most.largest();
        let (mut sum, mut best) = (zero, zero);
        for (g, gone) in gone.iter().enumerate() {
            let energy = match full {
                Some(full) => V::load(&full.as_chunks::<LANES>().0[g]),
                None => V::load(&eight(energies, k * width + g * LANES)),
            };
            // Not below zero, whatever stands behind the row.
            let above = energy.sub(V::all(least)).larger(zero);
            let belief = zero.sub(above).exp_or_nothing().mul(V::load(gone));
            sum = sum.add(belief);
            best = best.larger(belief);
        }
        let (mut sum, mut best) = (sum.sum(), best.largest());
        if let Some(shares) = shares {
            let belief = exp_or_nothing(least - energies[k * width + labels - 1]);
            sum += belief;
            best = larger(best, shares[k] * belief);
        }
        *lump = [sum, best / larger(sum, f32::MIN_POSITIVE), least];
    }
    for lump in lumps.iter_mut() {
        lump[0] = if lump[0] > f32::MIN_POSITIVE { -ln_positive(lump[0]) } else { f32::INFINITY };
    }
}

/// The largest of the lanes of every row that `gone` has a one for.
#[inline(always)]
pub(crate) fn best_of_gone<V: Eight>(rows: &[f32], stride: usize, gone: &[f32], out: &mut [f32]) {
    let (gone, _) = gone.as_chunks::<LANES>();
    for (row, out) in rows.chunks_exact(stride).zip(out) {
        let mut best = V::all(0.0);
        for (lanes, gone) in row.as_chunks::<LANES>().0.iter().zip(gone) {
            best = best.larger(V::load(lanes).mul(V::load(gone)));
        }
        *out = best.largest();
    }
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
            let mut valued = rows.clone();
            let value = softmax_lanes_with_value(&mut valued, stride, labels, 2.0, given.map(|e| &e[..3 * labels]));
            softmax_lanes::<[f32; LANES]>(&mut rows, stride, labels, 2.0, given);
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
