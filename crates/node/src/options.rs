//! How a node behaves.

use std::net::{Ipv4Addr, SocketAddr};

/// How a node behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Where it listens; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Where it tells clients to connect, if that is not where it listens.
    pub advertise: Option<SocketAddr>,
    /// A read that passes more tombstones gets a warning; Cassandra's default is 1,000.
    pub tombstone_warn_threshold: u64,
    /// A read that passes more tombstones fails; Cassandra's default is 100,000.
    pub tombstone_failure_threshold: u64,
    /// Answers like a ScyllaDB of this version, as far as drivers and tools ask who it is, and with its limits for
    /// batches.
    pub scylladb: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            advertise: None,
            tombstone_warn_threshold: 1_000,
            tombstone_failure_threshold: 100_000,
            scylladb: None,
        }
    }
}
