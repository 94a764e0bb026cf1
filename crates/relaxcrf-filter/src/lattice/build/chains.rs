//! Runs of neighbouring vertices along each axis.
//!
//! Along one axis every vertex has at most one successor and one predecessor, so the vertices fall into
//! disjoint runs. Blurring a run in place needs no second buffer, and runs are independent of each other:
//! they can be blurred in any order, on any number of threads, with the same result.

use rayon::prelude::*;

use super::join::Class;
use super::table::{Packing, Word};

/// No vertex there.
pub(in crate::lattice) const MISSING: u32 = u32::MAX;

/// The runs along one axis, as rows of the vertex table. Vertices without neighbours are left out: the blur does
/// not change them.
#[derive(Debug)]
pub(in crate::lattice) struct Chains {
    /// The rows of all runs, one run after the other.
    pub order: Vec<u32>,
    /// Where each run starts in `order`, and the end of the last.
    pub starts: Vec<u32>,
}

/// Finds the runs along every axis, from the vertices by remainder, in a table of `rows` rows.
pub(in crate::lattice) fn find_chains<W: Word>(
    classes: &[Class<W>],
    rows: usize,
    packing: &Packing,
) -> Vec<Chains> {
    (0..classes.len())
        .into_par_iter()
        .map_init(Links::default, |links, axis| {
            links.clear(rows);
            for (remainder, class) in classes.iter().enumerate() {
                let target = &classes[(remainder + classes.len() - 1) % classes.len()];
                links.add(class, packing.step(axis, remainder), target);
            }
            links.chains()
        })
        .collect()
}

/// Which row follows which along one axis. Reused from axis to axis.
#[derive(Debug, Default)]
struct Links {
    next: Vec<u32>,
    has_previous: Vec<bool>,
    /// Places of the pairs found, in both classes.
    pairs: Vec<(u32, u32)>,
}

impl Links {
    fn clear(&mut self, rows: usize) {
        self.next.clear();
        self.next.resize(rows, MISSING);
        self.has_previous.clear();
        self.has_previous.resize(rows, false);
    }

    /// Links all vertices of a class that are a step away from one of the other: walks along both lists side by side, since
    /// adding the step to all keys of a class leaves them in order.
    fn add<W: Word>(&mut self, class: &Class<W>, step: W, target: &Class<W>) {
        let (from, to) = (&class.keys[..], &target.keys[..]);
        self.pairs.clear();
        self.pairs.resize(from.len().min(to.len()) + 1, (0, 0));
        let (mut i, mut j, mut found) = (0, 0, 0);
        // Without a branch that depends on the keys: it would be guessed wrong every other time.
        while i < from.len() && j < to.len() {
            let (x, y) = (from[i].plus(step), to[j]);
            self.pairs[found] = (i as u32, j as u32);
            found += usize::from(x == y);
            i += usize::from(x <= y);
            j += usize::from(y <= x);
        }
        for &(i, j) in &self.pairs[..found] {
            let (row, next) = (class.rows[i as usize], target.rows[j as usize]);
            self.next[row as usize] = next;
            self.has_previous[next as usize] = true;
        }
    }

    /// The runs, by their first rows.
    fn chains(&self) -> Chains {
        let (mut order, mut starts) = (Vec::new(), vec![0]);
        for (row, (&next, &has_previous)) in self.next.iter().zip(&self.has_previous).enumerate() {
            if next == MISSING || has_previous {
                continue;
            }
            order.push(row as u32);
            let mut at = next;
            while at != MISSING {
                order.push(at);
                at = self.next[at as usize];
            }
            starts.push(order.len() as u32);
        }
        // Kept as long as the lattice.
        order.shrink_to_fit();
        starts.shrink_to_fit();
        Chains { order, starts }
    }
}

impl Chains {
    /// The runs that are left when rows are renamed to `row_of[row]` and those that are [`MISSING`] there left out.
    pub fn subset(&self, row_of: &[u32]) -> Self {
        let (mut order, mut starts) = (Vec::new(), vec![0]);
        for run in self.starts.windows(2) {
            let rows = self.order[run[0] as usize..run[1] as usize].iter().map(|&row| row_of[row as usize]);
            let mut start = order.len();
            for row in rows.chain([MISSING]) {
                if row != MISSING {
                    order.push(row);
                    continue;
                }
                if order.len() > start + 1 {
                    starts.push(order.len() as u32);
                } else {
                    order.truncate(start);
                }
                start = order.len();
            }
        }
        Self { order, starts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_cover_all_linked_vertices_once() {
        // Keys 10 apart, in turn of both classes: 3 -> 13 -> 23, 40 -> 50, 61 alone.
        let first = Class { keys: vec![3u64, 23, 40], rows: vec![0, 4, 1] };
        let second = Class { keys: vec![13u64, 50, 61], rows: vec![2, 5, 3] };
        let mut links = Links::default();
        for _ in 0..2 {
            links.clear(6);
            links.add(&first, 10, &second);
            links.add(&second, 10, &first);
            let chains = links.chains();
            assert_eq!((&chains.order[..], &chains.starts[..]), (&[0, 2, 4, 1, 5][..], &[0, 3, 5][..]));
        }
    }

    #[test]
    fn runs_are_cut_where_rows_are_left_out() {
        let chains = Chains { order: vec![0, 1, 2, 3, 4, 5, 6, 7, 8], starts: vec![0, 6, 9] };
        // Rows 2 and 7 are gone: 6 and 8 are alone then.
        let left = chains.subset(&[5, 4, MISSING, 3, 2, 1, 6, MISSING, 0]);
        assert_eq!((&left.order[..], &left.starts[..]), (&[5, 4, 3, 2, 1][..], &[0, 2, 5][..]));
    }
}
