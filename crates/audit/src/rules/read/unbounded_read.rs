//! Reads of whole partitions that have grown large: no LIMIT, and nothing says where rows begin or end.

use super::{
    About, Findings, MEDIUM_PER_HOUR, Severity, Threshold, how_often, reads_per_hour, table, user_reads,
};
use crate::{
    number,
    rules::{Finding, Rule},
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::Schema};

pub(in crate::rules) struct UnboundedRead;

impl Rule for UnboundedRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, _schema: &Schema, found: &mut Findings<'_>) {
        for (id, pattern) in user_reads(window).filter(|(_, pattern)| is_unbounded(pattern)) {
            if let Some(severity) = severity(found, pattern, window) {
                found.push(finding(severity, id, pattern, window));
            }
        }
    }
}

/// Names its partitions, and takes of them whatever there is.
fn is_unbounded(pattern: &Pattern) -> bool {
    let names_partitions = matches!(pattern.class(), PartitionClass::Single | PartitionClass::Multi);
    names_partitions && !pattern.is(Flag::Limit) && !pattern.is(Flag::Aggregate)
}

/// Rows of one read at p99: its pages together where they could be put together, else those of one answer.
fn rows(pattern: &Pattern) -> u64 {
    let whole = pattern.paging.rows.quantile(0.99);
    whole.max(pattern.rows.quantile(0.99))
}

fn severity(found: &Findings<'_>, pattern: &Pattern, window: &Window) -> Option<Severity> {
    let rows = rows(pattern) as f64;
    let reached = |threshold: &Threshold| rows >= found.threshold(&ABOUT, threshold);
    let severity = if reached(&HIGH_ROWS) {
        Severity::High
    } else if reached(&MEDIUM_ROWS) {
        Severity::Medium
    } else if reached(&LOW_ROWS) {
        Severity::Low
    } else {
        return None;
    };
    let rare = reads_per_hour(pattern, window) < found.threshold(&ABOUT, &MEDIUM_PER_HOUR);
    Some(if rare { severity.lowered() } else { severity })
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, window: &Window) -> Finding {
    let pages = pattern.paging.pages.quantile(0.99);
    let in_pages = if pages > 1 {
        format!(" in {} pages", number::count(pages))
    } else {
        String::new()
    };
    let title = format!(
        "Reads of {} take all rows of a partition: {} (p99){in_pages}{}",
        table(pattern),
        number::count(rows(pattern)),
        how_often(pattern, window)
    );
    let mut finding = Finding::on(&ABOUT, severity, (id, pattern), window)
        .title(title)
        .first(
            "rows_per_read_max",
            pattern.paging.rows.max().max(pattern.rows.max()),
        )
        .first("rows_per_read_p99", rows(pattern));
    if pattern.paging.abandoned > 0 {
        finding = finding.first("reads_left_before_the_end", pattern.paging.abandoned);
    }
    finding
}

const LOW_ROWS: Threshold = Threshold {
    name: "low_rows",
    unit: "rows of one read at p99",
    default: 5_000.0,
    origin: "the page size that the drivers ask for unless told otherwise: more is read in several requests",
};

const MEDIUM_ROWS: Threshold = Threshold {
    name: "medium_rows",
    unit: "rows of one read at p99",
    default: 25_000.0,
    origin: "own choice: five pages of the drivers' default, one after the other",
};

const HIGH_ROWS: Threshold = Threshold {
    name: "high_rows",
    unit: "rows of one read at p99",
    default: 100_000.0,
    origin: "ScyllaDB's `compaction_rows_count_warning_threshold`, from which a partition is large: 100000",
};

const ABOUT: About = About {
    id: "unbounded-read",
    group: "read shape",
    summary: "A read takes all rows of a partition, and the partition has grown large.",
    why: "\
        The read costs what the partition holds, not what the application needs: replicas merge all of its \
        rows from all files, and page after page is fetched one after the other. Nothing in the statement \
        keeps the next partition from being ten times as large.",
    fix: "\
        Say which rows: a LIMIT, a range of the first clustering column, or a partition key with a bucket \
        (such as the day) that keeps partitions to a known size.",
    before: "CREATE TABLE shop.events (sensor text, at timestamp, value double, PRIMARY KEY ((sensor), at));\n\
             SELECT at, value FROM shop.events WHERE sensor = ?;",
    after: "CREATE TABLE shop.events_by_day (sensor text, day date, at timestamp, value double,\n  PRIMARY KEY ((sensor, day), at));\n\
            SELECT at, value FROM shop.events_by_day WHERE sensor = ? AND day = ? LIMIT 1000;",
    severity: "\
        By the rows of one read, its pages together, at p99: low from `low_rows`, medium from `medium_rows`, \
        high from `high_rows`; one step down below `medium_per_hour` reads an hour. Nothing with a LIMIT or \
        an aggregate, and nothing while partitions are small.",
    thresholds: &[LOW_ROWS, MEDIUM_ROWS, HIGH_ROWS, MEDIUM_PER_HOUR],
    needs: "\
        Answers with rows, and paging states that link the pages of a read; the table's schema, to know that \
        partitions are named.",
    source: "\
        Basic Rules of Cassandra Data Modeling, rule 1: spread data evenly; Cassandra guardrail \
        `partition_size` (5.0)",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{read, run, window};

    fn whole(flags: &[Flag], class: PartitionClass, rows: u64) -> Pattern {
        let mut pattern = read("SELECT at FROM shop.events WHERE sensor = ?", flags, class, 60);
        pattern.rows = Default::default();
        pattern.rows.record_n(rows.min(5_000), 60);
        pattern.paging.rows.record_n(rows, 60);
        pattern.paging.pages.record_n(rows.div_ceil(5_000), 60);
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&UnboundedRead, &window([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_rows_of_a_read_with_all_of_its_pages() {
        let of = |rows| severity(whole(&[], PartitionClass::Single, rows));
        assert_eq!(of(4_500), None);
        assert_eq!(of(6_000), Some(Severity::Low));
        assert_eq!(of(30_000), Some(Severity::Medium));
        assert_eq!(of(120_000), Some(Severity::High));
    }

    #[test]
    fn the_title_says_how_many_rows_and_pages() {
        let judgement = run(
            &UnboundedRead,
            &window([whole(&[], PartitionClass::Single, 40_000)]),
        );
        let title = &judgement.findings[0].title;
        assert!(
            title.contains("take all rows of a partition") && title.contains("in 8 pages"),
            "{title}"
        );
    }

    #[test]
    fn a_limit_an_aggregate_and_a_scan_are_not_unbounded_reads_of_a_partition() {
        assert_eq!(
            severity(whole(&[Flag::Limit], PartitionClass::Single, 120_000)),
            None
        );
        assert_eq!(
            severity(whole(&[Flag::Aggregate], PartitionClass::Single, 120_000)),
            None
        );
        assert_eq!(severity(whole(&[], PartitionClass::Scan, 120_000)), None);
    }

    #[test]
    fn what_happens_once_in_hours_costs_less() {
        let mut month = window([whole(&[], PartitionClass::Single, 30_000)]);
        month.observed_seconds = 86_400.0 * 30.0;
        assert_eq!(run(&UnboundedRead, &month).findings[0].severity, Severity::Low);
    }
}
