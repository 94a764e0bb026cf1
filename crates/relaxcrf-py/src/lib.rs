//! The extension module `relaxcrf._core`: the core crate's types behind NumPy arrays.
//!
//! Everything here is private to the Python package, which checks shapes, knows about axes and presets, and
//! documents itself. This crate adds what only native code can do: work without the interpreter lock on a thread pool that
//! survives `fork` ([`pool`]). It holds no algorithm.

// A Python signature is a list of arguments, and these are Python's.
#![allow(clippy::too_many_arguments)]

mod arrays;
mod densecrf;
mod errors;
mod functions;
mod gradients;
mod model;
mod pool;
mod presets;
mod refine;
mod solve;
mod tiles;
mod unary;

/// Native parts of the Python package `relaxcrf`.
#[pyo3::pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::densecrf::DenseCrf;
    #[pymodule_export]
    use crate::functions::{filter, methods, preferred_filter, stereo_unary, version};
    #[pymodule_export]
    use crate::gradients::Unrolled;
    #[pymodule_export]
    use crate::model::Model;
    #[pymodule_export]
    use crate::pool::{
        Stop, after_fork, before_exit, get_num_threads, raise_internal_error, set_num_threads,
    };
    #[pymodule_export]
    use crate::presets::{presets, read_preset};
    #[pymodule_export]
    use crate::refine::refine;
    #[pymodule_export]
    use crate::solve::solve;
    #[pymodule_export]
    use crate::tiles::{
        tile_bytes_per_pixel, tile_check_method, tile_halo, tile_samples, tile_side, tile_windows,
    };
}
