//! Linear operators on pixels, as gradients need them: forward, transposed, scaled, in either precision.

use rayon::prelude::*;
use relaxcrf::filter::{self, Direction, Scaling, Workspace};
use relaxcrf::{Error, Result};

use crate::real::Real;

/// Largest number of points of the exact operator in double precision, whose cost is quadratic.
pub const MAX_EXACT_POINTS: usize = 20_000;

/// Diagonal factors around an operator: `out (+)= gain · left · K (right · x)`.
#[derive(Debug, Clone, Copy)]
pub struct Factors<'a, T> {
    /// Factor of each output row; `None` is all ones.
    pub left: Option<&'a [T]>,
    /// Factor of each input row; `None` is all ones.
    pub right: Option<&'a [T]>,
    /// One factor for all.
    pub gain: f64,
    /// Whether the result is added to `out`.
    pub add: bool,
}

impl<T> Factors<'_, T> {
    /// The bare operator.
    pub fn none() -> Self {
        Self { left: None, right: None, gain: 1.0, add: false }
    }
}

/// A Gaussian operator K on N points and any number of channels.
pub trait Operator<T>: Send + Sync + std::fmt::Debug {
    /// Number of points.
    fn points(&self) -> usize;

    /// Applies K, or its transpose, to rows of `channels` values.
    fn apply(&self, direction: Direction, x: &[T], channels: usize, factors: Factors<T>, out: &mut [T]);

    /// The vector that kernels are normalised by: K·1.
    fn normalizer(&self) -> Vec<T>;
}

/// A filter of the library, in single precision.
#[derive(Debug)]
pub struct Filtered(pub Box<dyn filter::Operator>);

impl Operator<f32> for Filtered {
    fn points(&self) -> usize {
        self.0.points()
    }

    fn apply(
        &self,
        direction: Direction,
        x: &[f32],
        channels: usize,
        factors: Factors<f32>,
        out: &mut [f32],
    ) {
        let Factors { left, right, gain, add } = factors;
        let scaling = Scaling { left, right, gain: gain as f32, add };
        self.0.apply(direction, x, channels, scaling, out, &mut Workspace::new());
    }

    fn normalizer(&self) -> Vec<f32> {
        self.0.normalizer()
    }
}

/// The Gaussian sum over all pairs in double precision: what other gradients are checked against.
#[derive(Debug)]
pub struct DenseGaussian {
    features: Vec<f64>,
    dims: usize,
}

impl DenseGaussian {
    /// The operator on rows of `dims` features.
    pub fn new(features: Vec<f64>, dims: usize) -> Result<Self> {
        if dims == 0 || !features.len().is_multiple_of(dims) {
            return Err(Error::shape(
                "features",
                format!("{} values", features.len()),
                format!("whole rows of {dims}"),
            ));
        }
        if features.len() / dims > MAX_EXACT_POINTS {
            let expected =
                format!("at most {MAX_EXACT_POINTS} (use single precision and a lattice for more)");
            return Err(Error::value(
                "number of points of the exact filter",
                features.len() / dims,
                expected,
            ));
        }
        Ok(Self { features, dims })
    }

    fn row(&self, a: usize) -> &[f64] {
        &self.features[a * self.dims..(a + 1) * self.dims]
    }
}

impl Operator<f64> for DenseGaussian {
    fn points(&self) -> usize {
        self.features.len() / self.dims
    }

    fn apply(&self, _: Direction, x: &[f64], channels: usize, factors: Factors<f64>, out: &mut [f64]) {
        let Factors { left, right, gain, add } = factors;
        out.par_chunks_mut(channels).enumerate().for_each(|(a, out)| {
            let fa = self.row(a);
            let mut sums = vec![0.0; channels];
            for (b, (fb, row)) in
                self.features.chunks_exact(self.dims).zip(x.chunks_exact(channels)).enumerate()
            {
                let squared: f64 = fa.iter().zip(fb).map(|(p, q)| (p - q) * (p - q)).sum();
                let k = (-0.5 * squared).exp() * right.map_or(1.0, |r| r[b]);
                sums.iter_mut().zip(row).for_each(|(s, v)| *s += k * v);
            }
            let factor = gain * left.map_or(1.0, |l| l[a]);
            for (o, s) in out.iter_mut().zip(sums) {
                *o = if add { *o + factor * s } else { factor * s };
            }
        });
    }

    fn normalizer(&self) -> Vec<f64> {
        let mut out = vec![0.0; self.points()];
        self.apply(Direction::Forward, &vec![1.0; self.points()], 1, Factors::none(), &mut out);
        out
    }
}

/// Points per task of the reductions below; their results do not depend on the number of threads.
pub(crate) const POINTS_PER_CHUNK: usize = 4096;

/// The sum of `term` over all points, in fixed chunks.
pub(crate) fn sum_over<const C: usize>(points: usize, term: impl Fn(usize) -> [f64; C] + Sync) -> [f64; C] {
    let chunks: Vec<[f64; C]> = (0..points.div_ceil(POINTS_PER_CHUNK))
        .into_par_iter()
        .map(|chunk| {
            let mut sum = [0.0; C];
            for a in chunk * POINTS_PER_CHUNK..((chunk + 1) * POINTS_PER_CHUNK).min(points) {
                let values = term(a);
                sum.iter_mut().zip(values).for_each(|(s, v)| *s += v);
            }
            sum
        })
        .collect();
    let mut total = [0.0; C];
    for chunk in chunks {
        total.iter_mut().zip(chunk).for_each(|(t, v)| *t += v);
    }
    total
}

/// `<x_a, y_a>` of one row.
pub(crate) fn row_dot<T: Real>(x: &[T], y: &[T]) -> f64 {
    let mut sum = T::default();
    for (&p, &q) in x.iter().zip(y) {
        sum += p * q;
    }
    sum.to_f64()
}
