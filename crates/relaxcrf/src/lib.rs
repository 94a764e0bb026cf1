//! relaxcrf
pub mod error;
pub mod filter;
pub mod labeling;
pub mod numeric;
pub use error::{Error, Result};
