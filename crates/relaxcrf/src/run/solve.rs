//! How a run is asked for.

use std::ops::ControlFlow;
use std::time::Duration;

use super::parts;
use super::solution::{Progress, Solution};
use crate::auto::{self, Plan};
use crate::beliefs::Beliefs;
use crate::error::{Error, Result};
use crate::methods::{Method, Pipeline};
use crate::model::Model;
use crate::solver::Settings;

/// Sees every iteration, and says whether to go on.
type Observer<'a> = dyn FnMut(&Progress) -> ControlFlow<()> + 'a;

/// A run to be configured: a method, where it starts, and when it ends.
///
/// ```
/// use relaxcrf::{Method, ModelBuilder, Solve};
/// use std::time::Duration;
///
/// # fn main() -> relaxcrf::Result<()> {
/// # let model = ModelBuilder::points(3, 2).unary(vec![0.0, 1.0, 1.0, 0.0, 0.2, 0.3]).features(vec![0.0, 1.0, 2.0], 1, 0.5).build()?;
/// let solution = Solve::new(&model).method(Method::MF).time_limit(Duration::from_secs(2)).run()?;
/// // Goes on from there with another method.
/// let better = Solve::new(&model).method(Method::DC_NEG).continue_from(&solution).run()?;
/// assert!(better.best.energy.total() <= solution.best.energy.total());
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is solved before `run`"]
pub struct Solve<'a> {
    model: &'a Model,
    pipeline: Pipeline,
    init: Option<Beliefs>,
    earlier: Option<&'a Solution>,
    settings: Settings,
    observer: Option<Box<Observer<'a>>>,
}

impl<'a> Solve<'a> {
    /// A run of `auto` with the default settings.
    pub fn new(model: &'a Model) -> Self {
        Self {
            model,
            pipeline: Pipeline::from(Method::AUTO),
            init: None,
            earlier: None,
            settings: Settings::default(),
            observer: None,
        }
    }

    /// Chooses the method, or a chain of methods.
    pub fn method(mut self, method: impl Into<Pipeline>) -> Self {
        self.pipeline = method.into();
        self
    }

    /// Chooses the method by name: `mf`, `qp+dc-neg`, `lp:bins=32`.
    pub fn method_name(self, name: &str) -> Result<Self> {
        Ok(self.method(name.parse::<Pipeline>()?))
    }

    /// Starts every chain from these beliefs in place of `softmax(-unary)`.
    pub fn init(mut self, beliefs: impl Into<Option<Beliefs>>) -> Self {
        self.init = beliefs.into();
        self
    }

    /// Starts from the beliefs of an earlier run on the same model, and returns both runs as one: time, counts and trace
    /// are those of both, the best labelling and the highest bound are those of either.
    pub fn continue_from(mut self, earlier: impl Into<Option<&'a Solution>>) -> Self {
        self.earlier = earlier.into();
        self
    }

    /// Replaces all limits and choices.
    pub fn settings(mut self, settings: &Settings) -> Self {
        self.settings = settings.clone();
        self
    }

    /// Stops a stage after so many iterations.
    pub fn max_iterations(mut self, iterations: usize) -> Self {
        self.settings.max_iterations = Some(iterations);
        self
    }

    /// Stops a stage when an iteration improves its objective by less than this fraction of the model's scale.
    pub fn tolerance(mut self, fraction: f64) -> Self {
        self.settings.tolerance = Some(fraction);
        self
    }

    /// Stops after this time, between iterations.
    pub fn time_limit(mut self, limit: Duration) -> Self {
        self.settings.time_limit = Some(limit);
        self
    }

    /// Stops when `(energy - lower bound) / |energy|` is at most this.
    pub fn until_gap(mut self, gap: f64) -> Self {
        self.settings.until_gap = Some(gap);
        self
    }

    /// Sets the seed of everything random.
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = seed;
        self
    }

    /// Shows every iteration to `observer`, which stops the run by returning `Break`: the run then returns what it has.
    pub fn observe(mut self, observer: impl FnMut(&Progress) -> ControlFlow<()> + 'a) -> Self {
        self.observer = Some(Box::new(observer));
        self
    }

    /// Runs. Fails if the settings, the start or the model do not fit the method, or if memory is short.
    pub fn run(self) -> Result<Solution> {
        let Self { model, pipeline, init, earlier, settings, observer } = self;
        settings.check()?;
        let init = earlier.map(|e| &e.beliefs).or(init.as_ref());
        init.map_or(Ok(()), |beliefs| require_size(model, beliefs))?;
        let mut observer = observer.unwrap_or_else(|| Box::new(|_| ControlFlow::Continue(())));
        let plan = match pipeline.is_auto() {
            true => auto::plan(model, &settings),
            false => Plan::of(pipeline.clone()),
        };
        parts::run(model, &plan, pipeline.answer(), (init, earlier), &settings, &mut *observer)
    }
}

impl Model {
    /// Runs a method, or a chain such as `qp+dc-neg`, with the default settings. [`Solve`] has all choices.
    pub fn solve(&self, method: &str) -> Result<Solution> {
        Solve::new(self).method_name(method)?.run()
    }
}

fn require_size(model: &Model, beliefs: &Beliefs) -> Result<()> {
    if beliefs.pixels() == model.pixels() && beliefs.labels() == model.labels() {
        return Ok(());
    }
    Err(Error::shape(
        "initial beliefs",
        format!("{} pixels x {} labels", beliefs.pixels(), beliefs.labels()),
        format!("{} x {}", model.pixels(), model.labels()),
    ))
}
