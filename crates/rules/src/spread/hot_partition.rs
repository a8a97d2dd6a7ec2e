//! Tables of which one partition gets most of the requests.

use super::{
    About, Finding, Findings, GROUP, Rule, Severity, Threshold,
    figures::{at_rate, is_steady, share},
};
use crate::{Cause, Context, read::suggest::by_hash, severity::Impact};
use cqlens_cql::schema::{TableName, is_system};
use cqlens_window::{HeavyEntry, Pattern, PatternId, TableTraffic, number};

pub(crate) struct HotPartition;

impl Rule for HotPartition {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let tables = context.window.tables.iter();
        for (name, traffic) in tables.filter(|(name, _)| !is_system(&name.keyspace)) {
            if let Some(hot) = Hot::of(name, traffic, context, found) {
                judge(name, &hot, context, found);
            }
        }
    }
}

/// The partition that gets most.
pub(super) struct Hot {
    key: u64,
    entry: HeavyEntry,
    /// Its part of all that named a partition, at least.
    part: f64,
    partitions: u64,
}

impl Hot {
    /// That of a table; none where this rule has nothing to say of it.
    pub(super) fn of(
        name: &TableName,
        traffic: &TableTraffic,
        context: &Context<'_>,
        found: &Findings<'_>,
    ) -> Option<Self> {
        let (key, entry) = traffic.top_partitions.top(1).pop()?;
        let hot = Self {
            key,
            entry,
            part: share(entry.at_least(), traffic.top_partitions.total()),
            partitions: traffic.distinct_partitions.estimate(),
        };
        let reaches = |value: f64, threshold: &Threshold| value >= found.threshold(&ABOUT, threshold);
        let is_hot = reaches(hot.partitions as f64, &PARTITIONS) && reaches(hot.part, &SHARE);
        (is_hot && is_steady(found, entry.at_least(), context.watch_table(name))).then_some(hot)
    }

    /// What it gets, in the words of a title.
    fn what(&self) -> &'static str {
        match (self.entry.reads, self.entry.writes) {
            (0, _) => "writes",
            (_, 0) => "reads",
            _ => "reads and writes",
        }
    }
}

fn judge(name: &TableName, hot: &Hot, context: &Context<'_>, found: &mut Findings<'_>) {
    let each = match hot.part >= found.threshold(&ABOUT, &LARGE_SHARE) {
        true => Severity::Medium,
        false => Severity::Low,
    };
    let patterns: Vec<(PatternId, &Pattern)> = context.patterns_of(name).to_vec();
    let impact = patterns
        .iter()
        .fold(Impact::each(each), |impact, (_, pattern)| impact.of(pattern));
    let times = hot.entry.at_least();
    let severity = context.severity(found, &impact.times(times).at_most(Severity::Medium));
    let title = format!(
        "One of {} of `{name}` gets {} of its reads and writes: {}{}",
        number::plural(hot.partitions, "partition", "partitions"),
        number::percent(hot.part),
        number::plural(times, hot.what().trim_end_matches('s'), hot.what()),
        at_rate(times, context.watch_table(name))
    );
    let finding = Finding::on_all(&ABOUT, severity, patterns, context)
        .of_table(name)
        .title(title)
        .first("partitions", hot.partitions)
        .first("writes_of_the_partition", hot.entry.writes)
        .first("reads_of_the_partition", hot.entry.reads)
        .first("share_of_the_partition", hot.part)
        .first("partition", format!("#{:016x}", hot.key));
    let table = context.schema.table(&name.keyspace, &name.table);
    found.push(match table {
        Some(table) => by_hash(finding, table, context),
        None => finding,
    });
}

const SHARE: Threshold = Threshold {
    name: "share",
    unit: "of the reads and writes of the table that name a partition",
    default: 0.25,
    origin: "\
        cqlens default: if values are as popular as words (Zipf), the first of a thousand gets an eighth",
};

const LARGE_SHARE: Threshold = Threshold {
    name: "large_share",
    unit: "of the reads and writes of the table that name a partition",
    default: 0.5,
    origin: "cqlens default: more than all others together",
};

const PARTITIONS: Threshold = Threshold {
    name: "partitions",
    unit: "distinct partitions",
    default: 10.0,
    origin: "cqlens default: fewer partitions cannot spread the load",
};

const ABOUT: About = About {
    id: "hot-partition",
    group: GROUP,
    summary: "One partition gets a large part of a table's reads and writes.",
    why: "A partition lives on as many nodes as there are replicas, and these serve all of its requests, \
        however many nodes the cluster has: more nodes do not help. Its rows are cached and compacted there, \
        its requests queue up, and other partitions on these nodes wait with them. ScyllaDB serves a \
        partition with a single core of each replica.",
    fix: "Spread the writes: add a bucket to the partition key, a hash of a clustering column or a span of \
        time, and read one bucket or all of them. If only reads are frequent, cache the rows in the \
        application, or keep copies under several keys. Check the key first: an empty string, `unknown` or a \
        test account should not be written at all.",
    fix_in_short: "Add a bucket",
    before: "SELECT username FROM shop.groups WHERE groupname = 'everybody';",
    after: "SELECT username FROM shop.groups WHERE groupname = 'everybody' AND bucket = ?;",
    severity: "\
        From a `share` of the table's reads and writes, with at least `partitions` distinct partitions, if \
        the requests come steadily: low, medium from `large_share`, and never more.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[SHARE, LARGE_SHARE, PARTITIONS],
    needs: "The partition keys of requests. The key itself stays hidden: the hash is the one in the report's \
        list of partitions. Counted by a sketch, whose error is subtracted.",
    source: "Basic Rules of Cassandra Data Modeling, rule 1: spread data evenly around the cluster; `nodetool toppartitions`",
    cause: Some(Cause::UNEVEN_PARTITIONS),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, run_with, write};
    use cqlens_cql::{plan::StatementKind, schema::Schema};

    const SCHEMA: &str = "
        CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
        CREATE TABLE shop.groups (groupname text, username text, PRIMARY KEY (groupname, username));";

    /// So many writes of one partition, and ten of each of `others`.
    fn found(hot: u64, others: u64) -> Vec<(Severity, String, Vec<String>)> {
        let writes = hot + others * 10;
        let cql = "INSERT INTO shop.groups (groupname, username) VALUES (?, ?)";
        let mut window = amid([write(cql, StatementKind::Insert, &[], writes)]);
        let name = TableName {
            keyspace: "shop".to_owned(),
            table: "groups".to_owned(),
        };
        let traffic = window.tables.entry(name).or_default();
        traffic.writes = writes;
        let hash = |number: u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for (partition, times) in [(1, hot)]
            .into_iter()
            .chain((2..2 + others).map(|other| (other, 10)))
        {
            traffic.distinct_partitions.insert(hash(partition));
            (0..times).for_each(|_| traffic.top_partitions.write(hash(partition)));
        }
        let schema = Schema::from_cql(SCHEMA).unwrap();
        let findings = run_with(&HotPartition, &window, &schema).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title, finding.suggested_cql))
            .collect()
    }

    #[test]
    fn one_of_many_that_gets_most_is_hot() {
        let [(severity, title, cql)] = &found(900, 30)[..] else {
            unreachable!("one finding")
        };
        assert_eq!(*severity, Severity::Medium);
        assert_eq!(
            title,
            "One of 31 partitions of `shop.groups` gets 75 % of its reads and writes: 900 writes, 15 a second"
        );
        assert!(
            cql[0].ends_with("PRIMARY KEY ((groupname, bucket), username)\n);"),
            "{cql:?}"
        );
        assert_eq!(found(200, 30)[0].0, Severity::Low);
    }

    #[test]
    fn a_popular_one_and_one_of_few_are_not() {
        assert_eq!(found(60, 30), []);
        assert_eq!(found(900, 5), []);
    }
}
