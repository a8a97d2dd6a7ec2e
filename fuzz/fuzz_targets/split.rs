//! See `cqlens_fuzz::split`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cqlens_fuzz::split(input));
