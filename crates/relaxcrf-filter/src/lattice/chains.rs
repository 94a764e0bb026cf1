//! Runs of neighbouring vertices along each axis.
//!
//! Along one axis every vertex has at most one successor and one predecessor, so the vertices fall into
//! disjoint runs. Blurring a run in place needs no second buffer, and runs are independent of each other:
//! they can be blurred in any order, on any number of threads, with the same result.

use rayon::prelude::*;

use super::table::{Packing, Table, Word};

/// No vertex there.
pub(super) const MISSING: u32 = u32::MAX;

/// The runs along one axis, as rows of the vertex table. Vertices without neighbours are left out: the blur does
/// not change them.
#[derive(Debug)]
pub(super) struct Chains {
    /// The rows of all runs, one run after the other.
    pub order: Vec<u32>,
    /// Where each run starts in `order`, and the end of the last.
    pub starts: Vec<u32>,
}

/// Finds the runs along every axis; `row_of` tells where a vertex stands in the table of rows.
pub(super) fn find_chains<W: Word>(
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
}
