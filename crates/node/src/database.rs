//! The node's state: schema, rows, prepared statements. One request at a time uses it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cqlens_cql::syntax::ast::{QualifiedName, Statement};
use tokio::sync::broadcast;

use super::answer::DefinitionChange;
use super::definition;
use super::failure::Failure;
use super::layout::Layout;
use super::options::Options;
use super::peers::{Announcement, Peer};
use super::prepared::PreparedStatements;
use super::store::{Seconds, StoredTable, Timestamp};
use super::write::mutation::Mutation;
use cqlens_cql::schema::Schema;

/// The node's state.
#[derive(Debug)]
pub(super) struct Database {
    /// Where clients find it.
    pub(super) address: SocketAddr,
    /// How it behaves.
    pub(super) options: Options,
    /// Keyspaces and tables.
    pub(super) schema: Schema,
    /// How often the schema has changed.
    pub(super) schema_changes: u64,
    /// What clients prepared.
    pub(super) prepared: PreparedStatements,
    layouts: BTreeMap<TableName, Arc<Layout>>,
    rows: BTreeMap<TableName, StoredTable>,
    /// How often its base had changed when a view was last derived.
    derived: BTreeMap<TableName, u64>,
    last_timestamp: Timestamp,
    /// Other nodes, as far as clients are told of them.
    pub(super) peers: Vec<Peer>,
    events: broadcast::Sender<News>,
}

/// What clients may have registered for.
#[derive(Debug, Clone)]
pub(super) enum News {
    Schema(DefinitionChange),
    Nodes(Announcement),
}

/// Keyspace and table.
type TableName = (String, String);

impl Database {
    /// A node without keyspaces of its users.
    pub(super) fn new(address: SocketAddr, options: Options) -> Database {
        // A connection that lags behind further than this misses events, which schema refreshes make up for.
        const EVENTS: usize = 256;
        Database {
            address,
            options,
            schema: Schema::default(),
            schema_changes: 0,
            prepared: PreparedStatements::default(),
            layouts: BTreeMap::new(),
            rows: BTreeMap::new(),
            derived: BTreeMap::new(),
            last_timestamp: 0,
            peers: Vec::new(),
            events: broadcast::Sender::new(EVENTS),
        }
    }

    /// What happens from now on.
    pub(super) fn events(&self) -> broadcast::Receiver<News> {
        self.events.subscribe()
    }

    /// Tells what became of a node.
    pub(super) fn announce(&self, announcement: Announcement) {
        // Without a registered client there is no receiver.
        let _ = self.events.send(News::Nodes(announcement));
    }

    /// A time for a write, in microseconds: later than every one before it.
    pub(super) fn next_timestamp(&mut self, since_epoch: Duration) -> Timestamp {
        let now = Timestamp::try_from(since_epoch.as_micros()).unwrap_or(Timestamp::MAX);
        self.last_timestamp = now.max(self.last_timestamp + 1);
        self.last_timestamp
    }

    /// The columns of a table or view.
    ///
    /// # Errors
    /// Cassandra's texts for names that there are not.
    pub(super) fn layout(
        &mut self,
        name: &QualifiedName<'_>,
        keyspace: Option<&str>,
    ) -> Result<Arc<Layout>, Failure> {
        let keyspace = name.keyspace_or(keyspace).ok_or_else(definition::no_keyspace)?;
        self.layout_of(keyspace, name.name.as_str())
    }

    /// The columns of a table or view of a keyspace.
    ///
    /// # Errors
    /// Cassandra's texts for names that there are not.
    pub(super) fn layout_of(&mut self, keyspace: &str, table: &str) -> Result<Arc<Layout>, Failure> {
        let key = (keyspace.to_owned(), table.to_owned());
        if let Some(layout) = self.layouts.get(&key) {
            return Ok(Arc::clone(layout));
        }
        let unknown = |what: &str, name: &str| Failure::invalid(format!("{what} {name} does not exist"));
        let keyspace = self
            .schema
            .keyspace(&key.0)
            .ok_or_else(|| unknown("keyspace", &key.0))?;
        let table = keyspace
            .tables
            .get(&key.1)
            .ok_or_else(|| unknown("table", &key.1))?;
        let layout = Arc::new(Layout::of(keyspace, table));
        self.layouts.insert(key, Arc::clone(&layout));
        Ok(layout)
    }

    /// The rows of a table, made if there are none yet.
    pub(super) fn rows(&mut self, layout: &Layout) -> &StoredTable {
        self.rows_mut(layout)
    }

    fn rows_mut(&mut self, layout: &Layout) -> &mut StoredTable {
        self.rows.entry(table_name(layout)).or_default()
    }

    /// Writes mutations, one after the other.
    ///
    /// # Errors
    /// Changes of parts of values that are not there; what stands before them is written.
    pub(super) fn write(&mut self, mutations: Vec<Mutation>, now: Seconds) -> Result<(), Failure> {
        for mutation in mutations {
            let layout = Arc::clone(&mutation.layout);
            mutation.apply(self.rows_mut(&layout), now)?;
        }
        Ok(())
    }

    /// Removes all rows of a table, without tombstones.
    pub(super) fn truncate(&mut self, layout: &Layout) {
        self.rows_mut(layout).truncate();
    }

    /// Replaces all rows of a table, for tables whose rows are derived from something else.
    pub(super) fn replace_rows(&mut self, layout: &Layout, rows: StoredTable) {
        self.rows.insert(table_name(layout), rows);
    }

    /// Whether a view was derived when its base had changed `changes` times, and so needs no change now.
    pub(super) fn is_view_current(&self, view: &Layout, changes: u64) -> bool {
        self.derived.get(&table_name(view)) == Some(&changes)
    }

    /// Replaces the rows of a view, derived when its base had changed `changes` times.
    pub(super) fn replace_view(&mut self, view: &Layout, rows: StoredTable, changes: u64) {
        self.replace_rows(view, rows);
        self.derived.insert(table_name(view), changes);
    }

    /// Changes the schema; forgets what depended on the old one, and sends an event.
    ///
    /// # Errors
    /// What Cassandra refuses.
    pub(super) fn define(
        &mut self,
        statement: &Statement<'_>,
        keyspace: Option<&str>,
    ) -> Result<Option<DefinitionChange>, Failure> {
        let Some(change) = definition::apply(&mut self.schema, statement, keyspace)? else {
            return Ok(None);
        };
        self.schema_changes += 1;
        self.layouts.clear();
        self.derived.clear();
        let schema = &self.schema;
        self.rows
            .retain(|(keyspace, table), _| schema.table(keyspace, table).is_some());
        self.prepared.forget_changed(&change);
        // Without a registered client there is no receiver.
        let _ = self.events.send(News::Schema(change.clone()));
        Ok(Some(change))
    }
}

fn table_name(layout: &Layout) -> TableName {
    (layout.keyspace.clone(), layout.name.clone())
}
