//! `refine`: from probabilities to labels in one call.

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use numpy::{PyArray1, PyArray2};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use relaxcrf::energy::lower_constant;
use relaxcrf::model::Normalization;
use relaxcrf::solve::{MeanFieldBuffers, Pipeline, Settings, Solve, mean_field_beliefs};

use crate::arrays::to_array_of_rows;
use crate::errors::exception;
use crate::model::{Given, KernelSpec, LearnedSpec, learned_of};
use crate::pool::{self, Threads};
use crate::unary::Source;

/// Label and energy of a constant labelling, and the energy of the labels that it is below.
type Constant = (u16, f64, f64);

/// Labels, beliefs as rows, and the constant labelling that has lower energy.
type Refined<'py> = (Py<PyAny>, Bound<'py, PyArray2<f32>>, Option<Constant>);

/// Labels (8 bits where these are enough) and beliefs of a method, and the constant labelling that has lower energy, if it was
/// asked for and there is one. Mean-field updates evaluate no energies. Labels of a window of a larger grid (`place`) are the
/// most believed ones for every method, so that windows fit together.
#[pyfunction]
#[pyo3(signature = (
    unary, sizes, kernels, normalization, method, max_iter=None, place=None, find_constant=false, threads=None,
    learned=None
))]
pub fn refine<'py>(
    py: Python<'py>,
    unary: Source,
    sizes: Vec<usize>,
    kernels: Vec<KernelSpec>,
    normalization: &str,
    method: &str,
    max_iter: Option<usize>,
    place: Option<(Vec<usize>, Vec<usize>)>,
    find_constant: bool,
    threads: Option<Threads>,
    learned: Option<LearnedSpec>,
) -> PyResult<Refined<'py>> {
    let pipeline = method.parse::<Pipeline>().map_err(exception)?;
    let normalization: Normalization = normalization.parse().map_err(exception)?;
    let is_window = place.is_some();
    let given = Given {
        unary: unary.view()?,
        sizes: &sizes,
        kernels: &kernels,
        compatibility: None,
        filter: pipeline.preferred_filter(),
        normalization,
        place,
        learned: learned_of(learned),
    };
    let labels = given.unary.labels();
    let build = given.builder()?;
    let (labeling, beliefs, constant) = pool::run_until_signal(py, threads, |stop| {
        let model = build()?;
        let updates = match pipeline.stages() {
            [method] => method.updates(),
            _ => None,
        };
        let (labeling, beliefs) = if let Some(updates) = updates {
            let updates = max_iter.unwrap_or(updates);
            let beliefs = mean_field_beliefs(&model, updates, stop, &mut MeanFieldBuffers::default())?;
            (beliefs.argmax(), beliefs)
        } else {
            let settings = Settings { max_iterations: max_iter, ..Settings::default() };
            let is_stopped = || stop.load(Ordering::Relaxed);
            let observe =
                |_: &_| if is_stopped() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            let solution = Solve::new(&model).method(&pipeline).settings(&settings).observe(observe).run()?;
            let labeling = if is_window { solution.beliefs.argmax() } else { solution.labeling };
            (labeling, solution.beliefs)
        };
        let constant = if find_constant { lower_constant(&model, &labeling)? } else { None };
        Ok((labeling.into_vec(), beliefs, constant))
    })?;
    let labeling = if labels <= 1 << 8 {
        PyArray1::from_iter(py, labeling.into_iter().map(|l| l as u8)).into_py_any(py)?
    } else {
        PyArray1::from_vec(py, labeling).into_py_any(py)?
    };
    let constant = constant.map(|c| (c.label, c.energy, c.compared_with));
    Ok((labeling, to_array_of_rows(py, beliefs.into_vec(), labels)?, constant))
}
