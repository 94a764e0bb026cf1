//! Joins the bands' vertices: which of them are the same, and where each stands in the table of rows.
//!
//! A band's rows lie together: first the vertices that it is the first to touch, then copies of vertices that belong to
//! earlier bands, each in the order in which the band touches them.

use rayon::prelude::*;

use super::sort::sort_entries;
use super::table::Word;
use super::{Band, Copies};
use crate::blocks::band_points;
use crate::lattice::simplices::Simplices;
use crate::reduce::{map_items, map_tasks};

/// One band before its vertices are known to the others: ids are numbers of the band's own vertices, the remaining fields
/// are as in [`Simplices`].
pub(in crate::lattice) struct Local<W> {
    /// Number of vertices.
    pub count: usize,
    /// Keys and numbers of the vertices, by class: keys of different classes differ.
    pub classes: Vec<Vec<(W, u32)>>,
    pub block_runs: Vec<u32>,
    pub run_ends: Vec<u8>,
    pub ids: Vec<u32>,
}

/// The vertices of one class in the order of their keys.
pub(in crate::lattice) struct Class<W> {
    pub keys: Vec<W>,
    /// The row of each vertex.
    pub rows: Vec<u32>,
}

/// All bands with their vertices' rows.
pub(in crate::lattice) struct Joined<W> {
    pub bands: Vec<Band>,
    pub copies: Copies,
    pub classes: Vec<Class<W>>,
    /// Number of vertices.
    pub vertices: usize,
}

/// A class before rows are known: the first band's vertex for each key, and pairs of such with one of a later band.
struct Merged<W> {
    keys: Vec<W>,
    owners: Vec<u32>,
    copies: Vec<(u32, u32)>,
}

/// Joins the bands of so many points, with `m` vertices to a simplex and keys that differ in the lowest `bits` bits within
/// a class; `None` when 32 bits run out.
pub(in crate::lattice) fn join_bands<W: Word>(
    points: usize,
    m: usize,
    locals: Vec<Local<W>>,
    bits: u32,
) -> Option<Joined<W>> {
    let mut starts = vec![0u32];
    for local in &locals {
        let end = *starts.last()? as usize + local.count;
        starts.push(u32::try_from(end).ok().filter(|&end| end < u32::MAX)?);
    }
    let total = *starts.last()? as usize;
    let classes = locals.first().map_or(0, |local| local.classes.len());
    let merged: Vec<Merged<W>> = map_tasks(classes, &|c| merge_class(&locals, &starts, c, bits));

    let mut is_copy = vec![false; total];
    for &(_, copy) in merged.iter().flat_map(|class| &class.copies) {
        is_copy[copy as usize] = true;
    }
    let bands: Vec<(Band, Vec<u32>)> = map_items(locals, &|b, local: Local<W>| {
        let rows = starts[b] as usize..starts[b + 1] as usize;
        let places = places(&is_copy[rows.clone()]);
        let Local { block_runs, run_ends, mut ids, .. } = local;
        ids.iter_mut().for_each(|id| *id = places[*id as usize]);
        let simplices = Simplices::new(m, rows.len(), block_runs, run_ends, ids);
        (Band { points: band_points(points, b), rows, simplices }, places)
    });
    let mut row_of: Vec<u32> = Vec::with_capacity(total);
    let bands: Vec<Band> = bands
        .into_iter()
        .map(|(band, places)| {
            row_of.extend(places.iter().map(|place| band.rows.start as u32 + place));
            band
        })
        .collect();
    let row = |&entry: &u32| row_of[entry as usize];
    let copied =
        merged.iter().flat_map(|class| &class.copies).map(|(own, copy)| (row(own), row(copy))).collect();
    let vertices = merged.iter().map(|class| class.keys.len()).sum();
    let classes = map_items(merged, &|_, class: Merged<W>| Class {
        rows: class.owners.iter().map(row).collect(),
        keys: class.keys,
    });
    Some(Joined { bands, copies: group(copied), classes, vertices })
}

fn merge_class<W: Word>(locals: &[Local<W>], starts: &[u32], class: usize, bits: u32) -> Merged<W> {
    let count = locals.iter().map(|local| local.classes[class].len()).sum();
    let mut entries: Vec<(W, u32)> = Vec::with_capacity(count);
    for (local, &start) in locals.iter().zip(starts) {
        entries.extend(local.classes[class].iter().map(|&(key, number)| (key, start + number)));
    }
    sort_entries(&mut entries, bits);
    let mut merged =
        Merged { keys: Vec::with_capacity(count), owners: Vec::with_capacity(count), copies: Vec::new() };
    let mut last = None;
    for (key, entry) in entries {
        match last {
            Some((known, owner)) if known == key => merged.copies.push((owner, entry)),
            _ => {
                merged.keys.push(key);
                merged.owners.push(entry);
                last = Some((key, entry));
            }
        }
    }
    merged
}

/// The row of each of a band's vertices, counted from the band's first: the band's own before copies.
fn places(is_copy: &[bool]) -> Vec<u32> {
    let own = is_copy.iter().filter(|&&copy| !copy).count() as u32;
    let mut next = [0, own];
    let place = |&copy: &bool| {
        let next = &mut next[usize::from(copy)];
        *next += 1;
        *next - 1
    };
    is_copy.iter().map(place).collect()
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
