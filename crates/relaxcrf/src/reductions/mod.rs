//! Wrappers that let a method work on a part of the problem: on the active labels, or on the undecided pixels.

pub(crate) mod active_labels;
pub(crate) mod open_pixels;
