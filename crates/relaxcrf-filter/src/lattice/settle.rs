//! Iterations that leave out what is settled.
//!
//! Where all points of a block are as good as certain of the same label, the next iterations will not change that: most
//! blocks of a picture after two updates. Such a block is neither interpolated nor updated nor splatted again: its
//! points count as certain, and what they splat is kept in tables of its own. That holds as long as messages cannot
//! have changed by more than the block's slack. How much they can have changed is known from the vertices: a message
//! is a mean of vertex values, so it moves no further than the vertex that moves most.

use std::ops::AddAssign;

use super::bands::BLOCK;
use super::inner;
use super::sweep::{Points, Sweep, Tables};
use crate::reduce::map_items;

/// Steps of the present size that a block has to have slack for, or it is not worth settling.
const STEPS_AHEAD: f32 = 2.0;

/// What a settled block splats: at every point `value` in one lane, and nothing in the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settlement {
    /// The lane.
    pub lane: usize,
    /// The value there.
    pub value: f32,
    /// By how much any message to the block may change until it has to be looked at again.
    pub slack: f32,
}

/// What is kept about settled blocks from one iteration to the next.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// What the settled blocks splatted, for each table.
    base: Vec<Vec<f32>>,
    blocks: Vec<Option<Settlement>>,
    /// By how much each row of a term's tables has changed with the last step.
    moved: Vec<Vec<f32>>,
}

impl Settled {
    /// Nothing is settled, nor is it known how tables will change.
    pub fn forget(&mut self) {
        self.blocks.clear();
        self.moved.clear();
    }
}

/// What a band works on.
struct Piece<'t> {
    next: Vec<&'t mut [f32]>,
    base: Vec<&'t mut [f32]>,
    blocks: &'t mut [Option<Settlement>],
}

impl<'a> Sweep<'a> {
    /// As [`Sweep::step`], for updates that also tell whether the block is settled by what they leave in the rows. Those that
    /// are, and stay so, are not given to `update` again; their part of the sum is then missing.
    pub fn step_unsettled<T: Default + Send + AddAssign>(
        &self,
        tables: &mut Tables,
        update: impl Fn(Points) -> (T, Option<Settlement>) + Sync,
    ) -> T {
        self.blur(tables);
        self.make_room(tables);
        let Tables { now, next, settled, .. } = tables;
        if settled.blocks.is_empty() {
            settled.blocks.resize(self.points.div_ceil(BLOCK), None);
            settled.base.resize_with(next.len(), Vec::new);
            for (base, table) in settled.base.iter_mut().zip(&*next) {
                base.clear();
                base.resize(table.len(), 0.0);
            }
        }
        let Settled { base, blocks, moved } = settled;
        let lattice = self.terms[0].lattice;
        let mut rest = &mut blocks[..];
        let mut pieces: Vec<Piece> = Vec::with_capacity(lattice.bands.len());
        for band in &lattice.bands {
            let (blocks, others) = std::mem::take(&mut rest).split_at_mut(band.points.len().div_ceil(BLOCK));
            rest = others;
            pieces.push(Piece { next: Vec::new(), base: Vec::new(), blocks });
        }
        for (((term, part), next), base) in self.pieces().zip(next).zip(base) {
            let split = term.lattice.split(part.width, next).into_iter();
            for ((next, base), piece) in split.zip(term.lattice.split(part.width, base)).zip(&mut pieces) {
                piece.next.push(next.1);
                piece.base.push(base.1);
            }
        }
        let (now, moved) = (&now[..], &moved[..]);
        let sums: Vec<T> =
            map_items(pieces, &|b, piece: Piece| self.unsettled_band(b, now, moved, piece, &update));
        tables.turn();
        self.blur_and_compare(tables);
        let mut total = T::default();
        sums.into_iter().for_each(|sum| total += sum);
        total
    }

    fn unsettled_band<T: Default + AddAssign>(
        &self,
        b: usize,
        now: &[Vec<f32>],
        moved: &[Vec<f32>],
        piece: Piece,
        update: &impl Fn(Points) -> (T, Option<Settlement>),
    ) -> T {
        let Piece { mut next, mut base, blocks } = piece;
        let stride = self.stride();
        let mut total = T::default();
        let mut rows = vec![0.0f32; BLOCK * stride];
        next.iter_mut().for_each(|table| table.fill(0.0));
        let points = self.terms[0].lattice.bands[b].points.clone();
        for ((k, first), block) in points.clone().step_by(BLOCK).enumerate().zip(blocks) {
            let count = BLOCK.min(points.end - first);
            if let Some(settled) = block {
                settled.slack -= self.drift(b, k, first, count, moved);
                if settled.slack >= 0.0 {
                    continue;
                }
                constant(&mut rows, stride, settled.lane, -settled.value);
                self.splat(b, k, first, &rows, &mut base);
                *block = None;
            }
            self.slice(b, k, first, now, &mut rows);
            let (part, settlement) = update(Points { first, count, rows: &mut rows, stride });
            total += part;
            let lasts = |s: &Settlement| s.slack > STEPS_AHEAD * self.drift(b, k, first, count, moved);
            *block = settlement.filter(lasts);
            match block {
                Some(settled) => {
                    constant(&mut rows, stride, settled.lane, settled.value);
                    self.splat(b, k, first, &rows, &mut base);
                }
                None => self.splat(b, k, first, &rows, &mut next),
            }
        }
        next.iter_mut().zip(&base).for_each(|(next, base)| inner::add_here(next, base));
        total
    }

    /// By how much a message to the points of a block can have changed with the last step. Zero if that is not known: then
    /// nothing was settled before it.
    fn drift(&self, b: usize, k: usize, first: usize, count: usize, moved: &[Vec<f32>]) -> f32 {
        let of_term = |(term, moved): (&super::SweepTerm, &Vec<f32>)| {
            let (band, runs) = self.block(term, b, k);
            let moved = &moved[band.rows.clone()];
            let most = largest(runs.ids().iter().map(|&id| moved[id as usize]));
            let scaling = &term.scaling;
            let left = scaling.left.map_or(1.0, |f| largest(f[first..][..count].iter().map(|f| f.abs())));
            most * left * (scaling.gain * term.lattice.factor()).abs()
        };
        self.terms.iter().zip(moved).map(of_term).sum()
    }

    /// Blurs what a step splatted, and finds by how much that changed every row.
    fn blur_and_compare(&self, tables: &mut Tables) {
        self.blur(tables);
        let Tables { now, next, settled, .. } = tables;
        settled.moved.resize_with(self.terms.len(), Vec::new);
        for (t, moved) in settled.moved.iter_mut().enumerate() {
            moved.clear();
            moved.resize(self.terms[t].lattice.rows, 0.0);
            for (p, part) in self.parts.iter().enumerate() {
                let at = t * self.parts.len() + p;
                inner::largest_changes(part.width, &now[at], &next[at], moved);
            }
        }
    }
}

/// The largest of some numbers that are not negative: such are in the order of their bits, which are compared faster.
fn largest(values: impl Iterator<Item = f32>) -> f32 {
    f32::from_bits(values.fold(0, |most: u32, v| most.max(v.to_bits())))
}

/// The same value in one lane of all rows, zero in the others.
fn constant(rows: &mut [f32], stride: usize, lane: usize, value: f32) {
    rows.fill(0.0);
    rows.iter_mut().skip(lane).step_by(stride).for_each(|v| *v = value);
}

#[cfg(test)]
mod tests;
