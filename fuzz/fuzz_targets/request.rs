//! See `cqlens_fuzz::request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cqlens_fuzz::request(input));
