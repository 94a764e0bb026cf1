//! The paper's experiments on stereo pairs: the table of final energies, its figure and its pictures.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use relaxcrf::reduce;
use relaxcrf::solve::Settings;

use super::pairs::{self, PairFiles};
use crate::chains::StageEnd;
use crate::compare::{Comparison, Problem, Quality, Run, Task};
use crate::disparity::{self, CostSpec, MatchingOptions, Truth};
use crate::options::ModelOptions;
use crate::outputs::{check_writable, make_directory};
use crate::progress::{Observer, Part};
use crate::report;
use crate::report::page::{Block, Page, Section, write_text};
use crate::report::picture::Picture;
use crate::report::sheet::{Best, Cell, Column, Sheet};
use crate::specs::{BilateralSpec, CompatSpec, Contestant, GaussianSpec};

/// The paper's final energies: pair, then mf, dc-neg, qp, qp+dc-neg, qp+dc-gen, qp+dc-neg+lp.
const PAPER: [(&str, [f64; 6]); 4] = [
    ("teddy", [-1.137e7, -1.145e7, -1.037e7, -1.191e7, -1.175e7, -1.193e7]),
    ("venus", [-1.341e7, -1.344e7, -1.341e7, -1.354e7, -1.352e7, -1.354e7]),
    ("cones", [-9.286e6, -9.388e6, -8.881e6, -9.868e6, -9.757e6, -9.758e6]),
    ("tsukuba", [-8.927e6, -8.920e6, -9.101e6, -9.215e6, -9.177e6, -9.186e6]),
];
const PAPER_METHODS: [&str; 6] = ["mf", "dc-neg", "qp", "qp+dc-neg", "qp+dc-gen", "qp+dc-neg+lp"];

/// Iterations after which little changes; the paper ran the LP for five. Mean field rests on plateaus here for dozens of
/// updates, so it goes on until nothing changes at all.
const ENDS: [StageEnd; 5] = [
    StageEnd { method: "mf", iterations: 350, tolerance: Some(0.0) },
    StageEnd { method: "dc-gen", iterations: 20, tolerance: None },
    StageEnd { method: "lp", iterations: 5, tolerance: None },
    StageEnd { method: "tree-lp", iterations: 5, tolerance: None },
    StageEnd { method: "smooth-lp", iterations: 40, tolerance: None },
];

const ABOUT: &str = "\
E is the energy with every pair counted twice and nothing left out. The paper prints the energy of the same normalised \
kernels as a reward for equal labels: E less the constant K = sum over all pairs, self pairs included. Its matching \
costs and kernel parameters are not in print; those used here are costs of absolute difference cut at 40 and kernels \
gaussian 3:40, bilateral 50:10:50. So the paper's columns can be compared with each other and in order, not digit by digit.";

/// One pair with what the methods did on it.
#[derive(Debug)]
struct Solved {
    problem: Problem,
    comparison: Comparison,
    /// The constant between the two conventions.
    constant: f64,
}

/// What to run.
#[derive(Debug, Clone)]
pub struct StereoOptions {
    /// Directory of pairs.
    pub dir: PathBuf,
    /// Directory for the results; made if absent.
    pub out: PathBuf,
    /// Methods and chains to compare.
    pub methods: Vec<Contestant>,
    /// Most time for each stage of each method on each pair.
    pub time_limit: Duration,
    /// Only pairs of these names; all if empty.
    pub only: Vec<String>,
    /// Seed of everything random.
    pub seed: u64,
}

/// What all methods did on all pairs.
#[derive(Debug)]
pub struct StereoResults {
    solved: Vec<Solved>,
    sheet: Sheet,
}

impl StereoResults {
    /// One comparison for each pair.
    pub fn comparisons(&self) -> Vec<&Comparison> {
        self.solved.iter().map(|r| &r.comparison).collect()
    }

    /// All pairs side by side, for a terminal.
    pub fn terminal(&self) -> String {
        self.sheet.terminal().to_string()
    }
}

/// Runs all methods on all pairs and writes the report.
pub fn run(args: &StereoOptions, observer: &dyn Observer) -> Result<StereoResults> {
    let mut found = pairs::find(&args.dir)?;
    if !args.only.is_empty() {
        let names: Vec<String> = found.iter().map(|p| p.name.clone()).collect();
        if let Some(absent) = args.only.iter().find(|n| !names.contains(n)) {
            bail!("there is no pair `{absent}` in {}; there are {}", args.dir.display(), names.join(", "));
        }
        found.retain(|p| args.only.contains(&p.name));
    }
    make_directory(&args.out)?;
    for name in ["stereo.html", "stereo.md", "stereo.csv"] {
        check_writable(&args.out.join(name), &[])?;
    }
    let part = |k| Part::whole().part("pair", k, found.len());
    let results = found
        .iter()
        .enumerate()
        .map(|(k, pair)| one(pair, args, &part(k), observer))
        .collect::<Result<Vec<_>>>()?;
    let sheet = overview(&results);
    write_text(&args.out.join("stereo.csv"), &everything(&results).csv())?;
    write_text(&args.out.join("stereo.md"), &markdown(&results, &sheet, args)?)?;
    page(&results, &sheet).write(&args.out.join("stereo.html"))?;
    Ok(StereoResults { solved: results, sheet })
}

/// The model of the experiments; costs are rounded as the released code's inputs were.
fn paper_model() -> (MatchingOptions, ModelOptions) {
    let cost = CostSpec(relaxcrf_stereo::Measure::AbsoluteDifference);
    let model = ModelOptions {
        gaussian: vec![GaussianSpec::new(3.0, 40.0)],
        bilateral: vec![BilateralSpec::new(50.0, 10.0, 50.0)],
        normalization: Some(relaxcrf::model::Normalization::Symmetric),
        filter: relaxcrf::model::FilterKind::Lattice,
        compat: CompatSpec::Potts,
        calibrate: false,
        learned: None,
    };
    (MatchingOptions { cost, truncate: None, aggregation: None, cost_step: Some(0.01) }, model)
}

fn one(files: &PairFiles, args: &StereoOptions, part: &Part, observer: &dyn Observer) -> Result<Solved> {
    let meter = observer.follow(part, &format!("building the model of {}", files.name));
    let messages = meter.messages();
    let (cost, model) = paper_model();
    let paths = (files.left.as_path(), files.right.as_path());
    let read = |model: &ModelOptions| {
        disparity::read_pair(paths, files.disparities, &cost, model, args.seed, &messages)
    };
    let pair = read(&model)?;
    let wants_half = args.methods.iter().any(|m| m.half);
    let half = wants_half.then(|| read(&model.halved())).transpose()?.map(|p| p.model);
    let size = (pair.left.width, pair.left.height);
    let truth = Truth::read(&files.truth, &files.left, size)?;
    drop(meter);
    let problem = Problem {
        name: files.name.clone(),
        model: pair.model,
        half,
        inputs: vec![
            ("left".into(), Picture::photo(&pair.left)),
            ("right".into(), Picture::photo(&pair.right)),
        ],
        task: Task::Stereo { truth },
    };
    let folder = args.out.join(&files.name);
    make_directory(&folder)?;
    let settings = Settings { time_limit: Some(args.time_limit), seed: args.seed, ..Settings::default() };
    let mut say = |run: &Run| {
        let (method, e) = (&run.report.method, report::number(run.report.energy));
        observer.tell(&format!("{}: {method}: energy {e} in {:.1} s", files.name, run.report.seconds));
    };
    let comparison = problem.compare(&args.methods, &settings, &ENDS, part, observer, &mut say)?;
    write_pictures(&folder, &problem, &comparison)?;
    let constant = reduce::sum(problem.model.pairwise().row_sums());
    Ok(Solved { problem, comparison, constant })
}

fn write_pictures(folder: &Path, problem: &Problem, comparison: &Comparison) -> Result<()> {
    for run in &comparison.runs {
        let bytes = problem.picture(run.labeling.as_slice()).png()?;
        let path = folder.join(format!("{}.png", file_name(&run.report.method)));
        relaxcrf_io::write_atomically(&path, |out| out.write_all(&bytes))?;
    }
    write_text(&folder.join("energy-time.svg"), &comparison.over_time().file())?;
    write_text(&folder.join("energy-calls.svg"), &comparison.over_calls().file())
}

/// Method names hold characters that not every file system takes.
fn file_name(method: &str) -> String {
    method.chars().map(|c| if c.is_alphanumeric() || "+-=.".contains(c) { c } else { '_' }).collect()
}

/// What the paper prints for this pair and method.
fn printed(pair: &str, method: &str) -> Option<f64> {
    let column = PAPER_METHODS.iter().position(|m| *m == method)?;
    PAPER.iter().find(|p| p.0 == pair.to_ascii_lowercase()).map(|p| p.1[column])
}

fn scientific(value: f64) -> String {
    format!("{value:.4e}")
}

impl Solved {
    /// One pair's table: our energy in both conventions beside the paper's.
    fn table(&self) -> Sheet {
        let mut sheet = Sheet::new(&[
            ("method", Best::None),
            ("E", Best::Lowest),
            ("end point", Best::Lowest),
            ("E - K", Best::Lowest),
            ("paper", Best::Lowest),
            ("lower bound", Best::Highest),
            ("bad 1", Best::Lowest),
            ("seconds", Best::None),
            ("filter calls", Best::None),
            ("ordered calls", Best::None),
            ("ended by", Best::None),
        ]);
        for run in &self.comparison.runs {
            let bad = run.quality.and_then(|q| match q {
                Quality::Stereo(s) => Some(s.all.bad_1),
                Quality::Segmentation { .. } => None,
            });
            let r = &run.report;
            sheet.add(vec![
                r.method.clone().into(),
                Cell::number(run.report.energy, |v| format!("{v:.0}")),
                Cell::number(r.final_energy, |v| format!("{v:.0}")),
                Cell::number(run.report.energy - self.constant, scientific),
                Cell::number(printed(&self.problem.name, &r.method), |v| format!("{v:.3e}")),
                Cell::number(r.lower_bound, |v| format!("{v:.0}")),
                Cell::number(bad, report::percent),
                Cell::number(r.seconds, |v| format!("{v:.1}")),
                Cell::number(r.filter_calls as f64, |v| format!("{v:.0}")),
                Cell::number(r.ordered_calls as f64, |v| format!("{v:.0}")),
                r.status.clone().into(),
            ]);
        }
        let energy = self.comparison.constant_energy;
        let mut row = vec![Cell::Empty; sheet.columns.len()];
        row[0] = format!("constant label {}", self.comparison.constant_label).into();
        row[1] = Cell::number(energy, |v| format!("{v:.0}"));
        row[3] = Cell::number(energy - self.constant, scientific);
        sheet.add(row);
        sheet
    }
}

/// All pairs side by side, as in the paper.
fn overview(results: &[Solved]) -> Sheet {
    let mut names: Vec<(String, Best)> = vec![("method".into(), Best::None)];
    for r in results {
        names.push((format!("{}: E", r.problem.name), Best::Lowest));
        names.push((format!("{}: E - K", r.problem.name), Best::Lowest));
        if PAPER.iter().any(|p| p.0 == r.problem.name.to_ascii_lowercase()) {
            names.push((format!("{}: paper", r.problem.name), Best::Lowest));
        }
    }
    let names: Vec<(&str, Best)> = names.iter().map(|(n, b)| (n.as_str(), *b)).collect();
    let mut sheet = Sheet::new(&names);
    let mut methods: Vec<&str> = Vec::new();
    for run in results.iter().flat_map(|r| &r.comparison.runs) {
        if !methods.contains(&run.report.method.as_str()) {
            methods.push(&run.report.method);
        }
    }
    for method in methods {
        let mut row: Vec<Cell> = vec![method.into()];
        for r in results {
            let energy =
                r.comparison.runs.iter().find(|run| run.report.method == method).map(|run| run.report.energy);
            row.push(Cell::number(energy, |v| format!("{v:.0}")));
            row.push(Cell::number(energy.map(|e| e - r.constant), scientific));
            if PAPER.iter().any(|p| p.0 == r.problem.name.to_ascii_lowercase()) {
                row.push(Cell::number(printed(&r.problem.name, method), |v| format!("{v:.3e}")));
            }
        }
        sheet.add(row);
    }
    sheet
}

/// Every number, for programs.
fn everything(results: &[Solved]) -> Sheet {
    let mut all = Sheet::default();
    for r in results {
        let mut one = r.comparison.everything();
        one.columns.splice(0..0, Sheet::new(&[("pair", Best::None)]).columns);
        one.columns.extend(Sheet::new(&[("E - K", Best::None), ("paper", Best::None)]).columns);
        for (k, row) in one.rows.iter_mut().enumerate() {
            row.insert(0, r.problem.name.clone().into());
            let energy =
                r.comparison.runs.get(k).map_or(r.comparison.constant_energy, |run| run.report.energy);
            let method = r.comparison.runs.get(k).map_or("", |run| run.report.method.as_str());
            row.push(Cell::number(energy - r.constant, scientific));
            row.push(Cell::number(printed(&r.problem.name, method), scientific));
        }
        if all.columns.len() < one.columns.len() {
            all.columns = one.columns.clone();
        }
        all.rows.extend(one.rows.into_iter().map(|row| aligned(row, &one.columns, &all.columns)));
    }
    let columns = all.columns.clone();
    for row in &mut all.rows {
        row.resize(columns.len(), Cell::Empty);
    }
    all
}

/// Moves a row's cells to the columns of the same name: the truth of some pairs has visible pixels marked.
fn aligned(row: Vec<Cell>, own: &[Column], all: &[Column]) -> Vec<Cell> {
    let cell = |name: &str| own.iter().position(|c| c.name == name).and_then(|k| row.get(k)).cloned();
    all.iter().map(|c| cell(&c.name).unwrap_or(Cell::Empty)).collect()
}

fn markdown(results: &[Solved], sheet: &Sheet, args: &StereoOptions) -> Result<String> {
    let mut out = format!("# Stereo: final energies\n\n{ABOUT}\n\n{}", sheet.markdown());
    for r in results {
        let name = &r.problem.name;
        let (width, height) = r.problem.size();
        let labels = r.problem.model.labels();
        let threads = rayon::current_num_threads();
        write!(
            out,
            "\n## {name}\n\n{width} x {height} pixels, {labels} disparities, K = {:.1}; at most {:.0} s a stage, {threads} \
             threads.\n\n{}",
            r.constant,
            args.time_limit.as_secs_f64(),
            r.table().markdown()
        )?;
        if let Some(qualities) = r.comparison.qualities() {
            write!(out, "\n{}", qualities.markdown())?;
        }
        for warning in r.comparison.warnings() {
            write!(out, "\n> {warning}\n")?;
        }
        write!(
            out,
            "\n![energy against time]({name}/energy-time.svg)\n\n![energy against filter calls]({name}/energy-calls.svg)\n\n"
        )?;
        for run in &r.comparison.runs {
            let file = file_name(&run.report.method);
            writeln!(out, "![{}]({name}/{file}.png)", run.report.method).context("Markdown")?;
        }
    }
    Ok(out)
}

fn page(results: &[Solved], sheet: &Sheet) -> Page {
    let mut sections = vec![
        Section::new("Final energies").with(Block::Table(sheet.clone())).with(Block::Text(ABOUT.into())),
    ];
    for r in results {
        let mut own = r.comparison.sections(&r.problem);
        if let Some(first) = own.first_mut() {
            // The pair's own table holds the paper's column in addition.
            for block in &mut first.blocks {
                if matches!(block, Block::Table(_)) {
                    *block = Block::Table(r.table());
                }
            }
        }
        for section in &mut own {
            section.title = format!("{}: {}", r.problem.name, section.title.to_lowercase());
        }
        sections.extend(own);
        sections.push(
            Section::new(format!("{}: parameters", r.problem.name))
                .with(Block::Facts(report::model_facts(&r.problem.model))),
        );
    }
    Page {
        title: "Stereo: final energies of the paper's methods".into(),
        lead: "Lower energy is better. One part for each pair, after the overview.".into(),
        sections,
    }
}
