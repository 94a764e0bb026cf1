//! How large a lattice will be, found without building it.

use std::ops::Range;

use rayon::prelude::*;

use super::super::{bounding_box, kernels, unfit};
use super::Memory;
use super::embed::{Embedding, MAX_DIMS};
use super::table::{Packing, Word};
use crate::blocks::points_per_band;
use crate::error::Result;
use crate::operator::check_features;
use crate::reduce::map_tasks;

/// The numbers that a lattice's memory depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatticeSize {
    /// Points that it was built on.
    pub points: usize,
    /// Their dimension.
    pub dims: usize,
    /// Lattice vertices that some point touches.
    pub vertices: usize,
    /// Rows of a table of vertex values: the vertices, and copies of those that bands of points share.
    pub rows: usize,
    /// Runs of neighbouring points in the same simplex.
    pub runs: usize,
}

impl LatticeSize {
    /// Locates all points, a band of them at a time, and keeps nothing. `features` gives the rows of a range of
    /// points.
    pub fn measure(
        points: usize,
        dims: usize,
        features: impl Fn(Range<usize>) -> Vec<f32> + Sync,
    ) -> Result<Self> {
        let per_band = points_per_band(points);
        let bands: Vec<Range<usize>> =
            (0..points).step_by(per_band).map(|first| first..(first + per_band).min(points)).collect();
        let boxes: Vec<_> = bands
            .par_iter()
            .map(|band| {
                let rows = features(band.clone());
                check_features(&rows, dims, MAX_DIMS, "lattice")?;
                Ok(bounding_box(&rows, dims))
            })
            .collect::<Result<_>>()?;
        let (mut lo, mut hi) = (vec![f32::INFINITY; dims], vec![f32::NEG_INFINITY; dims]);
        for (l, h) in &boxes {
            lo.iter_mut().zip(l).for_each(|(a, b)| *a = a.min(*b));
            hi.iter_mut().zip(h).for_each(|(a, b)| *a = a.max(*b));
        }
        let embedding = Embedding::new(dims);
        let packing = embedding.coordinate_bounds(&lo, &hi).map(|bounds| Packing::new(&bounds));
        let counted = match packing {
            Some(p) if p.bits <= u64::BITS => count::<u64>(&bands, &features, &embedding, &p),
            Some(p) if p.bits <= u128::BITS => count::<u128>(&bands, &features, &embedding, &p),
            _ => None,
        };
        let (vertices, rows, runs) =
            counted.ok_or_else(|| unfit("the features span too many standard deviations to index".into()))?;
        Ok(Self { points, dims, vertices, rows, runs })
    }
}

/// The keys and numbers of a band's vertices by remainder, and the number of runs.
type Found<W> = (Vec<Vec<(W, u32)>>, usize);

fn count<W: Word>(
    bands: &[Range<usize>],
    features: &(impl Fn(Range<usize>) -> Vec<f32> + Sync),
    embedding: &Embedding,
    packing: &Packing,
) -> Option<(usize, usize, usize)> {
    let found: Vec<Found<W>> = bands
        .par_iter()
        .map_init(Memory::default, |memory, band| {
            let rows = features(band.clone());
            let mut weights = vec![0.0; band.len() * (embedding.dims() + 1)];
            let local = kernels::locate::<W>(&rows, embedding, packing, &mut weights, memory)?;
            Some((local.classes, local.run_ends.len()))
        })
        .collect::<Option<_>>()?;
    let rows = found.iter().flat_map(|(classes, _)| classes).map(Vec::len).sum();
    let runs = found.iter().map(|(_, runs)| runs).sum();
    let vertices = map_tasks(embedding.dims() + 1, &|class| {
        let mut keys: Vec<W> =
            found.iter().flat_map(|(classes, _)| &classes[class]).map(|&(key, _)| key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.len()
    });
    (rows < u32::MAX as usize).then(|| (vertices.iter().sum(), rows, runs))
}
