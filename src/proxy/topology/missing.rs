//! Nodes that were waited for in vain: nobody waits for them again for a while, and the log names each once in that time.
//!
//! A driver asks for all nodes again and again; each time it would wait for as long as the operator allows, which is more than some of
//! them wait for an answer.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use super::node::Identity;

/// How long nobody waits again.
const REMEMBERED: Duration = Duration::from_secs(30);

/// Nodes that are remembered; with more of them, all are forgotten.
const MAX_NODES: usize = 1_024;

#[derive(Debug, Default)]
pub(super) struct Missing {
    since: Mutex<HashMap<Identity, Instant>>,
}

impl Missing {
    /// Whether it may still come.
    pub(super) fn is_worth_waiting(&self, node: &Identity) -> bool {
        // Nothing that holds the lock can panic.
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        since.get(node).is_none_or(|since| since.elapsed() > REMEMBERED)
    }

    /// Notes that it has not come.
    pub(super) fn note(&self, node: Identity) {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        if since.len() >= MAX_NODES {
            since.clear();
        }
        since.insert(node, Instant::now());
    }
}
