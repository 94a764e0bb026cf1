//! Beliefs after updates, and the gradients of a function of them.

use numpy::{Element, PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use relaxcrf::Error;
use relaxcrf::model::Normalization;
use relaxcrf_learn::costs::LabelCosts;
use relaxcrf_learn::kernel::{BuildOperator, FeatureGradients, FilterChoice, Kernel};
use relaxcrf_learn::unrolled::{Gradients, Problem, Request, Senders, Tape, Updates};

use crate::arrays::check_room;
use crate::errors::exception;
use crate::pool::{self, Threads};

/// Updates until beliefs change by less than this, where gradients are those of the fixed point.
const FIXED_POINT_TOLERANCE: f64 = 1e-6;
/// Iterations of the adjoint equation of a fixed point.
const ADJOINT_ITERATIONS: usize = 500;

/// A problem in one precision, with its run.
struct State<T> {
    labels: usize,
    unary: Vec<T>,
    kernels: Vec<Kernel<T>>,
    weights: Vec<f64>,
    costs: LabelCosts,
    updates: Updates,
    tape: Tape<T>,
    /// Whether gradients are those of the fixed point.
    is_converged: bool,
    negligible_belief: f64,
}

/// What Python hands over, with its features still in arrays.
struct Parts {
    weights: Vec<f64>,
    costs: LabelCosts,
    normalization: Normalization,
    filter: FilterChoice,
    updates: Updates,
    is_converged: bool,
    negligible_belief: f64,
    memory: usize,
}

impl<T: BuildOperator> State<T> {
    fn new(
        labels: usize,
        unary: Vec<T>,
        features: Vec<(Vec<T>, usize)>,
        parts: Parts,
    ) -> relaxcrf::Result<Self> {
        let Parts { weights, costs, normalization, filter, updates, is_converged, negligible_belief, memory } =
            parts;
        let build = |(rows, dims): (Vec<T>, usize)| Kernel::new(rows, dims, filter, normalization);
        let kernels = features.into_iter().map(build).collect::<relaxcrf::Result<Vec<_>>>()?;
        let senders = senders(negligible_belief);
        let problem =
            Problem { labels, unary: &unary, kernels: &kernels, weights: &weights, costs: &costs, senders };
        // At a fixed point no earlier beliefs are needed.
        let tape = problem.run(&updates, if is_converged { 0 } else { memory })?;
        Ok(Self { labels, unary, kernels, weights, costs, updates, tape, is_converged, negligible_belief })
    }

    fn gradients(&self, of_beliefs: &[T], features: Vec<FeatureGradients>) -> relaxcrf::Result<Gradients<T>> {
        let Self { labels, unary, kernels, weights, costs, .. } = self;
        let senders = senders(self.negligible_belief);
        let problem = Problem { labels: *labels, unary, kernels, weights, costs, senders };
        let request = Request { features };
        if self.is_converged {
            let beliefs = &self.tape.beliefs;
            return problem.gradients_at_fixed_point(
                beliefs,
                of_beliefs,
                &request,
                FIXED_POINT_TOLERANCE,
                ADJOINT_ITERATIONS,
            );
        }
        problem.gradients(&self.updates, &self.tape, of_beliefs, &request)
    }
}

fn senders(negligible_belief: f64) -> Senders<'static> {
    if negligible_belief > 0.0 { Senders::Believed(negligible_belief) } else { Senders::All }
}

enum Precision {
    Single(State<f32>),
    Double(State<f64>),
}

/// A run of updates that can be differentiated.
#[pyclass(frozen, module = "relaxcrf._core")]
pub struct Unrolled {
    state: Precision,
}

/// An array of rows of either precision; the first decides for all.
#[derive(FromPyObject)]
enum Rows<'py> {
    Single(PyReadonlyArray2<'py, f32>),
    Double(PyReadonlyArray2<'py, f64>),
}

/// The rows in this precision.
fn rows_in<T: Copy>(rows: &Rows, from_single: fn(f32) -> T, from_double: fn(f64) -> T) -> (Vec<T>, usize) {
    match rows {
        Rows::Single(rows) => {
            (rows.as_array().iter().map(|&v| from_single(v)).collect(), rows.as_array().ncols())
        }
        Rows::Double(rows) => {
            (rows.as_array().iter().map(|&v| from_double(v)).collect(), rows.as_array().ncols())
        }
    }
}

fn as_array<'py, T: Element>(
    py: Python<'py>,
    rows: Vec<T>,
    width: usize,
) -> PyResult<Bound<'py, PyArray2<T>>> {
    let points = rows.len() / width.max(1);
    PyArray1::from_vec(py, rows).reshape([points, width])
}

#[pymethods]
impl Unrolled {
    #[new]
    #[pyo3(signature = (unary, features, weights, costs, normalization, filter, updates, converged, negligible_belief, memory, threads=None))]
    fn new(
        py: Python,
        unary: Rows,
        features: Vec<Rows>,
        weights: Vec<f64>,
        costs: (String, Vec<f64>),
        normalization: &str,
        filter: &str,
        updates: usize,
        converged: bool,
        negligible_belief: f64,
        memory: usize,
        threads: Option<Threads>,
    ) -> PyResult<Self> {
        let filter = match filter {
            "exact" => FilterChoice::Exact,
            "lattice" => FilterChoice::Lattice,
            "lattice-classic" => FilterChoice::LatticeClassic,
            _ => {
                return Err(exception(Error::parse(
                    "filter",
                    filter,
                    "expected exact, lattice or lattice-classic",
                )));
            }
        };
        let parts = Parts {
            weights,
            costs: match (costs.0.as_str(), costs.1) {
                ("potts", _) => LabelCosts::Potts,
                ("per-label", values) => LabelCosts::PerLabel(values),
                (_, values) => LabelCosts::Matrix(values),
            },
            normalization: normalization.parse().map_err(exception)?,
            filter,
            updates: Updates::MeanField(updates),
            is_converged: converged,
            negligible_belief,
            memory,
        };
        let state = match &unary {
            Rows::Single(_) => {
                let (rows, labels) = rows_in::<f32>(&unary, |v| v, |v| v as f32);
                let features = features.iter().map(|f| rows_in(f, |v| v, |v| v as f32)).collect();
                Precision::Single(pool::run(py, threads, move || {
                    check_room(rows.len(), 2 * parts.updates.count().min(8) + 4, "beliefs")?;
                    State::new(labels, rows, features, parts)
                })?)
            }
            Rows::Double(_) => {
                let (rows, labels) = rows_in::<f64>(&unary, f64::from, |v| v);
                let features = features.iter().map(|f| rows_in(f, f64::from, |v| v)).collect();
                Precision::Double(pool::run(py, threads, move || State::new(labels, rows, features, parts))?)
            }
        };
        Ok(Self { state })
    }

    /// The beliefs after the last update, one row per point.
    fn beliefs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match &self.state {
            Precision::Single(s) => as_array(py, s.tape.beliefs.clone(), s.labels)?.into_any(),
            Precision::Double(s) => as_array(py, s.tape.beliefs.clone(), s.labels)?.into_any(),
        })
    }

    /// The gradients of a function of the beliefs whose own gradient is given. `features` says for every kernel what is
    /// asked of its features: none, widths or rows.
    #[pyo3(signature = (of_beliefs, features, threads=None))]
    fn gradients<'py>(
        &self,
        py: Python<'py>,
        of_beliefs: Rows,
        features: Vec<String>,
        threads: Option<Threads>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let of = features
            .iter()
            .map(|f| match f.as_str() {
                "rows" => FeatureGradients::Rows,
                "widths" => FeatureGradients::Widths,
                _ => FeatureGradients::None,
            })
            .collect();
        match &self.state {
            Precision::Single(state) => {
                let (rows, _) = rows_in::<f32>(&of_beliefs, |v| v, |v| v as f32);
                let found = pool::run(py, threads, || state.gradients(&rows, of))?;
                as_dict(py, found, state)
            }
            Precision::Double(state) => {
                let (rows, _) = rows_in::<f64>(&of_beliefs, f64::from, |v| v);
                let found = pool::run(py, threads, || state.gradients(&rows, of))?;
                as_dict(py, found, state)
            }
        }
    }
}

fn as_dict<'py, T: Element + BuildOperator>(
    py: Python<'py>,
    found: Gradients<T>,
    state: &State<T>,
) -> PyResult<Bound<'py, PyDict>> {
    let result = PyDict::new(py);
    let Gradients { unary, weights, cost_entries, log_widths, features } = found;
    result.set_item("costs", as_array(py, cost_entries, state.labels)?)?;
    result.set_item("unary", as_array(py, unary, state.labels)?)?;
    result.set_item("weights", PyArray1::from_vec(py, weights))?;
    let log_widths: Vec<_> = log_widths.into_iter().map(|w| PyArray1::from_vec(py, w)).collect();
    result.set_item("log_widths", log_widths)?;
    let features =
        features.into_iter().zip(&state.kernels).map(|(rows, kernel)| as_array(py, rows, kernel.dims()));
    result.set_item("features", features.collect::<PyResult<Vec<_>>>()?)?;
    Ok(result)
}
