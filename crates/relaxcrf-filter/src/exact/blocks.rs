//! Points gathered into blocks of neighbours, with the box that each block fills.
//!
//! Halving the point set along its widest dimension until a block is left puts near points together, so
//! that whole pairs of blocks can be passed over when even their closest corners are too far apart.

use super::kernel::WIDTH;
use std::cmp::Ordering;

/// Pairs further apart than this (in units where the Gaussian is `exp(-d²/2)`) may be left out:
/// each weighs less than 7e-13, so even a million of them stay below single precision.
const REACH: f32 = 7.5;

/// The points in block order: `count` blocks of [`WIDTH`], the last one filled up with copies.
#[derive(Debug)]
pub(crate) struct Blocks {
    dims: usize,
    /// Point at each position.
    order: Vec<u32>,
    /// Position of each point.
    position: Vec<u32>,
    /// `count` x `dims` x `WIDTH` coordinates.
    coordinates: Vec<f32>,
    /// `count` x `dims` lowest and highest coordinates.
    boxes: Vec<(f32, f32)>,
}

impl Blocks {
    /// Sorts points (row-major, finite, fewer than 2^32) into blocks.
    pub(crate) fn new(features: &[f32], dims: usize) -> Self {
        let n = features.len() / dims;
        let mut order: Vec<u32> = (0..n as u32).collect();
        split(&mut order, features, dims);
        let mut position = vec![0; n];
        for (p, &a) in order.iter().enumerate() {
            position[a as usize] = p as u32;
        }
        let coordinates = gather(&order, dims, |a, k| features[a as usize * dims + k]);
        let boxes = coordinates.chunks_exact(WIDTH).map(range).collect();
        Self { dims, order, position, coordinates, boxes }
    }

    pub(crate) fn dims(&self) -> usize {
        self.dims
    }

    /// Number of points.
    pub(crate) fn points(&self) -> usize {
        self.order.len()
    }

    /// Number of blocks.
    pub(crate) fn count(&self) -> usize {
        self.order.len().div_ceil(WIDTH)
    }

    /// Real points in a block: all but the last are full.
    pub(crate) fn filled(&self, block: usize) -> usize {
        WIDTH.min(self.order.len() - block * WIDTH)
    }

    /// The point at each position.
    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    /// The position of a point.
    pub(crate) fn position(&self, point: usize) -> usize {
        self.position[point] as usize
    }

    /// Coordinates of a block, `WIDTH` per dimension.
    pub(crate) fn coordinates(&self, block: usize) -> &[f32] {
        &self.coordinates[block * self.dims * WIDTH..(block + 1) * self.dims * WIDTH]
    }

    /// Coordinate `dim` of the point at a position.
    pub(crate) fn coordinate(&self, position: usize, dim: usize) -> f32 {
        self.coordinates[(position / WIDTH * self.dims + dim) * WIDTH + position % WIDTH]
    }

    /// The lowest and highest coordinates of a block.
    pub(crate) fn bounds(&self, block: usize) -> &[(f32, f32)] {
        &self.boxes[block * self.dims..(block + 1) * self.dims]
    }

    /// Whether no point within `bounds` is near enough to any point of `block` to matter.
    pub(crate) fn is_far(&self, block: usize, bounds: &[(f32, f32)]) -> bool {
        let gap = |&(low, high): &(f32, f32), &(l, h): &(f32, f32)| (low - h).max(l - high).max(0.0);
        let squared: f32 = self.bounds(block).iter().zip(bounds).map(|(a, b)| gap(a, b).powi(2)).sum();
        squared > REACH * REACH
    }
}

/// Blocks of coordinates for a list of points: the last block is filled up with copies of the last point,
/// which get no weight.
pub(crate) fn gather(points: &[u32], dims: usize, coordinate: impl Fn(u32, usize) -> f32) -> Vec<f32> {
    let mut out = Vec::with_capacity(points.len().next_multiple_of(WIDTH) * dims);
    for block in points.chunks(WIDTH) {
        for k in 0..dims {
            let filler = coordinate(block[block.len() - 1], k);
            out.extend(block.iter().map(|&a| coordinate(a, k)));
            out.extend(std::iter::repeat_n(filler, WIDTH - block.len()));
        }
    }
    out
}

fn range(values: &[f32]) -> (f32, f32) {
    values.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)))
}

/// Halves `order` along the widest dimension, always at a multiple of the block width. Ties are ordered by
/// index, so the result depends on nothing but the points.
fn split(order: &mut [u32], features: &[f32], dims: usize) {
    if order.len() <= WIDTH {
        order.sort_unstable();
        return;
    }
    let mut widest = (f32::NEG_INFINITY, 0);
    for k in 0..dims {
        let (low, high) = order.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), &a| {
            let x = features[a as usize * dims + k];
            (low.min(x), high.max(x))
        });
        if high - low > widest.0 {
            widest = (high - low, k);
        }
    }
    let along = |&a: &u32, &b: &u32| -> Ordering {
        let value = |p: u32| features[p as usize * dims + widest.1];
        value(a).total_cmp(&value(b)).then(a.cmp(&b))
    };
    let middle = order.len().div_ceil(WIDTH) / 2 * WIDTH;
    order.select_nth_unstable_by(middle, along);
    let (low, high) = order.split_at_mut(middle);
    rayon::join(|| split(low, features, dims), || split(high, features, dims));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(n: usize, dims: usize) -> Vec<f32> {
        (0..n * dims).map(|i| ((i * 7919 + 13) % 1009) as f32 * 0.05).collect()
    }

    #[test]
    fn every_point_has_one_place_and_keeps_its_coordinates() {
        for n in [0, 1, 127, 128, 129, 1000] {
            let features = points(n, 3);
            let blocks = Blocks::new(&features, 3);
            assert_eq!(blocks.points(), n);
            assert_eq!((0..blocks.count()).map(|b| blocks.filled(b)).sum::<usize>(), n);
            for a in 0..n {
                assert_eq!(blocks.order()[blocks.position(a)] as usize, a);
                for k in 0..3 {
                    assert_eq!(blocks.coordinate(blocks.position(a), k), features[a * 3 + k]);
                }
            }
        }
    }

    #[test]
    fn far_blocks_hold_no_near_pair() {
        let features = points(1500, 2);
        let blocks = Blocks::new(&features, 2);
        let mut skipped = 0;
        for s in 0..blocks.count() {
            for t in 0..blocks.count() {
                if !blocks.is_far(s, blocks.bounds(t)) {
                    continue;
                }
                skipped += 1;
                for p in s * WIDTH..s * WIDTH + blocks.filled(s) {
                    for q in t * WIDTH..t * WIDTH + blocks.filled(t) {
                        let d2: f32 =
                            (0..2).map(|k| (blocks.coordinate(p, k) - blocks.coordinate(q, k)).powi(2)).sum();
                        assert!(d2 > 56.0);
                    }
                }
            }
        }
        assert!(skipped > 20, "{skipped}");
    }
}
