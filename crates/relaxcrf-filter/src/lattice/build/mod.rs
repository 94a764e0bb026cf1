//! The points in bands, each with its own piece of the table of vertex rows.
//!
//! Points are cut into bands at places that depend on their number only. A band's rows of the vertex table lie
//! together: first the vertices that it is the first to touch, then copies of vertices that belong to earlier
//! bands. So bands splat side by side without sharing a row, and the sums come out the same for any number of
//! threads: a band's in the order of its points, then band by band.

mod chains;
mod embed;
mod size;
mod table;

use std::ops::Range;

use rayon::prelude::*;

pub(super) use self::chains::{Chains, MISSING, find_chains};
pub(super) use self::embed::Embedding;
pub use self::embed::MAX_DIMS;
use self::embed::{LANES, Lanes, Simplex};
pub use self::size::LatticeSize;
use self::table::Table;
pub(super) use self::table::{Packing, Word};
use super::kernels;
pub(super) use super::kernels::WEIGHT_PADDING;
use super::simplices::Simplices;
use crate::blocks::{POINTS_PER_BLOCK, points_per_band};

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

/// All bands, and what the chains are found from.
pub(super) struct Located<W> {
    pub bands: Vec<Band>,
    pub copies: Copies,
    pub weights: Vec<f32>,
    pub table: Table<W>,
    /// The row of every vertex, by its number in `table`.
    pub row_of: Vec<u32>,
}

/// One band before its vertices are known to the others: ids are numbers of the band's own `keys`, the rest is
/// as in [`Simplices`].
pub(super) struct Local<W> {
    pub keys: Vec<W>,
    pub block_runs: Vec<u32>,
    pub run_ends: Vec<u8>,
    pub ids: Vec<u32>,
}

/// Locates all points and numbers the vertices; `None` when 32 bits run out.
pub(super) fn locate<W: Word>(
    features: &[f32],
    embedding: &Embedding,
    packing: &Packing,
) -> Option<Located<W>> {
    let dims = embedding.dims();
    let m = dims + 1;
    let points = features.len() / dims;
    let per_band = points_per_band(points);
    let mut weights = vec![0.0f32; points * m + kernels::WEIGHT_PADDING];
    let locals: Vec<Local<W>> = weights[..points * m]
        .par_chunks_mut(per_band * m)
        .zip(features.par_chunks(per_band * dims))
        .map(|(weights, features)| kernels::locate(features, embedding, packing, weights))
        .collect::<Vec<_>>()
        .into_iter()
        .map(|l: Builder<W>| l.finish())
        .collect::<Option<_>>()?;

    let Joined { bands, copies, table, row_of } = join_bands(points, m, locals)?;
    Some(Located { bands, copies, weights, table, row_of })
}

/// All bands with their vertices numbered.
pub(super) struct Joined<W> {
    pub bands: Vec<Band>,
    pub copies: Copies,
    pub table: Table<W>,
    /// The row of every vertex, by its number in `table`.
    pub row_of: Vec<u32>,
}

/// Numbers the vertices of all bands, those of earlier bands first; `None` when 32 bits run out.
pub(super) fn join_bands<W: Word>(points: usize, m: usize, locals: Vec<Local<W>>) -> Option<Joined<W>> {
    let per_band = points_per_band(points);
    // Number the vertices band by band: the order does not depend on who found them when.
    let mut table = Table::<W>::with_capacity(locals.iter().map(|l| l.keys.len()).sum());
    let mut row_of: Vec<u32> = Vec::new();
    let mut row = 0usize;
    let mut copied: Vec<(u32, u32)> = Vec::new();
    let mut bands = Vec::with_capacity(locals.len());
    for (b, local) in locals.into_iter().enumerate() {
        let before = table.len();
        let numbers: Vec<u32> = local.keys.iter().map(|&key| table.insert(key)).collect::<Option<_>>()?;
        let own = table.len() - before;
        if row + numbers.len() > u32::MAX as usize {
            return None;
        }
        row_of.extend((row..row + own).map(|r| r as u32));
        let mut copy = own;
        let rename: Vec<u32> = numbers
            .iter()
            .map(|&number| match (number as usize).checked_sub(before) {
                Some(own) => own as u32,
                None => {
                    copied.push((row_of[number as usize], (row + copy) as u32));
                    copy += 1;
                    copy as u32 - 1
                }
            })
            .collect();
        let rows = row..row + numbers.len();
        row = rows.end;
        bands.push((b * per_band..((b + 1) * per_band).min(points), rows, rename, local));
    }
    let bands = bands.into_par_iter().map(|(points, rows, rename, local)| {
        let Local { block_runs, run_ends, mut ids, .. } = local;
        ids.iter_mut().for_each(|id| *id = rename[*id as usize]);
        let simplices = Simplices::new(m, rows.len(), block_runs, run_ends, ids);
        Band { points, rows, simplices }
    });
    let bands = bands.collect();
    Some(Joined { bands, copies: group(copied), table, row_of })
}

/// Groups copies by owner. The sort keeps copies of one owner in the order of their rows, which is band order.
fn group(mut copied: Vec<(u32, u32)>) -> Copies {
    copied.par_sort_unstable();
    let mut copies = Copies::default();
    for (k, &(owner, row)) in copied.iter().enumerate() {
        if copies.owners.last() != Some(&owner) {
            copies.owners.push(owner);
            copies.starts.push(k as u32);
        }
        copies.rows.push(row);
    }
    copies.starts.push(copied.len() as u32);
    copies
}

/// Entries of the memory for simplices seen: a power of two.
const SIMPLICES: usize = 1 << 12;

/// Takes the points of a band one by one.
pub(super) struct Builder<'p, W> {
    packing: &'p Packing,
    m: usize,
    table: Table<W>,
    /// For some simplices seen before: the first vertex, the steps, and the run that has the ids.
    seen: Vec<(W, u32, u32)>,
    last: Option<(W, u32)>,
    local: Local<W>,
    points: usize,
    full: bool,
}

impl<'p, W: Word> Builder<'p, W> {
    fn new(packing: &'p Packing, m: usize, points: usize) -> Self {
        Self {
            packing,
            m,
            table: Table::with_capacity(points / 4),
            seen: vec![(W::ZERO, 0, u32::MAX); SIMPLICES],
            last: None,
            local: Local {
                keys: Vec::new(),
                block_runs: Vec::with_capacity(points / POINTS_PER_BLOCK + 2),
                run_ends: Vec::with_capacity(points / 2),
                ids: Vec::with_capacity(points / 2 * m),
            },
            points: 0,
            full: false,
        }
    }

    /// The next point, by the first vertex of its simplex and the steps from there, three bits each.
    #[inline(always)]
    fn add(&mut self, base: W, steps: u32) {
        let place = self.points % POINTS_PER_BLOCK;
        self.points += 1;
        let runs = self.local.run_ends.len();
        if place == 0 {
            self.local.block_runs.push(runs as u32);
        } else if self.last == Some((base, steps)) {
            self.local.run_ends[runs - 1] += 1;
            return;
        }
        self.last = Some((base, steps));
        self.local.run_ends.push(place as u8 + 1);
        let slot = (base.plus(W::of(u64::from(steps)).shl(40)).hash() >> 52) as usize % SIMPLICES;
        let (known_base, known_steps, run) = self.seen[slot];
        if run != u32::MAX && known_base == base && known_steps == steps {
            let at = run as usize * self.m;
            self.local.ids.extend_from_within(at..at + self.m);
            return;
        }
        self.seen[slot] = (base, steps, runs as u32);
        let mut key = base;
        for k in 0..self.m {
            self.insert(key);
            key = self.packing.next_vertex(key, (steps >> (3 * k) & 7) as usize);
        }
    }

    /// As `add`, for dimensions whose steps do not fit a word.
    fn add_simplex(&mut self, simplex: &Simplex) {
        let place = self.points % POINTS_PER_BLOCK;
        self.points += 1;
        if place == 0 {
            self.local.block_runs.push(self.local.run_ends.len() as u32);
        }
        self.local.run_ends.push(place as u8 + 1);
        let mut key: W = self.packing.pack(|i| simplex.base[i]);
        for k in 0..self.m {
            self.insert(key);
            key = self.packing.next_vertex(key, usize::from(simplex.steps[k]));
        }
    }

    #[inline(always)]
    fn insert(&mut self, key: W) {
        let id = self.table.insert(key);
        self.full |= id.is_none();
        self.local.ids.push(id.unwrap_or(0));
    }

    /// The vertices and the number of runs, for those who want to know no more.
    pub(super) fn into_keys_and_runs(self) -> Option<(Vec<W>, usize)> {
        let runs = self.local.run_ends.len();
        (!self.full).then(|| (self.table.into_keys(), runs))
    }

    fn finish(mut self) -> Option<Local<W>> {
        self.local.block_runs.push(self.local.run_ends.len() as u32);
        self.local.keys = self.table.into_keys();
        (!self.full).then_some(self.local)
    }
}

/// Locates the points of one band, [`LANES`] at a time where the dimension allows.
#[inline(always)]
pub(super) fn locate_band<'p, W: Word>(
    features: &[f32],
    embedding: &Embedding,
    packing: &'p Packing,
    weights: &mut [f32],
) -> Builder<'p, W> {
    // Vector code for the usual dimensions: positions in two or three, with one colour channel or three.
    match (embedding.dims(), W::BITS) {
        (2, u64::BITS) => locate_by_lanes::<W, 3>(features, embedding, packing, weights),
        (3, u64::BITS) => locate_by_lanes::<W, 4>(features, embedding, packing, weights),
        (5, u64::BITS) => locate_by_lanes::<W, 6>(features, embedding, packing, weights),
        _ => locate_singly(features, embedding, packing, weights),
    }
}

#[inline(always)]
fn locate_by_lanes<'p, W: Word, const M: usize>(
    features: &[f32],
    embedding: &Embedding,
    packing: &'p Packing,
    weights: &mut [f32],
) -> Builder<'p, W> {
    let d = M - 1;
    let points = features.len() / d;
    let mut builder = Builder::new(packing, M, points);
    let mut lanes = Lanes::<M>::new();
    let mut rest = [0.0f32; 8 * LANES];
    for (block, weights) in weights.chunks_mut(M * LANES).enumerate() {
        let here = &features[block * LANES * d..(block * LANES * d + LANES * d).min(features.len())];
        if here.len() == LANES * d {
            embedding.locate_lanes(here, &mut lanes);
        } else {
            rest[..here.len()].copy_from_slice(here);
            embedding.locate_lanes(&rest[..LANES * d], &mut lanes);
        }
        let words = packing.pack_lanes::<W, LANES>(&lanes.base);
        let (rows, _) = weights.as_chunks_mut::<M>();
        for (l, row) in rows.iter_mut().enumerate() {
            for (k, w) in row.iter_mut().enumerate() {
                *w = lanes.weights[k][l];
            }
            builder.add(words[l], lanes.steps[l]);
        }
    }
    builder
}

fn locate_singly<'p, W: Word>(
    features: &[f32],
    embedding: &Embedding,
    packing: &'p Packing,
    weights: &mut [f32],
) -> Builder<'p, W> {
    let m = embedding.dims() + 1;
    let mut builder = Builder::new(packing, m, weights.len() / m);
    let mut simplex = Simplex::new();
    for (feature, weights) in features.chunks_exact(m - 1).zip(weights.chunks_exact_mut(m)) {
        embedding.locate(feature, &mut simplex);
        weights.copy_from_slice(&simplex.weights[..m]);
        builder.add_simplex(&simplex);
    }
    builder
}
