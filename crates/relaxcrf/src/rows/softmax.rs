//! Softmax of rows, with and without its free energy.
// Loops over lanes index several arrays at once: that is what becomes vector code.
#![allow(clippy::needless_range_loop)]

use super::*;

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
