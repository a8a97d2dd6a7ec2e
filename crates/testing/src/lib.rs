//! What the integration tests share: real Cassandra nodes, real drivers, a byte-recording relay, the `cqlens`
//! binary.
//!
//! Deliberately independent of `cqlens` and `cqlens-proto`: what is tested must not also be the yardstick.
#![allow(missing_docs, reason = "tests are its only users")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed, and its panic is the report"
)]

pub mod cache;
pub mod cassandra;
pub mod clouds;
pub mod driver;
pub mod namespace;
pub mod process;
pub mod proxy;
pub mod snapshots;
pub mod spark;
pub mod tap;
pub mod tools;

use std::fmt::Display;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The top folder of the checkout.
pub fn workspace() -> PathBuf {
    let below = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
    below.expect("the crate is two folders below the top").to_owned()
}

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

/// The name of a program that is there, as far as it says its version.
pub fn program(name: &str) -> Result<&str, Missing> {
    match std::process::Command::new(name).arg("--version").output() {
        Ok(output) if output.status.success() => Ok(name),
        Ok(output) => Err(Missing(format!("`{name}` ends with {}", output.status))),
        Err(error) => Err(Missing(format!("`{name}` cannot be run: {error}"))),
    }
}

/// Whether this run is the one that decides: `CI=true` in the environment.
pub fn in_ci() -> bool {
    std::env::var("CI").is_ok_and(|value| value == "true")
}
