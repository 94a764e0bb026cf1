//! Gaussian filters: linear operators K on any number of channels, `(K x)_a = Σ_b k(f_a, f_b) x_b`.
//!
//! A filter knows points and their features, never labels, images or weights. Three of them stand behind
//! one trait:
//!
//! | filter | operator | cost of one channel | use |
//! |---|---|---|---|
//! | [`Exact`] | the Gaussian sum itself | O(N²) | oracle, tiny problems, `energy --exact` |
//! | [`Lattice`] | permutohedral lattice, classic or symmetric | O(d² N) | everything else |
//! | [`Separable`] | the Gaussian on a grid, cut at 4.5 standard deviations | O(N σ) | narrow spatial kernels |
//!
//! Arrays are row-major, one row of `channels` values per point. The self pair (a = b) is part of K.

// mod exact;
pub mod lattice;

pub use lattice::{Blur, Lattice};

use crate::error::{Error, Result};

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

/// Buffers that filters reuse between calls. One per solve; never shared between threads.
#[derive(Debug, Default)]
pub struct Scratch {
    pub(crate) first: Vec<f32>,
    pub(crate) second: Vec<f32>,
    pub(crate) third: Vec<f32>,
}

impl Scratch {
    /// Empty buffers; they grow on first use.
    pub fn new() -> Self {
        Self::default()
    }
}

/// A linear operator with non-negative entries on N points.
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

    /// The diagonal K_aa.
    fn diagonal(&self) -> Vec<f32>;

    /// The vector that kernels are normalised by: K·1, of the forward operator.
    fn normalizer(&self) -> Vec<f32> {
        let ones = vec![1.0; self.len()];
        let mut out = vec![0.0; self.len()];
        self.apply(Direction::Forward, &ones, 1, Scaling::NONE, &mut out, &mut Scratch::new());
        out
    }

    /// Lattice vertices or taps: the size that drives the cost. Zero where it has no meaning.
    fn size_hint(&self) -> usize {
        0
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
    debug_assert_eq!(binned.bins.len(), n);
    debug_assert_eq!(binned.table.len(), binned.count * binned.count);
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

/// Fails unless `features` is a whole number of finite rows of `dims` values.
pub(crate) fn check_features(features: &[f32], dims: usize) -> Result<()> {
    if dims == 0 {
        return Err(Error::value("feature dimension", 0, "at least 1"));
    }
    if features.is_empty() || features.len() % dims != 0 {
        return Err(Error::shape(
            "feature array",
            format!("{} values", features.len()),
            format!("one row of {dims} values per point"),
        ));
    }
    match features.iter().position(|f| !f.is_finite()) {
        None => Ok(()),
        Some(at) => Err(Error::Element {
            what: "feature array".into(),
            got: features[at].to_string(),
            place: format!("point {}, dimension {}", at / dims, at % dims),
            wanted: "finite numbers".into(),
            fix: "a NaN in the image, or a standard deviation too small?".into(),
        }),
    }
}
