//! The core's model as a Python object.

use numpy::{PyArray1, PyArray2, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use relaxcrf::model::{
    Compatibility, Features, FilterKind, Kernel, KernelCost, KernelOptions, Learned, Normalization,
};
use relaxcrf::{Labeling, ModelBuilder, energy};

use crate::arrays::{Rows, Values, ValuesView, to_array_of_rows, to_rows};
use crate::errors::{ArgumentError, exception};
use crate::pool::{self, Threads};
use crate::unary::{Source, View};

/// An immutable dense CRF. Arrays are points x labels, points x channels, in any layout.
#[pyclass(frozen, module = "relaxcrf._core")]
pub struct Model {
    pub(crate) inner: relaxcrf::Model,
}

/// Kind, standard deviations (x first), values per point (image or features), their standard deviations, weight, label cost.
pub type KernelSpec<'py> = (String, Vec<f32>, Option<Values<'py>>, Vec<f32>, f32, Option<(String, Vec<f32>)>);

/// What a model is made of.
pub struct Given<'a, 'py> {
    pub unary: View<'a>,
    pub sizes: &'a [usize],
    pub kernels: &'a [KernelSpec<'py>],
    /// Potts unless given.
    pub compatibility: Option<(String, Vec<f32>)>,
    pub filter: FilterKind,
    pub normalization: Normalization,
    /// Origin and sizes of the whole, if the grid is a window of it.
    pub place: Option<(Vec<usize>, Vec<usize>)>,
    /// What a preset has learned.
    pub learned: Option<Learned>,
}

/// Temperature, bias and label costs of a learned preset.
pub type LearnedSpec = (f32, Vec<f32>, Vec<f32>);

/// The same as the core takes it.
pub fn learned_of(given: Option<LearnedSpec>) -> Option<Learned> {
    given.map(|(temperature, bias, label_costs)| Learned { temperature, bias, label_costs })
}

impl<'a> Given<'a, '_> {
    /// What builds the model without the interpreter lock: views of arrays can leave it behind, the arrays cannot.
    pub fn builder(self) -> PyResult<impl FnOnce() -> relaxcrf::Result<relaxcrf::Model> + Send + 'a> {
        let Self { unary, sizes, kernels, compatibility, filter, normalization, place, learned } = self;
        let kernels = kernels
            .iter()
            .map(|(kind, sigma, values, colors, weight, cost)| {
                let values = values.as_ref().map(Values::view);
                (kind.as_str(), sigma, values, colors, *weight, cost)
            })
            .collect::<Vec<_>>();
        if let Some(bad) = kernels.iter().find(|k| !matches!(k.0, "gaussian") && k.2.is_none()) {
            return Err(ArgumentError::new_err(format!("kernel of kind `{}` without values", bad.0)));
        }
        Ok(move || {
            let labels = unary.labels();
            let compatibility = match compatibility {
                Some(given) => compatibility_of(&given, labels)?,
                None => Compatibility::potts(labels),
            };
            let mut builder = ModelBuilder::grid(sizes, labels)
                .filter(filter)
                .normalization(normalization)
                .compatibility(compatibility)
                .learned(learned)
                .unary(unary.energies()?);
            if let Some((origin, whole)) = place {
                builder = builder.window(&origin, &whole);
            }
            for (kind, sigma, values, colors, weight, cost) in kernels {
                let features = features_of(kind, sigma, values, colors)?;
                let cost = cost.as_ref().map_or(Ok(KernelCost::Shared), |c| cost_of(c, labels))?;
                let options = KernelOptions { cost, normalization: None };
                builder = builder.kernel_with(Kernel { features, weight }, options);
            }
            builder.build()
        })
    }
}

/// What a kernel compares.
pub fn features_of(
    kind: &str,
    sigma: &[f32],
    values: Option<ValuesView>,
    colors: &[f32],
) -> relaxcrf::Result<Features> {
    let sigma = sigma.to_vec();
    Ok(match (kind, values) {
        ("bilateral", Some(v)) => {
            Features::Bilateral { sigma, image: v.rows()?, sigma_color: colors.to_vec() }
        }
        (_, Some(v)) => Features::Given { dims: v.dim().1, rows: v.rows()? },
        (_, None) => Features::Position { sigma },
    })
}

#[pymethods]
impl Model {
    #[new]
    #[pyo3(signature = (unary, sizes, kernels, compatibility, filter, normalization, threads=None, place=None, learned=None))]
    fn new(
        py: Python,
        unary: Source,
        sizes: Vec<usize>,
        kernels: Vec<KernelSpec>,
        compatibility: (String, Vec<f32>),
        filter: &str,
        normalization: &str,
        threads: Option<Threads>,
        place: Option<(Vec<usize>, Vec<usize>)>,
        learned: Option<LearnedSpec>,
    ) -> PyResult<Self> {
        let given = Given {
            unary: unary.view()?,
            sizes: &sizes,
            kernels: &kernels,
            compatibility: Some(compatibility),
            filter: filter.parse().map_err(exception)?,
            normalization: normalization.parse().map_err(exception)?,
            place,
            learned: learned_of(learned),
        };
        let build = given.builder()?;
        Ok(Self { inner: pool::run(py, threads, build)? })
    }

    /// Grid sizes, slowest axis first.
    #[getter]
    fn sizes(&self) -> Vec<usize> {
        self.inner.sizes().to_vec()
    }

    /// Number of points.
    #[getter]
    fn points(&self) -> usize {
        self.inner.pixels()
    }

    /// Number of labels.
    #[getter]
    fn labels(&self) -> usize {
        self.inner.labels()
    }

    /// The normalisation's name.
    #[getter]
    fn normalization(&self) -> String {
        self.inner.pairwise().normalization().to_string()
    }

    /// For every kernel its text, the filter's name and the filter's size.
    fn describe(&self) -> Vec<(String, &'static str, usize)> {
        let terms = self.inner.pairwise().terms();
        terms.iter().map(|t| (t.describe(), t.filter().name(), t.filter().size_hint())).collect()
    }

    /// The energies, with infinities where labels are forbidden.
    fn unary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let forbidden = self.inner.forbidden();
        let rows =
            self.inner.unary().iter().map(|&e| if e >= forbidden { f32::INFINITY } else { e }).collect();
        to_array_of_rows(py, rows, self.inner.labels())
    }

    /// The kernels as the constructor takes them.
    fn kernels<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let points = self.inner.pixels().max(1);
        let terms = self.inner.pairwise().terms().iter();
        terms
            .map(|term| {
                let kernel = term.kernel();
                let parts = PyDict::new(py);
                parts.set_item("weight", kernel.weight)?;
                parts.set_item("compatibility", cost_parts(&term.options().cost))?;
                match &kernel.features {
                    Features::Position { sigma } => {
                        parts.set_item("kind", "gaussian")?;
                        parts.set_item("sigma", sigma)?;
                    }
                    Features::Bilateral { sigma, image, sigma_color } => {
                        parts.set_item("kind", "bilateral")?;
                        parts.set_item("sigma", sigma)?;
                        parts.set_item("sigma_color", sigma_color)?;
                        let width = image.len() / points;
                        parts.set_item("values", to_array_of_rows(py, image.clone(), width)?)?;
                    }
                    Features::Given { rows, dims } => {
                        parts.set_item("kind", "features")?;
                        parts.set_item("values", to_array_of_rows(py, rows.clone(), *dims)?)?;
                    }
                }
                Ok(parts)
            })
            .collect()
    }

    /// The same kernels with other energies; nothing is built anew.
    #[pyo3(signature = (unary, threads=None))]
    fn with_unary(&self, py: Python, unary: Rows, threads: Option<Threads>) -> PyResult<Self> {
        let view = unary.as_array();
        let inner = pool::run(py, threads, || self.inner.with_unary(to_rows(view)?))?;
        Ok(Self { inner })
    }

    /// The same problem with some of the labels only.
    fn restrict(&self, py: Python, keep: Vec<usize>) -> PyResult<Self> {
        let inner = pool::run(py, None, || self.inner.restrict(&keep))?;
        Ok(Self { inner })
    }

    /// Unary and pairwise energy of a labelling, of the model's operator or of the exact Gaussian sum.
    #[pyo3(signature = (labels, exact=false, threads=None))]
    fn energy(
        &self,
        py: Python,
        labels: PyReadonlyArray1<u16>,
        exact: bool,
        threads: Option<Threads>,
    ) -> PyResult<(f64, f64)> {
        let labeling = Labeling::new(labels.as_array().to_vec());
        let energy = pool::run(py, threads, || {
            if exact {
                let exact = self.inner.with_filter(FilterKind::Exact)?;
                energy::of_labeling(&exact, &labeling)
            } else {
                energy::of_labeling(&self.inner, &labeling)
            }
        })?;
        Ok((energy.unary, energy.pairwise))
    }

    /// Label and energy of the constant labelling that is below a labelling, and the energy of that; None if there is none.
    #[pyo3(signature = (labels, threads=None))]
    fn lower_constant(
        &self,
        py: Python,
        labels: PyReadonlyArray1<u16>,
        threads: Option<Threads>,
    ) -> PyResult<Option<(u16, f64, f64)>> {
        let labeling = Labeling::new(labels.as_array().to_vec());
        let found = pool::run(py, threads, || energy::lower_constant(&self.inner, &labeling))?;
        Ok(found.map(|c| (c.label, c.energy, c.compared_with)))
    }

    /// The labels that minimise the unary energies alone.
    fn unary_argmin<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<u16>>> {
        let labels = pool::run(py, None, || Ok(self.inner.unary_argmin().into_vec()))?;
        Ok(PyArray1::from_vec(py, labels))
    }
}

fn compatibility_of((kind, values): &(String, Vec<f32>), labels: usize) -> relaxcrf::Result<Compatibility> {
    match kind.as_str() {
        "potts" => Ok(Compatibility::potts(labels)),
        "linear" => Compatibility::linear(labels, values.first().copied()),
        "quadratic" => Compatibility::quadratic(labels, values.first().copied()),
        "per-label" => Compatibility::per_label(values.clone()),
        "matrix" => Compatibility::matrix(labels, values.clone()),
        _ => {
            let expected = "expected potts, linear, quadratic, per-label or matrix";
            Err(relaxcrf::Error::parse("compatibility", kind, expected))
        }
    }
}

/// The label cost of one kernel: a Potts cost may have a strength, and `diagonal` is one cost per pair of equal labels.
pub fn cost_of(given: &(String, Vec<f32>), labels: usize) -> relaxcrf::Result<KernelCost> {
    match (given.0.as_str(), &given.1[..]) {
        ("potts", [scale]) => Ok(KernelCost::Potts(*scale)),
        ("diagonal", costs) => Ok(KernelCost::Diagonal(costs.to_vec())),
        _ => compatibility_of(given, labels).map(KernelCost::Matrix),
    }
}

/// What [`cost_of`] makes the cost from; `None` for the model's own.
fn cost_parts(cost: &KernelCost) -> Option<(String, Vec<f32>)> {
    match cost {
        KernelCost::Potts(scale) => Some(("potts".into(), vec![*scale])),
        KernelCost::Diagonal(costs) => Some(("diagonal".into(), costs.clone())),
        KernelCost::Matrix(costs) => {
            let labels = costs.labels();
            let entries = (0..labels * labels).map(|k| costs.cost(k / labels, k % labels)).collect();
            Some(("matrix".into(), entries))
        }
        _ => None,
    }
}
