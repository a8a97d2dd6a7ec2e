//! See `cqlens_fuzz::work`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cqlens_fuzz::work(input));
