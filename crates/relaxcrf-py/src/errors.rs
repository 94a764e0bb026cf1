//! The core's errors as the exceptions of `relaxcrf.errors`.

use pyo3::PyErr;
use pyo3::import_exception;
use relaxcrf::Error;

import_exception!(relaxcrf.errors, ArgumentError);
import_exception!(relaxcrf.errors, DataError);
import_exception!(relaxcrf.errors, FilterError);
import_exception!(relaxcrf.errors, InternalError);
import_exception!(relaxcrf.errors, MethodError);
import_exception!(relaxcrf.errors, ShapeError);

/// The exception that says the same as `error`.
pub fn exception(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Shape { .. } => ShapeError::new_err(text),
        Error::Element { .. } => DataError::new_err(text),
        Error::Method { .. } => MethodError::new_err(text),
        Error::Filter { .. } => FilterError::new_err(text),
        _ => ArgumentError::new_err(text),
    }
}

/// A panic in native code: a mistake of ours, never of the caller.
pub fn internal(payload: &(dyn std::any::Any + Send)) -> PyErr {
    let what = payload
        .downcast_ref::<&str>()
        .map(ToString::to_string)
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "unknown cause".into());
    InternalError::new_err(format!(
        "relaxcrf failed inside ({what}). This is a bug in relaxcrf, not in your code: please report it with \
         the arguments of the call"
    ))
}
