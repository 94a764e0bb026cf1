//! The Gaussian on a regular grid, one axis after the other.
//!
//! For a kernel of positions alone the exact sum factors over the axes, so that narrow kernels cost a few dozen
//! multiplications a pixel. Nothing lies outside the grid: as in the exact sum, sums near the border are smaller.

use crate::error::{Error, Result};
use crate::operator::{Direction, Operator, Scaling, Workspace, check_sizes, write_row};
use crate::ordered::Ordered;
use crate::reduce::rows_per_chunk;
use rayon::prelude::*;

/// Taps reach this many standard deviations. What lies beyond weighs 1.2e-7 of K·1 on each axis, and changes
/// K x by less than 2e-6 of its largest value on each axis for any x >= 0.
const REACH: f64 = 5.3;

/// Most neighbours to each side: far beyond what is sensible, but no more memory than one image.
const MAX_RADIUS: usize = 1 << 20;

/// Values of one axis that are summed while they stay in the first-level cache.
const PIECE: usize = 2048;

/// The exact Gaussian filter of positions on a grid, `K_ab = exp(-Σ_axis Δ² / (2 σ²))`, with cut tails.
///
/// The cost grows with the standard deviations (in grid steps): about 11 σ additions per axis and value.
#[derive(Debug)]
pub struct Separable {
    points: usize,
    axes: Vec<Axis>,
}

#[derive(Debug)]
struct Axis {
    length: usize,
    /// Points between neighbours along this axis.
    stride: usize,
    /// Weights of the neighbours at distance 0, 1, 2, ...
    taps: Vec<f32>,
}

impl Separable {
    /// The filter on a grid: `shape` names the slowest axis first, such as `[height, width]`, and each axis has its
    /// standard deviation in grid steps.
    pub fn new(shape: &[usize], sigmas: &[f32]) -> Result<Self> {
        if shape.is_empty() || shape.len() != sigmas.len() {
            return Err(Error::shape(
                "standard deviations of the grid filter",
                format!("{} values", sigmas.len()),
                format!("one for each of the grid's {} axes (at least one)", shape.len()),
            ));
        }
        let mut axes = Vec::with_capacity(shape.len());
        let mut stride = 1_usize;
        for (axis, (&length, &sigma)) in shape.iter().zip(sigmas).enumerate().rev() {
            if length == 0 {
                return Err(Error::value(format!("length of grid axis {axis}"), 0, "at least 1"));
            }
            if !(sigma.is_finite() && sigma > 0.0) {
                return Err(Error::value(
                    format!("standard deviation along grid axis {axis}"),
                    sigma,
                    "a finite number above 0",
                ));
            }
            let points = stride.checked_mul(length).filter(|&n| n <= u32::MAX as usize).ok_or_else(|| {
                Error::value("grid", format!("{shape:?}"), "a grid of fewer than 2^32 points")
            })?;
            axes.push(Axis { length, stride, taps: taps(sigma, length)? });
            stride = points;
        }
        Ok(Self { points: stride, axes })
    }
}

/// The one-sided taps: 1 in the middle, no further than the axis is long.
fn taps(sigma: f32, length: usize) -> Result<Vec<f32>> {
    let wide = f64::from(sigma);
    let radius = ((REACH * wide).ceil() as usize).min(length - 1);
    if radius > MAX_RADIUS {
        return Err(Error::Filter {
            filter: "separable",
            why: format!("a standard deviation of {sigma} grid steps needs {radius} neighbours to each side"),
            fix: "use the lattice filter for kernels this wide".into(),
        });
    }
    Ok((0..=radius).map(|t| (-0.5 * (t as f64 / wide).powi(2)).exp() as f32).collect())
}

impl Axis {
    /// One pass over `from` (all points x `channels`) into `to`.
    fn filter(&self, channels: usize, from: &[f32], to: &mut [f32]) {
        let step = self.stride * channels;
        let slab = self.length * step;
        // Short slabs are done many at a time, long ones in pieces; both cuts are fixed by the sizes alone.
        if slab <= PIECE {
            let many = slab * rows_per_chunk(slab);
            to.par_chunks_mut(many).zip(from.par_chunks(many)).for_each(|(to, from)| {
                for (to, from) in to.chunks_exact_mut(slab).zip(from.chunks_exact(slab)) {
                    self.filter_piece(step, from, 0, to);
                }
            });
        } else {
            to.par_chunks_mut(slab).zip(from.par_chunks(slab)).for_each(|(to, from)| {
                to.par_chunks_mut(PIECE)
                    .enumerate()
                    .for_each(|(piece, to)| self.filter_piece(step, from, piece * PIECE, to));
            });
        }
    }

    /// Fills `to`, which is `slab[start..]`'s counterpart, from the whole `slab`: neighbours along the axis are
    /// `step` values apart.
    fn filter_piece(&self, step: usize, slab: &[f32], start: usize, to: &mut [f32]) {
        let end = start + to.len();
        to.copy_from_slice(&slab[start..end]);
        for (t, &weight) in self.taps.iter().enumerate().skip(1) {
            let shift = t * step;
            // Places with a left neighbour start at `shift`, those with a right one end at `last`.
            let last = slab.len() - shift;
            let both = start.max(shift)..end.min(last);
            if both.start < both.end {
                let left = &slab[both.start - shift..both.end - shift];
                let right = &slab[both.start + shift..both.end + shift];
                let here = &mut to[both.start - start..both.end - start];
                for ((o, &l), &r) in here.iter_mut().zip(left).zip(right) {
                    *o += weight * (l + r);
                }
            }
            let only_right = start..end.min(last).min(shift);
            if only_right.start < only_right.end {
                let right = &slab[only_right.start + shift..only_right.end + shift];
                add_scaled(&mut to[..only_right.end - start], weight, right);
            }
            let only_left = start.max(shift).max(last)..end;
            if only_left.start < only_left.end {
                let left = &slab[only_left.start - shift..only_left.end - shift];
                add_scaled(&mut to[only_left.start - start..], weight, left);
            }
        }
    }
}

fn add_scaled(to: &mut [f32], weight: f32, from: &[f32]) {
    for (o, &x) in to.iter_mut().zip(from) {
        *o += weight * x;
    }
}

impl Operator for Separable {
    fn name(&self) -> &'static str {
        "separable"
    }

    fn points(&self) -> usize {
        self.points
    }

    fn is_symmetric(&self) -> bool {
        true
    }

    fn apply(
        &self,
        _direction: Direction,
        input: &[f32],
        channels: usize,
        scaling: Scaling,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) {
        check_sizes(self.points, channels, input.len(), out.len(), &scaling);
        if channels == 0 {
            return;
        }
        let rows = rows_per_chunk(channels);
        let (from, to) = (&mut workspace.first, &mut workspace.second);
        from.resize(input.len(), 0.0);
        to.resize(input.len(), 0.0);
        from.par_chunks_mut(rows * channels).zip(input.par_chunks(rows * channels)).enumerate().for_each(
            |(chunk, (from, input))| {
                let pairs = from.chunks_exact_mut(channels).zip(input.chunks_exact(channels));
                for (i, (row, x)) in pairs.enumerate() {
                    write_row(row, x, scaling.input(chunk * rows + i), false);
                }
            },
        );
        for axis in self.axes.iter().filter(|axis| axis.taps.len() > 1) {
            axis.filter(channels, from, to);
            std::mem::swap(from, to);
        }
        out.par_chunks_mut(rows * channels).zip(from.par_chunks(rows * channels)).enumerate().for_each(
            |(chunk, (out, from))| {
                let pairs = out.chunks_exact_mut(channels).zip(from.chunks_exact(channels));
                for (i, (row, x)) in pairs.enumerate() {
                    write_row(row, x, scaling.out(chunk * rows + i), scaling.add);
                }
            },
        );
    }

    fn diagonal(&self) -> Vec<f32> {
        vec![1.0; self.points]
    }

    fn workspace_bytes(&self, channels: usize) -> u64 {
        2 * 4 * (self.points * channels) as u64
    }

    fn size_hint(&self) -> usize {
        self.axes.iter().map(|axis| 2 * axis.taps.len() - 1).sum()
    }

    fn ordered(&self) -> Option<&dyn Ordered> {
        Some(self)
    }
}

impl Ordered for Separable {
    fn pair(&self, a: u32, b: u32) -> Option<f32> {
        let weight = |axis: &Axis| {
            let along = |p: u32| p as usize / axis.stride % axis.length;
            axis.taps.get(along(a).abs_diff(along(b))).copied().unwrap_or(0.0)
        };
        Some(self.axes.iter().map(weight).product())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Exact;
    use crate::reduce::CHUNK;

    /// Positions over standard deviations, as features for the exact filter.
    fn grid(shape: &[usize], sigmas: &[f32]) -> Vec<f32> {
        let points: usize = shape.iter().product();
        let mut features = Vec::new();
        for p in 0..points {
            let mut stride = points;
            for (&length, &sigma) in shape.iter().zip(sigmas) {
                stride /= length;
                features.push((p / stride % length) as f32 / sigma);
            }
        }
        features
    }

    #[test]
    fn factors_are_those_of_their_points() {
        let filter = Separable::new(&[170, 160], &[1.5, 1.5]).unwrap();
        let n = filter.points();
        assert!(n > CHUNK, "more than are done at a time");
        let numbers = |seed: usize| (0..2 * n).map(move |p| ((p * 7919 + seed) % 101) as f32 / 101.0);
        let (left, right): (Vec<f32>, Vec<f32>) = numbers(3).zip(numbers(7)).take(n).unzip();
        let input: Vec<f32> = numbers(50).collect();
        let run = |input: &[f32], scaling: Scaling| {
            let mut out = vec![1.0; 2 * n];
            filter.apply(Direction::Forward, input, 2, scaling, &mut out, &mut Workspace::new());
            out
        };
        let scaled: Vec<f32> = input.iter().enumerate().map(|(k, x)| x * right[k / 2]).collect();
        let expected = run(&scaled, Scaling::NONE);
        let got = run(&input, Scaling { left: Some(&left), right: Some(&right), gain: 0.5, add: true });
        for (k, (g, w)) in got.iter().zip(&expected).enumerate() {
            let w = 1.0 + 0.5 * left[k / 2] * w;
            assert!((g - w).abs() < 1e-5, "{g} {w}");
        }
    }

    #[test]
    fn agrees_with_the_exact_sum() {
        let cases: [(&[usize], &[f32]); 9] = [
            (&[1], &[2.0]),
            (&[300], &[3.0]),
            (&[300], &[1000.0]),
            (&[1, 57], &[1.0, 4.0]),
            (&[57, 1], &[4.0, 1.0]),
            (&[31, 40], &[3.0, 3.0]),
            (&[40, 31], &[0.3, 7.0]),
            (&[9, 10, 11], &[2.0, 1.0, 3.0]),
            (&[2, 3, 4, 5], &[1.0, 0.5, 2.0, 9.0]),
        ];
        for (shape, sigmas) in cases {
            let separable = Separable::new(shape, sigmas).unwrap();
            let exact = Exact::new(grid(shape, sigmas), shape.len()).unwrap();
            let n = separable.points();
            assert_eq!(n, exact.points());
            for (a, (s, e)) in separable.normalizer().iter().zip(exact.normalizer()).enumerate() {
                assert!((s / e - 1.0).abs() < 2e-6, "{shape:?} at {a}: {s} {e}");
            }
            // Three channels: noise, one point, and a far corner.
            let input: Vec<f32> = (0..n)
                .flat_map(|p| {
                    let noise = ((p * 7919 + 3) % 101) as f32 / 101.0;
                    [noise, f32::from(u8::from(p == n / 2)), f32::from(u8::from(p + 3 > n))]
                })
                .collect();
            let run = |filter: &dyn Operator| {
                let mut out = vec![0.0; n * 3];
                filter.apply(Direction::Forward, &input, 3, Scaling::NONE, &mut out, &mut Workspace::new());
                out
            };
            let (got, expected) = (run(&separable), run(&exact));
            for c in 0..3 {
                let largest = expected.iter().skip(c).step_by(3).fold(0.0_f32, |m, &x| m.max(x));
                for (g, w) in got.iter().zip(&expected).skip(c).step_by(3) {
                    assert!((g - w).abs() <= 1e-5 * largest, "{shape:?}: {g} {w}");
                }
            }
            for p in 0..n as u32 {
                let difference = separable.pair(p, 0).unwrap() - exact.pair(p, 0).unwrap();
                assert!(difference.abs() < 2e-6, "{shape:?}: {difference}");
            }
        }
    }

    #[test]
    fn long_slabs_are_cut_without_a_seam() {
        // One row of this grid is longer than a piece, and a column of it than a chunk.
        const { assert!(CHUNK > PIECE) };
        let separable = Separable::new(&[3, 2 * CHUNK + 5], &[1.0, 2.0]).unwrap();
        let sums = separable.normalizer();
        let width = 2 * CHUNK + 5;
        assert!(sums[50..width - 50].iter().all(|&s| s == sums[50]));
        assert_eq!(sums[..width], sums[2 * width..]);
    }

    #[test]
    fn bad_grids_are_named() {
        let fail = |shape: &[usize], sigmas: &[f32]| Separable::new(shape, sigmas).unwrap_err().to_string();
        assert!(fail(&[], &[]).contains("at least one"));
        assert!(fail(&[3, 4], &[1.0]).contains("2 axes"));
        assert!(fail(&[3, 0], &[1.0, 1.0]).contains("axis 1 is 0"));
        assert!(fail(&[3, 4], &[0.0, 1.0]).contains("axis 0 is 0"));
        assert!(fail(&[3, 4], &[1.0, f32::NAN]).contains("NaN"));
        assert!(fail(&[usize::MAX, 4], &[1.0, 1.0]).contains("2^32"));
        // No taps may be asked for before the size is known to be sane.
        assert!(fail(&[1 << 40], &[1e30]).contains("2^32"));
        assert!(fail(&[1 << 30], &[1e30]).contains("lattice"));
    }
}
