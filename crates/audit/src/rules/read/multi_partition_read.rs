//! Reads of more than one partition that neither list them with `IN`, nor filter, nor go over the ring or a
//! part of it, nor ask an index: whatever else turned out to touch several partitions.

use super::{
    About, Findings, LOW_PARTITIONS, MEDIUM_PARTITIONS, MEDIUM_PER_HOUR, Threshold, at_p99, blind_on_unknown,
    by_partitions, filters, how_many, how_often, table, user_reads, with_partitions,
};
use crate::{
    rules::{Finding, Rule},
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::Schema};

pub(in crate::rules) struct MultiPartitionRead;

impl Rule for MultiPartitionRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, _schema: &Schema, found: &mut Findings<'_>) {
        for (id, pattern) in user_reads(window).filter(|(_, pattern)| is_else(pattern)) {
            if let Some(finding) = finding(found, id, pattern, window) {
                found.push(finding);
            }
        }
        blind_on_unknown(found, &ABOUT, window);
    }
}

/// Reads that no other rule on the number of partitions judges.
fn is_else(pattern: &Pattern) -> bool {
    let goes_over_the_ring = matches!(
        pattern.class(),
        PartitionClass::Index | PartitionClass::TokenRange | PartitionClass::Scan
    );
    !goes_over_the_ring
        && !filters(pattern)
        && !pattern.is(Flag::InPartitionKey)
        && !pattern.is(Flag::InCartesianProduct)
}

fn finding(found: &Findings<'_>, id: PatternId, pattern: &Pattern, window: &Window) -> Option<Finding> {
    let severity = by_partitions(found, (&ABOUT, &HIGH_PARTITIONS), pattern, window)?;
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

const ABOUT: About = About {
    id: "multi-partition-read",
    group: "read shape",
    summary: "\
        A read touches several partitions without listing them with `IN`.",
    why: "\
        Each partition lives on its own replicas. The coordinator asks them separately and waits for the \
        slowest, so the latency varies more and every node works for every read. Even on one node, several \
        partitions cost more than one: each is looked up in every file that may hold it.",
    fix: "Give the query a table of its own, in which all rows of one answer share a partition key.",
    before: "CREATE TABLE shop.users (country text, id uuid, name text, PRIMARY KEY ((country, id)));\n\
             SELECT * FROM shop.users WHERE token(country, id) > ? AND country = ? AND id IN ?;",
    after: "CREATE TABLE shop.users_by_country (country text, id uuid, name text, PRIMARY KEY ((country), id));\n\
            SELECT * FROM shop.users_by_country WHERE country = ? AND id IN ?;",
    severity: "\
        By the partitions of one read at p99: low from `low_partitions`, medium from `medium_partitions`, \
        high from `high_partitions`, one step down below `medium_per_hour` reads an hour.",
    thresholds: &[
        LOW_PARTITIONS,
        MEDIUM_PARTITIONS,
        HIGH_PARTITIONS,
        MEDIUM_PER_HOUR,
    ],
    needs: "The table's schema.",
    source: "Basic Rules of Cassandra Data Modeling, rule 2: minimize the number of partitions read",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::{
        Severity,
        testing::{read, run, window, with_partitions},
    };

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&MultiPartitionRead, &window([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    fn by_email(times: u64) -> Pattern {
        let cql = "SELECT * FROM shop.users WHERE email = ?";
        read(cql, &[Flag::Index], PartitionClass::Index, times)
    }

    #[test]
    fn reads_over_the_ring_or_through_an_index_have_rules_of_their_own() {
        assert_eq!(severity(by_email(60)), None);
        let cql = "SELECT * FROM shop.users WHERE token(id) > ?";
        let range = read(cql, &[Flag::OnToken], PartitionClass::TokenRange, 60);
        assert_eq!(severity(with_partitions(range, 30)), None);
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
