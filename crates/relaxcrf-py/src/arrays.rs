//! Between NumPy arrays of any layout and the core's rows.

use std::hint::black_box;

use numpy::ndarray::{ArrayView2, s};
use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::prelude::*;
use rayon::prelude::*;
use relaxcrf::reduce::rows_per_chunk;
use relaxcrf::{Error, Result};

/// What Python hands over: one row per point, in any layout.
pub type Rows<'py> = PyReadonlyArray2<'py, f32>;

/// Values of points (an image, or features): one row per point, in any layout.
#[derive(FromPyObject)]
pub enum Values<'py> {
    /// As most images are.
    Bytes(PyReadonlyArray2<'py, u8>),
    /// Anything else.
    Floats(Rows<'py>),
}

/// [`Values`] without the interpreter lock.
pub enum ValuesView<'a> {
    Bytes(ArrayView2<'a, u8>),
    Floats(ArrayView2<'a, f32>),
}

impl Values<'_> {
    /// What there is to read.
    pub fn view(&self) -> ValuesView<'_> {
        match self {
            Self::Bytes(values) => ValuesView::Bytes(values.as_array()),
            Self::Floats(values) => ValuesView::Floats(values.as_array()),
        }
    }
}

impl ValuesView<'_> {
    /// Number of points and values of each.
    pub fn dim(&self) -> (usize, usize) {
        match self {
            Self::Bytes(values) => values.dim(),
            Self::Floats(values) => values.dim(),
        }
    }

    /// The rows one after the other.
    pub fn rows(&self) -> Result<Vec<f32>> {
        let (points, width) = self.dim();
        match self {
            Self::Floats(values) => to_rows(*values),
            Self::Bytes(values) => {
                let mut rows = room(points, width, "array to be copied")?;
                match values.as_slice() {
                    Some(slice) => rows.extend(slice.iter().map(|&v| f32::from(v))),
                    None => rows.extend(values.iter().map(|&v| f32::from(v))),
                }
                Ok(rows)
            }
        }
    }
}

/// An empty vector with room for so many rows: an error, not an abort, if memory has none.
fn room(points: usize, width: usize, what: &str) -> Result<Vec<f32>> {
    let mut rows = Vec::new();
    let reserved = points.checked_mul(width).map(|size| rows.try_reserve_exact(size));
    match reserved {
        Some(Ok(())) => Ok(rows),
        _ => {
            let got = format!("{points} x {width} values");
            Err(Error::value(what, got, "no larger than memory has room for"))
        }
    }
}

/// Fails if rows that are about to be made could not be kept.
pub fn check_room(points: usize, width: usize, what: &str) -> Result<()> {
    // Out of the compiler's sight, which may leave out memory that nobody uses.
    black_box(room(points, width, what)?);
    Ok(())
}

/// The rows one after the other: the one copy that an owner of data needs, whatever the layout.
///
/// An array that stands for more than there is (`numpy.broadcast_to`, a memory map) is an error, not an abort.
pub fn to_rows(view: ArrayView2<f32>) -> Result<Vec<f32>> {
    let (points, width) = view.dim();
    match view.as_slice() {
        Some(slice) => {
            let mut rows = room(points, width, "array to be copied")?;
            rows.extend_from_slice(slice);
            Ok(rows)
        }
        None => {
            check_room(points, width, "array to be copied")?;
            let mut rows = vec![0.0; points * width];
            fill_rows(view, &mut rows);
            Ok(rows)
        }
    }
}

/// Copies rows in any layout into `out`. Planes are read in order, a few rows at a time: these stay in the nearest
/// cache until they are whole.
fn fill_rows(view: ArrayView2<f32>, out: &mut [f32]) {
    const ROWS: usize = 64;
    let (points, width) = view.dim();
    let planes = view.t();
    let planes = planes.as_slice();
    let piece = rows_per_chunk(width).next_multiple_of(ROWS);
    out.par_chunks_mut(piece * width.max(1)).enumerate().for_each(|(chunk, out)| {
        for (k, out) in out.chunks_mut(ROWS * width).enumerate() {
            let first = chunk * piece + k * ROWS;
            let count = out.len() / width;
            let Some(planes) = planes else {
                for (to, row) in out.chunks_exact_mut(width).zip(view.slice(s![first.., ..]).rows()) {
                    to.iter_mut().zip(row).for_each(|(to, &v)| *to = v);
                }
                continue;
            };
            let plane = |column: usize| &planes[column * points + first..][..count];
            // Eight columns at once where there are as many, so that a row is written in pieces, not value by value.
            let whole = width / 8 * 8;
            for column in (0..whole).step_by(8) {
                let eight: [&[f32]; 8] = std::array::from_fn(|c| plane(column + c));
                for (r, to) in out.chunks_exact_mut(width).enumerate() {
                    to[column..column + 8].copy_from_slice(&eight.map(|plane| plane[r]));
                }
            }
            for column in whole..width {
                let places = out[column..].iter_mut().step_by(width);
                places.zip(plane(column)).for_each(|(to, &v)| *to = v);
            }
        }
    });
}

/// A NumPy array that takes over the vector.
pub fn to_array<T: numpy::Element>(py: Python<'_>, values: Vec<T>) -> Bound<'_, PyArray1<T>> {
    PyArray1::from_vec(py, values)
}

/// A NumPy array of rows that takes over the vector.
pub fn to_array_of_rows(py: Python<'_>, rows: Vec<f32>, width: usize) -> PyResult<Bound<'_, PyArray2<f32>>> {
    let points = rows.len() / width.max(1);
    to_array(py, rows).reshape([points, width])
}
