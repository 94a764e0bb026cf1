//! Progress of experiments: traits that the program implements for the screen, and a silent implementation for tests.

use std::ops::ControlFlow;

use relaxcrf::solve::{Pipeline, Progress, Settings};

use crate::messages::Messages;

/// Which part of a longer run some work is.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Where in the longer run: `method 3 of 12: `.
    pub place: String,
    /// Fraction of the longer run that comes before this part.
    pub start: f64,
    /// Fraction of the longer run that this part is.
    pub fraction: f64,
}

impl Default for Part {
    fn default() -> Self {
        Self::whole()
    }
}

impl Part {
    /// The whole run.
    pub fn whole() -> Self {
        Self { place: String::new(), start: 0.0, fraction: 1.0 }
    }

    /// The part `index` (from 0) of `count` equal ones: `what` is `method` or `pair`.
    pub fn part(&self, what: &str, index: usize, count: usize) -> Self {
        let fraction = self.fraction / count.max(1) as f64;
        let place = format!("{}{what} {} of {count}: ", self.place, index + 1);
        Self { place, start: self.start + fraction * index as f64, fraction }
    }
}

/// Follows an experiment.
pub trait Observer: Sync {
    /// Follows one run of a method, or its preparation.
    fn follow(&self, part: &Part, preparing: &str) -> Box<dyn RunObserver + '_>;

    /// Counts results, `done` of `total` of which exist already; `unit` is their name in the plural.
    fn count(&self, total: usize, done: usize, unit: &'static str) -> Box<dyn Counter + '_>;

    /// Shows one line about a finished result.
    fn tell(&self, text: &str);
}

/// Follows one run of a method.
pub trait RunObserver {
    /// Shows the current activity.
    fn say(&self, now: &str);

    /// Begins to follow the iterations of a run.
    fn start(&mut self, pipeline: &Pipeline, settings: &Settings);

    /// Follows one iteration; the run stops on `Break`.
    fn show(&mut self, progress: &Progress) -> ControlFlow<()>;

    /// Messages that do not run into the progress shown.
    fn messages(&self) -> Messages;
}

/// Counts results; shared by threads.
pub trait Counter: Sync {
    /// Shows the current activity.
    fn say(&self, now: &str);

    /// Counts one more result.
    fn step(&self);

    /// Messages that do not run into the progress shown.
    fn messages(&self) -> Messages;
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Observer for Silent {
    fn follow(&self, _: &Part, _: &str) -> Box<dyn RunObserver + '_> {
        Box::new(Self)
    }

    fn count(&self, _: usize, _: usize, _: &'static str) -> Box<dyn Counter + '_> {
        Box::new(Self)
    }

    fn tell(&self, _: &str) {}
}

impl RunObserver for Silent {
    fn say(&self, _: &str) {}

    fn start(&mut self, _: &Pipeline, _: &Settings) {}

    fn show(&mut self, _: &Progress) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn messages(&self) -> Messages {
        Messages::silent()
    }
}

impl Counter for Silent {
    fn say(&self, _: &str) {}

    fn step(&self) {}

    fn messages(&self) -> Messages {
        Messages::silent()
    }
}
