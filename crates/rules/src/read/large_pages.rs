//! Reads that ask for more rows a page than a page should have.

use super::{About, Findings, Impact, Severity, Threshold, how_often, table, user_reads};
use crate::{Cause, Context, Finding, Quantity, Rule};
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct LargePages;

impl Rule for LargePages {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (id, pattern) in user_reads(context) {
            let Some((_, page)) = pattern.page_sizes else {
                continue;
            };
            let rows = pattern.rows.quantile(0.99);
            let reaches =
                |rows: u64, threshold: &Threshold| rows as f64 >= found.threshold(&ABOUT, threshold);
            if reaches(page, &PAGE) && reaches(rows, &ROWS) {
                let impact = Impact::each(Severity::Low).of(pattern).at_most(Severity::Medium);
                let severity = context.severity(found, &impact);
                found.push(finding(severity, (page, rows), (id, pattern), context).weighing(impact));
            }
        }
    }
}

fn finding(
    severity: Severity,
    (page, rows): (u64, u64),
    (id, pattern): (PatternId, &Pattern),
    context: &Context<'_>,
) -> Finding {
    let title = format!(
        "Reads of {} request pages of {} rows and get {} (p99){}",
        table(pattern),
        number::count(page),
        number::count(rows),
        how_often(pattern, context)
    );
    Finding::on(&ABOUT, severity, (id, pattern), context)
        .title(title)
        .first("rows_per_answer_p99", rows)
        .first("page_size", page)
}

const PAGE: Threshold = Threshold {
    name: "page_size",
    unit: "rows",
    default: 10_000.0,
    origin: "twice the default of the Java and Python drivers, 5,000 rows",
};

const ROWS: Threshold = Threshold {
    name: "rows",
    unit: "rows per response at p99",
    default: 5_000.0,
    origin: "the default page size of the Java and Python drivers: with fewer rows, the page size makes no \
        difference",
};

const ABOUT: About = About {
    id: "large-pages",
    group: "read shape",
    summary: "A read requests pages of tens of thousands of rows, and gets them.",
    why: "The coordinator collects a whole page of rows in memory before it sends the first one, as do \
        replicas, and one timeout covers the whole page. Very large pages defeat the purpose of paging: they \
        fill the heap, and a client that needs the first rows waits for the last ones.",
    fix: "Reset the page size to the driver's default (5,000 rows), or choose one that yields about a \
        megabyte. Drivers can fetch the next page while the application processes the current one.",
    fix_in_short: "Smaller pages",
    before: "-- page size 100000\nSELECT id, total FROM shop.orders_by_customer WHERE customer = ?;",
    after: "-- page size 5000\nSELECT id, total FROM shop.orders_by_customer WHERE customer = ?;",
    severity: "Low if pages of `page_size` or more are requested and responses have `rows`; medium at most.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[PAGE, ROWS],
    needs: "Requests and the row counts of their responses.",
    source: "Cassandra guardrail `page_size_warn_threshold` (4.1), off by default; native protocol specification §8",
    cause: Some(Cause::LARGE_READS),
    quantity: Some(Quantity::ROWS_PER_RESPONSE),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, read, run};
    use cqlens_cql::footprint::PartitionClass;

    fn found(page: u64, rows: u64) -> Vec<(Severity, String)> {
        let cql = "SELECT total FROM shop.orders WHERE customer = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, 60);
        pattern.rows = cqlens_window::Distribution::default();
        pattern.rows.record_n(rows, 60);
        pattern.see_page_size(page);
        let findings = run(&LargePages, &amid([pattern])).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    #[test]
    fn pages_are_large_where_they_are_asked_for_and_filled() {
        assert_eq!(found(5_000, 5_000), []);
        assert_eq!(found(100_000, 20), []);
        let large = found(50_000, 50_000);
        assert_eq!(large[0].0, Severity::Low);
        assert!(
            large[0]
                .1
                .starts_with("Reads of `shop.orders` request pages of 50,000 rows and get "),
            "{large:?}"
        );
    }
}
