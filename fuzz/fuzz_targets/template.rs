//! See `cqlens_fuzz::template`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: cqlens_fuzz::seeds::write("template"),
    |input: &[u8]| cqlens_fuzz::template(input)
);
