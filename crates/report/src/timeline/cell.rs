//! What is known of one thing in one point.

use super::spread::Share;
use cqlens_window::{Distribution, Pattern, TableTraffic};

/// Counts that add up, and the highest p99 of the windows, which does not add up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) errors: u64,
    /// Of reads whose number of partitions is known: how many there are, and their partitions.
    pub(super) counted_reads: u64,
    pub(super) partitions: u64,
    /// The highest of a window; none where no latency was measured.
    pub(super) latency_p99_us: Option<u64>,
    /// The same; none where the server gave no number.
    pub(super) tombstones_p99: Option<u64>,
}

impl Cell {
    pub(super) fn of(pattern: &Pattern) -> Self {
        let kind = pattern.head.kind;
        let if_read = |count| if kind.is_read() { count } else { 0 };
        Self {
            reads: if_read(pattern.count),
            writes: if kind.is_write() { pattern.count } else { 0 },
            errors: pattern.errors,
            counted_reads: if_read(pattern.partitions.count()),
            partitions: if_read(pattern.partitions.total()),
            latency_p99_us: p99(&pattern.latency_us),
            tombstones_p99: p99(&pattern.tombstones.scanned),
        }
    }

    /// With what a table knows better than its patterns: a batch writes to several tables.
    pub(super) fn on(self, traffic: &TableTraffic) -> Self {
        Self {
            reads: traffic.reads,
            writes: traffic.writes,
            counted_reads: traffic.partitions_per_read.count(),
            partitions: traffic.partitions_per_read.total(),
            tombstones_p99: p99(&traffic.tombstones.scanned),
            ..self
        }
    }

    pub(super) fn requests(&self) -> u64 {
        self.reads.saturating_add(self.writes)
    }

    pub(super) fn is_empty(&self) -> bool {
        (self.reads, self.writes, self.errors) == (0, 0, 0)
    }

    /// Partitions per read, on average.
    pub(super) fn partitions_per_read(&self) -> Option<f64> {
        (self.counted_reads > 0).then(|| self.partitions as f64 / self.counted_reads as f64)
    }

    /// That part of a window.
    pub(super) fn part(&self, share: Share) -> Self {
        Self {
            reads: share.of(self.reads),
            writes: share.of(self.writes),
            errors: share.of(self.errors),
            counted_reads: share.of(self.counted_reads),
            partitions: share.with(self.partitions, self.counted_reads),
            ..*self
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        let add = |mine: &mut u64, theirs: u64| *mine = mine.saturating_add(theirs);
        add(&mut self.reads, other.reads);
        add(&mut self.writes, other.writes);
        add(&mut self.errors, other.errors);
        add(&mut self.counted_reads, other.counted_reads);
        add(&mut self.partitions, other.partitions);
        self.latency_p99_us = self.latency_p99_us.max(other.latency_p99_us);
        self.tombstones_p99 = self.tombstones_p99.max(other.tombstones_p99);
    }
}

/// What one window says of several patterns together.
#[derive(Default)]
pub(super) struct Tally {
    counts: Cell,
    latency_us: Distribution,
    tombstones: Distribution,
}

impl Tally {
    pub(super) fn add(&mut self, pattern: &Pattern) {
        self.counts.merge(&Cell::of(pattern));
        self.latency_us.merge(&pattern.latency_us);
        self.tombstones.merge(&pattern.tombstones.scanned);
    }

    /// All latencies together.
    pub(super) fn time_us(&self) -> u64 {
        self.latency_us.total()
    }

    pub(super) fn cell(&self) -> Cell {
        Cell {
            latency_p99_us: p99(&self.latency_us),
            tombstones_p99: p99(&self.tombstones),
            ..self.counts
        }
    }
}

fn p99(of: &Distribution) -> Option<u64> {
    (!of.is_empty()).then(|| of.quantile(0.99))
}
