//! See `cqlens_fuzz::value`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: cqlens_fuzz::seeds::write("value"),
    |input: &[u8]| cqlens_fuzz::value(input)
);
