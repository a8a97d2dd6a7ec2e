//! Reads that ask for no page size.

use super::{
    About, Findings, MEDIUM_PER_HOUR, Severity, Threshold, how_often, reads_per_hour, table, user_reads,
};
use crate::{
    number,
    rules::{Finding, Rule, figures::share},
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::schema::Schema;

pub(in crate::rules) struct UnpagedRead;

impl Rule for UnpagedRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, _schema: &Schema, found: &mut Findings<'_>) {
        for (id, pattern) in user_reads(window) {
            if let Some(severity) = severity(found, pattern, window) {
                found.push(finding(severity, id, pattern, window));
            }
        }
    }
}

fn severity(found: &Findings<'_>, pattern: &Pattern, window: &Window) -> Option<Severity> {
    let most = pattern.unpaged_rows.max() as f64;
    let reached = |threshold: &Threshold| most >= found.threshold(&ABOUT, threshold);
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
    let title = format!(
        "Reads of {} ask for no pages: up to {} in one answer{}",
        table(pattern),
        number::plural(pattern.unpaged_rows.max(), "row", "rows"),
        how_often(pattern, window)
    );
    Finding::on(&ABOUT, severity, (id, pattern), window)
        .title(title)
        .first("unpaged_rows_max", pattern.unpaged_rows.max())
        .first("unpaged_rows_p99", pattern.unpaged_rows.quantile(0.99))
        .first("unpaged_share", share(pattern.unpaged, pattern.count))
        .first("unpaged", pattern.unpaged)
}

const LOW_ROWS: Threshold = Threshold {
    name: "low_rows",
    unit: "rows in one answer at most",
    default: 1_000.0,
    origin: "own choice: a fifth of a page of the drivers' default; what has grown to it will grow to more",
};

const MEDIUM_ROWS: Threshold = Threshold {
    name: "medium_rows",
    unit: "rows in one answer at most",
    default: 5_000.0,
    origin: "the page size that the drivers ask for unless told otherwise: with it there would be a second page",
};

const HIGH_ROWS: Threshold = Threshold {
    name: "high_rows",
    unit: "rows in one answer at most",
    default: 50_000.0,
    origin: "own choice: ten pages of the drivers' default, held in memory at once",
};

const ABOUT: About = About {
    id: "unpaged-read",
    group: "read shape",
    summary: "A read asks for no page size, and its answer has grown large.",
    why: "\
        Without a page size the coordinator has to collect the whole answer in memory before it sends the \
        first row, and the replicas theirs before they answer the coordinator. It takes one request's timeout \
        for all rows, however many, and one such read can exhaust the heap of a node.",
    fix: "\
        Set a page size on the statement or the session (the drivers' default is 5000; somebody has turned it \
        off), and let the driver fetch page after page. For one row say LIMIT 1.",
    before: "-- with paging turned off in the driver\nSELECT at, value FROM shop.events WHERE sensor = ?;",
    after: "-- with a page size of 1000\nSELECT at, value FROM shop.events WHERE sensor = ?;",
    severity: "\
        By the most rows of one answer without paging: low from `low_rows`, medium from `medium_rows`, high \
        from `high_rows`; one step down below `medium_per_hour` reads an hour. Nothing while answers are \
        small.",
    thresholds: &[LOW_ROWS, MEDIUM_ROWS, HIGH_ROWS, MEDIUM_PER_HOUR],
    needs: "Requests, which say the page size, and the row counts of their answers.",
    source: "\
        native protocol v4 §4.1.4, `result_page_size`; Scylla Monitoring, CQL optimization: non-paged reads; \
        ScyllaDB `max_memory_for_unlimited_query_hard_limit`",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{read, run, window};
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
        let judgement = run(&UnpagedRead, &window([pattern]));
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
        assert_eq!(run(&UnpagedRead, &month).findings[0].severity, Severity::Low);
    }

    #[test]
    fn the_title_says_how_many_rows() {
        let judgement = run(&UnpagedRead, &window([unpaged(6_000)]));
        assert_eq!(
            judgement.findings[0].title,
            "Reads of `shop.events` ask for no pages: up to 6,000 rows in one answer, 1 a minute"
        );
        assert_eq!(judgement.findings[0].evidence[1], ("unpaged_share", 0.5.into()));
    }
}
