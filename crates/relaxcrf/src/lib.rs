//! relaxcrf
pub mod error;
pub mod filter;
mod image;
#[cfg(feature = "io")]
pub mod io;
mod labeling;
pub mod numeric;
pub mod rng;
pub mod stereo;
pub mod synth;
pub use error::{Error, Result};
pub use image::Image;
pub use labeling::Labeling;
