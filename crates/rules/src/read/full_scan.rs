//! SELECTs that read the whole ring and say so: no partition key, no `token()`, no index, nothing filtered.

use super::{
    About, Findings, Impact, Severity, Threshold, aggregate_without_partition_key::folds_the_ring,
    blind_on_unknown, filters, how_often, is_sweep, of_a_scan, reads, table, user_reads,
};
use crate::{Cause, Context, Finding, Quantity, Rule, Wish};
use cqlens_cql::{
    footprint::PartitionClass,
    plan::Flag,
    syntax::ast::{Body, Statement, Term},
};
use cqlens_window::{Pattern, number};

pub(crate) struct FullScan;

impl Rule for FullScan {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let is_scan = |pattern: &Pattern| {
            pattern.class() == PartitionClass::Scan
                && !filters(pattern)
                && !folds_the_ring(pattern)
                && !is_sweep(pattern)
        };
        if context
            .text()
            .and_then(limit)
            .is_some_and(|limit| limit as f64 <= found.threshold(&ABOUT, &FEW_ROWS))
        {
            // A probe, or an example: it ends after its first ranges.
            return;
        }
        for (id, pattern) in user_reads(context).filter(|(_, pattern)| is_scan(pattern)) {
            let Some(severity) = severity(found, pattern, context) else {
                continue;
            };
            let rows = rows_per_read(pattern);
            let what = if pattern.is(Flag::Distinct) {
                "`SELECT DISTINCT` walks every partition of"
            } else {
                "Full table scan of"
            };
            let title = format!(
                "{what} {}{}{}",
                table(pattern),
                how_often(pattern, context),
                rows.map_or_else(String::new, each)
            );
            let mut finding = Finding::on(&ABOUT, severity, (id, pattern), context).title(title);
            finding = finding.wish(Wish::InRanges(id));
            if let Some(rows) = rows {
                finding = finding.first("rows_per_read", rows);
            }
            if pattern.pages > reads(pattern) {
                finding = finding.first("pages", pattern.pages);
            }
            found.push(finding);
        }
        blind_on_unknown(found, &ABOUT, context);
    }
}

/// The LIMIT of a SELECT whose text says how much it is.
fn limit(statement: &Statement<'_>) -> Option<u64> {
    match &statement.body {
        Body::Select(select) => match &select.limit {
            Some(Term::Literal(limit)) => limit.text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
}

/// Low where few rows come back: the table is small, today. Nothing for a small `LIMIT`: its scan ends after
/// its first ranges, and is a probe at start-up or a health check, unless it is a part of the load.
fn severity(found: &Findings<'_>, pattern: &Pattern, context: &Context<'_>) -> Option<Severity> {
    let few = rows_per_read(pattern).is_some_and(|rows| rows <= found.threshold(&ABOUT, &FEW_ROWS));
    if !few {
        return Some(context.severity(found, &Impact::each(of_a_scan(context)).of(pattern)));
    }
    let severity = context.severity(found, &Impact::each(Severity::Low).of(pattern));
    let probes = pattern.is(Flag::Limit) && severity == Severity::Info;
    (!probes).then_some(severity)
}

/// Rows of one read, its pages together; none where no answer held rows that could be counted.
fn rows_per_read(pattern: &Pattern) -> Option<f64> {
    (!pattern.rows.is_empty()).then(|| pattern.rows.total() as f64 / reads(pattern).max(1) as f64)
}

fn each(rows: f64) -> String {
    let noun = if rows == 1.0 { "row" } else { "rows" };
    format!(", {} {noun} per query", number::decimal(rows))
}

const FEW_ROWS: Threshold = Threshold {
    name: "few_rows",
    unit: "rows per read",
    default: 100.0,
    origin: "the protocol specification calls pages of fewer than 100 rows too small to be worth a request",
};

const ABOUT: About = About {
    id: "full-scan",
    group: "read shape",
    summary: "A read has no partition key: Cassandra walks the whole ring.",
    why: "The coordinator queries the replicas of one token range after the other, or of several at once, \
        until it has covered the ring or the page is full. Every node takes part in every read, so adding \
        nodes does not help, and each replica merges all of its partitions from all of its SSTables.",
    fix: "Query by partition key: create a table whose partition key is what the application knows at that \
        point. For exports and counts, let a job read the ring in `token()` ranges, or maintain the count in \
        a separate table.",
    fix_in_short: "Read by key",
    before: "CREATE TABLE shop.orders (id uuid PRIMARY KEY, placed date, amount decimal);\nSELECT * FROM shop.orders;",
    after: "CREATE TABLE shop.orders_by_day (\n  placed date, id uuid, amount decimal,\n  PRIMARY KEY ((placed), id));\n\
            SELECT * FROM shop.orders_by_day WHERE placed = ?;",
    severity: "\
        High: the cost of each execution grows with the table. Low if a read returns at most `few_rows`: the \
        table is still small; nothing if such a read also has a LIMIT and would be below low, or if the text has a LIMIT \
        of at most `few_rows`. Medium for a \
        statement that was analysed but not executed, because the table's size is unknown.",
    severities: &[Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[FEW_ROWS],
    needs: "\
        The table's schema, to know its partition key; the row counts of responses, to distinguish a probe \
        from a scan.",
    source: "\
        Basic Rules of Cassandra Data Modeling, rule 2: minimize the number of partitions read; Cassandra \
        class `RangeCommands`",
    cause: Some(Cause::NO_TABLE_FOR_THE_QUERY),
    quantity: Some(Quantity::ROWS_PER_RESPONSE),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, read, run, window};

    const BAD: &str = "SELECT * FROM shop.orders";

    fn scan(flags: &[Flag], times: u64, rows_each: u64) -> Pattern {
        let mut pattern = read(BAD, flags, PartitionClass::Scan, times);
        pattern.rows = Default::default();
        pattern.rows.record_n(rows_each, times);
        pattern
    }

    fn severities(pattern: Pattern) -> Vec<Severity> {
        let judgement = run(&FullScan, &amid([pattern]));
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
            "Full table scan of `shop.orders`, 1 a minute, 5,000 rows per query"
        );
    }

    #[test]
    fn once_an_hour_it_is_an_occasion() {
        let mut day = window([scan(&[], 23, 5_000)]);
        day.observed_seconds = 86_400.0;
        assert_eq!(run(&FullScan, &day).findings[0].severity, Severity::Low);
    }

    #[test]
    fn distinct_keys_have_a_sentence_of_their_own() {
        let judgement = run(&FullScan, &window([scan(&[Flag::Distinct], 60, 5_000)]));
        assert_eq!(
            judgement.findings[0].title,
            "`SELECT DISTINCT` walks every partition of `shop.orders`, 1 a minute, 5,000 rows per query"
        );
    }

    #[test]
    fn a_small_table_is_low_and_an_aggregate_is_judged_elsewhere() {
        assert_eq!(severities(scan(&[], 100, 100)), [Severity::Low]);
        assert_eq!(severities(scan(&[], 100, 101)), [Severity::High]);
        assert_eq!(severities(scan(&[Flag::Aggregate], 100, 1)), []);
        // Five rows, 35 times a minute, in less than a millisecond.
        let mut tiny = scan(&[], 2_100, 5);
        tiny.latency_us = Default::default();
        tiny.latency_us.record_n(700, 2_100);
        assert_eq!(
            run(&FullScan, &window([tiny])).findings[0].severity,
            Severity::Info
        );
    }

    #[test]
    fn a_probe_is_fine_and_one_that_is_a_part_of_the_load_is_low() {
        assert_eq!(run(&FullScan, &window([scan(&[Flag::Limit], 2, 1)])).findings, []);
        assert_eq!(severities(scan(&[Flag::Limit], 100, 1)), [Severity::Low]);
    }

    #[test]
    fn pages_of_one_read_count_once() {
        let mut pattern = scan(&[], 100, 5_000);
        pattern.logical_reads = 2;
        pattern.pages = 100;
        let judgement = run(&FullScan, &window([pattern]));
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
