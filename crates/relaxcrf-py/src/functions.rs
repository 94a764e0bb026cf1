//! Functions without a state of their own.

use numpy::{PyArray1, PyArray2, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use relaxcrf::filter::{Blur, Direction, Exact, Lattice, Operator, Scaling, Workspace};
use relaxcrf::model::unary;
use relaxcrf::presets::PRESETS;
use relaxcrf::solve::Pipeline;
use relaxcrf::{Error, Image};
use relaxcrf_stereo::{CostOptions, Measure, cost};

use crate::arrays::{Rows, check_room, to_array_of_rows, to_rows};
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

/// The named parameter sets.
#[pyfunction]
pub fn presets(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let all = PRESETS.iter();
    all.map(|p| {
        let parts = PyDict::new(py);
        parts.set_item("name", p.name.as_ref())?;
        parts.set_item("summary", p.summary.as_ref())?;
        parts.set_item("source", p.source.as_ref())?;
        parts.set_item("gaussian", p.gaussian)?;
        parts.set_item("bilateral", p.bilateral)?;
        parts.set_item("method", p.method.as_ref())?;
        parts.set_item("normalization", p.normalization.to_string())?;
        Ok(parts)
    })
    .collect()
}

/// Energies of hard labels.
#[pyfunction]
#[pyo3(signature = (marks, labels, confidence, unsure=None))]
pub fn unary_from_labels<'py>(
    py: Python<'py>,
    marks: PyReadonlyArray1<u16>,
    labels: usize,
    confidence: f32,
    unsure: Option<u16>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let marks = marks.as_array();
    let rows = pool::run(py, None, || {
        check_room(marks.len(), labels, "unary energies")?;
        unary::from_labels(&marks.to_vec(), labels, confidence, unsure)
    })?;
    to_array_of_rows(py, rows, labels)
}

/// Energies -log p of rows of probabilities, clipped from below.
#[pyfunction]
#[pyo3(signature = (probabilities, clip, threads=None))]
pub fn unary_from_probabilities<'py>(
    py: Python<'py>,
    probabilities: Rows,
    clip: f32,
    threads: Option<Threads>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let view = probabilities.as_array();
    let labels = view.ncols();
    let rows = pool::run(py, threads, || unary::from_probabilities(&to_rows(view)?, labels, clip))?;
    to_array_of_rows(py, rows, labels)
}

/// Energies -log softmax of rows of scores.
#[pyfunction]
#[pyo3(signature = (scores, threads=None))]
pub fn unary_from_scores<'py>(
    py: Python<'py>,
    scores: Rows,
    threads: Option<Threads>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let view = scores.as_array();
    let labels = view.ncols();
    let rows = pool::run(py, threads, || unary::from_scores(&to_rows(view)?, labels))?;
    to_array_of_rows(py, rows, labels)
}

/// The place of the largest value of every row; the first wins a tie.
#[pyfunction]
#[pyo3(signature = (rows, threads=None))]
pub fn argmax<'py>(
    py: Python<'py>,
    rows: Rows,
    threads: Option<Threads>,
) -> PyResult<Bound<'py, PyArray1<u16>>> {
    let view = rows.as_array();
    let labels = pool::run(py, threads, || {
        let best = |row: numpy::ndarray::ArrayView1<f32>| {
            let mut best = 0;
            for (i, &v) in row.iter().enumerate() {
                if v > row[best] {
                    best = i;
                }
            }
            best as u16
        };
        Ok(view.rows().into_iter().map(best).collect())
    })?;
    Ok(PyArray1::from_vec(py, labels))
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
    left: Rows,
    right: Rows,
    height: usize,
    width: usize,
    disparities: usize,
    measure: &str,
    radius: usize,
    truncation: Option<f32>,
    threads: Option<Threads>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let (left, right) = (left.as_array(), right.as_array());
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
        let image =
            |view: numpy::ndarray::ArrayView2<f32>| Image::new(width, height, view.ncols(), to_rows(view)?);
        check_room(left.nrows(), disparities, "matching costs")?;
        cost(&image(left)?, &image(right)?, disparities, &options)
    })?;
    to_array_of_rows(py, rows, disparities)
}
