//! Which simplex every point of a band lies in.
//!
//! Neighbouring points in the same simplex form a run, which has its vertices only once. Runs end at multiples of
//! [`POINTS_PER_BLOCK`] points, the unit that the kernels work on.
//!
//! The unchecked kernels do not look at each index again: all are checked here, once, and nothing outside this file can
//! change them afterwards.

use super::build::Band;
use crate::blocks::POINTS_PER_BLOCK;

/// The simplices of a band's points, all indices within their bounds.
#[derive(Debug)]
pub(super) struct Simplices {
    /// Vertices of a simplex: d+1.
    m: usize,
    /// Rows that the vertices are numbered in.
    rows: usize,
    /// For every block of points its first run, and the end.
    block_runs: Vec<u32>,
    /// Where each run ends in its block: 1 to [`POINTS_PER_BLOCK`].
    run_ends: Vec<u8>,
    /// The run of every point, counted from its block's first.
    run_of: Vec<u8>,
    /// m rows for each run, counted from the band's first.
    ids: Vec<u32>,
}

impl Simplices {
    /// Of runs in blocks, with `m` rows of `rows` each.
    ///
    /// # Panics
    /// If a row or the end of a run is not where it can be.
    pub fn new(m: usize, rows: usize, block_runs: Vec<u32>, run_ends: Vec<u8>, ids: Vec<u32>) -> Self {
        let largest = ids.iter().fold(0, |a: u32, &id| a.max(id));
        assert!(ids.is_empty() || (largest as usize) < rows, "lattice vertex out of range");
        assert!(ids.len() == m * run_ends.len(), "every run needs its vertices");
        let mut run_of: Vec<u8> = Vec::with_capacity(block_runs.len() * POINTS_PER_BLOCK);
        for (block, runs) in block_runs.windows(2).enumerate() {
            assert!(run_of.len() == block * POINTS_PER_BLOCK, "only the last block may be short");
            let mut points = 0;
            for (run, &end) in run_ends[runs[0] as usize..runs[1] as usize].iter().enumerate() {
                assert!(
                    points < end && usize::from(end) <= POINTS_PER_BLOCK,
                    "a run ends outside of its block"
                );
                run_of.resize(run_of.len() + usize::from(end - points), run as u8);
                points = end;
            }
        }
        Self { m, rows, block_runs, run_ends, run_of, ids }
    }

    /// Number of runs.
    pub fn runs(&self) -> usize {
        self.run_ends.len()
    }

    /// The vertices of a point, counted from the band's first.
    pub fn of(&self, point: usize) -> &[u32] {
        let run = self.block_runs[point / POINTS_PER_BLOCK] as usize + usize::from(self.run_of[point]);
        &self.ids[run * self.m..][..self.m]
    }
}

/// The runs of one block of points.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Runs<'a> {
    m: usize,
    rows: usize,
    ends: &'a [u8],
    of: &'a [u8],
    ids: &'a [u32],
    /// From the block's first point on, m for each point.
    pub(super) weights: &'a [f32],
}

impl<'a> Runs<'a> {
    /// Block `block` of a band; `weights` are those of all points of the lattice.
    #[inline(always)]
    pub(super) fn new(band: &'a Band, block: usize, weights: &'a [f32]) -> Self {
        let Simplices { m, rows, block_runs, run_ends, run_of, ids } = &band.simplices;
        let runs = block_runs[block] as usize..block_runs[block + 1] as usize;
        let first = block * POINTS_PER_BLOCK;
        Self {
            m: *m,
            rows: *rows,
            ends: &run_ends[runs.clone()],
            of: &run_of[first..run_of.len().min(first + POINTS_PER_BLOCK)],
            ids: &ids[runs.start * m..runs.end * m],
            weights: &weights[(band.points.start + first) * m..],
        }
    }

    /// Vertices of a simplex: d+1.
    #[inline(always)]
    pub fn vertices(&self) -> usize {
        self.m
    }

    /// Number of points, at most [`POINTS_PER_BLOCK`].
    #[inline(always)]
    pub fn points(&self) -> usize {
        self.of.len()
    }

    /// Number of rows that all vertices are below.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The run of every point: each of them has vertices in [`Runs::ids`].
    #[inline(always)]
    pub fn of(&self) -> &'a [u8] {
        self.of
    }

    /// Where each run ends.
    #[inline(always)]
    pub fn ends(&self) -> &'a [u8] {
        self.ends
    }

    /// The vertices of each run, rows of the band.
    #[inline(always)]
    pub fn ids(&self) -> &'a [u32] {
        self.ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_find_their_runs() {
        let s = Simplices::new(1, 9, vec![0, 2, 3], vec![60, 64, 5], vec![7, 8, 3]);
        assert_eq!((s.of(0), s.of(59), s.of(60), s.of(63)), (&[7][..], &[7][..], &[8][..], &[8][..]));
        assert_eq!((s.of(64), s.of(68), s.runs()), (&[3][..], &[3][..], 3));
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn vertices_beyond_the_table_are_noticed() {
        Simplices::new(1, 8, vec![0, 1], vec![4], vec![8]);
    }

    #[test]
    #[should_panic(expected = "outside of its block")]
    fn runs_beyond_their_block_are_noticed() {
        Simplices::new(1, 8, vec![0, 1], vec![65], vec![1]);
    }

    #[test]
    #[should_panic(expected = "needs its vertices")]
    fn runs_without_vertices_are_noticed() {
        Simplices::new(2, 8, vec![0, 1], vec![4], vec![1]);
    }
}
