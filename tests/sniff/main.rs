//! What `cqlens sniff` promises: of a capture it says what the proxy says of the same traffic, and of an ugly one nothing that was not there.
//!
//! The captures in `captures/` are those of real drivers; see its README. Others are made here, out of bytes that passed a relay.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed"
)]
#![allow(clippy::print_stdout, reason = "the test runner shows it with a failing test")]

#[path = "../support/mod.rs"]
mod support;
#[path = "../scenarios/verdict.rs"]
mod verdict;

mod bad_input;
mod conversation;
mod forms;
mod mutated;
mod mutator;
mod oracle;
mod packets;
mod report;
mod same_report;
mod snap_length;
mod sniff;
mod tcp;
mod together;
