//! What was seen and what was not: the line with which every report opens; and what of it must add up
//! ([`SUMS`]).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    counts::{self, raise},
    sketch::meter,
};

/// How much of the traffic the numbers of a window speak of.
///
/// The `partitions_*` counters count executions of SELECT, INSERT, UPDATE, DELETE and BATCH on user
/// keyspaces that the server did not refuse; together with `refused` they are all of them. Executions that timed out
/// or had too few replicas count with the partitions that they requested. Which counters add up to which: [`Coverage::check`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Coverage {
    /// Requests that passed.
    pub requests: u64,
    /// Requests that were decoded, matched with their response if there was one, and counted.
    pub audited: u64,
    /// Requests left out because the audit fell behind, or because they are missing in a capture. Compressed segments of
    /// version 5 count as one request each.
    pub dropped: u64,
    /// Those by opcode, as far as it is known: that of requests in compressed segments is not.
    #[serde(deserialize_with = "meter::map")]
    pub dropped_by_opcode: BTreeMap<String, u64>,
    /// Bytes of requests and responses left out because the audit fell behind.
    pub dropped_bytes: u64,
    /// Requests that could not be decoded.
    pub undecoded: u64,
    /// Panics of the auditor, which are bugs in cqlens. The requests lost to one (those in flight on the connection
    /// that it was decoding) are among the undecoded.
    pub auditor_failures: u64,
    /// Responses that could not be decoded or whose request is not known.
    pub responses_lost: u64,
    /// Results whose number of rows is not known: of DSE's continuous pages, and too long to be read as a whole without it at the beginning.
    pub rows_unknown: u64,
    /// Requests whose connection ended before the response, or whose response was lost.
    pub unanswered: u64,
    /// Executions whose partitions are known exactly.
    pub partitions_exact: u64,
    /// Executions for which only an upper bound is known.
    pub partitions_bounded: u64,
    /// Scans, token ranges and index reads, which have no number of partitions by nature.
    pub partitions_scan: u64,
    /// Executions whose partitions are unknown.
    pub partitions_unknown: u64,
    /// Executions that the server refused (syntax, values, permissions, an unknown id; too few replicas for a single
    /// partition): they count as requests and errors, and touched no partition.
    pub refused: u64,
    /// Why counts are bounded or unknown.
    #[serde(deserialize_with = "meter::map")]
    pub unknown_reasons: BTreeMap<String, u64>,
    /// Connections forwarded without being captured, by reason.
    #[serde(deserialize_with = "meter::map")]
    pub opaque_connections: BTreeMap<String, u64>,
    /// Connections that TLS ended, most of them before anything was forwarded, by the side whose TLS it was.
    #[serde(deserialize_with = "meter::map")]
    pub tls_failures: BTreeMap<String, u64>,
    /// Connections that were refused, by reason: the limit that was reached, or what was missing.
    #[serde(deserialize_with = "meter::map")]
    pub refused_connections: BTreeMap<String, u64>,
    /// What had to be evicted, or was not kept, because its part of the memory was full, by the part.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "meter::map")]
    pub evicted: BTreeMap<String, u64>,
    /// Statements that the CQL parser did not understand and the server did not refuse.
    pub unparsed: u64,
    /// Exchanges on system keyspaces, sent by drivers and tools; counted separately from everything else.
    pub system_requests: u64,
    /// Exchanges folded into "other statements" because the window held too many patterns.
    pub patterns_overflowed: u64,
    /// How often a pattern was evicted in favour of others that weigh more.
    pub patterns_evicted: u64,
    /// Exchanges folded into "other statements" because another template has the fingerprint of theirs.
    pub patterns_collided: u64,
    /// Executions of prepared statements whose partition key markers differ between the server's response and the
    /// text with the schema. Only the server's are used.
    #[serde(skip_serializing_if = "is_zero")]
    pub markers_disagreed: u64,
    /// Reads and writes that are not in the numbers of their table because the window held too many tables.
    pub tables_overflowed: u64,
    /// How often a table was evicted in favour of others that are used more.
    pub tables_evicted: u64,
    /// Statements sent before their connection had completed its STARTUP. No server runs them: they count as requests
    /// only.
    pub before_startup: u64,
    /// Clients whose requests the server has all refused for a minute or longer, and how many requests.
    #[serde(deserialize_with = "meter::map")]
    pub refused_clients: BTreeMap<String, u64>,
    /// Reads and writes of columns with an index that were not counted because the window held too many such
    /// columns.
    pub indexed_columns_overflowed: u64,
    /// Reads whose next page could no longer be linked, because too many others were waiting for theirs; and
    /// abandoned reads whose statement was not executed in the window in which they were dropped.
    pub reads_forgotten: u64,
    /// Failed requests that could no longer be recognised when they were retried, because there were too many others
    /// in between.
    pub retries_forgotten: u64,
    /// Token range reads whose sweep was dropped half-way, because too many other sweeps were in progress.
    pub sweeps_forgotten: u64,
    /// Values of rows that were evicted before it was clear whether the client queries by them, because there were
    /// too many others.
    pub row_values_forgotten: u64,
    /// Requests that were not compared with those just before them, which shows walks, copies and repeated reads: there
    /// were too many in their second.
    pub not_related: u64,
    /// Reads that are not among the sampled sources: their rows were not kept for comparison with later requests, as
    /// there were too many in their second.
    pub reads_not_followed: u64,
    /// Processor time spent on comparing requests with earlier ones, in microseconds, by versions that had a budget of
    /// time for it; 0 from all others.
    pub relating_us: u64,
    /// What a packet capture lacked, where that was the source.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capture: Option<CaptureCoverage>,
    /// Whether some of the traffic went past the source, or may have: one of several nodes is watched.
    pub bypassed: bool,
    /// What the reader must know before any number, in whole sentences (traffic may bypass the proxy, no
    /// schema, …).
    #[serde(deserialize_with = "meter::set")]
    pub notices: std::collections::BTreeSet<String>,
}

/// How many clients are named of whom everything is refused.
const MAX_REFUSED_CLIENTS: usize = 100;

/// What packet captures lack.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CaptureCoverage {
    /// Bytes of requests and responses that are in the capture, each once; without those of connections that were not
    /// decoded. With the lost and the cut ones they are all that was sent, as far as
    /// the capture shows it.
    pub seen_bytes: u64,
    /// Bytes of requests and responses whose packets are not in the capture.
    pub lost_bytes: u64,
    /// Bytes that the snap length has cut off.
    pub cut_bytes: u64,
    /// Bytes that are present, but whose envelope boundaries are unknown: after missing bytes, or in the middle of a
    /// connection.
    pub unplaced_bytes: u64,
    /// Connections whose beginning is not in the capture.
    pub begun_before: u64,
    /// Connections of which only one direction is present.
    pub one_way: u64,
    /// Connections that were dropped because there were too many at the same time.
    pub evicted_connections: u64,
}

impl CaptureCoverage {
    fn merge(&mut self, other: &Self) {
        raise(&mut self.seen_bytes, other.seen_bytes);
        raise(&mut self.lost_bytes, other.lost_bytes);
        raise(&mut self.cut_bytes, other.cut_bytes);
        raise(&mut self.unplaced_bytes, other.unplaced_bytes);
        raise(&mut self.begun_before, other.begun_before);
        raise(&mut self.one_way, other.one_way);
        raise(&mut self.evicted_connections, other.evicted_connections);
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Two sums of counters, of which the left one equals the right one, or is a part of it.
struct Sum {
    /// The names of the counters, as they stand in reports.
    says: &'static str,
    left: fn(&Coverage) -> u64,
    is_equal: bool,
    right: fn(&Coverage) -> u64,
}

/// What holds of every window, and of windows merged, since each side is a sum of counters.
///
/// Deliberately not among them: `dropped_by_opcode` may name requests in one window that were `dropped` in an
/// earlier one, when the opcodes of a gap become known later; `responses_lost` and `rows_unknown` count
/// responses, some of which have no request.
const SUMS: &[Sum] = &[
    Sum {
        says: "requests = audited + dropped + undecoded",
        left: |coverage| coverage.requests,
        is_equal: true,
        right: |coverage| coverage.audited + coverage.dropped + coverage.undecoded,
    },
    // Of what was audited: statements before STARTUP, the drivers' own, and those that touch partitions. What
    // is left are requests that execute nothing (OPTIONS, PREPARE, ...), and statements that touch none (USE,
    // definitions).
    Sum {
        says: "before_startup + system_requests + refused + partitions_exact + partitions_bounded + partitions_scan + \
               partitions_unknown <= audited",
        left: |coverage| {
            coverage.before_startup + coverage.system_requests + coverage.refused + coverage.touching()
        },
        is_equal: false,
        right: |coverage| coverage.audited,
    },
    Sum {
        says: "partitions_bounded + partitions_unknown = unknown_reasons",
        left: |coverage| coverage.partitions_bounded + coverage.partitions_unknown,
        is_equal: true,
        right: |coverage| coverage.unknown_reasons.values().sum(),
    },
    Sum {
        says: "unanswered <= audited",
        left: |coverage| coverage.unanswered,
        is_equal: false,
        right: |coverage| coverage.audited,
    },
    Sum {
        says: "unparsed + before_startup <= audited",
        left: |coverage| coverage.unparsed + coverage.before_startup,
        is_equal: false,
        right: |coverage| coverage.audited,
    },
    Sum {
        says: "markers_disagreed <= refused + partitions_*",
        left: |coverage| coverage.markers_disagreed,
        is_equal: false,
        right: |coverage| coverage.refused + coverage.touching(),
    },
];

impl Coverage {
    /// Whether everything adds up that must.
    ///
    /// # Errors
    /// The first sum that does not, with both of its sides.
    pub fn check(&self) -> Result<(), String> {
        let is_broken = |sum: &&Sum| {
            // Counts stop there, and so do their sums.
            let [left, right] = [sum.left, sum.right].map(|side| side(self).min(counts::MOST));
            left > right || (sum.is_equal && left != right)
        };
        SUMS.iter().find(is_broken).map_or(Ok(()), |sum| {
            Err(format!(
                "{}: {}, {}",
                sum.says,
                (sum.left)(self),
                (sum.right)(self)
            ))
        })
    }

    /// Executions that touched partitions, known or not.
    fn touching(&self) -> u64 {
        self.partitions_exact + self.partitions_bounded + self.partitions_scan + self.partitions_unknown
    }

    /// Adds what `other` has seen.
    pub fn merge(&mut self, other: &Self) {
        raise(&mut self.requests, other.requests);
        raise(&mut self.audited, other.audited);
        raise(&mut self.dropped, other.dropped);
        raise(&mut self.dropped_bytes, other.dropped_bytes);
        raise(&mut self.undecoded, other.undecoded);
        raise(&mut self.auditor_failures, other.auditor_failures);
        raise(&mut self.responses_lost, other.responses_lost);
        raise(&mut self.rows_unknown, other.rows_unknown);
        raise(&mut self.unanswered, other.unanswered);
        raise(&mut self.partitions_exact, other.partitions_exact);
        raise(&mut self.partitions_bounded, other.partitions_bounded);
        raise(&mut self.partitions_scan, other.partitions_scan);
        raise(&mut self.partitions_unknown, other.partitions_unknown);
        raise(&mut self.refused, other.refused);
        raise(&mut self.unparsed, other.unparsed);
        raise(&mut self.system_requests, other.system_requests);
        raise(&mut self.patterns_overflowed, other.patterns_overflowed);
        raise(&mut self.patterns_evicted, other.patterns_evicted);
        raise(&mut self.patterns_collided, other.patterns_collided);
        raise(&mut self.markers_disagreed, other.markers_disagreed);
        raise(&mut self.tables_overflowed, other.tables_overflowed);
        raise(&mut self.tables_evicted, other.tables_evicted);
        raise(&mut self.before_startup, other.before_startup);
        counts::merge(
            &mut self.refused_clients,
            &other.refused_clients,
            MAX_REFUSED_CLIENTS,
        );
        raise(
            &mut self.indexed_columns_overflowed,
            other.indexed_columns_overflowed,
        );
        raise(&mut self.reads_forgotten, other.reads_forgotten);
        raise(&mut self.retries_forgotten, other.retries_forgotten);
        raise(&mut self.sweeps_forgotten, other.sweeps_forgotten);
        raise(&mut self.row_values_forgotten, other.row_values_forgotten);
        raise(&mut self.not_related, other.not_related);
        raise(&mut self.reads_not_followed, other.reads_not_followed);
        raise(&mut self.relating_us, other.relating_us);
        if let Some(capture) = &other.capture {
            self.capture.get_or_insert_default().merge(capture);
        }
        add_counts(&mut self.dropped_by_opcode, &other.dropped_by_opcode);
        add_counts(&mut self.unknown_reasons, &other.unknown_reasons);
        add_counts(&mut self.opaque_connections, &other.opaque_connections);
        add_counts(&mut self.evicted, &other.evicted);
        add_counts(&mut self.tls_failures, &other.tls_failures);
        add_counts(&mut self.refused_connections, &other.refused_connections);
        self.bypassed |= other.bypassed;
        self.notices.extend(other.notices.iter().cloned());
    }
}

/// Adds the counts of `from` to those of `to`, key by key.
pub(super) fn add_counts<K: Ord + Clone>(to: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, count) in from {
        raise(to.entry(key.clone()).or_default(), *count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_add_up_is_named() {
        let mut coverage = Coverage {
            requests: 5,
            audited: 3,
            dropped: 1,
            undecoded: 1,
            partitions_exact: 2,
            partitions_unknown: 1,
            ..Coverage::default()
        };
        assert_eq!(
            coverage.check(),
            Err("partitions_bounded + partitions_unknown = unknown_reasons: 1, 0".to_owned())
        );
        coverage.unknown_reasons.insert("page".to_owned(), 1);
        assert_eq!(coverage.check(), Ok(()));
        let mut twice = coverage.clone();
        twice.merge(&coverage);
        assert_eq!(twice.check(), Ok(()));
        coverage.system_requests = 1;
        assert!(
            coverage
                .check()
                .is_err_and(|sum| sum.ends_with("<= audited: 4, 3"))
        );
    }
}
