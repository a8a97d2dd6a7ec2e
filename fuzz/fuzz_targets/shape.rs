//! See `cqlens_fuzz::shape`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: cqlens_fuzz::seeds::write("shape"),
    |input: &[u8]| cqlens_fuzz::shape(input)
);
