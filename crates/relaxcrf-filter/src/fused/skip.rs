//! Iterations that skip converged blocks.
//!
//! Where all points of a block are almost certain of the same channel, the next iterations will not change that: most
//! blocks of a picture after two updates. Such a block is neither interpolated nor updated nor splatted again: its
//! points count as certain, and what they splat is kept in tables of its own.
//!
//! Why that is right: it holds as long as products cannot have changed by more than the block's change budget. A product
//! is a mean of vertex values, so it changes by no more than the vertex value that changes most.

use std::ops::AddAssign;

use super::{Block, BlockIndex, FusedPass, FusedTerm, Tables};
use crate::blocks::{POINTS_PER_BLOCK, band_count};
use crate::lattice::{add_table, largest_changes};
use crate::reduce::map_items;

/// A block must have a change budget for this many steps of the present size, or skipping it does not pay.
const MIN_STEPS_AHEAD: f32 = 2.0;

/// What a converged block splats: at every point `value` in one lane, and zero in the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConvergedBlock {
    /// The lane.
    pub lane: usize,
    /// The value there.
    pub value: f32,
    /// By how much any product of the block may change until the block has to be updated again.
    pub change_budget: f32,
}

/// What is kept about skipped blocks from one iteration to the next.
#[derive(Debug, Default)]
pub(super) struct SkippedBlocks {
    /// What the skipped blocks splatted, for each table.
    base: Vec<Vec<f32>>,
    blocks: Vec<Option<ConvergedBlock>>,
    /// By how much each row of a term's tables has changed with the last step.
    row_changes: Vec<Vec<f32>>,
}

impl SkippedBlocks {
    /// Forgets all skipped blocks, and how tables have changed.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.row_changes.clear();
    }
}

/// What a band works on.
struct Piece<'t> {
    next: Vec<&'t mut [f32]>,
    base: Vec<&'t mut [f32]>,
    blocks: &'t mut [Option<ConvergedBlock>],
}

impl FusedPass<'_> {
    /// As [`FusedPass::step`], for updates that also tell whether the block has converged to what they leave in the rows.
    /// Blocks that have, and stay so, are not given to `update` again; their part of the sum is then missing.
    pub fn step_active_blocks<T: Default + Send + AddAssign>(
        &self,
        tables: &mut Tables,
        update: impl Fn(Block) -> (T, Option<ConvergedBlock>) + Sync,
    ) -> T {
        self.blur(tables);
        self.make_room(tables);
        let Tables { now, next, skipped, .. } = tables;
        if skipped.blocks.is_empty() {
            skipped.blocks.resize(self.points.div_ceil(POINTS_PER_BLOCK), None);
            skipped.base.resize_with(next.len(), Vec::new);
            for (base, table) in skipped.base.iter_mut().zip(&*next) {
                base.clear();
                base.resize(table.len(), 0.0);
            }
        }
        let SkippedBlocks { base, blocks, row_changes } = skipped;
        let mut others = &mut blocks[..];
        let mut pieces: Vec<Piece> = Vec::with_capacity(band_count(self.points));
        for band in 0..band_count(self.points) {
            let (blocks, behind) = std::mem::take(&mut others).split_at_mut(self.blocks(band).count());
            others = behind;
            pieces.push(Piece { next: Vec::new(), base: Vec::new(), blocks });
        }
        for (((term, part), next), base) in self.pieces().zip(next).zip(base) {
            let split = self.split(term, part.width, next).zip(self.split(term, part.width, base));
            for ((next, base), piece) in split.zip(&mut pieces) {
                piece.next.push(next);
                piece.base.push(base);
            }
        }
        let (now, row_changes) = (&now[..], &row_changes[..]);
        let sums: Vec<T> = map_items(pieces, &|band, piece: Piece| {
            self.update_active_blocks(band, now, row_changes, piece, &update)
        });
        tables.turn();
        self.blur_and_compare(tables);
        super::sum_of(sums)
    }

    fn update_active_blocks<T: Default + AddAssign>(
        &self,
        band: usize,
        now: &[Vec<f32>],
        row_changes: &[Vec<f32>],
        piece: Piece,
        update: &impl Fn(Block) -> (T, Option<ConvergedBlock>),
    ) -> T {
        let Piece { mut next, mut base, blocks } = piece;
        let stride = self.stride;
        let mut total = T::default();
        let mut rows = vec![0.0f32; POINTS_PER_BLOCK * stride];
        next.iter_mut().for_each(|table| table.fill(0.0));
        for ((index, first, count), block) in self.blocks(band).zip(blocks) {
            if let Some(converged) = block {
                converged.change_budget -= self.product_change(index, first, count, row_changes);
                if converged.change_budget >= 0.0 {
                    continue;
                }
                fill_lane(&mut rows, stride, converged.lane, -converged.value);
                self.splat(index, first, &rows, &mut base);
                *block = None;
            }
            self.slice(index, first, now, &mut rows);
            let (part, converged) = update(Block { first, count, rows: &mut rows, stride });
            total += part;
            let lasts = |c: &ConvergedBlock| {
                c.change_budget > MIN_STEPS_AHEAD * self.product_change(index, first, count, row_changes)
            };
            *block = converged.filter(lasts);
            match block {
                Some(converged) => {
                    fill_lane(&mut rows, stride, converged.lane, converged.value);
                    self.splat(index, first, &rows, &mut base);
                }
                None => self.splat(index, first, &rows, &mut next),
            }
        }
        next.iter_mut().zip(&base).for_each(|(next, base)| add_table(next, base));
        total
    }

    /// By how much the product at any point of a block can have changed with the last step. Zero if that is not known:
    /// then no block was skipped before that step.
    fn product_change(&self, index: BlockIndex, first: usize, count: usize, row_changes: &[Vec<f32>]) -> f32 {
        let of_term = |(term, changes): (&FusedTerm, &Vec<f32>)| {
            let most = term.operator.largest_of_block(index, &changes[term.operator.band_rows(index.band)]);
            let scaling = &term.scaling;
            let left = scaling.left.map_or(1.0, |f| largest(f[first..][..count].iter().map(|f| f.abs())));
            most * left * (scaling.gain * term.operator.response()).abs()
        };
        self.terms.iter().zip(row_changes).map(of_term).sum()
    }

    /// Blurs what a step splatted, and finds by how much that changed every row.
    fn blur_and_compare(&self, tables: &mut Tables) {
        self.blur(tables);
        let Tables { now, next, skipped, .. } = tables;
        skipped.row_changes.resize_with(self.terms.len(), Vec::new);
        for (t, changes) in skipped.row_changes.iter_mut().enumerate() {
            changes.clear();
            changes.resize(self.terms[t].operator.table_rows(), 0.0);
            for (p, part) in self.parts.iter().enumerate() {
                let at = t * self.parts.len() + p;
                largest_changes(part.width, &now[at], &next[at], changes);
            }
        }
    }
}

/// The largest of some non-negative numbers: they are in the order of their bits, which are compared faster.
pub(crate) fn largest(values: impl Iterator<Item = f32>) -> f32 {
    f32::from_bits(values.fold(0, |most: u32, v| most.max(v.to_bits())))
}

/// The same value in one lane of all rows, zero in the others.
fn fill_lane(rows: &mut [f32], stride: usize, lane: usize, value: f32) {
    rows.fill(0.0);
    rows.iter_mut().skip(lane).step_by(stride).for_each(|v| *v = value);
}

#[cfg(test)]
mod tests;
