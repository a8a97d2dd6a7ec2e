//! Reads against the clustering order.

use std::collections::BTreeMap;

use super::{About, Findings, Impact, Severity, Threshold, how_often, reads, table, user_reads};
use crate::{
    Context, Finding, Rule, Wish,
    beside::{self, ReadsTook},
    figures::share,
};
use cqlens_cql::plan::Flag;
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct ReversedRead;

impl Rule for ReversedRead {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        // ScyllaDB reads both ways alike.
        if context.is_scylladb() {
            return;
        }
        let (tables, took) = (by_table(context), ReadsTook::of(context));
        for (id, pattern) in user_reads(context).filter(|(_, pattern)| pattern.is(Flag::Reversed)) {
            let impact = impact(found, pattern, &took, context);
            let severity = context.severity(found, &impact);
            let here = tables.get(&named(pattern)).copied().unwrap_or_default();
            found.push(finding(severity, (id, pattern), here, context).weighing(impact));
        }
    }
}

fn impact<'p>(
    found: &Findings<'_>,
    pattern: &'p Pattern,
    took: &ReadsTook,
    context: &Context<'_>,
) -> Impact<'p> {
    let slower = found.threshold(&ABOUT, &SLOWER);
    let impact = match beside::times_as_long(pattern, took, context) {
        Some(times) if times >= slower => Impact::each(Severity::Low).at_most(Severity::Medium),
        _ => Impact::each(Severity::Info).at_most(Severity::Low),
    };
    impact.of(pattern)
}

fn finding(
    severity: Severity,
    (id, pattern): (PatternId, &Pattern),
    (reversed, all): (u64, u64),
    context: &Context<'_>,
) -> Finding {
    let against = share(reversed, all);
    let title = format!(
        "Reads of {} go against the clustering order{}",
        table(pattern),
        how_often(pattern, context)
    );
    if context.is_text() {
        return Finding::on(&ABOUT, severity, (id, pattern), context)
            .title(title)
            .advice(OF_ONE_READ);
    }
    let advice = if reversed == all {
        "Every observed read of the table goes backwards: store the rows in the order in which they are \
         read. The clustering order cannot be altered, so this requires a new table and a copy of the rows."
            .to_owned()
    } else {
        format!(
            "{} of the table's reads go backwards. If those are the ones that matter, store the rows in \
             their order; the other reads then go backwards, so compare both. The clustering order cannot be \
             altered: this requires a new table and a copy of the rows.",
            number::percent(against)
        )
    };
    Finding::on(&ABOUT, severity, (id, pattern), context)
        .title(title)
        .advice(advice)
        .first("reversed_share_of_the_table", against)
        .wish(Wish::InReverse(id))
}

/// Where nothing is known of the table's other reads.
const OF_ONE_READ: &str = "\
    If most reads of the table go in this direction, store the rows in that order; the clustering order cannot \
    be altered, so this requires a new table. A few reads against the order are fine.";

/// The reads that go backwards and all reads, by the table that they name.
fn by_table<'a>(context: &Context<'a>) -> BTreeMap<PatternTable<'a>, (u64, u64)> {
    let mut tables: BTreeMap<_, (u64, u64)> = BTreeMap::new();
    for (_, pattern) in user_reads(context) {
        let here = reads(pattern);
        let (reversed, all) = tables.entry(named(pattern)).or_default();
        *reversed += if pattern.is(Flag::Reversed) { here } else { 0 };
        *all += here;
    }
    tables
}

/// The keyspace and the table, as far as known.
type PatternTable<'a> = (Option<&'a str>, Option<&'a str>);

fn named(pattern: &Pattern) -> PatternTable<'_> {
    (pattern.head.keyspace.as_deref(), pattern.head.table.as_deref())
}

const SLOWER: Threshold = Threshold {
    name: "slower",
    unit: "times the mean latency of the table's other reads",
    default: 1.5,
    origin: "cqlens default: half as long again shows on any graph; less may be chance",
};

const ABOUT: About = About {
    id: "reversed-read",
    group: "read shape",
    summary: "A read returns rows in the reverse of the order in which they are stored.",
    why: "The rows of a partition are stored in clustering order, and SSTables are read forwards. For the \
        reverse order, a replica steps back from index block to index block, reads each one forwards, \
        buffers its rows and returns them from the end: more memory, more small reads, and the whole last \
        block even for a small LIMIT. The cost grows with the partition.",
    fix: "\
        Create the table in the order in which it is read: `CLUSTERING ORDER BY (… DESC)` if the newest rows \
        come first.",
    fix_in_short: "Reverse the order",
    before: "CREATE TABLE shop.members (\n  groupname text, joined timestamp, name text,\n  PRIMARY KEY ((groupname), joined));\n\
             SELECT * FROM shop.members WHERE groupname = ? ORDER BY joined DESC LIMIT 10;",
    after: "CREATE TABLE shop.newest_members (\n  groupname text, joined timestamp, name text,\n  PRIMARY KEY ((groupname), joined)) \
            WITH CLUSTERING ORDER BY (joined DESC);\nSELECT * FROM shop.newest_members WHERE groupname = ? LIMIT 10;",
    severity: "\
        Info, low at most; if reversed reads take `slower` times as long as the table's other reads, low, \
        medium at most. Nothing if ORDER BY names the stored order, and nothing in ScyllaDB, which reads \
        both ways equally well.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[SLOWER],
    needs: "The table's schema with its clustering order.",
    source: "\
        Basic Rules of Cassandra Data Modeling, example 3: User Groups by join date; Scylla Monitoring, CQL \
        optimization: reversed reads",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, read, run, run_in, run_with, window};
    use cqlens_cql::{Product, footprint::PartitionClass, schema::Schema};
    use cqlens_window::Cluster;

    const BAD: &str = "SELECT * FROM shop.members WHERE groupname = ? ORDER BY joined DESC LIMIT ?";

    fn newest(times: u64) -> Pattern {
        read(BAD, &[Flag::Reversed, Flag::Limit], PartitionClass::Single, times)
    }

    fn oldest(times: u64) -> Pattern {
        let cql = "SELECT * FROM shop.members WHERE groupname = ? ORDER BY joined LIMIT ?";
        read(cql, &[Flag::Limit], PartitionClass::Single, times)
    }

    fn severity(pattern: Pattern) -> Option<Severity> {
        let judgement = run(&ReversedRead, &amid([pattern]));
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn it_is_low_at_most_unless_it_is_slower_than_its_neighbours() {
        assert_eq!(severity(newest(100)), Some(Severity::Info));
        let alone = run(&ReversedRead, &window([newest(360_000)]));
        assert_eq!(alone.findings[0].severity, Severity::Low, "all of the load");
        let beside = |took| {
            let mut slow = newest(100);
            slow.latency_us = Default::default();
            slow.latency_us.record_n(took, 100);
            run(&ReversedRead, &amid([slow, oldest(100)])).findings[0].severity
        };
        assert_eq!(beside(2_000), Severity::Info);
        assert_eq!(beside(4_000), Severity::Low);
    }

    #[test]
    fn scylladb_reads_both_ways_alike() {
        let (window, schema) = (window([newest(60)]), Schema::default());
        let cluster = Cluster {
            product: Some(Product::ScyllaDb),
            ..Cluster::default()
        };
        let judgement = run_in(&ReversedRead, &Context::new(&window, &schema, &cluster));
        assert_eq!(judgement.findings, []);
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
            cql[0].starts_with("-- 1. create the table\nCREATE TABLE shop.members_by_joined_desc ("),
            "{cql:?}"
        );
        assert!(
            cql[0].ends_with("WITH CLUSTERING ORDER BY (joined DESC, name DESC);"),
            "{cql:?}"
        );
        assert!(
            cql[3].ends_with(
                "\nSELECT * FROM shop.members_by_joined_desc WHERE groupname = ? ORDER BY joined DESC LIMIT ?;"
            ),
            "{cql:?}"
        );
        assert!(cql[4].ends_with("\n-- DROP TABLE shop.members;"), "{cql:?}");
    }
}
