//! SELECTs that read the whole ring and say so: no partition key, no `token()`, no index, nothing filtered.

use super::{
    About, Findings, HIGH_PER_HOUR, MEDIUM_PER_HOUR, SLOW_MS, Severity, Threshold,
    aggregate_without_partition_key::folds_the_ring, blind_on_unknown, by_rate, filters, how_often, reads,
    table, user_reads,
};
use crate::{
    number,
    rules::{Finding, Rule},
    window::{Pattern, Window},
};
use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::Schema};

pub(in crate::rules) struct FullScan;

impl Rule for FullScan {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, _schema: &Schema, found: &mut Findings<'_>) {
        let is_scan = |pattern: &Pattern| {
            pattern.class() == PartitionClass::Scan && !filters(pattern) && !folds_the_ring(pattern)
        };
        for (id, pattern) in user_reads(window).filter(|(_, pattern)| is_scan(pattern)) {
            let Some(severity) = severity(found, pattern, window) else {
                continue;
            };
            let rows = rows_per_read(pattern);
            let title = format!(
                "Reads of {} scan the whole ring{}{}",
                table(pattern),
                how_often(pattern, window),
                rows.map_or_else(String::new, each)
            );
            let mut finding = Finding::on(&ABOUT, severity, (id, pattern), window).title(title);
            if let Some(rows) = rows {
                finding = finding.first("rows_per_read", rows);
            }
            if pattern.pages > reads(pattern) {
                finding = finding.first("pages", pattern.pages);
            }
            found.push(finding);
        }
        blind_on_unknown(found, &ABOUT, window);
    }
}

/// By rate; one step down where few rows come back; nothing for a small `LIMIT` that is rarely asked for.
fn severity(found: &Findings<'_>, pattern: &Pattern, window: &Window) -> Option<Severity> {
    let severity = by_rate(found, &ABOUT, pattern, window);
    let few = rows_per_read(pattern).is_some_and(|rows| rows <= found.threshold(&ABOUT, &FEW_ROWS));
    if !few {
        return Some(severity);
    }
    if !pattern.is(Flag::Limit) {
        return Some(severity.lowered());
    }
    // The scan of a small LIMIT ends after its first ranges: a probe at start-up, a health check.
    (severity > Severity::Medium).then_some(Severity::Low)
}

/// Rows of one read, its pages together; none where no answer held rows that could be counted.
fn rows_per_read(pattern: &Pattern) -> Option<f64> {
    (!pattern.rows.is_empty()).then(|| pattern.rows.total() as f64 / reads(pattern).max(1) as f64)
}

fn each(rows: f64) -> String {
    let noun = if rows == 1.0 { "row" } else { "rows" };
    format!(", {} {noun} each", number::decimal(rows))
}

const FEW_ROWS: Threshold = Threshold {
    name: "few_rows",
    unit: "rows a read",
    default: 100.0,
    origin: "the protocol specification calls pages of fewer than 100 rows too small to be worth a request",
};

const ABOUT: About = About {
    id: "full-scan",
    group: "read shape",
    summary: "A read has no partition key: Cassandra walks the whole ring.",
    why: "\
        The coordinator asks the replicas of one token range after the other, or of several at once, until \
        the ring has been walked or the page is full. Every node takes part in every read, so adding nodes \
        does not help, and each replica merges all of its partitions from all of its files.",
    fix: "\
        Name the partition in the query: a table whose partition key is what the application knows when it \
        asks. For exports and counts walk the ring by `token()` ranges from a job, or keep the number in a \
        table of its own.",
    before: "CREATE TABLE shop.orders (id uuid PRIMARY KEY, placed date, amount decimal);\nSELECT * FROM shop.orders;",
    after: "CREATE TABLE shop.orders_by_day (\n  placed date, id uuid, amount decimal,\n  PRIMARY KEY ((placed), id));\n\
            SELECT * FROM shop.orders_by_day WHERE placed = ?;",
    severity: "\
        High from `high_per_hour` reads an hour, medium from `medium_per_hour`, low below; one step up where \
        the p99 latency reaches `slow_ms`. One step down where a read returns at most `few_rows`: the table \
        is small, today. With a LIMIT and that few rows: nothing, or low from `high_per_hour`.",
    thresholds: &[HIGH_PER_HOUR, MEDIUM_PER_HOUR, SLOW_MS, FEW_ROWS],
    needs: "\
        The table's schema, to know its partition key; the answers' row counts, to tell a probe from a scan.",
    source: "\
        Basic Rules of Cassandra Data Modeling, rule 2: minimize the number of partitions read; Cassandra \
        class `RangeCommands`",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{read, run, window};

    const BAD: &str = "SELECT * FROM shop.orders";

    fn scan(flags: &[Flag], times: u64, rows_each: u64) -> Pattern {
        let mut pattern = read(BAD, flags, PartitionClass::Scan, times);
        pattern.rows = Default::default();
        pattern.rows.record_n(rows_each, times);
        pattern
    }

    fn severities(pattern: Pattern) -> Vec<Severity> {
        let judgement = run(&FullScan, &window([pattern]));
        judgement
            .findings
            .iter()
            .map(|finding| finding.severity)
            .collect()
    }

    #[test]
    fn a_frequent_scan_of_many_rows_is_high() {
        let judgement = run(&FullScan, &window([scan(&[], 60, 5_000)]));
        assert_eq!(judgement.findings[0].severity, Severity::High);
        assert_eq!(
            judgement.findings[0].title,
            "Reads of `shop.orders` scan the whole ring, 1 a minute, 5,000 rows each"
        );
    }

    #[test]
    fn just_below_the_rate_it_is_medium_and_rarely_low() {
        assert_eq!(severities(scan(&[], 59, 5_000)), [Severity::Medium]);
        let mut day = window([scan(&[], 23, 5_000)]);
        day.observed_seconds = 86_400.0;
        assert_eq!(run(&FullScan, &day).findings[0].severity, Severity::Low);
    }

    #[test]
    fn a_small_table_costs_one_step_less_and_an_aggregate_is_judged_elsewhere() {
        assert_eq!(severities(scan(&[], 60, 100)), [Severity::Medium]);
        assert_eq!(severities(scan(&[], 60, 101)), [Severity::High]);
        assert_eq!(severities(scan(&[Flag::Aggregate], 60, 1)), []);
    }

    #[test]
    fn a_probe_at_start_up_is_fine_and_a_steady_one_is_low() {
        assert_eq!(severities(scan(&[Flag::Limit], 59, 1)), []);
        assert_eq!(severities(scan(&[Flag::Limit], 60, 1)), [Severity::Low]);
    }

    #[test]
    fn pages_of_one_read_count_once() {
        let mut pattern = scan(&[], 100, 5_000);
        pattern.logical_reads = 2;
        pattern.pages = 100;
        let judgement = run(&FullScan, &window([pattern]));
        assert_eq!(judgement.findings[0].severity, Severity::Medium);
        assert_eq!(judgement.findings[0].evidence[0], ("pages", 100.into()));
        assert_eq!(
            judgement.findings[0].evidence[1],
            ("rows_per_read", 250_000.0.into())
        );
    }

    #[test]
    fn a_read_of_one_partition_is_fine_and_so_is_a_token_range() {
        let repaired = read(
            "SELECT * FROM shop.orders_by_day WHERE placed = ?",
            &[Flag::FullPartitionKey],
            PartitionClass::Single,
            1_000_000,
        );
        assert_eq!(severities(repaired), []);
        let range = read(
            "SELECT * FROM shop.orders WHERE token(id) > ? AND token(id) <= ?",
            &[Flag::OnToken],
            PartitionClass::TokenRange,
            1_000_000,
        );
        assert_eq!(severities(range), []);
    }

    #[test]
    fn what_filters_is_left_to_the_rule_on_filtering() {
        assert_eq!(
            severities(scan(&[Flag::AllowFiltering, Flag::FilteringNeeded], 60, 5_000)),
            []
        );
        assert_eq!(
            severities(scan(&[Flag::AllowFiltering], 60, 5_000)),
            [Severity::High]
        );
    }

    #[test]
    fn reads_of_unknown_tables_are_reported_as_not_seen() {
        let judgement = run(&FullScan, &window([read(BAD, &[], PartitionClass::Unknown, 7)]));
        assert_eq!(judgement.findings, []);
        assert_eq!(
            judgement.blind_spots[0].text,
            "7 of 7 reads (1 pattern) touch partitions that are not known"
        );
    }
}
