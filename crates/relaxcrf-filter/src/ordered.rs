//! The ordered filter: what the LP relaxation needs where the other methods need K x.
//!
//! For every channel, `z_a = Σ_{b: y_b < y_a} K_ab − Σ_{b: y_b > y_a} K_ab`, a subgradient of the total variation
//! `TV(y) = Σ_{a<b} K_ab |y_a − y_b|`, with `<z, y> = TV(y)`. Ties give nothing, so z is antisymmetric in the pairs
//! and certifies a lower bound however the order was found:
//!
//! | mode | order | cost of one channel |
//! |---|---|---|
//! | [`OrderedMode::Exact`] | of every pair | all pairs with the exact filter, 256 bins with others |
//! | [`OrderedMode::Binned`] | of bins; pairs within one count as ties | one filter call of as many channels as bins |
//! | [`OrderedMode::DivideAndConquer`] | of every pair, halving the sorted points | O(log N) filter calls |

use super::{Bins, Filter, Scaling, Scratch, check_sizes, sign_table};

/// Bins that stand in for single pairs where a filter cannot see them.
pub(super) const BINS_INSTEAD_OF_PAIRS: usize = 256;

/// How the order of the values is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderedMode {
    /// Every pair, if the filter can; otherwise so many bins that it makes no difference.
    Exact,
    /// Adaptive bins (see [`Bins::adaptive`]); values are taken to lie between 0 and 1.
    Binned {
        /// Most bins per channel.
        bins: usize,
    },
    /// Sort, halve, filter each half into the other, and go on within the halves.
    DivideAndConquer {
        /// Sets of at most this many points are done pair by pair.
        leaf: usize,
    },
}

/// The ordered filter of `values` (N x `channels`) for every channel, scaled as in [`Filter::apply`]:
/// `out_a (+)= gain · left_a · Σ_b sign(y_a − y_b) · K_ab · right_b`.
///
/// # Panics
/// If the arrays do not have the sizes they state.
pub fn ordered(
    filter: &dyn Filter,
    values: &[f32],
    channels: usize,
    mode: OrderedMode,
    scaling: Scaling,
    out: &mut [f32],
    scratch: &mut Scratch,
) {
    match mode {
        OrderedMode::Exact => filter.apply_ordered(values, channels, scaling, out, scratch),
        OrderedMode::Binned { bins } => by_bins(filter, values, channels, bins, scaling, out, scratch),
        OrderedMode::DivideAndConquer { leaf } => {
            let solve = |column: &[f32], result: &mut [f32], scratch: &mut Scratch| {
                result.fill(0.0);
                let mut order: Vec<u32> = (0..column.len() as u32).collect();
                order.sort_unstable_by(|&a, &b| {
                    column[a as usize].total_cmp(&column[b as usize]).then(a.cmp(&b))
                });
                Halves { filter, values: column, leaf, scaling }.solve(&order, result, scratch);
            };
            by_columns(filter.len(), values, channels, scaling, out, scratch, solve);
        }
    }
}

/// The filter with a table over bins, one channel after the other: `bins_and_table` is given each channel's values.
///
/// [`ordered`] is this with a table of signs; the smoothed LP passes a Huber table instead.
///
/// # Panics
/// If the arrays do not have the sizes they state.
pub fn binned_channels(
    filter: &(impl Filter + ?Sized),
    values: &[f32],
    channels: usize,
    mut bins_and_table: impl FnMut(&[f32]) -> (Bins, Vec<f32>),
    scaling: Scaling,
    out: &mut [f32],
    scratch: &mut Scratch,
) {
    let solve = |column: &[f32], result: &mut [f32], scratch: &mut Scratch| {
        let (bins, table) = bins_and_table(column);
        let inner = Scaling { add: false, ..scaling };
        filter.apply_binned(bins.with_table(&table), inner, result, scratch);
    };
    by_columns(filter.len(), values, channels, scaling, out, scratch, solve);
}

/// The ordered filter through at most `max` adaptive bins a channel.
pub(super) fn by_bins<F: Filter + ?Sized>(
    filter: &F,
    values: &[f32],
    channels: usize,
    max: usize,
    scaling: Scaling,
    out: &mut [f32],
    scratch: &mut Scratch,
) {
    let signs = |column: &[f32]| {
        let bins = Bins::adaptive(column, max);
        let table = sign_table(bins.count());
        (bins, table)
    };
    binned_channels(filter, values, channels, signs, scaling, out, scratch);
}

/// Runs `solve(column, result, scratch)` for every channel and stores or adds the results.
fn by_columns(
    points: usize,
    values: &[f32],
    channels: usize,
    scaling: Scaling,
    out: &mut [f32],
    scratch: &mut Scratch,
    mut solve: impl FnMut(&[f32], &mut [f32], &mut Scratch),
) {
    check_sizes(points, channels, values.len(), out.len(), &scaling);
    let mut column = std::mem::take(&mut scratch.column);
    let mut result = std::mem::take(&mut scratch.result);
    for c in 0..channels {
        column.clear();
        column.extend(values.iter().skip(c).step_by(channels));
        result.clear();
        result.resize(points, 0.0);
        solve(&column, &mut result, scratch);
        for (o, &z) in out.iter_mut().skip(c).step_by(channels).zip(&result) {
            *o = if scaling.add { *o + z } else { z };
        }
    }
    scratch.column = column;
    scratch.result = result;
}

/// One channel of the divide and conquer.
struct Halves<'a> {
    filter: &'a dyn Filter,
    values: &'a [f32],
    leaf: usize,
    scaling: Scaling<'a>,
}

impl Halves<'_> {
    /// Adds the contributions of all pairs within `order` (points by rising value) to `out`.
    fn solve(&self, order: &[u32], out: &mut [f32], scratch: &mut Scratch) {
        let Some(middle) = self.middle(order) else { return };
        if order.len() <= self.leaf {
            self.pair_by_pair(order, out);
            return;
        }
        let (low, high) = order.split_at(middle);
        let down = Scaling { gain: -self.scaling.gain, ..self.scaling };
        self.filter.apply_between(low, high, self.scaling, out, scratch);
        self.filter.apply_between(high, low, down, out, scratch);
        self.solve(low, out, scratch);
        self.solve(high, out, scratch);
    }

    /// The place nearest to the middle where the value changes: equal values stay together, so that ties count
    /// as ties. `None` when all are equal. A large group of equal values is alone after two cuts, so the depth
    /// stays logarithmic.
    fn middle(&self, order: &[u32]) -> Option<usize> {
        if order.len() < 2 {
            return None;
        }
        let value = |a: u32| self.values[a as usize];
        let half = order.len() / 2;
        let pivot = value(order[half]);
        let below = order[..half].partition_point(|&a| value(a) < pivot);
        let above = half + order[half..].partition_point(|&a| value(a) <= pivot);
        match (below > 0, above < order.len()) {
            (true, true) if above - half < half - below => Some(above),
            (true, _) => Some(below),
            (false, true) => Some(above),
            (false, false) => None,
        }
    }

    /// All pairs of a leaf; pairs whose kernel value is not known count as ties.
    fn pair_by_pair(&self, order: &[u32], out: &mut [f32]) {
        let scaling = &self.scaling;
        for (i, &a) in order.iter().enumerate() {
            for &b in &order[i + 1..] {
                if self.values[b as usize] > self.values[a as usize]
                    && let Some(k) = self.filter.pair(a, b)
                {
                    out[a as usize] -= scaling.out(a as usize) * k * scaling.input(b as usize);
                    out[b as usize] += scaling.out(b as usize) * k * scaling.input(a as usize);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
