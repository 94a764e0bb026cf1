//! Runs of neighbouring vertices along each axis.
//!
//! Along one axis every vertex has at most one successor and one predecessor, so the vertices fall into
//! disjoint runs. Blurring a run in place needs no second buffer, and runs are independent of each other:
//! they can be blurred in any order, on any number of threads, with the same result.

use rayon::prelude::*;

use super::table::{Packing, Table, Word};

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

/// Finds the runs along every axis; `row_of` tells where a vertex stands in the table of rows.
pub(in crate::lattice) fn find_chains<W: Word>(
    table: &Table<W>,
    row_of: &[u32],
    packing: &Packing,
    dims: usize,
) -> Vec<Chains> {
    (0..=dims)
        .into_par_iter()
        .map(|axis| {
            let axis = packing.axis::<W>(axis);
            let next: Vec<u32> = table
                .keys()
                .par_iter()
                .with_min_len(1 << 12)
                .map(|&key| table.get(axis.forward(key)).unwrap_or(MISSING))
                .collect();
            link(&next, row_of)
        })
        .collect()
}

fn link(next: &[u32], row_of: &[u32]) -> Chains {
    let mut has_previous = vec![false; next.len()];
    for &n in next {
        if n != MISSING {
            has_previous[n as usize] = true;
        }
    }
    let (mut order, mut starts) = (Vec::with_capacity(next.len()), vec![0]);
    for (vertex, _) in has_previous.iter().enumerate().filter(|&(_, &has)| !has) {
        if next[vertex] == MISSING {
            continue;
        }
        let mut at = vertex as u32;
        while at != MISSING {
            order.push(row_of[at as usize]);
            at = next[at as usize];
        }
        starts.push(order.len() as u32);
    }
    Chains { order, starts }
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
        // 0 -> 3 -> 1, 2 alone, 5 -> 4
        let chains = link(&[3, MISSING, MISSING, 1, MISSING, 4], &[10, 11, 12, 13, 14, 15]);
        assert_eq!(chains.order, [10, 13, 11, 15, 14]);
        assert_eq!(chains.starts, [0, 3, 5]);
    }

    #[test]
    fn runs_are_cut_where_rows_are_left_out() {
        let chains = Chains { order: vec![0, 1, 2, 3, 4, 5, 6, 7, 8], starts: vec![0, 6, 9] };
        // Rows 2 and 7 are gone: 6 and 8 are alone then.
        let left = chains.subset(&[5, 4, MISSING, 3, 2, 1, 6, MISSING, 0]);
        assert_eq!((&left.order[..], &left.starts[..]), (&[5, 4, 3, 2, 1][..], &[0, 2, 5][..]));
    }
}
