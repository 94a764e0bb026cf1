//! `solve`: the work on the pool, the caller's thread free for callbacks and signals.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use relaxcrf::Beliefs;
use relaxcrf::solve::{Pipeline, Progress, Settings, Solve};

use crate::arrays::{Rows, to_array_of_rows, to_rows};
use crate::errors::{ArgumentError, exception};
use crate::model::Model;
use crate::pool::{self, SIGNAL_INTERVAL, Threads};

/// Runs a method. Returns what it found and, if a callback or a signal ended it, the exception.
#[pyfunction]
#[pyo3(signature = (
    model, method, init=None, max_iter=None, tol=None, time_limit=None, until_gap=None, seed=0, threads=None,
    callback=None, roundings=None
))]
pub fn solve<'py>(
    py: Python<'py>,
    model: &Bound<'py, Model>,
    method: &str,
    init: Option<Rows>,
    max_iter: Option<usize>,
    tol: Option<f64>,
    time_limit: Option<f64>,
    until_gap: Option<f64>,
    seed: u64,
    threads: Option<Threads>,
    callback: Option<Py<PyAny>>,
    roundings: Option<usize>,
) -> PyResult<(Bound<'py, PyDict>, Option<PyErr>)> {
    let pipeline = method.parse::<Pipeline>().map_err(exception)?;
    let settings = Settings {
        max_iterations: max_iter,
        tolerance: tol,
        time_limit: time_limit.map(duration).transpose()?,
        until_gap,
        seed,
        roundings: roundings.unwrap_or(Settings::default().roundings),
        ..Settings::default()
    };
    let inner = model.get().inner.clone();
    let labels = inner.labels();
    let init = match &init {
        Some(rows) => {
            let rows = rows.as_array();
            Some(pool::run(py, threads, || Beliefs::new(to_rows(rows)?, labels))?)
        }
        None => None,
    };
    let asked = callback.is_some();
    let stop = Arc::new(AtomicBool::new(false));
    let (tell, told) = channel::<Progress>();
    let (answer, answered) = channel::<()>();

    let (chain, stopped) = (pipeline.clone(), Arc::clone(&stop));
    // The channel's end moves in with the rest, so that it closes when the work ends, however it ends.
    let work = move || {
        Solve::new(&inner)
            .method(&chain)
            .init(init)
            .settings(&settings)
            .observe(|progress| {
                if asked {
                    wait_for_answer(&tell, &answered, progress);
                }
                if stopped.load(Ordering::Relaxed) {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })
            .run()
    };
    let meanwhile = move || attend(&told, &answer, &stop, callback.as_ref());
    let (solution, error) = pool::run_beside(py, threads, work, meanwhile)?;

    let result = PyDict::new(py);
    let gap = solution.gap();
    let constant = solution.constant_below();
    let trace = solution.trace.iter().map(|p| progress_tuple(py, p)).collect::<PyResult<Vec<_>>>()?;
    result.set_item("labels", PyArray1::from_vec(py, solution.labeling.into_vec()))?;
    result.set_item("probabilities", to_array_of_rows(py, solution.beliefs.into_vec(), labels)?)?;
    result.set_item("unary_energy", solution.energy.unary)?;
    result.set_item("pairwise_energy", solution.energy.pairwise)?;
    result.set_item("final_energy", solution.final_energy.total())?;
    result.set_item("best", PyArray1::from_vec(py, solution.best.labeling.into_vec()))?;
    result.set_item("best_energy", solution.best.energy.total())?;
    result.set_item("lower_bound", solution.lower_bound.as_ref().map(|b| b.value))?;
    result.set_item("bound_source", solution.lower_bound.map(|b| b.source))?;
    result.set_item("gap", gap)?;
    result.set_item("status", solution.status.to_string())?;
    result.set_item("iterations", solution.iterations)?;
    result.set_item("filter_calls", solution.counts.filter)?;
    result.set_item("ordered_calls", solution.counts.ordered)?;
    result.set_item("evaluations", solution.counts.evaluations)?;
    result.set_item("seconds", solution.seconds)?;
    result.set_item("trace", trace)?;
    result.set_item("method", pipeline.to_string())?;
    result.set_item("lower_constant", constant)?;
    Ok((result, error))
}

fn duration(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        ArgumentError::new_err(format!("time_limit is {seconds}, but must be a number of seconds, 0 or more"))
    })
}

fn progress_tuple<'py>(py: Python<'py>, p: &Progress) -> PyResult<Bound<'py, PyTuple>> {
    (
        p.stage,
        &p.method,
        p.iteration,
        p.seconds,
        p.counts.filter + p.counts.ordered,
        p.objective,
        p.energy,
        p.lower_bound,
    )
        .into_pyobject(py)
}

/// On the pool: hands the progress to the caller's thread and waits until it was seen.
fn wait_for_answer(tell: &Sender<Progress>, answered: &Receiver<()>, progress: &Progress) {
    if tell.send(progress.clone()).is_ok() {
        // An error means that the caller's thread no longer listens, which is an answer too.
        let _ = answered.recv();
    }
}

/// On the caller's thread: calls the callback after every iteration and looks for signals, which Python only
/// delivers to its main thread. Ends when the work does, or in a child that the callback forked, where no work is done;
/// returns what ended it early.
fn attend(
    told: &Receiver<Progress>,
    answer: &Sender<()>,
    stop: &AtomicBool,
    callback: Option<&Py<PyAny>>,
) -> Option<PyErr> {
    let mut error = None;
    let process = pool::this_process();
    loop {
        let progress = match told.recv_timeout(SIGNAL_INTERVAL) {
            Ok(progress) => Some(progress),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return error,
        };
        if error.is_none() {
            match Python::attach(|py| consult(py, callback, progress.as_ref())) {
                Ok(false) => {}
                Ok(true) => stop.store(true, Ordering::Relaxed),
                Err(e) => {
                    stop.store(true, Ordering::Relaxed);
                    error = Some(e);
                }
            }
        }
        if pool::this_process() != process {
            return error;
        }
        if progress.is_some() && answer.send(()).is_err() {
            return error;
        }
    }
}

/// Whether to stop.
fn consult(py: Python, callback: Option<&Py<PyAny>>, progress: Option<&Progress>) -> PyResult<bool> {
    pool::check_interrupt(py)?;
    match (callback, progress) {
        (Some(callback), Some(progress)) => {
            callback.bind(py).call1(progress_tuple(py, progress)?)?.is_truthy()
        }
        _ => Ok(false),
    }
}
