//! The points in bands, each with its own piece of the table of vertex rows.
//!
//! Points are cut into bands at places that depend on their number only. A band's rows of the vertex table lie
//! together: first the vertices that it is the first to touch, then copies of vertices that belong to earlier
//! bands. So bands splat side by side without sharing a row, and the sums come out the same for any number of
//! threads: a band's in the order of its points, then band by band.

mod chains;
mod embed;
mod join;
mod size;
mod sort;
mod table;

use std::ops::Range;

use rayon::prelude::*;

pub use self::embed::MAX_DIMS;
use self::embed::{LANES, Lanes, Simplex};
pub use self::size::LatticeSize;
use self::table::Table;
use super::kernels;
use super::simplices::Simplices;
use crate::blocks::{POINTS_PER_BLOCK, points_per_band};

pub(super) use self::chains::{Chains, MISSING, find_chains};
pub(super) use self::embed::Embedding;
pub(super) use self::join::{Joined, Local, join_bands};
pub(super) use self::table::{Packing, Word};
pub(super) use super::kernels::WEIGHT_PADDING;

/// The vertices of a band's points.
#[derive(Debug)]
pub(super) struct Band {
    pub points: Range<usize>,
    /// The band's rows of the vertex table.
    pub rows: Range<usize>,
    /// Which of them are its points'.
    pub simplices: Simplices,
}

/// Copies of vertices: for each vertex that has any, its own row and those of its copies in band order.
#[derive(Debug, Default)]
pub(super) struct Copies {
    pub owners: Vec<u32>,
    pub starts: Vec<u32>,
    pub rows: Vec<u32>,
}

/// Locates all points, band by band, and fills their `weights` (d+1 for each): the bands by themselves. `None` when 32 bits
/// run out.
pub(super) fn locate<W: Word>(
    features: &[f32],
    embedding: &Embedding,
    packing: &Packing,
    weights: &mut [f32],
) -> Option<Vec<Local<W>>> {
    let dims = embedding.dims();
    let per_band = points_per_band(features.len() / dims);
    weights
        .par_chunks_mut(per_band * (dims + 1))
        .zip(features.par_chunks(per_band * dims))
        .map_init(Memory::default, |memory, (weights, features)| {
            kernels::locate(features, embedding, packing, weights, memory)
        })
        .collect()
}

/// Entries of the memory for simplices seen: a power of two.
const SIMPLICES: usize = 1 << 12;

/// Most vertices of a simplex whose steps fit a word.
const MAX_PACKED_VERTICES: usize = 8;

/// What a thread reuses from band to band.
pub(super) struct Memory<W> {
    table: Table<W>,
    /// For some simplices seen before: the first vertex, the steps, and the run that has the ids.
    seen: Vec<(W, u32, u32)>,
}

impl<W: Word> Default for Memory<W> {
    fn default() -> Self {
        Self { table: Table::with_capacity(0), seen: Vec::new() }
    }
}

/// A run of points in one simplex whose vertices have no ids yet.
#[derive(Clone, Copy)]
struct NewRun<W> {
    /// The run with the same simplex, or [`MISSING`].
    same_as: u32,
    keys: [W; MAX_PACKED_VERTICES],
}

/// Takes the points of a band, block by block.
struct Builder<'p, W> {
    packing: &'p Packing,
    memory: &'p mut Memory<W>,
    m: usize,
    /// Points of the band.
    points: usize,
    /// Points taken so far.
    taken: usize,
    local: Local<W>,
    /// From one vertex of a simplex to the next, by the coordinate that falls.
    rises: [W; MAX_PACKED_VERTICES],
    new_runs: Vec<NewRun<W>>,
}

impl<'p, W: Word> Builder<'p, W> {
    fn new(packing: &'p Packing, memory: &'p mut Memory<W>, m: usize, points: usize) -> Self {
        memory.table.reset(points / 4);
        memory.seen.clear();
        memory.seen.resize(SIMPLICES, (W::ZERO, 0, MISSING));
        Self {
            packing,
            memory,
            m,
            points,
            taken: 0,
            local: Local {
                count: 0,
                classes: vec![Vec::with_capacity(points / 16); m],
                block_runs: Vec::with_capacity(points / POINTS_PER_BLOCK + 2),
                run_ends: Vec::with_capacity(points / 2),
                ids: Vec::with_capacity(points / 2 * m),
            },
            rises: std::array::from_fn(|falling| packing.rise(falling)),
            new_runs: Vec::with_capacity(POINTS_PER_BLOCK),
        }
    }

    /// The next block of points, each by the first vertex of its simplex and the steps from there, three bits each.
    ///
    /// First all runs are found and what they need from the table is fetched, then they get their ids: so that the
    /// fetches overlap.
    #[inline(always)]
    fn add_block<const M: usize>(&mut self, bases: &[W], steps: &[u32]) {
        self.make_room(bases.len());
        self.local.block_runs.push(self.local.run_ends.len() as u32);
        self.new_runs.clear();
        let mut last = None;
        let mut keys = [W::ZERO; MAX_PACKED_VERTICES];
        for (place, (&base, &steps)) in bases.iter().zip(steps).enumerate() {
            if last == Some((base, steps)) {
                if let Some(end) = self.local.run_ends.last_mut() {
                    *end += 1;
                }
                continue;
            }
            last = Some((base, steps));
            let run = self.local.run_ends.len() as u32;
            self.local.run_ends.push(place as u8 + 1);
            let slot = (base.plus(W::of(u64::from(steps)).shl(40)).hash() >> 52) as usize % SIMPLICES;
            let (known_base, known_steps, known) = self.memory.seen[slot];
            if known != MISSING && known_base == base && known_steps == steps {
                self.new_runs.push(NewRun { same_as: known, keys });
                continue;
            }
            self.memory.seen[slot] = (base, steps, run);
            let mut key = base;
            for (k, place) in keys[..M].iter_mut().enumerate() {
                self.memory.table.prefetch(key);
                *place = key;
                key = key.plus(self.rises[(steps >> (3 * k) & 7) as usize]);
            }
            self.new_runs.push(NewRun { same_as: MISSING, keys });
        }
        self.taken += bases.len();
        for run in 0..self.new_runs.len() {
            let NewRun { same_as, keys } = self.new_runs[run];
            if same_as == MISSING {
                (0..M).for_each(|k| self.insert(k, keys[k]));
            } else {
                let at = same_as as usize * M;
                self.local.ids.extend_from_within(at..at + M);
            }
        }
    }

    /// The next point, for dimensions whose steps do not fit a word.
    fn add_point(&mut self, simplex: &Simplex) {
        self.make_room(1);
        let place = self.taken % POINTS_PER_BLOCK;
        self.taken += 1;
        if place == 0 {
            self.local.block_runs.push(self.local.run_ends.len() as u32);
        }
        self.local.run_ends.push(place as u8 + 1);
        let mut key: W = self.packing.pack(|i| simplex.base[i]);
        for k in 0..self.m {
            self.insert(k, key);
            key = key.plus(self.packing.rise(usize::from(simplex.steps[k])));
        }
    }

    /// Looks up the vertex of remainder k.
    #[inline(always)]
    fn insert(&mut self, k: usize, key: W) {
        let inserted = self.memory.table.insert(key);
        if inserted.is_new {
            self.local.classes[k].push((key, inserted.number));
        }
        self.local.ids.push(inserted.number);
    }

    /// Makes room for the vertices of so many points; expects as many new vertices of the points to come as of those before.
    #[inline(always)]
    fn make_room(&mut self, points: usize) {
        let table = &mut self.memory.table;
        if !table.has_room(points * self.m) {
            let expected = table.len() as u64 * self.points as u64 / self.taken.max(1) as u64;
            table.grow((expected as usize + points * self.m).min((self.points + points) * self.m));
        }
    }

    fn finish(mut self) -> Option<Local<W>> {
        self.local.block_runs.push(self.local.run_ends.len() as u32);
        self.local.count = self.memory.table.len();
        (self.local.count < u32::MAX as usize).then_some(self.local)
    }
}

/// Locates the points of one band, [`LANES`] at a time where the dimension allows.
#[inline(always)]
pub(super) fn locate_band<W: Word>(
    features: &[f32],
    embedding: &Embedding,
    packing: &Packing,
    weights: &mut [f32],
    memory: &mut Memory<W>,
) -> Option<Local<W>> {
    // Vector code for the usual dimensions: positions in two or three, with one colour channel or three.
    match (embedding.dims(), W::BITS) {
        (2, u64::BITS) => locate_by_lanes::<W, 3>(features, embedding, packing, weights, memory),
        (3, u64::BITS) => locate_by_lanes::<W, 4>(features, embedding, packing, weights, memory),
        (5, u64::BITS) => locate_by_lanes::<W, 6>(features, embedding, packing, weights, memory),
        (6, u64::BITS) => locate_by_lanes::<W, 7>(features, embedding, packing, weights, memory),
        _ => locate_singly(features, embedding, packing, weights, memory),
    }
}

#[inline(always)]
fn locate_by_lanes<W: Word, const M: usize>(
    features: &[f32],
    embedding: &Embedding,
    packing: &Packing,
    weights: &mut [f32],
    memory: &mut Memory<W>,
) -> Option<Local<W>> {
    let d = M - 1;
    let points = features.len() / d;
    let mut builder = Builder::new(packing, memory, M, points);
    let mut lanes = Lanes::<M>::new();
    let (mut bases, mut steps) = ([W::ZERO; POINTS_PER_BLOCK], [0u32; POINTS_PER_BLOCK]);
    let mut padded = [0.0f32; 8 * LANES];
    let blocks = weights.chunks_mut(M * POINTS_PER_BLOCK).zip(features.chunks(d * POINTS_PER_BLOCK));
    for (weights, features) in blocks {
        let count = features.len() / d;
        for (group, weights) in weights.chunks_mut(M * LANES).enumerate() {
            let here = &features[group * LANES * d..(group * LANES * d + LANES * d).min(features.len())];
            if here.len() == LANES * d {
                embedding.locate_lanes(here, &mut lanes);
            } else {
                padded[..here.len()].copy_from_slice(here);
                embedding.locate_lanes(&padded[..LANES * d], &mut lanes);
            }
            let at = group * LANES;
            bases[at..at + LANES].copy_from_slice(&packing.pack_lanes::<W, LANES>(&lanes.base));
            steps[at..at + LANES].copy_from_slice(&lanes.steps);
            let (rows, _) = weights.as_chunks_mut::<M>();
            for (l, row) in rows.iter_mut().enumerate() {
                for (k, w) in row.iter_mut().enumerate() {
                    *w = lanes.weights[k][l];
                }
            }
        }
        builder.add_block::<M>(&bases[..count], &steps[..count]);
    }
    builder.finish()
}

fn locate_singly<W: Word>(
    features: &[f32],
    embedding: &Embedding,
    packing: &Packing,
    weights: &mut [f32],
    memory: &mut Memory<W>,
) -> Option<Local<W>> {
    let m = embedding.dims() + 1;
    let mut builder = Builder::new(packing, memory, m, weights.len() / m);
    let mut simplex = Simplex::new();
    for (feature, weights) in features.chunks_exact(m - 1).zip(weights.chunks_exact_mut(m)) {
        embedding.locate(feature, &mut simplex);
        weights.copy_from_slice(&simplex.weights[..m]);
        builder.add_point(&simplex);
    }
    builder.finish()
}
