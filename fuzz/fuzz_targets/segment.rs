//! See `cqlens_fuzz::segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: cqlens_fuzz::seeds::write("segment"),
    |input: &[u8]| cqlens_fuzz::segment(input)
);
