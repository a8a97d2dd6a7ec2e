//! Prepared statements of this cluster, by keyspace and text: ids of two clusters are not the same.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;

use super::routing::RoutingKey;

/// What a statement was prepared as.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct PreparedKey {
    /// The keyspace of unqualified names.
    pub(super) keyspace: Option<Arc<str>>,
    /// Its text.
    pub(super) cql: Arc<str>,
}

/// What PREPARED said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PreparedStatement {
    pub(super) id: Bytes,
    pub(super) result_metadata_id: Option<Bytes>,
    /// Which of its values say where it goes, where they do.
    pub(super) routing_key: Option<RoutingKey>,
}

/// What was prepared, on any node: one that does not know an id says so.
#[derive(Debug, Default)]
pub(super) struct PreparedCache {
    statements: HashMap<PreparedKey, Arc<PreparedStatement>>,
    order: VecDeque<PreparedKey>,
}

impl PreparedCache {
    const MOST: usize = 10_000;

    pub(super) fn find(&self, key: &PreparedKey) -> Option<Arc<PreparedStatement>> {
        self.statements.get(key).cloned()
    }

    pub(super) fn insert(&mut self, key: PreparedKey, statement: PreparedStatement) {
        if self.statements.insert(key.clone(), Arc::new(statement)).is_none() {
            self.order.push_back(key);
        }
        if self.statements.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.statements.remove(&oldest);
        }
    }

    /// Forgets what is not known by that id any more.
    pub(super) fn forget(&mut self, key: &PreparedKey) {
        if self.statements.remove(key).is_some() {
            self.order.retain(|other| other != key);
        }
    }
}
