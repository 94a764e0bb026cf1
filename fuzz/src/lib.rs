//! What is fuzzed: functions from any bytes to nothing, which panic when a promise is broken.
//!
//! They are used twice: by the targets in `fuzz_targets/` under libFuzzer, and by the test `fuzz_seeds` of the core
//! crate, which includes this file and needs nothing but stable Rust.

pub mod files;
pub mod filters;
pub mod numbers;
pub mod texts;
pub mod tiny;
