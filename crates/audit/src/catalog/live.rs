//! The catalog of a running audit: read for every exchange, replaced when the schema changes.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use cqlens_proto::message::Rows;
use tokio::sync::Notify;

use super::{
    ClusterState, Placement, PreparedStatements, Replication, Ring,
    agreement::{Disagreement, SchemaAgreement},
    memory_share::MemoryShare,
    observed_schema::ObservedSchema,
    recent_ddl::{Reading, RecentDdl, define},
};
use cqlens_capture::memory::{Memory, Use};
use cqlens_cql::schema::Schema;

/// Schema, cluster and prepared statements, shared by all auditors and the control connection.
#[derive(Debug)]
pub struct Live {
    schema: ArcSwap<Schema>,
    /// Grows with every change of the schema; plans made under another one are made again.
    version: AtomicU64,
    /// Whether the schema was ever read, or is only what was seen on the wire.
    known: AtomicBool,
    /// Whether a control connection reads the schema, or tries to.
    followed: AtomicBool,
    /// Whether a control connection is open and has read everything.
    synced: AtomicBool,
    cluster: ArcSwap<ClusterState>,
    cluster_changed: Notify,
    agreement: Mutex<SchemaAgreement>,
    cluster_wanted: Notify,
    /// Why there is no control connection.
    trouble: ArcSwapOption<String>,
    places: Mutex<PlacementCache>,
    /// Memory of the placements. With a control connection, none is needed for what clients have read.
    placed: MemoryShare,
    /// Prepared statements.
    pub prepared: PreparedStatements,
    /// Definitions on the wire that a schema which is being read may lack.
    recent_ddl: Mutex<RecentDdl>,
    /// Tables of which a reading found another partition key than the one that was in force.
    partition_key_changed: Mutex<BTreeSet<String>>,
    /// Whether the schema in force comes from the clients' own reads of `system_schema`.
    is_observed: AtomicBool,
    /// What clients have read of `system_schema`.
    observed: Mutex<ObservedSchema>,
    memory: Memory,
    /// What the schema takes up.
    schema_bytes: MemoryShare,
    /// Whether there is more of the schema than there is room for.
    is_cut: AtomicBool,
}

/// The ring, and what was placed on it so far.
#[derive(Debug, Default)]
struct PlacementCache {
    ring: Option<Ring>,
    /// None where the replication is not understood.
    placements: HashMap<Replication, Option<Arc<Placement>>>,
}

/// Held by a control connection for as long as it is open and has read everything.
pub struct SyncedGuard<'a>(&'a Live);

impl Drop for SyncedGuard<'_> {
    fn drop(&mut self) {
        self.0.synced.store(false, Ordering::Relaxed);
    }
}

impl Default for Live {
    fn default() -> Self {
        Self::within(Memory::default())
    }
}

impl Live {
    /// A catalog of which nothing is known; it keeps to the parts of `memory`.
    pub fn within(memory: Memory) -> Self {
        let schema = memory.part(Use::Schema);
        Self {
            schema: ArcSwap::default(),
            version: AtomicU64::default(),
            known: AtomicBool::default(),
            followed: AtomicBool::default(),
            synced: AtomicBool::default(),
            cluster: ArcSwap::default(),
            cluster_changed: Notify::new(),
            agreement: Mutex::default(),
            cluster_wanted: Notify::new(),
            trouble: ArcSwapOption::default(),
            places: Mutex::default(),
            placed: MemoryShare::of(schema.clone(), 3),
            prepared: PreparedStatements::within(memory.part(Use::Prepared)),
            recent_ddl: Mutex::new(RecentDdl::within(MemoryShare::of(schema.clone(), 1))),
            partition_key_changed: Mutex::default(),
            is_observed: AtomicBool::default(),
            observed: Mutex::new(ObservedSchema::within(MemoryShare::of(schema.clone(), 3))),
            schema_bytes: MemoryShare::of(schema, 4),
            is_cut: AtomicBool::default(),
            memory,
        }
    }

    /// A catalog that begins with `schema`, read from a file.
    pub fn with_schema(schema: Schema) -> Self {
        Self::default().beginning_with(schema)
    }

    /// The same, with `schema`, read from a file.
    #[must_use]
    pub fn beginning_with(self, schema: Schema) -> Self {
        self.replace_schema(schema, self.begin_reading());
        self
    }

    /// The memory that it is a part of.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Whether there is more of the schema than there is room for.
    pub fn is_cut(&self) -> bool {
        self.is_cut.load(Ordering::Relaxed)
    }

    /// Says whether a reading of the schema had to end for want of room.
    pub fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    /// Puts a schema in force, or as much of it as there is room for.
    fn put_in_force(&self, mut schema: Schema) {
        let (bytes, left_out) = schema.cut_to(self.schema_bytes.limit());
        if left_out > 0 {
            self.schema_bytes.count_evicted();
            self.cut(true);
            // What was new may be what was left out.
            if *self.schema() == schema {
                return;
            }
        }
        self.schema_bytes.set(bytes);
        self.schema.store(Arc::new(schema));
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The schema in force.
    pub fn schema(&self) -> Arc<Schema> {
        self.schema.load_full()
    }

    /// The number of the schema and the ring in force. Read it before the schema: a plan may then be newer
    /// than it says, not older.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// A number that grows with all that may make a statement clear which was not: the schema, and prepared
    /// statements. Read it before either.
    pub fn learned(&self) -> u64 {
        self.version() + self.prepared.learned()
    }

    /// Whether a whole schema has been read, from a node or a file.
    pub fn is_known(&self) -> bool {
        self.known.load(Ordering::Acquire)
    }

    /// Whether a control connection reads, or tries to read, what is not known yet.
    pub fn is_followed(&self) -> bool {
        self.followed.load(Ordering::Relaxed)
    }

    /// Says that a control connection is at work from now on.
    pub fn begin_following(&self) {
        self.followed.store(true, Ordering::Relaxed);
    }

    /// Whether a control connection is open that has read everything.
    pub fn is_synced(&self) -> bool {
        self.synced.load(Ordering::Relaxed)
    }

    /// Says that everything is read, until the guard is dropped.
    pub fn synced(&self) -> SyncedGuard<'_> {
        self.synced.store(true, Ordering::Relaxed);
        SyncedGuard(self)
    }

    /// Says that no control connection is at work any more.
    pub fn end_following(&self) {
        self.followed.store(false, Ordering::Relaxed);
        self.troubled_by(None);
    }

    /// The cluster, as far as known.
    pub fn cluster(&self) -> Arc<ClusterState> {
        self.cluster.load_full()
    }

    /// Waits until the cluster is known to be another than `known`.
    pub async fn cluster_other_than(&self, known: &Arc<ClusterState>) -> Arc<ClusterState> {
        loop {
            // Before looking: what changes after the look is not missed.
            let changed = self.cluster_changed.notified();
            let now = self.cluster();
            if !Arc::ptr_eq(&now, known) {
                return now;
            }
            changed.await;
        }
    }

    /// Asks the control connection, if there is one, to look at the nodes at once.
    pub fn want_cluster(&self) {
        self.cluster_wanted.notify_one();
    }

    /// Waits until the nodes are asked for with [`Live::want_cluster`].
    pub async fn cluster_wanted(&self) {
        self.cluster_wanted.notified().await;
    }

    /// Why there is no control connection; none while there is one, or as long as nothing went wrong.
    pub fn trouble(&self) -> Option<Arc<String>> {
        self.trouble.load_full()
    }

    /// Says why there is no control connection, or that there is one.
    pub fn troubled_by(&self, trouble: Option<String>) {
        self.trouble.store(trouble.map(Arc::new));
    }

    /// To be called before a schema is read that will be given to [`Live::replace_schema`].
    pub fn begin_reading(&self) -> Reading {
        self.recent_ddl().begin_reading()
    }

    /// Puts a schema that was read as a whole in force.
    ///
    /// Reading takes a while. What was defined on the wire since it began is applied once more, or a table
    /// would be unknown again, until the next reading, to the very application that has just created it.
    pub fn replace_schema(&self, mut schema: Schema, reading: Reading) {
        let recent_ddl = self.recent_ddl();
        recent_ddl.apply_since(reading, &mut schema);
        self.known.store(true, Ordering::Release);
        let before = self.schema();
        if *before != schema {
            let changed = partition_key_changes(&before, &schema);
            self.partition_key_changed().extend(changed);
            self.put_in_force(schema);
        }
    }

    /// The tables (`keyspace.table`) that were re-created with another partition key since the last call, by
    /// statements that did not pass through cqlens. Requests shortly before were counted by the old key.
    pub fn take_partition_key_changes(&self) -> BTreeSet<String> {
        std::mem::take(&mut *self.partition_key_changed())
    }

    fn partition_key_changed(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.partition_key_changed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn observed(&self) -> MutexGuard<'_, ObservedSchema> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a definition that the server has just accepted, so that the next statement finds it at once.
    ///
    /// What cannot be applied is left to the control connection, which reads the schema anew after every
    /// change.
    pub fn apply(&self, cql: &str, keyspace: Option<&str>) {
        self.observed().forget_tables();
        let mut recent_ddl = self.recent_ddl();
        if cql.len() > self.memory.longest_statement() {
            recent_ddl.count_left_out();
            return;
        }
        recent_ddl.add(cql, keyspace);
        let mut schema = Schema::clone(&self.schema.load());
        match define(&mut schema, cql, keyspace) {
            Ok(()) => self.put_in_force(schema),
            Err(why) => tracing::debug!(why, "a definition seen on the wire was not applied"),
        }
    }

    /// Takes the schema from rows that a client has read. A schema from a file or from a control connection
    /// takes precedence.
    pub fn see_rows(&self, rows: &Rows<'_>) {
        let mut observed = self.observed();
        let is_read = self.is_known() && !self.is_observed.load(Ordering::Acquire);
        if is_read || self.is_followed() {
            return;
        }
        observed.add(rows);
        // A page may end in the middle of a table.
        let is_last_page = rows.metadata.paging_state.is_none();
        if !observed.has_news() || !is_last_page {
            return;
        }
        let reading = self.begin_reading();
        if let Some(schema) = observed.schema(&self.schema()) {
            self.is_observed.store(true, Ordering::Release);
            self.replace_schema(schema, reading);
        }
    }

    /// Takes over what a node says of the cluster.
    pub fn replace_cluster(&self, cluster: ClusterState) {
        if *self.cluster() == cluster {
            return;
        }
        let mut places = self.places();
        *places = PlacementCache {
            ring: Ring::of(&cluster),
            placements: HashMap::new(),
        };
        self.placed.set(0);
        self.cluster.store(Arc::new(cluster));
        self.version.fetch_add(1, Ordering::Release);
        self.cluster_changed.notify_waiters();
    }

    /// Takes over which nodes have which version of the schema, as one of them told `now`: since the
    /// Unix epoch.
    pub fn see_schema_versions(&self, versions: BTreeMap<String, Vec<String>>, now: Duration) {
        self.agreement().see(versions, now);
    }

    /// The longest time for which nodes had different versions of the schema, since it was last taken; none if
    /// they were not seen to.
    pub(crate) fn take_schema_disagreement(&self) -> Option<Disagreement> {
        self.agreement().take()
    }

    fn agreement(&self) -> MutexGuard<'_, SchemaAgreement> {
        self.agreement.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the partitions of a keyspace's tables live, nodes being indices of [`ClusterState::nodes`]; none
    /// where the ring is not known, or the keyspace, or its replication is not understood.
    pub fn placement(&self, keyspace: &str) -> Option<Arc<Placement>> {
        let schema = self.schema();
        let keyspace = schema.keyspaces.get(keyspace)?;
        let replication = Replication::of(keyspace);
        let PlacementCache { ring, placements } = &mut *self.places();
        let ring = ring.as_ref()?;
        placements
            .entry(replication)
            .or_insert_with_key(|replication| {
                let placement = ring.place(replication, self.placed.room());
                match &placement {
                    Some(placement) => self.placed.take(placement.bytes()),
                    None => self.placed.count_evicted(),
                }
                placement.map(Arc::new)
            })
            .clone()
    }

    fn places(&self) -> MutexGuard<'_, PlacementCache> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock that every change of the schema takes.
    fn recent_ddl(&self) -> MutexGuard<'_, RecentDdl> {
        self.recent_ddl.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The tables whose partition keys differ between two schemas that both have them.
fn partition_key_changes(before: &Schema, after: &Schema) -> Vec<String> {
    let mut names = Vec::new();
    for (keyspace, tables) in before.keyspaces.iter().map(|(name, of)| (name, &of.tables)) {
        for (name, table) in tables {
            let now = after.table(keyspace, name);
            if now.is_some_and(|now| now.partition_key() != table.partition_key()) {
                names.push(format!("{keyspace}.{name}"));
            }
        }
    }
    names
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const BEFORE: &str = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy'};";
    const ORDERS: &str = "CREATE TABLE orders (id int PRIMARY KEY)";

    fn schema(cql: &str) -> Schema {
        Schema::from_cql(cql).unwrap()
    }

    fn tables(live: &Live) -> Vec<String> {
        live.schema().keyspaces["shop"].tables.keys().cloned().collect()
    }

    #[test]
    fn a_table_that_was_created_while_the_schema_was_read_stays_known() {
        let live = Live::with_schema(schema(BEFORE));
        let reading = live.begin_reading();
        live.apply(ORDERS, Some("shop"));
        live.replace_schema(schema(BEFORE), reading);
        assert_eq!(tables(&live), ["orders"]);
    }

    #[test]
    fn a_definition_that_the_reading_has_seen_is_not_applied_twice() {
        let live = Live::with_schema(schema(BEFORE));
        let reading = live.begin_reading();
        live.apply(ORDERS, Some("shop"));
        live.apply("ALTER TABLE orders ADD note text", Some("shop"));
        let read = schema(&format!(
            "{BEFORE} CREATE TABLE shop.orders (id int PRIMARY KEY, note text)"
        ));
        live.replace_schema(read.clone(), reading);
        assert_eq!(*live.schema(), read);
    }

    #[test]
    fn a_reading_that_finds_another_partition_key_says_so_once() {
        let table = |key: &str| {
            format!("{BEFORE} CREATE TABLE shop.orders (id int, line int, note text, PRIMARY KEY ({key}));")
        };
        let live = Live::with_schema(schema(&table("id, line")));
        let read = |cql: &str| live.replace_schema(schema(cql), live.begin_reading());
        read(&table("id, line").replace("note text", "note int"));
        assert!(live.take_partition_key_changes().is_empty());
        read(&table("(id, line)"));
        assert_eq!(
            live.take_partition_key_changes(),
            ["shop.orders".to_owned()].into()
        );
        assert!(live.take_partition_key_changes().is_empty());
        // What was defined on the wire was in force at once.
        live.apply("DROP TABLE shop.orders", None);
        live.apply(
            "CREATE TABLE shop.orders (id int, line int, PRIMARY KEY (line))",
            None,
        );
        read(&table("line, id").replace(", note text", ""));
        assert!(live.take_partition_key_changes().is_empty());
    }

    #[test]
    fn a_later_reading_has_the_last_word() {
        let live = Live::with_schema(schema(BEFORE));
        live.apply(ORDERS, Some("shop"));
        let reading = live.begin_reading();
        live.replace_schema(schema(BEFORE), reading);
        assert!(tables(&live).is_empty());
    }

    #[test]
    fn only_the_last_definitions_are_kept() {
        let live = Live::with_schema(schema(BEFORE));
        let reading = live.begin_reading();
        for table in 0..RecentDdl::MOST + 3 {
            live.apply(
                &format!("CREATE TABLE t{table} (id int PRIMARY KEY)"),
                Some("shop"),
            );
        }
        live.replace_schema(schema(BEFORE), reading);
        assert_eq!(tables(&live).len(), RecentDdl::MOST);
    }

    #[test]
    fn replicas_of_a_ring_without_an_end_are_not_worked_out() {
        let memory = Memory::of(32 << 20);
        let keyspaces = (0..200).map(|number| {
            format!(
                "CREATE KEYSPACE k{number} WITH replication = {{'class': 'NetworkTopologyStrategy', 'dc': {}}};",
                number + 1
            )
        });
        let live = Live::within(memory.clone()).beginning_with(schema(&keyspaces.collect::<String>()));
        let node = |number: i64| super::super::Node {
            data_center: Some("dc".to_owned()),
            tokens: (0..50).map(|token| token * 1_000 + number).collect(),
            ..super::super::Node::default()
        };
        live.replace_cluster(ClusterState {
            partitioner: Some("Murmur3Partitioner".to_owned()),
            nodes: (0..200).map(node).collect(),
            ..ClusterState::default()
        });
        assert!(live.placement("k2").is_some());
        let placed = (0..200).filter(|number| live.placement(&format!("k{number}")).is_some());
        let placed = placed.count();
        assert!((2..100).contains(&placed), "{placed}");
        let part = memory.part(Use::Schema);
        assert!(part.used() <= part.limit() && part.evicted() > 0);
    }
}
