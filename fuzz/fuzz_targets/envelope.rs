//! See `cqlens_fuzz::envelope`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cqlens_fuzz::envelope(input));
