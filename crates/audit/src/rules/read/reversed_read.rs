//! Reads against the clustering order.

use super::{About, Findings, SLOW_MS, Severity, how_often, reads, suggest, table, user_reads};
use crate::{
    number,
    rules::{
        Finding, Rule,
        figures::{OFTEN_PER_SECOND, STEADY_PER_HOUR, by_load, share},
    },
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::{plan::Flag, schema::Schema};

pub(in crate::rules) struct ReversedRead;

impl Rule for ReversedRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, schema: &Schema, found: &mut Findings<'_>) {
        for (id, pattern) in user_reads(window).filter(|(_, pattern)| pattern.is(Flag::Reversed)) {
            found.push(finding(
                severity(found, pattern, window),
                (id, pattern),
                window,
                schema,
            ));
        }
    }
}

fn severity(found: &Findings<'_>, pattern: &Pattern, window: &Window) -> Severity {
    let severity = by_load(found, &ABOUT, reads(pattern), window);
    let p99_ms = pattern.latency_us.quantile(0.99) as f64 / 1e3;
    if p99_ms >= found.threshold(&ABOUT, &SLOW_MS) {
        severity.raised()
    } else {
        severity
    }
}

fn finding(
    severity: Severity,
    (id, pattern): (PatternId, &Pattern),
    window: &Window,
    schema: &Schema,
) -> Finding {
    let (reversed, all) = on_the_table(pattern, window);
    let against = share(reversed, all);
    let title = format!(
        "Reads of {} go against the clustering order{}",
        table(pattern),
        how_often(pattern, window)
    );
    let advice = if reversed == all {
        "Every read of the table that was seen goes backwards: store its rows in the order in which they are read. \
         The clustering order cannot be altered, so that takes a new table and a copy of the rows."
            .to_owned()
    } else {
        format!(
            "{} of the table's reads go backwards. If they are the ones that matter, store the rows in their order; the others \
             go backwards then, so count both. The clustering order cannot be altered: that takes a new table and a copy \
             of the rows.",
            number::percent(against)
        )
    };
    Finding::on(&ABOUT, severity, (id, pattern), window)
        .title(title)
        .advice(advice)
        .first("reversed_share_of_the_table", against)
        .suggest(suggest::in_reverse(pattern, schema).into_iter().flatten())
}

/// Reads of the pattern's table: those against the order, and all.
fn on_the_table(pattern: &Pattern, window: &Window) -> (u64, u64) {
    let same = |other: &Pattern| {
        other.head.table == pattern.head.table && other.head.keyspace == pattern.head.keyspace
    };
    let patterns = user_reads(window).filter(|(_, other)| same(other));
    patterns.fold((0, 0), |(reversed, all), (_, other)| {
        let here = reads(other);
        let against = if other.is(Flag::Reversed) { here } else { 0 };
        (reversed + against, all + here)
    })
}

const ABOUT: About = About {
    id: "reversed-read",
    group: "read shape",
    summary: "A read asks for rows in the opposite of the order in which they are stored.",
    why: "\
        Rows of a partition lie on disk in clustering order, and files are read forwards. For the opposite \
        order a replica steps back from index block to index block, reads each one forwards, keeps its rows \
        and hands them out from the end: more memory, more small reads, and for a small LIMIT the whole last \
        block. The larger the partition, the more of it.",
    fix: "\
        Create the table with the order in which it is read: `CLUSTERING ORDER BY (… DESC)` where the newest \
        rows come first.",
    before: "CREATE TABLE shop.members (\n  groupname text, joined timestamp, name text,\n  PRIMARY KEY ((groupname), joined));\n\
             SELECT * FROM shop.members WHERE groupname = ? ORDER BY joined DESC LIMIT 10;",
    after: "CREATE TABLE shop.newest_members (\n  groupname text, joined timestamp, name text,\n  PRIMARY KEY ((groupname), joined)) \
            WITH CLUSTERING ORDER BY (joined DESC);\nSELECT * FROM shop.newest_members WHERE groupname = ? LIMIT 10;",
    severity: "\
        Info; low from `steady_per_hour` reads an hour, medium from `often_per_second` reads a second; one \
        step up where the p99 latency reaches `slow_ms`. Nothing where ORDER BY says the stored order.",
    thresholds: &[STEADY_PER_HOUR, OFTEN_PER_SECOND, SLOW_MS],
    needs: "The table's schema with its clustering order.",
    source: "\
        Basic Rules of Cassandra Data Modeling, example 3: User Groups by join date; Scylla Monitoring, CQL \
        optimization: reversed reads",
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rules::testing::{read, run, run_with, window};
    use cqlens_cql::footprint::PartitionClass;

    const BAD: &str = "SELECT * FROM shop.members WHERE groupname = ? ORDER BY joined DESC LIMIT ?";

    fn newest(times: u64) -> Pattern {
        read(BAD, &[Flag::Reversed, Flag::Limit], PartitionClass::Single, times)
    }

    fn oldest(times: u64) -> Pattern {
        let cql = "SELECT * FROM shop.members WHERE groupname = ? ORDER BY joined LIMIT ?";
        read(cql, &[Flag::Limit], PartitionClass::Single, times)
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&ReversedRead, &window([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_rate_and_the_latency() {
        assert_eq!(severity(newest(59)), Some(Severity::Info));
        assert_eq!(severity(newest(60)), Some(Severity::Low));
        assert_eq!(severity(newest(360_000)), Some(Severity::Medium));
        let mut slow = newest(60);
        slow.latency_us.record_n(600_000, 60);
        assert_eq!(severity(slow), Some(Severity::Medium));
    }

    #[test]
    fn the_stored_order_is_fine() {
        assert_eq!(severity(oldest(1_000_000)), None);
    }

    #[test]
    fn it_weighs_them_against_the_other_reads_of_the_table() {
        let judgement = run(&ReversedRead, &window([newest(60), oldest(180)]));
        let finding = &judgement.findings[0];
        assert_eq!(finding.evidence[0], ("reversed_share_of_the_table", 0.25.into()));
        assert!(
            finding.advice.starts_with("25 % of the table's reads"),
            "{}",
            finding.advice
        );
    }

    #[test]
    fn with_a_schema_it_writes_the_table_the_other_way_round() {
        let schema = Schema::from_cql(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.members (groupname text, joined int, name text, PRIMARY KEY ((groupname), joined, name));",
        )
        .unwrap();
        let judgement = run_with(&ReversedRead, &window([newest(60)]), &schema);
        let cql = &judgement.findings[0].suggested_cql;
        assert!(
            cql[0].starts_with("CREATE TABLE shop.members_by_joined_desc ("),
            "{cql:?}"
        );
        assert!(
            cql[0].ends_with("WITH CLUSTERING ORDER BY (joined DESC, name DESC);"),
            "{cql:?}"
        );
        assert_eq!(
            cql[1],
            "SELECT * FROM shop.members_by_joined_desc WHERE groupname = ? ORDER BY joined DESC LIMIT ?;"
        );
    }
}
