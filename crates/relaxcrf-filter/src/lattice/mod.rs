//! The permutohedral lattice: splat, blur along d+1 axes, slice.
//!
//! As an operator, `A = α S B_d ⋯ B_1 B_0 S'`: S holds the d+1 barycentric weights of each point, B_j adds half
//! of both neighbours along axis j, and α = 1 / (1 + 2^-d) makes a point that sits on a vertex weigh 1 to
//! itself. Where vertices are missing the B_j do not commute, so A is not quite symmetric; the transpose is
//! the same thing with the axes in reverse.
//!
//! [`Blur::Classic`] is A, which every published figure uses. [`Blur::Symmetric`] is (A + A')/2: the same
//! energies, since x'Ax = x'A'x, but fit for bounds and for monotone descent.

mod apply;
mod build;
mod fused;
mod kernels;
mod ordered;
mod simplices;
mod subset;

use std::sync::OnceLock;

use rayon::prelude::*;

use self::build::{
    Band, Chains, Copies, Embedding, Joined, Packing, WEIGHT_PADDING, Word, find_chains, join_bands, locate,
};
use self::ordered::Neighbours;
use crate::blocks::{POINTS_PER_BLOCK, points_per_band};
use crate::error::{Error, Result};
use crate::operator::check_features;

pub use self::apply::{layer_bytes, workspace_bytes};
pub use self::build::{LatticeSize, MAX_DIMS};
pub(crate) use self::kernels::{MAX_ROW_WIDTH, add_table, largest_changes, row_width};
pub(crate) use self::ordered::LocalValues;

/// Which lattice operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blur {
    /// Axes in sequence, as in the common code. Not quite symmetric.
    Classic,
    /// The mean of the sequence and its reverse.
    Symmetric,
}

/// A lattice built on a set of points.
#[derive(Debug)]
pub struct Lattice {
    blur: Blur,
    dims: usize,
    points: usize,
    vertices: usize,
    /// Rows of a vertex table: vertices and copies of them.
    rows: usize,
    /// The points' vertices.
    bands: Vec<Band>,
    copies: Copies,
    /// d+1 barycentric weights per point, and some padding.
    weights: Vec<f32>,
    /// The runs of vertices along each of the d+1 axes.
    axes: Vec<Chains>,
    /// Built when first needed, by divide and conquer.
    neighbours: OnceLock<Neighbours>,
}

impl Lattice {
    /// Builds the lattice on `features`: one row of `dims` values per point, in units of the kernel's
    /// standard deviation.
    pub fn new(features: &[f32], dims: usize, blur: Blur) -> Result<Self> {
        check_features(features, dims, MAX_DIMS, "lattice")?;
        if features.is_empty() {
            return Err(Error::value("number of points", 0, "at least 1"));
        }
        let embedding = Embedding::new(dims);
        let (lo, hi) = bounding_box(features, dims);
        let packing = embedding.coordinate_bounds(&lo, &hi).map(|bounds| Packing::new(&bounds));
        match packing {
            Some(p) if p.bits <= u64::BITS => Self::build::<u64>(features, embedding, p, blur),
            Some(p) if p.bits <= u128::BITS => Self::build::<u128>(features, embedding, p, blur),
            _ => {
                let spread = lo.iter().zip(&hi).map(|(l, h)| h - l).fold(0.0, f32::max);
                Err(unfit(format!("the features span {spread:.3e} standard deviations, too many to index")))
            }
        }
    }

    fn build<W: Word>(features: &[f32], embedding: Embedding, packing: Packing, blur: Blur) -> Result<Self> {
        let dims = embedding.dims();
        let points = features.len() / dims;
        debug_assert!(packing.bits <= W::BITS);
        let too_many = || unfit("more than 2^32 lattice vertices".into());
        let mut weights = vec![0.0f32; points * (dims + 1) + WEIGHT_PADDING];
        let all = &mut weights[..points * (dims + 1)];
        let locals = locate::<W>(features, &embedding, &packing, all).ok_or_else(too_many)?;
        let joined = join_bands(points, dims + 1, locals, packing.coordinate_bits).ok_or_else(too_many)?;
        let Joined { bands, copies, classes, vertices } = joined;
        let rows = bands.last().map_or(0, |b| b.rows.end);
        let axes = find_chains(&classes, rows, &packing);
        Ok(Self {
            blur,
            dims,
            points,
            vertices,
            rows,
            bands,
            copies,
            weights,
            axes,
            neighbours: OnceLock::new(),
        })
    }

    /// Number of lattice vertices.
    pub fn vertices(&self) -> usize {
        self.vertices
    }

    /// Rows of a table of vertex values: more than vertices, since bands of points have copies of some.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of features of a point.
    pub fn dims(&self) -> usize {
        self.dims
    }

    /// α: makes the response of a point on a vertex to itself one.
    fn alpha(&self) -> f32 {
        1.0 / (1.0 + 0.5f32.powi(self.dims as i32))
    }

    /// The diagonal in closed form: what a point gives to itself when no neighbouring vertex is missing
    /// (at the rim of the point cloud the true value is a little smaller, so this is an upper bound).
    ///
    /// Two vertices of one simplex that are r steps apart respond to each other by 2^-r + 2^-(d+1-r):
    /// going r steps forward, or the other d+1-r axes backward.
    fn closed_form_diagonal(&self) -> Vec<f32> {
        let m = self.dims + 1;
        let half = |r: usize| 0.5f32.powi(r as i32);
        let response: Vec<f32> =
            (0..m).map(|r| if r == 0 { 1.0 + half(self.dims) } else { half(r) + half(m - r) }).collect();
        let alpha = self.alpha();
        self.weights[..self.points * m]
            .par_chunks(m)
            .with_min_len(POINTS_PER_BLOCK)
            .map(|b| {
                let mut sum = 0.0;
                for j in 0..m {
                    for k in 0..m {
                        sum += b[j] * b[k] * response[j.abs_diff(k)];
                    }
                }
                alpha * sum
            })
            .collect()
    }
}

fn bounding_box(features: &[f32], dims: usize) -> (Vec<f32>, Vec<f32>) {
    let empty = || (vec![f32::INFINITY; dims], vec![f32::NEG_INFINITY; dims]);
    let piece = |rows: &[f32]| {
        let (mut lo, mut hi) = empty();
        for row in rows.chunks_exact(dims) {
            for ((lo, hi), &f) in lo.iter_mut().zip(&mut hi).zip(row) {
                *lo = lo.min(f);
                *hi = hi.max(f);
            }
        }
        (lo, hi)
    };
    let join = |(mut lo, mut hi): (Vec<f32>, Vec<f32>), (other_lo, other_hi): (Vec<f32>, Vec<f32>)| {
        for k in 0..dims {
            lo[k] = lo[k].min(other_lo[k]);
            hi[k] = hi[k].max(other_hi[k]);
        }
        (lo, hi)
    };
    features.par_chunks(points_per_band(features.len() / dims) * dims).map(piece).reduce(empty, join)
}

fn unfit(why: String) -> Error {
    Error::Filter {
        filter: "lattice",
        why,
        fix: "make the standard deviations larger, or use the exact filter on a small problem".into(),
    }
}

#[cfg(test)]
mod tests;
