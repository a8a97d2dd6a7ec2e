//! See `cqlens_fuzz::split`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: cqlens_fuzz::seeds::write("split"),
    |input: &[u8]| cqlens_fuzz::split(input)
);
