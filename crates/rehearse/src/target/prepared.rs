//! Prepared statements of this cluster, by keyspace and text: ids of two clusters are not the same.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;

use super::routing::RoutingKey;
use crate::budget::Share;

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
#[derive(Debug)]
pub(super) struct PreparedCache {
    statements: HashMap<PreparedKey, Arc<PreparedStatement>>,
    order: VecDeque<PreparedKey>,
    share: Share,
}

impl PreparedCache {
    const MOST: usize = 10_000;

    /// None yet; of these bytes.
    pub(super) fn within(share: Share) -> Self {
        Self {
            statements: HashMap::new(),
            order: VecDeque::new(),
            share,
        }
    }

    pub(super) fn find(&self, key: &PreparedKey) -> Option<Arc<PreparedStatement>> {
        self.statements.get(key).cloned()
    }

    pub(super) fn insert(&mut self, key: PreparedKey, statement: PreparedStatement) {
        self.forget(&key);
        self.share.take(weight(&key, &statement));
        self.statements.insert(key.clone(), Arc::new(statement));
        self.order.push_back(key);
        while (self.statements.len() > Self::MOST || self.share.is_over())
            && let Some(oldest) = self.order.pop_front()
        {
            self.remove(&oldest);
            self.share.count_evicted(1);
        }
    }

    /// Forgets what is not known by that id any more.
    pub(super) fn forget(&mut self, key: &PreparedKey) {
        if self.remove(key) {
            self.order.retain(|other| other != key);
        }
    }

    fn remove(&mut self, key: &PreparedKey) -> bool {
        let removed = self.statements.remove(key);
        let weight = removed.as_ref().map_or(0, |statement| weight(key, statement));
        self.share.give_back(weight);
        removed.is_some()
    }
}

/// What a statement takes up, about.
fn weight(key: &PreparedKey, statement: &PreparedStatement) -> usize {
    const EACH: usize = 512;
    let ids = statement.id.len() + statement.result_metadata_id.as_ref().map_or(0, Bytes::len);
    let keyspace = key.keyspace.as_ref().map_or(0, |keyspace| keyspace.len());
    let routing_key = statement.routing_key.as_ref();
    EACH + key.cql.len() + keyspace + ids + routing_key.map_or(0, RoutingKey::weight)
}

#[cfg(test)]
mod tests {
    use cqlens_capture::memory::Part;

    use super::*;

    #[test]
    fn statements_and_ids_are_kept_up_to_a_number_of_bytes() {
        let part = Part::new("rehearsal", 64 << 20);
        let mut cache = PreparedCache::within(Share::of(&part, 4));
        let key = |number: u32| PreparedKey {
            keyspace: None,
            cql: format!("SELECT {number} {}", "a".repeat(200 << 10)).into(),
        };
        for number in 0..200 {
            let statement = PreparedStatement {
                id: vec![0; 60_000].into(),
                result_metadata_id: None,
                routing_key: None,
            };
            cache.insert(key(number), statement);
            assert!(part.used() <= 16 << 20);
            assert_eq!(cache.order.len(), cache.statements.len());
        }
        assert!(cache.find(&key(0)).is_none() && cache.find(&key(199)).is_some());
        (0..200).for_each(|number| cache.forget(&key(number)));
        assert_eq!((part.used(), cache.order.len()), (0, 0));
        assert!(part.evicted() > 0);
    }

    #[test]
    fn keyspaces_and_markers_of_statements_count() {
        let part = Part::new("rehearsal", 64 << 20);
        let mut cache = PreparedCache::within(Share::of(&part, 4));
        let small = PreparedStatement {
            id: Bytes::new(),
            result_metadata_id: None,
            routing_key: None,
        };
        let key = |keyspace: Option<Arc<str>>| PreparedKey {
            keyspace,
            cql: "SELECT".into(),
        };
        cache.insert(key(Some("k".repeat(60_000).into())), small.clone());
        assert!(part.used() > 60_000);
        let routing_key = RoutingKey {
            keyspace: "k".repeat(60_000).into(),
            markers: vec![0; 60_000],
        };
        let routed = PreparedStatement {
            routing_key: Some(routing_key),
            ..small
        };
        cache.insert(key(None), routed);
        assert!(part.used() > 4 * 60_000);
    }
}
