//! See `cqlens_fuzz::response`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cqlens_fuzz::response(input));
