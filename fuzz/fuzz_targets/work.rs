//! See `cqlens_fuzz::work`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: cqlens_fuzz::seeds::write("work"),
    |input: &[u8]| cqlens_fuzz::work(input)
);
