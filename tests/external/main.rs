//! What programs of others, fetched from their registries, say of what cqlens writes: collectors, stores of clouds,
//! Spark, the linters of packages and manifests; and operations that real drivers send through the proxy.
//!
//! Not part of `cargo test --workspace`, which needs no network: `.ci/run` runs it by name.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed, and its panic is the report"
)]
#![allow(clippy::print_stdout, reason = "the test runner shows it with a failing test")]

#[path = "../fleet/cluster.rs"]
#[allow(dead_code, reason = "the hermetic tests use the rest of it")]
mod cluster;
mod collector;
#[path = "../snapshots/fleet.rs"]
#[allow(dead_code, reason = "the hermetic tests use the rest of it")]
mod fleet;
#[path = "../export/merged.rs"]
mod merged;
mod packages;
#[path = "../otlp/receiver.rs"]
mod receiver;
#[path = "../sequences/mod.rs"]
mod sequences;
#[path = "../otlp/shop.rs"]
mod shop;
mod spark;
mod stores;
#[path = "../export/windows.rs"]
#[allow(dead_code, reason = "the hermetic tests use the rest of it")]
mod windows;
