//! Reads through a secondary index without the partition key: each node answers for its own rows only.
//!
//! With the partition key an index is asked on that partition's replicas alone, and nothing is said. What an
//! index finds and `ALLOW FILTERING` then sifts is judged there.

use super::{
    About, Findings, SLOW_MS, Severity, Threshold, blind_on_unknown, filters, how_often, reads_per_hour,
    table, user_reads, with_table,
};
use crate::{
    rules::{
        Finding, Rule,
        figures::{OFTEN_PER_SECOND, definition},
    },
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::{
    footprint::PartitionClass,
    plan::Flag,
    schema::{Index, IndexClass, Schema},
};

pub(in crate::rules) struct SecondaryIndexRead;

impl Rule for SecondaryIndexRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, schema: &Schema, found: &mut Findings<'_>) {
        let asks_all = |pattern: &Pattern| pattern.class() == PartitionClass::Index && !filters(pattern);
        for (id, pattern) in user_reads(window).filter(|(_, pattern)| asks_all(pattern)) {
            let finding = finding(severity(found, pattern, window), id, pattern, window);
            found.push(with_indexes(
                with_table(finding, pattern, schema),
                pattern,
                schema,
            ));
        }
        blind_on_unknown(found, &ABOUT, window);
    }
}

fn severity(found: &Findings<'_>, pattern: &Pattern, window: &Window) -> Severity {
    let per_hour = reads_per_hour(pattern, window);
    let severity = if per_hour >= found.threshold(&ABOUT, &OFTEN_PER_SECOND) * 3_600.0 {
        Severity::High
    } else if per_hour >= found.threshold(&ABOUT, &INDEX_PER_HOUR) {
        Severity::Medium
    } else {
        Severity::Low
    };
    let p99_ms = pattern.latency_us.quantile(0.99) as f64 / 1e3;
    if p99_ms >= found.threshold(&ABOUT, &SLOW_MS) {
        severity.raised()
    } else {
        severity
    }
}

fn finding(severity: Severity, id: PatternId, pattern: &Pattern, window: &Window) -> Finding {
    let ordered = if pattern.is(Flag::Limit) {
        "ask an index on one node after the other"
    } else {
        "ask an index on all nodes"
    };
    let title = format!(
        "Reads of {} {ordered} instead of one partition{}",
        table(pattern),
        how_often(pattern, window)
    );
    Finding::on(&ABOUT, severity, (id, pattern), window).title(title)
}

/// The finding with the table's indexes and their kinds, where the schema is known.
fn with_indexes(finding: Finding, pattern: &Pattern, schema: &Schema) -> Finding {
    let Some(table) = definition(pattern, schema).filter(|table| !table.indexes.is_empty()) else {
        return finding;
    };
    let names: Vec<_> = table.indexes.values().map(described).collect();
    finding.first("indexes_of_the_table", names.join(", "))
}

fn described(index: &Index) -> String {
    let kind = match &index.class {
        IndexClass::Legacy => "legacy",
        IndexClass::Sai => "storage-attached",
        IndexClass::Sasi => "SASI",
        IndexClass::Custom(name) => name,
    };
    let columns: Vec<_> = index
        .targets
        .iter()
        .map(|target| target.column.as_str())
        .collect();
    format!("{} on {} ({kind})", index.name, columns.join(" and "))
}

const INDEX_PER_HOUR: Threshold = Threshold {
    name: "index_per_hour",
    unit: "reads an hour",
    default: 60.0,
    origin: "own choice: one a minute is part of the load, not an occasion",
};

const ABOUT: About = About {
    id: "secondary-index-read",
    group: "read shape",
    summary: "A read asks a secondary index without naming a partition: every node has to look.",
    why: "\
        A secondary index, storage-attached ones included, knows the rows of its own node only. Without the \
        partition key the coordinator therefore asks the replicas of range after range, first a few and then \
        more at a time, until it has rows enough or has been everywhere. The work of one read grows with the \
        number of nodes, so adding nodes makes it dearer, and one slow node makes all of these reads slow.",
    fix: "\
        Give the partition key as well: then the index is asked on the partition's replicas alone. Or keep a \
        table whose partition key is the indexed column.",
    before: "CREATE INDEX ON shop.users (email);\nSELECT * FROM shop.users WHERE email = ?;",
    after: "CREATE TABLE shop.users_by_email (email text PRIMARY KEY, id uuid, name text);\n\
            SELECT * FROM shop.users_by_email WHERE email = ?;",
    severity: "\
        High from `often_per_second` reads a second, medium from `index_per_hour` reads an hour, low below; \
        one step up where the p99 latency reaches `slow_ms`. Nothing where the partition key is given.",
    thresholds: &[OFTEN_PER_SECOND, INDEX_PER_HOUR, SLOW_MS],
    needs: "The table's schema with its indexes.",
    source: "\
        Cassandra guardrail `non_partition_restricted_index_query_enabled` (5.0); Cassandra documentation, \
        secondary indexes: when not to use an index",
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rules::testing::{read, run, run_with, window};

    const BAD: &str = "SELECT * FROM shop.users WHERE email = ?";

    fn by_email(times: u64) -> Pattern {
        read(BAD, &[Flag::Index], PartitionClass::Index, times)
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&SecondaryIndexRead, &window([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_rate_and_the_latency() {
        assert_eq!(severity(by_email(59)), Some(Severity::Low));
        assert_eq!(severity(by_email(60)), Some(Severity::Medium));
        assert_eq!(severity(by_email(360_000)), Some(Severity::High));
        let mut slow = by_email(60);
        slow.latency_us.record_n(500_000, 60);
        assert_eq!(severity(slow), Some(Severity::High));
    }

    #[test]
    fn inside_one_partition_an_index_is_fine_and_so_is_a_table_for_the_query() {
        let inside = [Flag::Index, Flag::FullPartitionKey];
        let cql = "SELECT * FROM shop.users WHERE country = ? AND email = ?";
        assert_eq!(
            severity(read(cql, &inside, PartitionClass::Single, 1_000_000)),
            None
        );
        let cql = "SELECT * FROM shop.users_by_email WHERE email = ?";
        let repaired = read(cql, &[Flag::FullPartitionKey], PartitionClass::Single, 1_000_000);
        assert_eq!(severity(repaired), None);
    }

    #[test]
    fn what_filters_is_judged_elsewhere() {
        let mut filtered = by_email(60);
        filtered
            .flags
            .extend([Flag::AllowFiltering, Flag::FilteringNeeded]);
        assert_eq!(severity(filtered), None);
    }

    #[test]
    fn with_a_schema_it_names_the_indexes_and_writes_the_table_that_is_missing() {
        let shop =
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.users (id uuid PRIMARY KEY, email text, name text);
             CREATE INDEX by_email ON shop.users (email) USING 'sai';";
        let schema = Schema::from_cql(shop).unwrap();
        let judgement = run_with(&SecondaryIndexRead, &window([by_email(60)]), &schema);
        let finding = &judgement.findings[0];
        assert_eq!(
            finding.evidence[0],
            (
                "indexes_of_the_table",
                "by_email on email (storage-attached)".into()
            )
        );
        assert!(finding.suggested_cql[0].starts_with("CREATE TABLE shop.users_by_email ("));
    }

    #[test]
    fn drivers_own_statements_are_not_judged_and_unknown_ones_are_told() {
        let mut system = by_email(60);
        system.head.system = true;
        assert_eq!(severity(system), None);
        let mut unknown = by_email(60);
        unknown.classes = [(PartitionClass::Unknown, 60)].into();
        let judgement = run(&SecondaryIndexRead, &window([unknown]));
        assert_eq!((judgement.findings.len(), judgement.blind_spots.len()), (0, 1));
    }
}
