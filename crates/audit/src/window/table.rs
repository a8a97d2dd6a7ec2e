//! The traffic of one table or view in a window.

use cqlens_cql::schema::TableName;
use serde::{Deserialize, Serialize};

use super::{Distinct, Distribution, Heavy, InsertedRows, pattern::Tombstones};

/// Counters and sketches of one table; a batch counts once for each table that it writes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TableTraffic {
    /// Whether it is in the schema that was known.
    #[serde(default)]
    pub known: bool,
    /// Reads (pages count each).
    pub reads: u64,
    /// Writes: statements, those inside batches included.
    pub writes: u64,
    /// Partitions of each read whose number is known.
    pub partitions_per_read: Distribution,
    /// What the server said of tombstones.
    pub tombstones: Tombstones,
    /// The partitions that are used most, by keyed hash.
    pub top_partitions: Heavy,
    /// Different partitions that were named, by keyed hash.
    pub distinct_partitions: Distinct,
    /// What the nodes tell of its reads; none where they were not asked.
    #[serde(default)]
    pub node_reads: Option<NodeReads>,
    /// The rows that INSERTs write.
    #[serde(default)]
    pub inserted: InsertedRows,
}

/// What nodes count of reads of a table by themselves, whoever asks: the worst of all nodes and all times
/// that they were asked.
///
/// Cassandra 4.0 and later (`system_views.tombstones_per_read`, `rows_per_read`): of each replica's part of a
/// read, over the last minutes, in buckets that are a fifth apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReads {
    /// Tombstones that one read in a hundred passes, or more.
    pub tombstones_p99: u64,
    /// Tombstones of the worst read.
    pub tombstones_max: u64,
    /// Live rows that one read in a hundred finds, or more.
    pub rows_p99: u64,
    /// Live rows of the longest read.
    pub rows_max: u64,
}

impl NodeReads {
    /// The worse of both.
    pub fn merge(&mut self, other: &Self) {
        self.tombstones_p99 = self.tombstones_p99.max(other.tombstones_p99);
        self.tombstones_max = self.tombstones_max.max(other.tombstones_max);
        self.rows_p99 = self.rows_p99.max(other.rows_p99);
        self.rows_max = self.rows_max.max(other.rows_max);
    }
}

impl TableTraffic {
    /// Bytes that it takes up, its name left out.
    pub(super) fn bytes(&self) -> usize {
        size_of::<(TableName, Self)>() * 3 / 2
            + self.partitions_per_read.bytes()
            + self.tombstones.scanned.bytes()
            + self.tombstones.live_rows.bytes()
            + self.top_partitions.bytes()
            + self.distinct_partitions.bytes()
            + self.inserted.rows.bytes()
            + self.inserted.contents.bytes()
    }

    /// Adds the traffic of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.known |= other.known;
        self.reads += other.reads;
        self.writes += other.writes;
        self.partitions_per_read.merge(&other.partitions_per_read);
        self.tombstones.merge(&other.tombstones);
        self.top_partitions.merge(&other.top_partitions);
        self.distinct_partitions.merge(&other.distinct_partitions);
        if let Some(nodes) = &other.node_reads {
            self.node_reads.get_or_insert_default().merge(nodes);
        }
        self.inserted.merge(&other.inserted);
    }
}
