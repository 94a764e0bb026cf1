//! The pairwise operator: a weighted sum of normalised kernels, as one linear map.

use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use super::kernel::{Features, Grid, Kernel};
use super::kernel_cost::KernelOptions;
use super::normalization::Normalization;
use super::plan::{self, FilterKind};
use crate::error::Result;
use relaxcrf_filter::fused::{FusedPass, FusedTerm};
use relaxcrf_filter::{
    Binned, Calibration, Direction, Layers, Operator, OrderedMode, Scaling, Workspace, binned_sums,
    calibrate, ordered, softened_sums,
};

/// One kernel with its filter and scalings.
#[derive(Debug)]
pub struct Term {
    kernel: Kernel,
    options: KernelOptions,
    normalization: Normalization,
    /// As laid out for the filter; empty if the kernel itself holds them.
    features: Vec<f32>,
    dims: usize,
    filter: Box<dyn Operator>,
    left: Option<Vec<f32>>,
    right: Option<Vec<f32>>,
    /// Weight times calibrated scale.
    gain: f32,
    calibration: Option<Calibration>,
}

impl Term {
    /// Checks a kernel and builds its filter.
    pub(super) fn new(grid: &Grid, kernel: Kernel, options: KernelOptions, plan: TermPlan) -> Result<Self> {
        let (features, dims) = kernel.lay_out(grid)?;
        let choice = plan::choose(plan.filter, &kernel, &grid.whole);
        let filter = plan::build(choice, &kernel, &features, dims, &grid.sizes)?;
        let normalization = options.normalization.unwrap_or(plan.normalization);
        let (left, right) = scalings(normalization, filter.as_ref());
        let calibration = plan
            .calibrated
            .map(|(samples, seed)| calibrate(filter.as_ref(), &features, dims, samples, seed))
            .transpose()?;
        // A normalised kernel has no scale of its own.
        let scale = match (normalization, &calibration) {
            (Normalization::None, Some(c)) => c.scale,
            _ => 1.0,
        };
        let gain = kernel.weight * scale;
        let features = if matches!(kernel.features, Features::Given { .. }) { Vec::new() } else { features };
        Ok(Self { kernel, options, normalization, features, dims, filter, left, right, gain, calibration })
    }

    /// The kernel as stated.
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// What the kernel has of its own, as stated.
    pub fn options(&self) -> &KernelOptions {
        &self.options
    }

    /// A short text such as `bilateral 80:13:10`.
    pub fn describe(&self) -> String {
        self.kernel.describe() + &self.options.cost.describe()
    }

    /// Weight times calibrated scale.
    pub(super) fn gain(&self) -> f32 {
        self.gain
    }

    /// The operator behind it.
    pub fn filter(&self) -> &dyn Operator {
        self.filter.as_ref()
    }

    /// The scale found when the model was built with calibration.
    pub fn calibration(&self) -> Option<Calibration> {
        self.calibration
    }

    /// Compares the operator's row sums with the true Gaussian sums on `samples` points.
    pub fn measure(&self, samples: usize, seed: u64) -> Result<Calibration> {
        Ok(calibrate(self.filter.as_ref(), self.features(), self.dims, samples, seed)?)
    }

    /// One row of features per point.
    fn features(&self) -> &[f32] {
        match &self.kernel.features {
            Features::Given { rows, .. } => rows,
            _ => &self.features,
        }
    }

    /// An upper bound on the row sums of the scaled operator, up to rounding; infinite if none is known.
    fn row_sum_bound(&self) -> f32 {
        // With n = K·1, the largest n is that of the smallest factor.
        let factors = match self.normalization {
            Normalization::None => return f32::INFINITY,
            // Rows of n^-1/2 K n^-1/2 add up to at most sqrt(n_a / least n).
            Normalization::Symmetric | Normalization::Before => self.right.as_deref(),
            // Rows of n^-1 K add up to one.
            Normalization::After => Some(&[][..]),
        };
        let Some(factors) = factors else { return f32::INFINITY };
        let range = |(least, most): (f32, f32), &f: &f32| (least.min(f), most.max(f));
        let (least, most) = factors.iter().fold((f32::INFINITY, 0.0f32), range);
        let bound = self.gain * if factors.is_empty() { 1.0 } else { most / least };
        if bound.is_finite() && factors.iter().all(|f| *f > 0.0 && f.is_finite()) {
            bound
        } else {
            f32::INFINITY
        }
    }

    /// The scalings round the filter, with a factor of the weight.
    fn scaling(&self, direction: Direction, factor: f32, add: bool) -> Scaling<'_> {
        let (left, right) = (self.left.as_deref(), self.right.as_deref());
        let gain = self.gain * factor;
        match direction {
            Direction::Forward => Scaling { left, right, gain, add },
            Direction::Transposed => Scaling { left: right, right: left, gain, add },
        }
    }
}

/// How the filter of a kernel is built.
#[derive(Debug, Clone, Copy)]
pub(super) struct TermPlan {
    pub filter: FilterKind,
    /// Of kernels without a normalisation of their own.
    pub normalization: Normalization,
    /// Number of sampled points and seed of a calibration.
    pub calibrated: Option<(usize, u64)>,
}

/// `K = Σ_m w_m K_m`, self pairs included.
#[derive(Debug)]
pub struct Pairwise {
    grid: Grid,
    points: usize,
    terms: Vec<Arc<Term>>,
    /// One factor of each kernel's weight, from its label cost.
    factors: Vec<f32>,
    /// Computed when first needed, like the diagonal.
    row_sums: OnceLock<Vec<f32>>,
    diagonal: OnceLock<Vec<f32>>,
    symmetric: bool,
    normalization: Normalization,
}

impl Pairwise {
    /// The sum of kernels with these factors of their weights.
    pub(super) fn new(
        grid: Grid,
        terms: Vec<Arc<Term>>,
        factors: Vec<f32>,
        normalization: Normalization,
    ) -> Self {
        let points = grid.sizes.iter().product();
        let symmetric = terms.iter().all(|t| {
            matches!(t.normalization, Normalization::None | Normalization::Symmetric)
                && t.filter.is_symmetric()
        });
        let (row_sums, diagonal) = (OnceLock::new(), OnceLock::new());
        Self { grid, points, terms, factors, row_sums, diagonal, symmetric, normalization }
    }

    /// Every kernel with its factor.
    fn scaled_terms(&self) -> impl Iterator<Item = (&Term, f32)> {
        self.terms.iter().map(Arc::as_ref).zip(self.factors.iter().copied())
    }

    /// The operator between some of the points: every entry is between zero and the whole operator's, to which it is close
    /// where the points lie together. `None` where that would be no faster.
    pub(super) fn among(&self, points: &[usize]) -> Option<Self> {
        let subset: Vec<u32> = points.iter().map(|&a| a as u32).collect();
        let term = |t: &Arc<Term>| {
            let rows: Vec<f32> =
                points.iter().flat_map(|&a| &t.features()[a * t.dims..(a + 1) * t.dims]).copied().collect();
            let some =
                |all: &Option<Vec<f32>>| all.as_ref().map(|all| points.iter().map(|&a| all[a]).collect());
            Some(Arc::new(Term {
                filter: t.filter.subset(&subset)?,
                kernel: Kernel { features: Features::Given { rows, dims: t.dims }, weight: t.kernel.weight },
                options: t.options.clone(),
                normalization: t.normalization,
                features: Vec::new(),
                dims: t.dims,
                left: some(&t.left),
                right: some(&t.right),
                gain: t.gain,
                calibration: None,
            }))
        };
        let terms = self.terms.iter().map(term).collect::<Option<_>>()?;
        let grid = Grid::whole(&[points.len()]);
        Some(Self::new(grid, terms, self.factors.clone(), self.normalization))
    }

    fn find_row_sums(&self) -> Vec<f32> {
        let mut sums = vec![0.0; self.points];
        self.apply(Direction::Forward, &vec![1.0; self.points], 1, &mut sums, &mut Workspace::new());
        sums
    }

    fn find_diagonal(&self) -> Vec<f32> {
        let mut sum = vec![0.0; self.points];
        for (term, factor) in self.scaled_terms() {
            let scaling = term.scaling(Direction::Forward, factor, false);
            sum.par_iter_mut().zip(term.filter.diagonal()).enumerate().for_each(|(a, (s, k))| {
                *s += scaling.out(a) * k * scaling.input(a);
            });
        }
        sum
    }

    /// The pixels.
    pub(super) fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Number of points.
    pub fn points(&self) -> usize {
        self.points
    }

    /// The kernels.
    pub fn terms(&self) -> &[Arc<Term>] {
        &self.terms
    }

    /// The same kernels and one more, or with other factors of their weights.
    pub(super) fn with_terms(&self, terms: Vec<Arc<Term>>, factors: Vec<f32>) -> Self {
        Self::new(self.grid.clone(), terms, factors, self.normalization)
    }

    /// K·1.
    pub fn row_sums(&self) -> &[f32] {
        computed_once(&self.row_sums, || self.find_row_sums())
    }

    /// An upper bound on all row sums, up to rounding, that needs no filter call. Infinite where none is known.
    pub(super) fn row_sum_bound(&self) -> f32 {
        self.scaled_terms().map(|(term, factor)| factor * term.row_sum_bound()).sum()
    }

    /// K_aa, in closed form: never below the true diagonal.
    pub fn diagonal(&self) -> &[f32] {
        computed_once(&self.diagonal, || self.find_diagonal())
    }

    /// Whether K = K'.
    pub fn is_symmetric(&self) -> bool {
        self.symmetric
    }

    /// At least the sum of K over all pairs, found without a filter call where kernels are normalised: their rows or
    /// columns then sum to one, or `Σ_ab K_ab / √(n_a n_b) ≤ Σ_ab K_ab (1/n_a + 1/n_b) / 2 = N`.
    pub(crate) fn weight_of_all_pairs(&self) -> f64 {
        if self.terms.iter().any(|t| t.normalization == Normalization::None) {
            return f64::INFINITY;
        }
        let gains = self.scaled_terms().map(|(t, factor)| f64::from(t.gain * factor));
        // A little more, for rounding.
        1.001 * self.points as f64 * gains.sum::<f64>()
    }

    /// How kernels are normalised that have no normalisation of their own.
    pub fn normalization(&self) -> Normalization {
        self.normalization
    }

    /// `out = K x` on `channels` values per point.
    pub fn apply(
        &self,
        direction: Direction,
        x: &[f32],
        channels: usize,
        out: &mut [f32],
        scratch: &mut Workspace,
    ) {
        if self.terms.is_empty() {
            out.fill(0.0);
        }
        for (m, (term, factor)) in self.scaled_terms().enumerate() {
            term.filter.apply(direction, x, channels, term.scaling(direction, factor, m > 0), out, scratch);
        }
    }

    /// `out = K_m x` for one kernel.
    pub(super) fn apply_term(
        &self,
        m: usize,
        x: &[f32],
        channels: usize,
        out: &mut [f32],
        scratch: &mut Workspace,
    ) {
        let scaling = self.terms[m].scaling(Direction::Forward, self.factors[m], false);
        self.terms[m].filter.apply(Direction::Forward, x, channels, scaling, out, scratch);
    }

    /// `out = K_m x` for one kernel with its weight as stated, without the factor of its label cost.
    pub(super) fn apply_stated_term(
        &self,
        m: usize,
        x: &[f32],
        channels: usize,
        out: &mut [f32],
        scratch: &mut Workspace,
    ) {
        let scaling = self.terms[m].scaling(Direction::Forward, 1.0, false);
        self.terms[m].filter.apply(Direction::Forward, x, channels, scaling, out, scratch);
    }

    /// [`Pairwise::apply_binned`] for one kernel.
    pub(super) fn apply_binned_term(
        &self,
        m: usize,
        binned: Binned,
        out: &mut [f32],
        scratch: &mut Workspace,
    ) {
        let scaling = self.terms[m].scaling(Direction::Forward, self.factors[m], false);
        binned_sums(self.terms[m].filter.as_ref(), binned, scaling, out, scratch);
    }

    /// The diagonal of one kernel.
    pub(super) fn term_diagonal(&self, m: usize) -> Vec<f32> {
        let scaling = self.terms[m].scaling(Direction::Forward, self.factors[m], false);
        let diagonal = self.terms[m].filter.diagonal().into_iter().enumerate();
        diagonal.map(|(a, k)| scaling.out(a) * k * scaling.input(a)).collect()
    }

    /// The operator as a sweep over `channels` values per point, if all kernels are lattices.
    pub fn sweep(&self, channels: usize) -> Option<FusedPass<'_>> {
        FusedPass::new(self.sweep_terms()?, channels)
    }

    /// The kernels as terms of a sweep, if all are lattices.
    pub(crate) fn sweep_terms(&self) -> Option<Vec<FusedTerm<'_>>> {
        self.scaled_terms()
            .map(|(t, factor)| {
                let scaling = t.scaling(Direction::Forward, factor, false);
                t.filter.fused().map(|operator| FusedTerm { operator, scaling })
            })
            .collect()
    }

    /// `out_a = Σ_b K_ab table[bin_a][bin_b]`.
    pub fn apply_binned(&self, binned: Binned, out: &mut [f32], scratch: &mut Workspace) {
        if self.terms.is_empty() {
            out.fill(0.0);
        }
        for (m, (term, factor)) in self.scaled_terms().enumerate() {
            let scaling = term.scaling(Direction::Forward, factor, m > 0);
            binned_sums(term.filter.as_ref(), binned, scaling, out, scratch);
        }
    }
}

impl Pairwise {
    /// For every channel, `out_a = Σ_{b: x_b < x_a} K_ab - Σ_{b: x_b > x_a} K_ab`.
    pub fn apply_ordered(
        &self,
        x: &[f32],
        channels: usize,
        mode: OrderedMode,
        out: &mut [f32],
        scratch: &mut Workspace,
    ) {
        if self.terms.is_empty() {
            out.fill(0.0);
        }
        for (m, (term, factor)) in self.scaled_terms().enumerate() {
            let scaling = term.scaling(Direction::Forward, factor, m > 0);
            ordered(term.filter.as_ref(), x, channels, mode, scaling, out, scratch);
        }
    }
}

impl Pairwise {
    /// For every channel, `out_a = Σ_b K_ab f(x_a, x_b)` with f the softened order over so many `cells` (see
    /// [`Layers`]): antisymmetric and within ±1.
    pub fn apply_softened(
        &self,
        x: &[f32],
        channels: usize,
        cells: usize,
        out: &mut [f32],
        scratch: &mut Workspace,
    ) {
        let mut column = vec![0.0; self.points];
        let mut result = vec![0.0; self.points];
        for c in 0..channels {
            column.iter_mut().zip(x.iter().skip(c).step_by(channels)).for_each(|(v, &x)| *v = x);
            self.softened_column(&column, cells, self.row_sums(), &mut result, scratch);
            out.iter_mut().skip(c).step_by(channels).zip(&result).for_each(|(o, &z)| *o = z);
        }
    }

    /// One channel of [`Pairwise::apply_softened`], among the points that `row_sums` adds up over: all others
    /// must have the value 0, and what is written for them means nothing.
    pub(crate) fn softened_column(
        &self,
        x: &[f32],
        cells: usize,
        row_sums: &[f32],
        out: &mut [f32],
        scratch: &mut Workspace,
    ) {
        let layers = Layers { values: x, cells };
        out.fill(0.0);
        for (term, factor) in self.scaled_terms() {
            let scaling = term.scaling(Direction::Forward, factor, true);
            softened_sums(term.filter.as_ref(), layers, scaling, out, scratch);
        }
        for ((o, &x), &d) in out.iter_mut().zip(x).zip(row_sums) {
            *o = layers.share_of_row_sum(x) * d - *o;
        }
    }
}

/// The value, computed if it is not there yet.
///
/// Computed without a lock: the work is spread over threads, and one of these may ask for the same value meanwhile.
fn computed_once(value: &OnceLock<Vec<f32>>, compute: impl FnOnce() -> Vec<f32>) -> &[f32] {
    if let Some(value) = value.get() {
        return value;
    }
    let computed = compute();
    value.get_or_init(|| computed)
}

/// The factors of each row and column. Empty rows (a kernel without neighbours cannot be, since a point
/// always sees itself) are guarded against all the same.
fn scalings(normalization: Normalization, filter: &dyn Operator) -> (Option<Vec<f32>>, Option<Vec<f32>>) {
    let sums = || filter.normalizer().into_par_iter().with_min_len(1 << 14);
    let inverse = || sums().map(|n| 1.0 / (n + 1e-20)).collect::<Vec<f32>>();
    match normalization {
        Normalization::None => (None, None),
        Normalization::Symmetric => {
            let s: Vec<f32> = sums().map(|n| 1.0 / (n + 1e-20).sqrt()).collect();
            (Some(s.clone()), Some(s))
        }
        Normalization::Before => (None, Some(inverse())),
        Normalization::After => (Some(inverse()), None),
    }
}
