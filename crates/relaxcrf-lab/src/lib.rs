//! What experiments with relaxcrf need: generated scenes whose truth is known, and measures of labels against a truth.

pub mod metrics;
pub mod synth;
