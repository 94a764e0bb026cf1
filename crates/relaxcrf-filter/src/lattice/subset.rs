//! The lattice on some of its points, made from the whole one without locating anything again.
//!
//! Without the vertices that no point of the subset touches, some of the paths from point to point are missing. The
//! weights of the others stay what they were, so no entry rises.

use std::sync::OnceLock;

use rayon::prelude::*;

use super::Lattice;
use super::build::{Joined, Local, MISSING, WEIGHT_PADDING, join_bands};
use crate::blocks::{POINTS_PER_BLOCK, points_per_band};

impl Lattice {
    /// The lattice on some of its points, in this order; `None` without points.
    pub(super) fn among(&self, points: &[u32]) -> Option<Self> {
        if points.is_empty() {
            return None;
        }
        let m = self.dims + 1;
        let owner = self.owners();
        let locals: Vec<Local<u64>> =
            points.par_chunks(points_per_band(points.len())).map(|band| self.local(band, &owner)).collect();
        let bits = u64::BITS - (self.rows as u64).leading_zeros();
        let joined = join_bands(points.len(), m, locals, bits)?;
        let Joined { bands, copies, classes, vertices } = joined;
        let mut new_row = vec![MISSING; self.rows];
        for class in &classes {
            for (&key, &row) in class.keys.iter().zip(&class.rows) {
                new_row[key as usize] = row;
            }
        }
        let mut weights: Vec<f32> =
            points.iter().flat_map(|&a| &self.weights[a as usize * m..][..m]).copied().collect();
        weights.resize(weights.len() + WEIGHT_PADDING, 0.0);
        Some(Self {
            blur: self.blur,
            dims: self.dims,
            points: points.len(),
            vertices,
            rows: bands.last().map_or(0, |b| b.rows.end),
            bands,
            copies,
            weights,
            axes: self.axes.par_iter().map(|chains| chains.subset(&new_row)).collect(),
            neighbours: OnceLock::new(),
        })
    }

    /// The row that owns each row: itself, or the vertex that it is a copy of.
    pub(super) fn owners(&self) -> Vec<u32> {
        let mut owner: Vec<u32> = (0..self.rows as u32).collect();
        for (k, &own) in self.copies.owners.iter().enumerate() {
            let copies = self.copies.starts[k] as usize..self.copies.starts[k + 1] as usize;
            for &copy in &self.copies.rows[copies] {
                owner[copy as usize] = own;
            }
        }
        owner
    }

    /// The vertices of a point, counted from its band's first row, and that row.
    pub(super) fn simplex(&self, point: u32) -> (&[u32], usize) {
        let per_band = points_per_band(self.points);
        let band = &self.bands[point as usize / per_band];
        (band.simplices.of(point as usize % per_band), band.rows.start)
    }

    /// A band of the subset, with the owners' rows as keys.
    fn local(&self, points: &[u32], owner: &[u32]) -> Local<u64> {
        let m = self.dims + 1;
        let mut keys: Vec<(u64, u32)> = Vec::new();
        let (mut block_runs, mut run_ends, mut ids) = (Vec::new(), Vec::<u8>::new(), Vec::<u32>::new());
        let mut numbers = vec![MISSING; self.rows];
        for block in points.chunks(POINTS_PER_BLOCK) {
            block_runs.push(run_ends.len() as u32);
            for (place, &point) in block.iter().enumerate() {
                let at = ids.len();
                let (simplex, start) = self.simplex(point);
                for &id in simplex {
                    let row = owner[start + id as usize];
                    let number = &mut numbers[row as usize];
                    if *number == MISSING {
                        *number = keys.len() as u32;
                        keys.push((u64::from(row), *number));
                    }
                    ids.push(*number);
                }
                if place > 0 && ids[at - m..at] == ids[at..] {
                    ids.truncate(at);
                    if let Some(end) = run_ends.last_mut() {
                        *end += 1;
                    }
                } else {
                    run_ends.push(place as u8 + 1);
                }
            }
        }
        block_runs.push(run_ends.len() as u32);
        Local { count: keys.len(), classes: vec![keys], block_runs, run_ends, ids }
    }
}
