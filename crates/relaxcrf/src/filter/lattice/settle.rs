//! Iterations that leave out what is settled.
//!
//! Where all points of a block are as good as certain of the same label, the next iterations will not change that: most
//! blocks of a picture after two updates. Such a block is neither interpolated nor updated nor splatted again: its
//! points count as certain, and what they splat is kept in tables of its own. That holds as long as messages cannot
//! have changed by more than the block's slack. How much they can have changed is known from the vertices: a message
//! is a mean of vertex values, so it moves no further than the vertex that moves most.

use std::ops::AddAssign;

use rayon::prelude::*;

use super::bands::BLOCK;
use super::simd;
use super::sweep::{Points, Sweep, Tables};

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
        let sums: Vec<T> = pieces
            .into_par_iter()
            .enumerate()
            .map(|(b, piece)| self.unsettled_band(b, now, moved, piece, &update))
            .collect();
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
        next.iter_mut().zip(&base).for_each(|(next, base)| simd::add_here(next, base));
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
                simd::largest_changes(part.width, &now[at], &next[at], moved);
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
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::{Blur, Lattice, SweepTerm};
    use super::*;
    use crate::filter::Scaling;

    const SIDE: usize = 320;
    const POINTS: usize = SIDE * SIDE;
    const LABELS: usize = 3;
    const STEPS: usize = 8;

    /// Two kernels on a grid, so many points that there are several bands.
    fn lattices() -> [Lattice; 2] {
        let on_grid = |sigma: f32, dims: usize| {
            let row = move |a: usize| {
                let (x, y) = ((a % SIDE) as f32, (a / SIDE) as f32);
                [x / sigma, y / sigma, if x > 140.0 { 4.0 } else { 0.0 }].into_iter().take(dims)
            };
            let features: Vec<f32> = (0..POINTS).flat_map(row).collect();
            Lattice::new(&features, dims, Blur::Classic).unwrap()
        };
        [on_grid(3.0, 2), on_grid(20.0, 3)]
    }

    /// Each gives a point some ten in all.
    fn terms(lattices: &[Lattice; 2]) -> [SweepTerm<'_>; 2] {
        let term = |lattice, gain| SweepTerm { lattice, scaling: Scaling { gain, ..Scaling::NONE } };
        [term(&lattices[0], 0.15), term(&lattices[1], 0.004)]
    }

    /// What speaks for each label at a point: clear in most places, with a few mistakes, unclear along the middle.
    fn score(a: usize, label: usize) -> f32 {
        let noise = ((a * 7 + label * 13) as f32 * 0.37).sin();
        let likely = match a % SIDE {
            0..=130 => 0,
            131..=160 => a % 3,
            _ => 2,
        };
        noise + if label == if a.is_multiple_of(97) { 1 } else { likely } { 4.0 } else { 0.0 }
    }

    /// Beliefs after some updates, and how many blocks were updated on the way.
    fn beliefs(
        terms: &[SweepTerm],
        settle: impl Fn(&[f32]) -> Option<Settlement> + Sync,
    ) -> (Vec<f32>, usize) {
        let sweep = Sweep::new(terms.to_vec(), LABELS).unwrap();
        let mut tables = Tables::default();
        let updated = AtomicUsize::new(0);
        let update = |points: Points| {
            updated.fetch_add(1, Ordering::Relaxed);
            let rows = &mut points.rows[..points.count * points.stride];
            for (k, row) in rows.chunks_exact_mut(points.stride).enumerate() {
                row[..LABELS].iter_mut().enumerate().for_each(|(l, v)| *v += score(points.first + k, l));
            }
            simd::softmax_rows(rows, points.stride, LABELS, 1.0, None);
            (0.0, settle(rows))
        };
        sweep.fill(&mut tables, |points| {
            points.rows.fill(0.0);
            update(points);
        });
        for _ in 0..STEPS {
            sweep.step_unsettled::<f64>(&mut tables, update);
        }
        let mut q = vec![0.0; POINTS * LABELS];
        sweep.read::<f64>(&mut q, &mut tables, |points, out| {
            let Points { first, count, rows, stride } = points;
            update(Points { first, count, rows, stride });
            simd::keep_rows(&rows[..count * stride], stride, LABELS, out);
            0.0
        });
        (q, updated.into_inner())
    }

    /// The label that all points of a block have, if they are certain, with a slack as if every change was felt
    /// `caution` times.
    fn agreed(rows: &[f32], caution: f32) -> Option<Settlement> {
        let mut least = [0.0f32; 8];
        simd::least_of_lanes(rows, 8, &mut least);
        let (lane, &belief) = least.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
        let odds = (belief / (1.0 - belief).max(f32::EPSILON)).ln();
        (odds > 9.0).then(|| Settlement { lane, value: 1.0, slack: (odds - 8.0) / caution })
    }

    #[test]
    fn leaving_settled_blocks_out_changes_next_to_nothing() {
        let lattices = lattices();
        let terms = terms(&lattices);
        let (all, every_block) = beliefs(&terms, |_| None);
        assert_eq!(every_block, (STEPS + 2) * POINTS.div_ceil(BLOCK));
        let furthest = |q: &[f32]| q.iter().zip(&all).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        let (q, blocks) = beliefs(&terms, |rows| agreed(rows, 3.0));
        assert!(blocks < every_block * 3 / 4, "{blocks} of {every_block} blocks were updated");
        assert!(furthest(&q) < 1e-3, "beliefs are off by {}", furthest(&q));
        // With next to no slack blocks are released at the first change, and taken out of the tables again.
        let (q, more) = beliefs(&terms, |rows| agreed(rows, 30.0));
        assert!(more > blocks && furthest(&q) < 1e-3, "{more} blocks, beliefs are off by {}", furthest(&q));
    }

    #[test]
    fn the_same_bits_for_any_number_of_threads() {
        let lattices = lattices();
        let terms = terms(&lattices);
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| beliefs(&terms, |rows| agreed(rows, 3.0)))
        };
        let one = run(1);
        assert!(one == run(2) && one == run(5));
    }

    #[test]
    fn no_message_moves_further_than_told() {
        let lattices = lattices();
        let scaling = Scaling { gain: -0.7, ..Scaling::NONE };
        let sweep =
            Sweep::new(lattices.iter().map(|lattice| SweepTerm { lattice, scaling }).collect(), 1).unwrap();
        let (mut tables, messages) = (Tables::default(), |tables: &mut Tables| {
            let mut out = vec![0.0; POINTS];
            sweep.read::<f64>(&mut out, tables, |points, out| {
                out.copy_from_slice(&points.rows[..points.count]);
                0.0
            });
            out
        });
        let number = |a: usize, turn: usize| ((a * (3 + turn)) as f32 * 0.11).sin();
        sweep.fill(&mut tables, |points| {
            (0..points.count).for_each(|k| points.rows[k] = number(points.first + k, 0));
        });
        let before = messages(&mut tables);
        sweep.step_unsettled::<f64>(&mut tables, |points| {
            (0..points.count).for_each(|k| points.rows[k] = number(points.first + k, 1));
            (0.0, None)
        });
        let after = messages(&mut tables);
        let per_band = lattices[0].bands[0].points.len();
        for first in (0..POINTS).step_by(per_band) {
            for (k, at) in (first..POINTS.min(first + per_band)).step_by(BLOCK).enumerate() {
                let count = BLOCK.min(POINTS.min(first + per_band) - at);
                let told = sweep.drift(first / per_band, k, at, count, &tables.settled.moved);
                let most = (at..at + count).map(|a| (after[a] - before[a]).abs()).fold(0.0, f32::max);
                assert!(most <= told * 1.0001 + 1e-5, "a message moved by {most}, told was {told}");
            }
        }
    }
}
