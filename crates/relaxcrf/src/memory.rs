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
use crate::methods::{Method, Pipeline};
pub use crate::model::KernelSize;
use crate::model::{FilterKind, Model, Term};
use crate::reductions::MOST_OPEN;
use relaxcrf_filter::fused::{Fused, table_bytes};
use relaxcrf_filter::lattice::{LatticeSize, layer_bytes, workspace_bytes};

/// A problem, as far as memory is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Number of pixels.
    pub pixels: usize,
    /// Number of labels.
    pub labels: usize,
    /// The kernels.
    pub kernels: Vec<KernelSize>,
    /// Whether equal labels cost nothing, as with all compatibilities but odd matrices.
    pub zero_diagonal: bool,
}

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
    /// That of running methods on a model: what its kernels take has been taken.
    pub(crate) fn of(model: &Model) -> Self {
        let size = |term: &Term| {
            let lattice = term.filter().fused().map(Fused::size);
            KernelSize { dims: 0, kept: 0, filter: FilterKind::Lattice, lattice }
        };
        Self {
            pixels: model.pixels(),
            labels: model.labels(),
            kernels: model.pairwise().terms().iter().map(size).collect(),
            zero_diagonal: model.compatibility().has_zero_diagonal(),
        }
    }

    /// What should be free before these methods are run: more than any of them has been seen to take, where the estimate
    /// allows for what hardly ever comes together.
    pub fn wanted(&self, methods: &Pipeline) -> u64 {
        let wanted = |method: &Method| {
            let percent = match method {
                Method::Unary | Method::MeanField | Method::MeanFieldUpdates(_) | Method::Qp { .. } => 100,
                Method::DcNeg | Method::DcGen | Method::Graduated(_) => 100,
                _ => 80,
            };
            self.solving(method) / 100 * percent
        };
        methods.stages().iter().map(wanted).max().unwrap_or(0)
    }

    /// What building the model and running these methods takes.
    pub fn estimate(&self, methods: &Pipeline) -> Estimate {
        let n = self.pixels as u64;
        let unary = self.row_bytes() * if self.zero_diagonal { 1 } else { 2 };
        let (mut kept, mut building) = (unary + 12 * n, 0);
        for kernel in &self.kernels {
            building = building.max(kept + kernel.model_bytes(n) + kernel.building_bytes(n));
            kept += kernel.model_bytes(n);
        }
        let solving = methods.stages().iter().map(|m| self.solving(m)).max().unwrap_or(0);
        Estimate { model: kept, building: building.max(kept), solving }
    }

    /// One number per pixel and label.
    fn row_bytes(&self) -> u64 {
        4 * self.pixels as u64 * self.labels as u64
    }

    fn lattices(&self) -> impl Iterator<Item = &LatticeSize> {
        self.kernels.iter().filter_map(|k| k.lattice.as_ref())
    }

    /// Buffers of filter calls on so many channels.
    fn scratch(&self, channels: usize) -> u64 {
        let lattices = self.lattices().map(|l| workspace_bytes(l.rows, channels)).max().unwrap_or(0) as u64;
        let others = self.kernels.iter().any(|k| k.lattice.is_none());
        lattices + if others { 12 * self.pixels as u64 * channels as u64 } else { 0 }
    }

    fn solving(&self, method: &Method) -> u64 {
        let (n, labels) = (self.pixels as u64, self.labels);
        // The beliefs; the best labelling, the last one and a new one; evaluating it.
        let common = self.row_bytes() + n * 20 + self.scratch(labels) + (1 << 18);
        let sweeps = || {
            let swept = self.kernels.iter().all(|k| k.lattice.is_some()) && labels > 1;
            let rows: Vec<usize> = self.lattices().map(|l| l.rows).collect();
            if swept { table_bytes(&rows, labels) as u64 } else { self.row_bytes() }
        };
        // Of converged blocks: what they splat, a change per vertex, and (in place of next beliefs) the energies of the
        // labels that have not been dropped.
        let skipped = || {
            let padded = labels.next_multiple_of(8) as u64;
            let rows: u64 = self.lattices().map(|l| l.rows as u64).sum();
            4 * rows * (padded + 1) + 4 * n * (padded - labels as u64 + 2)
        };
        // Sums over cuts go column by column, through bins or layers.
        let columns = 16 * n + self.scratch(32);
        let most_layers = self.lattices().map(|l| layer_bytes(l.rows)).max().unwrap_or(0) as u64;
        let layers = 16 * n + self.scratch(16).max(most_layers);
        let arrays = |count: u64| count * self.row_bytes();
        // A problem of few of the pixels beside the whole one, and its certificate in the whole one.
        let most_building = self.kernels.iter().map(|k| k.building_bytes(n)).max().unwrap_or(0);
        let built = self.kernels.iter().map(|k| k.model_bytes(n)).sum::<u64>() + most_building;
        let view = self.row_bytes() + ((10 * self.row_bytes() + built) as f64 * MOST_OPEN) as u64;
        let own = match method {
            Method::Unary => arrays(1),
            Method::MeanField => arrays(2) + sweeps(),
            Method::MeanFieldUpdates(_) => arrays(1) + sweeps() + skipped(),
            Method::Qp { .. } => arrays(4),
            Method::DcNeg => arrays(3),
            Method::DcGen => arrays(6),
            Method::Graduated(_) => arrays(5),
            Method::Lp(_) => arrays(7) + columns,
            Method::SmoothLp(_) => arrays(9) + layers + view,
            Method::ProxLp(_) => arrays(6) + columns + view,
            Method::Exact => arrays(6) + layers + view,
            Method::Expand | Method::Swap => arrays(2) + 32 * n + self.scratch(8),
            Method::TreeLp(_) => arrays(11) + columns,
            // The hungriest of what it may choose, and the beliefs that it starts from.
            Method::Auto => arrays(if labels == 2 { 8 } else { 11 }) + (layers + view).max(sweeps()),
        };
        // Small things, and the room that growing lists leave.
        (common + own) * 21 / 20
    }
}

/// Fails if there is no memory for methods.
pub(crate) fn require_for_methods(model: &Model, methods: &Pipeline) -> Result<()> {
    require("memory for the method", Problem::of(model).wanted(methods))
}
