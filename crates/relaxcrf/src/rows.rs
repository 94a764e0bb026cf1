//! Row operations on beliefs with vectors of eight lanes, one row of labels per point.
// Loops over lanes index several arrays at once: that is what becomes vector code.
#![allow(clippy::needless_range_loop)]

pub(crate) mod gather;
mod rest;
pub mod simplex;
mod softmax;

use relaxcrf_filter::simd::*;

pub(crate) use self::rest::LARGEST_LOGIT;

/// Defines a function that runs `$body`, compiled for the vectors V of the CPU.
macro_rules! vector_fn {
    (
        $(#[$doc:meta])*
        $vis:vis fn $name:ident ($($arg:ident : $ty:ty),* $(,)?) -> $out:ty = $body:expr
    ) => {
        $(#[$doc])*
        $vis fn $name<'a>($($arg: $ty),*) -> $out {
            struct Call<'a> {
                $($arg: $ty),*
            }
            impl Work for Call<'_> {
                type Output = $out;
                #[inline(always)]
                fn run<V: Eight>(self) -> $out {
                    $body($(self.$arg),*)
                }
            }
            wide(Call { $($arg),* })
        }
    };
}

vector_fn! {
    /// `softmax(factor · rows - energies)`.
    pub(crate) fn softmax_rows(
        rows: &'a mut [f32], stride: usize, labels: usize, factor: f32, energies: Option<&'a [f32]>,
    ) -> () = softmax::softmax_lanes::<V>
}
vector_fn! {
    /// The same, with the rows' own part of the free energy.
    pub(crate) fn softmax_rows_with_value(
        rows: &'a mut [f32], stride: usize, labels: usize, factor: f32, energies: Option<&'a [f32]>,
    ) -> f64 = softmax::softmax_lanes_with_value
}
vector_fn! {
    /// The same where the last label stands for several.
    pub(crate) fn softmax_with_rest(
        rows: &'a mut [f32], stride: usize, labels: usize, energies: &'a [f32], shares: &'a [f32],
    ) -> (f32, f32) = rest::softmax_with_rest::<V>
}
vector_fn! {
    /// Several labels of each row as one.
    pub(crate) fn lump_rows(
        energies: &'a [f32], width: usize, labels: usize, gone: &'a [f32], shares: Option<&'a [f32]>,
        lumps: &'a mut [[f32; 3]],
    ) -> () = rest::lump_rows::<V>
}
vector_fn! {
    /// The largest of some lanes of every row.
    pub(crate) fn best_of_gone(
        rows: &'a [f32], stride: usize, gone: &'a [f32], out: &'a mut [f32],
    ) -> () = rest::best_of_gone::<V>
}
vector_fn! {
    /// The pairwise value of the Potts model.
    pub(crate) fn potts_value(rows: &'a [f32], stride: usize, labels: usize, y: &'a [f32]) -> f64 = potts_lanes
}
vector_fn! {
    /// The logistic function of every value.
    pub(crate) fn logistic(values: &'a mut [f32]) -> () = logistic_lanes
}

/// `Σ_rows (Σ_i y_i Σ_j k_j - Σ_i y_i k_i)` for rows k that are `stride` apart and y packed tightly: the pairwise value
/// of the Potts model, given K y.
#[inline(always)]
fn potts_lanes(rows: &[f32], stride: usize, labels: usize, y: &[f32]) -> f64 {
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

/// `1 / (1 + exp(-v))`.
#[inline(always)]
fn logistic_lanes(values: &mut [f32]) {
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
    use crate::rows::simplex::softmax;
    use proptest::prelude::*;

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
            let value = softmax::softmax_lanes_with_value(&mut valued, stride, labels, 2.0, given);
            let believed = want[..3].iter().flatten().enumerate().filter(|(_, y)| **y > 0.0);
            let want_value: f64 = believed
                .map(|(at, &y)| f64::from(y) * (f64::from(y).ln() + f64::from(given.map_or(0.0, |e| e[at]))))
                .sum();
            prop_assert!((value - want_value).abs() < 1e-4, "{} for {}", value, want_value);
            softmax::softmax_lanes::<[f32; LANES]>(&mut rows, stride, labels, 2.0, given);
            for (k, want) in want.iter().enumerate() {
                for (i, w) in want.iter().enumerate() {
                    prop_assert!((rows[k * stride + i] - w).abs() < 1e-6);
                    prop_assert!(k > 2 || (valued[k * stride + i] - w).abs() < 1e-6);
                }
                prop_assert!(rows[k * stride + labels..(k + 1) * stride].iter().all(|&v| v == 0.0));
            }
            let mut out = vec![0.0; 5 * labels];
            keep_rows(&rows, stride, labels, &mut out);
            prop_assert_eq!(&out[2 * labels..3 * labels], &rows[2 * stride..2 * stride + labels]);
        }
    }
}
