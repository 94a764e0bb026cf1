//! A line of progress on a terminal's standard error; nothing anywhere else.

use std::ops::ControlFlow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use relaxcrf::solve::{Pipeline, Progress, Settings};

use crate::report::{Messages, complain};

/// A thread that turns the bar, where anybody sees it.
fn keep_moving(bar: &ProgressBar) {
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(200));
    }
}

/// Shows how far a run is.
pub struct Meter {
    bar: ProgressBar,
    /// Most iterations of each stage.
    limits: Vec<u64>,
}

impl Meter {
    /// A meter that says what is being prepared until the run starts.
    pub fn new(quiet: bool, preparing: &str) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(None, target).with_style(ProgressStyle::default_spinner());
        bar.set_message(preparing.to_string());
        keep_moving(&bar);
        Self { bar, limits: Vec::new() }
    }

    /// Says what is going on now.
    pub fn say(&self, now: &str) {
        self.bar.set_message(now.to_string());
    }

    /// Messages that do not run into the line of progress.
    pub fn messages(&self, quiet: bool) -> Messages {
        Messages::new(quiet, self.bar.clone())
    }

    /// Switches to the iterations of a run.
    pub fn start(&mut self, pipeline: &Pipeline, settings: &Settings) {
        let limit = |own: usize| settings.max_iterations.unwrap_or(own) as u64;
        self.limits = pipeline.stages().iter().map(|m| limit(m.default_iterations())).collect();
        // The template is fixed; should it ever be wrong, the default style serves as well.
        if let Ok(style) = ProgressStyle::with_template("{elapsed:>4} {bar:24} {pos}/{len} {msg}") {
            self.bar.set_style(style);
        }
    }

    /// One iteration was made.
    pub fn show(&self, progress: &Progress) -> ControlFlow<()> {
        self.bar.set_length(self.limits.get(progress.stage).copied().unwrap_or(0));
        self.bar.set_position(progress.iteration as u64);
        let bound = progress.lower_bound.map_or(String::new(), |b| format!(", at least {b:.6e}"));
        self.say(&format!("{}: energy {:.6e}{bound}", progress.method, progress.energy));
        ControlFlow::Continue(())
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How many of a known number of results are there; shared by threads.
pub struct Tally {
    bar: ProgressBar,
}

impl Tally {
    /// `done` of `total` are there already.
    pub fn new(quiet: bool, total: usize, done: usize) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        // The template is fixed; should it ever be wrong, the default style serves as well.
        if let Ok(style) =
            ProgressStyle::with_template("{elapsed:>4} {bar:24} {pos}/{len} {per_sec} {eta:>4} left  {msg}")
        {
            bar.set_style(style);
        }
        bar.set_position(done as u64);
        // What earlier runs did says nothing about how fast this one is.
        bar.reset_eta();
        keep_moving(&bar);
        Self { bar }
    }

    /// Says what is going on now.
    pub fn say(&self, now: &str) {
        self.bar.set_message(now.to_string());
    }

    /// One more is there.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// Messages that do not run into the line of progress.
    pub fn messages(&self, quiet: bool) -> Messages {
        Messages::new(quiet, self.bar.clone())
    }

    /// Something went wrong and the rest goes on.
    pub fn complain(&self, text: &str) {
        self.bar.suspend(|| complain(text));
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
