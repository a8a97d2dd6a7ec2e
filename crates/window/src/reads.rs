//! What reads of one template are beside single exchanges: pages of one read, the same request again, scans
//! and sweeps.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Distinct, Distribution, counts::raise, coverage::add_counts, ring::RingCover, sketch::meter};

/// Reads whose pages are put together: of each read that has ended, in the window in which it did.
///
/// A read ends with its last page, or where its next page is not fetched (see [`Paging::abandoned`]). Reads
/// whose first page was not seen are not among them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Paging {
    /// Rows of each read, all of its pages together.
    pub rows: Distribution,
    /// Pages of each read; 1 for one that was answered at once.
    pub pages: Distribution,
    /// Reads of which more was offered than was fetched for ten minutes, or until the end of the observation.
    /// That is no error: an application that shows the first page of a list never fetches the others.
    pub abandoned: u64,
    /// Pages that continue a read of which the page before was not seen: before the start, left out, or
    /// forgotten.
    pub unlinked: u64,
}

/// Executions that look like repetitions of another one: the same statement, values and page, from the same
/// host.
///
/// Each is an exchange of its own and counted as one everywhere else.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Repeats {
    /// The same request was in flight already. A driver's speculative execution looks like this, and so do
    /// two threads that ask the same thing at the same time: nothing on the wire tells them apart.
    pub in_flight: u64,
    /// The same request came again within a second of an answer after which drivers try again, or after the
    /// connection of the first one had ended without an answer.
    #[serde(deserialize_with = "meter::map")]
    pub retries: BTreeMap<RetryCause, u64>,
}

/// After what a request came again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RetryCause {
    /// READ_TIMEOUT.
    ReadTimeout,
    /// WRITE_TIMEOUT.
    WriteTimeout,
    /// UNAVAILABLE.
    Unavailable,
    /// OVERLOADED.
    Overloaded,
    /// IS_BOOTSTRAPPING.
    Bootstrapping,
    /// TRUNCATE_ERROR.
    TruncateError,
    /// SERVER_ERROR.
    ServerError,
    /// UNPREPARED: the driver has prepared the statement again.
    Unprepared,
    /// The connection ended without an answer.
    ConnectionLost,
}

/// Partitions that were seen in the rows of scans, token ranges and index reads: a lower bound of those that
/// were read.
///
/// Empty partitions, filtered rows and rows beyond the first 1,000 of an answer are not in it. Seen only
/// where the rows have the partition key's columns.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scanned {
    /// Different partitions in the rows of each read that has ended, its pages together.
    pub partitions: Distribution,
    /// Different partitions over all reads; none where no key was seen.
    pub distinct: Option<Distinct>,
    /// Rows that were examined.
    pub rows: u64,
    /// Rows that were not: beyond the first 1,000 of their answer.
    pub rows_left_out: u64,
    /// Answers with rows that have no partition key, or whose columns are not known.
    pub answers_without_keys: u64,
}

/// Reads between two tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TokenRanges {
    /// The part of the ring that all of them cover together.
    pub cover: RingCover,
    /// How often the reads of one host have covered at least 99 % of the ring. Sweeps that overlap in time
    /// count as one; a job whose parts run on several hosts has none, but [`TokenRanges::cover`] shows it.
    pub sweeps: u64,
    /// Reads that these sweeps consisted of.
    pub sweep_reads: u64,
}

impl Paging {
    /// Adds the reads of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        self.rows.merge(&other.rows);
        self.pages.merge(&other.pages);
        raise(&mut self.abandoned, other.abandoned);
        raise(&mut self.unlinked, other.unlinked);
    }
}

impl Repeats {
    /// All retries, whatever they came after.
    pub fn retried(&self) -> u64 {
        self.retries.values().sum()
    }

    /// Adds the executions of `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        raise(&mut self.in_flight, other.in_flight);
        add_counts(&mut self.retries, &other.retries);
    }
}

impl Scanned {
    /// Notes that a partition was seen.
    pub fn see(&mut self, hash: u64) {
        self.distinct.get_or_insert_default().insert(hash);
    }

    /// Adds what was seen by `other`.
    pub(super) fn merge(&mut self, other: &Self) {
        self.partitions.merge(&other.partitions);
        if let Some(distinct) = &other.distinct {
            self.distinct.get_or_insert_default().merge(distinct);
        }
        raise(&mut self.rows, other.rows);
        raise(&mut self.rows_left_out, other.rows_left_out);
        raise(&mut self.answers_without_keys, other.answers_without_keys);
    }
}

impl TokenRanges {
    /// Adds the reads of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.cover.merge(&other.cover);
        raise(&mut self.sweeps, other.sweeps);
        raise(&mut self.sweep_reads, other.sweep_reads);
    }
}
