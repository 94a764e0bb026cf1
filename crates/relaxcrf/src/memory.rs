//! How much memory a problem takes, known before any of it is taken.
//!
//! The numbers are upper bounds for what the library itself allocates at the same time: a test measures every method
//! against them and finds them at most twice too large (`smooth-lp` and `exact`, which may not need all that they can use,
//! three times). What they depend on besides sizes is the number of lattice
//! vertices, which is the image's affair: [`KernelSize::measure`] counts them in a fraction of the time and memory that
//! building the lattice takes, and [`KernelSize::guess`] stands in where there is no image yet.
//!
//! ```
//! use relaxcrf::memory::{KernelSize, Problem};
//! use relaxcrf::model::{Features, FilterKind, Kernel};
//! # fn main() -> relaxcrf::Result<()> {
//! let kernel = Kernel { features: Features::Position { sigma: vec![3.0] }, weight: 1.5 };
//! let sizes = [480, 640];
//! let kernels = vec![KernelSize::measure(&kernel, &sizes, FilterKind::Auto)?];
//! let problem = Problem { pixels: 480 * 640, labels: 21, kernels, zero_diagonal: true };
//! let needed = problem.estimate(&"qp+dc-neg".parse()?);
//! assert!(needed.peak() > 100 << 20 && needed.peak() < 400 << 20);
//! # Ok(())
//! # }
//! ```

pub use crate::allocation::{is_given, require};
use crate::error::Result;
use crate::methods::Pipeline;
use crate::model::Model;
pub use crate::model::{KernelSize, Problem};

/// Bytes, each an upper bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Estimate {
    /// What the model keeps.
    pub model: u64,
    /// The most while it is built, itself included.
    pub building: u64,
    /// What a run takes beside the model.
    pub solving: u64,
}

impl Estimate {
    /// The most at any time.
    pub fn peak(&self) -> u64 {
        self.building.max(self.model + self.solving)
    }
}

impl Problem {
    /// What should be free before these methods are run: more than any of them has been seen to take, where the estimate
    /// allows for what hardly ever comes together.
    pub fn needed(&self, methods: &Pipeline) -> u64 {
        methods.stages().iter().map(|m| m.typical_bytes(self)).max().unwrap_or(0)
    }

    /// What building the model and running these methods takes.
    pub fn estimate(&self, methods: &Pipeline) -> Estimate {
        let n = self.pixels as u64;
        let unary = self.arrays(1) * if self.zero_diagonal { 1 } else { 2 };
        let (mut kept, mut building) = (unary + 12 * n, 0);
        for kernel in &self.kernels {
            building = building.max(kept + kernel.model_bytes(n) + kernel.building_bytes(n));
            kept += kernel.model_bytes(n);
        }
        let solving = methods.stages().iter().map(|m| m.bytes(self)).max().unwrap_or(0);
        Estimate { model: kept, building: building.max(kept), solving }
    }
}

/// Fails if there is no memory for methods.
pub(crate) fn require_for_methods(model: &Model, methods: &Pipeline) -> Result<()> {
    require("memory for the method", Problem::of(model).needed(methods))
}
