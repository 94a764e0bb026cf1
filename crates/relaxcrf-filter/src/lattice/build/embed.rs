//! Features to lattice: which simplex a point lies in, and its barycentric weights there.
//!
//! A feature vector in R^d is lifted onto the plane of R^(d+1) whose coordinates sum to zero, scaled so
//! that one blur of the lattice has unit variance. The lattice's points on that plane have integer
//! coordinates that all leave the same remainder modulo d+1; every simplex has one vertex of each remainder.
// Loops over lanes index several arrays at once: that is what becomes vector code.
#![allow(clippy::needless_range_loop)]

/// Largest feature dimension. The rank computation is quadratic in it, and keys must fit 128 bits.
pub const MAX_DIMS: usize = 32;

/// Points that [`Embedding::locate_lanes`] locates at once.
pub(super) const LANES: usize = 8;

/// Adding this rounds a number below 2^51 to the nearest whole one, which then stands in the lowest bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// Lifts feature vectors of a fixed dimension.
#[derive(Debug, Clone)]
pub(in crate::lattice) struct Embedding {
    /// Factor of each feature before lifting.
    scale: Vec<f64>,
}

/// Where one point lies: the vertex of remainder 0, the order in which the other vertices follow, weights.
#[derive(Debug, Clone)]
pub(super) struct Simplex {
    /// Coordinates of the remainder-0 vertex, divided by d+1.
    pub base: [i64; MAX_DIMS + 1],
    /// `steps[k]`: the coordinate that falls by one (times d+1) between vertex k and vertex k+1.
    pub steps: [u8; MAX_DIMS + 1],
    /// Barycentric weight of each vertex, by remainder.
    pub weights: [f32; MAX_DIMS + 2],
}

impl Simplex {
    pub fn new() -> Self {
        Self { base: [0; MAX_DIMS + 1], steps: [0; MAX_DIMS + 1], weights: [0.0; MAX_DIMS + 2] }
    }
}

/// [`LANES`] points at once, in `M` = d+1 dimensions: as [`Simplex`], every number for each of the points.
#[derive(Debug, Clone)]
pub(super) struct Lanes<const M: usize> {
    pub base: [[i64; LANES]; M],
    /// The steps, three bits each, the first lowest.
    pub steps: [u32; LANES],
    pub weights: [[f32; LANES]; M],
}

impl<const M: usize> Lanes<M> {
    pub fn new() -> Self {
        Self { base: [[0; LANES]; M], steps: [0; LANES], weights: [[0.0; LANES]; M] }
    }
}

impl Embedding {
    pub fn new(dims: usize) -> Self {
        // Orthogonal columns of equal length sqrt(2/3) (d+1): with it the [1/2 1 1/2] blur along all d+1
        // axes has the variance of the unit Gaussian.
        let length = (2.0f64 / 3.0).sqrt() * (dims + 1) as f64;
        let scale = (1..=dims).map(|j| length / ((j * (j + 1)) as f64).sqrt()).collect();
        Self { scale }
    }

    pub fn dims(&self) -> usize {
        self.scale.len()
    }

    /// Smallest and largest `base` coordinate that any point of the given feature box can get,
    /// with room for the neighbours that the blur looks up. `None` if that leaves the integers.
    pub fn coordinate_bounds(&self, lo: &[f32], hi: &[f32]) -> Option<Vec<(i64, i64)>> {
        let d = self.dims();
        let scaled = |k: usize| (self.scale[k] * f64::from(lo[k]), self.scale[k] * f64::from(hi[k]));
        (0..=d)
            .map(|i| {
                let (mut a, mut b) = (0.0, 0.0);
                for k in i..d {
                    a += scaled(k).0;
                    b += scaled(k).1;
                }
                if i > 0 {
                    a -= i as f64 * scaled(i - 1).1;
                    b -= i as f64 * scaled(i - 1).0;
                }
                let (a, b) = (a / (d + 1) as f64, b / (d + 1) as f64);
                // Beyond 2^40 the f64 coordinates lose the fraction that the weights are made of.
                let limit = (1u64 << 40) as f64;
                (a > -limit && b < limit).then(|| (a.floor() as i64 - 3, b.ceil() as i64 + 3))
            })
            .collect()
    }

    /// Locates one point.
    pub(super) fn locate(&self, feature: &[f32], out: &mut Simplex) {
        let d = self.dims();
        let step = (d + 1) as f64;
        let mut z = [0.0f64; MAX_DIMS + 1];
        let mut suffix = 0.0;
        for j in (1..=d).rev() {
            let c = self.scale[j - 1] * f64::from(feature[j - 1]);
            z[j] = suffix - j as f64 * c;
            suffix += c;
        }
        z[0] = suffix;

        // Nearest point with all remainders zero; its coordinates need not sum to zero yet.
        let mut excess = 0i64;
        let mut rest = [0.0f64; MAX_DIMS + 1];
        for i in 0..=d {
            let v = (z[i] * (1.0 / step) + ROUND) - ROUND;
            out.base[i] = v as i64;
            excess += v as i64;
            rest[i] = z[i] - v * step;
        }
        let mut rank = [0i64; MAX_DIMS + 1];
        for i in 0..=d {
            for j in i + 1..=d {
                if rest[i] < rest[j] {
                    rank[i] += 1;
                } else {
                    rank[j] += 1;
                }
            }
        }
        // Walk back to the plane: the coordinates that were rounded furthest give way first.
        let weights = &mut out.weights[..d + 2];
        weights.fill(0.0);
        let mut exact = [0.0f64; MAX_DIMS + 2];
        for i in 0..=d {
            rank[i] += excess;
            let wrap = if rank[i] < 0 {
                1
            } else if rank[i] > d as i64 {
                -1
            } else {
                0
            };
            rank[i] += wrap * (d as i64 + 1);
            out.base[i] += wrap;
            rest[i] -= wrap as f64 * step;
            let r = rank[i].clamp(0, d as i64) as usize;
            let share = rest[i] / step;
            exact[d - r] += share;
            exact[d + 1 - r] -= share;
            out.steps[d - r] = i as u8;
        }
        exact[0] += 1.0 + exact[d + 1];
        for k in 0..=d {
            weights[k] = exact[k].max(0.0) as f32;
        }
    }

    /// Locates [`LANES`] points, for up to 7 dimensions: [`Embedding::locate`] without a branch, so that it
    /// becomes vector code. Positions are found in double precision, what is left of them in single.
    #[inline(always)]
    pub(super) fn locate_lanes<const M: usize>(&self, features: &[f32], out: &mut Lanes<M>) {
        let d = M - 1;
        assert!(M <= 8 && self.scale.len() == d && features.len() == d * LANES);
        let step = M as f64;
        let inverse = 1.0 / step;
        let mut z = [[0.0f64; LANES]; M];
        let mut suffix = [0.0f64; LANES];
        for j in (1..M).rev() {
            let scale = self.scale[j - 1];
            for l in 0..LANES {
                let c = scale * f64::from(features[l * d + j - 1]);
                z[j][l] = suffix[l] - j as f64 * c;
                suffix[l] += c;
            }
        }
        z[0] = suffix;

        // Loops of one kind of operation each, without a choice between branches: what becomes vector code.
        let mut rest = [[0.0f32; LANES]; M];
        let mut excess = [0i64; LANES];
        for i in 0..M {
            let mut rounded = [0.0f64; LANES];
            for l in 0..LANES {
                rounded[l] = z[i][l] * inverse + ROUND;
            }
            for l in 0..LANES {
                out.base[i][l] = (rounded[l].to_bits() as i64).wrapping_sub(ROUND.to_bits() as i64);
                excess[l] += out.base[i][l];
            }
            for l in 0..LANES {
                let v = rounded[l] - ROUND;
                rest[i][l] = (z[i][l] - v * step) as f32;
            }
        }
        let mut rank = [[0i32; LANES]; M];
        for l in 0..LANES {
            rank[0][l] = excess[l] as i32;
        }
        for i in 1..M {
            rank[i] = rank[0];
        }
        for i in 0..M {
            for j in i + 1..M {
                for l in 0..LANES {
                    let below = i32::from(rest[i][l] < rest[j][l]);
                    rank[i][l] += below;
                    rank[j][l] += 1 - below;
                }
            }
        }
        // What is left of the coordinates, in the order of their ranks: every rank is taken once.
        let mut sorted = [[0u32; LANES]; M];
        let mut steps = [0u32; LANES];
        for i in 0..M {
            let mut wrap = [0i32; LANES];
            for l in 0..LANES {
                wrap[l] = i32::from(rank[i][l] < 0) - i32::from(rank[i][l] > d as i32);
            }
            let mut left = [0u32; LANES];
            for l in 0..LANES {
                out.base[i][l] += i64::from(wrap[l]);
                rank[i][l] += wrap[l] * M as i32;
                left[l] = ((rest[i][l] - wrap[l] as f32 * M as f32) * (1.0 / M as f32)).to_bits();
            }
            for k in 0..M {
                let code = (i as u32) << (3 * (d - k));
                for l in 0..LANES {
                    let here = 0u32.wrapping_sub(u32::from(rank[i][l] == k as i32));
                    sorted[k][l] |= left[l] & here;
                    steps[l] |= code & here;
                }
            }
        }
        out.steps = steps;
        let sorted = sorted.map(|row| row.map(f32::from_bits));
        for l in 0..LANES {
            out.weights[0][l] = (sorted[d][l] - sorted[0][l] + 1.0).max(0.0);
        }
        for t in 1..M {
            for l in 0..LANES {
                out.weights[t][l] = (sorted[d - t][l] - sorted[M - t][l]).max(0.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn scales_match_the_known_constants() {
        for (d, s) in [(2usize, 2.449_490), (5, 4.898_979)] {
            let e = Embedding::new(d);
            assert!((e.scale[0] * 2f64.sqrt() - s).abs() < 1e-6);
        }
    }

    fn lanes_match<const M: usize>(rows: &[f32]) {
        let d = M - 1;
        let e = Embedding::new(d);
        let mut lanes = Lanes::<M>::new();
        for block in rows.chunks_exact(d * LANES) {
            e.locate_lanes(block, &mut lanes);
            let mut s = Simplex::new();
            for (l, feature) in block.chunks_exact(d).enumerate() {
                e.locate(feature, &mut s);
                // Where a point lies on a face, rounding may pick either side; both give the same weights.
                let decided = s.weights[..M].iter().all(|&w| w > 1e-5);
                for k in 0..M {
                    if decided {
                        assert_eq!(lanes.base[k][l], s.base[k]);
                        assert_eq!(lanes.steps[l] >> (3 * k) & 7, u32::from(s.steps[k]));
                        assert!((lanes.weights[k][l] - s.weights[k]).abs() < 1e-6);
                    }
                }
                let sum: f32 = lanes.weights.iter().map(|w| w[l]).sum();
                assert!((sum - 1.0).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn lanes_equal_single_points() {
        let rows: Vec<f32> = (0..8400).map(|i| ((i as f32) * 0.737).sin() * 40.0).collect();
        lanes_match::<2>(&rows);
        lanes_match::<3>(&rows);
        lanes_match::<4>(&rows);
        lanes_match::<6>(&rows);
        lanes_match::<8>(&rows);
    }

    proptest! {
        #[test]
        fn weights_are_barycentric(f in prop::collection::vec(-30.0f32..30.0, 1..9)) {
            let e = Embedding::new(f.len());
            let mut s = Simplex::new();
            e.locate(&f, &mut s);
            let w = &s.weights[..=f.len()];
            prop_assert!(w.iter().all(|&x| x >= 0.0));
            prop_assert!((w.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            // The weighted vertices give the lifted point back.
            let d = f.len();
            let mut vertex: Vec<f64> = s.base[..=d].iter().map(|&q| (q * (d as i64 + 1)) as f64).collect();
            let mut mean = vec![0.0; d + 1];
            for (k, &weight) in w.iter().enumerate() {
                for i in 0..=d {
                    mean[i] += f64::from(weight) * vertex[i];
                }
                for x in &mut vertex { *x += 1.0; }
                vertex[usize::from(s.steps[k])] -= (d + 1) as f64;
            }
            let c: Vec<f64> = (0..d).map(|k| e.scale[k] * f64::from(f[k])).collect();
            for i in 0..=d {
                let z = c[i..].iter().sum::<f64>() - if i > 0 { i as f64 * c[i - 1] } else { 0.0 };
                prop_assert!((z - mean[i]).abs() < 1e-3 * (1.0 + z.abs()), "coordinate {i}: {z} against {}", mean[i]);
            }
            let bounds = e.coordinate_bounds(&f, &f).unwrap();
            for (q, (lo, hi)) in s.base.iter().zip(bounds) {
                prop_assert!(q - 2 >= lo && q + 2 <= hi);
            }
        }
    }
}
