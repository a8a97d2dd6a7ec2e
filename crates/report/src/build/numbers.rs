//! Distributions as the numbers that a report shows.

use crate::{Latency, ObservedTombstones, Quantiles};
use cqlens_window::{Distribution, Tombstones};

pub(crate) fn quantiles(distribution: &Distribution) -> Quantiles {
    Quantiles {
        p50: distribution.quantile(0.5),
        p99: distribution.quantile(0.99),
        p99_between: distribution.quantile_between(0.99),
        max: distribution.max(),
        mean: distribution.mean(),
        total: distribution.total(),
        steps: distribution.steps(),
    }
}

pub(crate) fn latency(distribution: &Distribution) -> Latency {
    Latency {
        count: distribution.count(),
        p50: distribution.quantile(0.5),
        p90: distribution.quantile(0.9),
        p99: distribution.quantile(0.99),
        p99_between: distribution.quantile_between(0.99),
        p999: distribution.quantile(0.999),
        max: distribution.max(),
        mean: distribution.mean(),
        steps: distribution.steps(),
    }
}

pub(super) fn observed_tombstones(tombstones: &Tombstones) -> ObservedTombstones {
    ObservedTombstones {
        p50: tombstones.scanned.quantile(0.5),
        p99: tombstones.scanned.quantile(0.99),
        max: tombstones.scanned.max(),
        observed: tombstones.observed(),
    }
}
