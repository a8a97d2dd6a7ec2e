//! Reads of more than one partition that neither list them with `IN`, nor filter, nor scan the whole ring.
//!
//! That is: reads through an index without the partition key, reads of a token range, and whatever else turned out to
//! touch several partitions.

use super::{
    About, Findings, LOW_PARTITIONS, MEDIUM_PARTITIONS, MEDIUM_PER_HOUR, Severity, Threshold, at_p99,
    blind_on_unknown, by_partitions, filters, how_many, how_often, reads_per_hour, table, user_reads,
    with_partitions, with_table,
};
use crate::{
    catalog::Schema,
    rules::{Finding, Rule},
    window::{Flag, PartitionClass, Pattern, PatternId, Window},
};

pub(in crate::rules) struct MultiPartitionRead;

impl Rule for MultiPartitionRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, schema: &Schema, found: &mut Findings<'_>) {
        for (id, pattern) in user_reads(window).filter(|(_, pattern)| is_else(pattern)) {
            let finding = match pattern.class() {
                PartitionClass::Index => {
                    Some(with_table(by_index(found, id, pattern, window), pattern, schema))
                }
                PartitionClass::TokenRange => Some(by_token(id, pattern, window)),
                PartitionClass::Scan => None,
                _ => by_number(found, id, pattern, window),
            };
            finding.into_iter().for_each(|finding| found.push(finding));
        }
        blind_on_unknown(found, &ABOUT, window);
    }
}

/// Reads that no other rule on the number of partitions judges.
fn is_else(pattern: &Pattern) -> bool {
    !filters(pattern) && !pattern.is(Flag::InPartitionKey) && !pattern.is(Flag::InCartesianProduct)
}

fn by_index(found: &Findings<'_>, id: PatternId, pattern: &Pattern, window: &Window) -> Finding {
    let steady = reads_per_hour(pattern, window) >= found.threshold(&ABOUT, INDEX_PER_HOUR.name);
    let severity = if steady { Severity::Medium } else { Severity::Low };
    let title = format!(
        "Reads of {} ask an index on all nodes instead of one partition{}",
        table(pattern),
        how_often(pattern, window)
    );
    Finding::on(&ABOUT, severity, (id, pattern), window)
        .title(title)
        .advice(
            "An index is local to its node, so without the partition key the coordinator asks node after node until it has \
             enough rows. Give the partition key as well, or keep a table whose partition key is the indexed column.",
        )
}

fn by_token(id: PatternId, pattern: &Pattern, window: &Window) -> Finding {
    let title = format!(
        "Reads of {} walk token ranges{}: analytics or an export",
        table(pattern),
        how_often(pattern, window)
    );
    Finding::on(&ABOUT, Severity::Info, (id, pattern), window)
        .title(title)
        .advice("The right way to read a whole table. Keep it off the hours and the data centre that serve users.")
}

fn by_number(found: &Findings<'_>, id: PatternId, pattern: &Pattern, window: &Window) -> Option<Finding> {
    let severity = by_partitions(found, &ABOUT, pattern, window)?;
    let title = format!(
        "Reads of {} touch {} partitions{}{}",
        table(pattern),
        how_many(pattern),
        at_p99(pattern),
        how_often(pattern, window)
    );
    let finding = Finding::on(&ABOUT, severity, (id, pattern), window).title(title);
    Some(with_partitions(finding, pattern))
}

const HIGH_PARTITIONS: Threshold = Threshold {
    name: "high_partitions",
    unit: "partitions at p99",
    default: 20.0,
    origin: "\
        as for `IN`: guardrail `partition_keys_in_select` fails above 20 in DataStax's GuardrailsConfig, is \
        off in Apache Cassandra",
};

const INDEX_PER_HOUR: Threshold = Threshold {
    name: "index_per_hour",
    unit: "reads an hour",
    default: 60.0,
    origin: "own choice: one a minute is part of the load, not an occasion",
};

const ABOUT: About = About {
    id: "multi-partition-read",
    group: "read shape",
    summary: "\
        A read touches several partitions without listing them: through an index, by token range or \
        otherwise.",
    why: "\
        Each partition lives on its own replicas. The coordinator asks them separately and waits for the \
        slowest, so the latency varies more and every node works for every read. Even on one node, several \
        partitions cost more than one: each is looked up in every file that may hold it.",
    fix: "Give the query a table of its own, in which all rows of one answer share a partition key.",
    before: "CREATE INDEX ON shop.users (email);\nSELECT * FROM shop.users WHERE email = ?;",
    after: "CREATE TABLE shop.users_by_email (email text PRIMARY KEY, id uuid, name text);\n\
            SELECT * FROM shop.users_by_email WHERE email = ?;",
    severity: "\
        Through an index without the partition key: medium from `index_per_hour` reads an hour, low below. \
        By token range: info. Otherwise by the partitions of one read at p99: low from `low_partitions`, \
        medium from `medium_partitions`, high from `high_partitions`, one step down below `medium_per_hour` \
        reads an hour.",
    thresholds: &[
        LOW_PARTITIONS,
        MEDIUM_PARTITIONS,
        HIGH_PARTITIONS,
        MEDIUM_PER_HOUR,
        INDEX_PER_HOUR,
    ],
    needs: "The table's schema with its indexes.",
    source: "\
        Basic Rules of Cassandra Data Modeling, rule 2: minimize the number of partitions read; Cassandra \
        guardrail `non_partition_restricted_index_query_enabled` (5.0)",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::{read, run, window, with_partitions};

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&MultiPartitionRead, &window([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    fn by_email(times: u64) -> Pattern {
        let cql = "SELECT * FROM shop.users WHERE email = ?";
        read(cql, &[Flag::Index], PartitionClass::Index, times)
    }

    #[test]
    fn a_steady_index_read_without_its_partition_is_medium() {
        assert_eq!(severity(by_email(60)), Some(Severity::Medium));
        assert_eq!(severity(by_email(59)), Some(Severity::Low));
    }

    #[test]
    fn the_lookup_table_is_fine_and_so_is_an_index_inside_one_partition() {
        let cql = "SELECT * FROM shop.users_by_email WHERE email = ?";
        let repaired = read(cql, &[Flag::FullPartitionKey], PartitionClass::Single, 60);
        assert_eq!(severity(repaired), None);
        let inside = [Flag::Index, Flag::FullPartitionKey];
        assert_eq!(severity(read(cql, &inside, PartitionClass::Single, 60)), None);
    }

    #[test]
    fn token_ranges_are_only_worth_knowing() {
        let cql = "SELECT * FROM shop.users WHERE token(id) > ?";
        let range = read(cql, &[Flag::OnToken], PartitionClass::TokenRange, 1_000_000);
        assert_eq!(severity(range), Some(Severity::Info));
    }

    #[test]
    fn other_reads_are_judged_by_their_partitions() {
        let of = |partitions| {
            let cql = "SELECT * FROM shop.users WHERE id = ?";
            with_partitions(read(cql, &[], PartitionClass::Multi, 100), partitions)
        };
        assert_eq!(severity(of(1)), None);
        assert_eq!(severity(of(2)), Some(Severity::Low));
        assert_eq!(severity(of(10)), Some(Severity::Medium));
        assert_eq!(severity(of(20)), Some(Severity::High));
    }

    #[test]
    fn what_other_rules_judge_is_left_to_them() {
        let mut listed = with_partitions(by_email(60), 30);
        listed.flags = [Flag::InPartitionKey].into();
        assert_eq!(severity(listed), None);
        let mut filtered = by_email(60);
        filtered
            .flags
            .extend([Flag::AllowFiltering, Flag::FilteringNeeded]);
        assert_eq!(severity(filtered), None);
        assert_eq!(
            severity(read("SELECT * FROM shop.users", &[], PartitionClass::Scan, 60)),
            None
        );
    }

    #[test]
    fn reads_of_unknown_tables_are_reported_as_not_seen() {
        let mut unknown = by_email(60);
        unknown.classes = [(PartitionClass::Unknown, 60)].into();
        let judgement = run(&MultiPartitionRead, &window([unknown]));
        assert_eq!(judgement.findings, []);
        assert_eq!(judgement.blind_spots.len(), 1);
    }
}
