//! See `cqlens_fuzz::shape`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cqlens_fuzz::shape(input));
