//! See `cqlens_fuzz::response`.
#![no_main]

libfuzzer_sys::fuzz_target!(
    init: cqlens_fuzz::seeds::write("response"),
    |input: &[u8]| cqlens_fuzz::response(input)
);
