//! See `cqlens_fuzz::template`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cqlens_fuzz::template(input));
