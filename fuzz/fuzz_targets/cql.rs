//! See `cqlens_fuzz::cql`.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cqlens_fuzz::cql(input));
