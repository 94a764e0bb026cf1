//! Lines of progress on a standard error that is not a terminal, such as the log of a CI job.
//!
//! All meters of a process share one schedule: a run of many short stages prints as seldom as one long stage does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use relaxcrf_lab::progress::Part;

use crate::terminal::complain;

/// Time before the first line, and between lines of a run that takes minutes.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(10);
/// Longest silence in a run that takes hours.
const MAX_INTERVAL: Duration = Duration::from_secs(60);
/// Fraction of the elapsed time that a run may stay silent once it has taken some minutes.
const SILENT_FRACTION: f64 = 0.05;
/// Shortest time between two lines, however fast the work goes.
const MIN_SPACING: Duration = Duration::from_secs(1);
/// Stack of the thread that prints lines while an image is being worked on.
const TICKER_STACK: usize = 256 << 10;

static STARTED: OnceLock<Instant> = OnceLock::new();
static INTERVAL_MS: AtomicU64 = AtomicU64::new(DEFAULT_INTERVAL.as_millis() as u64);
static SCHEDULE: Mutex<Schedule> = Mutex::new(Schedule { last: Duration::ZERO, tenths: 0 });

/// Starts the clock that lines show, and sets the time between lines.
pub fn begin(interval: Duration) {
    INTERVAL_MS.store(u64::try_from(interval.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    elapsed();
}

fn elapsed() -> Duration {
    STARTED.get_or_init(Instant::now).elapsed()
}

fn interval() -> Duration {
    Duration::from_millis(INTERVAL_MS.load(Ordering::Relaxed))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Decides when the next line is due.
#[derive(Debug, Default)]
struct Schedule {
    /// When the last line was printed.
    last: Duration,
    /// Tenths of the work at the last line.
    tenths: u64,
}

impl Schedule {
    /// Whether a line is due now: an interval after the last one, or as soon as another tenth of the work is done; never
    /// in a run's first interval. A line that is due counts as printed.
    fn is_due(&mut self, now: Duration, fraction: Option<f64>, interval: Duration) -> bool {
        let since = now.saturating_sub(self.last);
        let silence = now.mul_f64(SILENT_FRACTION).min(MAX_INTERVAL).max(interval);
        // The margin is for tenths that rounding puts a little below.
        let tenths = fraction.map_or(self.tenths, |fraction| (10.0 * fraction + 1e-9) as u64);
        let advanced = tenths > self.tenths && since >= interval.min(MIN_SPACING);
        if now < interval || (since < silence && !advanced) {
            return false;
        }
        *self = Self { last: now, tenths };
        true
    }
}

/// Progress of a piece of work.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Where in a longer run the work is.
    pub part: Part,
    /// Counted items, in the plural: `images`.
    pub unit: &'static str,
    pub done: u64,
    pub total: u64,
    /// Of `done`, those that took no time in this run.
    pub skipped: u64,
    /// Whether `total` is a limit that may not be reached.
    pub is_limit: bool,
    /// Current activity.
    pub message: String,
    /// The work that the remaining time is of, if not all: ` of this stage`.
    pub remaining_of: &'static str,
    /// When the counting began.
    pub began: Duration,
    /// When a time limit ends the work.
    pub deadline: Option<Duration>,
}

impl State {
    /// Starts to count, now.
    pub fn count(&mut self, unit: &'static str, total: u64, skipped: u64, time_limit: Option<Duration>) {
        let now = elapsed();
        (self.unit, self.total, self.done, self.skipped) = (unit, total, skipped, skipped);
        (self.began, self.deadline) = (now, time_limit.and_then(|limit| now.checked_add(limit)));
    }

    /// Fraction of the work that is done, of the whole run if this work is a part of one.
    fn fraction(&self) -> Option<f64> {
        let own = (self.total > 0).then(|| self.done.min(self.total) as f64 / self.total as f64)?;
        Some(self.part.start + self.part.fraction * own)
    }

    /// Expected time until the work is done, at the pace so far.
    fn remaining(&self, now: Duration) -> Option<Duration> {
        let (made, left) = (self.done.checked_sub(self.skipped)?, self.total.checked_sub(self.done)?);
        let pace = now.saturating_sub(self.began).as_secs_f64() / (made > 0).then_some(made as f64)?;
        let limit = self.deadline.map_or(Duration::MAX, |end| end.saturating_sub(now));
        Some(Duration::try_from_secs_f64(pace * left as f64).unwrap_or(Duration::MAX).min(limit))
    }

    /// One line: the place, counts, elapsed and remaining time.
    fn line(&self, now: Duration) -> String {
        let Self { part: Part { place, .. }, unit, done, total, message, remaining_of, .. } = self;
        let elapsed = format!("{} elapsed", shown(now));
        if *total == 0 || (self.is_limit && *done == 0) {
            return format!("{place}{message}, {elapsed}");
        }
        let percent = 100 * done / total;
        let (count, about) = if self.is_limit {
            (format!("{unit} {done} of at most {total}"), "at most")
        } else {
            (format!("{done} of {total} {unit}"), "about")
        };
        let remaining = self.remaining(now).filter(|_| done < total);
        let left = remaining.map_or(String::new(), |t| format!(", {about} {} left{remaining_of}", shown(t)));
        let message = if message.is_empty() { String::new() } else { format!("; {message}") };
        format!("{place}{count} ({percent}%), {elapsed}{left}{message}")
    }
}

/// Formats a time: `42 s`, `3 min 5 s`, `2 h 7 min`.
fn shown(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Prints lines for one piece of work: at every change of its state, and from a thread of its own in between.
#[derive(Debug)]
pub struct Lines {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// `None` once the work has ended.
    state: Mutex<Option<State>>,
    changed: Condvar,
}

impl Lines {
    pub fn new(state: State) -> Self {
        let shared = Arc::new(Shared { state: Mutex::new(Some(state)), changed: Condvar::new() });
        let own = Arc::clone(&shared);
        // Without the thread, lines come only when something is done.
        let _ = thread::Builder::new().stack_size(TICKER_STACK).spawn(move || own.tick());
        Self { shared }
    }

    /// Changes the state, and prints a line if one is due.
    pub fn update(&self, change: impl FnOnce(&mut State)) {
        if let Some(state) = lock(&self.shared.state).as_mut() {
            change(state);
            print_if_due(state);
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        *lock(&self.shared.state) = None;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn tick(&self) {
        let pause = interval().clamp(Duration::from_millis(10), MIN_SPACING);
        let mut state = lock(&self.state);
        while let Some(now) = state.as_ref() {
            print_if_due(now);
            state = self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn print_if_due(state: &State) {
    let now = elapsed();
    let due = lock(&SCHEDULE).is_due(now, state.fraction(), interval());
    if due {
        complain(&state.line(now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    /// Seconds at which lines are printed if a run of that length is looked at ten times a second.
    fn printed(seconds: u64, fraction: impl Fn(f64) -> Option<f64>) -> Vec<f64> {
        let mut schedule = Schedule::default();
        let times = (0..=10 * seconds).map(|tick| tick as f64 / 10.0);
        times
            .filter(|&t| schedule.is_due(Duration::from_secs_f64(t), fraction(t), DEFAULT_INTERVAL))
            .collect()
    }

    #[test]
    fn runs_of_less_than_ten_seconds_print_no_line() {
        assert!(printed(9, |t| Some(t / 9.0)).is_empty());
        assert!(printed(9, |_| None).is_empty());
    }

    #[test]
    fn lines_come_every_tenth_of_the_work_if_that_is_sooner() {
        assert_eq!(printed(50, |t| Some(t / 50.0)), [10.0, 15.0, 20.0, 25.0, 30.0, 35.0, 40.0, 45.0, 50.0]);
        // A second at least lies between two lines.
        assert_eq!(printed(12, |t| Some(t / 12.0)), [10.0, 11.0, 12.0]);
    }

    #[test]
    fn lines_come_every_ten_seconds_if_a_tenth_takes_longer() {
        let lines = printed(60, |t| Some(t / 6000.0));
        assert_eq!(lines, [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(printed(60, |_| None), lines);
    }

    #[test]
    fn lines_of_a_run_of_hours_are_at_most_a_minute_apart() {
        let lines = printed(4 * 3600, |_| None);
        let gaps: Vec<f64> = lines.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(gaps.iter().all(|gap| (9.9..=60.1).contains(gap)), "{gaps:?}");
        assert!(gaps[gaps.len() - 1] > 59.0 && lines.len() < 300, "{} lines", lines.len());
    }

    #[test]
    fn a_second_piece_of_work_does_not_print_its_tenths_again() {
        let mut schedule = Schedule::default();
        assert!(schedule.is_due(S(10), Some(0.9), DEFAULT_INTERVAL));
        assert!(!schedule.is_due(S(12), Some(0.1), DEFAULT_INTERVAL));
        assert!(!schedule.is_due(S(14), Some(0.5), DEFAULT_INTERVAL));
        assert!(schedule.is_due(S(20), Some(0.6), DEFAULT_INTERVAL));
    }

    #[test]
    fn line_of_counted_work_has_count_percentage_elapsed_and_remaining_time() {
        let mut state = State::default();
        state.count("images", 100, 0, None);
        (state.done, state.began) = (37, Duration::ZERO);
        assert_eq!(state.line(S(37)), "37 of 100 images (37%), 37 s elapsed, about 1 min 3 s left");
        assert_eq!(state.fraction(), Some(0.37));
        state.message = "im37".into();
        assert!(state.line(S(37)).ends_with(" left; im37"));
        // Images that were finished before say nothing about the pace.
        (state.done, state.skipped) = (90, 80);
        assert!(state.line(S(60)).contains("about 1 min 0 s left"), "{}", state.line(S(60)));
        state.done = 80;
        assert!(!state.line(S(60)).contains("left"));
    }

    #[test]
    fn line_of_a_method_has_its_iterations_and_the_time_that_they_may_take() {
        let mut state = State {
            part: Part { place: String::new(), start: 0.5, fraction: 0.5 },
            is_limit: true,
            message: "qp: first iteration".into(),
            ..State::default()
        };
        assert_eq!(state.line(S(12)), "qp: first iteration, 12 s elapsed");
        state.count("iteration", 60, 0, None);
        assert_eq!(state.line(S(12)), "qp: first iteration, 12 s elapsed");
        (state.done, state.began, state.message) = (12, S(10), "qp: energy 5".into());
        assert_eq!(
            state.line(S(20)),
            "iteration 12 of at most 60 (20%), 20 s elapsed, at most 40 s left; qp: energy 5"
        );
        assert_eq!(state.fraction(), Some(0.6));
        state.deadline = Some(S(25));
        (state.part.place, state.remaining_of) = ("method 2 of 2: ".into(), " of this method");
        let line = state.line(S(20));
        assert!(
            line.starts_with("method 2 of 2: iteration") && line.contains("at most 5 s left of this method;"),
            "{line}"
        );
    }

    #[test]
    fn times_are_shown_in_suitable_units() {
        assert_eq!(
            [5, 60, 3599, 7620].map(|s| shown(S(s))),
            ["5 s", "1 min 0 s", "59 min 59 s", "2 h 7 min"]
        );
    }
}
