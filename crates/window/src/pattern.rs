//! All exchanges of one template in a window.

use cqlens_cql::plan::StatementKind;
use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    Distinct, Distribution, Paging, Repeats, Routing, Scanned, TokenRanges, WriteTimes, counts,
    counts::raise,
    coverage::add_counts,
    overflow,
    sketch::meter::{self, PER_ENTRY},
};
use cqlens_cql::{footprint::PartitionClass, plan::Flag};

/// The identity of a query pattern: the 64-bit fingerprint of its template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PatternId(
    #[cfg_attr(
        feature = "json-schema",
        schemars(with = "String", regex(pattern = "^[0-9a-f]{16}$"))
    )]
    pub u64,
);

impl PatternId {
    /// What [`Display`](std::fmt::Display) wrote.
    pub fn of_name(name: &str) -> Option<Self> {
        u64::from_str_radix(name, 16).ok().map(Self)
    }
}

impl std::fmt::Display for PatternId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{:016x}", self.0)
    }
}

impl Serialize for PatternId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PatternId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16)
            .map(Self)
            .map_err(serde::de::Error::custom)
    }
}

/// What is the same for all exchanges of a pattern.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PatternHead {
    /// What the statement does.
    pub kind: StatementKind,
    /// The keyspace, resolved; none for statements without one.
    pub keyspace: Option<String>,
    /// The table or view; the first one of a batch.
    pub table: Option<String>,
    /// The template: the statement with `?` for every value.
    pub cql: String,
    /// On a system keyspace: a driver's or tool's own statement.
    pub system: bool,
}

/// The counters, histograms and sketches of one template.
///
/// Durations are in microseconds, sizes in bytes. Everything merges by addition or union.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pattern {
    /// What is the same for all exchanges.
    #[serde(flatten)]
    pub head: PatternHead,
    /// Properties of the statement under the schema in force.
    #[serde(deserialize_with = "meter::set")]
    pub flags: BTreeSet<Flag>,
    /// Exchanges, errors included.
    pub count: u64,
    /// Executions of which nothing shows that the server ran them: refused, or without an answer.
    #[serde(default)]
    pub unconfirmed: u64,
    /// Whether all of its tables are in the schema that was known.
    #[serde(default)]
    pub on_known_table: bool,
    /// What is not counted here but among other statements: there was no room for it at times.
    #[serde(default, skip_serializing_if = "Missed::is_nothing")]
    pub missed: Missed,
    /// Exchanges whose response was an error.
    pub errors: u64,
    /// Errors by their protocol code.
    #[serde(deserialize_with = "meter::map")]
    pub error_codes: BTreeMap<u32, u64>,
    /// Server warnings, of all exchanges.
    pub warnings: u64,
    /// What they warn of, those of tombstones left out, which are in `tombstones`. Bounded.
    #[serde(default, deserialize_with = "meter::map")]
    pub warned: BTreeMap<String, Warned>,
    /// Exchanges that were traced.
    #[serde(default)]
    pub traced: u64,
    /// Executions of a conditional statement whose condition did not hold.
    #[serde(default)]
    pub not_applied: u64,
    /// The timestamps that clients gave its writes.
    #[serde(default)]
    pub write_times: WriteTimes,
    /// From the request's last byte to the response's first, as seen at the proxy.
    pub latency_us: Distribution,
    /// Partitions of each execution whose number is known.
    pub partitions: Distribution,
    /// Executions by what they touch.
    #[serde(deserialize_with = "meter::map")]
    pub classes: BTreeMap<PartitionClass, u64>,
    /// Values of clustering columns that each execution lists with `IN`, the lists of several columns multiplied.
    #[serde(default)]
    pub listed_rows: Distribution,
    /// Rows of each response with rows.
    pub rows: Distribution,
    /// Size of each answer's envelope, as it went over the wire.
    pub response_bytes: Distribution,
    /// Size of each request's envelope, as it went over the wire.
    pub request_bytes: Distribution,
    /// Size of the largest value that each INSERT or UPDATE binds, of those that bind one of
    /// [`Pattern::LARGE_VALUE`] bytes or more.
    #[serde(default)]
    pub large_values: Distribution,
    /// Elements of the largest collection that each INSERT or UPDATE binds as a whole, of those that bind one of
    /// [`Pattern::MANY_ITEMS`] or more.
    #[serde(default)]
    pub collection_items: Distribution,
    /// What the server said of tombstones.
    pub tombstones: Tombstones,
    /// Responses that were a page of a longer read.
    pub pages: u64,
    /// Reads, the pages of one counted once: those without a paging state. What comes again after an error or
    /// a lost connection is not another read.
    pub logical_reads: u64,
    /// Reads that asked for no page size: their answer is one message, however many rows it holds.
    #[serde(default)]
    pub unpaged: u64,
    /// Rows of their answers.
    #[serde(default)]
    pub unpaged_rows: Distribution,
    /// The smallest and the largest page that a read asked for, in rows; none if none did.
    #[serde(default)]
    pub page_sizes: Option<(u64, u64)>,
    /// Reads with their pages put together.
    #[serde(default)]
    pub paging: Paging,
    /// Executions that look like repetitions of another one.
    #[serde(default)]
    pub repeats: Repeats,
    /// What the rows of scans say of the partitions that were read.
    #[serde(default)]
    pub scanned: Scanned,
    /// Reads between two tokens.
    #[serde(default)]
    pub token_ranges: TokenRanges,
    /// Executions that touch a single partition, by whether they went to a node that holds it.
    #[serde(default)]
    pub routing: Routing,
    /// Exchanges by consistency level, as the specification names it (`LOCAL_QUORUM`).
    #[serde(deserialize_with = "meter::map")]
    pub consistency: BTreeMap<String, u64>,
    /// Executions of conditional statements by the consistency level of their consensus: `SERIAL`, which is also
    /// what servers take where a request names none, or `LOCAL_SERIAL`.
    #[serde(default, deserialize_with = "meter::map")]
    pub serial_consistency: BTreeMap<String, u64>,
    /// Executions of a prepared statement.
    pub prepared: u64,
    /// How often it was prepared after it had been executed in the same window.
    #[serde(default)]
    pub prepared_again: u64,
    /// Executions that sent the statement's text.
    pub unprepared: u64,
    /// Nulls that INSERTs and UPDATEs bound.
    #[serde(default)]
    pub nulls: Nulls,
    /// Executions by client, as [`super::Window::clients`] names them. Bounded.
    #[serde(deserialize_with = "meter::map")]
    pub clients: BTreeMap<String, u64>,
    /// The first and the last exchange.
    pub seen: Option<(Timestamp, Timestamp)>,
}

/// Warnings of one class.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warned {
    /// How many there were.
    pub times: u64,
    /// The largest figure that they name, in the unit of their class; 0 where they name none.
    pub largest: u64,
}

/// How many classes of warnings a pattern tells apart; there are about forty.
const MAX_WARNING_CLASSES: usize = 64;

/// Executions of a pattern that are counted among other statements, at least.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Missed {
    /// How many.
    pub executions: u64,
    /// Their latencies together, in microseconds.
    pub latency_us: u64,
}

impl Missed {
    /// What would be missed if `pattern` went.
    pub(super) fn of(pattern: &Pattern) -> Self {
        let executions = match pattern.is_confirmed() {
            true => pattern.count.saturating_sub(pattern.unconfirmed),
            false => pattern.count,
        };
        let mut missed = pattern.missed;
        missed.merge(Self {
            executions,
            latency_us: pattern.latency_us.total(),
        });
        missed
    }

    /// Whether everything is counted.
    pub fn is_nothing(&self) -> bool {
        self.executions == 0
    }

    pub(super) fn merge(&mut self, other: Self) {
        raise(&mut self.executions, other.executions);
        raise(&mut self.latency_us, other.latency_us);
    }
}

/// Server-side evidence of tombstones.
///
/// Its absence proves nothing: without `read_thresholds_enabled` a coordinator reports only what it read
/// itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tombstones {
    /// Tombstones of each read for which the server gave a number.
    pub scanned: Distribution,
    /// Live rows of the same reads.
    pub live_rows: Distribution,
    /// Reads with a tombstone warning.
    pub warned: u64,
    /// Reads that the server gave up because of tombstones.
    pub aborted: u64,
    /// Reads that were asked again with tracing, and whose trace tells what was read.
    #[serde(default)]
    pub traced: u64,
    /// Pages that ended before they were full though more was to come, of reads that leave no live row out:
    /// the server stops where it has passed too much that is deleted. ScyllaDB does
    /// (`query_tombstone_page_limit`), Cassandra fills its pages.
    #[serde(default)]
    pub short_pages: u64,
    /// Those of them without a single row.
    #[serde(default)]
    pub empty_pages: u64,
}

impl Tombstones {
    /// Reads of which the server said how many tombstones they passed, or that there were too many.
    pub fn observed(&self) -> u64 {
        self.reported() + self.traced
    }

    /// Reads of which the server said by itself that there were many tombstones.
    pub fn reported(&self) -> u64 {
        self.warned + self.aborted
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.scanned.merge(&other.scanned);
        self.live_rows.merge(&other.live_rows);
        raise(&mut self.warned, other.warned);
        raise(&mut self.aborted, other.aborted);
        raise(&mut self.traced, other.traced);
        raise(&mut self.short_pages, other.short_pages);
        raise(&mut self.empty_pages, other.empty_pages);
    }
}

/// Nulls among the values that were bound: each deletes a column.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Nulls {
    /// Executions with at least one.
    pub executions: u64,
    /// By the column that they were bound for; `(others)` where that is not known or there are too many.
    #[serde(deserialize_with = "meter::map")]
    pub by_column: BTreeMap<String, u64>,
}

/// How many columns a pattern tells apart.
const MAX_NULL_COLUMNS: usize = 64;

impl Nulls {
    /// Counts nulls of a column.
    pub fn count(&mut self, column: Option<&str>, times: u64) {
        let column = column.unwrap_or(counts::OTHERS);
        counts::add(&mut self.by_column, column, times, MAX_NULL_COLUMNS);
    }

    /// Those of all columns.
    pub fn sum(&self) -> u64 {
        self.by_column.values().sum()
    }

    /// Adds the nulls of `other`.
    fn merge(&mut self, other: &Self) {
        raise(&mut self.executions, other.executions);
        for (column, &count) in &other.by_column {
            self.count(Some(column), count);
        }
    }
}

/// How many error codes a pattern tells apart, three times as many as the specification has; others are in
/// `errors` alone.
const MAX_ERROR_CODES: usize = 64;

/// How many clients a pattern tells apart; the others are counted under `(others)`.
const MAX_CLIENTS: usize = 64;

/// References to all distributions of a pattern.
macro_rules! distributions {
    ($pattern:expr $(, $mutable:tt)?) => {
        [
            &$($mutable)? $pattern.latency_us,
            &$($mutable)? $pattern.partitions,
            &$($mutable)? $pattern.listed_rows,
            &$($mutable)? $pattern.rows,
            &$($mutable)? $pattern.response_bytes,
            &$($mutable)? $pattern.request_bytes,
            &$($mutable)? $pattern.large_values,
            &$($mutable)? $pattern.collection_items,
            &$($mutable)? $pattern.tombstones.scanned,
            &$($mutable)? $pattern.tombstones.live_rows,
            &$($mutable)? $pattern.unpaged_rows,
            &$($mutable)? $pattern.paging.rows,
            &$($mutable)? $pattern.paging.pages,
            &$($mutable)? $pattern.scanned.partitions,
        ]
    };
}

impl Pattern {
    /// Values from this size on are counted by their size: what is smaller is no burden to anybody.
    pub const LARGE_VALUE: usize = 64 << 10;

    /// Collections with this many elements or more are counted by them: a few dozen are what they are made for.
    pub const MANY_ITEMS: u64 = 32;

    /// Stands among the error codes for that of ScyllaDB's SCYLLA_RATE_LIMIT_ERROR, which each server announces.
    pub const RATE_LIMIT: u32 = 0xF000;

    /// A pattern without exchanges.
    pub fn new(head: PatternHead, flags: BTreeSet<Flag>) -> Self {
        Self {
            head,
            flags,
            count: 0,
            unconfirmed: 0,
            on_known_table: false,
            missed: Missed::default(),
            errors: 0,
            error_codes: BTreeMap::new(),
            warnings: 0,
            warned: BTreeMap::new(),
            traced: 0,
            not_applied: 0,
            write_times: WriteTimes::default(),
            latency_us: Distribution::default(),
            partitions: Distribution::default(),
            classes: BTreeMap::new(),
            listed_rows: Distribution::default(),
            rows: Distribution::default(),
            response_bytes: Distribution::default(),
            request_bytes: Distribution::default(),
            large_values: Distribution::default(),
            collection_items: Distribution::default(),
            tombstones: Tombstones::default(),
            pages: 0,
            logical_reads: 0,
            unpaged: 0,
            unpaged_rows: Distribution::default(),
            page_sizes: None,
            paging: Paging::default(),
            repeats: Repeats::default(),
            scanned: Scanned::default(),
            token_ranges: TokenRanges::default(),
            routing: Routing::default(),
            consistency: BTreeMap::new(),
            serial_consistency: BTreeMap::new(),
            prepared: 0,
            prepared_again: 0,
            nulls: Nulls::default(),
            unprepared: 0,
            clients: BTreeMap::new(),
            seen: None,
        }
    }

    /// The pattern of all statements for which there is no room.
    pub(super) fn others() -> Self {
        Self::new(overflow(), BTreeSet::new())
    }

    /// Whether the server has run it, as far as its answers show.
    pub fn is_confirmed(&self) -> bool {
        self.count > self.unconfirmed || !self.missed.is_nothing()
    }

    /// Bytes that it takes up.
    pub(super) fn bytes(&self) -> usize {
        let head = &self.head;
        let names = [&head.keyspace, &head.table].map(|name| name.as_ref().map_or(0, String::len));
        let distributions = distributions!(self);
        let counted = [
            &self.clients,
            &self.consistency,
            &self.serial_consistency,
            &self.nulls.by_column,
        ];
        let counted = counted.into_iter().flat_map(|counts| counts.keys());
        let entries =
            self.error_codes.len() + self.classes.len() + self.repeats.retries.len() + self.flags.len();
        // A tree has two places for three entries on average.
        size_of::<Self>() * 3 / 2
            + head.cql.len()
            + names.into_iter().sum::<usize>()
            + distributions.map(Distribution::bytes).into_iter().sum::<usize>()
            + self.scanned.distinct.as_ref().map_or(0, Distinct::bytes)
            + self.token_ranges.cover.bytes()
            + counted.map(|name| name.len() + PER_ENTRY).sum::<usize>()
            + self
                .warned
                .keys()
                .map(|class| class.len() + PER_ENTRY)
                .sum::<usize>()
            + entries * PER_ENTRY
    }

    /// All of them, those that are empty, too.
    pub(super) fn distributions_mut(&mut self) -> [&mut Distribution; 14] {
        distributions!(self, mut)
    }

    /// The class that most executions have; the worse one where two are equally frequent.
    pub fn class(&self) -> PartitionClass {
        let most = self.classes.iter().max_by_key(|&(class, count)| (count, class));
        most.map_or(PartitionClass::Unknown, |(&class, _)| class)
    }

    /// Whether the statement has the property.
    pub fn is(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// Notes that an exchange happened at `at`.
    pub fn see(&mut self, at: Timestamp) {
        self.seen = Some(
            self.seen
                .map_or((at, at), |(first, last)| (first.min(at), last.max(at))),
        );
    }

    /// Notes that a page of so many rows was asked for.
    #[inline]
    pub fn see_page_size(&mut self, rows: u64) {
        let (smallest, largest) = self.page_sizes.unwrap_or((rows, rows));
        self.page_sizes = Some((smallest.min(rows), largest.max(rows)));
    }

    /// Counts exchanges with a consistency level, as the specification names it.
    pub fn count_consistency(&mut self, level: &str, exchanges: u64) {
        count_level(&mut self.consistency, level, exchanges);
    }

    /// Counts executions whose consensus is at this level, as the specification names it.
    pub fn count_serial_consistency(&mut self, level: &str, executions: u64) {
        count_level(&mut self.serial_consistency, level, executions);
    }

    /// Counts warnings of a class.
    pub fn count_warned(&mut self, class: &str, more: Warned) {
        if let Some(warned) = self.warned.get_mut(class) {
            raise(&mut warned.times, more.times);
            warned.largest = warned.largest.max(more.largest);
        } else if self.warned.len() < MAX_WARNING_CLASSES {
            self.warned.insert(class.to_owned(), more);
        }
    }

    /// Counts an exchange that was answered with an error.
    pub fn count_error(&mut self, code: u32) {
        self.errors += 1;
        counts::add_or_forget(&mut self.error_codes, code, 1, MAX_ERROR_CODES);
    }

    /// Counts exchanges of `client`.
    pub fn count_client(&mut self, client: &str, exchanges: u64) {
        counts::add(&mut self.clients, client, exchanges, MAX_CLIENTS);
    }

    /// Adds the exchanges of `other`, a pattern of the same template.
    pub fn merge(&mut self, other: &Self) {
        self.flags.extend(&other.flags);
        raise(&mut self.count, other.count);
        raise(&mut self.errors, other.errors);
        for (&code, &count) in &other.error_codes {
            counts::add_or_forget(&mut self.error_codes, code, count, MAX_ERROR_CODES);
        }
        raise(&mut self.unconfirmed, other.unconfirmed);
        self.on_known_table |= other.on_known_table;
        self.missed.merge(other.missed);
        raise(&mut self.warnings, other.warnings);
        for (class, warned) in &other.warned {
            self.count_warned(class, *warned);
        }
        raise(&mut self.traced, other.traced);
        raise(&mut self.not_applied, other.not_applied);
        self.write_times.merge(&other.write_times);
        self.latency_us.merge(&other.latency_us);
        self.partitions.merge(&other.partitions);
        add_counts(&mut self.classes, &other.classes);
        self.listed_rows.merge(&other.listed_rows);
        self.rows.merge(&other.rows);
        self.response_bytes.merge(&other.response_bytes);
        self.request_bytes.merge(&other.request_bytes);
        self.large_values.merge(&other.large_values);
        self.collection_items.merge(&other.collection_items);
        self.tombstones.merge(&other.tombstones);
        raise(&mut self.pages, other.pages);
        raise(&mut self.logical_reads, other.logical_reads);
        raise(&mut self.unpaged, other.unpaged);
        self.unpaged_rows.merge(&other.unpaged_rows);
        if let Some((smallest, largest)) = other.page_sizes {
            self.see_page_size(smallest);
            self.see_page_size(largest);
        }
        self.paging.merge(&other.paging);
        self.repeats.merge(&other.repeats);
        self.scanned.merge(&other.scanned);
        self.token_ranges.merge(&other.token_ranges);
        self.routing.merge(&other.routing);
        add_counts(&mut self.consistency, &other.consistency);
        add_counts(&mut self.serial_consistency, &other.serial_consistency);
        raise(&mut self.prepared, other.prepared);
        raise(&mut self.prepared_again, other.prepared_again);
        self.nulls.merge(&other.nulls);
        raise(&mut self.unprepared, other.unprepared);
        counts::merge(&mut self.clients, &other.clients, MAX_CLIENTS);
        if let Some((first, last)) = other.seen {
            self.see(first);
            self.see(last);
        }
    }
}
/// The name becomes a string once.
fn count_level(counts: &mut BTreeMap<String, u64>, level: &str, exchanges: u64) {
    match counts.get_mut(level) {
        Some(count) => raise(count, exchanges),
        None => drop(counts.insert(level.to_owned(), exchanges)),
    }
}
