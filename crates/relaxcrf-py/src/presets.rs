//! Named parameter sets, and those in files.

use std::path::PathBuf;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use relaxcrf::presets::{PRESETS, Preset};

use crate::errors::exception;

/// The named parameter sets.
#[pyfunction]
pub fn presets(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    PRESETS.iter().map(|preset| parts(py, preset)).collect()
}

/// The parameter set in a file.
#[pyfunction]
pub fn read_preset(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let preset = py.detach(|| relaxcrf_io::read_preset(&path)).map_err(exception)?;
    parts(py, &preset)
}

fn parts<'py>(py: Python<'py>, preset: &Preset) -> PyResult<Bound<'py, PyDict>> {
    // The shortest decimal that gives the number, not its 24 bits: 0.1 stays 0.1.
    let shortest = |v: f32| v.to_string().parse::<f64>().unwrap_or_else(|_| f64::from(v));
    let parts = PyDict::new(py);
    parts.set_item("name", preset.name.as_ref())?;
    parts.set_item("summary", preset.summary.as_ref())?;
    parts.set_item("source", preset.source.as_ref())?;
    let (sigma, weight) = preset.gaussian;
    parts.set_item("gaussian", (shortest(sigma), shortest(weight)))?;
    let (sigma_xy, sigma_rgb, weight) = preset.bilateral;
    parts.set_item("bilateral", (shortest(sigma_xy), shortest(sigma_rgb), shortest(weight)))?;
    parts.set_item("method", preset.method.as_ref())?;
    parts.set_item("normalization", preset.normalization.to_string())?;
    if let Some(learned) = &preset.learned {
        let all = |values: &[f32]| PyTuple::new(parts.py(), values.iter().map(|&v| shortest(v)));
        parts.set_item("temperature", shortest(learned.temperature))?;
        parts.set_item("bias", all(&learned.bias)?)?;
        parts.set_item("label_costs", all(&learned.label_costs)?)?;
    }
    Ok(parts)
}
