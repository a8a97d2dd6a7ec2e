//! Reads that ask for no page size.

use super::{About, Findings, Impact, Severity, Threshold, table, user_reads};
use crate::{
    Cause, Context, Finding, Quantity, Rule, Unit,
    example::commented,
    figures::{often, share},
};
use cqlens_cql::plan::Flag;
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct UnpagedRead;

impl Rule for UnpagedRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        // A LIMIT bounds the response as well as a page would.
        for (id, pattern) in user_reads(context).filter(|(_, pattern)| !pattern.is(Flag::Limit)) {
            if let Some(impact) = impact(found, pattern) {
                let severity = context.severity(found, &impact);
                found.push(finding(severity, id, pattern, context).weighing(impact));
            }
        }
    }
}

fn impact<'p>(found: &Findings<'_>, pattern: &'p Pattern) -> Option<Impact<'p>> {
    let p99 = pattern.unpaged_rows.quantile(0.99) as f64;
    let reached = |threshold: &Threshold| p99 >= found.threshold(&ABOUT, threshold);
    let severity = if reached(&HIGH_ROWS) {
        Severity::High
    } else if reached(&MEDIUM_ROWS) {
        Severity::Medium
    } else if reached(&LOW_ROWS) {
        Severity::Low
    } else {
        return None;
    };
    Some(Impact::each(severity).of(pattern).times(pattern.unpaged))
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, context: &Context<'_>) -> Finding {
    let title = format!(
        "Queries on {} disable paging and return {} in one response (p99){}",
        table(pattern),
        number::plural(pattern.unpaged_rows.quantile(0.99), "row", "rows"),
        often(pattern.unpaged, context.watch(pattern))
    );
    Finding::on(&ABOUT, severity, (id, pattern), context)
        .title(title)
        .first("unpaged_rows_max", pattern.unpaged_rows.max())
        .first("unpaged_rows_p99", pattern.unpaged_rows.quantile(0.99))
        .first("unpaged_of_reads_share", share(pattern.unpaged, pattern.count))
        .first("unpaged", pattern.unpaged)
}

const LOW_ROWS: Threshold = Threshold {
    name: "low_rows",
    unit: "rows per response at p99",
    default: 1_000.0,
    origin: "\
        cqlens default: a fifth of the drivers' default page size; a result that has grown to this will grow \
        further",
};

const MEDIUM_ROWS: Threshold = Threshold {
    name: "medium_rows",
    unit: "rows per response at p99",
    default: 5_000.0,
    origin: "the drivers' default page size: with paging, there would be a second page",
};

const HIGH_ROWS: Threshold = Threshold {
    name: "high_rows",
    unit: "rows per response at p99",
    default: 50_000.0,
    origin: "cqlens default: ten pages of the drivers' default size, held in memory at once",
};

const ABOUT: About = About {
    id: "unpaged-read",
    group: "read shape",
    summary: "A read disables paging, and its result has grown large.",
    why: "Without a page size, the coordinator has to collect the whole result in memory before it sends the \
        first row, and so do the replicas before they respond to the coordinator. All rows, however many, \
        have to arrive within one request timeout, and a single such read can exhaust a node's heap.",
    fix: "Set a page size on the statement or the session (drivers default to 5,000 rows; here paging was \
        turned off) and let the driver fetch page after page. For a single row, add LIMIT 1.",
    fix_in_short: "Set a page size",
    before: "-- with paging turned off in the driver\nSELECT at, value FROM shop.events WHERE sensor = ?;",
    after: "-- with a page size of 1000\nSELECT at, value FROM shop.events WHERE sensor = ?;",
    severity: "\
        By the rows per response without paging at p99: low from `low_rows`, medium from `medium_rows`, high \
        from `high_rows`. Nothing while responses are small, and nothing with a LIMIT.",
    severities: &[Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[LOW_ROWS, MEDIUM_ROWS, HIGH_ROWS],
    needs: "The page size of requests, and the row counts of their responses.",
    source: "\
        native protocol v4 §4.1.4, `result_page_size`; Scylla Monitoring, CQL optimization: non-paged reads; \
        ScyllaDB `max_memory_for_unlimited_query_hard_limit`",
    cause: Some(Cause::LARGE_READS),
    quantity: Some(
        Quantity::new("rows per response", Unit::Count, |pattern| &pattern.unpaged_rows).limited(&[
            (Severity::High, HIGH_ROWS),
            (Severity::Medium, MEDIUM_ROWS),
            (Severity::Low, LOW_ROWS),
        ]),
    ),
    rewrite: Some(|patterns, _| {
        commented(
            patterns,
            "without a page size",
            "with a page size of 5000, page by page",
        )
    }),
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, read, run, window};
    use cqlens_cql::footprint::PartitionClass;

    fn unpaged(rows: u64) -> Pattern {
        let cql = "SELECT at, value FROM shop.events WHERE sensor = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, 60);
        pattern.rows.record_n(rows, 30);
        pattern.unpaged = 30;
        pattern.unpaged_rows.record_n(rows, 30);
        pattern
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&UnpagedRead, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_rows_of_one_answer() {
        assert_eq!(severity(unpaged(999)), None);
        assert_eq!(severity(unpaged(1_000)), Some(Severity::Low));
        assert_eq!(severity(unpaged(5_000)), Some(Severity::Medium));
        assert_eq!(severity(unpaged(50_000)), Some(Severity::High));
    }

    #[test]
    fn the_same_rows_in_pages_are_fine() {
        let mut paged = unpaged(50_000);
        paged.unpaged = 0;
        paged.unpaged_rows = Default::default();
        assert_eq!(severity(paged), None);
    }

    #[test]
    fn what_happens_once_in_hours_costs_less() {
        let mut month = window([unpaged(5_000)]);
        month.observed_seconds = 86_400.0 * 30.0;
        assert_eq!(run(&UnpagedRead, &month).findings[0].severity, Severity::Info);
    }

    #[test]
    fn a_limit_bounds_the_response_as_well() {
        let mut limited = unpaged(5_000);
        limited.flags.insert(Flag::Limit);
        assert_eq!(severity(limited), None);
    }

    #[test]
    fn one_large_response_among_many_is_not_what_is_judged() {
        let mut usual = unpaged(10);
        (usual.count, usual.unpaged) = (100_000, 100_000);
        usual.unpaged_rows.record_n(10, 99_970);
        usual.unpaged_rows.record(60_000);
        assert_eq!(severity(usual), None);
    }

    #[test]
    fn the_title_says_how_many_rows_as_the_severity_counts_them() {
        let mut usual = unpaged(6_000);
        usual.unpaged_rows.record_n(6_000, 3_000);
        usual.unpaged_rows.record(60_000);
        let judgement = run(&UnpagedRead, &window([usual]));
        let most = ("unpaged_rows_max", 60_000.into());
        assert!(judgement.findings[0].evidence.contains(&most));
        assert_eq!(
            judgement.findings[0].title,
            "Queries on `shop.events` disable paging and return 6,000 rows in one response (p99), 30 an hour"
        );
        assert_eq!(
            judgement.findings[0].evidence[1],
            ("unpaged_of_reads_share", 0.5.into())
        );
    }
}
