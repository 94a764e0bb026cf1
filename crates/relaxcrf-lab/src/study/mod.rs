//! Parts of the method measured on their own.

mod filter;

pub use self::filter::{FilterStudy, FilterStudyOptions, run as filter};
