//! Kernels as users state them, and the features they stand for.

use std::ops::Range;

use crate::error::{Error, Result};

/// One Gaussian kernel of the pairwise term: `weight · exp(-|f_a - f_b|² / 2)`.
#[derive(Debug, Clone)]
pub struct Kernel {
    /// What the kernel compares.
    pub features: Features,
    /// Its weight. Every pair counts twice, once from each end; codes that count pairs once use twice this.
    pub weight: f32,
}

/// What a kernel compares.
#[derive(Debug, Clone)]
pub enum Features {
    /// Position on the grid.
    Position {
        /// Standard deviation along each axis in pixels, fastest axis first (x, y, z); one value serves all.
        sigma: Vec<f32>,
    },
    /// Position and the values of an image.
    Bilateral {
        /// As for `Position`.
        sigma: Vec<f32>,
        /// The image: one row of channels per pixel.
        image: Vec<f32>,
        /// Standard deviation of each channel, in the image's units; one value serves all.
        sigma_color: Vec<f32>,
    },
    /// Any features, already divided by their standard deviations.
    Given {
        /// One row per point.
        rows: Vec<f32>,
        /// Values per row.
        dims: usize,
    },
}

/// The pixels of a problem: a grid, or a window of a larger one.
///
/// Positions are those in the whole grid, so that neighbouring windows have the same lattice, and the filter is the
/// one that the whole would get.
#[derive(Debug, Clone)]
pub(crate) struct Grid {
    /// Sizes of the window, slowest axis first.
    pub sizes: Vec<usize>,
    /// Where it begins in the whole.
    pub origin: Vec<usize>,
    /// Sizes of the whole.
    pub whole: Vec<usize>,
}

impl Grid {
    /// A grid that is no part of anything.
    pub fn whole(sizes: &[usize]) -> Self {
        Self { sizes: sizes.to_vec(), origin: vec![0; sizes.len()], whole: sizes.to_vec() }
    }

    /// Fails unless the window lies in the whole.
    pub fn check(&self) -> Result<()> {
        let Self { sizes, origin, whole } = self;
        let axes = sizes.len();
        let inside = origin.len() == axes
            && whole.len() == axes
            && (0..axes).all(|k| origin[k].checked_add(sizes[k]).is_some_and(|end| end <= whole[k]));
        if inside {
            return Ok(());
        }
        Err(Error::value("window", format!("{sizes:?} at {origin:?}"), format!("inside of {whole:?}")))
    }
}

impl Kernel {
    /// A short text such as `bilateral 80:13 x 10`.
    pub fn describe(&self) -> String {
        let list = |s: &[f32]| s.iter().map(f32::to_string).collect::<Vec<_>>().join(",");
        match &self.features {
            Features::Position { sigma } => format!("gaussian {}:{}", list(sigma), self.weight),
            Features::Bilateral { sigma, sigma_color, .. } => {
                format!("bilateral {}:{}:{}", list(sigma), list(sigma_color), self.weight)
            }
            Features::Given { dims, .. } => format!("features {dims}-d:{}", self.weight),
        }
    }

    /// Values per point that the kernel itself holds.
    pub(crate) fn values_kept(&self, points: usize) -> usize {
        match &self.features {
            Features::Position { .. } => 0,
            Features::Bilateral { image, .. } => image.len() / points.max(1),
            Features::Given { dims, .. } => *dims,
        }
    }

    /// Checks the kernel against the grid and lays out its features, position first, x before y.
    /// Returns the rows and their length.
    pub(super) fn lay_out(&self, grid: &Grid) -> Result<(Vec<f32>, usize)> {
        self.lay_out_some(grid, 0..grid.sizes.iter().product())
    }

    /// The same for some of the points only.
    pub(crate) fn lay_out_some(&self, grid: &Grid, some: Range<usize>) -> Result<(Vec<f32>, usize)> {
        let sizes = &grid.sizes;
        let points: usize = sizes.iter().product();
        if !(self.weight.is_finite() && self.weight >= 0.0) {
            return Err(Error::value(
                format!("weight of kernel `{}`", self.describe()),
                self.weight,
                "a finite number, 0 or more (positive smooths)",
            ));
        }
        match &self.features {
            Features::Position { sigma } => {
                let sigma = per_axis("sigma", sigma, sizes.len())?;
                Ok((positions(grid, &sigma, some), sizes.len()))
            }
            Features::Bilateral { sigma, image, sigma_color } => {
                if image.is_empty() || image.len() % points != 0 {
                    return Err(Error::Shape {
                        what: "image of the bilateral kernel".into(),
                        got: format!("{} values", image.len()),
                        expected: format!("whole channels for {points} pixels"),
                        fix: "do image and unary energies have the same width and height?".into(),
                    });
                }
                let channels = image.len() / points;
                let sigma = per_axis("sigma", sigma, sizes.len())?;
                let sigma_color = per_axis("colour sigma", sigma_color, channels)?;
                let (axes, dims) = (sizes.len(), sizes.len() + channels);
                let image = &image[some.start * channels..some.end * channels];
                let mut rows = Vec::with_capacity(some.len() * dims);
                let position = positions(grid, &sigma, some);
                for (p, color) in position.chunks_exact(axes).zip(image.chunks_exact(channels)) {
                    rows.extend_from_slice(p);
                    rows.extend(color.iter().zip(&sigma_color).map(|(&c, &s)| c / s));
                }
                Ok((rows, dims))
            }
            Features::Given { rows, dims } => {
                if *dims == 0 || Some(rows.len()) != points.checked_mul(*dims) {
                    return Err(Error::shape(
                        "feature array",
                        format!("{} values", rows.len()),
                        format!("{points} rows of {dims}"),
                    ));
                }
                Ok((rows[some.start * dims..some.end * dims].to_vec(), *dims))
            }
        }
    }
}

/// One positive value per axis, from one for all or one for each.
fn per_axis(what: &str, values: &[f32], axes: usize) -> Result<Vec<f32>> {
    if let Some(bad) = values.iter().find(|s| !(s.is_finite() && **s > 0.0)) {
        return Err(Error::value(what, bad, "a positive, finite number"));
    }
    match values.len() {
        1 => Ok(vec![values[0]; axes]),
        n if n == axes => Ok(values.to_vec()),
        n => Err(Error::value(what, format!("{n} values"), format!("1 value, or one for each of {axes}"))),
    }
}

/// Grid coordinates divided by sigma, fastest axis first.
fn positions(grid: &Grid, sigma: &[f32], some: Range<usize>) -> Vec<f32> {
    let mut rows = Vec::with_capacity(some.len() * grid.sizes.len());
    for index in some {
        let mut rest = index;
        for ((&size, &origin), &s) in grid.sizes.iter().zip(&grid.origin).rev().zip(sigma) {
            rows.push(((origin + rest % size) as f64 / f64::from(s)) as f32);
            rest /= size;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_run_fastest_axis_first() {
        let rows = positions(&Grid::whole(&[2, 3]), &[1.0, 10.0], 0..6);
        assert_eq!(rows, [0., 0., 1., 0., 2., 0., 0., 0.1, 1., 0.1, 2., 0.1]);
    }

    #[test]
    fn a_window_has_the_positions_of_the_whole() {
        let (whole, sigma) = (Grid::whole(&[5, 7]), [3.0, 0.7]);
        let window = Grid { sizes: vec![2, 3], origin: vec![3, 4], whole: vec![5, 7] };
        assert!(window.check().is_ok());
        let (all, some) = (positions(&whole, &sigma, 0..35), positions(&window, &sigma, 0..6));
        for y in 0..2 {
            assert_eq!(some[y * 6..][..6], all[((y + 3) * 7 + 4) * 2..][..6]);
        }
        for bad in [vec![4, 4], vec![3, 5], vec![3], vec![usize::MAX, 0]] {
            assert!(Grid { origin: bad, ..window.clone() }.check().is_err());
        }
    }

    #[test]
    fn bilateral_features_put_position_first() {
        let kernel = Kernel {
            features: Features::Bilateral {
                sigma: vec![2.0],
                image: vec![10., 20., 30., 40.],
                sigma_color: vec![10.],
            },
            weight: 1.0,
        };
        let (rows, dims) = kernel.lay_out(&Grid::whole(&[1, 2])).unwrap();
        assert_eq!(dims, 4);
        assert_eq!(rows, [0.0, 0.0, 1.0, 2.0, 0.5, 0.0, 3.0, 4.0]);
        assert_eq!(kernel.describe(), "bilateral 2:10:1");
    }

    #[test]
    fn bad_kernels_are_refused() {
        let position = |sigma: Vec<f32>, weight| Kernel { features: Features::Position { sigma }, weight };
        for bad in [
            position(vec![-1.0], 1.0),
            position(vec![0.0], 1.0),
            position(vec![f32::NAN], 1.0),
            position(vec![1.0, 1.0, 1.0], 1.0),
            position(vec![], 1.0),
            position(vec![1.0], -1.0),
            position(vec![1.0], f32::INFINITY),
        ] {
            assert!(bad.lay_out(&Grid::whole(&[4, 5])).is_err(), "{bad:?}");
        }
        assert!(position(vec![1.0, 2.0], 0.0).lay_out(&Grid::whole(&[4, 5])).is_ok());
    }
}
