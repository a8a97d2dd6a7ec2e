//! What users are promised, tried with the program itself, embedded nodes and recorded traffic: needs nothing but Rust.
//!
//! One test binary, since each that links the product costs seconds to build, and since tests that wait run beside
//! those that compute. What needs a real Cassandra is in `tests/cassandra`, what needs other programs from a registry
//! in `tests/external`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed, and its panic is the report"
)]
#![allow(
    clippy::print_stdout,
    reason = "the test runner shows it with a failing test, and figures with --nocapture"
)]

mod day;
mod demo;
mod docs;
mod examples;
mod explain;
mod export;
mod faults;
mod fleet;
mod json_form;
mod layout;
mod node;
mod otlp;
mod proxy;
mod recordings;
mod replay;
mod report;
mod scylladb;
mod snapshots;
mod sniff;
mod terminal;
mod top;
#[path = "scenarios/verdict.rs"]
mod verdict;
mod weekly;
