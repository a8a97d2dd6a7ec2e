//! What a window keeps where there is more than it has room for: what weighs most, not what came first.
//!
//! A window has a limit in patterns and in bytes. Where one is reached, the lightest patterns go at once, a
//! quarter of the room, so that a new one costs a share of a sort and never a search. Their counts go to
//! [`OVERFLOW`], so that totals never change; what they weighed is remembered for some thousands of them, so
//! that one that comes again and again outweighs any stream of others that come once.
//!
//! Statements that the server ran stand before those of which nothing shows that it did (refused, or without
//! an answer): who has no login displaces nothing. Among them those on tables of the schema come first, then
//! what has the larger share of the executions or of the time. With `n` places at most 2/s patterns have a
//! share of `s` or more, so everything with more than 3/n of either stays.

use std::{
    cmp::{Ordering, Reverse},
    collections::BTreeMap,
};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{
    IndexedColumn, MAX_INDEXED_COLUMNS, MAX_TABLES, Missed, OVERFLOW, Pattern, PatternId, TableTraffic,
    Window,
    counts::{self, raise},
    sketch::meter,
};
use cqlens_cql::schema::{ColumnName, TableName};

/// How much a window holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Patterns that are told apart.
    pub patterns: usize,
    /// Bytes of memory, of patterns, tables and columns with all their sketches.
    pub bytes: usize,
}

/// How many patterns a window tells apart by default.
pub const MAX_PATTERNS: usize = 20_000;

impl Default for Limits {
    /// So that the window being filled, the running report and a window being written stay within 128 MiB
    /// together.
    fn default() -> Self {
        Self::of_bytes(40 << 20)
    }
}

impl Limits {
    /// Fewer say nothing.
    pub const LEAST_PATTERNS: usize = 64;

    /// Less than this does not hold one pattern of every kind.
    pub const LEAST_BYTES: usize = 4 << 20;

    /// More than this may make a snapshot that is too large to be read.
    pub const MOST_BYTES: usize = 128 << 20;

    /// So many bytes, or the nearest number that works.
    pub fn of_bytes(bytes: usize) -> Self {
        Self {
            patterns: MAX_PATTERNS,
            bytes: bytes.clamp(Self::LEAST_BYTES, Self::MOST_BYTES),
        }
    }

    /// The nearest that work.
    fn workable(self) -> Self {
        Self {
            patterns: self.patterns.clamp(Self::LEAST_PATTERNS, MAX_PATTERNS),
            ..Self::of_bytes(self.bytes)
        }
    }

    /// What patterns have of the bytes.
    fn of_patterns(self) -> usize {
        // Where there are others, they are one pattern more.
        self.bytes / 4 * 3 - (1 << 20)
    }

    /// What tables have.
    fn of_tables(self) -> usize {
        self.bytes / 16 * 3
    }

    /// What columns with an index have.
    fn of_columns(self) -> usize {
        self.bytes / 16
    }
}

/// What a window takes up, and what it remembers of what it had no room for. No part of what it says.
#[derive(Debug, Clone, Default)]
pub struct Room {
    limits: Limits,
    /// As measured, with everything that has been added since.
    bytes: u64,
    departed: Departed,
    /// Statements whose fingerprint another template has, until they are counted with the others.
    collided: Option<Box<Pattern>>,
}

impl PartialEq for Room {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Room {
    /// Counts a new pattern, which regains what it is known to have weighed before.
    #[cold]
    pub(super) fn admit(&mut self, id: PatternId, mut pattern: Pattern) -> Pattern {
        self.bytes += pattern.bytes() as u64;
        if id != OVERFLOW
            && let Some(missed) = self.departed.take(id)
        {
            pattern.missed.merge(missed);
        }
        pattern
    }

    /// Where statements are counted whose fingerprint another template has.
    #[cold]
    pub(super) fn collided(&mut self) -> &mut Pattern {
        self.collided.get_or_insert_with(|| Box::new(Pattern::others()))
    }
}

impl Window {
    /// The same window with other limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.room.limits = limits.workable();
        self.make_room();
        self
    }

    /// How much it holds.
    pub fn limits(&self) -> Limits {
        self.room.limits
    }

    /// Bytes that it takes up, as far as they have been counted; never less, but for what tables and clients
    /// that wait to be named take.
    pub fn bytes(&self) -> u64 {
        self.room.bytes
    }

    /// Whether there is more than it has room for. What this thread's sketches have grown by is taken for the
    /// window's.
    #[inline]
    pub fn is_full(&mut self) -> bool {
        let Limits { patterns, bytes } = self.room.limits;
        self.room.bytes += meter::take();
        self.room.bytes > bytes as u64 || self.patterns.len() >= patterns
    }

    /// Measures everything, and lets go of the lightest where there is more than there is room for.
    #[cold]
    pub fn make_room(&mut self) {
        meter::take();
        if let Some(collided) = self.room.collided.take() {
            self.others().merge(&collided);
        }
        let is_over = self.measure() > self.room.limits.bytes;
        if is_over || self.tables.len() >= MAX_TABLES {
            self.shed_tables();
        }
        if is_over || self.indexed.len() >= MAX_INDEXED_COLUMNS {
            self.shed_columns();
        }
        if is_over || self.patterns.len() >= self.room.limits.patterns {
            self.shed_patterns();
        }
        self.room.bytes = self.measure() as u64;
        meter::take();
    }

    fn measure(&self) -> usize {
        let patterns: usize = self.patterns.values().map(Pattern::bytes).sum();
        let tables: usize = self.tables.iter().map(table_bytes).sum();
        patterns + tables + self.indexed.len() * COLUMN_BYTES + self.sequences.bytes()
    }

    fn shed_patterns(&mut self) {
        let limits = self.room.limits;
        let mut standings = self.standings();
        let bytes: usize = standings.iter().map(|standing| standing.bytes).sum();
        if self.patterns.len() < limits.patterns && bytes <= limits.of_patterns() {
            return;
        }
        standings.sort_unstable_by(|a, b| b.rank(a));
        let (most, most_bytes) = (counts::kept(limits.patterns), limits.of_patterns() / 4 * 3);
        let mut taken = 0;
        let kept = standings
            .iter()
            .take(most)
            .take_while(|standing| {
                taken += standing.bytes;
                taken <= most_bytes
            })
            .count();
        let gone: FxHashSet<PatternId> = standings[kept..].iter().map(|standing| standing.id).collect();
        for standing in &standings[kept..] {
            self.evict(standing.id);
        }
        self.sequences.forget(&gone);
    }

    fn standings(&self) -> Vec<Standing> {
        let weights = self
            .patterns
            .iter()
            .map(|(&id, pattern)| (id, pattern, Missed::of(pattern)));
        let weights: Vec<_> = weights.filter(|(id, ..)| *id != OVERFLOW).collect();
        let mut all = Missed::default();
        weights.iter().for_each(|(.., weight)| all.merge(*weight));
        let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
        let standing = |(id, pattern, weight): (PatternId, &Pattern, Missed)| Standing {
            id,
            is_confirmed: pattern.is_confirmed(),
            is_known: pattern.on_known_table,
            share: share(weight.executions, all.executions).max(share(weight.latency_us, all.latency_us)),
            bytes: pattern.bytes(),
        };
        weights.into_iter().map(standing).collect()
    }

    /// Moves what a pattern has counted to the other statements.
    fn evict(&mut self, id: PatternId) {
        let Some(mut pattern) = self.patterns.remove(&id) else {
            return;
        };
        raise(&mut self.coverage.patterns_overflowed, pattern.count);
        self.coverage.patterns_evicted += 1;
        if pattern.is_confirmed() {
            self.room.departed.add(id, Missed::of(&pattern));
        }
        pattern.flags.clear();
        pattern.missed = Missed::default();
        self.others().merge(&pattern);
    }

    /// The pattern of all statements that have none of their own.
    pub(super) fn others(&mut self) -> &mut Pattern {
        self.patterns.entry(OVERFLOW).or_insert_with(Pattern::others)
    }

    /// What `other` remembers of patterns that it had no room for is missing here, too.
    pub(super) fn merge_departed(&mut self, other: &Self) {
        for (&id, &missed) in &other.room.departed.0 {
            match self.patterns.get_mut(&PatternId(id)) {
                Some(pattern) => pattern.missed.merge(missed),
                None => self.room.departed.add(PatternId(id), missed),
            }
        }
    }

    /// The busiest partitions go first, beyond those that are never let go of; then the tables that are used
    /// least.
    fn shed_tables(&mut self) {
        let most_bytes = self.room.limits.of_tables();
        let sum = |tables: &BTreeMap<_, _>| tables.iter().map(table_bytes).sum::<usize>();
        if sum(&self.tables) > most_bytes {
            let traffic = self.tables.values_mut();
            traffic.for_each(|table| table.shrink());
        }
        if sum(&self.tables) <= most_bytes && self.tables.len() < MAX_TABLES {
            return;
        }
        let rank = |table: &TableTraffic| (table.known, table.reads + table.writes);
        let gone = lightest(&self.tables, rank, table_bytes, MAX_TABLES, most_bytes);
        for name in gone {
            if let Some(table) = self.tables.remove(&name) {
                raise(&mut self.coverage.tables_overflowed, table.reads + table.writes);
                self.coverage.tables_evicted += 1;
            }
        }
    }

    fn shed_columns(&mut self) {
        let most_bytes = self.room.limits.of_columns();
        if self.indexed.len() * COLUMN_BYTES <= most_bytes && self.indexed.len() < MAX_INDEXED_COLUMNS {
            return;
        }
        let size = |_: (&ColumnName, &IndexedColumn)| COLUMN_BYTES;
        let gone = lightest(
            &self.indexed,
            IndexedColumn::uses,
            size,
            MAX_INDEXED_COLUMNS,
            most_bytes,
        );
        for name in gone {
            if let Some(column) = self.indexed.remove(&name) {
                raise(&mut self.coverage.indexed_columns_overflowed, column.uses());
            }
        }
    }
}

/// The names of those that go, so that three quarters of the limits are left.
fn lightest<K: Ord + Clone, V, R: Ord>(
    map: &BTreeMap<K, V>,
    rank: impl Fn(&V) -> R,
    size: impl Fn((&K, &V)) -> usize,
    most: usize,
    most_bytes: usize,
) -> Vec<K> {
    let mut ranked: Vec<_> = map.iter().collect();
    ranked.sort_by_key(|&(name, value)| (Reverse(rank(value)), name));
    let mut taken = 0;
    let kept = ranked
        .iter()
        .take(counts::kept(most))
        .take_while(|&&entry| {
            taken += size(entry);
            taken <= most_bytes / 4 * 3
        })
        .count();
    ranked[kept..].iter().map(|(name, _)| (*name).clone()).collect()
}

fn table_bytes((name, table): (&TableName, &TableTraffic)) -> usize {
    name.keyspace.len() + name.table.len() + table.bytes()
}

/// Three sketches of 2 KiB, and the name.
const COLUMN_BYTES: usize = 3 * 2_304 + 512;

/// How a pattern compares with the others.
struct Standing {
    id: PatternId,
    is_confirmed: bool,
    is_known: bool,
    share: f64,
    bytes: usize,
}

impl Standing {
    /// Greater is what stays. Ids decide where all else is equal, so that it does not depend on the order of
    /// windows.
    fn rank(&self, other: &Self) -> Ordering {
        let class = |standing: &Self| (standing.is_confirmed, standing.is_known);
        class(self)
            .cmp(&class(other))
            .then(self.share.total_cmp(&other.share))
            .then(self.id.cmp(&other.id))
    }
}

/// What patterns weighed that went: the heaviest of them (Misra and Gries 1982, purged in batches). One that
/// has gone again and again with more than a 2,048th of all that has gone is here.
#[derive(Debug, Clone, Default)]
struct Departed(FxHashMap<u64, Missed>);

impl Departed {
    const KEPT: usize = 2_048;

    fn add(&mut self, id: PatternId, missed: Missed) {
        self.0.entry(id.0).or_default().merge(missed);
        if self.0.len() >= 4 * Self::KEPT {
            self.purge();
        }
    }

    fn take(&mut self, id: PatternId) -> Option<Missed> {
        // Nothing has gone from most windows.
        if self.0.is_empty() {
            return None;
        }
        self.0.remove(&id.0)
    }

    /// Keeps the heavier ones by executions, and those by time.
    fn purge(&mut self) {
        let lightest_kept = |weight: fn(&Missed) -> u64| {
            let mut weights: Vec<u64> = self.0.values().map(weight).collect();
            *weights.select_nth_unstable_by(Self::KEPT - 1, |a, b| b.cmp(a)).1
        };
        let executions = lightest_kept(|missed| missed.executions);
        let latency = lightest_kept(|missed| missed.latency_us);
        self.0
            .retain(|_, missed| missed.executions > executions || missed.latency_us > latency);
    }
}

#[cfg(test)]
mod tests;
