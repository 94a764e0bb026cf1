//! Matching costs of candidate disparities at all pixels, one byte each.

use rayon::prelude::*;
use relaxcrf::Image;

use crate::costs::{Compare, CostOptions, Visit, visit};

/// Candidates are stored in groups of this many, which fill a vector.
pub(crate) const GROUP: usize = 16;

/// The largest cost of a volume.
pub(crate) const MAX_COST: u8 = 200;

/// The cost where the right picture does not reach: neither good nor bad.
const OUTSIDE_COST: u8 = MAX_COST / 2;

/// Costs of the candidates of each pixel: `stride` disparities from `first` on. Candidates beyond the range have
/// [`MAX_COST`].
#[derive(Debug, Clone)]
pub(crate) struct Volume {
    pub width: usize,
    pub height: usize,
    /// Disparities lie below this.
    pub disparities: usize,
    /// Candidates per pixel.
    pub stride: usize,
    /// The first candidate of each pixel; empty where all start at 0.
    pub first: Vec<u16>,
    pub costs: Vec<u8>,
}

impl Volume {
    /// The first candidate of a pixel.
    #[inline(always)]
    pub fn first(&self, a: usize) -> usize {
        if self.first.is_empty() { 0 } else { usize::from(self.first[a]) }
    }

    /// Candidates of a pixel that are disparities.
    #[inline(always)]
    pub fn candidates(&self, a: usize) -> usize {
        self.stride.min(self.disparities - self.first(a))
    }

    /// Bytes of a volume with all disparities, and of the sums over its paths.
    pub fn bytes(pixels: usize, disparities: usize) -> u64 {
        5 * pixels as u64 * disparities.next_multiple_of(GROUP) as u64
    }

    /// Costs of all disparities.
    pub fn of_all(pair: (&Image, &Image), options: &CostOptions, disparities: usize) -> Self {
        Self::of_candidates(pair, options, disparities, disparities, Vec::new())
    }

    /// Costs that were computed in single precision, one row of all disparities per pixel.
    pub fn of_costs((width, height): (usize, usize), costs: &[f32], largest: f32) -> Self {
        let disparities = costs.len() / (width * height);
        let stride = disparities.next_multiple_of(GROUP);
        let scale = f32::from(MAX_COST) / largest;
        let mut bytes = vec![MAX_COST; width * height * stride];
        bytes.par_chunks_mut(stride).zip(costs.par_chunks(disparities)).enumerate().for_each(
            |(a, (to, from))| {
                for (d, (to, &from)) in to.iter_mut().zip(from).enumerate() {
                    *to =
                        if d > a % width { OUTSIDE_COST } else { ((scale * from + 0.5) as u8).min(MAX_COST) };
                }
            },
        );
        Self { width, height, disparities, stride, first: Vec::new(), costs: bytes }
    }

    /// Costs by a measure; its truncation becomes [`MAX_COST`].
    pub fn of_candidates(
        (left, right): (&Image, &Image),
        options: &CostOptions,
        disparities: usize,
        candidates: usize,
        first: Vec<u16>,
    ) -> Self {
        let scale = f32::from(MAX_COST) / options.largest();
        visit(
            left,
            right,
            options.measure,
            Build { width: left.width, disparities, candidates, first, scale },
        )
    }
}

struct Build {
    width: usize,
    disparities: usize,
    candidates: usize,
    first: Vec<u16>,
    scale: f32,
}

impl Visit for Build {
    type Output = Volume;

    fn visit<C: Compare>(self, compare: &C) -> Volume {
        let Self { width, disparities, candidates, first, scale } = self;
        let height = compare.pixels() / width;
        let stride = candidates.next_multiple_of(GROUP);
        let mut volume = Volume { width, height, disparities, stride, first, costs: Vec::new() };
        let mut costs = vec![MAX_COST; width * height * stride];
        costs.par_chunks_mut(width * stride).enumerate().for_each(|(y, line)| {
            for (x, row) in line.chunks_exact_mut(stride).enumerate() {
                let a = y * width + x;
                let first = volume.first(a);
                let row = &mut row[..volume.candidates(a)];
                let inside = (x + 1).saturating_sub(first).min(row.len());
                let (seen, outside) = row.split_at_mut(inside);
                outside.fill(OUTSIDE_COST);
                for (k, cost) in seen.iter_mut().enumerate() {
                    // Casts saturate, and the half rounds.
                    *cost = ((scale * compare.cost(a, a - first - k) + 0.5) as u8).min(MAX_COST);
                }
            }
        });
        volume.costs = costs;
        volume
    }
}
