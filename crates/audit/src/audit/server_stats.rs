//! What the server itself says of reads: traces of reads that cqlens has sent again, and the nodes' own
//! histograms.

use std::sync::Arc;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use crate::audit::{
    ReadHistograms, TraceEvent, TraceSample,
    exchange::warning::{self, TombstoneText},
    open_window::{OpenWindow, lock},
};
use cqlens_cql::schema::TableName;
use cqlens_window::{MAX_TABLES, NodeReads, Tombstones};

/// Where that is counted. Waits for the auditor, whose window it is.
#[derive(Debug, Clone)]
pub struct ServerStats(pub(crate) Arc<Mutex<OpenWindow>>);

impl ServerStats {
    /// Counts what the replicas have read for `sample`; false where their events do not say (Scylla's do
    /// not).
    pub fn trace(&self, sample: &TraceSample, events: &[TraceEvent]) -> bool {
        let Some((live_rows, tombstones)) = most_read(events) else {
            return false;
        };
        let add = |to: &mut Tombstones| {
            to.traced += 1;
            to.live_rows.record(live_rows);
            to.scanned.record(tombstones);
        };
        let analysis = sample.analysis();
        let OpenWindow { window, tables, .. } = &mut *lock(&self.0);
        let head = || (analysis.head.clone(), analysis.flags.clone());
        add(&mut window
            .pattern_mut(analysis.id, &analysis.head.cql, head)
            .tombstones);
        for table in &analysis.tables {
            tables.count(&table.name, |table| add(&mut table.tombstones));
        }
        true
    }

    /// Keeps what a node's own histograms say of its reads. That belongs to the window that is being filled,
    /// if the table is read in it.
    pub fn histograms(&self, tables: Vec<ReadHistograms>) {
        let mut open = lock(&self.0);
        for told in tables {
            let name = TableName {
                keyspace: told.keyspace,
                table: told.table,
            };
            if open.node_reads.len() >= MAX_TABLES && !open.node_reads.contains_key(&name) {
                continue;
            }
            let reads = NodeReads {
                tombstones_p99: told.tombstones.p99,
                tombstones_max: told.tombstones.max,
                rows_p99: told.rows.p99,
                rows_max: told.rows.max,
                largest_partition_mib: told.largest_partition_mib,
            };
            open.node_reads.entry(name).or_default().merge(&reads);
        }
    }
}

/// Live rows and tombstones of the replica that has passed the most tombstones: `Read <n> live rows and <m>
/// tombstone cells`, once for each part of its range.
fn most_read(events: &[TraceEvent]) -> Option<(u64, u64)> {
    let mut by_source: FxHashMap<&str, (u64, u64)> = FxHashMap::default();
    for event in events {
        if let Some(TombstoneText::Read {
            live_rows,
            tombstones,
        }) = warning::tombstones(&event.activity)
        {
            let sums = by_source.entry(&event.source).or_default();
            sums.0 += live_rows;
            sums.1 += tombstones;
        }
    }
    by_source
        .into_values()
        .max_by_key(|&(live_rows, tombstones)| (tombstones, live_rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(source: &str, activity: &str) -> TraceEvent {
        TraceEvent {
            source: source.to_owned(),
            activity: activity.to_owned(),
        }
    }

    #[test]
    fn the_replica_that_passed_most_tombstones_counts_all_its_ranges_together() {
        let events = [
            event(
                "10.0.0.1",
                "Parsing SELECT 'Read 9 live rows and 9 tombstone cells'",
            ),
            event("10.0.0.1", "Read 7 live rows and 1 tombstone cells"),
            event("10.0.0.2", "Read 3 live rows and 200 tombstone cells"),
            event("10.0.0.2", "Read 1 live rows and 50 tombstone cells"),
        ];
        assert_eq!(most_read(&events), Some((4, 250)));
        assert_eq!(most_read(&events[..1]), None);
    }
}
