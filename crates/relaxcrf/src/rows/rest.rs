//! Rows in which one lane stands for all the labels that have been dropped.
// Loops over lanes index several arrays at once: that is what becomes vector code.
#![allow(clippy::needless_range_loop)]

use super::*;

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
