//! What statements cost the cluster, in two figures that a reader can check and that add up.

use std::{iter::Sum, ops::Add};

use super::Context;
use cqlens_cql::plan::StatementKind;
use cqlens_window::Pattern;

/// What some executions cost. The two figures are never multiplied with each other: latency already holds the
/// rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Their latencies together, in microseconds: executions × mean latency.
    pub time_us: u64,
    /// Partitions, rows and tombstones that they touched, as far as known. A scan counts its rows, since its
    /// partitions are not known; of tombstones counts what the server reported.
    pub work: u64,
}

impl Cost {
    /// What the executions of a pattern cost; nothing if it defines something: a model is not slow because its tables took
    /// seconds to create.
    pub fn of(pattern: &Pattern) -> Self {
        if matches!(pattern.head.kind, StatementKind::Ddl | StatementKind::Other) {
            return Self::default();
        }
        let touched = [&pattern.partitions, &pattern.rows, &pattern.tombstones.scanned];
        Self {
            time_us: pattern.latency_us.total(),
            work: touched
                .map(|counts| counts.total())
                .into_iter()
                .fold(0, u64::saturating_add),
        }
    }

    /// The part of the measured time that this is, 0.0..=1.0; nothing where no time was measured, or what was
    /// measured says nothing of the cluster.
    pub fn time_share(self, context: &Context<'_>) -> Option<f64> {
        let whole = context.total().time_us;
        context.has_latencies().then(|| share(self.time_us, whole))
    }

    /// What is compared to put the costliest first: the share of the measured time, in steps of a factor of two
    /// so that noise does not reorder, then work.
    pub fn rank(self, context: &Context<'_>) -> (i32, u64) {
        (self.time_share(context).map_or(i32::MIN, share_step), self.work)
    }

    /// The part of the work that this is, 0.0..=1.0; 0 of nothing.
    pub fn work_share(self, context: &Context<'_>) -> f64 {
        share(self.work, context.total().work)
    }
}

/// The step of a share, each half as large as the one before: 0 for the whole, -10 for about a thousandth.
#[expect(
    clippy::cast_possible_truncation,
    reason = "nobody tells shares below 2^-64 apart"
)]
pub fn share_step(share: f64) -> i32 {
    share.log2().max(-64.0).floor() as i32
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

impl Add for Cost {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            time_us: self.time_us.saturating_add(other.time_us),
            work: self.work.saturating_add(other.work),
        }
    }
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::pattern;

    #[test]
    fn definitions_cost_nothing() {
        let mut create = pattern("CREATE TABLE a.b (c int PRIMARY KEY)", StatementKind::Ddl, 3);
        assert_eq!(Cost::of(&create), Cost::default());
        create.head.kind = StatementKind::Insert;
        assert!(Cost::of(&create).time_us > 0);
    }
}
