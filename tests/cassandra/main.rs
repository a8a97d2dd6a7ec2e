//! What only a real Cassandra and real drivers can tell: that they do not notice the proxy, and that the
//! report agrees with what was asked for.
//!
//! The clusters of `shared.rs` serve all tests of this binary but those that stop or fill nodes; each driver run has a
//! keyspace of its own. Where Java, Maven, Python or Go is missing the tests say so and pass, except where `CI=true`.
//!
//! `cargo test --test cassandra` is what runs at every landing. With `CQLENS_RING=3` it is all: each driver in all of its
//! versions and with all compressions, all servers, outages, the longest loads. What the former leaves out, it names.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed, and its panic is the report"
)]
#![allow(
    clippy::print_stdout,
    reason = "the test runner shows it with a failing test: where the logs are"
)]

#[cfg(feature = "fleet")]
#[path = "../fleet/endless_store.rs"]
mod endless_store;
#[path = "../sequences/labels.rs"]
mod labels;
#[path = "../faults/leaks.rs"]
#[allow(dead_code, reason = "the tests of faults use the rest of it")]
mod leaks;
#[path = "../sequences/loads.rs"]
mod loads;
#[cfg(all(feature = "otlp", feature = "parquet"))]
#[path = "../export/merged.rs"]
mod merged;
#[cfg(all(feature = "otlp", feature = "parquet"))]
#[path = "../otlp/receiver.rs"]
mod receiver;
#[path = "../faults/sight.rs"]
#[allow(dead_code, reason = "the tests of faults use the rest of it")]
mod sight;
use cqlens_testing as support;
#[path = "../proxy/wire.rs"]
#[allow(dead_code, reason = "the tests of the proxy use the rest of it")]
mod wire;

mod apparatus;
mod clean_workload;
mod counting;
mod definitions;
mod described;
mod differential;
mod direct;
mod drivers;
#[cfg(all(feature = "otlp", feature = "parquet"))]
mod elsewhere;
mod faults;
#[cfg(feature = "fleet")]
mod fleet;
#[cfg(feature = "fleet")]
mod hostile;
mod joining;
mod logical_reads;
mod node_certificates;
mod passthrough;
mod prepared_before;
mod refused;
mod rehearsal;
mod report;
mod ring;
mod scenarios;
mod sequences;
mod shared;
mod shop;
mod sniffing;
mod tls;
mod trace_sample;

use shared::node;
