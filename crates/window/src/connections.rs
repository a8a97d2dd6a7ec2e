//! The connections that clients open, and what is agreed on them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{counts::raise, coverage::add_counts, sketch::meter};

/// Connections that a client has opened, each counted when the server has accepted its STARTUP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Connections {
    /// How many.
    pub opened: u64,
    /// By version of the native protocol.
    #[serde(deserialize_with = "meter::map")]
    pub versions: BTreeMap<u8, u64>,
    /// Those without compression.
    pub uncompressed: u64,
    /// Those with TLS that ended at the source.
    pub tls: u64,
    /// Those with TLS that a load balancer ended before.
    pub tls_before: u64,
    /// Those without TLS; of the rest it is not known.
    pub plain: u64,
    /// The most that were open at the same time to a node, by its address: those whose STARTUP was seen. Of several
    /// sources the one that saw most. Bounded.
    #[serde(deserialize_with = "meter::map")]
    pub at_once: BTreeMap<String, u64>,
}

/// How many nodes are told apart.
const MAX_NODES: usize = 1_000;

impl Connections {
    /// Counts one.
    pub fn open(&mut self, version: u8, is_compressed: bool) {
        self.opened += 1;
        *self.versions.entry(version).or_default() += 1;
        self.uncompressed += u64::from(!is_compressed);
    }

    /// Notes how many are open to a node.
    pub fn are_open(&mut self, node: &str, connections: u64) {
        if let Some(most) = self.at_once.get_mut(node) {
            *most = (*most).max(connections);
        } else if self.at_once.len() < MAX_NODES {
            self.at_once.insert(node.to_owned(), connections);
        }
    }

    /// How many there were, of those that were opened earlier as many as were open to one node.
    pub(super) fn weight(&self) -> u64 {
        let at_once = self.at_once.values().max();
        self.opened.max(at_once.copied().unwrap_or(0))
    }

    /// Adds those of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        raise(&mut self.opened, other.opened);
        raise(&mut self.uncompressed, other.uncompressed);
        raise(&mut self.tls, other.tls);
        raise(&mut self.tls_before, other.tls_before);
        raise(&mut self.plain, other.plain);
        add_counts(&mut self.versions, &other.versions);
        for (node, &connections) in &other.at_once {
            self.are_open(node, connections);
        }
    }
}
