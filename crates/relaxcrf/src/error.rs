//! The one error type: bad input, found before any work starts.
//!
//! How a run ends is never an error: see [`crate::solve::Status`].

use std::path::PathBuf;

/// What was wrong with the input, with the offending numbers, and what would fix it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two arrays that must describe the same pixels (or labels, or channels) do not.
    #[error("{what} has {got}, but {expected} is needed{}", hint(.fix))]
    Shape {
        /// The array, as the user knows it ("unary energies", "image").
        what: String,
        /// The size it has.
        got: String,
        /// The size it should have.
        expected: String,
        /// What probably went wrong; empty if there is nothing to say.
        fix: String,
    },
    /// A number lies outside the range in which the problem makes sense.
    #[error("{what} is {got}, but must be {expected}")]
    Value {
        /// The parameter's name.
        what: String,
        /// The value given.
        got: String,
        /// The values accepted.
        expected: String,
    },
    /// An array holds a value that has no meaning there (NaN, a probability of -1, ...).
    #[error("{what} holds {got} at {place}; expected {expected}{}", hint(.fix))]
    Element {
        /// The array.
        what: String,
        /// The value found.
        got: String,
        /// Where: pixel and label, or row and column.
        place: String,
        /// The values accepted.
        expected: String,
        /// What probably went wrong; empty if there is nothing to say.
        fix: String,
    },
    /// The method's promise does not hold for this model.
    #[error("method `{method}` cannot be used: {why}; use {instead}")]
    Method {
        /// The method asked for.
        method: String,
        /// Why it is not valid here.
        why: String,
        /// What to use instead.
        instead: String,
    },
    /// Text (a method name, a kernel specification) that could not be understood.
    #[error("cannot read {what} `{}`: {why}", plain(got))]
    Parse {
        /// What the text should have been.
        what: String,
        /// The text.
        got: String,
        /// What is wrong with it and what would be right.
        why: String,
    },
    /// A filter cannot represent these features.
    #[error("{filter} filter: {why}; {fix}")]
    Filter {
        /// The filter's name.
        filter: &'static str,
        /// What does not fit.
        why: String,
        /// What to do about it.
        fix: String,
    },
    /// A file could not be read or written.
    #[error("{}: {why}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was given and what was expected.
        why: String,
    },
}

fn hint(fix: &str) -> String {
    if fix.is_empty() { String::new() } else { format!(" ({fix})") }
}

/// Text that somebody else wrote, as a message quotes it: short, and without the control characters that a terminal
/// would obey.
pub fn plain(text: &str) -> String {
    const MOST: usize = 160;
    let plain = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    let mut shown: String = text.chars().take(MOST).map(plain).collect();
    if text.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown
}

/// Shorthand used all over the crate.
pub type Result<T> = std::result::Result<T, Error>;

impl From<relaxcrf_filter::Error> for Error {
    fn from(error: relaxcrf_filter::Error) -> Self {
        use relaxcrf_filter::Error as Of;
        match error {
            Of::Shape { what, got, expected, fix } => Self::Shape { what, got, expected, fix },
            Of::Value { what, got, expected } => Self::Value { what, got, expected },
            Of::Element { what, got, place, expected, fix } => {
                Self::Element { what, got, place, expected, fix }
            }
            Of::Filter { filter, why, fix } => Self::Filter { filter, why, fix },
            other => {
                Self::Value { what: "features".into(), got: other.to_string(), expected: "valid".into() }
            }
        }
    }
}

impl Error {
    /// A [`Error::Shape`] without a hint.
    pub fn shape(what: impl Into<String>, got: impl Into<String>, expected: impl Into<String>) -> Self {
        Self::Shape { what: what.into(), got: got.into(), expected: expected.into(), fix: String::new() }
    }

    /// A [`Error::Value`].
    pub fn value(what: impl Into<String>, got: impl ToString, expected: impl Into<String>) -> Self {
        Self::Value { what: what.into(), got: got.to_string(), expected: expected.into() }
    }

    /// A [`Error::Parse`].
    pub fn parse(what: impl Into<String>, got: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Parse { what: what.into(), got: got.into(), why: why.into() }
    }

    /// A [`Error::File`].
    pub fn file(path: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        Self::File { path: path.into(), why: why.into() }
    }
}
