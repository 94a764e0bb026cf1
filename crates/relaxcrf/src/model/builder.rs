//! From parts to a model: every check of sizes and values happens here, before any work.

use std::sync::Arc;

use rayon::prelude::*;

use super::compatibility::Compatibility;
use super::coupling::Coupling;
use super::kernel::{Features, Grid, Kernel};
use super::kernel_cost::KernelOptions;
use super::learned::Learned;
use super::normalization::Normalization;
use super::pairwise::{Term, TermPlan};
use super::plan::FilterKind;
use super::size::require_for_kernels;
use super::{Model, unary};
use crate::error::{Error, Result};
use crate::labeling::MAX_LABELS;
use relaxcrf_filter::reduce;

/// Sampled points of a calibration: enough for a fraction of a percent on the mean.
const CALIBRATION_SAMPLES: usize = 200;

/// Collects the parts of a [`Model`].
#[derive(Debug, Clone)]
pub struct ModelBuilder {
    grid: Grid,
    labels: usize,
    unary: Option<Vec<f32>>,
    kernels: Vec<(Kernel, KernelOptions)>,
    compatibility: Option<Compatibility>,
    filter: FilterKind,
    normalization: Normalization,
    calibrate: Option<u64>,
    self_pairs: bool,
    learned: Option<Learned>,
}

impl ModelBuilder {
    /// A problem on an image.
    pub fn image(width: usize, height: usize, labels: usize) -> Self {
        Self::grid(&[height, width], labels)
    }

    /// A problem on a grid of any dimension; sizes with the slowest axis first, such as depth, height, width.
    pub fn grid(sizes: &[usize], labels: usize) -> Self {
        Self {
            grid: Grid::whole(sizes),
            labels,
            unary: None,
            kernels: Vec::new(),
            compatibility: None,
            filter: FilterKind::default(),
            normalization: Normalization::default(),
            calibrate: None,
            self_pairs: false,
            learned: None,
        }
    }

    /// A problem on points without a grid; give their features with [`ModelBuilder::features`].
    pub fn points(count: usize, labels: usize) -> Self {
        Self::grid(&[count], labels)
    }

    /// Says that the grid is a window of a larger one, and where it begins there (slowest axis first).
    ///
    /// Kernels then see the positions in the whole, and get the filter that the whole would: models of
    /// neighbouring or overlapping windows are pieces of the same operator, up to what is cut off at their rims.
    pub fn window(mut self, origin: &[usize], whole: &[usize]) -> Self {
        (self.grid.origin, self.grid.whole) = (origin.to_vec(), whole.to_vec());
        self
    }

    /// Unary energies, one row of L per pixel; `f32::INFINITY` forbids a label.
    /// [`unary`](super::unary) makes them from probabilities, scores or labels.
    pub fn unary(mut self, rows: Vec<f32>) -> Self {
        self.unary = Some(rows);
        self
    }

    /// Unary energies from probability rows, clipped at [`unary::DEFAULT_FLOOR`].
    pub fn probabilities(self, rows: &[f32]) -> Result<Self> {
        let energies = unary::from_probabilities(rows, self.labels, unary::DEFAULT_FLOOR)?;
        Ok(self.unary(energies))
    }

    /// Adds a kernel on position with one standard deviation (in pixels) for all axes.
    pub fn gaussian(self, sigma: f32, weight: f32) -> Self {
        self.kernel(Kernel { features: Features::Position { sigma: vec![sigma] }, weight })
    }

    /// Adds a kernel on position and image values: one row of any number of channels per pixel.
    pub fn bilateral(self, image: Vec<f32>, sigma: f32, sigma_color: f32, weight: f32) -> Self {
        let features = Features::Bilateral { sigma: vec![sigma], image, sigma_color: vec![sigma_color] };
        self.kernel(Kernel { features, weight })
    }

    /// Adds a kernel on any features: one row of `dims` per point, already divided by standard deviations.
    pub fn features(self, rows: Vec<f32>, dims: usize, weight: f32) -> Self {
        self.kernel(Kernel { features: Features::Given { rows, dims }, weight })
    }

    /// Adds a kernel in full generality.
    pub fn kernel(self, kernel: Kernel) -> Self {
        self.kernel_with(kernel, KernelOptions::default())
    }

    /// Adds a kernel with a label cost or a normalisation of its own.
    ///
    /// Energies, `mf`, `qp` and `dc-gen` take any label costs of kernels. Costs that are multiples of one another, such as
    /// Potts costs of different strength, count as weights, and every method takes them.
    pub fn kernel_with(mut self, kernel: Kernel, options: KernelOptions) -> Self {
        self.kernels.push((kernel, options));
        self
    }

    /// Counts every pixel as its own neighbour in energies and messages, as the common code does. This changes nothing
    /// where equal labels cost nothing.
    pub fn count_self_pairs(mut self) -> Self {
        self.self_pairs = true;
        self
    }

    /// Label compatibilities; Potts unless told otherwise.
    pub fn compatibility(mut self, compatibility: Compatibility) -> Self {
        self.compatibility = Some(compatibility);
        self
    }

    /// Which filter stands behind the kernels.
    pub fn filter(mut self, kind: FilterKind) -> Self {
        self.filter = kind;
        self
    }

    /// How kernels are normalised; symmetrically unless told otherwise.
    pub fn normalization(mut self, normalization: Normalization) -> Self {
        self.normalization = normalization;
        self
    }

    /// Measures each filter against the true Gaussian sum on points sampled with this seed, and (without
    /// normalisation) scales it to match on average.
    pub fn calibrate(mut self, seed: u64) -> Self {
        self.calibrate = Some(seed);
        self
    }

    /// Applies what a preset has learned about unary energies, and its label costs where none are given.
    pub fn learned(mut self, learned: Option<Learned>) -> Self {
        self.learned = learned;
        self
    }

    /// Checks everything and builds the filters.
    pub fn build(self) -> Result<Model> {
        let sizes = self.grid.sizes.clone();
        let pixels = sizes.iter().try_fold(1usize, |n, &s| n.checked_mul(s)).unwrap_or(0);
        if pixels == 0 || pixels > u32::MAX as usize {
            let sizes = sizes.iter().map(usize::to_string).collect::<Vec<_>>().join(" x ");
            return Err(Error::value("grid size", sizes, "at least one pixel and at most 2^32 - 1"));
        }
        self.grid.check()?;
        check_label_count(self.labels)?;
        let mut unary = self.unary.ok_or_else(|| {
            Error::shape("unary energies", "no values", format!("{pixels} rows of {}", self.labels))
        })?;
        check_unary(&unary, pixels, self.labels)?;
        let mut compatibility = self.compatibility.unwrap_or_else(|| Compatibility::potts(self.labels));
        if let Some(learned) = &self.learned {
            learned.adjust(&mut unary, self.labels)?;
            check_unary(&unary, pixels, self.labels)?;
            if compatibility.is_potts() && !learned.label_costs.is_empty() {
                compatibility = Compatibility::per_label(learned.label_costs.clone())?;
            }
        }
        if compatibility.labels() != self.labels {
            return Err(Error::shape(
                "label compatibility",
                format!("{} labels", compatibility.labels()),
                format!("the model's {}", self.labels),
            ));
        }
        require_for_kernels(&self.grid, self.kernels.iter().map(|k| &k.0), self.filter)?;
        let calibrated = self.calibrate.map(|seed| (CALIBRATION_SAMPLES, seed));
        let plan = TermPlan { filter: self.filter, normalization: self.normalization, calibrated };
        let terms = self.kernels.into_iter().map(|(kernel, options)| {
            options.cost.check(self.labels)?;
            Ok(Arc::new(Term::new(&self.grid, kernel, options, plan)?))
        });
        let terms = terms.collect::<Result<_>>()?;
        let coupling = Coupling::new(self.grid, terms, plan, compatibility, self.self_pairs)?;
        Ok(Model::assemble(unary, coupling))
    }
}

fn check_label_count(labels: usize) -> Result<()> {
    if labels == 0 || labels > MAX_LABELS {
        return Err(Error::value("number of labels", labels, format!("1 to {MAX_LABELS}")));
    }
    Ok(())
}

/// Fails unless `rows` holds a usable row of energies for every pixel.
pub(super) fn check_unary(rows: &[f32], pixels: usize, labels: usize) -> Result<()> {
    check_label_count(labels)?;
    if Some(rows.len()) != pixels.checked_mul(labels) {
        return Err(Error::Shape {
            what: "unary energies".into(),
            got: format!("{} values", rows.len()),
            expected: format!(
                "{pixels} pixels x {labels} labels = {} values",
                pixels as u128 * labels as u128
            ),
            fix: "do image and energies have the same width and height?".into(),
        });
    }
    // Energies beyond this would overflow when they are added up or compared with stand-ins for infinity.
    const LARGEST: f32 = 1e36;
    // Without an early exit, which makes it vector code: nearly always there is nothing to look for.
    if rows.par_chunks(reduce::CHUNK).all(|rows| rows.iter().fold(true, |all, e| all & (e.abs() <= LARGEST)))
    {
        return Ok(());
    }
    let place = |at: usize| format!("pixel {}, label {}", at / labels, at % labels);
    if let Some(at) = rows.iter().position(|e| e.is_nan() || *e == f32::NEG_INFINITY) {
        return Err(Error::Element {
            what: "unary energies".into(),
            got: rows[at].to_string(),
            place: place(at),
            expected: "numbers, or +inf for a forbidden label".into(),
            fix: "a probability of NaN, or the log of a negative number?".into(),
        });
    }
    if let Some(at) = rows.iter().position(|e| e.is_finite() && e.abs() > LARGEST) {
        return Err(Error::Element {
            what: "unary energies".into(),
            got: rows[at].to_string(),
            place: place(at),
            expected: format!("numbers of at most {LARGEST:e}, or +inf for a forbidden label"),
            fix: "use +inf for a forbidden label".into(),
        });
    }
    match rows.chunks_exact(labels).position(|row| row.iter().all(|&e| e == f32::INFINITY)) {
        None => Ok(()),
        Some(a) => Err(Error::Element {
            what: "unary energies".into(),
            got: "+inf for every label".into(),
            place: format!("pixel {a}"),
            expected: "at least one label that is not forbidden".into(),
            fix: String::new(),
        }),
    }
}
