//! What windows were like one after the other: the cluster, its busiest tables and its costliest patterns, in at most
//! 168 points (the hours of a week) of equal length.
//!
//! It is filled while windows are merged, which keeps nothing of when what happened. Merging is associative and
//! commutative, but for tables and patterns beyond the limits. Time that nobody watched has no point: it is not zero.

mod cell;
mod course;
mod grid;
mod kept;
mod reported;
mod spread;

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::application::version_and_driver;
use cell::{Cell, Tally};
pub(crate) use course::{Course, LATENCY, Measure, PARTITIONS, REQUESTS, TOMBSTONES};
use cqlens_cql::schema::{TableName, is_system};
use cqlens_rules::application_name;
use cqlens_window::{OVERFLOW, Observed, Pattern, PatternId, Window};
use grid::Grid;
use kept::{Series, SeriesSet};
pub use reported::{PatternTimeline, TableTimeline, TimelinePoint, TimelineReport, VersionSeen};
use spread::Spread;

/// Windows one after the other.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Timeline {
    grid: Grid,
    observed: Observed,
    cluster: Series,
    tables: SeriesSet<TableName>,
    patterns: SeriesSet<PatternId>,
    /// When a window with requests of a version began first, by application and version.
    versions: BTreeMap<(String, String), Timestamp>,
}

/// Tables and patterns that have a timeline: more than a page shows. Twice as many are kept, so that what becomes
/// busy late is among them.
const MOST_TABLES: usize = 50;
const MOST_PATTERNS: usize = 100;

/// Versions of applications; those with the least names of more.
const MOST_VERSIONS: usize = 200;

/// What the name of a table takes up, and a place in a tree.
const PER_NAME: usize = 128;

impl Timeline {
    /// Adds a window; those of one source must not overlap.
    pub fn add(&mut self, window: &Window) {
        let Some(spread) = Spread::of(&window.observed) else {
            return;
        };
        self.observed.merge(&window.observed);
        self.use_grid(self.grid.with(spread.first(), spread.last(), spread.length()));
        self.add_patterns(window, &spread);
        let of_users = window
            .tables
            .iter()
            .filter(|(name, _)| !is_system(&name.keyspace));
        let mut patterns = by_table(window);
        for (name, traffic) in of_users {
            let patterns = patterns.remove(name).unwrap_or_default();
            let cell = patterns.cell().on(traffic);
            let series = self.tables.series_mut(name);
            series.add(&cell, patterns.time_us(), (&spread, &self.grid));
        }
        for client in window.clients.keys() {
            self.see_version(client, window.start);
        }
        self.keep_heaviest();
    }

    /// Adds what `other` has.
    pub fn merge(&mut self, other: &Self) {
        self.observed.merge(&other.observed);
        self.use_grid(self.grid.merged(&other.grid));
        let mut other = other.clone();
        other.use_grid(self.grid);
        self.cluster.merge(other.cluster);
        self.tables.merge(other.tables);
        self.patterns.merge(other.patterns);
        for (version, at) in other.versions {
            self.first_seen(version, at);
        }
        self.keep_heaviest();
    }

    /// Bytes that it takes up.
    pub fn bytes(&self) -> usize {
        let names = self
            .versions
            .keys()
            .map(|(name, version)| name.len() + version.len() + PER_NAME);
        let tables = self.tables.bytes() + self.tables.len() * PER_NAME;
        self.cluster.bytes() + tables + self.patterns.bytes() + names.sum::<usize>()
    }

    /// Leaves the heaviest tables and patterns, so many that all fit into so many bytes; the cluster always stays.
    pub fn keep_within(&mut self, bytes: usize) {
        let mut most = self.tables.len().max(self.patterns.len());
        while most > 0 && self.bytes() > bytes {
            most /= 2;
            self.tables.keep_heaviest(most);
            self.patterns.keep_heaviest(most);
        }
    }

    fn add_patterns(&mut self, window: &Window, spread: &Spread) {
        let mut all = Tally::default();
        for (&id, pattern) in of_users(window) {
            all.add(pattern);
            if id != OVERFLOW {
                let series = self.patterns.series_mut(&id);
                series.add(
                    &Cell::of(pattern),
                    pattern.latency_us.total(),
                    (spread, &self.grid),
                );
            }
        }
        self.cluster.add(&all.cell(), all.time_us(), (spread, &self.grid));
    }

    fn use_grid(&mut self, grid: Grid) {
        let before = std::mem::replace(&mut self.grid, grid);
        if before.point_seconds() == grid.point_seconds() {
            return;
        }
        let factor = grid.point_seconds() / before.point_seconds();
        self.cluster.coarsen(factor);
        self.tables.coarsen(factor);
        self.patterns.coarsen(factor);
    }

    fn see_version(&mut self, client: &str, at: Timestamp) {
        if let (Some(version), _) = version_and_driver(client) {
            self.first_seen((application_name(client).to_owned(), version.to_owned()), at);
        }
    }

    fn first_seen(&mut self, version: (String, String), at: Timestamp) {
        let first = self.versions.entry(version).or_insert(at);
        *first = at.min(*first);
        if self.versions.len() > MOST_VERSIONS {
            self.versions.pop_last();
        }
    }

    fn keep_heaviest(&mut self) {
        self.tables.keep_heaviest(MOST_TABLES * 2);
        self.patterns.keep_heaviest(MOST_PATTERNS * 2);
    }
}

fn of_users(window: &Window) -> impl Iterator<Item = (&PatternId, &Pattern)> {
    window.patterns.iter().filter(|(_, pattern)| !pattern.head.system)
}

/// Latencies and errors, which a window counts by pattern.
fn by_table(window: &Window) -> BTreeMap<TableName, Tally> {
    let mut tables: BTreeMap<TableName, Tally> = BTreeMap::new();
    for (_, pattern) in of_users(window) {
        let head = &pattern.head;
        if let (Some(keyspace), Some(table)) = (head.keyspace.clone(), head.table.clone()) {
            tables
                .entry(TableName { keyspace, table })
                .or_default()
                .add(pattern);
        }
    }
    tables
}

#[cfg(test)]
mod tests;
