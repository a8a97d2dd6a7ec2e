//! CQL as applications write it, as real drivers have sent it, and as nobody should: what each text is, and that none is too much.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed"
)]

mod exercise;
mod footprint_allocates_nothing;
mod golden;
mod properties;
mod statements;
mod templates;
mod tree;
mod work;
