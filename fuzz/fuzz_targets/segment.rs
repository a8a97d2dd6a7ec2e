//! See `cqlens_fuzz::segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cqlens_fuzz::segment(input));
