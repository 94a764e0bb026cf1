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

use crate::error::{Error, Result};
use crate::model::{FilterKind, Grid, Kernel, Model, Term, choose_filter};
use crate::solve::{MOST_OPEN, Method, Pipeline};
use relaxcrf_filter::Lattice;
use relaxcrf_filter::lattice::{LatticeSize, layer_bytes, scratch_bytes, sweep_bytes};

/// One kernel, as far as memory is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSize {
    /// Dimension of its features.
    pub dims: usize,
    /// Values per pixel that it keeps besides the features: an image's channels, or the features as they were given.
    pub kept: usize,
    /// Its filter; never `Auto`.
    pub filter: FilterKind,
    /// Its lattice, if it has one.
    pub lattice: Option<LatticeSize>,
}

impl KernelSize {
    /// For a kernel on a grid, with the lattice's vertices counted.
    pub fn measure(kernel: &Kernel, sizes: &[usize], filter: FilterKind) -> Result<Self> {
        let points: usize = sizes.iter().product();
        let grid = Grid::whole(sizes);
        let (first, dims) = kernel.lay_out_some(&grid, 0..points.min(1))?;
        drop(first);
        let filter = choose_filter(filter, kernel, sizes);
        let lattice = match filter {
            FilterKind::Exact | FilterKind::Separable => None,
            _ => {
                // Whatever could be wrong with the kernel was found above.
                let rows = |some| kernel.lay_out_some(&grid, some).map(|(rows, _)| rows).unwrap_or_default();
                Some(LatticeSize::measure(points, dims, rows)?)
            }
        };
        Ok(Self { dims, kept: kernel.values_kept(points), filter, lattice })
    }

    /// For an image that has not been read: a lattice with as many vertices as photographs have them, one for every
    /// four pixels at most. Noise and very narrow kernels have more.
    pub fn guess(points: usize, dims: usize, kept: usize, filter: FilterKind) -> Self {
        let lattice = match filter {
            FilterKind::Exact | FilterKind::Separable => None,
            _ => Some(LatticeSize { points, dims, vertices: points / 4, rows: points / 3, runs: points / 2 }),
        };
        Self { dims, kept, filter, lattice }
    }

    /// Kept as long as the model.
    fn model_bytes(&self, n: u64) -> u64 {
        let (d, m) = (self.dims as u64, self.dims as u64 + 1);
        // Features, scalings of both sides, and what the kernel was given.
        let common = n * 4 * (d + 2 + self.kept as u64);
        common
            + match (self.filter, self.lattice) {
                (FilterKind::Exact, _) => n * 4 * (d + 2),
                (_, None) => 0,
                (_, Some(lattice)) => {
                    let (v, copies) = (lattice.vertices as u64, (lattice.rows - lattice.vertices) as u64);
                    // The lists of runs start with room for half of the points and double when that is used up.
                    let runs = if 2 * lattice.runs as u64 <= n { n / 2 } else { n };
                    n * 4 * m + runs * (4 * m + 1) + n + n / 16 + 12 * copies + m * v * 6
                }
            }
    }

    /// Beyond that while it is built.
    fn building_bytes(&self, n: u64) -> u64 {
        let m = self.dims as u64 + 1;
        let laying_out = n * 4 * self.dims as u64;
        let Some(lattice) = self.lattice else { return laying_out };
        let (v, rows) = (lattice.vertices as u64, lattice.rows as u64);
        // Hash tables of all bands, the keys in them, and the memory for simplices seen.
        let bands = 8 * (2 * n).max(6 * rows) + 16 * rows + (n >> 14).clamp(1, 16) * (128 << 10);
        // The common table, its keys, and the numbers that the bands' vertices get in it.
        let numbering = 16 * 4 * rows + 16 * v + 8 * v + 8 * rows + 8 * (rows - v);
        let chains = m * v * 9;
        let sums = n * 8 + 8 * rows;
        laying_out.max(bands).max(numbering + chains).max(sums)
    }
}

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
            let lattice = term.filter().as_lattice().map(Lattice::size);
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
        let lattices = self.lattices().map(|l| scratch_bytes(l.rows, channels)).max().unwrap_or(0) as u64;
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
            if swept { sweep_bytes(&rows, labels) as u64 } else { self.row_bytes() }
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

/// What is not worth asking for beforehand. (Also, an allocator may keep smaller blocks that it is given back.)
const SMALL: u64 = 64 << 20;

/// Small things that come with large ones, and what allocators set aside for each thread.
const HEADROOM: u64 = 24 << 20;

/// Fails if the system does not give as much, and a little more for small things: an error, where the first allocation that
/// fails later would end the process.
pub fn require(what: &str, bytes: u64) -> Result<()> {
    if is_given(bytes) {
        return Ok(());
    }
    let got = format!("{} MiB", bytes.saturating_add(HEADROOM).div_ceil(1 << 20));
    Err(Error::value(what, got, "no more than the system gives (a smaller problem, tiles, a higher limit?)"))
}

/// Whether the system has so much to give, and a little more. Memory that is asked for is given back at once, and none of it
/// is touched.
pub fn is_given(bytes: u64) -> bool {
    let size = bytes.saturating_add(HEADROOM);
    // The allocator may hold more than the limit leaves: only asking tells.
    let doubtful = left_by_limit().is_some_and(|left| left < size);
    if bytes < SMALL && !doubtful {
        return true;
    }
    let mut room: Vec<u8> = Vec::new();
    let given = usize::try_from(size).is_ok_and(|n| room.try_reserve_exact(n).is_ok());
    // Nobody uses it, which must not be a reason to leave the question out.
    std::hint::black_box(&room);
    given
}

/// Bytes of address space that a limit (`ulimit -v`) leaves to the process; none without a limit.
#[cfg(target_os = "linux")]
fn left_by_limit() -> Option<u64> {
    let most = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').next()?.parse::<u64>().ok()?;
    Some(most.saturating_sub(pages * rustix::param::page_size() as u64))
}

/// Other systems do not say.
#[cfg(not(target_os = "linux"))]
fn left_by_limit() -> Option<u64> {
    None
}

/// Fails if there is no memory for kernels, of which lattices of photographs are assumed.
pub(crate) fn require_for_kernels(grid: &Grid, kernels: &[Kernel], filter: FilterKind) -> Result<()> {
    let points = grid.sizes.iter().product::<usize>();
    let (mut kept, mut building) = (0, 0);
    for kernel in kernels {
        let (_, dims) = kernel.lay_out_some(grid, 0..points.min(1))?;
        let size = KernelSize::guess(points, dims, 0, choose_filter(filter, kernel, &grid.sizes));
        building = building.max(kept + size.model_bytes(points as u64) + size.building_bytes(points as u64));
        kept += size.model_bytes(points as u64);
    }
    require("memory for the kernels", building)
}

/// Fails if there is no memory for methods.
pub(crate) fn require_for_methods(model: &Model, methods: &Pipeline) -> Result<()> {
    require("memory for the method", Problem::of(model).wanted(methods))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_system_gives_is_refused() {
        // More than a processor of today can address.
        let error = require("memory for a test", 1 << 60).unwrap_err().to_string();
        // With the headroom, which is asked for as well.
        assert!(error.starts_with("memory for a test is 1099511627800 MiB, but must be"), "{error}");
        assert!(require("memory for a test", SMALL).is_ok());
        assert!(require("memory for a test", u64::MAX).is_err());
    }
}
