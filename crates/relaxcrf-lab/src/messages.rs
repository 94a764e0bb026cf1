//! Warnings and notes about inputs: shown as they come, kept for reports.

use std::fmt;
use std::sync::{Mutex, PoisonError};

/// Shows one line to the user.
type Show = Box<dyn Fn(&str) + Send + Sync>;

/// Messages for people.
pub struct Messages {
    quiet: bool,
    said: Mutex<Vec<String>>,
    noted: Mutex<Vec<String>>,
    show: Show,
}

impl Messages {
    /// Messages that `show` brings to the user; warnings and notes only if not `quiet`.
    pub fn new(quiet: bool, show: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { quiet, said: Mutex::default(), noted: Mutex::default(), show: Box::new(show) }
    }

    /// Messages that are only kept.
    pub fn silent() -> Self {
        Self::new(true, |_| {})
    }

    /// Warns about something that is probably a mistake.
    pub fn warn(&self, text: &str) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
        if !self.quiet {
            self.show(&format!("warning: {text}"));
        }
    }

    /// Tells how an input is understood if that is not obvious from its values.
    pub fn note(&self, text: &str) {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).push(text.into());
        if !self.quiet {
            self.show(&format!("note: {text}"));
        }
    }

    /// Shows a line that was asked for, also if quiet.
    pub fn show(&self, text: &str) {
        (self.show)(text);
    }

    /// All notes so far.
    pub fn noted(&self) -> Vec<String> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All warnings so far.
    pub fn said(&self) -> Vec<String> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl fmt::Debug for Messages {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Messages").field("quiet", &self.quiet).finish_non_exhaustive()
    }
}
