//! What the integration tests share: real Cassandra nodes, real drivers, a byte-recording relay, the `cqlens` binary.
//!
//! Deliberately independent of `cqlens` and `cqlens-proto`: what is tested must not also be the yardstick.
//! A test binary takes this in with `#[path = "../support/mod.rs"] mod support;`.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "every test binary compiles the whole of this and uses a part of it"
)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed, and its panic is the report"
)]

pub mod cache;
pub mod cassandra;
pub mod driver;
pub mod namespace;
pub mod process;
pub mod proxy;
pub mod snapshots;
pub mod tap;

use std::fmt::Display;
use std::io::Write;

/// Why something that a test needs is not on this machine, such as "`mvn` was not found".
#[derive(Debug, Clone)]
pub struct Missing(pub String);

/// The value, or a visible `skipped: … because …` and `None`.
///
/// # Panics
/// Where `CI=true`: there nothing may be skipped.
pub fn available<T>(what: impl Display, value: Result<T, Missing>) -> Option<T> {
    match value {
        Ok(value) => Some(value),
        Err(Missing(reason)) => {
            let line = format!("skipped: {what} because {reason}\n");
            assert!(!in_ci(), "in CI nothing may be {line}");
            // Not `eprintln!`: the test runner would hide that line, since a skipped test passes.
            std::io::stderr()
                .write_all(line.as_bytes())
                .expect("standard error is writable");
            None
        }
    }
}

/// Whether this run is the one that decides: `CI=true` in the environment.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}
