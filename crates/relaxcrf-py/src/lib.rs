//! The extension module `relaxcrf._core`: the core crate's types behind NumPy arrays.
//!
//! Everything here is private to the Python package, which checks shapes, knows about axes and presets, and
//! documents itself. What this crate adds is what only native code can do: work without the interpreter lock
//! on a thread pool that survives `fork` ([`pool`]), and the mean-field loop of the pydensecrf shim
//! ([`mean_field`]).

// A Python signature is a list of arguments, and these are Python's.
#![allow(clippy::too_many_arguments)]

mod arrays;
mod densecrf;
mod errors;
mod functions;
mod mean_field;
mod model;
mod pool;
mod solve;
mod tiles;

/// Native parts of the Python package `relaxcrf`.
#[pyo3::pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::densecrf::DenseCrf;
    #[pymodule_export]
    use crate::functions::{
        argmax, filter, methods, preferred_filter, presets, stereo_unary, unary_from_labels,
        unary_from_probabilities, unary_from_scores, version,
    };
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::pool::{
        Stop, after_fork, before_exit, get_num_threads, raise_internal_error, set_num_threads,
    };
    #[pymodule_export]
    use crate::solve::{refine, solve};
    #[pymodule_export]
    use crate::tiles::{
        tile_bytes_per_pixel, tile_check_method, tile_halo, tile_samples, tile_side, tile_windows,
    };
}
