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
pub mod versions;

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
            say(&line);
            None
        }
    }
}

/// Whether this run is the one before a release, or of who changes what it tests: all drivers, versions, compressions and
/// servers, outages, the longest loads. `CQLENS_RING=3` in the environment; without it tests have the sizes of every landing.
///
/// # Panics
/// If the environment names a ring that there is not.
pub fn everything() -> bool {
    match std::env::var("CQLENS_RING").as_deref() {
        Err(_) | Ok("" | "1" | "2") => false,
        Ok("3") => true,
        Ok(other) => panic!("CQLENS_RING is 3, or 2, or not there, not {other}"),
    }
}

/// Whether this run has `what` too, which only [`everything`] has; otherwise a visible `left out: …`.
///
/// # Panics
/// As [`everything`].
pub fn with_everything(what: impl Display) -> bool {
    let is_in = everything();
    if !is_in {
        say(&format!("left out: {what} (.ci/full)\n"));
    }
    is_in
}

/// The inputs of a test: the first so many of them at every landing, all with [`everything`].
///
/// # Panics
/// As [`everything`].
pub fn first_or_all<T>(what: impl Display, count: usize, all: &[T]) -> &[T] {
    if with_everything(what) { all } else { &all[..count] }
}

/// A line of the test run. Not `eprintln!`: the test runner would hide the line, since the test passes.
pub fn say(line: &str) {
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("standard error is writable");
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
