//! `COUNT`, `SUM` and the like over the whole ring.

use super::{
    About, Findings, Impact, Severity, blind_on_unknown, filters, how_often, is_sweep, of_a_scan, table,
    user_reads,
};
use crate::{Cause, Context, Finding, Rule, Wish};
use cqlens_cql::{footprint::PartitionClass, plan::Flag};
use cqlens_window::{Pattern, PatternId};

pub(crate) struct AggregateWithoutPartitionKey;

impl Rule for AggregateWithoutPartitionKey {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (id, pattern) in user_reads(context).filter(|(_, pattern)| folds_the_ring(pattern)) {
            let severity = context.severity(found, &Impact::each(of_a_scan(context)).of(pattern));
            found.push(finding(severity, id, pattern, context));
        }
        blind_on_unknown(found, &ABOUT, context);
    }
}

/// Folds what a scan brings. Where rows are filtered or an index is asked, that is what is said of it.
pub(super) fn folds_the_ring(pattern: &Pattern) -> bool {
    pattern.is(Flag::Aggregate)
        && pattern.class() == PartitionClass::Scan
        && !filters(pattern)
        && !is_sweep(pattern)
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, context: &Context<'_>) -> Finding {
    let title = format!(
        "Aggregates over {} read the whole ring{}",
        table(pattern),
        how_often(pattern, context)
    );
    let finding = Finding::on(&ABOUT, severity, (id, pattern), context);
    let finding = if context.is_scylladb() {
        finding.advice(format!("{IN_PARALLEL} {}", ABOUT.fix))
    } else {
        finding
    };
    finding
        .title(title)
        .wish(Wish::InRanges(id))
        .first("server_warnings", pattern.warnings)
}

/// What ScyllaDB does instead (from 5.1, `enable_parallelized_aggregation`).
const IN_PARALLEL: &str = "\
    ScyllaDB nodes count and add up in parallel and one of them collects the results: the response comes \
    sooner, but every row of the table is still read.";

const ABOUT: About = About {
    id: "aggregate-without-partition-key",
    group: "read shape",
    summary: "An aggregate has no partition key: to return one row, Cassandra reads the whole table.",
    why: "\
        The coordinator computes aggregates. Replicas send it every row of the table, range after range, and \
        it folds them one by one: the response is small, the work is that of a full scan, and all of it has \
        to finish within one request timeout. As the table grows, the aggregate times out eventually. \
        ScyllaDB computes many aggregates on its nodes in parallel, which is faster but reads just as much.",
    fix: "Aggregate within one partition; maintain the number in a counter or in a row that is updated with \
        the data; or let a job read token ranges and add up the results.",
    fix_in_short: "Count while writing",
    before: "CREATE TABLE shop.orders (id uuid PRIMARY KEY, placed date, amount decimal);\nSELECT COUNT(*) FROM shop.orders;",
    after: "CREATE TABLE shop.orders_by_day (placed date, id uuid, amount decimal, PRIMARY KEY ((placed), id));\n\
            SELECT COUNT(*) FROM shop.orders_by_day WHERE placed = ?;",
    severity: "\
        High: the cost of each execution grows with the table. Medium for a statement that was analysed but \
        not executed, because the table's size is unknown.",
    severities: &[Severity::Medium, Severity::High],
    thresholds: &[],
    needs: "The table's schema, to know its partition key and which functions are aggregates.",
    source: "Cassandra's own warning `Aggregation query used without partition key` (2.2 and later, class \
        `SelectStatement`)",
    cause: Some(Cause::NO_TABLE_FOR_THE_QUERY),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, read, run, run_in, window};
    use cqlens_cql::{Product, schema::Schema};
    use cqlens_window::Cluster;

    fn count(flags: &[Flag], class: PartitionClass, times: u64) -> Pattern {
        let mut all = vec![Flag::Aggregate];
        all.extend(flags);
        read("SELECT COUNT(*) FROM shop.orders", &all, class, times)
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&AggregateWithoutPartitionKey, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn each_of_them_grows_with_the_table() {
        let scan = || count(&[], PartitionClass::Scan, 100);
        assert_eq!(severity(scan()), Some(Severity::High));
        let mut day = window([count(&[], PartitionClass::Scan, 10)]);
        day.observed_seconds = 86_400.0;
        let judgement = run(&AggregateWithoutPartitionKey, &day);
        assert_eq!(judgement.findings[0].severity, Severity::Low);
        assert_eq!(
            judgement.findings[0].title,
            "Aggregates over `shop.orders` read the whole ring, 10 a day"
        );
        day.observed_seconds = 0.0;
        let judgement = run(&AggregateWithoutPartitionKey, &day);
        assert_eq!(judgement.findings[0].severity, Severity::Medium, "only read");
    }

    #[test]
    fn nodes_that_add_up_in_parallel_read_every_row_all_the_same() {
        let of = |product| {
            let window = amid([count(&[], PartitionClass::Scan, 100)]);
            let (schema, cluster) = (
                Schema::default(),
                Cluster {
                    product: Some(product),
                    ..Cluster::default()
                },
            );
            let context = Context::new(&window, &schema, &cluster);
            let finding = run_in(&AggregateWithoutPartitionKey, &context).findings.remove(0);
            (finding.severity, finding.advice.contains("in parallel"))
        };
        assert_eq!(of(Product::ScyllaDb), (Severity::High, true));
        assert_eq!(of(Product::Cassandra), (Severity::High, false));
    }

    #[test]
    fn inside_a_partition_and_by_token_range_it_is_fine() {
        let inside = count(&[Flag::FullPartitionKey], PartitionClass::Single, 1_000_000);
        assert_eq!(severity(inside), None);
        assert_eq!(
            severity(count(&[Flag::OnToken], PartitionClass::TokenRange, 60)),
            None
        );
    }

    #[test]
    fn what_filters_is_judged_there() {
        let filtering = [Flag::AllowFiltering, Flag::FilteringNeeded];
        assert_eq!(severity(count(&filtering, PartitionClass::Scan, 60)), None);
    }
}
