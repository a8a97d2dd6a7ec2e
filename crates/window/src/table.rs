//! The traffic of one table or view in a window.

use cqlens_cql::schema::TableName;
use serde::{Deserialize, Serialize};

use super::{
    Detail, Distinct, Distribution, Heavy, InsertedRows, Largest, PartitionWeights, RepeatedValues,
    counts::raise, pattern::Tombstones,
};

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
    /// The partitions of which most was read and written.
    #[serde(default, skip_serializing_if = "PartitionWeights::is_empty")]
    pub weights: PartitionWeights,
    /// Different partitions that were named, by keyed hash.
    pub distinct_partitions: Distinct,
    /// What the nodes tell of its reads; none where they were not asked.
    #[serde(default)]
    pub node_reads: Option<NodeReads>,
    /// How long the partition keys are that were named.
    #[serde(default)]
    pub key_sizes: KeySizes,
    /// The rows that INSERTs write.
    #[serde(default)]
    pub inserted: InsertedRows,
    /// Whether their values are the same from row to row of a partition.
    #[serde(default, skip_serializing_if = "RepeatedValues::is_empty")]
    pub repeated: RepeatedValues,
    /// What reads of one partition have returned of it.
    #[serde(default, skip_serializing_if = "PartitionReads::is_empty")]
    pub partition_reads: PartitionReads,
}

/// How much single reads have returned of single partitions, their pages together: these have as much, at least.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionReads {
    /// Rows.
    pub rows: Largest,
    /// Bytes of the responses.
    pub bytes: Largest,
}

impl PartitionReads {
    /// Fewer rows are nothing that a partition is large for.
    pub const LEAST_ROWS: u64 = 1_000;

    /// Fewer bytes are nothing that a partition is large for.
    pub const LEAST_BYTES: u64 = 1 << 20;

    /// Whether no read was long.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.bytes.is_empty()
    }

    /// Notes a read of a partition.
    pub fn see(&mut self, partition: u64, rows: u64, bytes: u64) {
        if rows >= Self::LEAST_ROWS {
            self.rows.see(partition, rows);
        }
        if bytes >= Self::LEAST_BYTES {
            self.bytes.see(partition, bytes);
        }
    }

    fn merge(&mut self, other: &Self) {
        self.rows.merge(&other.rows);
        self.bytes.merge(&other.bytes);
    }
}

/// Sizes of partition keys, as Cassandra serializes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeySizes {
    /// Keys that were named, each as often as it was.
    pub named: u64,
    /// Those of more than [`KeySizes::LONG`] bytes.
    pub long: u64,
    /// The longest one, in bytes.
    pub longest: u64,
}

impl KeySizes {
    /// Cassandra takes keys of up to 65,535 bytes; names, ids and dates are far below this.
    pub const LONG: u64 = 1_024;

    /// Counts a key of so many bytes.
    #[inline]
    pub fn count(&mut self, bytes: u64) {
        self.named += 1;
        self.long += u64::from(bytes > Self::LONG);
        self.longest = self.longest.max(bytes);
    }

    /// Adds the keys of `other`.
    fn merge(&mut self, other: Self) {
        raise(&mut self.named, other.named);
        raise(&mut self.long, other.long);
        self.longest = self.longest.max(other.longest);
    }
}

/// What nodes themselves count of all reads of a table: the worst of all nodes and of all times they were queried.
///
/// Cassandra 4.0 and later (`system_views.tombstones_per_read`, `rows_per_read`): of each replica's part of a
/// read, over the last minutes, in buckets that are a fifth apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NodeReads {
    /// Tombstones that one read in a hundred passes, or more.
    pub tombstones_p99: u64,
    /// Tombstones of the worst read.
    pub tombstones_max: u64,
    /// Live rows per read, 99th percentile.
    pub rows_p99: u64,
    /// Live rows of the longest read.
    pub rows_max: u64,
    /// The largest partition on disk, in MiB (`system_views.max_partition_size`); none if no node reported it.
    #[serde(default)]
    pub largest_partition_mib: Option<u64>,
}

impl NodeReads {
    /// The worse of both.
    pub fn merge(&mut self, other: &Self) {
        self.tombstones_p99 = self.tombstones_p99.max(other.tombstones_p99);
        self.tombstones_max = self.tombstones_max.max(other.tombstones_max);
        self.rows_p99 = self.rows_p99.max(other.rows_p99);
        self.rows_max = self.rows_max.max(other.rows_max);
        self.largest_partition_mib = self.largest_partition_mib.max(other.largest_partition_mib);
    }
}

impl TableTraffic {
    /// Keeps only the heaviest partitions.
    pub(super) fn shrink(&mut self) {
        self.top_partitions.shrink();
        self.weights.shrink();
    }

    /// Bytes that it takes up, its name left out.
    pub(super) fn bytes(&self) -> usize {
        size_of::<(TableName, Self)>() * 3 / 2
            + self.partitions_per_read.bytes()
            + self.tombstones.scanned.bytes()
            + self.tombstones.live_rows.bytes()
            + self.top_partitions.bytes()
            + self.weights.bytes_on_heap()
            + self.distinct_partitions.bytes()
            + self.inserted.rows.bytes()
            + self.inserted.contents.bytes()
            + self.inserted.sample.bytes()
    }

    /// Keeps the heaviest partitions instead of all that may become heavy, and a smaller sample of rows.
    pub(super) fn condense(&mut self, detail: Detail) {
        self.top_partitions.keep_heaviest(Detail::PARTITIONS);
        self.weights.keep_heaviest(Detail::WEIGHTS);
        self.inserted.keep_sample(detail.rows());
        for distribution in [
            &mut self.partitions_per_read,
            &mut self.tombstones.scanned,
            &mut self.tombstones.live_rows,
        ] {
            detail.coarsen(distribution);
        }
    }

    /// Adds the traffic of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.known |= other.known;
        raise(&mut self.reads, other.reads);
        raise(&mut self.writes, other.writes);
        self.partitions_per_read.merge(&other.partitions_per_read);
        self.tombstones.merge(&other.tombstones);
        self.top_partitions.merge(&other.top_partitions);
        self.weights.merge(&other.weights);
        self.distinct_partitions.merge(&other.distinct_partitions);
        if let Some(nodes) = &other.node_reads {
            self.node_reads.get_or_insert_default().merge(nodes);
        }
        self.key_sizes.merge(other.key_sizes);
        self.inserted.merge(&other.inserted);
        self.repeated.merge(&other.repeated);
        self.partition_reads.merge(&other.partition_reads);
    }
}
