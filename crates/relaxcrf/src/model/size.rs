//! Bytes that kernels, and arrays beside them, take: known before anything is built.

use std::sync::Arc;

use super::Model;
use super::kernel::{Grid, Kernel};
use super::pairwise::Term;
use super::plan::{FilterKind, choose};
use crate::allocation::require;
use crate::error::Result;
use relaxcrf_filter::fused::{Fused, table_bytes};
use relaxcrf_filter::lattice::{LatticeSize, layer_bytes, workspace_bytes};

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
        let filter = choose(filter, kernel, sizes);
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
    pub(crate) fn model_bytes(&self, n: u64) -> u64 {
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
    pub(crate) fn building_bytes(&self, n: u64) -> u64 {
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

impl Problem {
    /// That of running methods on a model: what its kernels take has been taken.
    pub(crate) fn of(model: &Model) -> Self {
        let size = |term: &Arc<Term>| {
            let lattice = term.filter().fused().map(Fused::size);
            KernelSize { dims: 0, kept: 0, filter: FilterKind::Lattice, lattice }
        };
        Self {
            pixels: model.pixels(),
            labels: model.labels(),
            kernels: model.pairwise().terms().iter().map(size).collect(),
            zero_diagonal: model.has_zero_diagonal(),
        }
    }

    /// So many arrays of one number per pixel and label.
    pub(crate) fn arrays(&self, count: u64) -> u64 {
        4 * count * self.pixels as u64 * self.labels as u64
    }

    fn lattices(&self) -> impl Iterator<Item = &LatticeSize> {
        self.kernels.iter().filter_map(|k| k.lattice.as_ref())
    }

    /// Buffers of filter calls on so many channels.
    pub(crate) fn workspace_bytes(&self, channels: usize) -> u64 {
        let lattices = self.lattices().map(|l| workspace_bytes(l.rows, channels)).max().unwrap_or(0) as u64;
        let others = self.kernels.iter().any(|k| k.lattice.is_none());
        lattices + if others { 12 * self.pixels as u64 * channels as u64 } else { 0 }
    }

    /// What the loop allocates for every method: the beliefs; the best labelling, the last one and a new one, and
    /// evaluating it.
    pub(crate) fn loop_bytes(&self) -> u64 {
        self.arrays(1) + self.pixels as u64 * 20 + self.workspace_bytes(self.labels) + (1 << 18)
    }

    /// The tables of fused passes, or the stored product where some kernel is no lattice.
    pub(crate) fn fused_table_bytes(&self) -> u64 {
        let swept = self.kernels.iter().all(|k| k.lattice.is_some()) && self.labels > 1;
        let rows: Vec<usize> = self.lattices().map(|l| l.rows).collect();
        if swept { table_bytes(&rows, self.labels) as u64 } else { self.arrays(1) }
    }

    /// Converged blocks of fused passes: what they splat, a change per vertex, and (in place of next beliefs) the
    /// energies of the labels that have not been dropped.
    pub(crate) fn skipped_block_bytes(&self) -> u64 {
        let padded = self.labels.next_multiple_of(8) as u64;
        let rows: u64 = self.lattices().map(|l| l.rows as u64).sum();
        4 * rows * (padded + 1) + 4 * self.pixels as u64 * (padded - self.labels as u64 + 2)
    }

    /// Ordered sums over cuts by bins, column by column.
    pub(crate) fn column_bytes(&self) -> u64 {
        16 * self.pixels as u64 + self.workspace_bytes(32)
    }

    /// Softened ordered sums over cuts by layers, column by column.
    pub(crate) fn layer_bytes(&self) -> u64 {
        let layers = self.lattices().map(|l| layer_bytes(l.rows)).max().unwrap_or(0) as u64;
        16 * self.pixels as u64 + self.workspace_bytes(16).max(layers)
    }

    /// The kernels of a model, and the most while they are built.
    pub(crate) fn kernel_bytes(&self) -> u64 {
        let n = self.pixels as u64;
        let most_building = self.kernels.iter().map(|k| k.building_bytes(n)).max().unwrap_or(0);
        self.kernels.iter().map(|k| k.model_bytes(n)).sum::<u64>() + most_building
    }
}

/// Fails if there is no memory for kernels, of which lattices of photographs are assumed.
pub(crate) fn require_for_kernels<'k>(
    grid: &Grid,
    kernels: impl Iterator<Item = &'k Kernel>,
    filter: FilterKind,
) -> Result<()> {
    let points = grid.sizes.iter().product::<usize>();
    let (mut kept, mut building) = (0, 0);
    for kernel in kernels {
        let (_, dims) = kernel.lay_out_some(grid, 0..points.min(1))?;
        let size = KernelSize::guess(points, dims, 0, choose(filter, kernel, &grid.sizes));
        building = building.max(kept + size.model_bytes(points as u64) + size.building_bytes(points as u64));
        kept += size.model_bytes(points as u64);
    }
    require("memory for the kernels", building)
}
