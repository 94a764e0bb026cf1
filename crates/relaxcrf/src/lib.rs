//! relaxcrf
pub mod error;
pub mod filter;
mod labeling;
pub mod numeric;
pub use error::{Error, Result};
pub use labeling::Labeling;
