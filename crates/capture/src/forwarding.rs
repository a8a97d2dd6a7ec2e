//! What the data path itself costs: the bytes that it has sent on, and how long a sample of them was within the process.

use std::{
    array,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use cqlens_proto::envelope::Direction;

/// The upper bounds of the buckets, in nanoseconds: from what one write to a socket takes to what only a receiver that does not read
/// can cause. Fixed, so that the counts of several processes add up.
pub const TIMES_WITHIN_NS: [u64; 13] = [
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
];

/// One chunk in so many of a direction of a connection is timed, from the first on: the clock is read twice for it.
pub const TIMED_PART: u32 = 32;

/// Counts of all connections.
#[derive(Debug, Default)]
pub struct Forwarding {
    requests: ForwardingCounters,
    responses: ForwardingCounters,
}

/// What was counted in one direction since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forwarded {
    /// Bytes that were read, most of which are sent on by now.
    pub bytes: u64,
    /// Timed chunks by bucket of [`TIMES_WITHIN_NS`]; the last one has no upper bound.
    pub times: [u64; TIMES_WITHIN_NS.len() + 1],
    /// Their times together.
    pub total: Duration,
}

#[derive(Debug, Default)]
struct ForwardingCounters {
    bytes: AtomicU64,
    times: [AtomicU64; TIMES_WITHIN_NS.len() + 1],
    total_ns: AtomicU64,
}

impl Forwarding {
    /// What was counted in one direction.
    pub fn of(&self, direction: Direction) -> Forwarded {
        let counts = self.counts(direction);
        Forwarded {
            bytes: counts.bytes.load(Ordering::Relaxed),
            times: array::from_fn(|bucket| counts.times[bucket].load(Ordering::Relaxed)),
            total: Duration::from_nanos(counts.total_ns.load(Ordering::Relaxed)),
        }
    }

    pub(super) fn count(&self, direction: Direction, bytes: usize) {
        let counts = self.counts(direction);
        counts.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn time(&self, direction: Direction, within: Duration) {
        let counts = self.counts(direction);
        let nanoseconds = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        let bucket = TIMES_WITHIN_NS.partition_point(|&bound| bound < nanoseconds);
        counts.times[bucket].fetch_add(1, Ordering::Relaxed);
        counts.total_ns.fetch_add(nanoseconds, Ordering::Relaxed);
    }

    fn counts(&self, direction: Direction) -> &ForwardingCounters {
        match direction {
            Direction::Request => &self.requests,
            Direction::Response => &self.responses,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_first_bucket_that_is_not_below_it() {
        let forwarding = Forwarding::default();
        forwarding.count(Direction::Response, 70);
        for nanoseconds in [5_000, 5_001, 1_000_000_001] {
            forwarding.time(Direction::Response, Duration::from_nanos(nanoseconds));
        }
        let responses = forwarding.of(Direction::Response);
        assert_eq!(responses.bytes, 70);
        assert_eq!(responses.times[..3], [1, 1, 0]);
        assert_eq!(responses.times.last(), Some(&1));
        assert_eq!(responses.total, Duration::from_nanos(1_000_010_002));
        assert_eq!(forwarding.of(Direction::Request), Forwarded::default());
    }
}
