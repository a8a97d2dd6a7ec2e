//! Statements by what they cost, as profiles of databases begin: by their share of the measured time, or by their share
//! of the work if no time was measured.

use std::cmp::Reverse;

use cqlens_window::{OVERFLOW, number};

use crate::{PatternReport, Report};

/// Statements with a line each; the others are counted.
pub(crate) const MOST: usize = 12;

/// The costliest statements, and what is left of the whole.
pub(crate) struct Ranking<'r> {
    pub(crate) statements: Vec<RankedStatement<'r>>,
    /// Statements below those.
    pub(crate) others: usize,
    /// Their share together.
    pub(crate) share_of_others: f64,
}

/// A statement with its share of the whole.
pub(crate) struct RankedStatement<'r> {
    pub(crate) pattern: &'r PatternReport,
    /// 0 to 1.
    pub(crate) share: f64,
    /// Its share as a part of the greatest one.
    pub(crate) of_greatest: f64,
}

impl Report {
    /// Whether times were measured that say something of the cluster: of all patterns, or of none.
    pub(crate) fn has_times(&self) -> bool {
        let first = self.patterns.first();
        first.is_some_and(|pattern| pattern.time_share.is_some())
    }

    /// The application's statements by cost; definitions cost nothing and are not among them.
    pub(crate) fn ranking(&self) -> Ranking<'_> {
        let has_times = self.has_times();
        let share = |pattern: &PatternReport| match has_times {
            true => pattern.time_share.unwrap_or_default(),
            false => pattern.work_share,
        };
        let mut patterns: Vec<_> = self
            .patterns
            .iter()
            .filter(|pattern| share(pattern) > 0.0)
            .collect();
        patterns.sort_by(|one, other| share(other).total_cmp(&share(one)).then(one.id.cmp(&other.id)));
        // What had no room is no statement, and part of what is left.
        let (kept, overflow): (Vec<_>, Vec<_>) =
            patterns.into_iter().partition(|pattern| pattern.id != OVERFLOW);
        let (first, rest) = kept.split_at(kept.len().min(MOST));
        let greatest = first.first().map_or(1.0, |pattern| share(pattern));
        Ranking {
            statements: first
                .iter()
                .map(|pattern| RankedStatement {
                    pattern,
                    share: share(pattern),
                    of_greatest: share(pattern) / greatest,
                })
                .collect(),
            others: rest.len() + overflow.len(),
            share_of_others: rest.iter().chain(&overflow).map(|pattern| share(pattern)).sum(),
        }
    }
}

/// Statements whose slowest executions are listed.
const MOST_SLOW: usize = 5;

impl Report {
    /// The statements with the slowest executions, if times were measured.
    pub(crate) fn slowest(&self) -> Vec<&PatternReport> {
        let measured = self
            .patterns
            .iter()
            .filter(|pattern| pattern.time_share.is_some() && pattern.latency_us.count > 0)
            .filter(|pattern| pattern.time_us > 0 && pattern.id != OVERFLOW);
        let mut slowest: Vec<_> = measured.collect();
        slowest.sort_by_key(|pattern| (Reverse(pattern.latency_us.max), pattern.id));
        slowest.truncate(MOST_SLOW);
        slowest
    }
}

impl Ranking<'_> {
    /// `6 more statements take 0.4 %.`; nothing if all have a line.
    pub(crate) fn rest(&self) -> Option<String> {
        let more = number::plural(self.others as u64, "more statement takes", "more statements take");
        (self.others > 0).then(|| format!("{more} {}.", number::percent(self.share_of_others)))
    }
}

impl RankedStatement<'_> {
    /// Mean and p99 of its latency; dashes where none was measured.
    pub(crate) fn latency(&self) -> [String; 2] {
        let latency = &self.pattern.latency_us;
        match latency.count {
            0 => ["–".to_owned(), "–".to_owned()],
            _ => [number::rounded(latency.mean), latency.p99].map(number::micros),
        }
    }

    /// `60 rows, 10 partitions`, on average, as far as known; one partition goes without saying.
    pub(crate) fn touched(&self) -> String {
        let (rows, partitions) = (&self.pattern.rows, &self.pattern.partitions.numbers);
        let shown = |mean: f64, one: &str, many: &str| match number::decimal(mean) {
            mean if mean == "1" => format!("1 {one}"),
            mean => format!("{mean} {many}"),
        };
        let rows =
            (!rows.steps.is_empty() && self.pattern.kind.is_read()).then(|| shown(rows.mean, "row", "rows"));
        let partitions = (partitions.mean > 1.0).then(|| shown(partitions.mean, "partition", "partitions"));
        let parts: Vec<_> = rows.into_iter().chain(partitions).collect();
        parts.join(", ")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::report;
    use cqlens_cql::{footprint::PartitionClass, plan::StatementKind};
    use cqlens_rules::testing::{pattern, read, window};
    use cqlens_window::Distribution;

    fn slow(at: u64) -> cqlens_window::Pattern {
        let cql = format!("SELECT a FROM shop.t{at} WHERE id = ?");
        let mut pattern = read(&cql, &[], PartitionClass::Single, 100);
        pattern.latency_us = Distribution::default();
        pattern.latency_us.record_n(at * 1_000, 100 * at.min(1));
        pattern
    }

    #[test]
    fn statements_are_ranked_by_time_and_the_rest_is_counted() {
        let mut create = pattern("CREATE TABLE shop.t (a int PRIMARY KEY)", StatementKind::Ddl, 1);
        create.latency_us.record(900_000_000);
        let report = report(&window((1..=20).map(slow).chain([create])));
        let ranking = report.ranking();
        let tables: Vec<_> = ranking
            .statements
            .iter()
            .map(|one| one.pattern.table.as_deref())
            .collect();
        assert_eq!(tables.len(), MOST);
        assert_eq!(tables[..2], [Some("t20"), Some("t19")]);
        let all: f64 = ranking.statements.iter().map(|one| one.share).sum();
        assert!(
            (all + ranking.share_of_others - 1.0).abs() < 1e-9,
            "definitions take no time"
        );
        assert_eq!(ranking.rest().unwrap(), "8 more statements take 17 %.");
        assert!((ranking.statements[0].of_greatest - 1.0).abs() < 1e-9);
    }

    #[test]
    fn without_times_the_work_decides() {
        let mut many = read("SELECT a FROM shop.t", &[], PartitionClass::Scan, 2);
        (many.latency_us, many.rows) = Default::default();
        many.rows.record_n(500, 2);
        let report = report(&window([slow(0), many]));
        assert!(!report.has_times());
        let ranking = report.ranking();
        assert_eq!(ranking.statements[0].pattern.cql, "SELECT a FROM shop.t");
        assert_eq!(ranking.statements[0].touched(), "500 rows");
    }
}
