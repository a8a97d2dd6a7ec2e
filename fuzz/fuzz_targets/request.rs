//! See `cqlens_fuzz::request`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: cqlens_fuzz::seeds::write("request"),
    |input: &[u8]| cqlens_fuzz::request(input)
);
