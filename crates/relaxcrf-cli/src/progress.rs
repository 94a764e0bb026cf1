//! Progress on standard error: a bar on a terminal, a line now and then elsewhere, nothing with `--quiet`.

mod lines;

use std::ops::ControlFlow;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use relaxcrf::solve::{Pipeline, Progress, Settings};

pub use self::lines::begin;
use self::lines::{Lines, State};
use crate::report::{Messages, complain};

/// Which part of a longer run some work is, and whether its progress is shown.
#[derive(Debug, Clone)]
pub struct Scope {
    quiet: bool,
    place: String,
    /// Share of the run before this part, and the share that the part is.
    part: (f64, f64),
}

impl From<bool> for Scope {
    /// The whole run; silent if `quiet`.
    fn from(quiet: bool) -> Self {
        Self { quiet, place: String::new(), part: (0.0, 1.0) }
    }
}

impl Scope {
    /// The part `index` (from 0) of `count` equal ones: `what` is `method` or `pair`.
    pub fn part(&self, what: &str, index: usize, count: usize) -> Self {
        let share = self.part.1 / count.max(1) as f64;
        let place = format!("{}{what} {} of {count}: ", self.place, index + 1);
        Self { quiet: self.quiet, place, part: (self.part.0 + share * index as f64, share) }
    }
}

/// A bar on a terminal, or the lines in place of it.
#[derive(Debug)]
struct Display {
    bar: ProgressBar,
    lines: Option<Lines>,
    scope: Scope,
}

impl Display {
    fn new(scope: &Scope, length: Option<u64>, state: State) -> Self {
        let target = if scope.quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(length, target);
        if !bar.is_hidden() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        let state = State { place: scope.place.clone(), part: scope.part, ..state };
        let lines = (!scope.quiet && bar.is_hidden()).then(|| Lines::new(state));
        Self { bar, lines, scope: scope.clone() }
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

    fn say(&self, now: &str) {
        self.bar.set_message(format!("{}{now}", self.scope.place));
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
    /// Most iterations of each stage.
    limits: Vec<u64>,
    time_limit: Option<Duration>,
    /// The stage that is counted now.
    stage: Option<usize>,
}

impl Meter {
    /// A meter that says what is being prepared until the run starts.
    pub fn new(scope: impl Into<Scope>, preparing: &str) -> Self {
        let state = State { is_limit: true, ..State::default() };
        let display = Display::new(&scope.into(), None, state);
        display.bar.set_style(ProgressStyle::default_spinner());
        display.say(preparing);
        Self { display, limits: Vec::new(), time_limit: None, stage: None }
    }

    /// Says what is going on now.
    pub fn say(&self, now: &str) {
        self.display.say(now);
    }

    /// Messages that do not run into the line of progress.
    pub fn messages(&self, quiet: bool) -> Messages {
        Messages::new(quiet, self.display.bar.clone())
    }

    /// Switches to the iterations of a run.
    pub fn start(&mut self, pipeline: &Pipeline, settings: &Settings) {
        let limit = |own: usize| settings.max_iterations.unwrap_or(own) as u64;
        self.limits = pipeline.stages().iter().map(|m| limit(m.default_iterations())).collect();
        (self.time_limit, self.stage) = (settings.time_limit, None);
        self.display.style("{elapsed:>4} {bar:24} {pos}/{len} {msg}");
        self.display.update(|state| state.count("", 0, 0, None));
        self.say(&format!("{pipeline}: first iteration"));
    }

    /// One iteration was made.
    pub fn show(&mut self, progress: &Progress) -> ControlFlow<()> {
        let Progress { stage, iteration, .. } = *progress;
        let limit = self.limits.get(stage).copied().unwrap_or(0);
        self.display.bar.set_length(limit);
        self.display.bar.set_position(iteration as u64);
        let bound = progress.lower_bound.map_or(String::new(), |b| format!(", at least {b:.6e}"));
        let energy = format!("energy {:.6e}{bound}", progress.energy);
        self.display.bar.set_message(format!("{}{}: {energy}", self.display.scope.place, progress.method));
        let is_new = self.stage.replace(stage) != Some(stage);
        let (scope, stages) = (&self.display.scope, self.limits.len());
        self.display.update(|state| {
            if is_new {
                state.part = scope.part("stage", stage, stages).part;
                state.remaining_of = match (stages, scope.place.is_empty()) {
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
    /// `done` of `total` are there already.
    pub fn new(scope: impl Into<Scope>, total: usize, done: usize) -> Self {
        let display = Display::new(&scope.into(), Some(total as u64), State::default());
        display.style("{elapsed:>4} {bar:24} {pos}/{len} {per_sec} {eta:>4} left  {msg}");
        display.bar.set_position(done as u64);
        // What earlier runs did says nothing about how fast this one is.
        display.bar.reset_eta();
        display.update(|state| state.count("done", total as u64, done as u64, None));
        Self { display }
    }

    /// Says what is counted, in the plural.
    pub fn counting(self, unit: &'static str) -> Self {
        self.display.update(|state| state.unit = unit);
        self
    }

    /// Says what is going on now.
    pub fn say(&self, now: &str) {
        self.display.say(now);
    }

    /// One more is there.
    pub fn step(&self) {
        self.display.bar.inc(1);
        self.display.update(|state| state.done += 1);
    }

    /// One more is there that had been made before, and tells nothing about the pace.
    pub fn skip(&self) {
        self.display.bar.inc(1);
        self.display.update(|state| (state.done, state.skipped) = (state.done + 1, state.skipped + 1));
    }

    /// Messages that do not run into the line of progress.
    pub fn messages(&self, quiet: bool) -> Messages {
        Messages::new(quiet, self.display.bar.clone())
    }

    /// Something went wrong and the rest goes on.
    pub fn complain(&self, text: &str) {
        self.display.bar.suspend(|| complain(text));
    }
}
