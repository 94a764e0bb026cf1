//! What is fuzzed: functions from any bytes to nothing, which panic when a promise is broken.
//!
//! They are used twice: by the targets in `fuzz_targets/` under libFuzzer, and by the test `fuzz_seeds` of the core
//! crate, which includes this file and needs nothing but stable Rust.

pub mod files;
pub mod filters;
pub mod numbers;
pub mod texts;
pub mod tiny;

/// Panics in decoders are caught by the readers and become errors, but the fuzzer's hook ends the process before that: let those
/// pass.
pub fn pass_over_decoders() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !relaxcrf_io::is_decoding() {
            hook(info);
        }
    }));
}
