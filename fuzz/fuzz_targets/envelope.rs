//! See `cqlens_fuzz::envelope`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: cqlens_fuzz::seeds::write("envelope"),
    |input: &[u8]| cqlens_fuzz::envelope(input)
);
