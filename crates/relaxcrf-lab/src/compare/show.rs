//! A comparison as tables, plots and pictures.

use relaxcrf::solve::Progress;
use relaxcrf_io::Palette;

use super::{Comparison, Problem, Quality, Run, Task};
use crate::disparity::Score;
use crate::report::page::{Block, Section};
use crate::report::picture::{ColourMap, Picture};
use crate::report::plot::{Axis, Plot, Series};
use crate::report::sheet::{Best, Cell, Sheet};
use crate::report::{self, percent};

/// An ordered call costs about this many filter calls.
const ORDERED_COST: usize = 10;

/// Largest width and height of pictures, in pixels.
const MAX_PIXELS: usize = 700;

/// Errors of this many pixels of disparity or more have the brightest colour.
const WORST_ERROR: f32 = 8.0;

impl Comparison {
    /// Energies, bounds and costs, one row per method and one for the best constant labelling.
    pub fn energies(&self) -> Sheet {
        let mut sheet = Sheet::new(&[
            ("method", Best::None),
            ("energy", Best::Lowest),
            ("end point", Best::Lowest),
            ("lower bound", Best::Highest),
            ("gap", Best::Lowest),
            ("seconds", Best::None),
            ("filter calls", Best::None),
            ("ordered calls", Best::None),
            ("iterations", Best::None),
            ("ended by", Best::None),
        ]);
        for Run { report: r, .. } in &self.runs {
            let whole = |n: usize| Cell::number(n as f64, |v| format!("{v:.0}"));
            sheet.add(vec![
                r.method.clone().into(),
                Cell::number(r.energy, report::number),
                Cell::number(r.final_energy, report::number),
                Cell::number(r.lower_bound, report::number),
                Cell::number(r.gap, percent),
                Cell::number(r.seconds, |v| format!("{v:.2}")),
                whole(r.filter_calls),
                whole(r.ordered_calls),
                whole(r.iterations),
                r.status.clone().into(),
            ]);
        }
        let mut constant = vec![Cell::Empty; sheet.columns.len()];
        constant[0] = format!("constant label {}", self.constant_label).into();
        constant[1] = Cell::number(self.constant_energy, report::number);
        sheet.add(constant);
        sheet
    }

    /// Measures of the labellings; `None` without a truth.
    pub fn qualities(&self) -> Option<Sheet> {
        let first = self.runs.iter().find_map(|r| r.quality)?;
        let mut columns = vec![("method", Best::None)];
        let stereo = ["bad 0.5", "bad 1", "bad 2", "mean error"];
        let visible = ["visible: bad 0.5", "visible: bad 1", "visible: bad 2", "visible: mean error"];
        match first {
            Quality::Segmentation { .. } => {
                columns.extend([("accuracy", Best::Highest), ("mean IoU", Best::Highest)]);
            }
            Quality::Stereo(scores) => {
                columns.extend(stereo.map(|name| (name, Best::Lowest)));
                if scores.visible.is_some() {
                    columns.extend(visible.map(|name| (name, Best::Lowest)));
                }
            }
        }
        let mut sheet = Sheet::new(&columns);
        for run in &self.runs {
            let mut row: Vec<Cell> = vec![run.report.method.clone().into()];
            match run.quality {
                Some(Quality::Segmentation { accuracy, mean_iou }) => {
                    row.extend([accuracy, mean_iou].map(|v| Cell::number(v, percent)));
                }
                Some(Quality::Stereo(scores)) => {
                    for score in [Some(scores.all), scores.visible].into_iter().flatten() {
                        row.extend(score_cells(&score));
                    }
                }
                None => {}
            }
            row.resize(sheet.columns.len(), Cell::Empty);
            sheet.add(row);
        }
        Some(sheet)
    }

    /// Both tables as one, for programs.
    pub fn everything(&self) -> Sheet {
        let mut sheet = self.energies();
        let Some(qualities) = self.qualities() else { return sheet };
        sheet.columns.extend(qualities.columns.into_iter().skip(1));
        for (k, row) in sheet.rows.iter_mut().enumerate() {
            row.extend(qualities.rows.get(k).into_iter().flatten().skip(1).cloned());
            row.resize(sheet.columns.len(), Cell::Empty);
        }
        sheet
    }

    /// Energy against time.
    pub fn over_time(&self) -> Plot {
        self.plot("Energy against time", "seconds", |p| p.seconds)
    }

    /// Energy against work.
    pub fn over_calls(&self) -> Plot {
        let label = format!("filter calls (an ordered call counts as {ORDERED_COST})");
        self.plot("Energy against filter calls", &label, |p| {
            (p.counts.filter + ORDERED_COST * p.counts.ordered) as f64
        })
    }

    fn plot(&self, title: &str, x: &str, place: impl Fn(&Progress) -> f64) -> Plot {
        let curve = |run: &Run| {
            // The unary labelling is a point of high energy, which would leave little room for the curves.
            if run.report.method == "unary" {
                return Vec::new();
            }
            let points = run.trace.iter().filter_map(|p| p.own_energy.map(|e| (place(p), e)));
            // Roundings at the end of a stage may be better than the beliefs' own labels.
            points.chain(run.trace.last().map(|last| (place(last), run.report.energy))).collect()
        };
        let curves: Vec<Vec<(f64, f64)>> = self.runs.iter().map(curve).collect();
        let mut plot = Plot::new(
            title,
            Axis::suited(x, curves.iter().flatten().map(|p| p.0)),
            Axis::suited("energy", curves.iter().flatten().map(|p| p.1)),
        );
        for (k, (run, points)) in self.runs.iter().zip(curves).enumerate() {
            plot = plot.with(Series::line(run.report.method.clone(), points).coloured(k));
        }
        // Far above all curves the line would only take room.
        if plot.series.iter().flat_map(|s| &s.points).any(|p| p.1 >= self.constant_energy) {
            plot = plot.with_rule("best constant labelling", self.constant_energy);
        }
        match self.lower_bound {
            Some(bound) => plot.with_rule("lower bound", bound),
            None => plot,
        }
    }

    /// Warnings about the numbers: methods left out, stopped early or worse than a constant labelling.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.skipped.clone();
        let late: Vec<&str> =
            self.runs.iter().filter(|r| r.report.out_of_time()).map(|r| r.report.method.as_str()).collect();
        if !late.is_empty() {
            warnings
                .push(format!("Stopped by the time limit before they had converged: {}.", late.join(", ")));
        }
        let beaten: Vec<&str> = self
            .runs
            .iter()
            .filter(|r| r.report.energy > self.constant_energy)
            .map(|r| r.report.method.as_str())
            .collect();
        if !beaten.is_empty() {
            warnings.push(format!(
                "Label {} at every pixel has a lower energy ({}) than the labels of these methods: {}. The kernels are very \
                 strong for these unaries; `relaxcrf segment --take best` writes the constant labelling in such a case.",
                self.constant_label,
                report::number(self.constant_energy),
                beaten.join(", ")
            ));
        }
        warnings
    }

    /// Tables, plots and pictures for a page.
    pub fn sections(&self, problem: &Problem) -> Vec<Section> {
        let mut results = Section::new("Energies");
        results.blocks.extend(self.warnings().into_iter().map(Block::Warning));
        results.blocks.push(Block::Table(self.energies()));
        results.blocks.push(Block::Text(
            "Energy: of the best labelling of the run, constant labellings left aside. End point: of the most believed \
             labels when the run ended. Lower bound: no labelling can have a lower energy. Curves show the energy of \
             the most believed labels as the run goes on."
                .into(),
        ));
        results.blocks.push(Block::Plots(vec![self.over_time(), self.over_calls()]));
        let mut sections = vec![results];
        if let Some(qualities) = self.qualities() {
            sections.push(
                Section::new("Against the truth")
                    .with(Block::Table(qualities))
                    .with(Block::Text(problem.task.explanation().into())),
            );
        }
        sections.extend(self.pictures(problem));
        sections
    }

    fn pictures(&self, problem: &Problem) -> Vec<Section> {
        let small = |(caption, p): (String, Picture)| (caption, p.at_most(MAX_PIXELS));
        let mut labels: Vec<(String, Picture)> = problem.inputs.clone();
        labels.extend(problem.truth_picture());
        labels.extend(self.runs.iter().map(|r| (r.caption(), problem.picture(r.labeling.as_slice()))));
        let mut errors = Vec::new();
        let best = self.runs.iter().min_by(|a, b| a.report.energy.total_cmp(&b.report.energy));
        for run in &self.runs {
            let reference = best.map(|b| b.labeling.as_slice()).unwrap_or_default();
            errors.push((run.report.method.clone(), problem.errors(run.labeling.as_slice(), reference)));
        }
        let best_name = best.map_or("", |b| b.report.method.as_str());
        let uncertainty = self.runs.iter().filter(|r| r.report.method != "unary");
        let uncertainty: Vec<_> =
            uncertainty.map(|r| (r.report.method.clone(), r.uncertainty.clone())).collect();
        let section = |title: &str, text: String, pictures: Vec<(String, Picture)>| {
            Section::new(title)
                .with(Block::Text(text))
                .with(Block::Pictures(pictures.into_iter().map(small).collect()))
        };
        vec![
            section("Labels", "Touch a picture to enlarge it.".into(), labels),
            section(problem.error_title(), problem.error_text(best_name), errors),
            section(
                "Uncertainty",
                "Entropy of the beliefs at the end: black is certain, bright is undecided.".into(),
                uncertainty,
            ),
        ]
    }
}

fn score_cells(score: &Score) -> [Cell; 4] {
    let percents = |v: f64| Cell::number(v, percent);
    let error = Cell::number(score.mean_error, |v| format!("{v:.3}"));
    [percents(score.bad_0_5), percents(score.bad_1), percents(score.bad_2), error]
}

impl Run {
    fn caption(&self) -> String {
        let quality = match self.quality {
            Some(Quality::Segmentation { accuracy, .. }) => format!(", {} right", percent(accuracy)),
            Some(Quality::Stereo(s)) => format!(", {} off by more than 1", percent(s.all.bad_1)),
            None => String::new(),
        };
        format!("{}: energy {}{quality}", self.report.method, report::number(self.report.energy))
    }
}

impl Task {
    fn explanation(&self) -> &'static str {
        match self {
            Self::Segmentation { .. } => "Pixels whose true label the model does not have are left out.",
            Self::Stereo { .. } => {
                "Bad: fraction of the pixels of known disparity that are off by more than 0.5, 1 and 2 pixels. Mean error \
                 in pixels. Visible: pixels that both pictures see."
            }
        }
    }
}

impl Problem {
    /// A labelling in colours that suit the task.
    pub fn picture(&self, labels: &[u16]) -> Picture {
        match self.task {
            Task::Segmentation { .. } => {
                Picture::labels(self.size(), labels, self.model.labels(), &Palette::voc())
            }
            Task::Stereo { .. } => {
                let disparities: Vec<f32> = labels.iter().map(|&l| f32::from(l)).collect();
                self.disparities(&disparities)
            }
        }
    }

    fn disparities(&self, values: &[f32]) -> Picture {
        // The ends of turbo are nearly black: leave them out.
        let last = self.model.labels().saturating_sub(1).max(1) as f32;
        Picture::numbers(self.size(), values, (-0.04 * last, 1.04 * last), ColourMap::Turbo)
    }

    fn truth_picture(&self) -> Option<(String, Picture)> {
        let picture = match &self.task {
            Task::Segmentation { truth: Some(truth) } => self.picture(truth),
            Task::Stereo { truth: Some(truth) } => self.disparities(&truth.disparities),
            _ => return None,
        };
        Some(("truth".into(), picture))
    }

    fn has_truth(&self) -> bool {
        matches!(self.task, Task::Segmentation { truth: Some(_) } | Task::Stereo { truth: Some(_) })
    }

    fn error_title(&self) -> &'static str {
        if self.has_truth() { "Errors" } else { "Differences" }
    }

    fn error_text(&self, best: &str) -> String {
        match (&self.task, self.has_truth()) {
            (_, false) => format!("Red: other labels than {best}, which has the lowest energy."),
            (Task::Segmentation { .. }, _) => "Red is wrong, grey is not known.".into(),
            (Task::Stereo { .. }, _) => {
                format!(
                    "How far off the disparity is, from 0 (black) to {WORST_ERROR} or more (bright); grey is not known."
                )
            }
        }
    }

    /// Where labels are wrong, or without a truth, where they differ from the reference.
    fn errors(&self, labels: &[u16], reference: &[u16]) -> Picture {
        match &self.task {
            Task::Stereo { truth: Some(truth) } => {
                Picture::numbers(self.size(), &truth.errors(labels), (0.0, WORST_ERROR), ColourMap::Inferno)
            }
            Task::Segmentation { truth: Some(truth) } => {
                let known = self.model.labels();
                let verdicts =
                    labels.iter().zip(truth).map(|(l, t)| (usize::from(*t) < known).then_some(l == t));
                Picture::verdicts(self.size(), verdicts)
            }
            _ => Picture::verdicts(self.size(), labels.iter().zip(reference).map(|(a, b)| Some(a == b))),
        }
    }
}
