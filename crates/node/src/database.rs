//! All that the node knows: schema, rows, prepared statements. One request at a time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use cqlens_cql::syntax::ast::{BatchKind, Body, Modification, QualifiedName, Statement};
use tokio::sync::broadcast;

use super::Options;
use super::answer::{Answer, Change, Outcome};
use super::batch::{self, Entry};
use super::bind;
use super::condition::{self, Condition, Verdict};
use super::definition;
use super::execution::Execution;
use super::failure::Failure;
use super::layout::Layout;
use super::mutation::Mutation;
use super::peers::{Announcement, Peer};
use super::prepared::PreparedStatements;
use super::read::Thresholds;
use super::store::{Seconds, Table, Timestamp};
use super::{select, system, view, write};
use cqlens_cql::schema::{Schema, is_system};

/// The node's state.
#[derive(Debug)]
pub(crate) struct Database {
    /// Where clients find it.
    pub(crate) address: SocketAddr,
    /// How it behaves.
    pub(crate) options: Options,
    /// Keyspaces and tables.
    pub(crate) schema: Schema,
    /// How often the schema has changed.
    pub(crate) schema_changes: u64,
    /// What clients prepared.
    pub(crate) prepared: PreparedStatements,
    layouts: BTreeMap<TableName, Arc<Layout>>,
    rows: BTreeMap<TableName, Table>,
    /// How often its base had changed when a view was last derived.
    derived: BTreeMap<TableName, u64>,
    last_timestamp: Timestamp,
    /// Other nodes, as far as clients are told of them.
    pub(crate) peers: Vec<Peer>,
    events: broadcast::Sender<News>,
}

/// What clients may have registered for.
#[derive(Debug, Clone)]
pub(crate) enum News {
    Schema(Change),
    Nodes(Announcement),
}

/// Keyspace and table.
type TableName = (String, String);

impl Database {
    /// A node without keyspaces of its users.
    pub(crate) fn new(address: SocketAddr, options: Options) -> Database {
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
    pub(crate) fn events(&self) -> broadcast::Receiver<News> {
        self.events.subscribe()
    }

    /// Tells what became of a node.
    pub(crate) fn announce(&self, announcement: Announcement) {
        // Nobody may be listening.
        let _ = self.events.send(News::Nodes(announcement));
    }

    /// A time for a write, in microseconds: later than every one before it.
    pub(crate) fn next_timestamp(&mut self, since_epoch: Duration) -> Timestamp {
        let now = Timestamp::try_from(since_epoch.as_micros()).unwrap_or(Timestamp::MAX);
        self.last_timestamp = now.max(self.last_timestamp + 1);
        self.last_timestamp
    }

    /// The columns of a table or view.
    ///
    /// # Errors
    /// Cassandra's texts for names that there are not.
    pub(crate) fn layout(
        &mut self,
        name: &QualifiedName<'_>,
        keyspace: Option<&str>,
    ) -> Result<Arc<Layout>, Failure> {
        let keyspace = name.keyspace_or(keyspace).ok_or_else(definition::no_keyspace)?;
        let key = (keyspace.to_owned(), name.name.as_str().to_owned());
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
    pub(crate) fn rows(&mut self, layout: &Layout) -> &Table {
        self.rows_mut(layout)
    }

    fn rows_mut(&mut self, layout: &Layout) -> &mut Table {
        self.rows
            .entry((layout.keyspace.clone(), layout.name.clone()))
            .or_default()
    }

    /// Runs a statement other than USE.
    ///
    /// # Errors
    /// What Cassandra refuses, and what this node does not have.
    pub(crate) fn execute(
        &mut self,
        statement: &Statement<'_>,
        execution: &Execution<'_>,
    ) -> Result<Answer, Failure> {
        match &statement.body {
            Body::Select(select) => {
                let layout = self.layout(&select.table, execution.keyspace)?;
                self.derive(&layout, execution.now)?;
                let thresholds = Thresholds {
                    warn: self.options.tombstone_warn_threshold,
                    fail: self.options.tombstone_failure_threshold,
                };
                select::run(select, &layout, self.rows(&layout), execution, thresholds)
            }
            Body::Insert(insert) => self.modify(&Modification::Insert(insert.clone()), execution),
            Body::Update(update) => self.modify(&Modification::Update(update.clone()), execution),
            Body::Delete(delete) => self.modify(&Modification::Delete(delete.clone()), execution),
            Body::Batch(batch) => self.batch(batch, execution),
            Body::Truncate(truncate) => {
                let layout = self.writable(&truncate.table, execution)?;
                self.rows_mut(&layout).truncate();
                Ok(Answer::default())
            }
            _ => self.define(statement, execution),
        }
    }

    /// Writes mutations, one after the other.
    ///
    /// # Errors
    /// Changes of parts of values that are not there; what stands before them is written.
    pub(crate) fn write(&mut self, mutations: Vec<Mutation>, now: Seconds) -> Result<(), Failure> {
        for mutation in mutations {
            let layout = Arc::clone(&mutation.layout);
            mutation.apply(self.rows_mut(&layout), now)?;
        }
        Ok(())
    }

    /// The layout of a table that clients may write.
    fn writable(
        &mut self,
        name: &QualifiedName<'_>,
        execution: &Execution<'_>,
    ) -> Result<Arc<Layout>, Failure> {
        let layout = self.layout(name, execution.keyspace)?;
        if layout.base.is_some() {
            return Err(Failure::invalid("Cannot directly modify a materialized view"));
        }
        if is_system(&layout.keyspace) {
            return Err(Failure::invalid(format!(
                "{} keyspace is not user-modifiable.",
                layout.keyspace
            )));
        }
        Ok(layout)
    }

    fn modify(
        &mut self,
        modification: &Modification<'_>,
        execution: &Execution<'_>,
    ) -> Result<Answer, Failure> {
        let layout = self.writable(modification.table(), execution)?;
        let mutations = write::mutations(modification, &layout, execution)?;
        let Some(condition) = Condition::of(modification) else {
            self.write(mutations, execution.now)?;
            return Ok(Answer::default());
        };
        let [mutation] = &mutations[..] else {
            let statement = match modification {
                Modification::Delete(_) => "deletions",
                _ => "updates",
            };
            return Err(Failure::invalid(format!(
                "IN on the partition key is not supported with conditional {statement}"
            )));
        };
        let verdict = condition::check(condition, mutation, self.rows(&layout), execution)?;
        if verdict == Verdict::Applied {
            self.write(mutations, execution.now)?;
        }
        let rows = condition::answer(vec![verdict], &layout);
        Ok(Answer {
            outcome: Outcome::Rows(rows),
            warnings: Vec::new(),
        })
    }

    fn batch(
        &mut self,
        batch: &cqlens_cql::syntax::ast::Batch<'_>,
        execution: &Execution<'_>,
    ) -> Result<Answer, Failure> {
        let mut execution = execution.clone();
        if let Some(term) = &batch.using.timestamp {
            let timestamp = bind::term(term, &cqlens_proto::types::CqlType::BigInt, &execution)?.value();
            let timestamp = timestamp
                .and_then(|bytes| bytes[..].try_into().ok())
                .map(i64::from_be_bytes);
            execution.timestamp = timestamp.unwrap_or(execution.timestamp);
        }
        let modifications = batch.statements.iter().cloned();
        let entries: Vec<Entry<'_>> = modifications
            .map(|modification| Entry {
                modification,
                execution: execution.clone(),
            })
            .collect();
        self.run_batch(batch.kind, &entries)
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// As its statements, and batches that are too large.
    pub(crate) fn run_batch(&mut self, kind: BatchKind, entries: &[Entry<'_>]) -> Result<Answer, Failure> {
        for entry in entries {
            self.writable(entry.modification.table(), &entry.execution)?;
        }
        batch::run(kind, entries, self)
    }

    fn define(&mut self, statement: &Statement<'_>, execution: &Execution<'_>) -> Result<Answer, Failure> {
        let Some(change) = definition::apply(&mut self.schema, statement, execution.keyspace)? else {
            return Ok(Answer::default());
        };
        self.schema_changes += 1;
        self.layouts.clear();
        self.derived.clear();
        let schema = &self.schema;
        self.rows
            .retain(|(keyspace, table), _| schema.table(keyspace, table).is_some());
        self.prepared.forget_changed(&change);
        // Nobody may be listening.
        let _ = self.events.send(News::Schema(change.clone()));
        Ok(Answer {
            outcome: Outcome::SchemaChange(change),
            warnings: Vec::new(),
        })
    }

    /// Fills tables whose rows follow from something else: system tables and materialized views.
    fn derive(&mut self, layout: &Arc<Layout>, now: Seconds) -> Result<(), Failure> {
        let name = (layout.keyspace.clone(), layout.name.clone());
        if is_system(&layout.keyspace) {
            let rows = system::table(self, layout)?;
            self.rows.insert(name, rows);
        } else if let Some(base) = &layout.base {
            let base = self.layout_of(&layout.keyspace, base)?;
            let changes = self.rows(&base).changes();
            if self.derived.get(&name) != Some(&changes) {
                let rows = view::derive(layout, &base, self.rows(&base), now)?;
                self.rows.insert(name.clone(), rows);
                self.derived.insert(name, changes);
            }
        }
        Ok(())
    }

    fn layout_of(&mut self, keyspace: &str, table: &str) -> Result<Arc<Layout>, Failure> {
        let keyspace = self.schema.keyspace(keyspace);
        let found = keyspace.and_then(|keyspace| Some((keyspace, keyspace.tables.get(table)?)));
        let (keyspace, table) =
            found.ok_or_else(|| Failure::invalid(format!("table {table} does not exist")))?;
        Ok(Arc::new(Layout::of(keyspace, table)))
    }
}
