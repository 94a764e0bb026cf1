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
mod chains;
mod embed;
mod kernels;
mod simd;
mod sparse;
mod table;

use std::sync::OnceLock;

use rayon::prelude::*;

use self::chains::{Chains, find_chains};
use self::embed::{Embedding, Simplex};
use self::kernels::{Corners, Touching};
use self::table::{Packing, Table, Word};
use crate::error::{Error, Result};

pub use self::embed::MAX_DIMS;
pub(crate) use self::sparse::Reach;

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
    /// d+1 vertices per point.
    ids: Vec<u32>,
    /// d+1 barycentric weights per point.
    weights: Vec<f32>,
    /// The runs of vertices along each of the d+1 axes.
    axes: Vec<Chains>,
    /// For every vertex its points; built when first needed, by the parallel splat.
    touching: OnceLock<Touching>,
    /// The predecessors along each axis; built when first needed, by divide and conquer.
    previous: OnceLock<Vec<Vec<u32>>>,
}

impl Lattice {
    /// Builds the lattice on `features`: one row of `dims` values per point, in units of the kernel's
    /// standard deviation.
    pub fn new(features: &[f32], dims: usize, blur: Blur) -> Result<Self> {
        super::check_features(features, dims, MAX_DIMS, "lattice")?;
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
        let corners = dims + 1;
        let points = features.len() / dims;
        debug_assert!(packing.bits <= W::BITS);

        // Locating points is independent work; numbering vertices is not, and goes in pixel order.
        let mut bases = vec![W::ZERO; points];
        let mut steps = vec![0u8; points * corners];
        let mut weights = vec![0.0f32; points * corners];
        const POINTS_PER_TASK: usize = 1024;
        bases
            .par_chunks_mut(POINTS_PER_TASK)
            .zip(steps.par_chunks_mut(POINTS_PER_TASK * corners))
            .zip(weights.par_chunks_mut(POINTS_PER_TASK * corners))
            .zip(features.par_chunks(POINTS_PER_TASK * dims))
            .for_each(|(((bases, steps), weights), features)| {
                let mut simplex = Simplex::new();
                for (i, feature) in features.chunks_exact(dims).enumerate() {
                    embedding.locate(feature, &mut simplex);
                    bases[i] = packing.pack(&simplex);
                    steps[i * corners..][..corners].copy_from_slice(&simplex.steps[..corners]);
                    weights[i * corners..][..corners].copy_from_slice(&simplex.weights[..corners]);
                }
            });

        let mut table = Table::<W>::with_capacity(points / 4);
        let mut ids = vec![0u32; points * corners];
        for a in 0..points {
            let range = a * corners..(a + 1) * corners;
            // Neighbouring pixels mostly share a simplex.
            if a > 0
                && bases[a] == bases[a - 1]
                && steps[range.clone()] == steps[range.start - corners..range.start]
            {
                ids.copy_within(range.start - corners..range.start, range.start);
                continue;
            }
            let mut key = bases[a];
            for (id, &falling) in ids[range.clone()].iter_mut().zip(&steps[range]) {
                *id = table.insert(key).ok_or_else(|| unfit("more than 2^32 lattice vertices".into()))?;
                key = packing.next_vertex(key, usize::from(falling));
            }
        }
        let axes = find_chains(&table, &packing, dims);
        let vertices = table.len();
        let (touching, previous) = (OnceLock::new(), OnceLock::new());
        Ok(Self { blur, dims, points, vertices, ids, weights, axes, touching, previous })
    }

    /// Number of lattice vertices.
    pub fn vertices(&self) -> usize {
        self.vertices
    }

    /// α: makes the response of a point on a vertex to itself one.
    fn alpha(&self) -> f32 {
        1.0 / (1.0 + 0.5f32.powi(self.dims as i32))
    }

    fn corners(&self) -> Corners<'_> {
        Corners { per_pixel: self.dims + 1, ids: &self.ids, weights: &self.weights }
    }

    /// The points of each vertex, in point order, by counting sort.
    fn touching(&self) -> &Touching {
        self.touching.get_or_init(|| {
            let mut starts = vec![0usize; self.vertices + 1];
            for &id in &self.ids {
                starts[id as usize + 1] += 1;
            }
            for v in 0..self.vertices {
                starts[v + 1] += starts[v];
            }
            let mut at = starts.clone();
            let mut pixels = vec![0u32; self.ids.len()];
            let mut weights = vec![0.0f32; self.ids.len()];
            for (corner, (&id, &w)) in self.ids.iter().zip(&self.weights).enumerate() {
                let slot = &mut at[id as usize];
                pixels[*slot] = (corner / (self.dims + 1)) as u32;
                weights[*slot] = w;
                *slot += 1;
            }
            Touching { starts, pixels, weights }
        })
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
        self.weights
            .par_chunks(m)
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
    let (mut lo, mut hi) = (vec![f32::INFINITY; dims], vec![f32::NEG_INFINITY; dims]);
    for row in features.chunks_exact(dims) {
        for (k, &f) in row.iter().enumerate() {
            lo[k] = lo[k].min(f);
            hi[k] = hi[k].max(f);
        }
    }
    (lo, hi)
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
