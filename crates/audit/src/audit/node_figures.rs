//! What nodes say of reads when they are asked: trace events, and the ends of their own histograms.

/// One line of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceEvent {
    /// The node that wrote it, as it calls itself.
    pub source: String,
    /// What it did.
    pub activity: String,
}

/// What a node has counted of the reads of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadHistograms {
    /// Its keyspace.
    pub keyspace: String,
    /// Its name.
    pub table: String,
    /// Tombstones of each read.
    pub tombstones: Histogram,
    /// Live rows of each read.
    pub rows: Histogram,
    /// The largest partition of its SSTables, in MiB; none where the node does not say.
    pub largest_partition_mib: Option<u64>,
}

/// The end of a histogram.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Reached by one in a hundred.
    pub p99: u64,
    /// The greatest.
    pub max: u64,
}
