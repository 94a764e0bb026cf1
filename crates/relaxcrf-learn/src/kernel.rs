//! One kernel with its normalisation, and what its product changes by when its features do.

use rayon::prelude::*;
use relaxcrf::filter::{self, Blur, Direction, Exact, Lattice};
use relaxcrf::model::Normalization;
use relaxcrf::{Error, Result};

use crate::operator::{DenseGaussian, Factors, Filtered, Operator, row_dot, sum_over};
use crate::real::Real;

/// The operator behind a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilterChoice {
    /// The sequential blur of the common code: what `mfN` runs with.
    LatticeClassic,
    /// The symmetric lattice.
    Lattice,
    /// The sum over all pairs.
    Exact,
}

/// Precisions that can build operators.
pub trait BuildOperator: Real {
    /// The operator on rows of `dims` features.
    fn operator(features: &[Self], dims: usize, choice: FilterChoice) -> Result<Box<dyn Operator<Self>>>;
}

impl BuildOperator for f32 {
    fn operator(features: &[f32], dims: usize, choice: FilterChoice) -> Result<Box<dyn Operator<f32>>> {
        let filter: Box<dyn filter::Operator> = match choice {
            FilterChoice::LatticeClassic => Box::new(Lattice::new(features, dims, Blur::Classic)?),
            FilterChoice::Lattice => Box::new(Lattice::new(features, dims, Blur::Symmetric)?),
            FilterChoice::Exact => Box::new(Exact::new(features.to_vec(), dims)?),
        };
        Ok(Box::new(Filtered(filter)))
    }
}

impl BuildOperator for f64 {
    fn operator(features: &[f64], dims: usize, choice: FilterChoice) -> Result<Box<dyn Operator<f64>>> {
        if choice != FilterChoice::Exact {
            return Err(Error::value(
                "filter in double precision",
                "a lattice",
                "exact (lattices work in single precision)",
            ));
        }
        Ok(Box::new(DenseGaussian::new(features.to_vec(), dims)?))
    }
}

/// A normalised Gaussian kernel on N points, without its weight.
#[derive(Debug)]
pub struct Kernel<T> {
    features: Vec<T>,
    dims: usize,
    operator: Box<dyn Operator<T>>,
    normalization: Normalization,
    /// K·1; empty without normalisation.
    sums: Vec<T>,
    left: Option<Vec<T>>,
    right: Option<Vec<T>>,
}

impl<T: BuildOperator> Kernel<T> {
    /// The kernel on rows of `dims` features, already divided by their standard deviations.
    pub fn new(
        features: Vec<T>,
        dims: usize,
        choice: FilterChoice,
        normalization: Normalization,
    ) -> Result<Self> {
        let operator = T::operator(&features, dims, choice)?;
        let sums = if normalization == Normalization::None { Vec::new() } else { operator.normalizer() };
        let tiny = T::from_f64(1e-20);
        let one = T::from_f64(1.0);
        let inverse = || sums.iter().map(|&n| one / (n + tiny)).collect::<Vec<T>>();
        let (left, right) = match normalization {
            Normalization::None => (None, None),
            Normalization::Symmetric => {
                let factors: Vec<T> = sums.iter().map(|&n| one / (n + tiny).sqrt()).collect();
                (Some(factors.clone()), Some(factors))
            }
            Normalization::Before => (None, Some(inverse())),
            Normalization::After => (Some(inverse()), None),
        };
        Ok(Self { features, dims, operator, normalization, sums, left, right })
    }
}

impl<T: Real> Kernel<T> {
    /// Number of points.
    pub fn points(&self) -> usize {
        self.operator.points()
    }

    /// Features per point.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// Applies the normalised kernel, or its transpose: `out (+)= gain · K̄ x`.
    pub fn apply(&self, direction: Direction, x: &[T], channels: usize, gain: f64, add: bool, out: &mut [T]) {
        let (left, right) = (self.left.as_deref(), self.right.as_deref());
        let factors = match direction {
            Direction::Forward => Factors { left, right, gain, add },
            Direction::Transposed => Factors { left: right, right: left, gain, add },
        };
        self.operator.apply(direction, x, channels, factors, out);
    }

    /// Collects the derivative of `Σ_l a_l' K̄ x_l` over several pairs (a, x).
    pub fn derivative(&self, of: FeatureGradients) -> Derivative<'_, T> {
        let squares = vec![0.0; self.dims];
        let rows = if of == FeatureGradients::Rows { vec![0.0; self.features.len()] } else { Vec::new() };
        let through_sums = vec![0.0; self.sums.len()];
        Derivative { kernel: self, squares, rows, through_sums }
    }
}

/// What is asked of a kernel's features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FeatureGradients {
    /// Nothing.
    #[default]
    None,
    /// The derivative with respect to the logarithm of every feature's width.
    Widths,
    /// The derivative with respect to every feature of every point; widths follow from it.
    Rows,
}

/// The derivative of a sum of `Σ_l a_l' K̄ x_l` with respect to the kernel's features.
///
/// With K_ab = exp(-|f_a - f_b|²/2), derivatives are again products of K, on channels multiplied by features: the
/// same code is exact on the exact filter, and uses nothing but filter calls on a lattice.
#[derive(Debug)]
pub struct Derivative<'k, T> {
    kernel: &'k Kernel<T>,
    /// `Σ_ab a_a K̄_ab x_b (f_ak - f_bk)²` for every feature k.
    squares: Vec<f64>,
    /// With respect to every feature; empty if not asked for.
    rows: Vec<f64>,
    /// Derivative with respect to K·1.
    through_sums: Vec<f64>,
}

/// Channels of one filter call of the derivative, about.
const CHANNELS_PER_CALL: usize = 24;

impl<T: Real> Derivative<'_, T> {
    /// Adds `factor · Σ_l a_l' K̄ x_l`, with `back` = K̄'a.
    pub fn add(&mut self, a: &[T], x: &[T], back: &[T], channels: usize, factor: f64) {
        let kernel = self.kernel;
        let mut product = vec![T::default(); x.len()];
        kernel.apply(Direction::Forward, x, channels, 1.0, false, &mut product);
        let row = |p: usize| p * channels..(p + 1) * channels;
        self.through_sums.par_iter_mut().zip(&kernel.sums).enumerate().for_each(|(p, (v, &n))| {
            let n = n.to_f64() + 1e-20;
            let out = || row_dot(&a[row(p)], &product[row(p)]);
            let input = || row_dot(&x[row(p)], &back[row(p)]);
            *v -= factor / n
                * match kernel.normalization {
                    Normalization::None => 0.0,
                    Normalization::Symmetric => 0.5 * (out() + input()),
                    Normalization::Before => input(),
                    Normalization::After => out(),
                };
        });
        let apply = |direction, x: &[T], channels, out: &mut [T]| {
            kernel.apply(direction, x, channels, 1.0, false, out)
        };
        accumulate(
            kernel,
            apply,
            [a, x, &product, back],
            channels,
            factor,
            &mut self.squares,
            &mut self.rows,
        );
    }

    /// The derivatives with respect to the logarithms of the widths of all features, and with respect to the features.
    pub fn finish(mut self) -> (Vec<f64>, Vec<f64>) {
        let kernel = self.kernel;
        if kernel.normalization != Normalization::None {
            let v: Vec<T> = self.through_sums.iter().map(|&v| T::from_f64(v)).collect();
            let ones = vec![T::from_f64(1.0); v.len()];
            let mut back = vec![T::default(); v.len()];
            let operator = &kernel.operator;
            operator.apply(Direction::Transposed, &v, 1, Factors::none(), &mut back);
            let apply = |direction, x: &[T], channels, out: &mut [T]| {
                operator.apply(direction, x, channels, Factors::none(), out);
            };
            accumulate(
                kernel,
                apply,
                [&v, &ones, &kernel.sums, &back],
                1,
                1.0,
                &mut self.squares,
                &mut self.rows,
            );
        }
        if !self.rows.is_empty() {
            // Dividing features by a larger width shrinks them.
            let dims = kernel.dims;
            let rows = &self.rows;
            for k in 0..dims {
                let term = |p: usize| [rows[p * dims + k] * kernel.features[p * dims + k].to_f64()];
                self.squares[k] = -sum_over(kernel.points(), term)[0];
            }
        }
        (self.squares, self.rows)
    }
}

/// Adds the derivative of `factor · Σ_l a_l' K x_l`, given `product` = K x and `back` = K'a.
fn accumulate<T: Real>(
    kernel: &Kernel<T>,
    apply: impl Fn(Direction, &[T], usize, &mut [T]),
    [a, x, product, back]: [&[T]; 4],
    channels: usize,
    factor: f64,
    squares: &mut [f64],
    rows: &mut [f64],
) {
    let (dims, points) = (kernel.dims, kernel.points());
    let means = means(kernel);
    let feature = |p: usize, k: usize| kernel.features[p * dims + k].to_f64() - means[k];
    let row = |p: usize| p * channels..(p + 1) * channels;
    let both: Vec<[f64; 2]> = (0..points)
        .into_par_iter()
        .map(|p| [row_dot(&a[row(p)], &product[row(p)]), row_dot(&x[row(p)], &back[row(p)])])
        .collect();
    let group = (CHANNELS_PER_CALL / channels).clamp(1, dims);
    let width = group * channels;
    let (mut input, mut output) = (vec![T::default(); points * width], vec![T::default(); points * width]);
    for first in (0..dims).step_by(group) {
        let some = first..(first + group).min(dims);
        let width = some.len() * channels;
        let (input, output) = (&mut input[..points * width], &mut output[..points * width]);
        let multiply = |input: &mut [T], by: &[T]| {
            input.par_chunks_exact_mut(width).enumerate().for_each(|(p, out)| {
                for (out, k) in out.chunks_exact_mut(channels).zip(some.clone()) {
                    let f = T::from_f64(feature(p, k));
                    out.iter_mut().zip(&by[row(p)]).for_each(|(o, &v)| *o = f * v);
                }
            });
        };
        let part = |p: usize, at: usize| p * width + at * channels..p * width + (at + 1) * channels;
        multiply(input, a);
        apply(Direction::Transposed, input, width, output);
        if rows.is_empty() {
            for (at, k) in some.clone().enumerate() {
                squares[k] += factor
                    * sum_over(points, |p| {
                        let f = feature(p, k);
                        [f * (f * (both[p][0] + both[p][1])
                            - 2.0 * row_dot(&x[row(p)], &output[part(p, at)]))]
                    })[0];
            }
            continue;
        }
        let add = |rows: &mut [f64], with: &[T], output: &[T], which: usize| {
            rows.par_chunks_exact_mut(dims).enumerate().for_each(|(p, gradient)| {
                for (at, k) in some.clone().enumerate() {
                    let pulled = row_dot(&with[row(p)], &output[part(p, at)]);
                    gradient[k] += factor * (pulled - feature(p, k) * both[p][which]);
                }
            });
        };
        add(rows, x, output, 1);
        multiply(input, x);
        apply(Direction::Forward, input, width, output);
        add(rows, a, output, 0);
    }
}

/// The mean of each feature: differences of features do not depend on it, and rounding is smaller without it.
fn means<T: Real>(kernel: &Kernel<T>) -> Vec<f64> {
    let (dims, points) = (kernel.dims, kernel.points());
    (0..dims)
        .map(|k| sum_over(points, |p| [kernel.features[p * dims + k].to_f64()])[0] / points as f64)
        .collect()
}
