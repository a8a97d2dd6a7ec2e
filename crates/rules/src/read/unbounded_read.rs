//! Reads of whole partitions that have grown large: no LIMIT, and nothing says where rows begin or end.

use super::{About, Findings, Impact, Severity, Threshold, how_often, table, user_reads};
use crate::{Cause, Context, Finding, Quantity, Rule, figures::definition};
use cqlens_cql::{
    footprint::PartitionClass,
    plan::Flag,
    syntax::{
        self,
        ast::{Body, RelationOperator, Select},
    },
};
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct UnboundedRead;

impl Rule for UnboundedRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (id, pattern) in user_reads(context).filter(|read| is_unbounded(*read, context)) {
            if let Some(impact) = impact(found, pattern) {
                let severity = context.severity(found, &impact);
                found.push(finding(severity, id, pattern, context).weighing(impact));
            }
        }
    }
}

/// Names its partitions, and takes of them whatever there is.
fn is_unbounded((id, pattern): (PatternId, &Pattern), context: &Context<'_>) -> bool {
    let names_partitions = matches!(pattern.class(), PartitionClass::Single | PartitionClass::Multi);
    names_partitions
        && !pattern.is(Flag::Limit)
        && !pattern.is(Flag::Aggregate)
        && !is_bounded(id, pattern, context)
}

/// Whether something says which rows of the partition: clustering columns, or how many of each partition.
fn is_bounded(id: PatternId, pattern: &Pattern, context: &Context<'_>) -> bool {
    let statement = context.statement(id);
    let Some(Body::Select(select)) = statement.as_deref().map(|statement| &statement.body) else {
        return false;
    };
    let of_clustering = definition(pattern, context.schema).is_some_and(|table| {
        let mut columns = table.clustering().iter();
        columns.any(|column| has_both_ends(&column.name, select))
    });
    select.per_partition_limit.is_some() || of_clustering
}

/// Whether a SELECT names values of the column, or both ends of a range: what is open at one end grows.
fn has_both_ends(column: &str, select: &Select<'_>) -> bool {
    let (mut begins, mut ends) = (false, false);
    let relations = select.where_clause.relations.iter();
    let of_column = relations.filter(|relation| {
        let mut names = relation.subject.columns().iter();
        names.any(|name| name.as_str() == column)
    });
    for relation in of_column {
        match relation.operator {
            RelationOperator::GreaterThan | RelationOperator::GreaterOrEqual => begins = true,
            RelationOperator::LessThan | RelationOperator::LessOrEqual => ends = true,
            _ => (begins, ends) = (true, true),
        }
    }
    begins && ends
}

/// Rows of one partition at p99, of its pages together where they could be put together, else those of one
/// response; those of a read of several partitions are taken to be spread evenly.
fn rows(pattern: &Pattern) -> u64 {
    let whole = pattern.paging.rows.quantile(0.99);
    let rows = whole.max(pattern.rows.quantile(0.99));
    rows / pattern.partitions.quantile(0.5).max(1)
}

fn impact<'p>(found: &Findings<'_>, pattern: &'p Pattern) -> Option<Impact<'p>> {
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
    let grows = severity > Severity::Low;
    Some(Impact::each(severity).of(pattern).grows(grows))
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, context: &Context<'_>) -> Finding {
    let pages = pattern.paging.pages.quantile(0.99);
    let in_pages = if pages > 1 {
        format!(" in {} pages", number::count(pages))
    } else {
        String::new()
    };
    let title = format!(
        "Reads of {} fetch whole partitions: {} rows at p99{in_pages}{}",
        table(pattern),
        number::count(rows(pattern)),
        how_often(pattern, context)
    );
    let mut finding = Finding::on(&ABOUT, severity, (id, pattern), context)
        .title(title)
        .first(
            "rows_per_read_max",
            pattern.paging.rows.max().max(pattern.rows.max()),
        )
        .first("rows_per_partition_p99", rows(pattern));
    if pattern.paging.abandoned > 0 {
        finding = finding.first("reads_left_before_the_end", pattern.paging.abandoned);
    }
    finding
}

const LOW_ROWS: Threshold = Threshold {
    name: "low_rows",
    unit: "rows per read at p99",
    default: 5_000.0,
    origin: "the drivers' default page size: reading more takes several requests",
};

const MEDIUM_ROWS: Threshold = Threshold {
    name: "medium_rows",
    unit: "rows per read at p99",
    default: 25_000.0,
    origin: "cqlens default: five pages of the drivers' default size, one after the other",
};

const HIGH_ROWS: Threshold = Threshold {
    name: "high_rows",
    unit: "rows per read at p99",
    default: 100_000.0,
    origin: "\
        ScyllaDB's `compaction_rows_count_warning_threshold`, above which it calls a partition large: 100000",
};

/// The read with a limit, at its end where nothing may follow that.
fn with_limit(pattern: &Pattern) -> Option<(String, String)> {
    let cql = &pattern.head.cql;
    let limited = format!("{cql} LIMIT ?");
    syntax::parse(&limited).is_ok().then(|| {
        let after = "-- as many rows as are shown; the next ones begin behind the last row";
        (format!("{cql};"), format!("{after}\n{limited};"))
    })
}

const ABOUT: About = About {
    id: "unbounded-read",
    group: "read shape",
    summary: "A read fetches all rows of a partition, and the partition has grown large.",
    why: "\
        The cost depends on the size of the partition, not on what the application needs: replicas merge all \
        of its rows from all SSTables, and the client fetches page after page. Nothing in the statement \
        keeps the next partition from being ten times as large.",
    fix: "Limit the read: add a LIMIT, both ends of a range on the first clustering column (a range that is \
        open at one end grows with the partition), or a bucket in the partition key (such as the day) that \
        keeps partitions to a known size.",
    fix_in_short: "Add a LIMIT",
    before: "CREATE TABLE shop.events (sensor text, at timestamp, value double, PRIMARY KEY ((sensor), at));\n\
             SELECT at, value FROM shop.events WHERE sensor = ?;",
    after: "CREATE TABLE shop.events_by_day (sensor text, day date, at timestamp, value double,\n  PRIMARY KEY ((sensor, day), at));\n\
            SELECT at, value FROM shop.events_by_day WHERE sensor = ? AND day = ? LIMIT 1000;",
    severity: "\
        By the rows per partition, over all pages, at p99: low from `low_rows`, medium from `medium_rows`, \
        high from `high_rows`. Nothing with a LIMIT, a PER PARTITION LIMIT, values or both ends of a range \
        on a clustering column, or an aggregate, and nothing while partitions are small.",
    severities: &[Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[LOW_ROWS, MEDIUM_ROWS, HIGH_ROWS],
    needs: "Responses with rows, and the paging states that link the pages of a read; the table's schema, to \
        know whether the read names a partition.",
    source: "Basic Rules of Cassandra Data Modeling, rule 1: spread data evenly; Cassandra guardrail \
        `partition_size` (5.0)",
    cause: Some(Cause::LARGE_READS),
    quantity: Some(Quantity::ROWS_PER_RESPONSE.limited(&[
        (Severity::High, HIGH_ROWS),
        (Severity::Medium, MEDIUM_ROWS),
        (Severity::Low, LOW_ROWS),
    ])),
    rewrite: Some(|patterns, _| with_limit(patterns.first()?)),
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, read, run, run_with, window};
    use cqlens_cql::schema::Schema;

    fn whole(flags: &[Flag], class: PartitionClass, rows: u64) -> Pattern {
        let mut pattern = read("SELECT at FROM shop.events WHERE sensor = ?", flags, class, 60);
        pattern.rows = Default::default();
        pattern.rows.record_n(rows.min(5_000), 60);
        pattern.paging.rows.record_n(rows, 60);
        pattern.paging.pages.record_n(rows.div_ceil(5_000), 60);
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&UnboundedRead, &amid([pattern]));
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
            title.contains("fetch whole partitions") && title.contains("in 8 pages"),
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
        assert_eq!(run(&UnboundedRead, &month).findings[0].severity, Severity::Info);
    }

    /// How many findings there are of reads of 30,000 rows each by this statement, whose plan has these flags.
    fn findings(cql: &str, flags: &[Flag]) -> usize {
        let schema = Schema::from_cql(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.events (sensor text, at timestamp, value int, PRIMARY KEY ((sensor), at));",
        )
        .unwrap();
        let mut pattern = whole(flags, PartitionClass::Single, 30_000);
        cql.clone_into(&mut pattern.head.cql);
        run_with(&UnboundedRead, &amid([pattern]), &schema).findings.len()
    }

    #[test]
    fn a_range_of_rows_and_a_limit_for_each_partition_bound_a_read() {
        for (rest, expected) in [
            ("", 1),
            (" AND at >= ? AND at < ?", 0),
            (" AND at = ?", 0),
            (" PER PARTITION LIMIT 100", 0),
        ] {
            let cql = format!("SELECT at FROM shop.events WHERE sensor = ?{rest}");
            assert_eq!(findings(&cql, &[]), expected, "{cql}");
        }
    }

    #[test]
    fn the_rule_is_silent_on_what_it_advises_and_says_what_is_not_enough() {
        let (_, before) = ABOUT.before.rsplit_once('\n').unwrap();
        let before = before.trim_end_matches(';');
        assert_eq!(findings(before, &[]), 1);
        assert_eq!(findings(&format!("{before} LIMIT 1000"), &[Flag::Limit]), 0);
        assert!(
            ABOUT
                .fix
                .contains("both ends of a range on the first clustering column")
        );
        assert_eq!(findings(&format!("{before} AND at >= ? AND at < ?"), &[]), 0);
        assert!(ABOUT.fix.contains("open at one end grows"));
        for open in ["at >= ?", "at < ?"] {
            assert_eq!(findings(&format!("{before} AND {open}"), &[]), 1, "{open}");
        }
        assert!(ABOUT.after.ends_with("LIMIT 1000;"), "{}", ABOUT.after);
    }

    #[test]
    fn rows_of_several_partitions_are_not_those_of_one() {
        let mut several = whole(&[], PartitionClass::Multi, 6_000);
        several.partitions.record_n(100, 60);
        assert_eq!(severity(several), None);
    }
}
