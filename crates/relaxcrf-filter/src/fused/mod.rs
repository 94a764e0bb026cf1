//! A whole iteration in one pass over the points: interpolate the product, update, splat.
//!
//! Methods whose next values at a point depend only on the product K y at that point need not store the product. A
//! fused pass interpolates K y from the vertex tables of one iteration, lets the method rewrite a block of rows, and
//! splats the result into the tables of the next iteration. Only the tables and what the method itself keeps go through
//! memory.

mod skip;

use std::ops::{AddAssign, Range};

pub use self::skip::ConvergedBlock;
use self::skip::SkippedBlocks;
pub(crate) use self::skip::largest;
use crate::blocks::{POINTS_PER_BLOCK, band_count, band_points};
use crate::lattice::{LatticeSize, MAX_ROW_WIDTH, row_width};
use crate::operator::{Factors, Operator, Scaling};
use crate::reduce::{map_items, map_tasks};

/// An operator that works through tables of vertex rows: points splat into them, they are blurred, and points
/// interpolate from them.
///
/// Points are cut into bands of blocks, the same for all operators on the same number of points. Each band has its own rows of
/// every table. Rows are 1 or a multiple of eight up to 32 values wide.
pub trait Fused: Operator {
    /// Number of rows of a table.
    fn table_rows(&self) -> usize;

    /// The rows of a band.
    fn band_rows(&self, band: usize) -> Range<usize>;

    /// Adds the rows of a block's points, `stride` apart and times `right`, to the band's piece of a table.
    fn splat(
        &self,
        block: BlockIndex,
        width: usize,
        right: Factors,
        rows: &[f32],
        stride: usize,
        piece: &mut [f32],
    );

    /// Turns a splatted table into one to interpolate from. `spare` is a buffer.
    fn blur(&self, width: usize, table: &mut [f32], spare: &mut Vec<f32>);

    /// What interpolated values are to be multiplied by.
    fn response(&self) -> f32;

    /// Interpolates the rows of a block's points, `stride` apart and times `left`, from the band's piece of a blurred
    /// table: stores them, or adds them.
    #[allow(clippy::too_many_arguments)]
    fn slice(
        &self,
        block: BlockIndex,
        width: usize,
        left: Factors,
        piece: &[f32],
        rows: &mut [f32],
        stride: usize,
        add: bool,
    );

    /// The largest of some non-negative numbers, one for each row of the band's piece, over the rows that a block's
    /// points interpolate from.
    fn largest_of_block(&self, block: BlockIndex, numbers: &[f32]) -> f32;

    /// The numbers that the operator's memory depends on.
    fn size(&self) -> LatticeSize;
}

/// A block of points: block `block` of band `band`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockIndex {
    /// The band.
    pub band: usize,
    /// The block, counted from the band's first.
    pub block: usize,
}

/// One kernel: an operator and the scalings around it (`add` plays no part).
#[derive(Debug, Clone, Copy)]
pub struct FusedTerm<'a> {
    /// The operator.
    pub operator: &'a dyn Fused,
    /// What it is scaled by.
    pub scaling: Scaling<'a>,
}

/// Channels that share a table, from `lane` of a row on. Only the last part may be wider than it has channels.
#[derive(Debug, Clone, Copy)]
struct Part {
    lane: usize,
    width: usize,
}

/// The sum of some operators, applied to `channels` values per point.
#[derive(Debug, Clone)]
pub struct FusedPass<'a> {
    terms: Vec<FusedTerm<'a>>,
    points: usize,
    channels: usize,
    parts: Vec<Part>,
    stride: usize,
}

/// The vertex tables of a fused pass: `now` those of one iteration, `next` those of the following. Kept between runs.
#[derive(Debug, Default)]
pub struct Tables {
    now: Vec<Vec<f32>>,
    next: Vec<Vec<f32>>,
    spare: Vec<f32>,
    /// Whether `now` still has to be blurred.
    raw: bool,
    /// Of [`FusedPass::step_active_blocks`].
    skipped: SkippedBlocks,
}

impl Tables {
    /// Makes what was splatted the tables to read.
    fn turn(&mut self) {
        std::mem::swap(&mut self.now, &mut self.next);
        self.raw = true;
    }
}

/// What an update works on: some points with their products.
#[derive(Debug)]
pub struct Block<'r> {
    /// The first of the points.
    pub first: usize,
    /// Number of points.
    pub count: usize,
    /// The points' rows, `stride` apart: K y on entry, the values to splat on return. Values beyond the channels do
    /// not matter.
    pub rows: &'r mut [f32],
    /// From one row to the next.
    pub stride: usize,
}

/// Bytes of one table up to which all channels stay together, whatever the number of vertices.
const MAX_SHARED_TABLE_BYTES: usize = 16 << 20;

/// How channels are divided among tables of at most `rows` rows, and the total width.
fn parts(rows: usize, channels: usize) -> (Vec<Part>, usize) {
    let widest = (MAX_SHARED_TABLE_BYTES / (4 * rows.max(1)) / 8 * 8).clamp(8, MAX_ROW_WIDTH);
    let mut parts: Vec<Part> = Vec::new();
    let (mut first, mut lane) = (0, 0);
    while first < channels {
        let len = widest.min(channels - first);
        // Rows come in whole groups of eight, except for a single channel.
        let width = if channels == 1 { 1 } else { row_width(len).max(8) };
        parts.push(Part { lane, width });
        (first, lane) = (first + len, lane + width);
    }
    (parts, lane)
}

/// Bytes that the tables of a fused pass take, for operators with these numbers of table rows.
pub fn table_bytes(rows: &[usize], channels: usize) -> usize {
    let most = rows.iter().copied().max().unwrap_or(0);
    let (parts, stride) = parts(most, channels);
    let widest = parts.iter().map(|p| p.width).max().unwrap_or(0);
    4 * (2 * stride * rows.iter().sum::<usize>() + widest * most)
}

impl<'a> FusedPass<'a> {
    /// Terms on the same points; `None` without any.
    pub fn new(terms: Vec<FusedTerm<'a>>, channels: usize) -> Option<Self> {
        let points = terms.first()?.operator.points();
        debug_assert!(terms.iter().all(|t| t.operator.points() == points));
        let rows = terms.iter().map(|t| t.operator.table_rows()).max().unwrap_or(1);
        let (parts, stride) = parts(rows, channels);
        Some(Self { terms, points, channels, parts, stride })
    }

    /// From one row of products to the next: at least the number of channels.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Puts `rows` (points x channels) into the tables.
    pub fn start(&self, rows: &[f32], tables: &mut Tables) {
        assert_eq!(rows.len(), self.points * self.channels, "one row is needed for each point");
        self.fill(tables, |block| {
            let from = rows[block.first * self.channels..].chunks_exact(self.channels);
            for (to, from) in block.rows.chunks_exact_mut(block.stride).zip(from).take(block.count) {
                to[..self.channels].copy_from_slice(from);
            }
        });
    }

    /// Puts the values into the tables that `make` writes into the rows of its points, whatever the rows hold.
    pub fn fill(&self, tables: &mut Tables, make: impl Fn(Block) + Sync) {
        self.pass::<f64>(false, &mut [], tables, &|block, _| {
            make(block);
            0.0
        });
    }

    /// One iteration: `update` turns K y into the next values, which go into the tables. `update` is also given its
    /// points' rows of `out`, points x any number, or nothing if `out` is empty. What `update` returns is added up
    /// in an order that does not depend on the number of threads.
    pub fn step<T: Default + Send + AddAssign>(
        &self,
        out: &mut [f32],
        tables: &mut Tables,
        update: impl Fn(Block, &mut [f32]) -> T + Sync,
    ) -> T {
        self.pass(true, out, tables, &update)
    }

    /// An iteration that goes on with other channels: `update` writes the values it makes from its points' rows into a
    /// second set of rows, those of `next`, a pass of the same terms. From then on the tables are those of `next`.
    pub fn change<T: Default + Send + AddAssign>(
        &self,
        next: &Self,
        tables: &mut Tables,
        update: impl Fn(Block, &mut [f32]) -> T + Sync,
    ) -> T {
        self.blur(tables);
        next.make_room(tables);
        let Tables { now, next: into, .. } = tables;
        let sum = self.bands(
            &mut [],
            Some(now),
            Some((next, into)),
            &|block: Block, _: &mut [f32], to: &mut [f32]| update(block, to),
        );
        tables.turn();
        tables.skipped.clear();
        sum
    }

    /// Visits the products of one block in every `every`.
    pub fn sample<T: Default + Send + AddAssign>(
        &self,
        every: usize,
        tables: &mut Tables,
        visit: impl Fn(Block) -> T + Sync,
    ) -> T {
        self.blur(tables);
        let now = &tables.now;
        let parts: Vec<T> = map_tasks(band_count(self.points), &|band| {
            let mut total = T::default();
            let mut rows = vec![0.0f32; POINTS_PER_BLOCK * self.stride];
            for (index, first, count) in self.blocks(band).skip(band % every).step_by(every) {
                self.slice(index, first, now, &mut rows);
                total += visit(Block { first, count, rows: &mut rows, stride: self.stride });
            }
            total
        });
        sum_of(parts)
    }

    /// As [`FusedPass::step`], but nothing is splatted: the tables stay as they are.
    pub fn read<T: Default + Send + AddAssign>(
        &self,
        out: &mut [f32],
        tables: &mut Tables,
        visit: impl Fn(Block, &mut [f32]) -> T + Sync,
    ) -> T {
        self.blur(tables);
        self.bands(out, Some(&tables.now), None, &|block: Block, out: &mut [f32], _: &mut [f32]| {
            visit(block, out)
        })
    }

    /// A pass that leaves splatted tables in `tables.now`; those of before are read if `filtered`.
    fn pass<T: Default + Send + AddAssign>(
        &self,
        filtered: bool,
        out: &mut [f32],
        tables: &mut Tables,
        update: &(impl Fn(Block, &mut [f32]) -> T + Sync),
    ) -> T {
        if filtered {
            self.blur(tables);
        }
        self.make_room(tables);
        let Tables { now, next, .. } = tables;
        let update = |block: Block, out: &mut [f32], _: &mut [f32]| update(block, out);
        let sum = self.bands(out, filtered.then_some(&now[..]), Some((self, next)), &update);
        tables.turn();
        tables.skipped.clear();
        sum
    }

    /// Sizes the tables of the next iteration.
    fn make_room(&self, tables: &mut Tables) {
        tables.next.resize_with(self.terms.len() * self.parts.len(), Vec::new);
        for ((term, part), table) in self.pieces().zip(&mut tables.next) {
            let size = term.operator.table_rows() * part.width;
            if table.capacity() > 2 * size {
                // Left over from rows that were much wider.
                *table = Vec::new();
            }
            table.resize(size, 0.0);
        }
    }

    /// Blurs what was splatted last, unless that was done. Put off until it is needed: the last splat of a run never
    /// is.
    fn blur(&self, tables: &mut Tables) {
        if std::mem::take(&mut tables.raw) {
            for ((term, part), table) in self.pieces().zip(&mut tables.now) {
                term.operator.blur(part.width, table, &mut tables.spare);
            }
        }
    }

    /// Every term with every part, in the order of the tables.
    fn pieces(&self) -> impl Iterator<Item = (&FusedTerm<'a>, &Part)> {
        self.terms.iter().flat_map(|term| self.parts.iter().map(move |part| (term, part)))
    }

    /// The blocks of a band, each with its first point and the number of points.
    fn blocks(&self, band: usize) -> impl Iterator<Item = (BlockIndex, usize, usize)> + use<> {
        let points = band_points(self.points, band);
        points.clone().step_by(POINTS_PER_BLOCK).enumerate().map(move |(block, first)| {
            (BlockIndex { band, block }, first, POINTS_PER_BLOCK.min(points.end - first))
        })
    }

    /// Cuts a table of `term` into the bands' pieces.
    fn split<'t>(
        &self,
        term: &FusedTerm,
        width: usize,
        mut table: &'t mut [f32],
    ) -> impl Iterator<Item = &'t mut [f32]> {
        (0..band_count(self.points)).map(move |band| {
            let rows = term.operator.band_rows(band).len();
            let (piece, others) = std::mem::take(&mut table).split_at_mut(rows * width);
            table = others;
            piece
        })
    }

    /// Runs `update` on all points, band by band, from the tables `now` and into those given with a pass, if any. If
    /// that pass is another one, updates write its rows, the last that they are given; else their points' own.
    fn bands<T: Default + Send + AddAssign>(
        &self,
        out: &mut [f32],
        now: Option<&[Vec<f32>]>,
        next: Option<(&Self, &mut Vec<Vec<f32>>)>,
        update: &(impl Fn(Block, &mut [f32], &mut [f32]) -> T + Sync),
    ) -> T {
        let count = band_count(self.points);
        let mut jobs: Vec<(Vec<&mut [f32]>, &mut [f32])> = Vec::with_capacity(count);
        let mut others = out;
        let width = others.len() / self.points;
        for band in 0..count {
            let size = width * band_points(self.points, band).len();
            let (piece, behind) = std::mem::take(&mut others).split_at_mut(size);
            others = behind;
            jobs.push((Vec::new(), piece));
        }
        let mut into = self;
        if let Some((pass, tables)) = next {
            into = pass;
            for ((term, part), table) in pass.pieces().zip(tables) {
                for (piece, job) in pass.split(term, part.width, table).zip(&mut jobs) {
                    job.0.push(piece);
                }
            }
        }
        let sums: Vec<T> = map_items(jobs, &|band, (tables, out): (Vec<&mut [f32]>, &mut [f32])| {
            self.band(band, now, into, tables, out, width, update)
        });
        sum_of(sums)
    }

    #[allow(clippy::too_many_arguments)]
    fn band<T: Default + AddAssign>(
        &self,
        band: usize,
        now: Option<&[Vec<f32>]>,
        into: &Self,
        mut next: Vec<&mut [f32]>,
        mut out: &mut [f32],
        width: usize,
        update: &impl Fn(Block, &mut [f32], &mut [f32]) -> T,
    ) -> T {
        let mut total = T::default();
        let mut rows = vec![0.0f32; POINTS_PER_BLOCK * self.stride];
        let changes = !std::ptr::eq(self, into);
        let mut others = if changes { vec![0.0f32; POINTS_PER_BLOCK * into.stride] } else { Vec::new() };
        next.iter_mut().for_each(|table| table.fill(0.0));
        for (index, first, count) in self.blocks(band) {
            if let Some(now) = now {
                self.slice(index, first, now, &mut rows);
            }
            let (here, behind) = std::mem::take(&mut out).split_at_mut(width * count);
            out = behind;
            total += update(Block { first, count, rows: &mut rows, stride: self.stride }, here, &mut others);
            let values = if changes { &others } else { &rows };
            into.splat(index, first, values, &mut next);
        }
        total
    }

    /// K y of a block, whose first point is `first`.
    fn slice(&self, index: BlockIndex, first: usize, now: &[Vec<f32>], rows: &mut [f32]) {
        for (t, term) in self.terms.iter().enumerate() {
            let scaling = &term.scaling;
            let left = Factors::from_point(scaling.left, scaling.gain * term.operator.response(), first);
            let band = term.operator.band_rows(index.band);
            for (p, part) in self.parts.iter().enumerate() {
                let piece = &now[t * self.parts.len() + p][band.start * part.width..band.end * part.width];
                let rows = &mut rows[part.lane..];
                term.operator.slice(index, part.width, left, piece, rows, self.stride, t > 0);
            }
        }
    }

    /// Puts the rows of a block into its band's pieces of the tables.
    fn splat(&self, index: BlockIndex, first: usize, rows: &[f32], pieces: &mut [&mut [f32]]) {
        for ((term, part), piece) in self.pieces().zip(pieces) {
            let right = Factors::from_point(term.scaling.right, 1.0, first);
            term.operator.splat(index, part.width, right, &rows[part.lane..], self.stride, piece);
        }
    }
}

/// The parts added up in their order.
fn sum_of<T: Default + AddAssign>(parts: Vec<T>) -> T {
    parts.into_iter().fold(T::default(), |mut total, part| {
        total += part;
        total
    })
}

#[cfg(test)]
mod tests;
