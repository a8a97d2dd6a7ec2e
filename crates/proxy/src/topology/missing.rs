//! Nodes that did not become ready in time: connections do not wait for them again for a while, and the log
//! names each once in that time.
//!
//! A driver reads the tables of nodes again and again. Each time it would wait for as long as the operator
//! allows, which is longer than some drivers wait for a response.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::node::NodeIdentity;

/// How long connections do not wait again.
const REMEMBERED: Duration = Duration::from_secs(30);

/// Nodes that are remembered; with more of them, all are forgotten.
const MAX_NODES: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct MissingNodes {
    since: Mutex<HashMap<NodeIdentity, Instant>>,
}

impl MissingNodes {
    /// Whether it may still become ready.
    pub(super) fn is_worth_waiting(&self, node: &NodeIdentity) -> bool {
        // Nothing that holds the lock can panic.
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.get(node).is_none_or(|since| since.elapsed() > REMEMBERED)
    }

    /// Notes that it has not become ready.
    pub(super) fn note(&self, node: NodeIdentity) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.len() >= MAX_NODES {
            since.clear();
        }
        since.insert(node, Instant::now());
    }
}
