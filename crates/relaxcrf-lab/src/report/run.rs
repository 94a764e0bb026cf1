//! A run and an evaluation as JSON, and the model in words.

use relaxcrf::energy::Energy;
use relaxcrf::model::{CompatibilityKind, Features, Term};
use relaxcrf::solve::{Pipeline, Progress, Solution, Status};
use relaxcrf::{Labeling, Model};
use serde::Serialize;

use super::percent;

/// Points on which a filter's error is measured: a few milliseconds, and accurate enough for its order of magnitude.
const ERROR_SAMPLES: usize = 64;

/// A run as JSON. Infinite numbers become null.
#[derive(Debug, Serialize)]
pub struct RunReport {
    /// The method's name.
    pub method: String,
    /// Why the run ended.
    pub status: String,
    /// Energy of the labels.
    pub energy: f64,
    /// The filters whose energy this is.
    pub energy_kind: String,
    /// Certified lower bound on the energy of any labelling.
    pub lower_bound: Option<f64>,
    /// Relative distance between energy and bound.
    pub gap: Option<f64>,
    /// The unary part of the energy.
    pub unary_energy: f64,
    /// The pairwise part of the energy.
    pub pairwise_energy: f64,
    /// Lowest energy seen, unary argmin and constant labellings included.
    pub best_energy: f64,
    /// Of the most believed labels at the end.
    pub final_energy: f64,
    /// The constant labelling of lower energy than the labels; null if there is none.
    pub lower_constant: Option<ConstantReport>,
    /// Duration of the run.
    pub seconds: f64,
    /// Products with the kernel matrix.
    pub filter_calls: usize,
    /// Ordered products, which LP methods need.
    pub ordered_calls: usize,
    /// Evaluations of a labelling's energy.
    pub evaluations: usize,
    /// Iterations of all stages.
    pub iterations: usize,
    /// Methods that `auto` had planned and left out, for lack of memory or time; the machine decided that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOutReport>,
    /// Number of labels that occur in the result.
    pub labels_used: usize,
    /// Number of pixels.
    #[serde(rename = "N")]
    pub pixels: usize,
    /// Number of labels.
    #[serde(rename = "L")]
    pub label_count: usize,
    /// The kernels as they were asked for.
    pub kernels: Vec<KernelReport>,
    /// Kind of label costs.
    pub compatibility: &'static str,
    /// Normalisation of the kernels.
    pub normalization: String,
    /// The operator behind each kernel.
    pub filter: Vec<FilterReport>,
    /// Number of threads.
    pub threads: usize,
    /// Version of relaxcrf.
    pub version: &'static str,
    /// Every iteration, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Vec<TraceLine>>,
}

/// Methods that were not run, and why.
#[derive(Debug, Serialize)]
pub struct LeftOutReport {
    method: String,
    why: String,
}

/// One label at every pixel.
#[derive(Debug, Serialize)]
pub struct ConstantReport {
    label: u16,
    energy: f64,
}

/// The model in words, for reports: names and values.
pub fn model_facts(model: &Model) -> Vec<(String, String)> {
    let list = |values: &[f32]| values.iter().map(f32::to_string).collect::<Vec<_>>().join(",");
    let mut facts = vec![
        (
            "pixels".to_string(),
            format!("{} ({} rows of {})", model.pixels(), model.sizes()[0], model.sizes()[1]),
        ),
        ("labels".into(), model.labels().to_string()),
    ];
    for term in model.pairwise().terms() {
        let KernelReport { kind, sigma_xy, sigma_rgb, weight } = KernelReport::new(term);
        let FilterReport { kind: filter, vertices, measured_error, scale } = FilterReport::new(term, true);
        let sigma =
            |name: &str, s: Option<Vec<f32>>| s.map_or(String::new(), |s| format!("{name} {}, ", list(&s)));
        let size = vertices.map_or(String::new(), |v| format!(", {v} vertices or taps"));
        let error = measured_error.zip(scale).map_or(String::new(), |(e, s)| {
            format!(", row sums {} off the true ones after scaling by {s:.3}", percent(f64::from(e)))
        });
        facts.push((
            format!("kernel: {kind}"),
            format!(
                "{}{}weight {weight}; filter {filter}{size}{error}",
                sigma("sigma", sigma_xy),
                sigma("colour sigma", sigma_rgb)
            ),
        ));
    }
    facts.push(("label costs".into(), compatibility(model).into()));
    facts.push(("normalization".into(), model.pairwise().normalization().to_string()));
    facts.push(("threads".into(), rayon::current_num_threads().to_string()));
    facts
}

/// A kernel as it was asked for.
#[derive(Debug, Serialize)]
pub struct KernelReport {
    kind: &'static str,
    sigma_xy: Option<Vec<f32>>,
    sigma_rgb: Option<Vec<f32>>,
    weight: f32,
}

/// The operator behind one kernel.
#[derive(Debug, Serialize)]
pub struct FilterReport {
    kind: &'static str,
    /// Lattice vertices or taps; null where it has no meaning.
    vertices: Option<usize>,
    /// Relative root mean square error of its row sums after the best scaling; null if not measured.
    measured_error: Option<f32>,
    /// That scaling; null if not measured.
    scale: Option<f32>,
}

/// One iteration.
#[derive(Debug, Serialize)]
pub struct TraceLine {
    stage: usize,
    method: String,
    iteration: usize,
    seconds: f64,
    filter_calls: usize,
    ordered_calls: usize,
    evaluations: usize,
    objective: f64,
    energy: f64,
    own_energy: Option<f64>,
    lower_bound: Option<f64>,
}

impl RunReport {
    /// `measure`: compare the filters with the true sums, which takes a moment.
    pub fn new(model: &Model, method: &Pipeline, solution: &Solution, measure: bool) -> Self {
        let terms = model.pairwise().terms();
        Self {
            method: method.to_string(),
            status: solution.status.to_string(),
            energy: solution.energy.total(),
            energy_kind: operator(model),
            lower_bound: solution.lower_bound.as_ref().map(|b| b.value),
            gap: solution.gap(),
            unary_energy: solution.energy.unary,
            pairwise_energy: solution.energy.pairwise,
            best_energy: solution.best.energy.total(),
            final_energy: solution.final_energy.total(),
            lower_constant: solution.constant_below().map(|(label, energy)| ConstantReport { label, energy }),
            seconds: solution.seconds,
            filter_calls: solution.counts.filter,
            ordered_calls: solution.counts.ordered,
            evaluations: solution.counts.evaluations,
            iterations: solution.iterations,
            left_out: solution
                .left_out
                .iter()
                .map(|part| LeftOutReport { method: part.method.clone(), why: part.why.clone() })
                .collect(),
            labels_used: labels_used(model, &solution.labeling),
            pixels: model.pixels(),
            label_count: model.labels(),
            kernels: terms.iter().map(|term| KernelReport::new(term)).collect(),
            compatibility: compatibility(model),
            normalization: model.pairwise().normalization().to_string(),
            filter: terms.iter().map(|t| FilterReport::new(t, measure)).collect(),
            threads: rayon::current_num_threads(),
            version: env!("CARGO_PKG_VERSION"),
            trace: None,
        }
    }

    /// The same with every iteration, if `listed`.
    pub fn with_trace(mut self, trace: &[Progress], listed: bool) -> Self {
        self.list_iterations(trace, listed);
        self
    }

    /// Adds every iteration, if `listed`.
    pub fn list_iterations(&mut self, trace: &[Progress], listed: bool) {
        self.trace = listed.then(|| trace.iter().map(TraceLine::new).collect());
    }

    /// Whether the time limit ended the run.
    pub fn out_of_time(&self) -> bool {
        self.status == Status::TimeLimit.to_string()
    }
}

impl KernelReport {
    fn new(term: &Term) -> Self {
        let (kind, sigma_xy, sigma_rgb) = match &term.kernel().features {
            Features::Position { sigma } => ("gaussian", Some(sigma.clone()), None),
            Features::Bilateral { sigma, sigma_color, .. } => {
                ("bilateral", Some(sigma.clone()), Some(sigma_color.clone()))
            }
            Features::Given { .. } => ("features", None, None),
        };
        Self { kind, sigma_xy, sigma_rgb, weight: term.kernel().weight }
    }
}

impl FilterReport {
    fn new(term: &Term, measure: bool) -> Self {
        // Features that only this filter can stand (a sigma of next to nothing) cannot be measured.
        let measured = if measure { term.measure(ERROR_SAMPLES, 0).ok() } else { None };
        Self {
            kind: term.filter().name(),
            vertices: Some(term.filter().size_hint()).filter(|&n| n > 0),
            measured_error: measured.map(|m| m.rms_error),
            scale: measured.map(|m| m.scale),
        }
    }
}

impl TraceLine {
    fn new(p: &Progress) -> Self {
        Self {
            stage: p.stage,
            method: p.method.clone(),
            iteration: p.iteration,
            seconds: p.seconds,
            filter_calls: p.counts.filter,
            ordered_calls: p.counts.ordered,
            evaluations: p.counts.evaluations,
            objective: p.objective,
            energy: p.energy,
            own_energy: p.own_energy,
            lower_bound: p.lower_bound,
        }
    }
}

/// The energy of one labelling as JSON.
#[derive(Debug, Serialize)]
pub struct EnergyReport {
    /// The energy.
    pub energy: f64,
    /// The unary part.
    pub unary_energy: f64,
    /// The pairwise part.
    pub pairwise_energy: f64,
    /// The filters whose energy this is.
    pub operator: String,
    /// Normalisation of the kernels.
    pub normalization: String,
    /// Kind of label costs.
    pub compatibility: &'static str,
    /// Number of labels that occur.
    pub labels_used: usize,
    /// Number of pixels.
    #[serde(rename = "N")]
    pub pixels: usize,
    /// Number of labels.
    #[serde(rename = "L")]
    pub label_count: usize,
    /// The kernels as they were asked for.
    pub kernels: Vec<KernelReport>,
    /// Duration of the evaluation.
    pub seconds: f64,
    /// Number of threads.
    pub threads: usize,
    /// Version of relaxcrf.
    pub version: &'static str,
}

impl EnergyReport {
    /// Reports an evaluation.
    pub fn new(model: &Model, labeling: &Labeling, energy: Energy, seconds: f64) -> Self {
        Self {
            energy: energy.total(),
            unary_energy: energy.unary,
            pairwise_energy: energy.pairwise,
            operator: operator(model),
            normalization: model.pairwise().normalization().to_string(),
            compatibility: compatibility(model),
            labels_used: labels_used(model, labeling),
            pixels: model.pixels(),
            label_count: model.labels(),
            kernels: model.pairwise().terms().iter().map(|term| KernelReport::new(term)).collect(),
            seconds,
            threads: rayon::current_num_threads(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// The names of the filters whose energy this is, each once.
fn operator(model: &Model) -> String {
    let mut names: Vec<&str> = model.pairwise().terms().iter().map(|t| t.filter().name()).collect();
    names.dedup();
    names.join("+")
}

fn compatibility(model: &Model) -> &'static str {
    match model.compatibility().kind() {
        CompatibilityKind::Potts => "potts",
        CompatibilityKind::PerLabel(_) => "per-label",
        CompatibilityKind::Linear { .. } => "linear",
        CompatibilityKind::Quadratic { .. } => "quadratic",
        CompatibilityKind::Cuts(..) => "sum of cuts",
        CompatibilityKind::Matrix(_) => "matrix",
    }
}

fn labels_used(model: &Model, labeling: &Labeling) -> usize {
    labeling.histogram(model.labels()).iter().filter(|&&pixels| pixels > 0).count()
}
