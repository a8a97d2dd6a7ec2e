//! The catalog of a running audit: read for every exchange, replaced when the schema changes.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use arc_swap::ArcSwap;
use cqlens_proto::cql::ast::Statement;

use super::{Cluster, PreparedStatements, Schema};

/// Schema, cluster and prepared statements, shared by all auditors and the control connection.
#[derive(Debug, Default)]
pub struct Live {
    schema: ArcSwap<Schema>,
    /// Grows with every change of the schema; plans made under another one are made again.
    version: AtomicU64,
    /// Whether the schema was ever read, or is only what was seen on the wire.
    known: std::sync::atomic::AtomicBool,
    cluster: ArcSwap<Cluster>,
    /// Prepared statements.
    pub prepared: PreparedStatements,
    changing: Mutex<()>,
}

impl Live {
    /// A catalog that begins with `schema`, read from a file.
    pub fn with_schema(schema: Schema) -> Self {
        let live = Self::default();
        live.replace_schema(schema);
        live
    }

    /// The schema in force.
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.load_full()
    }

    /// The number of the schema in force. Read it before the schema: a plan may then be newer than it says, not older.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether a whole schema has been read, from a node or a file.
    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::Acquire)
    }

    /// The cluster, as far as known.
    pub fn cluster(&self) -> Arc<Cluster> {
        self.cluster.load_full()
    }

    /// Puts a schema that was read as a whole in force.
    pub fn replace_schema(&self, schema: Schema) {
        let _changing = self.changing();
        self.known.store(true, Ordering::Release);
        if **self.schema.load() != schema {
            self.schema.store(Arc::new(schema));
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Applies a definition that the server has just accepted, so that the next statement finds it at once.
    ///
    /// What cannot be applied is left to the control connection, which reads the schema anew after every change.
    pub fn apply(&self, statement: &Statement<'_>, keyspace: Option<&str>) {
        let _changing = self.changing();
        let mut schema = Schema::clone(&self.schema.load());
        match schema.apply(statement, keyspace) {
            Ok(()) => {
                self.schema.store(Arc::new(schema));
                self.version.fetch_add(1, Ordering::Release);
            }
            Err(error) => tracing::debug!(%error, "a definition seen on the wire was not applied"),
        }
    }

    /// Takes over what a node says of the cluster.
    pub fn replace_cluster(&self, cluster: Cluster) {
        self.cluster.store(Arc::new(cluster));
    }

    fn changing(&self) -> std::sync::MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
