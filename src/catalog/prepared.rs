//! Prepared statements by their ids, whoever prepared them.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use cqlens_proto::{message::BindMetadata, types::CqlType};
use dashmap::DashMap;
use tokio::sync::Notify;

/// What is known of a prepared statement.
#[derive(Debug, Clone, PartialEq)]
pub struct PreparedStatement {
    /// Its text.
    pub cql: Arc<str>,
    /// The keyspace in which it was prepared: that of unqualified names.
    pub keyspace: Option<Arc<str>>,
    /// What PREPARED said of its markers; none for statements that were found in `system.prepared_statements`.
    pub markers: Option<Markers>,
}

/// The bind markers of a prepared statement, as the server described them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Markers {
    /// Name and type of each, in order.
    pub columns: Vec<(String, CqlType)>,
    /// The table, where all markers belong to one.
    pub table: Option<(String, String)>,
    /// For each partition key column in order, the marker that binds it; empty where the server did not say.
    pub partition_key: Vec<u16>,
}

impl PreparedStatement {
    /// A statement of which only the text is known.
    pub fn from_text(cql: String, keyspace: Option<String>) -> Self {
        Self {
            cql: cql.into(),
            keyspace: keyspace.map(Into::into),
            markers: None,
        }
    }
}

impl Markers {
    /// The markers as a PREPARED result describes them.
    pub fn of(bind: &BindMetadata<'_>) -> Self {
        let table = bind
            .markers
            .iter()
            .next()
            .map(|first| (first.keyspace.to_owned(), first.table.to_owned()));
        let one = |table: &(String, String)| {
            bind.markers
                .iter()
                .all(|marker| marker.keyspace == table.0 && marker.table == table.1)
        };
        Self {
            table: table.filter(one),
            columns: bind
                .markers
                .iter()
                .map(|marker| (marker.name.to_owned(), marker.column_type))
                .collect(),
            partition_key: bind.partition_key_indices.clone(),
        }
    }
}

/// How many statements are kept. Cassandra's own cache holds a few tens of thousands.
pub const MAX_PREPARED: usize = 100_000;

/// Bytes of their ids, texts and markers.
const MAX_PREPARED_BYTES: usize = 128 << 20;

/// How many unknown ids wait to be looked up.
const MAX_WANTED: usize = 4_096;

/// All prepared statements of a cluster: written and read by every auditor, filled by the control connection.
#[derive(Debug, Default)]
pub struct PreparedStatements {
    by_id: DashMap<Box<[u8]>, Arc<PreparedStatement>>,
    bytes: AtomicUsize,
    evicted: AtomicU64,
    /// Statements that were kept, also those that were there already.
    learned: AtomicU64,
    /// Ids that were executed and are not known. An id stays here until somebody prepares it, so that it is looked
    /// up once.
    wanted: Mutex<BTreeSet<Box<[u8]>>>,
    wake: Notify,
}

impl PreparedStatements {
    /// The statement with the id.
    pub fn get(&self, id: &[u8]) -> Option<Arc<PreparedStatement>> {
        self.by_id.get(id).map(|entry| Arc::clone(&entry))
    }

    /// Keeps a statement; what a PREPARED result said of its markers is not forgotten.
    pub fn insert(&self, id: &[u8], statement: PreparedStatement) {
        if statement.markers.is_none() && self.by_id.contains_key(id) {
            return;
        }
        let bytes = weight(id, &statement);
        while !self.by_id.is_empty() && !self.has_room_for(bytes) {
            self.make_room();
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if let Some(before) = self.by_id.insert(id.into(), Arc::new(statement)) {
            self.bytes.fetch_sub(weight(id, &before), Ordering::Relaxed);
        }
        self.wanted().remove(id);
        // After the statement is there: who sees the number finds it.
        self.learned.fetch_add(1, Ordering::Release);
    }

    /// How many statements were kept so far.
    pub(super) fn learned(&self) -> u64 {
        self.learned.load(Ordering::Acquire)
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        self.by_id.len() < MAX_PREPARED && self.bytes.load(Ordering::Relaxed) + bytes <= MAX_PREPARED_BYTES
    }

    /// Gives up a sixteenth of the statements, one at least, any of them: the control connection finds them again when they
    /// are used.
    fn make_room(&self) {
        let (mut count, mut bytes, mut evicted) = (0_usize, 0, 0);
        self.by_id.retain(|id, statement| {
            count += 1;
            let stays = count % 16 != 1;
            if !stays {
                bytes += weight(id, statement);
                evicted += 1;
            }
            stays
        });
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.evicted.fetch_add(evicted, Ordering::Relaxed);
    }

    /// Bytes that ids, texts and markers take up, about.
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Statements given up because there were too many.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Asks the control connection to look for an id that was executed and is not known.
    pub fn want(&self, id: &[u8]) {
        let mut wanted = self.wanted();
        if wanted.len() < MAX_WANTED && wanted.insert(id.into()) {
            self.wake.notify_one();
        }
    }

    /// Waits until an id is wanted that was not before.
    pub(super) async fn wanted_changed(&self) {
        self.wake.notified().await;
    }

    fn wanted(&self) -> std::sync::MutexGuard<'_, BTreeSet<Box<[u8]>>> {
        // Nothing that holds the lock can panic.
        self.wanted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// About how many bytes a statement takes up.
fn weight(id: &[u8], statement: &PreparedStatement) -> usize {
    const EACH: usize = 200;
    let columns = statement.markers.iter().flat_map(|markers| &markers.columns);
    let columns = columns.map(|(name, _)| name.len() + 64);
    EACH + id.len() + statement.cql.len() + columns.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_statements_take_up_no_more_than_their_share() {
        let statements = PreparedStatements::default();
        let text = "x".repeat(1 << 20);
        for id in 0_u32..300 {
            statements.insert(
                &id.to_be_bytes(),
                PreparedStatement::from_text(text.clone(), None),
            );
            assert!(statements.bytes.load(Ordering::Relaxed) <= MAX_PREPARED_BYTES);
        }
        assert!(
            statements.get(&299_u32.to_be_bytes()).is_some(),
            "the newest is there"
        );
        assert_eq!(statements.by_id.len() as u64 + statements.evicted(), 300);
        // Said again it is not counted again.
        let before = statements.bytes.load(Ordering::Relaxed);
        let again = PreparedStatement {
            markers: Some(Markers::default()),
            ..PreparedStatement::from_text(text, None)
        };
        statements.insert(&299_u32.to_be_bytes(), again);
        assert_eq!(statements.bytes.load(Ordering::Relaxed), before);
    }
}
