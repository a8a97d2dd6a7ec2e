//! Patterns, tables and coverage over a span of time.
//!
//! A window knows nothing of connections, schemas or rules. Merging windows is associative and commutative,
//! so that a report over a week equals the report of its hours, and one over a fleet that of its proxies.
//! What has a limit (the busiest partitions, beyond 4,096 of a table) merges within its error instead.

mod connections;
mod counts;
mod coverage;
mod load;
mod observed;
mod pattern;
mod reads;
mod repeated_values;
mod ring;
mod room;
mod schema_disagreement;
mod sequences;
mod sightings;
mod sketch;
mod snapshot;
mod table;
mod write_times;
mod written;

use cqlens_cql::{
    plan::{Flag, StatementKind},
    schema::{ColumnName, TableName},
};
use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sketch::meter;

pub use connections::Connections;
pub(crate) use counts::OTHERS;
pub use coverage::{CaptureCoverage, Coverage};
pub use load::{InRing, Load, NodeLoad, RingLoad, Routed, Routing, Unplaced};
pub use observed::{Interval, Observed};
pub use pattern::{Missed, Nulls, Pattern, PatternHead, PatternId, Tombstones, Warned};
pub use reads::{Paging, Repeats, RetryCause, Scanned, TokenRanges};
pub use repeated_values::{RepeatedValue, RepeatedValues};
pub use ring::RingCover;
pub(crate) use room::Room;
pub use room::{Limits, MAX_PATTERNS};
pub use schema_disagreement::SchemaDisagreement;
pub use sequences::{
    BatchedCopies, BucketReads, BucketUnit, CopiedWrites, FollowedReads, Link, RepeatedReads, Rewrites,
    Sequences, WritePairs,
};
pub use sightings::Sightings;
pub use sketch::{Distinct, Distribution, Heavy, HeavyEntry, Largest, RowSample, WrittenRow};
pub use snapshot::{Cluster, Snapshot, SnapshotError};
pub use table::{KeySizes, NodeReads, PartitionReads, TableTraffic};
pub use write_times::WriteTimes;
pub use written::{IndexedColumn, InsertedRows, MAX_INDEXED_COLUMNS};

/// Everything that is known of the traffic between `start` and `end`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// When observation began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// Seconds in which at least one source watched, which is what counts are divided by to make rates: two proxies
    /// for the same minute are 60 seconds, one after the other 120. Of an application or a table only those sources count
    /// that could have seen it ([`Window::sightings`]).
    pub observed_seconds: f64,
    /// When each source watched.
    #[serde(default)]
    pub observed: Observed,
    /// The names of the proxies or captures that saw the traffic.
    pub sources: BTreeSet<String>,
    /// Which of them saw a client, and which a table.
    #[serde(default, skip_serializing_if = "Sightings::is_empty")]
    pub sightings: Sightings,
    /// What was seen and what was not.
    pub coverage: Coverage,
    /// By template.
    #[serde(deserialize_with = "meter::map")]
    pub patterns: BTreeMap<PatternId, Pattern>,
    /// By table or view.
    #[serde(deserialize_with = "meter::map")]
    pub tables: BTreeMap<TableName, TableTraffic>,
    /// By column that has an index.
    #[serde(default, deserialize_with = "meter::map")]
    pub indexed: BTreeMap<ColumnName, IndexedColumn>,
    /// By node and by token.
    #[serde(default)]
    pub load: Load,
    /// Requests by client: application, driver and address as far as known. Bounded.
    #[serde(deserialize_with = "meter::map")]
    pub clients: BTreeMap<String, u64>,
    /// What clients have connected, named as in [`Window::clients`]. Bounded.
    #[serde(default, deserialize_with = "meter::map")]
    pub connections: BTreeMap<String, Connections>,
    /// The longest time for which nodes had different versions of the schema; none if they were not seen to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_disagreement: Option<SchemaDisagreement>,
    /// Statements that belong together.
    #[serde(default)]
    pub sequences: Sequences,
    /// What it takes up.
    #[serde(skip)]
    pub(crate) room: Room,
}

/// The pattern of all statements for which there was no room.
pub const OVERFLOW: PatternId = PatternId(0);

/// How many tables a window tells apart; traffic of further ones is counted with its patterns alone.
pub const MAX_TABLES: usize = 4_096;

/// How many clients a window tells apart; further ones are counted under `(others)`.
pub const MAX_CLIENTS: usize = 1_000;

impl Window {
    /// An empty window of `source` that begins (and ends) at `start`.
    pub fn new(start: Timestamp, source: &str) -> Self {
        Self {
            start,
            end: start,
            observed_seconds: 0.0,
            observed: Observed::default(),
            sources: BTreeSet::from([source.to_owned()]),
            sightings: Sightings::default(),
            coverage: Coverage::default(),
            patterns: BTreeMap::new(),
            tables: BTreeMap::new(),
            indexed: BTreeMap::new(),
            load: Load::default(),
            clients: BTreeMap::new(),
            connections: BTreeMap::new(),
            schema_disagreement: None,
            sequences: Sequences::default(),
            room: Room::default(),
        }
    }

    /// Ends the window at `end`: all the time since its start was watched.
    pub fn close(&mut self, end: Timestamp) {
        self.end = end.max(self.start);
        self.observe(self.end.duration_since(self.start));
    }

    /// Says how long the window was watched from its start on, by its only source.
    pub fn observe(&mut self, watched: SignedDuration) {
        let end = self.start.saturating_add(watched.max(SignedDuration::ZERO));
        let interval = Interval {
            start: self.start,
            end: end.unwrap_or(self.end),
        };
        self.observed = Observed::default();
        self.sources
            .iter()
            .for_each(|source| self.observed.add(source, interval));
        self.observed_seconds = self.observed.seconds();
    }

    /// Seconds in which somebody watched, for rates.
    pub fn seconds(&self) -> f64 {
        self.observed_seconds
    }

    /// For windows of versions that kept no intervals: each source is taken to have watched all the time, of
    /// which nobody knows better. With several sources that is a guess, which is said.
    fn assume_observed(&mut self) {
        if !self.observed.is_empty() || self.observed_seconds <= 0.0 {
            return;
        }
        if self.sources.len() > 1 {
            let notice = "A snapshot of an older version does not tell when each of its sources watched: rates take all \
                          of them to have watched all the time.";
            self.coverage.notices.insert(notice.to_owned());
            return self.observe(self.end.duration_since(self.start));
        }
        let watched = SignedDuration::try_from_secs_f64(self.observed_seconds);
        self.observe(watched.unwrap_or_default());
    }

    /// The pattern `id` of the template `cql`, made with `head` if it is new: what is lightest may go to make
    /// room for it. [`OVERFLOW`] if another template has that id: two that differ are never counted as one.
    pub fn pattern_mut(
        &mut self,
        id: PatternId,
        cql: &str,
        head: impl FnOnce() -> (PatternHead, BTreeSet<Flag>),
    ) -> &mut Pattern {
        if self.is_full() {
            self.make_room();
        }
        match self.patterns.entry(id) {
            Entry::Occupied(known) => {
                let known = known.into_mut();
                if known.head.cql == cql {
                    return known;
                }
                self.coverage.patterns_collided += 1;
                self.room.collided()
            }
            Entry::Vacant(new) => {
                let (head, flags) = head();
                new.insert(self.room.admit(id, Pattern::new(head, flags)))
            }
        }
    }

    /// The pattern in which exchanges of `id` are counted, if it is there.
    pub fn counted_pattern(&mut self, id: PatternId) -> Option<&mut Pattern> {
        let id = if self.patterns.contains_key(&id) {
            id
        } else {
            OVERFLOW
        };
        self.patterns.get_mut(&id)
    }

    /// Counts something in the traffic of a table.
    pub fn count_table(&mut self, name: &TableName, count: impl FnOnce(&mut TableTraffic)) {
        // The name is copied once, not for every exchange.
        if let Some(table) = self.tables.get_mut(name) {
            return count(table);
        }
        if self.tables.len() >= MAX_TABLES {
            self.make_room();
        }
        count(self.tables.entry(name.clone()).or_default());
    }

    /// Adds the traffic of a table.
    pub(crate) fn add_table(&mut self, name: &TableName, traffic: TableTraffic) {
        match self.tables.get_mut(name) {
            Some(table) => table.merge(&traffic),
            None => drop(self.tables.insert(name.clone(), traffic)),
        }
    }

    /// Counts something of a column that has an index.
    pub fn count_indexed(&mut self, name: &ColumnName, count: impl FnOnce(&mut IndexedColumn)) {
        // The name is copied once, not for every exchange.
        if let Some(column) = self.indexed.get_mut(name) {
            return count(column);
        }
        if self.indexed.len() >= MAX_INDEXED_COLUMNS {
            self.make_room();
        }
        count(self.indexed.entry(name.clone()).or_default());
    }

    /// Counts requests of `client`.
    pub fn count_client(&mut self, client: &str, requests: u64) {
        counts::add(&mut self.clients, client, requests, MAX_CLIENTS);
    }

    /// The connections of `client`.
    pub fn connections_mut(&mut self, client: &str) -> &mut Connections {
        let is_known = self.connections.contains_key(client);
        let name = match is_known || self.connections.len() < MAX_CLIENTS {
            true => client,
            false => OTHERS,
        };
        self.connections.entry(name.to_owned()).or_default()
    }

    /// Adds what `other` has seen.
    pub fn merge(&mut self, other: &Self) {
        self.start = self.start.min(other.start);
        self.end = self.end.max(other.end);
        self.observed.merge(&other.observed);
        self.observed_seconds = self.observed.seconds();
        self.merge_sightings(other);
        self.sources.extend(other.sources.iter().cloned());
        self.coverage.merge(&other.coverage);
        for (id, pattern) in &other.patterns {
            self.merge_pattern(*id, pattern);
        }
        self.merge_departed(other);
        for (name, table) in &other.tables {
            self.tables.entry(name.clone()).or_default().merge(table);
        }
        for (name, column) in &other.indexed {
            self.indexed.entry(name.clone()).or_default().merge(column);
        }
        self.load.merge(&other.load);
        counts::merge(&mut self.clients, &other.clients, MAX_CLIENTS);
        for (client, connections) in &other.connections {
            self.connections_mut(client).merge(connections);
        }
        let seconds = |disagreement: &Option<SchemaDisagreement>| {
            disagreement.as_ref().map(|disagreement| disagreement.seconds)
        };
        if seconds(&other.schema_disagreement) > seconds(&self.schema_disagreement) {
            self.schema_disagreement.clone_from(&other.schema_disagreement);
        }
        self.sequences.merge(&other.sequences);
        // Once everything is there, so that it does not depend on the order within a window what stays.
        self.make_room();
        let (clients, tables) = (&self.clients, &self.tables);
        self.sightings.retain(
            |client| clients.contains_key(client),
            |table| tables.contains_key(table),
        );
    }

    /// Before anything else of `other` is added: as long as each window has clients and tables of its own sources.
    fn merge_sightings(&mut self, other: &Self) {
        if self.sources.union(&other.sources).count() <= 1 {
            return;
        }
        let mut theirs = other.sightings.clone();
        theirs.fill(&other.sources, other.clients.keys(), other.tables.keys());
        self.sightings
            .fill(&self.sources, self.clients.keys(), self.tables.keys());
        self.sightings.merge(theirs);
    }

    /// Of two templates with one id the first stays.
    fn merge_pattern(&mut self, id: PatternId, pattern: &Pattern) {
        match self.patterns.get_mut(&id) {
            Some(mine) if mine.head.cql == pattern.head.cql => mine.merge(pattern),
            Some(_) => {
                self.coverage.patterns_collided += pattern.count;
                self.others().merge(&Pattern {
                    flags: BTreeSet::new(),
                    ..pattern.clone()
                });
            }
            None => {
                let pattern = self.room.admit(id, pattern.clone());
                self.patterns.insert(id, pattern);
            }
        }
    }
}

fn overflow() -> PatternHead {
    PatternHead {
        kind: StatementKind::Other,
        keyspace: None,
        table: None,
        cql: "(other statements)".to_owned(),
        system: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(cql: &str) -> (PatternHead, BTreeSet<Flag>) {
        (
            PatternHead {
                cql: cql.to_owned(),
                ..overflow()
            },
            BTreeSet::new(),
        )
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap_or_default()
    }

    /// A window of `count` exchanges of each of the patterns `ids`.
    fn window(start: i64, ids: std::ops::Range<u64>, count: u64) -> Window {
        let mut window = Window::new(at(start), if start % 2 == 0 { "even" } else { "odd" });
        for id in ids {
            for exchange in 0..count {
                let pattern = window.pattern_mut(PatternId(id), "SELECT", || head("SELECT"));
                pattern.count += 1;
                pattern.rows.record(exchange * id);
                pattern.see(at(start));
                read(pattern, id, exchange);
                let table = TableName {
                    keyspace: "s".to_owned(),
                    table: format!("t{}", id % 3),
                };
                let table = window.tables.entry(table).or_default();
                table.reads += 1;
                table.top_partitions.read(id);
                table.distinct_partitions.insert(id);
                table.inserted.inserts += 1;
                table.inserted.rows.insert(id);
                table.inserted.contents.insert(id * 100 + exchange);
                index(&mut window, id, exchange);
            }
            load(&mut window.load, id, count);
            window.count_client(&format!("client {id}"), 1);
        }
        window.coverage.audited = count;
        window.close(at(start + 60));
        window
    }

    /// What is beside single exchanges: everything that depends on `id` and `exchange` somehow.
    fn read(pattern: &mut Pattern, id: u64, exchange: u64) {
        pattern.prepared_again += id;
        pattern.nulls.executions += exchange;
        pattern.nulls.count(id.is_multiple_of(2).then_some("name"), id);
        pattern.unpaged += id;
        pattern.tombstones.short_pages += exchange;
        pattern.tombstones.empty_pages += id;
        pattern.unpaged_rows.record(exchange);
        pattern.paging.rows.record(id * 100 + exchange);
        pattern.paging.pages.record(exchange);
        pattern.paging.abandoned += id % 2;
        pattern.paging.unlinked += exchange;
        pattern.repeats.in_flight += id;
        let cause = if id.is_multiple_of(3) {
            RetryCause::Unprepared
        } else {
            RetryCause::ReadTimeout
        };
        *pattern.repeats.retries.entry(cause).or_default() += 1;
        pattern.scanned.rows += id;
        pattern.scanned.partitions.record(id);
        if id.is_multiple_of(2) {
            pattern.scanned.see(id * exchange);
        }
        let width = i64::try_from(id).unwrap_or(0) << 52;
        pattern.token_ranges.cover.insert(width, width + (1 << 53));
        pattern.token_ranges.sweeps += exchange % 2;
        pattern.token_ranges.sweep_reads += 1;
        let routed = [Routed::ToReplica, Routed::ToOther, Routed::Unknown];
        (0..=exchange % 3).for_each(|at| pattern.routing.count(routed[usize::try_from(at).unwrap_or(0)]));
    }

    fn index(window: &mut Window, id: u64, exchange: u64) {
        let name = ColumnName {
            table: TableName {
                keyspace: "s".to_owned(),
                table: "t0".to_owned(),
            },
            column: format!("c{}", id % 5),
        };
        window.count_indexed(&name, |column| {
            column.inserts += 1;
            column.updates += id;
            column.known += exchange;
            column.rows.insert(id);
            column.values.insert(exchange);
            column.reads += exchange;
            column.reads_in_partition += id;
            column.asked.insert(id * exchange);
        });
    }

    fn load(load: &mut Load, id: u64, count: u64) {
        let node = load.nodes.entry(format!("node {}", id % 7)).or_default();
        node.address = Some(format!("10.0.0.{}", id % 7));
        node.coordinated += count;
        node.reads += id;
        let token = i64::try_from(id).unwrap_or(0) << 56;
        load.ring.read(token);
        load.ring.write(-token);
        load.coordinator_unknown += id % 2;
        *load.unplaced.entry(Unplaced::Tablets).or_default() += id;
        load.without_keys += count;
    }

    fn merged(parts: [&Window; 3]) -> Window {
        let mut all = parts[0].clone();
        all.merge(parts[1]);
        all.merge(parts[2]);
        all
    }

    #[test]
    fn windows_merge_in_any_order_and_grouping() {
        let (a, b, c) = (window(0, 2..40, 3), window(61, 20..60, 2), window(122, 5..10, 40));
        let all = merged([&a, &b, &c]);
        assert_eq!(all, merged([&c, &a, &b]));
        let mut right = b.clone();
        right.merge(&c);
        let mut grouped = a.clone();
        grouped.merge(&right);
        assert_eq!(all, grouped);
        assert_eq!((all.start, all.end, all.coverage.audited), (at(0), at(182), 45));
    }

    #[test]
    fn a_snapshot_from_before_there_was_anything_beside_exchanges_is_read() {
        let mut window = window(0, 2..4, 3);
        window.coverage.reads_forgotten = 7;
        let snapshot = Snapshot::new(window, Cluster::default(), String::new(), String::new());
        let mut text = Vec::new();
        snapshot.write(&mut text).unwrap_or_default();
        let read: Option<Snapshot> = Snapshot::read(&text[..]).ok();
        assert_eq!(read.as_ref(), Some(&snapshot), "today's comes back whole");

        let mut old: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let patterns = old["window"]["patterns"].as_object_mut().into_iter().flatten();
        for (_, pattern) in patterns {
            for name in [
                "prepared_again",
                "nulls",
                "unpaged",
                "unpaged_rows",
                "paging",
                "repeats",
                "scanned",
                "token_ranges",
                "routing",
            ] {
                let removed = pattern.as_object_mut().and_then(|pattern| pattern.remove(name));
                assert!(removed.is_some(), "{name}");
            }
        }
        let coverage = old["window"]["coverage"].as_object_mut();
        let removed = coverage.and_then(|coverage| coverage.remove("reads_forgotten"));
        assert!(removed.is_some());
        for (_, table) in old["window"]["tables"].as_object_mut().into_iter().flatten() {
            let removed = table.as_object_mut().and_then(|table| table.remove("inserted"));
            assert!(removed.is_some());
        }
        for name in ["load", "indexed"] {
            let window = old["window"].as_object_mut();
            assert!(window.and_then(|window| window.remove(name)).is_some(), "{name}");
        }
        let read = Snapshot::read(old.to_string().as_bytes()).map(|snapshot| snapshot.window);
        assert_eq!(
            read.as_ref().map(|window| &window.load).ok(),
            Some(&Load::default())
        );
        let expected = snapshot.window.patterns.into_iter().map(|(id, pattern)| {
            let without = Pattern {
                prepared_again: 0,
                nulls: Nulls::default(),
                unpaged: 0,
                unpaged_rows: Distribution::default(),
                paging: Paging::default(),
                repeats: Repeats::default(),
                scanned: Scanned::default(),
                token_ranges: TokenRanges::default(),
                routing: Routing::default(),
                ..pattern
            };
            (id, without)
        });
        assert_eq!(read.map(|window| window.patterns).ok(), Some(expected.collect()));
    }

    #[test]
    fn templates_that_share_an_id_are_not_counted_as_one() {
        let of = |templates: &[&str]| {
            let mut window = Window::new(at(0), "proxy");
            for cql in templates {
                window.pattern_mut(PatternId(7), cql, || head(cql)).count += 1;
            }
            window.make_room();
            window
        };
        let mut window = of(&["SELECT a", "SELECT b", "SELECT a", "SELECT c"]);
        let counted = |window: &Window| {
            let pattern = &window.patterns[&PatternId(7)];
            let others = window.patterns.get(&OVERFLOW).map_or(0, |others| others.count);
            (
                pattern.head.cql.clone(),
                pattern.count,
                others,
                window.coverage.patterns_collided,
            )
        };
        assert_eq!(counted(&window), ("SELECT a".to_owned(), 2, 2, 2));
        window.merge(&of(&["SELECT b", "SELECT b"]));
        assert_eq!(counted(&window), ("SELECT a".to_owned(), 2, 4, 4));
        window.merge(&of(&["SELECT a"]));
        assert_eq!(counted(&window), ("SELECT a".to_owned(), 3, 4, 4));
    }
}
