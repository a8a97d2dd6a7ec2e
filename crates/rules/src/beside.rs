//! How long a read takes beside the other reads of its table.

use std::collections::BTreeMap;

use super::{Context, Finding, read::user_reads, statement::table_of};
use cqlens_cql::schema::TableName;
use cqlens_window::Pattern;

/// Reads that were answered: microseconds, all together, and how many they were.
#[derive(Debug, Clone, Copy, Default)]
struct Took {
    sum: u128,
    count: u64,
}

impl Took {
    fn of(pattern: &Pattern) -> Self {
        Self {
            sum: pattern.latency_us.sum(),
            count: pattern.latency_us.count(),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            sum: self.sum + other.sum,
            count: self.count + other.count,
        }
    }

    fn without(self, other: Self) -> Self {
        Self {
            sum: self.sum.saturating_sub(other.sum),
            count: self.count.saturating_sub(other.count),
        }
    }

    /// In whole microseconds; none of nothing.
    fn mean(self) -> Option<u64> {
        let mean = self.sum.checked_div(u128::from(self.count))?;
        u64::try_from(mean).ok()
    }
}

/// What the reads of each table took together.
pub(super) struct ReadsTook(BTreeMap<TableName, Took>);

impl ReadsTook {
    pub(super) fn of(context: &Context<'_>) -> Self {
        let mut tables: BTreeMap<TableName, Took> = BTreeMap::new();
        for (_, pattern) in user_reads(context) {
            if let Some(table) = table_of(pattern) {
                let took = tables.entry(table).or_default();
                *took = took.and(Took::of(pattern));
            }
        }
        Self(tables)
    }

    /// The mean of this read, and that of the others of its table.
    fn means(&self, read: &Pattern) -> Option<(u64, u64)> {
        let all = self.0.get(&table_of(read)?)?;
        let own = Took::of(read);
        own.mean().zip(all.without(own).mean())
    }
}

/// Puts the mean latency of a table's other reads beside that of each read that a finding is about. Means,
/// because they can be taken apart: quantiles of the others would have to be put together anew for each
/// finding.
pub(super) fn put(findings: &mut [Finding], context: &Context<'_>) {
    let tables = ReadsTook::of(context);
    for finding in findings {
        let Some(place) = place(finding) else { continue };
        let read = finding
            .patterns
            .first()
            .and_then(|id| context.window.patterns.get(id));
        let Some(read) = read.filter(|pattern| pattern.head.kind.is_read()) else {
            continue;
        };
        if let Some((own, others)) = tables.means(read) {
            let means = [
                ("latency_mean_us", own.into()),
                ("latency_mean_of_other_reads_us", others.into()),
            ];
            finding.evidence.splice(place..place, means);
        }
    }
}

/// How many times as long as the other reads of its table a read takes, by their means; nothing where latencies
/// say nothing, or there are no others.
pub(super) fn times_as_long(read: &Pattern, tables: &ReadsTook, context: &Context<'_>) -> Option<f64> {
    let (own, others) = tables.means(read)?;
    context.has_latencies().then(|| own as f64 / others.max(1) as f64)
}

/// Behind the latency; none of findings on several statements together, which have none.
fn place(finding: &Finding) -> Option<usize> {
    let of_latency = |(name, _): &(&str, _)| *name == "latency_p99_us";
    finding
        .evidence
        .iter()
        .position(of_latency)
        .map(|place| place + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use cqlens_cql::{footprint::PartitionClass, plan::Flag};
    use cqlens_window::Distribution;

    fn read(cql: &str, flags: &[Flag], class: PartitionClass, took: u64, times: u64) -> Pattern {
        let mut pattern = testing::read(cql, flags, class, times);
        pattern.latency_us = Distribution::default();
        pattern.latency_us.record_n(took, times);
        pattern
    }

    fn means(patterns: impl IntoIterator<Item = Pattern>) -> Vec<u64> {
        let judgement = testing::judge(&testing::window(patterns));
        let finding = judgement
            .findings
            .iter()
            .find(|finding| finding.rule == "full-scan");
        let evidence = finding
            .map(|finding| finding.evidence.as_slice())
            .unwrap_or_default();
        let means = evidence
            .iter()
            .filter(|(name, _)| name.starts_with("latency_mean"));
        means.filter_map(|(_, value)| value.as_u64()).collect()
    }

    #[test]
    fn a_read_stands_beside_the_others_of_its_table_and_no_others() {
        let key = [Flag::FullPartitionKey];
        let scan = || read("SELECT * FROM s.t", &[], PartitionClass::Scan, 9_000, 1_000);
        let others = [
            read(
                "SELECT * FROM s.t WHERE k = ?",
                &key,
                PartitionClass::Single,
                100,
                300,
            ),
            read(
                "SELECT v FROM s.t WHERE k = ?",
                &key,
                PartitionClass::Single,
                500,
                100,
            ),
            read(
                "SELECT v FROM s.u WHERE k = ?",
                &key,
                PartitionClass::Single,
                77,
                100,
            ),
        ];
        assert_eq!(means(others.into_iter().chain([scan()])), [9_000, 200]);
        assert!(means([scan()]).is_empty(), "there are no others");
    }
}
