//! What is told of a sink.

/// How snapshots reach the sink: what waits, and what was counted since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SinkFigures {
    /// Files that wait in the spool.
    pub waiting: u64,
    /// What they take up.
    pub waiting_bytes: u64,
    /// Files that were written to the sink.
    pub written: u64,
    /// Files that were removed because the spool was full.
    pub lost: u64,
    /// Attempts to write that failed.
    pub failures: u64,
}
