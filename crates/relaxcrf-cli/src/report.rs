//! What is shown: tables for people, JSON for programs, messages on standard error.

pub mod page;
pub mod picture;
pub mod plot;
pub mod sheet;
pub mod wrap;

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, presets};
use indicatif::ProgressBar;
use relaxcrf::energy::Energy;
use relaxcrf::model::{CompatibilityKind, Features, Term};
use relaxcrf::solve::{Pipeline, Progress, Settings, Solution, Status};
use relaxcrf::{Labeling, Model};
use serde::Serialize;
use terminal_size::{Width, terminal_size_of};

use crate::choice::Choice;

/// Points on which a filter's error is measured: a few milliseconds, and a fair idea of the size.
const ERROR_SAMPLES: usize = 64;

/// Messages for people, on standard error.
#[derive(Debug)]
pub struct Messages {
    quiet: bool,
    /// What was said so far, for reports.
    said: Mutex<Vec<String>>,
    /// How inputs were understood, for reports.
    noted: Mutex<Vec<String>>,
    /// The line of progress that has to step aside.
    bar: ProgressBar,
}

impl Messages {
    /// Silent if `quiet`.
    pub fn new(quiet: bool, bar: ProgressBar) -> Self {
        Self { quiet, said: Mutex::default(), noted: Mutex::default(), bar }
    }

    /// Something looks wrong but need not be.
    pub fn warn(&self, text: &str) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
        if !self.quiet {
            self.bar.suspend(|| complain(&format!("warning: {text}")));
        }
    }

    /// Tells how an input is understood where that is not what the bare values say.
    pub fn note(&self, text: &str) {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
        if !self.quiet {
            self.bar.suspend(|| complain(&format!("note: {text}")));
        }
    }

    /// All notes so far.
    pub fn noted(&self) -> Vec<String> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All warnings so far.
    pub fn said(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Tells what `auto` will do, if that was asked for.
pub fn explain(method: &Pipeline, model: &Model, settings: &Settings, messages: &Messages) {
    for reason in relaxcrf::solve::auto::plan(model, settings).reasons {
        messages.bar.suspend(|| complain(&format!("auto: {reason}")));
    }
    let chosen = method.to_string();
    if chosen != "auto" {
        messages.bar.suspend(|| complain(&format!("what runs is {chosen}; to run auto, pass --method auto")));
    }
}

/// Warns if one label for all pixels has lower energy than the labels to be written.
pub fn warn_about_constant(solution: &Solution, what: &str, choice: &Choice, messages: &Messages) {
    // Labels without smoothing say nothing about the kernels.
    if choice.method.is_unary() {
        return;
    }
    if let Some((label, energy)) = solution.constant_below() {
        let instead = if choice.has_default_kernels() { "smaller weights" } else { "--preset network" };
        messages.warn(&format!(
            "{what}: label {label} at every pixel has lower energy ({}) than these labels ({}): the kernels are very strong \
             for these unaries. Try {instead}; --take best writes the labelling of lower energy",
            number(energy),
            number(solution.energy.total())
        ));
    }
}

/// One message on standard error. Nobody is left to tell if that fails.
pub fn complain(text: &str) {
    // Names in lists and files may hold anything, and a terminal would obey it.
    let harmless = |c: char| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c };
    let text: String = text.chars().map(harmless).collect();
    let _ = writeln!(io::stderr(), "relaxcrf: {text}");
}

/// Writes to standard output.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("standard output cannot be written")
}

/// Writes one JSON value and a line end to standard output.
pub fn print_json(value: &impl Serialize) -> Result<()> {
    print(&(serde_json::to_string(value)? + "\n"))
}

/// Terminals that claim to be narrower than this are not believed: a table of single letters helps nobody.
const NARROWEST: u16 = 60;

/// An empty table with these headings, as wide as the terminal at most.
pub fn table(headings: &[&str]) -> Table {
    let mut table = Table::new();
    let style = presets::UTF8_HORIZONTAL_ONLY
        .header_separator(LineStyle::none().fill('─').junction('─'))
        .row_separator(LineStyle::none());
    table.load_style(style);
    if let Some((Width(width), _)) = terminal_size_of(io::stdout())
        && width >= NARROWEST
    {
        table.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
    }
    table.set_header(headings);
    table
}

/// Names and values, one pair a line.
pub fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    facts.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

/// Aligns all columns but the first to the right, for columns of numbers.
pub fn align_numbers(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

/// An energy with one decimal; more where it is small.
pub fn number(value: f64) -> String {
    if value.abs() < 100.0 { format!("{value:.4}") } else { format!("{value:.1}") }
}

/// A share as percent.
pub fn percent(value: f64) -> String {
    format!("{:.2}%", 100.0 * value)
}

/// A dash where there is nothing.
pub fn optional(value: Option<f64>, show: impl Fn(f64) -> String) -> String {
    value.map_or("-".into(), show)
}

/// A run as JSON. Infinite numbers become null.
#[derive(Debug, Serialize)]
pub struct RunReport {
    pub method: String,
    pub status: String,
    pub energy: f64,
    pub energy_kind: String,
    pub lower_bound: Option<f64>,
    pub gap: Option<f64>,
    pub unary_energy: f64,
    pub pairwise_energy: f64,
    /// Lowest energy seen, unary argmin and constant labellings included.
    pub best_energy: f64,
    /// Of the most believed labels at the end.
    pub final_energy: f64,
    /// The constant labelling of lower energy than the labels; null if there is none.
    pub lower_constant: Option<ConstantReport>,
    pub seconds: f64,
    pub filter_calls: usize,
    pub ordered_calls: usize,
    pub evaluations: usize,
    pub iterations: usize,
    pub labels_used: usize,
    #[serde(rename = "N")]
    pub pixels: usize,
    #[serde(rename = "L")]
    pub label_count: usize,
    pub kernels: Vec<KernelReport>,
    pub compatibility: &'static str,
    pub normalization: String,
    pub filter: Vec<FilterReport>,
    pub threads: usize,
    pub version: &'static str,
    /// Every iteration, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<Vec<TraceLine>>,
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
            labels_used: labels_used(model, &solution.labeling),
            pixels: model.pixels(),
            label_count: model.labels(),
            kernels: terms.iter().map(KernelReport::new).collect(),
            compatibility: compatibility(model),
            normalization: model.pairwise().normalization().to_string(),
            filter: terms.iter().map(|t| FilterReport::new(t, measure)).collect(),
            threads: rayon::current_num_threads(),
            version: env!("CARGO_PKG_VERSION"),
            trace: None,
        }
    }

    /// The same with every iteration, if `wanted`.
    pub fn with_trace(mut self, trace: &[Progress], wanted: bool) -> Self {
        self.list_iterations(trace, wanted);
        self
    }

    /// Adds every iteration, if `wanted`.
    pub fn list_iterations(&mut self, trace: &[Progress], wanted: bool) {
        self.trace = wanted.then(|| trace.iter().map(TraceLine::new).collect());
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
    pub energy: f64,
    pub unary_energy: f64,
    pub pairwise_energy: f64,
    pub operator: String,
    pub normalization: String,
    pub compatibility: &'static str,
    pub labels_used: usize,
    #[serde(rename = "N")]
    pub pixels: usize,
    #[serde(rename = "L")]
    pub label_count: usize,
    pub kernels: Vec<KernelReport>,
    pub seconds: f64,
    pub threads: usize,
    pub version: &'static str,
}

impl EnergyReport {
    /// Puts together what is known about an evaluation.
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
            kernels: model.pairwise().terms().iter().map(KernelReport::new).collect(),
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
        CompatibilityKind::Matrix(_) => "matrix",
    }
}

fn labels_used(model: &Model, labeling: &Labeling) -> usize {
    labeling.histogram(model.labels()).iter().filter(|&&pixels| pixels > 0).count()
}
