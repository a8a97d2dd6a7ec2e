//! Reads in pages that are too small.

use super::{About, Findings, Severity, Threshold, figures::often, reads, table, user_reads};
use crate::{Context, Finding, Quantity, Rule, severity::Impact};
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct SmallPages;

impl Rule for SmallPages {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        // Pages that the server ended early say nothing of their size.
        let complete = |pattern: &Pattern| pattern.pages > 0 && pattern.tombstones.short_pages == 0;
        for (id, pattern) in user_reads(context).filter(|(_, pattern)| complete(pattern)) {
            let pages = pattern.count as f64 / reads(pattern).max(1) as f64;
            let is_long = pages >= found.threshold(&ABOUT, &MANY_PAGES);
            if is_long && pattern.rows.mean() < found.threshold(&ABOUT, &FEW_ROWS) {
                let severity = context.severity(
                    found,
                    &Impact::each(Severity::Low).of(pattern).at_most(Severity::Medium),
                );
                found.push(finding(severity, pages, (id, pattern), context));
            }
        }
    }
}

fn finding(
    severity: Severity,
    pages: f64,
    (id, pattern): (PatternId, &Pattern),
    context: &Context<'_>,
) -> Finding {
    let rows = pattern.rows.mean();
    let title = format!(
        "A read of {} takes {} pages of {} rows each{}",
        table(pattern),
        number::decimal(pages),
        number::decimal(rows),
        often(reads(pattern), context.watch(pattern))
    );
    Finding::on(&ABOUT, severity, (id, pattern), context)
        .title(title)
        .first("rows_per_page", rows)
        .first("pages_per_read", pages)
}

const FEW_ROWS: Threshold = Threshold {
    name: "few_rows",
    unit: "rows per page",
    default: 100.0,
    origin: "native protocol specification §8: a page size below 100 rows is too low for most queries",
};

const MANY_PAGES: Threshold = Threshold {
    name: "many_pages",
    unit: "pages per read",
    default: 5.0,
    origin: "cqlens default: a program that shows the first pages of a list stops earlier",
};

const ABOUT: About = About {
    id: "small-pages",
    group: "read shape",
    summary: "A read fetches many small pages.",
    why: "\
        Each page is a separate request: a round trip from the client, a request from the coordinator to the \
        replicas, and the partition opened again where the last page ended. With ten rows per page, a read \
        of a thousand rows waits a hundred times.",
    fix: "Leave the page size at the driver's default (5,000 rows), or choose it so that a page is about a \
        megabyte. To show a list page by page, store the paging state between requests.",
    fix_in_short: "Larger pages",
    before: "-- page size 10\nSELECT id, total FROM shop.orders_by_customer WHERE customer = ?;",
    after: "-- page size 5000\nSELECT id, total FROM shop.orders_by_customer WHERE customer = ?;",
    severity: "Low from `many_pages` with fewer than `few_rows`; medium at most.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[FEW_ROWS, MANY_PAGES],
    needs: "Responses: their row counts, and which of them continue a read.",
    source: "Native protocol specification v4 §8, result paging; Cassandra guardrail `page_size` (4.1)",
    cause: None,
    quantity: Some(Quantity::ROWS_PER_RESPONSE),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, read, run};
    use cqlens_cql::footprint::PartitionClass;
    use cqlens_window::Distribution;

    /// 60 reads.
    fn paged(pages: u64, rows: u64) -> Vec<String> {
        let cql = "SELECT id FROM shop.orders_by_customer WHERE customer = ?";
        let mut pattern = read(cql, &[], PartitionClass::Single, 60 * pages);
        pattern.logical_reads = 60;
        pattern.pages = 60 * (pages - 1);
        pattern.rows = Distribution::default();
        pattern.rows.record_n(rows, 60 * pages);
        let findings = run(&SmallPages, &amid([pattern])).findings.into_iter();
        findings.map(|finding| finding.title).collect()
    }

    #[test]
    fn many_small_pages_are_found() {
        assert_eq!(
            paged(40, 10),
            ["A read of `shop.orders_by_customer` takes 40 pages of 10 rows each, 1 a second"]
        );
    }

    #[test]
    fn large_pages_and_few_of_them_are_fine() {
        assert_eq!(paged(40, 5_000), Vec::<String>::new());
        assert_eq!(paged(2, 10), Vec::<String>::new());
        assert_eq!(paged(1, 10), Vec::<String>::new());
    }
}
