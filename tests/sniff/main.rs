//! What `cqlens sniff` promises: of a capture it says what the proxy says of the same traffic, and of an ugly
//! one nothing that was not there.
//!
//! The captures in `captures/` are those of real drivers; see its README. Others are made here, out of bytes
//! that passed a relay.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed"
)]
#![allow(clippy::print_stdout, reason = "the test runner shows it with a failing test")]

#[path = "../proxy/certificates.rs"]
#[allow(dead_code, reason = "the tests of the proxy use the rest of it")]
mod certificates;
use cqlens_testing as support;
#[path = "../scenarios/verdict.rs"]
mod verdict;

mod bad_input;
mod contact;
mod conversation;
mod deploy;
mod forms;
mod lost;
mod mutated;
mod mutator;
mod oracle;
mod packets;
mod progress;
mod report;
mod rotated;
mod same_report;
mod sessions;
mod snap_length;
mod sniff;
mod tcp;
mod together;
