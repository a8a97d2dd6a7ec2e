//! Prepared statements by their ids, whoever prepared them.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
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

/// How many unknown ids wait to be looked up.
const MAX_WANTED: usize = 4_096;

/// All prepared statements of a cluster: written and read by every auditor, filled by the control connection.
#[derive(Debug, Default)]
pub struct PreparedStatements {
    by_id: DashMap<Box<[u8]>, Arc<PreparedStatement>>,
    evicted: AtomicU64,
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
        if self.by_id.len() >= MAX_PREPARED {
            self.make_room();
        }
        self.by_id.insert(id.into(), Arc::new(statement));
        self.wanted().remove(id);
    }

    /// Gives up a sixteenth of the statements, any of them: the control connection finds them again when they are used.
    fn make_room(&self) {
        let mut count = 0_usize;
        self.by_id.retain(|_, _| {
            count += 1;
            !count.is_multiple_of(16)
        });
        self.evicted
            .fetch_add((MAX_PREPARED / 16) as u64, Ordering::Relaxed);
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
