//! See `cqlens_fuzz::cql`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: cqlens_fuzz::seeds::write("cql"),
    |input: &[u8]| cqlens_fuzz::cql(input)
);
