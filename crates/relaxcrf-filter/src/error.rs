//! What can be wrong with points, features and parameters of a filter.

/// What was wrong with the input, with the offending numbers, and what would fix it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Two arrays that must describe the same points do not.
    #[error("{what} has {got}, but {expected} is needed{}", hint(.fix))]
    Shape {
        /// The array, as the user knows it ("features").
        what: String,
        /// The size it has.
        got: String,
        /// The size it should have.
        expected: String,
        /// What probably went wrong; empty if there is nothing to say.
        fix: String,
    },
    /// A number lies outside the range in which the operator makes sense.
    #[error("{what} is {got}, but must be {expected}")]
    Value {
        /// The parameter's name.
        what: String,
        /// The value given.
        got: String,
        /// The values accepted.
        expected: String,
    },
    /// An array holds a value that has no meaning there.
    #[error("{what} holds {got} at {place}; expected {expected}{}", hint(.fix))]
    Element {
        /// The array.
        what: String,
        /// The value found.
        got: String,
        /// Where: point and feature.
        place: String,
        /// The values accepted.
        expected: String,
        /// What probably went wrong; empty if there is nothing to say.
        fix: String,
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
}

fn hint(fix: &str) -> String {
    if fix.is_empty() { String::new() } else { format!(" ({fix})") }
}

/// Shorthand used all over the crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An [`Error::Shape`] without a hint.
    pub(crate) fn shape(
        what: impl Into<String>,
        got: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::Shape { what: what.into(), got: got.into(), expected: expected.into(), fix: String::new() }
    }

    /// An [`Error::Value`].
    pub(crate) fn value(what: impl Into<String>, got: impl ToString, expected: impl Into<String>) -> Self {
        Self::Value { what: what.into(), got: got.to_string(), expected: expected.into() }
    }
}
