//! Progress on standard error: a bar on a terminal, a line every ten seconds or tenth of the work elsewhere, nothing with `--quiet`.

mod lines;

use std::ops::ControlFlow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use relaxcrf::solve::{Pipeline, Progress, Settings};
use relaxcrf_lab::messages::Messages;
use relaxcrf_lab::progress::{Counter, Observer, Part, RunObserver};

pub use self::lines::begin;
use self::lines::{Lines, State};
use crate::terminal::complain;

/// Shows the progress of experiments on standard error.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    pub quiet: bool,
}

impl Observer for Screen {
    fn follow(&self, part: &Part, preparing: &str) -> Box<dyn RunObserver + '_> {
        Box::new(Meter::of_part(self.quiet, part.clone(), preparing))
    }

    fn count(&self, total: usize, done: usize, unit: &'static str) -> Box<dyn Counter + '_> {
        Box::new(Tally::new(self.quiet, total, done).counting(unit))
    }

    fn tell(&self, text: &str) {
        if !self.quiet {
            complain(text);
        }
    }
}

/// A bar on a terminal, or the lines in place of it.
#[derive(Debug)]
struct Display {
    bar: ProgressBar,
    lines: Option<Lines>,
    quiet: bool,
    part: Part,
}

impl Display {
    fn new(quiet: bool, part: Part, length: Option<u64>, state: State) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(length, target);
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        let state = State { part: part.clone(), ..state };
        let lines = (!quiet && bar.is_hidden()).then(|| Lines::new(state));
        Self { bar, lines, quiet, part }
    }

    fn style(&self, template: &str) {
        // The templates are constants, so this cannot fail; keep the style before anyway.
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.bar.set_style(style);
        }
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        if let Some(lines) = &self.lines {
            lines.update(change);
        }
    }

    fn messages(&self) -> Messages {
        let bar = self.bar.clone();
        Messages::new(self.quiet, move |text| bar.suspend(|| complain(text)))
    }

    fn say(&self, now: &str) {
        self.bar.set_message(format!("{}{now}", self.part.place));
        self.update(|state| state.message = now.to_string());
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// Shows how far a run of a method is.
pub struct Meter {
    display: Display,
    /// Largest number of iterations of each stage.
    limits: Vec<u64>,
    time_limit: Option<Duration>,
    /// The stage that is counted now.
    stage: Option<usize>,
}

impl Meter {
    /// A meter that shows `preparing` until the run starts; silent if `quiet`.
    pub fn new(quiet: bool, preparing: &str) -> Self {
        Self::of_part(quiet, Part::whole(), preparing)
    }

    fn of_part(quiet: bool, part: Part, preparing: &str) -> Self {
        let state = State { is_limit: true, ..State::default() };
        let display = Display::new(quiet, part, None, state);
        display.bar.set_style(ProgressStyle::default_spinner());
        display.say(preparing);
        Self { display, limits: Vec::new(), time_limit: None, stage: None }
    }
}

impl RunObserver for Meter {
    fn say(&self, now: &str) {
        self.display.say(now);
    }

    fn messages(&self) -> Messages {
        self.display.messages()
    }

    fn start(&mut self, pipeline: &Pipeline, settings: &Settings) {
        let limit = |own: usize| settings.max_iterations.unwrap_or(own) as u64;
        self.limits = pipeline.stages().iter().map(|m| limit(m.default_iterations())).collect();
        (self.time_limit, self.stage) = (settings.time_limit, None);
        self.display.style("{elapsed:>4} {bar:24} {pos}/{len} {msg}");
        self.display.update(|state| state.count("", 0, 0, None));
        self.say(&format!("{pipeline}: first iteration"));
    }

    fn show(&mut self, progress: &Progress) -> ControlFlow<()> {
        let Progress { stage, iteration, .. } = *progress;
        let limit = self.limits.get(stage).copied().unwrap_or(0);
        self.display.bar.set_length(limit);
        self.display.bar.set_position(iteration as u64);
        let bound = progress.lower_bound.map_or(String::new(), |b| format!(", at least {b:.6e}"));
        let energy = format!("energy {:.6e}{bound}", progress.energy);
        self.display.bar.set_message(format!("{}{}: {energy}", self.display.part.place, progress.method));
        let is_new = self.stage.replace(stage) != Some(stage);
        let (part, stages) = (&self.display.part, self.limits.len());
        self.display.update(|state| {
            if is_new {
                let stage = part.part("stage", stage, stages);
                state.part = Part { place: part.place.clone(), ..stage };
                state.remaining_of = match (stages, part.place.is_empty()) {
                    (..=1, true) => "",
                    (..=1, false) => " of this method",
                    _ => " of this stage",
                };
                // The first iteration is over already: it counts in, but its time is not known.
                state.count("iteration", limit, iteration as u64, self.time_limit);
            }
            state.done = iteration as u64;
            state.message = format!("{}: {energy}", progress.method);
        });
        ControlFlow::Continue(())
    }
}

/// Counts results whose number is known before; shared by threads.
pub struct Tally {
    display: Display,
}

impl Tally {
    /// Starts with `done` of `total` results.
    pub fn new(quiet: bool, total: usize, done: usize) -> Self {
        let display = Display::new(quiet, Part::whole(), Some(total as u64), State::default());
        display.style("{elapsed:>4} {bar:24} {pos}/{len} {per_sec} {eta:>4} left  {msg}");
        display.bar.set_position(done as u64);
        // Results of earlier runs say nothing about the pace of this one.
        display.bar.reset_eta();
        display.update(|state| state.count("done", total as u64, done as u64, None));
        Self { display }
    }

    /// Names the counted items, in the plural.
    pub fn counting(self, unit: &'static str) -> Self {
        self.display.update(|state| state.unit = unit);
        self
    }

    /// Counts a result of an earlier run, which is left out of the pace.
    pub fn skip(&self) {
        self.display.bar.inc(1);
        self.display.update(|state| (state.done, state.skipped) = (state.done + 1, state.skipped + 1));
    }

    /// Shows an error that does not end the run.
    pub fn complain(&self, text: &str) {
        self.display.bar.suspend(|| complain(text));
    }
}

impl Counter for Tally {
    fn say(&self, now: &str) {
        self.display.say(now);
    }

    fn step(&self) {
        self.display.bar.inc(1);
        self.display.update(|state| state.done += 1);
    }

    fn messages(&self) -> Messages {
        self.display.messages()
    }
}
