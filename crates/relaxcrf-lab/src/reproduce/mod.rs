//! The paper's experiments, one file each.

pub mod pairs;
pub mod segmentation;
pub mod stereo;
