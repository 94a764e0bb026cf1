//! relaxcrf
pub mod beliefs;
pub mod energy;
pub mod error;
pub mod filter;
mod image;
#[cfg(feature = "io")]
pub mod io;
pub mod labeling;
pub mod model;
pub mod numeric;
pub mod rng;
pub mod round;
pub mod solve;
pub mod stereo;
pub mod synth;
pub use beliefs::Beliefs;
pub use error::{Error, Result};
pub use image::Image;
pub use labeling::Labeling;
pub use model::{Model, ModelBuilder};
