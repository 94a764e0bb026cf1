//! A whole iteration in one pass over the points: slice, update, splat.
//!
//! Methods whose next beliefs at a point depend on nothing but that point's filtered beliefs need not store these: a
//! sweep interpolates K y from the vertex tables of one iteration, hands a block of rows to the method, and splats what
//! it gets back into the tables of the next. Only the tables and what the method itself keeps go through memory.

use std::ops::AddAssign;

use super::apply::factors;
use super::bands::{BLOCK, points_per_band};
use super::inner::{slice_block, splat_block};
use super::kernels::{WIDEST, row_width};
use super::runs::Runs;
use super::settle::Settled;
use super::{Band, Lattice};
use crate::reduce::{map_items, map_tasks};
use crate::{Direction, Scaling};

/// Most points that an update is given at once.
pub const POINTS_PER_UPDATE: usize = BLOCK;

/// One kernel: a lattice and the scalings round it (`add` plays no part).
#[derive(Debug, Clone, Copy)]
pub struct SweepTerm<'a> {
    /// The operator.
    pub lattice: &'a Lattice,
    /// What it is scaled by.
    pub scaling: Scaling<'a>,
}

/// Channels that share a table, from `lane` of a row on. Only the last part may be wider than it has channels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    lane: usize,
    pub width: usize,
}

/// The sum of some lattices, applied to `channels` values per point.
#[derive(Debug, Clone)]
pub struct Sweep<'a> {
    pub(super) terms: Vec<SweepTerm<'a>>,
    pub(super) points: usize,
    channels: usize,
    pub(super) parts: Vec<Part>,
    stride: usize,
}

/// The vertex tables of a sweep: now those of one iteration, next those of the following. Kept between runs.
#[derive(Debug, Default)]
pub struct Tables {
    pub(super) now: Vec<Vec<f32>>,
    pub(super) next: Vec<Vec<f32>>,
    other: Vec<f32>,
    /// Whether `now` still has to be blurred.
    raw: bool,
    /// Of [`Sweep::step_unsettled`].
    pub(super) settled: Settled,
}

impl Tables {
    /// What was splatted becomes what is read.
    pub(super) fn turn(&mut self) {
        std::mem::swap(&mut self.now, &mut self.next);
        self.raw = true;
    }
}

/// What an update works on: some points with their messages.
#[derive(Debug)]
pub struct Points<'r> {
    /// The first of them.
    pub first: usize,
    /// How many.
    pub count: usize,
    /// Their rows, `stride` apart: K y on entry, the beliefs to splat on return. Values beyond the channels do not
    /// matter.
    pub rows: &'r mut [f32],
    /// From one row to the next.
    pub stride: usize,
}

/// Bytes of one table up to which all channels stay together, whatever the number of vertices.
const TABLE_BYTES: usize = 16 << 20;

/// How channels are shared out to tables of so many rows at most, and the width of them all.
fn parts(rows: usize, channels: usize) -> (Vec<Part>, usize) {
    let widest = (TABLE_BYTES / (4 * rows.max(1)) / 8 * 8).clamp(8, WIDEST);
    let mut parts: Vec<Part> = Vec::new();
    let (mut first, mut lane) = (0, 0);
    while first < channels {
        let len = widest.min(channels - first);
        // Rows of beliefs come in whole groups of eight, but for a single channel.
        let width = if channels == 1 { 1 } else { row_width(len).max(8) };
        parts.push(Part { lane, width });
        (first, lane) = (first + len, lane + width);
    }
    (parts, lane)
}

/// Bytes that the tables of a sweep take, on lattices with so many vertex rows.
pub fn sweep_bytes(rows: &[usize], channels: usize) -> usize {
    let most = rows.iter().copied().max().unwrap_or(0);
    let (parts, stride) = parts(most, channels);
    let widest = parts.iter().map(|p| p.width).max().unwrap_or(0);
    4 * (2 * stride * rows.iter().sum::<usize>() + widest * most)
}

impl<'a> Sweep<'a> {
    /// Terms on the same points; `None` without any.
    pub fn new(terms: Vec<SweepTerm<'a>>, channels: usize) -> Option<Self> {
        let points = terms.first()?.lattice.points;
        debug_assert!(terms.iter().all(|t| t.lattice.points == points));
        let rows = terms.iter().map(|t| t.lattice.rows).max().unwrap_or(1);
        let (parts, stride) = parts(rows, channels);
        Some(Self { terms, points, channels, parts, stride })
    }

    /// From one row of messages to the next: at least the number of channels.
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Puts `rows` (points x channels) into the tables.
    pub fn start(&self, rows: &[f32], tables: &mut Tables) {
        assert_eq!(rows.len(), self.points * self.channels, "one row is needed for each point");
        self.fill(tables, |points| {
            let from = rows[points.first * self.channels..].chunks_exact(self.channels);
            for (to, from) in points.rows.chunks_exact_mut(points.stride).zip(from).take(points.count) {
                to[..self.channels].copy_from_slice(from);
            }
        });
    }

    /// Puts beliefs into the tables that `make` writes into the rows of its points, whatever was there.
    pub fn fill(&self, tables: &mut Tables, make: impl Fn(Points) + Sync) {
        self.pass::<f64>(false, &mut [], tables, &|points, _| {
            make(points);
            0.0
        });
    }

    /// One iteration: `update` turns K y into the next beliefs, which go into the tables. It is also given its
    /// points' rows of `out`, points x any number, or nothing if `out` is empty. What it returns is added up
    /// in an order that does not depend on the number of threads.
    pub fn step<T: Default + Send + AddAssign>(
        &self,
        out: &mut [f32],
        tables: &mut Tables,
        update: impl Fn(Points, &mut [f32]) -> T + Sync,
    ) -> T {
        self.pass(true, out, tables, &update)
    }

    /// An iteration that goes on with other channels: the beliefs that `update` makes from its points' rows it writes
    /// into a second set of rows, those of `next`, a sweep of the same terms. From then on the tables are those of `next`.
    pub fn change<T: Default + Send + AddAssign>(
        &self,
        next: &Self,
        tables: &mut Tables,
        update: impl Fn(Points, &mut [f32]) -> T + Sync,
    ) -> T {
        self.blur(tables);
        next.make_room(tables);
        let Tables { now, next: into, .. } = tables;
        let sum = self.bands(
            &mut [],
            Some(now),
            Some((next, into)),
            &|points: Points, _: &mut [f32], to: &mut [f32]| update(points, to),
        );
        tables.turn();
        tables.settled.forget();
        sum
    }

    /// Looks at the messages of every so-manieth block of points.
    pub fn sample<T: Default + Send + AddAssign>(
        &self,
        every: usize,
        tables: &mut Tables,
        visit: impl Fn(Points) -> T + Sync,
    ) -> T {
        self.blur(tables);
        let now = &tables.now;
        let parts: Vec<T> = map_tasks(self.terms[0].lattice.bands.len(), &|b| {
            let mut total = T::default();
            let mut rows = vec![0.0f32; BLOCK * self.stride];
            let points = self.terms[0].lattice.bands[b].points.clone();
            for (k, first) in points.clone().step_by(BLOCK).enumerate().skip(b % every).step_by(every) {
                let count = BLOCK.min(points.end - first);
                self.slice(b, k, first, now, &mut rows);
                total += visit(Points { first, count, rows: &mut rows, stride: self.stride });
            }
            total
        });
        let mut total = T::default();
        parts.into_iter().for_each(|part| total += part);
        total
    }

    /// As [`Sweep::step`], but nothing is splatted: the tables stay as they are.
    pub fn read<T: Default + Send + AddAssign>(
        &self,
        out: &mut [f32],
        tables: &mut Tables,
        visit: impl Fn(Points, &mut [f32]) -> T + Sync,
    ) -> T {
        self.blur(tables);
        self.bands(out, Some(&tables.now), None, &|points: Points, out: &mut [f32], _: &mut [f32]| {
            visit(points, out)
        })
    }

    /// A pass that leaves splatted tables in `tables.now`; those of before are read if `filtered`.
    fn pass<T: Default + Send + AddAssign>(
        &self,
        filtered: bool,
        out: &mut [f32],
        tables: &mut Tables,
        update: &(impl Fn(Points, &mut [f32]) -> T + Sync),
    ) -> T {
        if filtered {
            self.blur(tables);
        }
        self.make_room(tables);
        let Tables { now, next, .. } = tables;
        let update = |points: Points, out: &mut [f32], _: &mut [f32]| update(points, out);
        let sum = self.bands(out, filtered.then_some(&now[..]), Some((self, next)), &update);
        tables.turn();
        tables.settled.forget();
        sum
    }

    /// Sizes the tables of the next iteration.
    pub(super) fn make_room(&self, tables: &mut Tables) {
        tables.next.resize_with(self.terms.len() * self.parts.len(), Vec::new);
        for ((term, part), table) in self.pieces().zip(&mut tables.next) {
            let size = term.lattice.rows * part.width;
            if table.capacity() > 2 * size {
                // Left over from rows that were much wider.
                *table = Vec::new();
            }
            table.resize(size, 0.0);
        }
    }

    /// Blurs what was splatted last, unless that was done. Put off until it is needed: the last splat of a run never
    /// is.
    pub(super) fn blur(&self, tables: &mut Tables) {
        if std::mem::take(&mut tables.raw) {
            for ((term, part), table) in self.pieces().zip(&mut tables.now) {
                let order = term.lattice.order(Direction::Forward);
                term.lattice.blur(part.width, order, table, &mut tables.other);
            }
        }
    }

    /// Every term with every part, in the order of the tables.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (&SweepTerm<'a>, &Part)> {
        self.terms.iter().flat_map(|term| self.parts.iter().map(move |part| (term, part)))
    }

    /// Runs `update` on all points, band by band, from the tables `now` and into those given with a sweep, if any. If that
    /// sweep is another one, updates write its rows, the last that they are given; else their points' own.
    fn bands<T: Default + Send + AddAssign>(
        &self,
        out: &mut [f32],
        now: Option<&[Vec<f32>]>,
        next: Option<(&Self, &mut Vec<Vec<f32>>)>,
        update: &(impl Fn(Points, &mut [f32], &mut [f32]) -> T + Sync),
    ) -> T {
        let per_band = points_per_band(self.points);
        let count = self.points.div_ceil(per_band);
        let mut jobs: Vec<(Vec<&mut [f32]>, &mut [f32])> = Vec::with_capacity(count);
        let mut rest = out;
        let width = rest.len() / self.points;
        for b in 0..count {
            let size = width * per_band.min(self.points - b * per_band);
            let (piece, others) = std::mem::take(&mut rest).split_at_mut(size);
            rest = others;
            jobs.push((Vec::new(), piece));
        }
        let mut into = self;
        if let Some((sweep, tables)) = next {
            into = sweep;
            for ((term, part), table) in sweep.pieces().zip(tables) {
                for ((_, piece), job) in term.lattice.split(part.width, table).into_iter().zip(&mut jobs) {
                    job.0.push(piece);
                }
            }
        }
        let sums: Vec<T> = map_items(jobs, &|b, (tables, out): (Vec<&mut [f32]>, &mut [f32])| {
            self.band(b, now, into, tables, out, width, update)
        });
        let mut total = T::default();
        sums.into_iter().for_each(|sum| total += sum);
        total
    }

    #[allow(clippy::too_many_arguments)]
    fn band<T: Default + AddAssign>(
        &self,
        b: usize,
        now: Option<&[Vec<f32>]>,
        into: &Self,
        mut next: Vec<&mut [f32]>,
        mut out: &mut [f32],
        width: usize,
        update: &impl Fn(Points, &mut [f32], &mut [f32]) -> T,
    ) -> T {
        let mut total = T::default();
        let mut rows = vec![0.0f32; BLOCK * self.stride];
        let mut others =
            if std::ptr::eq(self, into) { Vec::new() } else { vec![0.0f32; BLOCK * into.stride] };
        next.iter_mut().for_each(|table| table.fill(0.0));
        let points = self.terms[0].lattice.bands[b].points.clone();
        for (k, first) in points.clone().step_by(BLOCK).enumerate() {
            let count = BLOCK.min(points.end - first);
            if let Some(now) = now {
                self.slice(b, k, first, now, &mut rows);
            }
            let (here, rest) = std::mem::take(&mut out).split_at_mut(width * count);
            out = rest;
            total += update(Points { first, count, rows: &mut rows, stride: self.stride }, here, &mut others);
            let beliefs = if others.is_empty() { &rows } else { &others };
            into.splat(b, k, first, beliefs, &mut next);
        }
        total
    }

    /// K y of block `k` of band `b`.
    pub(super) fn slice(&self, b: usize, k: usize, first: usize, now: &[Vec<f32>], rows: &mut [f32]) {
        for (t, term) in self.terms.iter().enumerate() {
            let (band, runs) = self.block(term, b, k);
            let scaling = &term.scaling;
            let left = factors(scaling.left, scaling.gain * term.lattice.factor(), first);
            for (p, part) in self.parts.iter().enumerate() {
                let range = band.rows.start * part.width..band.rows.end * part.width;
                let table = &now[t * self.parts.len() + p][range];
                slice_block(part.width, runs, left, table, &mut rows[part.lane..], self.stride, t > 0);
            }
        }
    }

    /// Puts the rows of block `k` of band `b` into that band's pieces of the tables.
    pub(super) fn splat(&self, b: usize, k: usize, first: usize, rows: &[f32], tables: &mut [&mut [f32]]) {
        for ((term, part), table) in self.pieces().zip(tables) {
            let (_, runs) = self.block(term, b, k);
            let right = factors(term.scaling.right, 1.0, first);
            splat_block(part.width, runs, right, &rows[part.lane..], self.stride, table);
        }
    }

    pub(super) fn block(&self, term: &SweepTerm<'a>, b: usize, block: usize) -> (&'a Band, Runs<'a>) {
        let lattice = term.lattice;
        (&lattice.bands[b], Runs::new(&lattice.bands[b], block, &lattice.weights))
    }
}

#[cfg(test)]
mod tests;
