//! Several methods on one problem, in one process, on one model.
//!
//! A chain that begins like one that was run before goes on from there: its time and its filter calls include
//! the shared part, the work is done once. A time limit holds for each stage, so that a slow first one does not
//! keep the others from being seen.

mod show;

use anyhow::{Result, bail};
use relaxcrf::energy;
use relaxcrf::solve::{Pipeline, Progress, Settings, Solution};
use relaxcrf::{Error, Labeling, Model};
use serde::Serialize;

use crate::chains::{Chains, StageEnd, scored_by};
use crate::disparity::{Scores, Truth};
use crate::metrics::Confusion;
use crate::progress::{Observer, Part};
use crate::report::RunReport;
use crate::report::picture::Picture;
use crate::specs::Contestant;

/// Marks true pixels that count nowhere. Models have fewer labels.
const VOID: u16 = u16::MAX;

/// Iterations between evaluations: often enough for a curve, seldom enough not to cost much.
const EVALUATE_EVERY: usize = 5;

/// A problem with its answer, if that is known.
#[derive(Debug)]
pub struct Problem {
    /// The problem's name on pages and in tables.
    pub name: String,
    /// The model with all of its weights.
    pub model: Model,
    /// The same with half of all weights, if a contestant runs with it.
    pub half: Option<Model>,
    /// Pictures of what was given, each with a caption.
    pub inputs: Vec<(String, Picture)>,
    /// The task, with the truth if it is known.
    pub task: Task,
}

/// Meaning of the labels.
#[derive(Debug)]
pub enum Task {
    /// Labels are classes; true labels that the model does not have are ignored.
    Segmentation {
        /// The true labels.
        truth: Option<Vec<u16>>,
    },
    /// Labels are disparities.
    Stereo {
        /// The true disparities.
        truth: Option<Truth>,
    },
}

/// Measures of a labelling against the truth.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(untagged)]
pub enum Quality {
    /// Measures of classes.
    Segmentation {
        /// Fraction of pixels with the true label.
        accuracy: f64,
        /// Mean over the labels in the truth of intersection over union.
        mean_iou: f64,
    },
    /// Measures of disparities.
    Stereo(Scores),
}

/// One method's run.
#[derive(Debug, Serialize)]
pub struct Run {
    /// Measures of the labelling; `None` without a truth.
    pub quality: Option<Quality>,
    /// The run as `--json` prints it.
    #[serde(flatten)]
    pub report: RunReport,
    /// The method's own labelling.
    #[serde(skip)]
    pub labeling: Labeling,
    /// Every iteration.
    #[serde(skip)]
    pub trace: Vec<Progress>,
    /// A picture of how undecided each pixel is.
    #[serde(skip)]
    pub uncertainty: Picture,
}

/// All runs on a problem.
#[derive(Debug, Serialize)]
pub struct Comparison {
    /// The problem's name.
    pub name: String,
    /// Label of the best constant labelling, the baseline of all methods.
    pub constant_label: u16,
    /// Energy of that labelling.
    pub constant_energy: f64,
    /// The best bound of all runs: they share the model, so it holds for all of them.
    pub lower_bound: Option<f64>,
    /// The runs, in the order of the methods.
    pub runs: Vec<Run>,
    /// Methods that are not made for this model, and why.
    pub skipped: Vec<String>,
}

impl Problem {
    /// Width and height.
    pub fn size(&self) -> (usize, usize) {
        (self.model.sizes()[1], self.model.sizes()[0])
    }

    fn quality(&self, labels: &[u16]) -> Option<Quality> {
        match &self.task {
            Task::Segmentation { truth } => {
                truth.as_ref().map(|t| segmentation(labels, t, self.model.labels()))
            }
            Task::Stereo { truth } => truth.as_ref().map(|t| Quality::Stereo(t.scores(labels))),
        }
    }

    /// Runs the methods one after the other; `ends` tell when stages of some methods end, `say` receives each
    /// finished run.
    pub fn compare(
        &self,
        contestants: &[Contestant],
        settings: &Settings,
        ends: &[StageEnd],
        part: &Part,
        observer: &dyn Observer,
        say: &mut dyn FnMut(&Run),
    ) -> Result<Comparison> {
        let settings = Settings { evaluate_every: EVALUATE_EVERY, ..settings.clone() };
        let constants = energy::of_constants(&self.model);
        let lowest = constants.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
        let (label, &constant_energy) = lowest.unwrap_or((0, &f64::INFINITY));
        let mut chains = Chains::new(&self.model, settings.clone(), ends);
        let mut half_chains = self.half.as_ref().map(|half| Chains::new(half, settings.clone(), ends));
        let (mut runs, mut skipped) = (Vec::new(), Vec::new());
        for (k, contestant) in contestants.iter().enumerate() {
            let chains = match (&mut half_chains, contestant.half) {
                (Some(half), true) => half,
                (None, true) => bail!("{contestant}: there is no model with half of the weights"),
                (_, false) => &mut chains,
            };
            let later = contestants[k + 1..].iter().filter(|c| c.half == contestant.half);
            let later: Vec<&Pipeline> = later.map(|c| &c.chain).collect();
            let part = part.part("method", k, contestants.len());
            let mut follower = observer.follow(&part, "preparing");
            let solution = match chains.run(&contestant.chain, &later, &mut *follower) {
                Ok(solution) => solution,
                Err(Error::Method { method, why, instead }) => {
                    skipped.push(format!("{contestant} was left out: {method}: {why}; try {instead}"));
                    continue;
                }
                Err(other) => return Err(other.into()),
            };
            drop(follower);
            let run = if contestant.half {
                self.judge(contestant, &scored_by(&self.model, &solution)?)
            } else {
                self.judge(contestant, &solution)
            };
            say(&run);
            runs.push(run);
        }
        if runs.is_empty() {
            bail!("none of the methods can be used here: {}", skipped.join("; "));
        }
        let bounds = runs.iter().filter_map(|r| r.report.lower_bound);
        Ok(Comparison {
            name: self.name.clone(),
            constant_label: label as u16,
            constant_energy,
            lower_bound: bounds.max_by(f64::total_cmp),
            runs,
            skipped,
        })
    }

    fn judge(&self, contestant: &Contestant, solution: &Solution) -> Run {
        Run {
            quality: self.quality(solution.labeling.as_slice()),
            report: RunReport {
                method: contestant.to_string(),
                ..RunReport::new(&self.model, &contestant.chain, solution, false)
            },
            labeling: solution.labeling.clone(),
            trace: solution.trace.clone(),
            uncertainty: Picture::uncertainty(self.size(), &solution.beliefs),
        }
    }
}

impl Comparison {
    /// Puts every iteration of every run into its report, if `listed`.
    pub fn list_iterations(&mut self, listed: bool) {
        for run in &mut self.runs {
            run.report.list_iterations(&run.trace, listed);
        }
    }
}

/// Pixel accuracy and mean IoU. True labels that the model does not have count nowhere.
fn segmentation(labels: &[u16], truth: &[u16], known: usize) -> Quality {
    let mut confusion = Confusion::new(known);
    let is_known = |t: &u16| usize::from(*t) < known;
    let truth: Vec<u16> = truth.iter().map(|t| if is_known(t) { *t } else { VOID }).collect();
    // Labels of the model and a truth of the same size always fit.
    let counted = confusion.add(labels, &truth, Some(VOID));
    debug_assert!(counted.is_ok(), "labels of the model, truth of its size");
    Quality::Segmentation {
        accuracy: confusion.accuracy().unwrap_or(0.0),
        mean_iou: confusion.mean_iou().unwrap_or(0.0),
    }
}

#[cfg(test)]
mod tests {
    use relaxcrf::ModelBuilder;

    use super::*;
    use crate::progress::Silent;
    use crate::synth;

    fn problem() -> Problem {
        let scene = synth::segmentation(40, 30, 3, 5).unwrap();
        let model = ModelBuilder::image(40, 30, 3)
            .probabilities(&scene.probabilities)
            .unwrap()
            .gaussian(2.0, 1.0)
            .bilateral(scene.image.data.clone(), 10.0, 13.0, 2.0)
            .build()
            .unwrap();
        let truth = Some(scene.truth.into_vec());
        Problem {
            name: "scene".into(),
            model,
            half: None,
            inputs: Vec::new(),
            task: Task::Segmentation { truth },
        }
    }

    #[test]
    fn compared_chain_equals_the_chain_run_alone() {
        let problem = problem();
        let pipelines: Vec<Contestant> =
            ["qp", "qp+dc-neg", "qp+dc-neg+lp"].map(|m| Contestant::new(m.parse().unwrap())).into();
        let settings = Settings { max_iterations: Some(12), ..Settings::default() };
        let together =
            problem.compare(&pipelines, &settings, &[], &Part::whole(), &Silent, &mut |_| {}).unwrap();
        for (k, pipeline) in pipelines.iter().enumerate() {
            let alone = problem
                .compare(std::slice::from_ref(pipeline), &settings, &[], &Part::whole(), &Silent, &mut |_| {})
                .unwrap();
            let (a, b) = (&together.runs[k], &alone.runs[0]);
            assert_eq!(a.labeling, b.labeling, "{pipeline}");
            assert_eq!(a.report.energy, b.report.energy);
            assert_eq!(a.report.final_energy, b.report.final_energy);
            assert_eq!(a.report.lower_bound, b.report.lower_bound);
            assert_eq!(a.report.filter_calls, b.report.filter_calls, "{pipeline}");
            assert_eq!(a.report.ordered_calls, b.report.ordered_calls);
            assert_eq!(a.report.iterations, b.report.iterations);
            let strip =
                |r: &Run| r.trace.iter().map(|p| (p.stage, p.iteration, p.counts.filter)).collect::<Vec<_>>();
            assert_eq!(strip(a), strip(b));
            assert!(a.trace.windows(2).all(|w| w[0].seconds <= w[1].seconds && w[0].energy >= w[1].energy));
        }
    }

    #[test]
    fn half_weight_run_is_scored_with_the_full_weights() {
        let mut problem = problem();
        let contestants: Vec<Contestant> = [("qp", true), ("qp", false), ("qp+dc-neg", true)]
            .map(|(chain, half)| Contestant { chain: chain.parse().unwrap(), half })
            .into();
        let compare = |p: &Problem| {
            p.compare(&contestants, &Settings::default(), &[], &Part::whole(), &Silent, &mut |_| {})
        };
        assert!(compare(&problem).unwrap_err().to_string().contains("qp (half weights)"));

        let scene = synth::segmentation(40, 30, 3, 5).unwrap();
        let half = ModelBuilder::image(40, 30, 3)
            .unary(problem.model.unary().to_vec())
            .gaussian(2.0, 0.5)
            .bilateral(scene.image.data, 10.0, 13.0, 1.0)
            .build()
            .unwrap();
        problem.half = Some(half);
        let found = compare(&problem).unwrap();
        let names: Vec<&str> = found.runs.iter().map(|r| r.report.method.as_str()).collect();
        assert_eq!(names, ["qp (half weights)", "qp", "qp+dc-neg (half weights)"]);
        for (run, contestant) in found.runs.iter().zip(&contestants) {
            let scored = energy::of_labeling(&problem.model, &run.labeling).unwrap().total();
            assert_eq!(run.report.energy, scored, "{contestant}");
            assert_eq!(run.report.lower_bound.is_some(), !contestant.half, "a bound of the weaker problem");
            let model = if contestant.half { problem.half.as_ref().unwrap() } else { &problem.model };
            let alone = relaxcrf::Solve::new(model).method(&contestant.chain).run();
            assert_eq!(run.labeling, alone.unwrap().beliefs.argmax(), "{contestant}");
        }
        assert_ne!(found.runs[0].labeling, found.runs[1].labeling);
    }

    #[test]
    fn quality_of_a_small_example_equals_the_value_by_hand() {
        let Quality::Segmentation { accuracy, mean_iou } =
            segmentation(&[0, 0, 1, 2, 1], &[0, 1, 1, 255, 1], 3)
        else {
            panic!()
        };
        assert_eq!(accuracy, 0.75);
        // Label 0: 1 of 2, label 1: 2 of 3; label 2 stands only where the truth is void.
        assert!((mean_iou - (0.5 + 2.0 / 3.0) / 2.0).abs() < 1e-12);
    }

    #[test]
    fn methods_that_do_not_fit_are_left_out_with_the_reason() {
        let mut problem = problem();
        let rows = problem.model.unary().to_vec();
        let odd =
            relaxcrf::model::Compatibility::matrix(3, vec![0.0, 1.0, 9.0, 1.0, 0.0, 1.0, 9.0, 1.0, 0.0]);
        problem.model = ModelBuilder::image(40, 30, 3)
            .unary(rows)
            .gaussian(2.0, 1.0)
            .compatibility(odd.unwrap())
            .build()
            .unwrap();
        let pipelines: Vec<Contestant> =
            ["mf5", "dc-neg"].map(|m| Contestant::new(m.parse().unwrap())).into();
        let found = problem
            .compare(&pipelines, &Settings::default(), &[], &Part::whole(), &Silent, &mut |_| {})
            .unwrap();
        assert_eq!((found.runs.len(), found.skipped.len()), (1, 1));
        assert!(found.skipped[0].contains("dc-neg"));
        assert!(
            problem
                .compare(&pipelines[1..], &Settings::default(), &[], &Part::whole(), &Silent, &mut |_| {})
                .is_err()
        );
    }
}
