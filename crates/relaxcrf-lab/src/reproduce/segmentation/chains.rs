//! Chains of methods on one model, without running a common beginning twice: `qp`, `qp+dc-neg` and
//! `qp+dc-neg+lp` take no longer than the last alone.

use std::collections::HashMap;

use anyhow::Result;
use relaxcrf::solve::{Method, Pipeline, Settings, Solve, Status};
use relaxcrf::{Beliefs, Labeling, Model, energy};

/// Where a chain arrived, with what all its stages cost.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub beliefs: Beliefs,
    /// Of the most believed labels.
    pub energy: f64,
    pub best: Labeling,
    pub best_energy: f64,
    pub lower_bound: Option<f64>,
    pub status: Status,
    pub seconds: f64,
    pub filter_calls: usize,
    pub ordered_calls: usize,
    pub iterations: usize,
}

impl Outcome {
    /// The same labels under another model's energy; bounds are not carried over.
    pub fn scored_by(mut self, model: &Model) -> Result<Self> {
        let own = self.beliefs.argmax();
        self.energy = energy::of_labeling(model, &own)?.total();
        self.best_energy = energy::of_labeling(model, &self.best)?.total();
        if self.energy < self.best_energy {
            (self.best, self.best_energy) = (own, self.energy);
        }
        self.lower_bound = None;
        Ok(self)
    }
}

/// Runs chains and remembers their stages.
pub struct Chains<'m> {
    model: &'m Model,
    settings: Settings,
    /// Most iterations of an LP stage; 0 for the method's own limit.
    lp_iterations: usize,
    done: HashMap<String, Outcome>,
}

impl<'m> Chains<'m> {
    /// Nothing run yet.
    pub fn new(model: &'m Model, settings: Settings, lp_iterations: usize) -> Self {
        Self { model, settings, lp_iterations, done: HashMap::new() }
    }

    /// The same as running the chain in one go.
    pub fn run(&mut self, chain: &Pipeline) -> Result<Outcome> {
        let mut name = String::new();
        let mut before: Option<Outcome> = None;
        for stage in chain.stages() {
            name = if name.is_empty() { stage.to_string() } else { format!("{name}+{stage}") };
            let now = match self.done.get(&name) {
                Some(known) => known.clone(),
                None => {
                    let outcome = self.stage(stage, before)?;
                    self.done.insert(name.clone(), outcome.clone());
                    outcome
                }
            };
            before = Some(now);
        }
        before.ok_or_else(|| anyhow::anyhow!("the chain has no stages"))
    }

    fn stage(&self, stage: &Method, before: Option<Outcome>) -> Result<Outcome> {
        let mut settings = self.settings.clone();
        if self.lp_iterations > 0 && matches!(stage.info().name, "lp" | "tree-lp") {
            settings.max_iterations = Some(self.lp_iterations);
        }
        let start = before.as_ref().map(|b| b.beliefs.clone());
        let solution = Solve::new(self.model).method(*stage).init(start).settings(&settings).run()?;
        let mut outcome = Outcome {
            energy: solution.final_energy.total(),
            best_energy: solution.best.energy.total(),
            lower_bound: solution.lower_bound.as_ref().map(|b| b.value),
            beliefs: solution.beliefs,
            best: solution.best.labeling,
            status: solution.status,
            seconds: solution.seconds,
            filter_calls: solution.counts.filter,
            ordered_calls: solution.counts.ordered,
            iterations: solution.iterations,
        };
        if let Some(before) = before {
            if before.best_energy <= outcome.best_energy {
                (outcome.best, outcome.best_energy) = (before.best, before.best_energy);
            }
            let bounds = [before.lower_bound, outcome.lower_bound];
            outcome.lower_bound = bounds.into_iter().flatten().max_by(f64::total_cmp);
            outcome.seconds += before.seconds;
            outcome.filter_calls += before.filter_calls;
            outcome.ordered_calls += before.ordered_calls;
            outcome.iterations += before.iterations;
        }
        Ok(outcome)
    }
}

#[cfg(test)]
mod tests {
    use relaxcrf::ModelBuilder;

    use super::*;
    use crate::synth;

    #[test]
    fn a_chain_in_stages_is_the_chain_in_one_go() {
        let scene = synth::segmentation(40, 30, 4, 3).unwrap();
        let model = ModelBuilder::image(40, 30, 4)
            .probabilities(&scene.probabilities)
            .unwrap()
            .gaussian(3.0, 1.0)
            .bilateral(scene.image.data.clone(), 20.0, 13.0, 3.0)
            .build()
            .unwrap();
        let mut chains = Chains::new(&model, Settings::default(), 0);
        for name in ["unary", "qp", "qp+dc-neg", "qp+dc-neg+lp", "mf+qp", "mf5"] {
            let chain: Pipeline = name.parse().unwrap();
            let whole = Solve::new(&model).method(&chain).run();
            let (whole, parts) = (whole.unwrap(), chains.run(&chain).unwrap());
            assert_eq!(parts.beliefs.as_slice(), whole.beliefs.as_slice(), "{name}");
            assert_eq!(parts.energy, whole.final_energy.total(), "{name}");
            assert_eq!(parts.best_energy, whole.best.energy.total(), "{name}");
            assert_eq!(parts.lower_bound, whole.lower_bound.map(|b| b.value), "{name}");
            assert_eq!(parts.iterations, whole.iterations, "{name}");
        }
        assert_eq!(chains.done.len(), 7);
    }
}
