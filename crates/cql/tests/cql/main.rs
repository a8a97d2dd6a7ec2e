//! CQL from text to template, tree and footprint: which statements parse, what they become, what parsing costs, and what real
//! drivers have sent.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed"
)]

mod definitions;
mod exercise;
mod footprint_allocates_nothing;
mod golden;
mod properties;
mod six;
mod statements;
mod templates;
mod tree;
mod work;
