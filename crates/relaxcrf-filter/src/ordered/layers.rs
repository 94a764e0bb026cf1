//! The softened order: what the smoothed LP needs where the plain one needs the order itself.
//!
//! The interval from 0 to 1 is cut into `cells` equal parts. Between two values in different parts the order
//! counts in full, between values in the same part in proportion to their distance, and in between where
//! they are neighbours. As a function of both values that is bilinear between the ends of the parts:
//!
//! `f(u, v) = Σ_hh' hat_h(u) sign(h - h') hat_h'(v)`, hat_h the tent over knot h.
//!
//! So f is antisymmetric and never beyond ±1 *exactly*, whatever the values, and `z_a = Σ_b K_ab f(u_a, u_b)`
//! certifies a bound as the order itself does. Unlike bins, it also moves with the values, so gradient
//! methods work on it. With `ramp_h` rising from 0 to 1 over part h, and k, t the part and place of u_a:
//!
//! `z_a = Σ_b K_ab - (K ramp_k+1)_a - (1 - t) (K ramp_k)_a - t (K ramp_k+2)_a`,
//!
//! where ramp_0 is one everywhere and the ramp behind the last part zero: `cells` channels are filtered, and
//! three of them read at each point.

use crate::operator::{Direction, Operator, Scaling, Workspace};

/// Values between 0 and 1, one per point, and the number of equal parts between them.
#[derive(Debug, Clone, Copy)]
pub struct Layers<'a> {
    /// One value per point; values outside count as 0 or 1.
    pub values: &'a [f32],
    /// At least 1, at most [`MAX_CELLS`].
    pub cells: usize,
}

/// Most parts: they have one knot more, and so many are the widest row of a lattice's tables.
pub const MAX_CELLS: usize = 31;

impl Layers<'_> {
    /// The part in which a value lies and how far along it, from 0 to 1.
    #[inline(always)]
    pub fn place(&self, value: f32) -> (usize, f32) {
        let unit = if value > 0.0 { value.min(1.0) } else { 0.0 };
        let u = unit * self.cells as f32;
        let part = (u as usize).min(self.cells - 1);
        (part, u - part as f32)
    }

    /// The share of the points' whole row sum in the softened order, before the ramps are taken off.
    #[inline(always)]
    pub fn share_of_row_sum(&self, value: f32) -> f32 {
        match self.place(value) {
            (0, t) => t,
            _ => 1.0,
        }
    }

    pub(crate) fn check(&self, points: usize) {
        assert_eq!(self.values.len(), points, "one value is needed for each point");
        assert!((1..=MAX_CELLS).contains(&self.cells), "1 to {MAX_CELLS} parts");
    }
}

/// [`Operator::apply_softened`] for any operator: one channel per ramp.
pub(super) fn by_ramps<F: Operator + ?Sized>(
    filter: &F,
    layers: Layers,
    scaling: Scaling,
    out: &mut [f32],
    workspace: &mut Workspace,
) {
    layers.check(filter.points());
    let cells = layers.cells;
    let mut ramps = vec![0.0; filter.points() * cells];
    for (row, &v) in ramps.chunks_exact_mut(cells).zip(layers.values) {
        let (k, t) = layers.place(v);
        row[..k].fill(1.0);
        row[k] = t;
    }
    let mut sums = vec![0.0; ramps.len()];
    let inner = Scaling { left: None, right: scaling.right, gain: 1.0, add: false };
    filter.apply(Direction::Forward, &ramps, cells, inner, &mut sums, workspace);
    for (a, ((row, o), &v)) in sums.chunks_exact(cells).zip(out.iter_mut()).zip(layers.values).enumerate() {
        let (k, t) = layers.place(v);
        let below = if k > 0 { row[k - 1] } else { 0.0 };
        let above = row.get(k + 1).copied().unwrap_or(0.0);
        let sum = scaling.out(a) * (row[k] + (1.0 - t) * below + t * above);
        *o = if scaling.add { *o + sum } else { sum };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::{Blur, Exact, Lattice, Ordered};

    const POINTS: usize = 300;

    fn features(rng: &mut Rng, dims: usize) -> Vec<f32> {
        (0..POINTS * dims).map(|_| 4.0 * rng.next_f64() as f32).collect()
    }

    /// Mostly zeros and ones, as beliefs are, and some beyond.
    fn values(rng: &mut Rng) -> Vec<f32> {
        let kinds = |k: usize, u: f32| [0.0, 1.0, u, u * u, 1.4 * u - 0.2][k % 5];
        (0..POINTS).map(|k| kinds(k, rng.next_f64() as f32)).collect()
    }

    #[test]
    fn lattices_read_back_what_ramps_would() {
        let mut rng = Rng::new(17);
        for dims in [2, 5] {
            let features = features(&mut rng, dims);
            let factors: Vec<f32> = (0..POINTS).map(|_| 0.5 + rng.next_f64() as f32).collect();
            for blur in [Blur::Classic, Blur::Symmetric] {
                let lattice = Lattice::new(&features, dims, blur).unwrap();
                for cells in [1, 2, 3, 7, 15, 23, 31] {
                    let values = values(&mut rng);
                    let layers = Layers { values: &values, cells };
                    let scaling =
                        Scaling { left: Some(&factors), right: Some(&factors), gain: 0.7, add: true };
                    let (mut got, mut want) = (vec![1.0; POINTS], vec![1.0; POINTS]);
                    lattice.apply_softened(layers, scaling, &mut got, &mut Workspace::new());
                    by_ramps(&lattice, layers, scaling, &mut want, &mut Workspace::new());
                    for (g, w) in got.iter().zip(&want) {
                        assert!((g - w).abs() <= 1e-4 * (1.0 + w.abs()), "{cells} cells: {g} instead of {w}");
                    }
                }
            }
        }
    }

    #[test]
    fn weights_of_pairs_are_antisymmetric_and_at_most_one() {
        let mut rng = Rng::new(3);
        let filter = Exact::new(features(&mut rng, 2), 2).unwrap();
        let (mut ones, mut sums) = (vec![0.0; POINTS], vec![0.0; POINTS]);
        filter.apply(
            Direction::Forward,
            &vec![1.0; POINTS],
            1,
            Scaling::NONE,
            &mut ones,
            &mut Workspace::new(),
        );
        for cells in [1, 4, 15] {
            let values = values(&mut rng);
            let layers = Layers { values: &values, cells };
            filter.apply_softened(layers, Scaling::NONE, &mut sums, &mut Workspace::new());
            // The bilinear form, pair by pair.
            let tents = |v: f32| {
                let (part, place) = layers.place(v);
                [(part, 1.0 - place), (part + 1, place)]
            };
            let weight = |u: f32, v: f32| {
                let mut total = 0.0;
                for (h, x) in tents(u) {
                    for (other, y) in tents(v) {
                        total += x * y * (h as f32 - other as f32).clamp(-1.0, 1.0);
                    }
                }
                total
            };
            let mut total = 0.0;
            for a in 0..POINTS {
                let want: f32 = (0..POINTS)
                    .map(|b| {
                        let f = weight(values[a], values[b]);
                        assert!(f.abs() <= 1.0 + 1e-6 && (f + weight(values[b], values[a])).abs() < 1e-6);
                        f * filter.pair(a as u32, b as u32).unwrap()
                    })
                    .sum();
                let got = layers.share_of_row_sum(values[a]) * ones[a] - sums[a];
                assert!((got - want).abs() < 1e-3 * (1.0 + ones[a]), "{got} instead of {want}");
                total += got;
            }
            assert!(total.abs() < 1e-2 * ones.iter().sum::<f32>().sqrt(), "{total}");
        }
    }
}
