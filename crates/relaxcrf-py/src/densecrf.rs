//! The state behind `relaxcrf.compat.pydensecrf.densecrf.DenseCRF`, and behind `refine`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use numpy::{PyArray2, PyReadwriteArray2};
use pyo3::prelude::*;
use relaxcrf::Error;
use relaxcrf::model::Normalization;

use crate::arrays::{Rows, check_room, grid_features, to_array_of_rows, to_rows};
use crate::errors::{ArgumentError, exception};
use crate::mean_field::{Compatibility, Problem, Term, Workspace};
use crate::pool::{self, Threads};

/// Mean field with one compatibility per kernel. Arrays are points x labels, in any layout.
#[pyclass(frozen, module = "relaxcrf._core")]
pub struct DenseCrf {
    problem: Mutex<Problem>,
    /// Taken by whoever works; a second worker at the same time allocates its own.
    space: Mutex<Option<Workspace>>,
}

#[pymethods]
impl DenseCrf {
    #[new]
    #[pyo3(signature = (points, labels))]
    fn new(points: usize, labels: usize) -> PyResult<Self> {
        if points == 0 || labels == 0 || points > u32::MAX as usize {
            return Err(ArgumentError::new_err(format!(
                "{points} points with {labels} labels: at least one of each is needed, and at most 2^32 - 1 points"
            )));
        }
        check_beliefs(points, labels)?;
        let problem = Problem { points, labels, unary: None, terms: Vec::new() };
        Ok(Self { problem: Mutex::new(problem), space: Mutex::new(None) })
    }

    /// Number of points.
    #[getter]
    fn points(&self) -> usize {
        self.now().points
    }

    /// Number of labels.
    #[getter]
    fn labels(&self) -> usize {
        self.now().labels
    }

    /// Sets the energies.
    #[pyo3(signature = (energies, threads=None))]
    fn set_unary(&self, py: Python, energies: Rows, threads: Option<Threads>) -> PyResult<()> {
        let view = energies.as_array();
        self.check_shape(view.dim())?;
        let rows = pool::run(py, threads, || to_rows(view))?;
        self.now().set_unary(rows).map_err(exception)
    }

    /// Adds a kernel on rows of features. `compatibility` is one number (Potts), one per label, or a matrix.
    #[pyo3(signature = (features, compatibility, normalization="symmetric", threads=None))]
    fn add_pairwise(
        &self,
        py: Python,
        features: Rows,
        compatibility: Vec<f32>,
        normalization: &str,
        threads: Option<Threads>,
    ) -> PyResult<()> {
        let (points, labels) = {
            let problem = self.now();
            (problem.points, problem.labels)
        };
        let normalization: Normalization = normalization.parse().map_err(exception)?;
        let compatibility = compatibility_of(compatibility, labels)?;
        let view = features.as_array();
        let (rows, dims) = view.dim();
        if rows != points {
            return Err(exception(Error::shape(
                "feature array",
                format!("{rows} points"),
                format!("the model's {points}"),
            )));
        }
        let term = pool::run(py, threads, || Term::new(&to_rows(view)?, dims, compatibility, normalization))?;
        self.now().terms.push(Arc::new(term));
        Ok(())
    }

    /// Adds a kernel on the positions of a grid (sizes slowest axis first, deviations fastest first: x, y) and, if given, on
    /// the rows of an image, each channel divided by its deviation.
    #[pyo3(signature = (shape, sigma, image, sigma_color, compatibility, normalization="symmetric", threads=None))]
    #[allow(clippy::too_many_arguments)]
    fn add_grid(
        &self,
        py: Python,
        shape: Vec<usize>,
        sigma: Vec<f32>,
        image: Option<Rows>,
        sigma_color: Vec<f32>,
        compatibility: Vec<f32>,
        normalization: &str,
        threads: Option<Threads>,
    ) -> PyResult<()> {
        let (points, labels) = {
            let problem = self.now();
            (problem.points, problem.labels)
        };
        let normalization: Normalization = normalization.parse().map_err(exception)?;
        let compatibility = compatibility_of(compatibility, labels)?;
        let image = image.as_ref().map(|i| i.as_array());
        let on_grid = shape.iter().try_fold(1usize, |n, &s| n.checked_mul(s)) == Some(points);
        let (rows, channels) = image.map_or((points, 0), |i| i.dim());
        if !on_grid || sigma.len() != shape.len() || rows != points || sigma_color.len() != channels {
            return Err(exception(Error::shape(
                "grid",
                format!(
                    "{shape:?} with {} deviations, {rows} colours with {}",
                    sigma.len(),
                    sigma_color.len()
                ),
                format!("{points} points, and one deviation for each axis and channel"),
            )));
        }
        let term = pool::run(py, threads, || {
            let dims = shape.len() + channels;
            check_room(points, dims, "features")?;
            let rows = grid_features(&shape, &sigma, image, &sigma_color);
            Term::new(&rows, dims, compatibility, normalization)
        })?;
        self.now().terms.push(Arc::new(term));
        Ok(())
    }

    /// The beliefs after so many updates.
    #[pyo3(signature = (iterations, threads=None))]
    fn inference<'py>(
        &self,
        py: Python<'py>,
        iterations: usize,
        threads: Option<Threads>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let problem = self.snapshot()?;
        let mut space = self.take_space();
        let q = pool::run_until_signal(py, threads, |stop| Ok(problem.infer(iterations, stop, &mut space)))?;
        self.keep_space(space);
        to_array_of_rows(py, q, problem.labels)
    }

    /// One update of `beliefs` in place.
    #[pyo3(signature = (beliefs, threads=None))]
    fn step(
        &self,
        py: Python,
        mut beliefs: PyReadwriteArray2<f32>,
        threads: Option<Threads>,
    ) -> PyResult<()> {
        let problem = self.snapshot()?;
        let mut view = beliefs.as_array_mut();
        self.check_shape(view.dim())?;
        let mut space = self.take_space();
        pool::run(py, threads, || {
            match view.as_slice_mut() {
                Some(q) => problem.step(q, &mut space),
                None => {
                    let mut q = to_rows(view.view())?;
                    problem.step(&mut q, &mut space);
                    view.iter_mut().zip(q).for_each(|(v, q)| *v = q);
                }
            }
            Ok(())
        })?;
        self.keep_space(space);
        Ok(())
    }

    /// What the common code calls a KL divergence.
    #[pyo3(signature = (beliefs, threads=None))]
    fn divergence(&self, py: Python, beliefs: Rows, threads: Option<Threads>) -> PyResult<f64> {
        let problem = self.snapshot()?;
        let view = beliefs.as_array();
        self.check_shape(view.dim())?;
        let mut space = self.take_space();
        let value = pool::run(py, threads, || {
            Ok(match view.as_slice() {
                Some(q) => problem.divergence(q, &mut space),
                None => problem.divergence(&to_rows(view)?, &mut space),
            })
        })?;
        self.keep_space(space);
        Ok(value)
    }
}

impl DenseCrf {
    fn now(&self) -> MutexGuard<'_, Problem> {
        self.problem.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The problem as it is now, if memory still has room to work on it.
    fn snapshot(&self) -> PyResult<Problem> {
        let problem = self.now().clone();
        check_beliefs(problem.points, problem.labels)?;
        Ok(problem)
    }

    /// Both locks are only ever held by threads that hold the interpreter's, so never at the moment of a fork.
    fn space(&self) -> MutexGuard<'_, Option<Workspace>> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_space(&self) -> Workspace {
        self.space().take().unwrap_or_default()
    }

    fn keep_space(&self, space: Workspace) {
        *self.space() = Some(space);
    }

    fn check_shape(&self, (points, labels): (usize, usize)) -> PyResult<()> {
        let problem = self.now();
        if (points, labels) == (problem.points, problem.labels) {
            return Ok(());
        }
        let say = |n, l| format!("{n} points x {l} labels");
        Err(exception(Error::shape("array", say(points, labels), say(problem.points, problem.labels))))
    }
}

/// An update needs the beliefs before and after it.
fn check_beliefs(points: usize, labels: usize) -> PyResult<()> {
    check_room(points, labels.saturating_mul(2), "beliefs").map_err(|_| {
        ArgumentError::new_err(format!(
            "{points} points with {labels} labels: memory has no room for the beliefs before and after an update"
        ))
    })
}

fn compatibility_of(values: Vec<f32>, labels: usize) -> PyResult<Compatibility> {
    if let Some(bad) = values.iter().find(|v| !v.is_finite()) {
        return Err(exception(Error::value("compatibility", bad, "finite")));
    }
    match values.len() {
        // With one label a number, a diagonal and a matrix are all the same size; none has any effect.
        1 => Ok(Compatibility::Potts(values[0])),
        n if n == labels => Ok(Compatibility::PerLabel(values)),
        n if Some(n) == labels.checked_mul(labels) => Ok(Compatibility::Matrix(values)),
        n => Err(exception(Error::shape(
            "compatibility",
            format!("{n} values"),
            format!("1, {labels} or {labels} x {labels}"),
        ))),
    }
}
