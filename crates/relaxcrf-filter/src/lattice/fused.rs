//! The lattice as an operator for fused passes.

use std::ops::Range;

use super::kernels;
use super::simplices::Runs;
use super::{Blur, Lattice, LatticeSize};
use crate::fused::{BlockIndex, Fused, largest};
use crate::operator::{Direction, Factors};

impl Lattice {
    fn runs(&self, block: BlockIndex) -> Runs<'_> {
        Runs::new(&self.bands[block.band], block.block, &self.weights)
    }
}

impl Fused for Lattice {
    fn table_rows(&self) -> usize {
        self.rows
    }

    fn band_rows(&self, band: usize) -> Range<usize> {
        self.bands[band].rows.clone()
    }

    fn splat(
        &self,
        block: BlockIndex,
        width: usize,
        right: Factors,
        rows: &[f32],
        stride: usize,
        piece: &mut [f32],
    ) {
        kernels::splat_block(width, self.runs(block), right, rows, stride, piece);
    }

    fn blur(&self, width: usize, table: &mut [f32], spare: &mut Vec<f32>) {
        self.blur_table(width, self.order(Direction::Forward), table, spare);
    }

    fn response(&self) -> f32 {
        match self.blur {
            Blur::Classic => self.alpha(),
            Blur::Symmetric => 0.5 * self.alpha(),
        }
    }

    fn slice(
        &self,
        block: BlockIndex,
        width: usize,
        left: Factors,
        piece: &[f32],
        rows: &mut [f32],
        stride: usize,
        add: bool,
    ) {
        kernels::slice_block(width, self.runs(block), left, piece, rows, stride, add);
    }

    fn largest_of_block(&self, block: BlockIndex, numbers: &[f32]) -> f32 {
        largest(self.runs(block).ids().iter().map(|&id| numbers[id as usize]))
    }

    fn size(&self) -> LatticeSize {
        LatticeSize {
            points: self.points,
            dims: self.dims,
            vertices: self.vertices,
            rows: self.rows,
            runs: self.bands.iter().map(|band| band.simplices.runs()).sum(),
        }
    }
}
