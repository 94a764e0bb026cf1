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

mod bins;
mod layers;

pub use self::bins::{Bins, MAX_BINS, huber_table, sign_table};
pub use self::layers::{Layers, MAX_CELLS};
pub(crate) use crate::lattice::LocalValues;
use crate::operator::{Direction, Operator, Scaling, Workspace, check_sizes};

/// Bins that stand in for single pairs where an operator cannot see them.
const BINS_INSTEAD_OF_PAIRS: usize = 256;

/// Points sorted into bins, and a weight for every pair of bins: what the ordered sums of the LP, the energy of a
/// labelling, and the smoothed LP have in common.
#[derive(Debug, Clone, Copy)]
pub struct Binned<'a> {
    /// The bin of each point, below `count`.
    pub bins: &'a [u16],
    /// Number of bins.
    pub count: usize,
    /// `count` x `count` weights, row-major: `table[bin_a * count + bin_b]`.
    pub table: &'a [f32],
}

impl Binned<'_> {
    /// Panics unless the sizes fit `points` points: a mismatch is a mistake in the caller.
    pub(crate) fn check(&self, points: usize) {
        assert_eq!(self.bins.len(), points, "one bin is needed for each point");
        assert_eq!(self.table.len(), self.count * self.count, "the table must be square");
        debug_assert!(self.bins.iter().all(|&bin| usize::from(bin) < self.count), "bins lie below the count");
    }
}

/// Sums by rank, by bin and by the softened order, for operators that compute them faster than through whole
/// [`Operator::apply`] calls. [`binned_sums`], [`softened_sums`], [`sums_between`] and [`ordered`] serve every operator.
pub trait Ordered: Operator {
    /// `out_a (+)= gain · left_a · Σ_b K_ab · right_b · table[bin_a][bin_b]`, one value per point.
    ///
    /// With a table of signs this is the ordered filter of the LP; with label costs it is the pairwise energy of a
    /// labelling. The default filters one indicator channel per bin.
    fn apply_binned(&self, binned: Binned, scaling: Scaling, out: &mut [f32], workspace: &mut Workspace) {
        binned_by_indicators(self, binned, scaling, out, workspace);
    }

    /// What is to be subtracted from the row sums for the softened order of the values, with k the part in which point
    /// a's value lies and t its place there:
    /// `out_a (+)= gain · left_a · Σ_b K_ab · right_b · (ramp_k+1(b) + (1 - t) ramp_k(b) + t ramp_k+2(b))`.
    ///
    /// The ramps before the first part and behind the last count as zero. The default filters one channel per ramp.
    fn apply_softened(&self, layers: Layers, scaling: Scaling, out: &mut [f32], workspace: &mut Workspace) {
        layers::by_ramps(self, layers, scaling, out, workspace);
    }

    /// The ordered filter of the LP for every channel:
    /// `out_a (+)= gain · left_a · (Σ_{b: y_b < y_a} K_ab · right_b − Σ_{b: y_b > y_a} K_ab · right_b)`.
    ///
    /// Equal values contribute nothing. Operators that cannot see single pairs sort the values (from 0 to 1) into one
    /// bin per distinct value, or into 256 bins where there are more.
    fn apply_ordered(
        &self,
        values: &[f32],
        channels: usize,
        scaling: Scaling,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) {
        by_bins(self, values, channels, BINS_INSTEAD_OF_PAIRS, scaling, out, workspace);
    }

    /// Adds to each target what a set of sources contributes to it:
    /// `out_a += gain · left_a · Σ_{b in sources} K_ab · right_b` for `a` in `targets`; other rows stay as they are,
    /// and `scaling.add` plays no part.
    ///
    /// This should cost in proportion to the two lists; the default filters an indicator of the sources.
    fn apply_between(
        &self,
        sources: &[u32],
        targets: &[u32],
        scaling: Scaling,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) {
        between_by_indicator(self, sources, targets, scaling, out, workspace);
    }

    /// The ordered filter of one channel by divide and conquer: adds to `out`, with the points in the `order` of their
    /// values. Sets of at most `leaf` points are done pair by pair; pairs whose kernel value is not known count as ties.
    ///
    /// This should cost O(log N) filter calls; the default filters halves into each other with
    /// [`Ordered::apply_between`]. An operator may leave contributions out, as long as those of a pair stay opposite to
    /// each other and within its kernel value.
    fn apply_by_halves(
        &self,
        values: &[f32],
        order: &[u32],
        leaf: usize,
        scaling: Scaling,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) {
        Halves { operator: self, values, leaf, scaling }.solve(order, out, workspace);
    }

    /// The kernel value of one pair, where it is cheaply known.
    fn pair(&self, _a: u32, _b: u32) -> Option<f32> {
        None
    }
}

/// [`Ordered::apply_binned`] of any operator.
pub fn binned_sums(
    operator: &(impl Operator + ?Sized),
    binned: Binned,
    scaling: Scaling,
    out: &mut [f32],
    workspace: &mut Workspace,
) {
    match operator.ordered() {
        Some(o) => o.apply_binned(binned, scaling, out, workspace),
        None => binned_by_indicators(operator, binned, scaling, out, workspace),
    }
}

/// [`Ordered::apply_softened`] of any operator.
pub fn softened_sums(
    operator: &(impl Operator + ?Sized),
    layers: Layers,
    scaling: Scaling,
    out: &mut [f32],
    workspace: &mut Workspace,
) {
    match operator.ordered() {
        Some(o) => o.apply_softened(layers, scaling, out, workspace),
        None => layers::by_ramps(operator, layers, scaling, out, workspace),
    }
}

/// [`Ordered::apply_between`] of any operator.
pub fn sums_between(
    operator: &(impl Operator + ?Sized),
    sources: &[u32],
    targets: &[u32],
    scaling: Scaling,
    out: &mut [f32],
    workspace: &mut Workspace,
) {
    match operator.ordered() {
        Some(o) => o.apply_between(sources, targets, scaling, out, workspace),
        None => between_by_indicator(operator, sources, targets, scaling, out, workspace),
    }
}

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

/// The ordered filter of `values` (N x `channels`) for every channel, scaled as in [`Operator::apply`]:
/// `out_a (+)= gain · left_a · Σ_b sign(y_a − y_b) · K_ab · right_b`.
///
/// # Panics
/// If the arrays do not have the sizes they state.
pub fn ordered(
    operator: &dyn Operator,
    values: &[f32],
    channels: usize,
    mode: OrderedMode,
    scaling: Scaling,
    out: &mut [f32],
    workspace: &mut Workspace,
) {
    match mode {
        OrderedMode::Exact => match operator.ordered() {
            Some(o) => o.apply_ordered(values, channels, scaling, out, workspace),
            None => by_bins(operator, values, channels, BINS_INSTEAD_OF_PAIRS, scaling, out, workspace),
        },
        OrderedMode::Binned { bins } => by_bins(operator, values, channels, bins, scaling, out, workspace),
        OrderedMode::DivideAndConquer { leaf } => {
            let solve = |column: &[f32], result: &mut [f32], workspace: &mut Workspace| {
                result.fill(0.0);
                let mut order: Vec<u32> = (0..column.len() as u32).collect();
                order.sort_unstable_by(|&a, &b| {
                    column[a as usize].total_cmp(&column[b as usize]).then(a.cmp(&b))
                });
                match operator.ordered() {
                    Some(o) => o.apply_by_halves(column, &order, leaf, scaling, result, workspace),
                    None => {
                        Halves { operator, values: column, leaf, scaling }.solve(&order, result, workspace)
                    }
                }
            };
            by_columns(operator.points(), values, channels, scaling, out, workspace, solve);
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
    operator: &(impl Operator + ?Sized),
    values: &[f32],
    channels: usize,
    mut bins_and_table: impl FnMut(&[f32]) -> (Bins, Vec<f32>),
    scaling: Scaling,
    out: &mut [f32],
    workspace: &mut Workspace,
) {
    let solve = |column: &[f32], result: &mut [f32], workspace: &mut Workspace| {
        let (bins, table) = bins_and_table(column);
        let inner = Scaling { add: false, ..scaling };
        binned_sums(operator, bins.with_table(&table), inner, result, workspace);
    };
    by_columns(operator.points(), values, channels, scaling, out, workspace, solve);
}

/// The ordered filter through at most `max` adaptive bins a channel.
fn by_bins<F: Operator + ?Sized>(
    operator: &F,
    values: &[f32],
    channels: usize,
    max: usize,
    scaling: Scaling,
    out: &mut [f32],
    workspace: &mut Workspace,
) {
    let signs = |column: &[f32]| {
        let bins = Bins::adaptive(column, max);
        let table = sign_table(bins.count());
        (bins, table)
    };
    binned_channels(operator, values, channels, signs, scaling, out, workspace);
}

/// Runs `solve(column, result, workspace)` for every channel and stores or adds the results.
fn by_columns(
    points: usize,
    values: &[f32],
    channels: usize,
    scaling: Scaling,
    out: &mut [f32],
    workspace: &mut Workspace,
    mut solve: impl FnMut(&[f32], &mut [f32], &mut Workspace),
) {
    check_sizes(points, channels, values.len(), out.len(), &scaling);
    let mut column = std::mem::take(&mut workspace.column);
    let mut result = std::mem::take(&mut workspace.result);
    for c in 0..channels {
        column.clear();
        column.extend(values.iter().skip(c).step_by(channels));
        result.clear();
        result.resize(points, 0.0);
        solve(&column, &mut result, workspace);
        for (o, &z) in out.iter_mut().skip(c).step_by(channels).zip(&result) {
            *o = if scaling.add { *o + z } else { z };
        }
    }
    workspace.column = column;
    workspace.result = result;
}

/// One channel of the divide and conquer.
struct Halves<'a, F: ?Sized> {
    operator: &'a F,
    values: &'a [f32],
    leaf: usize,
    scaling: Scaling<'a>,
}

impl<F: Operator + ?Sized> Halves<'_, F> {
    /// Adds the contributions of all pairs within `order` (points by rising value) to `out`.
    fn solve(&self, order: &[u32], out: &mut [f32], workspace: &mut Workspace) {
        let value = |k: usize| self.values[order[k] as usize];
        let Some(middle) = middle_of(order.len(), value) else { return };
        if order.len() <= self.leaf {
            self.pair_by_pair(order, out);
            return;
        }
        let (low, high) = order.split_at(middle);
        let down = Scaling { gain: -self.scaling.gain, ..self.scaling };
        sums_between(self.operator, low, high, self.scaling, out, workspace);
        sums_between(self.operator, high, low, down, out, workspace);
        self.solve(low, out, workspace);
        self.solve(high, out, workspace);
    }

    /// All pairs of a leaf; pairs whose kernel value is not known count as ties.
    fn pair_by_pair(&self, order: &[u32], out: &mut [f32]) {
        let scaling = &self.scaling;
        for (i, &a) in order.iter().enumerate() {
            for &b in &order[i + 1..] {
                if self.values[b as usize] > self.values[a as usize]
                    && let Some(k) = self.operator.ordered().and_then(|o| o.pair(a, b))
                {
                    out[a as usize] -= scaling.out(a as usize) * k * scaling.input(b as usize);
                    out[b as usize] += scaling.out(b as usize) * k * scaling.input(a as usize);
                }
            }
        }
    }
}

/// The place nearest to the middle of `points` rising values where the value changes: equal values stay together, so that
/// ties count as ties. `None` when all are equal. A large group of equal values is alone after two cuts, so the depth
/// stays logarithmic.
pub(crate) fn middle_of(points: usize, value: impl Fn(usize) -> f32) -> Option<usize> {
    if points < 2 {
        return None;
    }
    let half = points / 2;
    let pivot = value(half);
    let first_of = |from: usize, to: usize, is_before: &dyn Fn(f32) -> bool| {
        let (mut low, mut high) = (from, to);
        while low < high {
            let at = low + (high - low) / 2;
            if is_before(value(at)) { low = at + 1 } else { high = at }
        }
        low
    };
    let below = first_of(0, half, &|v| v < pivot);
    let above = first_of(half, points, &|v| v <= pivot);
    match (below > 0, above < points) {
        (true, true) if above - half < half - below => Some(above),
        (true, _) => Some(below),
        (false, true) => Some(above),
        (false, false) => None,
    }
}

/// [`Ordered::apply_between`] of any operator, at the cost of a whole filter call.
pub(crate) fn between_by_indicator<F: Operator + ?Sized>(
    operator: &F,
    sources: &[u32],
    targets: &[u32],
    scaling: Scaling,
    out: &mut [f32],
    workspace: &mut Workspace,
) {
    let mut indicator = vec![0.0; operator.points()];
    for &b in sources {
        indicator[b as usize] = 1.0;
    }
    let mut sums = vec![0.0; operator.points()];
    let inner = Scaling { right: scaling.right, ..Scaling::NONE };
    operator.apply(Direction::Forward, &indicator, 1, inner, &mut sums, workspace);
    for &a in targets {
        out[a as usize] += scaling.out(a as usize) * sums[a as usize];
    }
}

/// [`Ordered::apply_binned`] of any operator: one indicator channel per bin, in blocks of bins.
fn binned_by_indicators<F: Operator + ?Sized>(
    operator: &F,
    binned: Binned,
    scaling: Scaling,
    out: &mut [f32],
    workspace: &mut Workspace,
) {
    const BINS_PER_CALL: usize = 16;
    let n = operator.points();
    binned.check(n);
    if !scaling.add {
        out.fill(0.0);
    }
    let inner = Scaling { left: None, right: scaling.right, gain: 1.0, add: false };
    for start in (0..binned.count).step_by(BINS_PER_CALL) {
        let width = BINS_PER_CALL.min(binned.count - start);
        let mut indicator = vec![0.0; n * width];
        for (row, &bin) in indicator.chunks_exact_mut(width).zip(binned.bins) {
            if let Some(x) = row.get_mut(usize::from(bin).wrapping_sub(start)) {
                *x = 1.0;
            }
        }
        let mut sums = vec![0.0; n * width];
        operator.apply(Direction::Forward, &indicator, width, inner, &mut sums, workspace);
        for (a, (row, o)) in sums.chunks_exact(width).zip(out.iter_mut()).enumerate() {
            let weights = &binned.table[usize::from(binned.bins[a]) * binned.count + start..][..width];
            *o += scaling.out(a) * row.iter().zip(weights).map(|(&x, &w)| x * w).sum::<f32>();
        }
    }
}

#[cfg(test)]
mod tests;
