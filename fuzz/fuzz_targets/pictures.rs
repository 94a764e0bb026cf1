#![no_main]

libfuzzer_sys::fuzz_target!(init: relaxcrf_fuzz::pass_over_decoders(), |data: &[u8]| relaxcrf_fuzz::files::pictures(data));
