#![doc = include_str!("../README.md")]
//!
//! Patterns, tables and coverage over a span of time.
//!
//! A window knows nothing of connections, schemas or rules. Merging windows is associative and commutative,
//! so that a report over a week equals the report of its hours, and one over a fleet that of its proxies.
//! What has a limit (the busiest partitions, beyond 4,096 of a table) merges within its error instead.

mod connections;
mod counts;
mod coverage;
mod detail;
mod load;
pub mod number;
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
use counts::raise;
pub use counts::{OTHERS, is_client_address};
pub use coverage::{CaptureCoverage, Coverage};
pub use detail::Detail;
pub use load::{InRing, Load, NodeLoad, RingLoad, Routed, Routing, Unplaced};
pub use observed::{Interval, Observed};
pub use pattern::{Missed, Nulls, Pattern, PatternHead, PatternId, Tombstones, Warned};
pub use reads::{Paging, Repeats, RetryCause, Scanned, TokenRanges};
pub use repeated_values::{RepeatedValue, RepeatedValues};
pub use ring::RingCover;
pub use room::Room;
pub use room::{Limits, MAX_PATTERNS};
pub use schema_disagreement::LongestDisagreement;
pub use sequences::PairRoom;
pub use sequences::{
    BatchedCopies, BucketReads, BucketUnit, Bursts, CopiedWrites, FollowedReads, Link, RepeatedReads,
    Rewrites, Sequences, WritePairs,
};
pub use sightings::Sightings;
pub use sketch::{
    Distinct, Distribution, Heavy, HeavyEntry, Largest, PartitionWeights, RowSample, Weights, WrittenRow,
};
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
    #[serde(deserialize_with = "meter::set")]
    pub sources: BTreeSet<String>,
    /// Which of them saw a client, and which a table.
    #[serde(default, skip_serializing_if = "Sightings::is_empty")]
    pub sightings: Sightings,
    /// What was observed, and what was not.
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
    pub schema_disagreement: Option<LongestDisagreement>,
    /// Statements that belong together.
    #[serde(default)]
    pub sequences: Sequences,
    /// What it takes up.
    #[serde(skip)]
    pub room: Room,
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

    /// Seconds in which any source watched, for rates.
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
            let notice = "A snapshot of an older version does not say when each of its sources watched: rates take all \
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
    pub fn add_table(&mut self, name: &TableName, traffic: TableTraffic) {
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

    /// The connections of `client`. Where there are too many clients, those of the quarter with the fewest go to the
    /// others, however early they came.
    pub fn connections_mut(&mut self, client: &str) -> &mut Connections {
        let most = MAX_CLIENTS + usize::from(self.connections.contains_key(OTHERS));
        if self.connections.len() >= most && client != OTHERS && !self.connections.contains_key(client) {
            self.shed_connections();
        }
        self.connections.entry(client.to_owned()).or_default()
    }

    fn shed_connections(&mut self) {
        let many = self
            .connections
            .iter()
            .map(|(client, many)| (client.clone(), many.weight()));
        let is_others = |client: &String| client == OTHERS;
        let gone = counts::keep_heaviest(&mut many.collect(), counts::kept(MAX_CLIENTS), is_others);
        for client in gone.keys() {
            if let Some(connections) = self.connections.remove(client) {
                let others = self.connections.entry(OTHERS.to_owned()).or_default();
                others.merge(&connections);
            }
        }
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
        let seconds = |disagreement: &Option<LongestDisagreement>| {
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
                raise(&mut self.coverage.patterns_collided, pattern.count);
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
mod tests;
