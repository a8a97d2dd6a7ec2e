//! The documentation: its commands are those that the program has, its links lead somewhere, and what the quick start says
//! happens.

#[path = "../../crates/audit/tests/words/mod.rs"]
mod avoided;
mod commands;
mod links;
mod metrics;
mod page;
mod promql;
mod session;
mod words;
