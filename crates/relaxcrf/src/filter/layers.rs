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

use super::{Direction, Filter, Scaling, Scratch};

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
        // NaN becomes 0.
        let u = value.max(0.0).min(1.0) * self.cells as f32;
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

    pub(super) fn check(&self, points: usize) {
        assert_eq!(self.values.len(), points, "one value is needed for each point");
        assert!((1..=MAX_CELLS).contains(&self.cells), "1 to {MAX_CELLS} parts");
    }
}

/// [`Filter::apply_layers`] for any operator: one channel per ramp.
pub(super) fn by_ramps<F: Filter + ?Sized>(
    filter: &F,
    layers: Layers,
    scaling: Scaling,
    out: &mut [f32],
    scratch: &mut Scratch,
) {
    layers.check(filter.len());
    let cells = layers.cells;
    let mut ramps = vec![0.0; filter.len() * cells];
    for (row, &v) in ramps.chunks_exact_mut(cells).zip(layers.values) {
        let (k, t) = layers.place(v);
        row[..k].fill(1.0);
        row[k] = t;
    }
    let mut sums = vec![0.0; ramps.len()];
    let inner = Scaling { left: None, right: scaling.right, gain: 1.0, add: false };
    filter.apply(Direction::Forward, &ramps, cells, inner, &mut sums, scratch);
    for (a, ((row, o), &v)) in sums.chunks_exact(cells).zip(out.iter_mut()).zip(layers.values).enumerate() {
        let (k, t) = layers.place(v);
        let below = if k > 0 { row[k - 1] } else { 0.0 };
        let above = row.get(k + 1).copied().unwrap_or(0.0);
        let sum = scaling.out(a) * (row[k] + (1.0 - t) * below + t * above);
        *o = if scaling.add { *o + sum } else { sum };
    }
}
