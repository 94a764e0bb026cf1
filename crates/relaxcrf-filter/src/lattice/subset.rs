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
        let Joined { bands, copies, table, row_of } = join_bands(points.len(), m, locals)?;
        let mut new_row = vec![MISSING; self.rows];
        for (&row, &key) in row_of.iter().zip(table.keys()) {
            new_row[key as usize] = row;
        }
        let mut weights: Vec<f32> =
            points.iter().flat_map(|&a| &self.weights[a as usize * m..][..m]).copied().collect();
        weights.resize(weights.len() + WEIGHT_PADDING, 0.0);
        Some(Self {
            blur: self.blur,
            dims: self.dims,
            points: points.len(),
            vertices: table.len(),
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
        let mut local =
            Local { keys: Vec::new(), block_runs: Vec::new(), run_ends: Vec::new(), ids: Vec::new() };
        let mut numbers = vec![MISSING; self.rows];
        for block in points.chunks(POINTS_PER_BLOCK) {
            local.block_runs.push(local.run_ends.len() as u32);
            for (place, &point) in block.iter().enumerate() {
                let at = local.ids.len();
                let (simplex, start) = self.simplex(point);
                for &id in simplex {
                    let row = owner[start + id as usize];
                    let number = &mut numbers[row as usize];
                    if *number == MISSING {
                        *number = local.keys.len() as u32;
                        local.keys.push(u64::from(row));
                    }
                    local.ids.push(*number);
                }
                if place > 0 && local.ids[at - m..at] == local.ids[at..] {
                    local.ids.truncate(at);
                    if let Some(end) = local.run_ends.last_mut() {
                        *end += 1;
                    }
                } else {
                    local.run_ends.push(place as u8 + 1);
                }
            }
        }
        local.block_runs.push(local.run_ends.len() as u32);
        local
    }
}
