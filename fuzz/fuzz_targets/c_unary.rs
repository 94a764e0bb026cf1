#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| relaxcrf_fuzz::files::c_unary(data));
