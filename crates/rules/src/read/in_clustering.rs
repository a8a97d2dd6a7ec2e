//! `IN` on clustering columns, with long lists.

use super::{About, Findings, Impact, Severity, Threshold, how_often, table, user_reads};
use crate::{Cause, Context, Finding, Quantity, Rule, Unit};
use cqlens_window::{Pattern, number};

pub(crate) struct InClustering;

impl Rule for InClustering {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let lists = |pattern: &Pattern| !pattern.listed_rows.is_empty();
        for (id, pattern) in user_reads(context).filter(|(_, pattern)| lists(pattern)) {
            let p99 = pattern.listed_rows.quantile(0.99);
            let reaches = |threshold: &Threshold| p99 as f64 >= found.threshold(&ABOUT, threshold);
            let each = match (reaches(&MANY), reaches(&SOME)) {
                (true, _) => Severity::Medium,
                (false, true) => Severity::Low,
                (false, false) => continue,
            };
            let impact = Impact::each(each).of(pattern);
            let severity = context.severity(found, &impact);
            let title = format!(
                "Reads of {} list {} of clustering columns with `IN` (p99){}",
                table(pattern),
                number::plural(p99, "value", "values"),
                how_often(pattern, context)
            );
            let finding = Finding::on(&ABOUT, severity, (id, pattern), context)
                .title(title)
                .weighing(impact)
                .first("listed_max", pattern.listed_rows.max())
                .first("listed_p99", p99)
                .first("listed_p50", pattern.listed_rows.quantile(0.5));
            found.push(finding);
        }
    }
}

const SOME: Threshold = Threshold {
    name: "some_values",
    unit: "values at p99",
    default: 25.0,
    origin: "guardrail `in_select_cartesian_product`: off by default in Apache Cassandra, fails above 25 in DataStax's GuardrailsConfig",
};

const MANY: Threshold = Threshold {
    name: "many_values",
    unit: "values at p99",
    default: 100.0,
    origin: "ScyllaDB's `max_clustering_key_restrictions_per_query`: 100",
};

const ABOUT: About = About {
    id: "in-clustering",
    group: "read shape",
    summary: "A read lists many values of clustering columns with `IN`.",
    why: "\
        Within one partition, a short list is fine: replicas look up each row. For a long list they look up \
        each row in every SSTable of the partition, and lists on several columns multiply, whether or not \
        such rows exist.",
    fix: "If the values lie close together, read a range and drop the unwanted rows in the client; otherwise \
        split the list into statements of about twenty values. If such lists are common, add a clustering \
        column that groups the selected rows.",
    fix_in_short: "Read a range",
    before: "SELECT total FROM shop.orders WHERE customer = ? AND at IN ?;",
    after: "SELECT at, total FROM shop.orders WHERE customer = ? AND at >= ? AND at <= ?;",
    severity: "Low from `some_values`, medium from `many_values`; lists on several columns are multiplied.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[SOME, MANY],
    needs: "The schema and the bound values.",
    source: "Cassandra guardrail `in_select_cartesian_product` (4.1)",
    cause: Some(Cause::SEVERAL_PARTITIONS_A_READ),
    quantity: Some(Quantity::new("rows listed per read", Unit::Count, |pattern| {
        &pattern.listed_rows
    })),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, read, run};
    use cqlens_cql::{footprint::PartitionClass, plan::Flag};

    fn listing(values: u64) -> Vec<(Severity, String)> {
        let cql = "SELECT total FROM shop.orders WHERE customer = ? AND at IN ?";
        let mut pattern = read(cql, &[Flag::InClustering], PartitionClass::Single, 60);
        pattern.listed_rows.record_n(values, 60);
        let findings = run(&InClustering, &amid([pattern])).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    #[test]
    fn severity_follows_the_length_of_the_list() {
        assert_eq!(listing(24), []);
        let low = listing(25);
        assert_eq!(low[0].0, Severity::Low);
        assert_eq!(
            low[0].1,
            "Reads of `shop.orders` list 25 values of clustering columns with `IN` (p99), 1 a second"
        );
        assert_eq!(listing(100)[0].0, Severity::Medium);
    }
}
