//! The state behind `relaxcrf.compat.pydensecrf.densecrf.DenseCRF` and the shims of SimpleCRF: a model of the core that kernels
//! are added to.

use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::{PyArray2, PyReadwriteArray2};
use pyo3::prelude::*;
use relaxcrf::model::{FilterKind, Kernel, KernelCost, KernelOptions, Normalization};
use relaxcrf::solve::{MeanFieldBuffers, mean_field_beliefs, mean_field_update};
use relaxcrf::{Error, Model, ModelBuilder, energy};

use crate::arrays::{Rows, Values, check_room, to_array_of_rows, to_rows};
use crate::errors::{ArgumentError, exception};
use crate::model::{cost_of, features_of};
use crate::pool::{self, Threads};
use crate::unary::Source;

/// Weight of every kernel: label costs hold the strengths, and the core counts every pair twice.
const WEIGHT: f32 = 0.5;

/// Mean field with one label cost per kernel. Arrays are points x labels, in any layout.
#[pyclass(frozen, module = "relaxcrf._core")]
pub struct DenseCrf {
    state: Mutex<State>,
    /// Taken by whoever works; a second worker at the same time allocates its own.
    buffers: Mutex<Option<MeanFieldBuffers>>,
}

/// The model, and how often it was replaced.
struct State {
    model: Model,
    changes: usize,
}

#[pymethods]
impl DenseCrf {
    #[new]
    #[pyo3(signature = (sizes, labels))]
    fn new(py: Python, sizes: Vec<usize>, labels: usize) -> PyResult<Self> {
        let points = sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s)).unwrap_or(usize::MAX);
        if points == 0 || labels == 0 || points > u32::MAX as usize {
            return Err(ArgumentError::new_err(format!(
                "{points} points with {labels} labels; expected at least one of each, and at most 2^32 - 1 points"
            )));
        }
        check_beliefs(points, labels)?;
        let model = pool::run(py, None, || {
            let builder = ModelBuilder::grid(&sizes, labels).unary(vec![0.0; points * labels]);
            builder.filter(FilterKind::LatticeClassic).count_self_pairs().build()
        })?;
        Ok(Self { state: Mutex::new(State { model, changes: 0 }), buffers: Mutex::new(None) })
    }

    /// Number of points.
    #[getter]
    fn points(&self) -> usize {
        self.state().model.pixels()
    }

    /// Number of labels.
    #[getter]
    fn labels(&self) -> usize {
        self.state().model.labels()
    }

    /// Sets the unary energies.
    #[pyo3(signature = (unary, threads=None))]
    fn set_unary(&self, py: Python, unary: Source, threads: Option<Threads>) -> PyResult<()> {
        let view = unary.view()?;
        self.check_shape((view.points(), view.labels()))?;
        let labels = view.labels();
        let mut energies = Some(pool::run(py, threads, || {
            let mut rows = view.energies()?;
            // pydensecrf takes a point without an allowed label as undecided.
            let is_forbidden = |row: &&mut [f32]| row.iter().all(|&e| e == f32::INFINITY);
            rows.chunks_exact_mut(labels).filter(is_forbidden).for_each(|row| row.fill(0.0));
            Ok(rows)
        })?);
        self.replace(py, threads, |model| {
            let rows = energies.take().unwrap_or_else(|| model.unary().to_vec());
            model.with_unary(rows)
        })
    }

    /// Adds a kernel: kind, standard deviations (x first), values per point (image or features) and their standard deviations.
    /// `compatibility` is one number (Potts), one per label, or a matrix.
    #[pyo3(signature = (kind, sigma, values, sigma_color, compatibility, normalization="symmetric", threads=None))]
    fn add_kernel(
        &self,
        py: Python,
        kind: &str,
        sigma: Vec<f32>,
        values: Option<Values>,
        sigma_color: Vec<f32>,
        compatibility: Vec<f32>,
        normalization: &str,
        threads: Option<Threads>,
    ) -> PyResult<()> {
        let normalization: Normalization = normalization.parse().map_err(exception)?;
        let (points, labels) = (self.points(), self.labels());
        let options = KernelOptions {
            cost: kernel_cost(compatibility, labels).map_err(exception)?,
            normalization: Some(normalization),
        };
        let values = values.as_ref().map(Values::view);
        if let Some((rows, _)) = values.as_ref().map(|v| v.dim())
            && rows != points
        {
            let expected = format!("the model's {points}");
            return Err(exception(Error::shape("feature array", format!("{rows} points"), expected)));
        }
        let features = pool::run(py, threads, || features_of(kind, &sigma, values, &sigma_color))?;
        let kernel = Kernel { features, weight: WEIGHT };
        self.replace(py, threads, |model| model.with_kernel(kernel.clone(), options.clone()))
    }

    /// The beliefs after `iterations` updates.
    #[pyo3(signature = (iterations, threads=None))]
    fn inference<'py>(
        &self,
        py: Python<'py>,
        iterations: usize,
        threads: Option<Threads>,
    ) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let model = self.snapshot()?;
        let mut buffers = self.take_buffers();
        let beliefs = pool::run_until_signal(py, threads, |stop| {
            mean_field_beliefs(&model, iterations, stop, &mut buffers)
        })?;
        self.keep_buffers(buffers);
        to_array_of_rows(py, beliefs.into_vec(), model.labels())
    }

    /// One update of `beliefs` in place.
    #[pyo3(signature = (beliefs, threads=None))]
    fn step(
        &self,
        py: Python,
        mut beliefs: PyReadwriteArray2<f32>,
        threads: Option<Threads>,
    ) -> PyResult<()> {
        let model = self.snapshot()?;
        let mut view = beliefs.as_array_mut();
        self.check_shape(view.dim())?;
        let mut buffers = self.take_buffers();
        pool::run(py, threads, || {
            match view.as_slice_mut() {
                Some(q) => mean_field_update(&model, q, &mut buffers)?,
                None => {
                    let mut q = to_rows(view.view())?;
                    mean_field_update(&model, &mut q, &mut buffers)?;
                    view.iter_mut().zip(q).for_each(|(v, q)| *v = q);
                }
            }
            Ok(())
        })?;
        self.keep_buffers(buffers);
        Ok(())
    }

    /// What the common code calls a KL divergence.
    #[pyo3(signature = (beliefs, threads=None))]
    fn divergence(&self, py: Python, beliefs: Rows, threads: Option<Threads>) -> PyResult<f64> {
        let model = self.snapshot()?;
        let view = beliefs.as_array();
        self.check_shape(view.dim())?;
        pool::run(py, threads, || match view.as_slice() {
            Some(q) => energy::common_code_divergence(&model, q),
            None => energy::common_code_divergence(&model, &to_rows(view)?),
        })
    }
}

impl DenseCrf {
    /// Both locks are only ever held by threads that hold the interpreter's, so never at the moment of a fork.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the model by what `change` makes of it, again if another thread has replaced it meanwhile.
    fn replace(
        &self,
        py: Python,
        threads: Option<Threads>,
        mut change: impl FnMut(&Model) -> relaxcrf::Result<Model> + Send,
    ) -> PyResult<()> {
        loop {
            let (model, changes) = {
                let state = self.state();
                (state.model.clone(), state.changes)
            };
            let changed = pool::run(py, threads, || change(&model))?;
            let mut state = self.state();
            if state.changes == changes {
                *state = State { model: changed, changes: changes + 1 };
                return Ok(());
            }
        }
    }

    /// The model as it is now, if memory still has room to work on it.
    fn snapshot(&self) -> PyResult<Model> {
        let model = self.state().model.clone();
        check_beliefs(model.pixels(), model.labels())?;
        Ok(model)
    }

    fn buffers(&self) -> MutexGuard<'_, Option<MeanFieldBuffers>> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_buffers(&self) -> MeanFieldBuffers {
        self.buffers().take().unwrap_or_default()
    }

    fn keep_buffers(&self, buffers: MeanFieldBuffers) {
        *self.buffers() = Some(buffers);
    }

    fn check_shape(&self, given: (usize, usize)) -> PyResult<()> {
        let expected = (self.points(), self.labels());
        if given == expected {
            return Ok(());
        }
        let say = |(points, labels)| format!("{points} points x {labels} labels");
        Err(exception(Error::shape("array", say(given), say(expected))))
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

fn kernel_cost(values: Vec<f32>, labels: usize) -> relaxcrf::Result<KernelCost> {
    if let Some(bad) = values.iter().find(|v| !v.is_finite()) {
        return Err(Error::value("compatibility", bad, "finite"));
    }
    let kind = match values.len() {
        // With one label a number, a diagonal and a matrix are all the same size; none has any effect.
        1 => "potts",
        n if n == labels => "diagonal",
        n if Some(n) == labels.checked_mul(labels) => "matrix",
        n => {
            let expected = format!("1, {labels} or {labels} x {labels}");
            return Err(Error::shape("compatibility", format!("{n} values"), expected));
        }
    };
    cost_of(&(kind.into(), values), labels)
}
