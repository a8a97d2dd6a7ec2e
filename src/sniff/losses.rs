//! What a capture lacks, and what of it could not be read.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

/// Counted since somebody last asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Losses {
    /// Bytes of connections that are in the capture, each once.
    pub seen_bytes: u64,
    /// Bytes of connections that are not in the capture: packets that it lacks.
    pub lost_bytes: u64,
    /// Bytes that were cut off by the snap length.
    pub cut_bytes: u64,
    /// Bytes that are there and of which nobody knows where an envelope begins: after missing ones, or in mid-connection.
    pub unplaced_bytes: u64,
    /// Connections in which anything was understood, and that have ended.
    pub understood: u64,
    /// Connections that were given up for newer ones, since there were too many at once.
    pub evicted_connections: u64,
    /// Connections that were already open when the capture began, or whose beginning it lacks.
    pub begun_before: u64,
    /// Connections of which only one direction is there.
    pub one_way: u64,
    /// Connections that could not be looked into, by reason.
    pub opaque: BTreeMap<&'static str, u64>,
    /// Servers that spoke TLS.
    pub tls_servers: BTreeSet<SocketAddr>,
}

impl Losses {
    /// Bytes of requests and responses that were not looked into.
    pub fn missing_bytes(&self) -> u64 {
        self.lost_bytes + self.cut_bytes + self.unplaced_bytes
    }
}
