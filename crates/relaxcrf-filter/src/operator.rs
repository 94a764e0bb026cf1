//! The operator that all filters implement, and what its methods take.

use std::fmt::Debug;

use crate::blocks::POINTS_PER_BLOCK;
use crate::error::{Error, Result};
use crate::fused::Fused;
use crate::ordered::{LocalValues, Ordered};

/// Which way an operator is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// K x.
    Forward,
    /// K' x: differs from `Forward` only for operators that are not symmetric.
    Transposed,
}

/// Diagonal scalings around an operator, so that a normalised and weighted kernel costs nothing extra:
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

/// One factor for each point of a block.
#[derive(Debug, Clone, Copy)]
pub struct Factors<'a> {
    /// From the block's first point on; `None` is all ones.
    pub each: Option<&'a [f32]>,
    /// One factor for all.
    pub gain: f32,
}

impl<'a> Factors<'a> {
    /// The factors of the points from `first` on.
    pub(crate) fn from_point(each: Option<&'a [f32]>, gain: f32, first: usize) -> Self {
        Self { each: each.map(|f| &f[first..]), gain }
    }

    /// The factors of the block's first points.
    #[inline(always)]
    pub(crate) fn of_block(&self, points: usize) -> [f32; POINTS_PER_BLOCK] {
        let mut all = [self.gain; POINTS_PER_BLOCK];
        if let Some(each) = self.each {
            all[..points].iter_mut().zip(&each[..points]).for_each(|(f, &e)| *f *= e);
        }
        all
    }

    /// The factor of one point of the block.
    #[inline(always)]
    pub(crate) fn of(&self, point: usize) -> f32 {
        self.each.map_or(self.gain, |f| self.gain * f[point])
    }
}

/// Buffers that operators reuse between calls. One per solve; never shared between threads.
#[derive(Debug, Default)]
pub struct Workspace {
    pub(crate) first: Vec<f32>,
    pub(crate) second: Vec<f32>,
    pub(crate) third: Vec<f32>,
    /// One channel of an array, and the result for it: used around filter calls, never inside them.
    pub(crate) column: Vec<f32>,
    pub(crate) result: Vec<f32>,
    /// Values on a few lattice vertices.
    pub(crate) local: LocalValues,
    pub(crate) touched_vertices: u64,
}

impl Workspace {
    /// Empty buffers; they grow on first use.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lattice vertices touched by divide and conquer so far, added up over all sets of points: what its time follows.
    pub fn touched_vertices(&self) -> u64 {
        self.touched_vertices
    }

    /// Bytes of the buffers that [`Operator::apply`] uses.
    pub fn bytes(&self) -> u64 {
        4 * (self.first.len() + self.second.len() + self.third.len()) as u64
    }
}

/// A linear operator K with non-negative entries on N points.
///
/// All methods panic when the arrays do not have the sizes they state: that is a mistake in the calling code, not in
/// anyone's data.
pub trait Operator: Send + Sync + Debug {
    /// Name, as on the command line.
    fn name(&self) -> &'static str;

    /// Number of points N.
    fn points(&self) -> usize;

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
        workspace: &mut Workspace,
    );

    /// The diagonal K_aa, or an upper bound of it.
    fn diagonal(&self) -> Vec<f32>;

    /// The row sums that kernels are normalised by: K·1 of the forward operator.
    fn normalizer(&self) -> Vec<f32> {
        let ones = vec![1.0; self.points()];
        let mut out = vec![0.0; self.points()];
        self.apply(Direction::Forward, &ones, 1, Scaling::NONE, &mut out, &mut Workspace::new());
        out
    }

    /// Upper bound on the bytes of workspace that [`Operator::apply`] uses for so many channels.
    fn workspace_bytes(&self, channels: usize) -> u64;

    /// Number of lattice vertices or filter taps, which the cost grows with; zero for operators that have neither.
    fn size_hint(&self) -> usize {
        0
    }

    /// The operator among some of its points, in this order: symmetric if the operator is, and no entry above its own.
    /// `None` where that is no faster than the whole operator.
    fn subset(&self, _points: &[u32]) -> Option<Box<dyn Operator>> {
        None
    }

    /// Sums by rank, if the operator has its own way to compute them.
    fn ordered(&self) -> Option<&dyn Ordered> {
        None
    }

    /// Whole iterations in one pass over the points, if the operator can be applied in parts.
    fn fused(&self) -> Option<&dyn Fused> {
        None
    }
}

/// Fails unless `features` are whole rows of 1 to `most` finite numbers.
pub(crate) fn check_features(features: &[f32], dims: usize, most: usize, filter: &'static str) -> Result<()> {
    if dims == 0 || dims > most {
        return Err(Error::value("number of feature dimensions", dims, format!("1 to {most}")));
    }
    if !features.len().is_multiple_of(dims) {
        return Err(Error::Shape {
            what: "features".into(),
            got: format!("{} numbers", features.len()),
            expected: format!("a whole number of rows of {dims}"),
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
            expected: "finite numbers".into(),
            fix: "is a standard deviation zero, or does the image hold NaN?".into(),
        }),
    }
}

/// Panics unless input and output are `points` rows of `channels` and the factors fit.
pub(crate) fn check_sizes(points: usize, channels: usize, input: usize, out: usize, scaling: &Scaling) {
    assert_eq!(input, points * channels, "the input must have one row per point");
    assert_eq!(out, points * channels, "the output must have one row per point");
    for factors in [scaling.left, scaling.right].into_iter().flatten() {
        assert_eq!(factors.len(), points, "one factor is needed for each point");
    }
}

/// `row (+)= factor · from`.
pub(crate) fn write_row(row: &mut [f32], from: &[f32], factor: f32, add: bool) {
    for (o, &x) in row.iter_mut().zip(from) {
        *o = if add { *o + factor * x } else { factor * x };
    }
}
