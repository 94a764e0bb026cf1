//! Gaussian filters: linear operators K on any number of channels, `(K x)_a = Σ_b k(f_a, f_b) x_b`.
//!
//! A filter knows points and their features, never labels, images or weights. Three of them stand behind
//! one trait:
//!
//! | filter | operator | cost of one channel | use |
//! |---|---|---|---|
//! | [`Exact`] | the Gaussian sum itself | O(N²) | oracle, tiny problems, `energy --exact` |
//! | [`Lattice`] | permutohedral lattice, classic or symmetric | O(d² N) | everything else |
//! | [`Separable`] | the Gaussian on a grid, cut at 5.3 standard deviations | O(N σ) | narrow spatial kernels |
//!
//! Arrays are row-major, one row of `channels` values per point. The self pair (a = b) is part of K.

mod bins;
mod calibrate;
mod error;
mod exact;
pub mod lattice;
mod layers;
mod ordered;
pub mod reduce;
pub mod rng;
mod separable;
pub mod simd;

pub use bins::{Bins, MAX_BINS, huber_table, sign_table};
pub use calibrate::{Calibration, DEFAULT_SAMPLES, calibrate};
pub use error::{Error, Result};
pub use exact::Exact;
pub use lattice::{Blur, Lattice};
pub use layers::{Layers, MAX_CELLS};
pub use ordered::{OrderedMode, binned_channels, ordered};
pub use separable::Separable;

use std::fmt::Debug;

/// Which way an operator is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// K x.
    Forward,
    /// K' x: differs from `Forward` only for operators that are not symmetric.
    Transposed,
}

/// Diagonal scalings round an operator, so that a normalised and weighted kernel costs nothing extra:
/// `out_a (+)= gain · left_a · Σ_b K_ab · right_b · x_b`.
#[derive(Debug, Clone, Copy)]
pub struct Scaling<'a> {
    /// Factor of each output row; `None` is all ones.
    pub left: Option<&'a [f32]>,
    /// Factor of each input row; `None` is all ones.
    pub right: Option<&'a [f32]>,
    /// One factor for all.
    pub gain: f32,
    /// Whether the result is added to what `out` holds, or replaces it.
    pub add: bool,
}

impl Scaling<'_> {
    /// The bare operator.
    pub const NONE: Scaling<'static> = Scaling { left: None, right: None, gain: 1.0, add: false };

    /// `gain · left_a`.
    pub fn out(&self, a: usize) -> f32 {
        self.left.map_or(self.gain, |l| self.gain * l[a])
    }

    /// `right_b`.
    pub fn input(&self, b: usize) -> f32 {
        self.right.map_or(1.0, |r| r[b])
    }
}

/// Points sorted into bins, and a weight for every pair of bins: what the ordered filter of the LP,
/// the energy of a labelling, and the smoothed LP have in common.
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
    fn check(&self, points: usize) {
        assert_eq!(self.bins.len(), points, "one bin is needed for each point");
        assert_eq!(self.table.len(), self.count * self.count, "the table must be square");
        debug_assert!(self.bins.iter().all(|&bin| usize::from(bin) < self.count), "bins lie below the count");
    }
}

/// Buffers that filters reuse between calls. One per solve; never shared between threads.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) first: Vec<f32>,
    pub(crate) second: Vec<f32>,
    pub(crate) third: Vec<f32>,
    /// One channel of an array, and the result for it: used around filter calls, never inside them.
    pub(crate) column: Vec<f32>,
    pub(crate) result: Vec<f32>,
    /// Values on a few lattice vertices.
    pub(crate) reach: lattice::Reach,
}

impl Scratch {
    /// Empty buffers; they grow on first use.
    pub fn new() -> Self {
        Self::default()
    }
}

/// A linear operator with non-negative entries on N points.
///
/// All methods panic when the arrays do not have the sizes they state: that is a mistake in the calling code, not in
/// anyone's data.
pub trait Filter: Send + Sync + Debug {
    /// Name, as on the command line.
    fn name(&self) -> &'static str;

    /// Number of points N.
    fn len(&self) -> usize;

    /// Whether there are no points.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether K = K'. Bounds and monotone descent are promised only then.
    fn is_symmetric(&self) -> bool;

    /// Applies the scaled operator to `input` (N x `channels`) into `out` (same size).
    fn apply(
        &self,
        direction: Direction,
        input: &[f32],
        channels: usize,
        scaling: Scaling,
        out: &mut [f32],
        scratch: &mut Scratch,
    );

    /// `out_a (+)= gain · left_a · Σ_b K_ab · right_b · table[bin_a][bin_b]`, one value per point.
    ///
    /// With a table of signs this is the ordered filter of the LP; with the label compatibilities it is
    /// the pairwise energy of a labelling. The default filters one indicator channel per bin.
    fn apply_binned(&self, binned: Binned, scaling: Scaling, out: &mut [f32], scratch: &mut Scratch) {
        binned_by_indicators(self, binned, scaling, out, scratch);
    }

    /// What is to be taken off the row sums for the softened order of the values, with k the part in which point
    /// a's value lies and t its place there:
    /// `out_a (+)= gain · left_a · Σ_b K_ab · right_b · (ramp_k+1(b) + (1 - t) ramp_k(b) + t ramp_k+2(b))`.
    ///
    /// The ramps before the first part and behind the last count as zero. The default filters one channel per ramp.
    fn apply_layers(&self, layers: Layers, scaling: Scaling, out: &mut [f32], scratch: &mut Scratch) {
        layers::by_ramps(self, layers, scaling, out, scratch);
    }

    /// The ordered filter of the LP for every channel:
    /// `out_a (+)= gain · left_a · (Σ_{b: y_b < y_a} K_ab · right_b − Σ_{b: y_b > y_a} K_ab · right_b)`.
    ///
    /// Equal values give nothing. Filters that cannot see single pairs sort the values (from 0 to 1) into one bin
    /// per distinct value, or into 256 bins where there are more.
    fn apply_ordered(
        &self,
        values: &[f32],
        channels: usize,
        scaling: Scaling,
        out: &mut [f32],
        scratch: &mut Scratch,
    ) {
        ordered::by_bins(self, values, channels, ordered::BINS_INSTEAD_OF_PAIRS, scaling, out, scratch);
    }

    /// Adds to each target what a set of sources gives it:
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
        scratch: &mut Scratch,
    ) {
        between_by_indicator(self, sources, targets, scaling, out, scratch);
    }

    /// The kernel value of one pair, where it is cheaply known.
    fn pair(&self, _a: u32, _b: u32) -> Option<f32> {
        None
    }

    /// The diagonal K_aa.
    fn diagonal(&self) -> Vec<f32>;

    /// The vector that kernels are normalised by: K·1, of the forward operator.
    fn normalizer(&self) -> Vec<f32> {
        let ones = vec![1.0; self.len()];
        let mut out = vec![0.0; self.len()];
        self.apply(Direction::Forward, &ones, 1, Scaling::NONE, &mut out, &mut Scratch::new());
        out
    }

    /// The operator between some of its points, whose features these are: symmetric if it is, and no entry above its
    /// own. `None` where there is nothing faster than the whole.
    fn among(&self, _features: &[f32]) -> Option<Box<dyn Filter>> {
        None
    }

    /// The lattice behind it, if it is one: whole iterations can then be done in one pass.
    fn as_lattice(&self) -> Option<&Lattice> {
        None
    }

    /// Lattice vertices or taps: the size that drives the cost. Zero where it has no meaning.
    fn size_hint(&self) -> usize {
        0
    }
}

/// [`Filter::apply_between`] for any operator, at the cost of a whole filter call.
pub(crate) fn between_by_indicator<F: Filter + ?Sized>(
    filter: &F,
    sources: &[u32],
    targets: &[u32],
    scaling: Scaling,
    out: &mut [f32],
    scratch: &mut Scratch,
) {
    let mut indicator = vec![0.0; filter.len()];
    for &b in sources {
        indicator[b as usize] = 1.0;
    }
    let mut sums = vec![0.0; filter.len()];
    let inner = Scaling { right: scaling.right, ..Scaling::NONE };
    filter.apply(Direction::Forward, &indicator, 1, inner, &mut sums, scratch);
    for &a in targets {
        out[a as usize] += scaling.out(a as usize) * sums[a as usize];
    }
}

/// [`Filter::apply_binned`] for any operator: one indicator channel per bin, in blocks of bins.
pub(crate) fn binned_by_indicators<F: Filter + ?Sized>(
    filter: &F,
    binned: Binned,
    scaling: Scaling,
    out: &mut [f32],
    scratch: &mut Scratch,
) {
    const BLOCK: usize = 16;
    let n = filter.len();
    binned.check(n);
    if !scaling.add {
        out.fill(0.0);
    }
    let inner = Scaling { left: None, right: scaling.right, gain: 1.0, add: false };
    for start in (0..binned.count).step_by(BLOCK) {
        let width = BLOCK.min(binned.count - start);
        let mut indicator = vec![0.0; n * width];
        for (row, &bin) in indicator.chunks_exact_mut(width).zip(binned.bins) {
            if let Some(x) = row.get_mut(usize::from(bin).wrapping_sub(start)) {
                *x = 1.0;
            }
        }
        let mut sums = vec![0.0; n * width];
        filter.apply(Direction::Forward, &indicator, width, inner, &mut sums, scratch);
        for (a, (row, o)) in sums.chunks_exact(width).zip(out.iter_mut()).enumerate() {
            let weights = &binned.table[usize::from(binned.bins[a]) * binned.count + start..][..width];
            *o += scaling.out(a) * row.iter().zip(weights).map(|(&x, &w)| x * w).sum::<f32>();
        }
    }
}

/// Fails unless `features` are whole rows of 1 to `most` finite numbers.
fn check_features(features: &[f32], dims: usize, most: usize, filter: &'static str) -> Result<()> {
    if dims == 0 || dims > most {
        return Err(Error::value("number of feature dimensions", dims, format!("1 to {most}")));
    }
    if !features.len().is_multiple_of(dims) {
        return Err(Error::Shape {
            what: "features".into(),
            got: format!("{} numbers", features.len()),
            wanted: format!("a whole number of rows of {dims}"),
            fix: "one row per point, one column per feature".into(),
        });
    }
    if features.len() / dims > u32::MAX as usize {
        return Err(Error::Filter {
            filter,
            why: format!("{} points are more than 2^32 - 1", features.len() / dims),
            fix: "split the problem".into(),
        });
    }
    match features.iter().position(|x| !x.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::Element {
            what: "features".into(),
            got: features[at].to_string(),
            place: format!("point {}, feature {}", at / dims, at % dims),
            wanted: "finite numbers".into(),
            fix: "is a standard deviation zero, or does the image hold NaN?".into(),
        }),
    }
}

/// Panics unless input and output are `points` rows of `channels` and the factors fit.
fn check_sizes(points: usize, channels: usize, input: usize, out: usize, scaling: &Scaling) {
    assert_eq!(input, points * channels, "the input must have one row per point");
    assert_eq!(out, points * channels, "the output must have one row per point");
    for factors in [scaling.left, scaling.right].into_iter().flatten() {
        assert_eq!(factors.len(), points, "one factor is needed for each point");
    }
}

/// `row (+)= factor · from`.
fn write_row(row: &mut [f32], from: &[f32], factor: f32, add: bool) {
    for (o, &x) in row.iter_mut().zip(from) {
        *o = if add { *o + factor * x } else { factor * x };
    }
}
