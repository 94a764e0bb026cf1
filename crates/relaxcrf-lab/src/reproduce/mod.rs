//! The paper's experiments, one file each.

mod pairs;
pub mod segmentation;
pub mod stereo;
