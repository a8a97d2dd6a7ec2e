//! What a capture lacks, and what of it could not be parsed.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

/// Counts since the last window.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    /// Captured bytes of connections, retransmissions not counted.
    pub seen_bytes: u64,
    /// Bytes of connections that were sent and not captured.
    pub lost_bytes: u64,
    /// Bytes that were cut off by the snap length.
    pub cut_bytes: u64,
    /// Captured bytes before a sync point: after missing ones, or at the beginning of a capture.
    pub unplaced_bytes: u64,
    /// Closed connections of which anything was parsed.
    pub understood: u64,
    /// Connections that were evicted, because there were too many or they buffered too much.
    pub evicted_connections: u64,
    /// Connections whose beginning was not captured.
    pub begun_before: u64,
    /// Connections of which only one direction was captured.
    pub one_way: u64,
    /// Connections that could not be parsed, by reason.
    pub opaque: BTreeMap<&'static str, u64>,
    /// Servers that spoke TLS.
    pub tls_servers: BTreeSet<SocketAddr>,
}

impl Losses {
    /// Bytes that were not parsed.
    pub fn missing_bytes(&self) -> u64 {
        self.lost_bytes + self.cut_bytes + self.unplaced_bytes
    }
}
