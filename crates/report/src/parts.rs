//! The parts of a report, spelled as its JSON form spells them.
//!
//! Plain values: what they mean is computed in `build`, how they look is decided by the renderers.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{RoutingReport, histogram};
use cqlens_cql::{
    footprint::PartitionClass,
    plan::{Flag, StatementKind},
};
use cqlens_window::{Interval, NodeReads, PatternId, RetryCause, number};

/// The program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Tool {
    /// `cqlens`.
    pub name: Cow<'static, str>,
    /// Its version.
    pub version: Cow<'static, str>,
}

impl Tool {
    /// This version of it.
    pub fn this() -> Self {
        Self {
            name: Cow::Borrowed("cqlens"),
            version: Cow::Borrowed(env!("CARGO_PKG_VERSION")),
        }
    }
}

/// The time that a report covers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Span {
    /// When observation began.
    pub start: Timestamp,
    /// When it ended.
    pub end: Timestamp,
    /// Seconds in which at least one source observed: the divisor of rates. Two proxies during the same hour make
    /// 3,600, one after the other 7,200.
    pub seconds: f64,
    /// When each source watched, by its name; at most the last 100 intervals of each.
    pub observed: BTreeMap<String, Vec<Interval>>,
    /// When nobody watched, between `start` and `end`: the longest five gaps of a minute or more, in order.
    pub gaps: Vec<Interval>,
    /// The proxies and captures.
    pub sources: BTreeSet<String>,
}

/// A report in a few sentences. Names and CQL stand in backticks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// Where the measured time goes, good or bad; null where no time was measured.
    pub time: Option<String>,
    /// How bad it is.
    pub headline: String,
    /// What is worst, or what was judged.
    pub detail: String,
    /// Why the reader should not trust the rest blindly; none where nothing stands against it.
    pub caution: Option<String>,
}

/// Sums over user keyspaces.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Totals {
    /// SELECTs.
    pub reads: u64,
    /// INSERTs, UPDATEs, DELETEs.
    pub writes: u64,
    /// BATCHes.
    pub batches: u64,
    /// Transactions.
    pub transactions: u64,
    /// Exchanges whose response was an error.
    pub errors: u64,
    /// Warnings in responses.
    pub warnings: u64,
    /// Distinct clients.
    pub clients: u64,
    /// Partitions of the reads whose number is known.
    pub partitions_per_read: Quantiles,
    /// Reads by what they touch.
    pub reads_by_class: BTreeMap<PartitionClass, u64>,
    /// Latency of reads.
    pub read_latency_us: Latency,
    /// Latency of writes and batches.
    pub write_latency_us: Latency,
}

/// p50, p99, max and the like; exact up to 16 different values, else within 1 %: where windows were merged into hours
/// within 2.5 %, into days within 4 %.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Quantiles {
    /// The median.
    pub p50: u64,
    /// 99 of 100 are not above this.
    pub p99: u64,
    /// The values between which the p99 of all such traffic lies, 99 times of 100.
    pub p99_between: [u64; 2],
    /// The maximum; exact.
    pub max: u64,
    /// The mean; exact.
    pub mean: f64,
    /// The sum; exact.
    pub total: u64,
    /// For drawings: (highest value of the step, how often); absent where it has one value, and of patterns that are
    /// not among the costliest 200.
    #[serde(
        rename = "histogram",
        serialize_with = "histogram::serialize",
        skip_serializing_if = "histogram::is_told_by_quantiles"
    )]
    pub steps: Vec<(u64, u64)>,
}

/// From a request's last byte to its response's first, in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct Latency {
    /// How many requests were measured: those whose request and response were both seen, with their times. If 0, the
    /// other fields are 0 too and mean nothing.
    pub count: u64,
    /// The median.
    pub p50: u64,
    /// 90 of 100 are not above this.
    pub p90: u64,
    /// 99 of 100.
    pub p99: u64,
    /// The values between which the p99 of all such traffic lies, 99 times of 100.
    pub p99_between: [u64; 2],
    /// 999 of 1,000.
    pub p999: u64,
    /// The slowest.
    pub max: u64,
    /// The mean.
    pub mean: f64,
    /// For drawings: (highest value of the step, how often); absent where it has one value, and of patterns that are
    /// not among the costliest 200.
    #[serde(
        rename = "histogram",
        serialize_with = "histogram::serialize",
        skip_serializing_if = "histogram::is_told_by_quantiles"
    )]
    pub steps: Vec<(u64, u64)>,
}

impl Latency {
    /// Two of its numbers as people read them; a dash where there are none.
    pub fn shown(&self, numbers: [u64; 2]) -> String {
        match self.count {
            0 => "–".to_owned(),
            _ => numbers.map(number::micros).join(" · "),
        }
    }
}

/// One table or view.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TableReport {
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub table: String,
    /// Reads.
    pub reads: u64,
    /// Writes, those in batches included.
    pub writes: u64,
    /// Reads per write; none without writes.
    pub read_write_ratio: Option<f64>,
    /// Partitions of each read whose number is known.
    pub partitions_per_read: Quantiles,
    /// What the server said of tombstones.
    pub tombstones_per_read: ObservedTombstones,
    /// What its nodes count of all its reads; absent where it was not read from them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_reads: Option<NodeReads>,
    /// The partitions that are used most.
    pub top_partitions: Vec<TopPartition>,
    /// Distinct partitions that were named (2.3 % standard error above 200).
    pub distinct_partitions: u64,
    /// The templates on this table, the costliest first.
    pub patterns: Vec<PatternId>,
    /// Its columns in the order of the schema; empty where the schema is not known.
    pub columns: Vec<ColumnReport>,
    /// The table that a materialized view is made of.
    pub view_of: Option<String>,
    /// The table's comment in the schema, without what it accepts.
    pub comment: String,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ColumnReport {
    /// Its name, unquoted.
    pub name: String,
    /// Its type in CQL.
    #[serde(rename = "type")]
    pub data_type: String,
    /// Whether that is a user-defined type.
    #[serde(skip)]
    pub is_user_defined: bool,
    /// Its part in the table.
    pub kind: ColumnRole,
    /// Whether a secondary index is on it.
    pub indexed: bool,
    /// Reads that used the index; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index_reads: Option<u64>,
}

/// The part of a column in its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ColumnRole {
    /// Part of the partition key.
    PartitionKey,
    /// A clustering column, stored in ascending order.
    ClusteringAscending,
    /// A clustering column, stored in descending order.
    ClusteringDescending,
    /// One value per partition.
    Static,
    /// One value per row.
    Regular,
}

/// Tombstones in reads for which the server gave a number.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ObservedTombstones {
    /// The median.
    pub p50: u64,
    /// 99 of 100 are not above this.
    pub p99: u64,
    /// The maximum.
    pub max: u64,
    /// Reads for which the server reported anything; 0 proves nothing.
    pub observed: u64,
}

/// A partition that is used more than others.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TopPartition {
    /// A keyed hash: `#` and 16 hex digits.
    pub key: String,
    /// Its share of the table's reads and writes, at least.
    pub share: f64,
    /// Reads, at least.
    pub reads: u64,
    /// Writes, at least.
    pub writes: u64,
    /// The maximum number of further reads and writes that it may have had; absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<u64>,
    /// Rows that requests for it alone read and wrote.
    pub rows: PartitionWeight,
    /// Bytes of these requests and of the responses to reads.
    pub bytes: PartitionWeight,
}

/// What a partition has of the rows or bytes of its table.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PartitionWeight {
    /// Its share, at least.
    pub share: f64,
    /// Read, at least.
    pub read: u64,
    /// Written, at least.
    pub written: u64,
    /// At most so many in addition.
    #[serde(skip_serializing_if = "is_zero")]
    pub error: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl PatternReport {
    /// Keeps of the distributions only whether there is anything.
    pub(super) fn forget_steps(&mut self) {
        let per_read = self.per_read.iter_mut();
        let numbers = [
            &mut self.partitions.numbers,
            &mut self.rows,
            &mut self.response_bytes,
        ];
        let numbers = numbers
            .into_iter()
            .chain(per_read.flat_map(|reads| [&mut reads.rows, &mut reads.pages]));
        let steps = numbers.map(|numbers| &mut numbers.steps);
        for steps in steps.chain([&mut self.latency_us.steps]) {
            steps.truncate(1);
            steps.shrink_to_fit();
        }
    }
}

/// One template.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PatternReport {
    /// The fingerprint, 16 hex digits.
    pub id: PatternId,
    /// What it does.
    pub kind: StatementKind,
    /// Its keyspace.
    pub keyspace: Option<String>,
    /// Its table; the first one of a batch.
    pub table: Option<String>,
    /// The template.
    pub cql: String,
    /// Exchanges.
    pub count: u64,
    /// Seconds of observation by the sources that could have seen it (those that saw an application that sends it):
    /// the divisor of its rates.
    pub observed_seconds: f64,
    /// At least so many further ones, counted among other statements: at times there was no room for the pattern.
    #[serde(skip_serializing_if = "is_zero")]
    pub missed: u64,
    /// Exchanges whose response was an error.
    pub errors: u64,
    /// These errors by their name in the protocol's specification; absent without errors.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub error_codes: BTreeMap<String, u64>,
    /// Warnings in responses.
    pub warnings: u64,
    /// From the request's last byte to the response's first.
    pub latency_us: Latency,
    /// What it touches.
    pub partitions: PartitionsReport,
    /// Rows of each response with rows.
    pub rows: Quantiles,
    /// Size of each response.
    pub response_bytes: Quantiles,
    /// What the server said of tombstones.
    pub tombstones: ObservedTombstones,
    /// Responses that were a page of a longer read.
    pub pages: u64,
    /// Reads, the pages of one counted once.
    pub logical_reads: u64,
    /// Reads that have ended, the pages of one put together; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_read: Option<PerRead>,
    /// Executions that look like repetitions of another one; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<RepeatsReport>,
    /// What the rows of scans say of the partitions that were read; absent where the template does not scan.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scanned: Option<ScannedReport>,
    /// Reads between two tokens; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token_ranges: Option<TokenRangesReport>,
    /// Executions that touch one partition, by whether they went to a node that holds it; absent where there
    /// are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<RoutingReport>,
    /// By consistency level.
    pub consistency: BTreeMap<String, u64>,
    /// Conditional statements by their serial consistency level.
    pub serial_consistency: BTreeMap<String, u64>,
    /// Executions of a prepared statement.
    pub prepared: u64,
    /// Executions that sent the text.
    pub unprepared: u64,
    /// Properties of the statement.
    pub flags: BTreeSet<Flag>,
    /// By client.
    pub clients: BTreeMap<String, u64>,
    /// Its latencies together, in microseconds: executions × mean latency; 0 of definitions, which are no part of the measured
    /// time.
    pub time_us: u64,
    /// Its part of the time of all patterns of the application, 0 to 1; null where no time was measured.
    pub time_share: Option<f64>,
    /// Partitions, rows and tombstones that it touched, as far as known.
    pub work: u64,
    /// Its part of the work of all patterns of the application, 0 to 1.
    pub work_share: f64,
}

/// Reads with their pages put together, as far as the first page was seen.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PerRead {
    /// Reads that have ended: with their last page, or abandoned.
    pub reads: u64,
    /// Rows of each.
    pub rows: Quantiles,
    /// Pages of each.
    pub pages: Quantiles,
    /// Those for which more rows were available than were fetched, which is no error.
    pub abandoned: u64,
    /// Pages whose previous page was not seen, and which belong to no read.
    pub unlinked_pages: u64,
}

/// The same statement, values and page again, from the same host. Each is an execution of its own everywhere
/// else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct RepeatsReport {
    /// The same request again while the first was in flight: a speculative execution, or two threads that send the
    /// same request.
    pub in_flight: u64,
    /// The same request again soon after a lost connection, or after an error that drivers retry; by that error.
    pub retries: BTreeMap<RetryCause, u64>,
}

/// Partitions that were seen in rows: fewer than were read.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ScannedReport {
    /// Always true: empty partitions and filtered rows are not seen.
    pub lower_bound: bool,
    /// Distinct partitions over all reads (2.3 % standard error above 200).
    pub distinct_partitions: u64,
    /// Distinct partitions per read.
    pub partitions_per_read: Quantiles,
    /// Rows that were examined.
    pub rows: u64,
    /// Rows that were not examined: those beyond the first 1,000 of a response.
    pub rows_left_out: u64,
    /// Responses whose rows do not show the partition key.
    pub answers_without_keys: u64,
}

/// Reads by `token()`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct TokenRangesReport {
    /// The part of the ring that they cover together, 0 to 1, in steps of 1/4,096.
    pub ring_share: f64,
    /// How often the reads of one host covered (99 % of) the ring.
    pub sweeps: u64,
    /// Reads that these sweeps consisted of.
    pub sweep_reads: u64,
}

/// How many partitions the executions of a template touch.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct PartitionsReport {
    /// The class of most executions.
    pub class: PartitionClass,
    /// The minimum.
    pub min: u64,
    /// Of each execution whose number is known.
    #[serde(flatten)]
    pub numbers: Quantiles,
}

impl PartitionsReport {
    /// The number at p99 where it is known, else what is touched instead.
    pub(super) fn shown(&self) -> String {
        match self.class {
            PartitionClass::Single | PartitionClass::Multi if !self.numbers.steps.is_empty() => {
                number::count(self.numbers.p99)
            }
            PartitionClass::Scan => "the ring".to_owned(),
            PartitionClass::TokenRange => "ring range".to_owned(),
            PartitionClass::Index => "by index".to_owned(),
            PartitionClass::Single | PartitionClass::Multi | PartitionClass::Unknown => "unknown".to_owned(),
        }
    }
}
