//! Divide and conquer over the points in the order of their values, with work in proportion to the vertices that each
//! set of points touches.
//!
//! A set is cut in two; each half is filtered into the other, and both halves are treated alike. The filter of a set is
//! the lattice restricted to the vertices that its points touch: values that would travel through other vertices are
//! dropped, as in the paper's code. No entry of the restricted operator is above the lattice's own, and it is symmetric
//! if the lattice is, so that the sums certify a bound as the full ones do. Nearly all pairs are of the largest sets,
//! which touch nearly all vertices.
//!
//! Each set has its own numbering of vertices, made from that of the set it is part of: no array is as long as the
//! lattice except in the first set.

use super::super::build::MISSING;
use super::super::{Blur, Lattice};
use crate::operator::Scaling;
use crate::ordered::middle_of;

/// Sets of fewer points are not worth a task of their own.
const MIN_POINTS_PER_TASK: usize = 1 << 12;

/// What all sets share: the points in the order of their values, and what belongs to each.
struct Sorted<'a> {
    blur: Blur,
    /// Vertices of a simplex, and axes of the lattice.
    m: usize,
    leaf: usize,
    values: Vec<f32>,
    /// Barycentric weights.
    weights: Vec<f32>,
    scaling: Scaling<'a>,
    order: &'a [u32],
}

/// The vertices that a set touches.
#[derive(Default)]
struct Touched {
    count: usize,
    /// The vertices of every point.
    corners: Vec<u32>,
    /// Pairs of neighbours, axis by axis: a vertex and its successor, in the order of the runs.
    links: Vec<(u32, u32)>,
    /// Where the links of each axis end. Behind the last may be more, which mean nothing.
    ends: Vec<usize>,
}

impl Touched {
    fn links(&self, axis: usize) -> &[(u32, u32)] {
        let start = if axis == 0 { 0 } else { self.ends[axis - 1] };
        &self.links[start..self.ends[axis]]
    }
}

/// What one task reuses from set to set.
#[derive(Default)]
struct Buffers {
    /// What the lower half splatted to each vertex, and the upper.
    splatted: Vec<[f32; 2]>,
    forward: Vec<[f32; 2]>,
    /// Sets that are done with.
    pool: Vec<Touched>,
    /// From a set's numbering to a half's.
    numbers: Vec<u32>,
}

impl Lattice {
    /// `out_a += gain · left_a · Σ_b sign(y_a − y_b) · K_ab · right_b`, with the points in the `order` of their values and K
    /// restricted to touched vertices; pairs within sets of at most `leaf` points count as ties. Returns the number of
    /// vertices touched, added up over all sets.
    pub(super) fn halves(
        &self,
        values: &[f32],
        order: &[u32],
        leaf: usize,
        scaling: Scaling,
        out: &mut [f32],
    ) -> u64 {
        let m = self.dims + 1;
        let owner = self.owners();
        let (mut links, mut ends) = (Vec::new(), Vec::with_capacity(m));
        for chains in &self.axes {
            for run in chains.starts.windows(2) {
                let run = &chains.order[run[0] as usize..run[1] as usize];
                links.extend(run.windows(2).map(|pair| (pair[0], pair[1])));
            }
            ends.push(links.len());
        }
        let mut corners = Vec::with_capacity(order.len() * m);
        let mut weights = Vec::with_capacity(order.len() * m);
        for &a in order {
            let (simplex, start) = self.simplex(a);
            corners.extend(simplex.iter().map(|&id| owner[start + id as usize]));
            weights.extend_from_slice(&self.weights[a as usize * m..][..m]);
        }
        let sorted = Sorted {
            blur: self.blur,
            m,
            leaf,
            values: order.iter().map(|&a| values[a as usize]).collect(),
            weights,
            scaling: Scaling { gain: scaling.gain * self.alpha(), ..scaling },
            order,
        };
        let mut sums = vec![0.0; order.len()];
        let all = Touched { count: self.rows, corners, links, ends };
        let touched = sorted.solve(0, &all, &mut sums, &mut Buffers::default());
        for (&a, sum) in order.iter().zip(sums) {
            out[a as usize] += sum;
        }
        touched
    }
}

impl Sorted<'_> {
    /// Adds the sums among the points from `first` on, as many as there are `sums`. Returns the number of vertices touched.
    fn solve(&self, first: usize, touched: &Touched, sums: &mut [f32], buffers: &mut Buffers) -> u64 {
        let points = sums.len();
        if points <= self.leaf {
            return 0;
        }
        let Some(middle) = middle_of(points, |k| self.values[first + k]) else { return 0 };
        self.filter_across(first, middle, touched, sums, buffers);
        let (low, high) = sums.split_at_mut(middle);
        let count = touched.count as u64;
        let corners = touched.corners.split_at(middle * self.m);
        let half = |first, corners: &[u32], sums: &mut [f32], buffers: &mut Buffers| {
            if sums.len() <= self.leaf.max(1) {
                return 0;
            }
            let part = self.part(touched, corners, buffers);
            let count = self.solve(first, &part, sums, buffers);
            buffers.pool.push(part);
            count
        };
        if points < MIN_POINTS_PER_TASK {
            return count
                + half(first, corners.0, low, buffers)
                + half(first + middle, corners.1, high, buffers);
        }
        let both = rayon::join(
            || half(first, corners.0, low, buffers),
            || half(first + middle, corners.1, high, &mut Buffers::default()),
        );
        count + both.0 + both.1
    }

    /// Filters both halves of a set into each other: the upper half gains, the lower half loses.
    fn filter_across(
        &self,
        first: usize,
        middle: usize,
        touched: &Touched,
        sums: &mut [f32],
        buffers: &mut Buffers,
    ) {
        let m = self.m;
        let Buffers { splatted, forward, .. } = buffers;
        splatted.clear();
        splatted.resize(touched.count, [0.0; 2]);
        let rows = touched.corners.chunks_exact(m).zip(self.weights[first * m..].chunks_exact(m));
        for (k, (corners, weights)) in rows.clone().enumerate() {
            let right = self.scaling.input(self.order[first + k] as usize);
            let half = usize::from(k >= middle);
            for (&vertex, &weight) in corners.iter().zip(weights) {
                splatted[vertex as usize][half] += right * weight;
            }
        }
        let mut fraction = 1.0;
        if self.blur == Blur::Symmetric {
            forward.clear();
            forward.extend_from_slice(splatted);
            (0..m).for_each(|axis| blur(touched.links(axis), forward));
            (0..m).rev().for_each(|axis| blur(touched.links(axis), splatted));
            for (sum, other) in splatted.iter_mut().zip(forward) {
                *sum = [sum[0] + other[0], sum[1] + other[1]];
            }
            fraction = 0.5;
        } else {
            (0..m).for_each(|axis| blur(touched.links(axis), splatted));
        }
        for (k, ((corners, weights), sum)) in rows.zip(sums).enumerate() {
            let (other, sign) = if k < middle { (1, -fraction) } else { (0, fraction) };
            let product: f32 =
                corners.iter().zip(weights).map(|(&v, &w)| w * splatted[v as usize][other]).sum();
            *sum += sign * self.scaling.out(self.order[first + k] as usize) * product;
        }
    }

    /// What some of a set's points touch.
    fn part(&self, whole: &Touched, corners: &[u32], buffers: &mut Buffers) -> Touched {
        let mut part = buffers.pool.pop().unwrap_or_default();
        let numbers = &mut buffers.numbers;
        numbers.clear();
        numbers.resize(whole.count, MISSING);
        // Without branches that depend on the vertices: they would be guessed wrong every other time.
        let mut count = 0;
        part.corners.clear();
        part.corners.extend(corners.iter().map(|&vertex| {
            let number = &mut numbers[vertex as usize];
            let is_new = *number == MISSING;
            *number = if is_new { count } else { *number };
            count += u32::from(is_new);
            *number
        }));
        part.count = count as usize;
        let room = whole.ends.last().copied().unwrap_or(0);
        if part.links.len() < room {
            part.links.resize(room, (0, 0));
        }
        let mut end = 0;
        part.ends.clear();
        for axis in 0..self.m {
            for &(v, u) in whole.links(axis) {
                let pair = (numbers[v as usize], numbers[u as usize]);
                part.links[end] = pair;
                end += usize::from((pair.0 != MISSING) & (pair.1 != MISSING));
            }
            part.ends.push(end);
        }
        part
    }
}

/// One pass along an axis, in place: every vertex becomes itself plus half of each neighbour.
fn blur(links: &[(u32, u32)], values: &mut [[f32; 2]]) {
    // A vertex' value before the pass is needed once more by its successor, which comes next.
    let (mut last, mut before) = (MISSING, [0.0; 2]);
    for &(v, u) in links {
        let own = if v == last { before } else { values[v as usize] };
        let other = values[u as usize];
        for half in 0..2 {
            values[v as usize][half] += 0.5 * other[half];
            values[u as usize][half] += 0.5 * own[half];
        }
        (last, before) = (u, other);
    }
}

#[cfg(test)]
mod tests {
    use crate::rng::Rng;
    use crate::{Blur, Lattice, Operator, OrderedMode, Scaling, Workspace, ordered};

    /// Pixels of a picture with patches and noise, and values that hardly ever repeat: zero and one in places.
    fn picture(side: usize) -> (Vec<f32>, Vec<f32>) {
        let mut rng = Rng::new(side as u64);
        let (mut features, mut values) = (Vec::new(), Vec::new());
        for a in 0..side * side {
            let (x, y) = ((a % side) as f32, (a / side) as f32);
            let patch = if (x / 40.0).sin() + (y / 30.0).cos() > 0.2 { 9.0 } else { 3.0 };
            features.extend([x / 20.0, y / 20.0]);
            features.extend([0, 1, 2].map(|c| patch + 0.3 * c as f32 + 0.4 * rng.next_f64() as f32));
            let smooth = 0.5 + 0.4 * (x / 25.0).cos() * (y / 35.0).sin() + 0.1 * rng.next_f64() as f32;
            values.push(smooth.clamp(0.0, 1.0));
        }
        (features, values)
    }

    fn sums(lattice: &Lattice, values: &[f32], mode: OrderedMode, workspace: &mut Workspace) -> Vec<f32> {
        let mut out = vec![f32::NAN; values.len()];
        ordered(lattice, values, 1, mode, Scaling::NONE, &mut out, workspace);
        out
    }

    const HALVES: OrderedMode = OrderedMode::DivideAndConquer { leaf: 1 };

    #[test]
    fn touched_vertices_grow_by_at_most_a_simplex_per_point_and_level() {
        const LEAF: usize = 32;
        let touched = |lattice: &Lattice, values: &[f32]| {
            let mut workspace = Workspace::new();
            sums(lattice, values, OrderedMode::DivideAndConquer { leaf: LEAF }, &mut workspace);
            workspace.touched_vertices() as f64
        };
        let mut each = Vec::new();
        for side in [64, 128, 256] {
            let (features, values) = picture(side);
            let points = (side * side) as f64;
            let levels = (points / LEAF as f64).log2().ceil();
            let lattice = Lattice::new(&features, 5, Blur::Symmetric).unwrap();
            let bound = lattice.rows() as f64 + 6.0 * points * levels;
            assert!(touched(&lattice, &values) <= bound, "side {side}");
            // As many vertices for each pixel in all sizes.
            let positions: Vec<f32> =
                (0..side * side).flat_map(|a| [(a % side) as f32 / 3.0, (a / side) as f32 / 3.0]).collect();
            let lattice = Lattice::new(&positions, 2, Blur::Symmetric).unwrap();
            each.push(touched(&lattice, &values) / points);
        }
        // Four times the pixels are two more levels, each of which adds at most a simplex for every pixel.
        assert!(
            each[0] > 1.0 && each.windows(2).all(|w| w[1] <= w[0] + 2.0 * 3.0),
            "{each:?} for each pixel"
        );
    }

    #[test]
    fn sums_are_exact_where_every_set_touches_all_vertices() {
        let mut rng = Rng::new(8);
        for dims in [2, 5] {
            // All points in one simplex.
            let features: Vec<f32> = (0..60 * dims).map(|_| 0.11 + 0.01 * rng.next_f64() as f32).collect();
            let values: Vec<f32> = (0..60).map(|k| [rng.next_f64() as f32, 0.5, 0.0][k % 3]).collect();
            for blur in [Blur::Classic, Blur::Symmetric] {
                let lattice = Lattice::new(&features, dims, blur).unwrap();
                assert_eq!(lattice.vertices(), dims + 1);
                let exact = sums(&lattice, &values, OrderedMode::Exact, &mut Workspace::new());
                let halves = sums(&lattice, &values, HALVES, &mut Workspace::new());
                for (h, e) in halves.iter().zip(&exact) {
                    assert!((h - e).abs() <= 1e-4 * 60.0, "{h} against {e}");
                }
            }
        }
    }

    #[test]
    fn sums_are_near_the_full_ones_and_cancel() {
        let (features, values) = picture(48);
        let lattice = Lattice::new(&features, 5, Blur::Symmetric).unwrap();
        let exact = sums(&lattice, &values, OrderedMode::Binned { bins: 1024 }, &mut Workspace::new());
        let halves = sums(&lattice, &values, HALVES, &mut Workspace::new());
        let size: f32 = exact.iter().map(|z| z.abs()).sum();
        let off: f32 = halves.iter().zip(&exact).map(|(h, e)| (h - e).abs()).sum();
        assert!(off < 0.1 * size, "off by {off} of {size}");
        let total: f64 = halves.iter().map(|&z| f64::from(z)).sum();
        assert!(total.abs() < 1e-5 * f64::from(size), "{total} of {size}");
        // No pair counts for more than its kernel value.
        for (h, n) in halves.iter().zip(lattice.normalizer()) {
            assert!(h.abs() <= 1.02 * n, "{h} of {n}");
        }
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let (features, values) = picture(150);
        let lattice = Lattice::new(&features, 5, Blur::Symmetric).unwrap();
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mode = OrderedMode::DivideAndConquer { leaf: 32 };
            pool.install(|| sums(&lattice, &values, mode, &mut Workspace::new()))
        };
        assert!(run(1) == run(3));
    }
}
