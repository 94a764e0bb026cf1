//! Chains of methods on one model, without running a common beginning twice: `qp`, `qp+dc-neg` and `qp+dc-neg+lp`
//! take no longer than the last alone.

use relaxcrf::solve::{Method, Pipeline, Progress, ScoredLabeling, Settings, Solution, Solve, Status};
use relaxcrf::{Model, Result, energy};

use crate::progress::RunObserver;

/// When a stage of a method ends, where the run's settings do not say.
#[derive(Debug, Clone)]
pub struct StageEnd {
    /// The method's name, without options.
    pub method: &'static str,
    /// Most iterations.
    pub iterations: usize,
    /// Tolerance, if other than usual.
    pub tolerance: Option<f64>,
}

/// Runs chains on a model and remembers where their beginnings ended.
pub struct Chains<'m> {
    model: &'m Model,
    settings: Settings,
    ends: Vec<StageEnd>,
    /// Beginnings of chains that are still to be run, with where they ended.
    known: Vec<(Vec<Method>, Solution)>,
}

impl<'m> Chains<'m> {
    /// Nothing is run yet; `ends` tell when stages of some methods end, a time limit holds for each stage.
    pub fn new(model: &'m Model, settings: Settings, ends: &[StageEnd]) -> Self {
        Self { model, settings, ends: ends.to_vec(), known: Vec::new() }
    }

    /// Runs a chain, from where its longest known beginning ended. Keeps what chains in `later` begin with.
    ///
    /// The result is that of the whole chain: its time and its filter calls include the beginning.
    pub fn run(
        &mut self,
        chain: &Pipeline,
        later: &[&Pipeline],
        observer: &mut dyn RunObserver,
    ) -> Result<Solution> {
        let model = self.model;
        let stages = chain.stages();
        let is_needed = |beginning: &[Method]| {
            later.iter().any(|l| l.is_one_chain() && l.stages().starts_with(beginning))
        };
        let known = self.known.iter().filter(|(beginning, _)| stages.starts_with(beginning));
        let known = known.max_by_key(|(beginning, _)| beginning.len()).filter(|_| chain.is_one_chain());
        let done = known.map_or(0, |(beginning, _)| beginning.len());
        let mut found = known.map(|(_, solution)| solution.clone());
        self.known.retain(|(beginning, _)| is_needed(beginning));
        if !chain.is_one_chain() {
            observer.start(chain, &self.settings);
            return Solve::new(model)
                .method(chain)
                .settings(&self.settings)
                .observe(|p| observer.show(p))
                .run();
        }
        for (stage, method) in stages.iter().enumerate().skip(done) {
            if found.as_ref().is_some_and(|s| s.status == Status::GapReached) {
                // Nothing more was asked for.
                break;
            }
            let settings = self.settings_of(method);
            let alone = Pipeline::from(*method);
            observer.start(&alone, &settings);
            // To the observer, each stage is a run of its own.
            let show = |p: &Progress| observer.show(&Progress { stage: 0, ..p.clone() });
            let run = Solve::new(model).method(alone).continue_from(found.as_ref()).settings(&settings);
            let whole = run.observe(show).run()?;
            if is_needed(&stages[..=stage]) {
                self.known.push((stages[..=stage].to_vec(), whole.clone()));
            }
            found = Some(whole);
        }
        // A chain has at least one stage: an empty name is no method.
        found.map_or_else(|| Solve::new(model).method(chain).settings(&self.settings).run(), Ok)
    }

    /// The settings with the usual end of this method's stages.
    fn settings_of(&self, method: &Method) -> Settings {
        let text = method.to_string();
        let end = self.ends.iter().find(|e| text.split(':').next() == Some(e.method));
        Settings {
            max_iterations: self.settings.max_iterations.or(end.map(|e| e.iterations)),
            tolerance: self.settings.tolerance.or(end.and_then(|e| e.tolerance)),
            ..self.settings.clone()
        }
    }
}

/// Scores what was found on another model by this one: the most believed labels, the better of them and the best
/// labelling, no bound.
pub fn scored_by(model: &Model, found: &Solution) -> Result<Solution> {
    let labeling = found.beliefs.argmax();
    let energy = energy::of_labeling(model, &labeling)?;
    let other = energy::of_labeling(model, &found.best.labeling)?;
    let best = if energy.total() < other.total() {
        ScoredLabeling { labeling: labeling.clone(), energy }
    } else {
        ScoredLabeling { labeling: found.best.labeling.clone(), energy: other }
    };
    // Energies on the way are the other model's.
    let trace = found.trace.last().map(|p| Progress {
        energy: energy.total(),
        own_energy: Some(energy.total()),
        lower_bound: None,
        ..p.clone()
    });
    Ok(Solution {
        labeling,
        energy,
        best,
        final_energy: energy,
        lower_bound: None,
        trace: trace.into_iter().collect(),
        ..found.clone()
    })
}

#[cfg(test)]
mod tests {
    use relaxcrf::ModelBuilder;

    use super::*;
    use crate::progress::Silent;
    use crate::synth;

    #[test]
    fn chain_run_in_stages_equals_the_chain_run_at_once() {
        let scene = synth::segmentation(40, 30, 4, 3).unwrap();
        let model = ModelBuilder::image(40, 30, 4)
            .probabilities(&scene.probabilities)
            .unwrap()
            .gaussian(3.0, 1.0)
            .bilateral(scene.image.data.clone(), 20.0, 13.0, 3.0)
            .build()
            .unwrap();
        let mut chains = Chains::new(&model, Settings::default(), &[]);
        let names = ["unary", "qp+dc-neg", "qp", "qp+dc-neg+lp", "mf+qp", "mf5"];
        let all: Vec<Pipeline> = names.iter().map(|name| name.parse().unwrap()).collect();
        for (k, chain) in all.iter().enumerate() {
            let whole = Solve::new(&model).method(chain).run();
            let later: Vec<&Pipeline> = all[k + 1..].iter().collect();
            let (whole, parts) = (whole.unwrap(), chains.run(chain, &later, &mut Silent).unwrap());
            assert_eq!(parts.beliefs.as_slice(), whole.beliefs.as_slice(), "{chain}");
            assert_eq!(parts.labeling, whole.labeling, "{chain}");
            assert_eq!(parts.final_energy.total(), whole.final_energy.total(), "{chain}");
            assert_eq!(parts.best.energy.total(), whole.best.energy.total(), "{chain}");
            assert_eq!(parts.lower_bound.map(|b| b.value), whole.lower_bound.map(|b| b.value), "{chain}");
            assert_eq!(
                (parts.iterations, parts.counts.filter),
                (whole.iterations, whole.counts.filter),
                "{chain}"
            );
        }
        assert!(chains.known.is_empty(), "nothing is kept that no later chain needs");
    }

    #[test]
    fn beginning_that_a_later_chain_needs_is_not_run_again() {
        let scene = synth::segmentation(20, 15, 3, 3).unwrap();
        let model = ModelBuilder::image(20, 15, 3)
            .probabilities(&scene.probabilities)
            .unwrap()
            .gaussian(3.0, 1.0)
            .build()
            .unwrap();
        let mut chains = Chains::new(&model, Settings::default(), &[]);
        let [first, second]: [Pipeline; 2] = ["qp+dc-gen", "qp+dc-neg"].map(|name| name.parse().unwrap());
        let first = chains.run(&first, &[&second], &mut Silent).unwrap();
        assert_eq!(chains.known.iter().map(|(k, _)| k.len()).collect::<Vec<_>>(), [1]);
        let beginning = chains.known[0].1.seconds;
        let second = chains.run(&second, &[], &mut Silent).unwrap();
        assert!(first.seconds >= beginning && second.seconds >= beginning, "both include the same time");
    }
}
