//! What a capture lacks, and what of it could not be parsed.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

use super::tls::TlsTrouble;

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
    /// Connections that were captured under further addresses too, which count once: the server as the connection is
    /// named, and as it is in the copy.
    pub copies: BTreeMap<(SocketAddr, SocketAddr), u64>,
    /// Pairs of connections that may be one traffic, captured on both sides of a relay, and count twice.
    pub alike: BTreeSet<[(SocketAddr, SocketAddr); 2]>,
    /// Connections whose directions were stamped by different clocks.
    pub clocks: ClockDifferences,
    /// Servers that spoke TLS, with what was not decrypted.
    pub tls_servers: BTreeMap<SocketAddr, TlsServer>,
}

/// Connections whose directions were stamped by different clocks. The times of their responses were moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClockDifferences {
    /// How many.
    pub connections: u64,
    /// The largest difference, in nanoseconds, as far as acknowledgments show it.
    pub largest: u64,
}

impl ClockDifferences {
    /// Notes that the difference of a connection was found to be so large, in nanoseconds; 0 where there is none.
    pub(super) fn note(&mut self, before: i64, now: i64) {
        self.connections += u64::from(before == 0 && now != 0);
        self.largest = self.largest.max(now.unsigned_abs());
    }

    /// Adds what was found later.
    pub fn merge(&mut self, later: Self) {
        self.connections += later.connections;
        self.largest = self.largest.max(later.largest);
    }
}

/// TLS connections to one server that were not decrypted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsServer {
    /// What clients call it in their handshakes; the first ones.
    pub names: BTreeSet<String>,
    /// How many connections were not decrypted, by the reason.
    pub connections: BTreeMap<TlsTrouble, u64>,
}

impl TlsServer {
    /// Names that are kept of one server: clients state them.
    const MAX_NAMES: usize = 4;

    /// Counts a connection.
    pub(super) fn note(&mut self, name: Option<&str>, trouble: TlsTrouble) {
        *self.connections.entry(trouble).or_default() += 1;
        if let Some(name) = name
            && self.names.len() < Self::MAX_NAMES
        {
            self.names.insert(name.to_owned());
        }
    }

    /// Adds what was counted later.
    pub fn merge(&mut self, later: &Self) {
        let room = Self::MAX_NAMES.saturating_sub(self.names.len());
        self.names.extend(later.names.iter().take(room).cloned());
        for (trouble, connections) in &later.connections {
            *self.connections.entry(*trouble).or_default() += connections;
        }
    }
}

impl Losses {
    /// Pairs of servers that are kept: whoever sends packets can make them up.
    const MAX_COPIES: usize = 64;

    /// Notes that a connection to `server` was also captured as one to `copy`.
    pub(super) fn note_copy(&mut self, server: SocketAddr, copy: SocketAddr) {
        let has_room = self.copies.len() < Self::MAX_COPIES;
        match self.copies.get_mut(&(server, copy)) {
            Some(connections) => *connections += 1,
            None if has_room => _ = self.copies.insert((server, copy), 1),
            None => {}
        }
    }

    /// Notes that two connections, each as client and server, may be one traffic.
    pub(super) fn note_alike(&mut self, outer: (SocketAddr, SocketAddr), inner: (SocketAddr, SocketAddr)) {
        if self.alike.len() < Self::MAX_COPIES {
            self.alike.insert([outer, inner]);
        }
    }

    /// Bytes that were not parsed.
    pub fn missing_bytes(&self) -> u64 {
        self.lost_bytes + self.cut_bytes + self.unplaced_bytes
    }
}
