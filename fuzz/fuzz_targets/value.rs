//! See `cqlens_fuzz::value`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cqlens_fuzz::value(input));
