//! `IN` on several columns of one composite partition key: the lists multiply.

use super::{
    About, Findings, LOW_PARTITIONS, MEDIUM_PARTITIONS, Threshold, at_p99, blind_on_unknown, by_partitions,
    how_many, how_often, table, user_reads, with_partitions,
};
use crate::{Cause, Context, Finding, Quantity, Rule, Severity, Wish};
use cqlens_cql::plan::Flag;

pub(crate) struct InCartesianProduct;

impl Rule for InCartesianProduct {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (id, pattern) in user_reads(context).filter(|(_, pattern)| pattern.is(Flag::InCartesianProduct)) {
            let Some(impact) = by_partitions(found, (&ABOUT, &HIGH_PARTITIONS), pattern) else {
                continue;
            };
            let severity = context.severity(found, &impact);
            let title = format!(
                "Reads of {} multiply their `IN` lists to {} partitions{}{}",
                table(pattern),
                how_many(pattern, context),
                at_p99(pattern),
                how_often(pattern, context)
            );
            let finding = Finding::on(&ABOUT, severity, (id, pattern), context)
                .title(title)
                .weighing(impact)
                .wish(Wish::OfOneKey(id));
            let mut finding = with_partitions(finding, pattern);
            if let Some(share) = rows_per_partition(pattern.rows.total(), pattern.partitions.total()) {
                finding = finding.first("rows_per_partition", share);
            }
            found.push(finding);
        }
        blind_on_unknown(found, &ABOUT, context);
    }
}

/// Few rows for many partitions mean that most combinations do not exist.
fn rows_per_partition(rows: u64, partitions: u64) -> Option<f64> {
    (partitions > 0).then(|| rows as f64 / partitions as f64)
}

const HIGH_PARTITIONS: Threshold = Threshold {
    name: "high_partitions",
    unit: "partitions at p99",
    default: 25.0,
    origin: "\
        guardrail `in_select_cartesian_product`: off by default in Apache Cassandra (4.1 and later), fails \
        above 25 in DataStax's GuardrailsConfig",
};

const ABOUT: About = About {
    id: "in-cartesian-product",
    group: "read shape",
    summary: "A read has `IN` on several columns of its partition key: the lists multiply.",
    why: "\
        Cassandra reads every combination of the listed values, whether or not such a partition exists: two \
        lists of ten make a hundred reads for one coordinator to send, collect and hold in memory. An absent \
        partition is not free, because its replicas have to look for it.",
    fix: "Read only the combinations that exist, with one prepared read each, a few at a time; or move one \
        column from the partition key to the clustering columns, where `IN` stays inside one partition.",
    fix_in_short: "One read per key",
    before: "CREATE TABLE metrics.samples (sensor int, day date, at timestamp, value double,\n  PRIMARY KEY ((sensor, day), at));\n\
             SELECT * FROM metrics.samples WHERE sensor IN (?, ?, ?) AND day IN (?, ?, ?, ?);",
    after: "CREATE TABLE metrics.samples_by_day (day date, sensor int, at timestamp, value double,\n  PRIMARY KEY ((day), sensor, at));\n\
            SELECT * FROM metrics.samples_by_day WHERE day = ? AND sensor IN (?, ?, ?);",
    severity: "By the distinct keys per read at p99: info from two, low from `low_partitions`, medium from \
        `medium_partitions`, high from `high_partitions`. Info for a statement that was analysed but not \
        executed, if the number depends on bound values.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium, Severity::High],
    thresholds: &[LOW_PARTITIONS, MEDIUM_PARTITIONS, HIGH_PARTITIONS],
    needs: "The table's schema, and the bound values, to count the distinct keys of each execution.",
    source: "\
        Cassandra guardrail `in_select_cartesian_product`; Basic Rules of Cassandra Data Modeling, rule 2",
    cause: Some(Cause::SEVERAL_PARTITIONS_A_READ),
    quantity: Some(Quantity::PARTITIONS_PER_READ.limited(&[
        (Severity::High, HIGH_PARTITIONS),
        (Severity::Medium, MEDIUM_PARTITIONS),
        (Severity::Low, LOW_PARTITIONS),
    ])),
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Severity,
        testing::{amid, read, run, window, with_partitions},
    };
    use cqlens_cql::footprint::PartitionClass;
    use cqlens_window::Pattern;

    fn of(partitions: u64) -> Pattern {
        let flags = [
            Flag::InPartitionKey,
            Flag::InCartesianProduct,
            Flag::FullPartitionKey,
        ];
        let cql = "SELECT * FROM metrics.samples WHERE sensor IN ? AND day IN ?";
        with_partitions(read(cql, &flags, PartitionClass::Multi, 100), partitions)
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&InCartesianProduct, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_size_of_the_product() {
        assert_eq!(severity(of(1)), None);
        assert_eq!(severity(of(2)), Some(Severity::Info));
        assert_eq!(severity(of(5)), Some(Severity::Low));
        assert_eq!(severity(of(10)), Some(Severity::Medium));
        assert_eq!(severity(of(24)), Some(Severity::Medium));
        assert_eq!(severity(of(25)), Some(Severity::High));
    }

    #[test]
    fn few_rows_show_that_most_combinations_do_not_exist() {
        let judgement = run(&InCartesianProduct, &window([of(25)]));
        assert_eq!(
            judgement.findings[0].evidence[0],
            ("rows_per_partition", 0.04.into())
        );
    }

    #[test]
    fn one_list_is_not_its_business_and_one_partition_is_fine() {
        let mut one_list = of(40);
        one_list.flags.remove(&Flag::InCartesianProduct);
        assert_eq!(severity(one_list), None);
        let cql = "SELECT * FROM metrics.samples_by_day WHERE day = ? AND sensor IN ?";
        let flags = [Flag::FullPartitionKey, Flag::InClustering];
        assert_eq!(severity(read(cql, &flags, PartitionClass::Single, 100)), None);
    }

    #[test]
    fn products_that_were_not_counted_are_reported() {
        let mut unknown = of(25);
        unknown.classes = [(PartitionClass::Unknown, 100)].into();
        unknown.partitions = Default::default();
        let judgement = run(&InCartesianProduct, &window([unknown]));
        assert_eq!(judgement.findings, []);
        assert_eq!(judgement.blind_spots.len(), 1);
    }
}
