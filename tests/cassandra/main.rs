//! What only a real Cassandra and real drivers can tell: that they do not notice the proxy, and that the
//! report agrees with what was asked for.
//!
//! One node serves all tests of this binary; each driver run has a keyspace of its own. Where Java, Maven,
//! Python or Go is missing the tests say so and pass, except where `CI=true`.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot be set up has failed, and its panic is the report"
)]
#![allow(
    clippy::print_stdout,
    reason = "the test runner shows it with a failing test: where the logs are"
)]

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
mod differential;
mod drivers;
#[cfg(all(feature = "otlp", feature = "parquet"))]
mod elsewhere;
mod faults;
#[cfg(feature = "fleet")]
mod fleet;
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
mod shop;
mod sniffing;
mod tls;
mod trace_sample;

use std::sync::LazyLock;

use support::cassandra::{Cassandra, Options};
use support::{Missing, available};

/// The node of this test binary, which warns from 10 tombstones on, and knows functions and SASI; it stops
/// when the process ends. A failed start fails the first test and, without another attempt, the others.
fn node() -> Option<&'static Cassandra> {
    static SHARED: LazyLock<Result<Cassandra, Missing>> = LazyLock::new(|| {
        let options = Options::default()
            .with("tombstone_warn_threshold", "10")
            .with("user_defined_functions_enabled", "true")
            .with("sasi_indexes_enabled", "true");
        Cassandra::start(&options)
    });
    let cluster = available("a test on a real node", SHARED.as_ref().map_err(Clone::clone))?;
    // Shown with a failing test only.
    println!(
        "the node is {}, its log {}",
        cluster.address(),
        cluster.nodes()[0].log_path().display()
    );
    Some(cluster)
}
