//! Latencies in fixed buckets, which add up over windows and over proxies.

use cqlens_window::Distribution;

/// The upper bounds of the buckets, in microseconds: three a decade, from what a row in memory takes to the timeout that drivers
/// have by default. Fixed, so that series of all proxies and all versions of cqlens add up.
pub const BOUNDS_US: [u64; 14] = [
    500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];

/// How long requests took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Latency {
    /// By bucket; the last one has no upper bound.
    buckets: [u64; BOUNDS_US.len() + 1],
    /// All together, in microseconds.
    sum_us: u64,
}

impl Latency {
    /// Adds latencies in microseconds. Of more than 16 different ones each may be 1 % off.
    pub(super) fn add(&mut self, latencies: &Distribution) {
        for (latency, times) in latencies.steps() {
            let bucket = BOUNDS_US.partition_point(|&bound| bound < latency);
            self.buckets[bucket] += times;
        }
        self.sum_us = self.sum_us.saturating_add(latencies.total());
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (count, more) in self.buckets.iter_mut().zip(other.buckets) {
            *count += more;
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
    }

    pub(super) fn sum_seconds(&self) -> f64 {
        seconds(self.sum_us)
    }

    /// Each bucket's upper bound in seconds and its count, not added up.
    pub(super) fn buckets(&self) -> Vec<(f64, u64)> {
        buckets(BOUNDS_US.iter().map(|&bound| seconds(bound)), &self.buckets)
    }
}

/// Counts with their upper bounds; the last one has none.
pub(super) fn buckets(bounds: impl Iterator<Item = f64>, counts: &[u64]) -> Vec<(f64, u64)> {
    bounds
        .chain([f64::INFINITY])
        .zip(counts.iter().copied())
        .collect()
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_in_the_first_bucket_that_is_not_below_it() {
        let mut latencies = Distribution::default();
        [500, 501, 1_000, 10_000_000, 10_000_001]
            .into_iter()
            .for_each(|us| latencies.record(us));
        let mut found = Latency::default();
        found.add(&latencies);
        assert_eq!(found.buckets[..3], [1, 2, 0]);
        assert_eq!(found.buckets[13..], [1, 1]);
        found.merge(&found.clone());
        assert_eq!(found.buckets[..3], [2, 4, 0]);
        assert_eq!(found.sum_us, 40_004_004);
    }
}
