//! Functions without a state of their own.

use numpy::PyArray2;
use pyo3::prelude::*;
use relaxcrf::filter::{Blur, Direction, Exact, Lattice, Operator, Scaling, Workspace};
use relaxcrf::solve::Pipeline;
use relaxcrf::{Error, Image};
use relaxcrf_stereo::{CostOptions, Measure, cost};

use crate::arrays::{Rows, Values, ValuesView, check_room, to_array_of_rows, to_rows};
use crate::errors::exception;
use crate::pool::{self, Threads};

/// The version of the library.
#[pyfunction]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Name, summary and promise of every method.
#[pyfunction]
pub fn methods() -> Vec<(&'static str, &'static str, &'static str)> {
    relaxcrf::solve::METHODS.iter().map(|m| (m.name, m.summary, m.promise)).collect()
}

/// The filter that suits a method, if the user names none.
#[pyfunction]
pub fn preferred_filter(method: &str) -> PyResult<String> {
    let pipeline = method.parse::<Pipeline>().map_err(exception)?;
    Ok(pipeline.preferred_filter().to_string())
}

/// A bare Gaussian filter on rows of values.
#[pyfunction]
#[pyo3(signature = (features, values, kind="lattice", transposed=false, threads=None))]
pub fn filter<'py>(
    py: Python<'py>,
    features: Rows,
    values: Rows,
    kind: &str,
    transposed: bool,
    threads: Option<Threads>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let (features, values) = (features.as_array(), values.as_array());
    let (points, channels) = values.dim();
    let dims = features.ncols();
    let rows = pool::run(py, threads, || {
        if features.nrows() != points {
            return Err(Error::shape(
                "values",
                format!("{points} points"),
                format!("one for each of the {} points with features", features.nrows()),
            ));
        }
        let features = to_rows(features)?;
        let values = to_rows(values)?;
        check_finite(&values, channels)?;
        check_room(points, channels, "filtered values")?;
        let filter: Box<dyn Operator> = match kind {
            "exact" => Box::new(Exact::new(features, dims)?),
            "lattice" => Box::new(Lattice::new(&features, dims, Blur::Symmetric)?),
            "lattice-classic" => Box::new(Lattice::new(&features, dims, Blur::Classic)?),
            _ => return Err(Error::parse("filter", kind, "expected exact, lattice or lattice-classic")),
        };
        let direction = if transposed { Direction::Transposed } else { Direction::Forward };
        let mut out = vec![0.0; points * channels];
        let mut scratch = Workspace::new();
        filter.apply(direction, &values, channels, Scaling::NONE, &mut out, &mut scratch);
        match out.iter().position(|v| !v.is_finite()) {
            None => Ok(out),
            Some(at) => Err(Error::Element {
                what: "filtered values".into(),
                got: out[at].to_string(),
                place: place(at, channels),
                expected: "sums that single precision can hold, up to 3.4e38".into(),
                fix: "divide the values by their largest".into(),
            }),
        }
    })?;
    to_array_of_rows(py, rows, channels)
}

/// A number that is none would be everywhere after filtering.
fn check_finite(values: &[f32], channels: usize) -> relaxcrf::Result<()> {
    let Some(at) = values.iter().position(|v| !v.is_finite()) else { return Ok(()) };
    Err(Error::Element {
        what: "values".into(),
        got: values[at].to_string(),
        place: place(at, channels),
        expected: "finite numbers".into(),
        fix: "numpy.nan_to_num, if they stand for nothing".into(),
    })
}

fn place(at: usize, channels: usize) -> String {
    format!("point {}, channel {}", at / channels, at % channels)
}

/// Matching costs of a rectified pair: one row of disparities per pixel.
#[pyfunction]
#[pyo3(signature = (left, right, height, width, disparities, measure, radius, truncation=None, threads=None))]
pub fn stereo_unary<'py>(
    py: Python<'py>,
    left: Values,
    right: Values,
    height: usize,
    width: usize,
    disparities: usize,
    measure: &str,
    radius: usize,
    truncation: Option<f32>,
    threads: Option<Threads>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let (left, right) = (left.view(), right.view());
    let rows = pool::run(py, threads, || {
        let measure = match measure {
            "absolute" => Measure::AbsoluteDifference,
            "birchfield-tomasi" => Measure::BirchfieldTomasi,
            "census" => Measure::Census { radius },
            _ => {
                let expected = "expected absolute, birchfield-tomasi or census";
                return Err(Error::parse("measure", measure, expected));
            }
        };
        let mut options = CostOptions::new(measure);
        if truncation.is_some() {
            options.truncation = truncation;
        }
        let image = |view: ValuesView| Image::new(width, height, view.dim().1, view.rows()?);
        check_room(left.dim().0, disparities, "matching costs")?;
        cost(&image(left)?, &image(right)?, disparities, &options)
    })?;
    to_array_of_rows(py, rows, disparities)
}
