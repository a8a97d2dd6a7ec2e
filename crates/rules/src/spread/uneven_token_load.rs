//! Nodes and token ranges that get more of the reads and writes than others.

use std::collections::BTreeMap;

use super::{
    About, Finding, Findings, GROUP, Rule, Severity, Threshold,
    figures::{is_steady, often, share, user_patterns},
    hot_partition::Hot,
};
use crate::{Cause, Context, read::suggest::by_hash, severity::Impact};
use cqlens_cql::schema::{TableName, is_system};
use cqlens_window::{HeavyEntry, InRing, NodeLoad, RingLoad, TableTraffic, number};

pub(crate) struct UnevenTokenLoad;

impl Rule for UnevenTokenLoad {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        if context.is_single_node() {
            found.blind_on_one_node(&ABOUT);
        }
        let partitions = user_tables(context).map(|(_, table)| table.distinct_partitions.estimate());
        if (partitions.max().unwrap_or(0) as f64) < found.threshold(&ABOUT, &PARTITIONS) {
            return;
        }
        let mut data_centers: BTreeMap<&str, Vec<(&str, &NodeLoad)>> = BTreeMap::new();
        for (id, node) in &context.window.load.nodes {
            // What has left the ring, or never was in it, is no part of what is compared.
            if node.in_ring.mean > 0 {
                let name = node.data_center.as_deref().unwrap_or("");
                data_centers.entry(name).or_default().push((id, node));
            }
        }
        let popular = Popular::of(context, found);
        let mut is_uneven = false;
        for (name, nodes) in &data_centers {
            is_uneven |= judge_nodes(name, nodes, popular.as_ref(), context, found);
        }
        if !is_uneven {
            let each = match data_centers.is_empty() {
                true => Severity::Low,
                false => Severity::Info,
            };
            judge_ring((popular.as_ref(), each), context, found);
        }
    }
}

/// What applications read and write.
fn user_tables<'a>(context: &Context<'a>) -> impl Iterator<Item = (&'a TableName, &'a TableTraffic)> {
    let tables = context.window.tables.iter();
    tables.filter(|(name, _)| !is_system(&name.keyspace))
}

/// The busiest of all partitions.
struct Popular<'a> {
    table: &'a TableName,
    key: u64,
    entry: HeavyEntry,
    /// [`super::HotPartition`] speaks of it.
    is_hot: bool,
}

impl<'a> Popular<'a> {
    fn of(context: &Context<'a>, found: &Findings<'_>) -> Option<Self> {
        let tops = user_tables(context).filter_map(|(name, traffic)| {
            let (key, entry) = traffic.top_partitions.top(1).pop()?;
            Some((entry.at_least(), name, traffic, key, entry))
        });
        let (_, table, traffic, key, entry) = tops.max_by_key(|(times, name, ..)| (*times, *name))?;
        Some(Self {
            table,
            key,
            entry,
            is_hot: Hot::of(table, traffic, context, found).is_some(),
        })
    }

    /// Its reads and writes.
    fn times(&self) -> u64 {
        self.entry.at_least()
    }

    /// How many times as much as the mean a node has without it: it is taken to be on this node, and on no other one.
    fn times_without(&self, node: &NodeLoad, nodes: usize) -> f64 {
        let InRing { own, mean } = node.in_ring;
        let of_mean = self.times() as f64 / nodes.max(1) as f64;
        own.saturating_sub(self.times()) as f64 / (mean as f64 - of_mean).max(1.0)
    }
}

/// The busiest node of a datacenter beside the others; says whether it has far more than they have.
fn judge_nodes(
    data_center: &str,
    nodes: &[(&str, &NodeLoad)],
    popular: Option<&Popular<'_>>,
    context: &Context<'_>,
    found: &mut Findings<'_>,
) -> bool {
    let excess = |node: &NodeLoad| node.in_ring.own.saturating_sub(node.in_ring.mean);
    let Some((id, busiest)) = nodes.iter().max_by_key(|(id, node)| (excess(node), *id)) else {
        return false;
    };
    let all: u64 = nodes.iter().map(|(_, node)| node.in_ring.own).sum();
    // Those at the end, where others have gone meanwhile.
    let count = context.cluster.data_centers.get(data_center).copied();
    let count = count.unwrap_or(nodes.len()).min(nodes.len());
    let InRing { own, mean } = busiest.in_ring;
    let times = share(own, mean);
    let at_least = found.threshold(&ABOUT, &TIMES);
    if times < at_least || !is_steady(found, own, context.window) {
        return false;
    }
    let reason = popular.filter(|popular| popular.times_without(busiest, count) < at_least);
    // Of a hot partition its own finding says more.
    if reason.is_some_and(|popular| popular.is_hot) {
        return false;
    }
    let each = match times >= found.threshold(&ABOUT, &LARGE_TIMES) {
        true => Severity::Medium,
        false => Severity::Low,
    };
    let node = busiest.address.as_deref().unwrap_or(id);
    let title = format!(
        "{node} has the replicas for {} of the reads and writes in {}, {} times the mean of its {} nodes{}",
        number::percent(share(own, all)),
        name_of(data_center),
        number::decimal((times * 10.0).round() / 10.0),
        count,
        often(own, context.window)
    );
    let finding = finding(each, own, title, context, found)
        .about(format!("{data_center} {id}"))
        .first("nodes", count)
        .first("times_the_mean", (times * 10.0).round() / 10.0)
        .first("share_of_the_node", share(own, all))
        .first("node", node);
    let of_one_table = popular.filter(|popular| popular.is_hot || reason.is_some());
    found.push(match of_one_table {
        Some(popular) => of_popular(finding, popular, reason.map(|_| own), context),
        None => finding,
    });
    true
}

/// A finding that the busiest partition belongs to: of its table, so that it is one problem with what other rules say of
/// that. It is what makes a node or a part of the ring uneven that has so many reads and writes, if those are given.
fn of_popular(
    finding: Finding,
    popular: &Popular<'_>,
    of_all: Option<u64>,
    context: &Context<'_>,
) -> Finding {
    let finding = finding
        .first("reads_and_writes_of_the_partition", popular.times())
        .first("partition", format!("#{:016x}", popular.key))
        .of_table(popular.table);
    let Some(of_all) = of_all else { return finding };
    let title = format!(
        "{}; one partition of `{}` accounts for up to {} of that",
        finding.title,
        popular.table,
        number::percent(share(popular.times(), of_all).min(1.0))
    );
    let table = context
        .schema
        .table(&popular.table.keyspace, &popular.table.table);
    let finding = finding.title(title);
    match table {
        Some(table) => by_hash(finding, table, context),
        None => finding,
    }
}

fn name_of(data_center: &str) -> String {
    match data_center {
        "" => "the cluster".to_owned(),
        name => format!("`{name}`"),
    }
}

/// The busiest part of the ring. Where a single partition is the reason it is as severe as given: nodes that are even
/// with it have each a replica of it, or have no need of more.
fn judge_ring(
    (popular, of_one): (Option<&Popular<'_>>, Severity),
    context: &Context<'_>,
    found: &mut Findings<'_>,
) {
    let slices: Vec<u64> = context
        .window
        .load
        .ring
        .slices()
        .map(|(reads, writes)| reads + writes)
        .collect();
    let all: u64 = slices.iter().sum();
    let Some((slice, &most)) = slices.iter().enumerate().max_by_key(|(_, load)| **load) else {
        return;
    };
    let is_large = share(most, all) >= found.threshold(&ABOUT, &RANGE_SHARE);
    if !is_large || !is_steady(found, most, context.window) {
        return;
    }
    let reason = popular.filter(|popular| popular.times() * 2 >= most);
    // Of a hot partition its own finding says more.
    if reason.is_some_and(|popular| popular.is_hot) {
        return;
    }
    let title = format!(
        "One of {} parts of the ring gets {} of the reads and writes{}",
        RingLoad::SLICES,
        number::percent(share(most, all)),
        often(most, context.window)
    );
    let each = reason.map_or(Severity::Low, |_| of_one);
    let finding = finding(each, most, title, context, found)
        .first("share_of_the_range", share(most, all))
        .first("from_token", RingLoad::first_token(slice));
    found.push(match reason {
        Some(popular) => of_popular(finding, popular, Some(most), context),
        None => finding,
    });
}

fn finding(
    each: Severity,
    times: u64,
    title: String,
    context: &Context<'_>,
    found: &Findings<'_>,
) -> Finding {
    let impact = user_patterns(context).fold(Impact::each(each), |impact, (_, pattern)| impact.of(pattern));
    let severity = context.severity(found, &impact.times(times).at_most(each));
    Finding::on_definition(&ABOUT, severity, context).title(title)
}

const TIMES: Threshold = Threshold {
    name: "times",
    unit: "times the mean of the nodes of a datacenter",
    default: 1.5,
    origin: "cqlens default: 16 tokens a node, as Cassandra 4.0 and later allocate them, keep nodes within a tenth",
};

const LARGE_TIMES: Threshold = Threshold {
    name: "large_times",
    unit: "times the mean of the nodes of a datacenter",
    default: 2.5,
    origin: "cqlens default: the cluster is full when this node is full, with more than half of it idle",
};

const RANGE_SHARE: Threshold = Threshold {
    name: "range_share",
    unit: "of the reads and writes that name a partition",
    default: 0.1,
    origin: "cqlens default: 25 times the even share of one of 256 parts",
};

const PARTITIONS: Threshold = Threshold {
    name: "partitions",
    unit: "distinct partitions of a table",
    default: 500.0,
    origin: "cqlens default: no hash spreads fewer partitions evenly",
};

const ABOUT: About = About {
    id: "uneven-token-load",
    group: GROUP,
    summary: "A node, or a part of the ring, gets far more reads and writes than others.",
    why: "Requests follow the tokens of their partitions. If one node owns more of the ring, or the busiest \
        partitions lie on it, it is the first to become slow, and the cluster can do no more than this node: \
        other nodes are idle meanwhile.",
    fix: "\
        Check ownership with `nodetool status`: nodes that joined with random tokens get even ones when they \
        are replaced, with `allocate_tokens_for_local_replication_factor`. If ownership is even, a few \
        partitions are the cause; in a large cluster, a single one with a few percent is enough: see the \
        busiest partitions in the report, and spread them with a bucket.",
    fix_in_short: "Spread the keys",
    before: "SELECT name FROM shop.users WHERE id = 7;  -- id 7 and a few others, over and over",
    after: "SELECT name FROM shop.users WHERE id = ? AND bucket = ?;",
    severity: "If a table has at least `partitions` distinct partitions: low from `times` the mean of a \
        datacenter's nodes, medium from `large_times`, and never more; nothing if `hot-partition` already \
        reports the single partition that is the cause. For a single node, or nodes that are even: low if \
        one of 256 parts of the ring gets `range_share`; if a single partition is half of that or more, info \
        if nodes are known to be even.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[TIMES, LARGE_TIMES, RANGE_SHARE, PARTITIONS],
    needs: "\
        The partition keys of requests, and for nodes their tokens and the keyspaces' replication, read over \
        the control connection; Murmur3. The replica that responds is not known, so each replica counts.",
    source: "Basic Rules of Cassandra Data Modeling, rule 1: spread data evenly around the cluster; `nodetool status`",
    cause: Some(Cause::UNEVEN_PARTITIONS),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{amid, read, run};
    use cqlens_cql::{footprint::PartitionClass, schema::TableName};
    use cqlens_window::Window;

    fn window(partitions: u64) -> Window {
        let cql = "SELECT name FROM shop.users WHERE id = ?";
        let mut window = amid([read(cql, &[], PartitionClass::Single, 10_000)]);
        let name = TableName {
            keyspace: "shop".to_owned(),
            table: "users".to_owned(),
        };
        let table = window.tables.entry(name).or_default();
        for partition in 0..partitions {
            let hash = (partition + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            table.distinct_partitions.insert(hash);
            table.top_partitions.read(hash);
        }
        window
    }

    fn nodes(window: &mut Window, reads: &[u64]) {
        let mean = reads.iter().sum::<u64>() / reads.len() as u64;
        for (number, &reads) in (1..).zip(reads) {
            let node = NodeLoad {
                address: Some(format!("10.0.0.{number}")),
                data_center: Some("dc1".to_owned()),
                reads,
                in_ring: InRing { own: reads, mean },
                ..NodeLoad::default()
            };
            window.load.nodes.insert(format!("node-{number}"), node);
        }
    }

    fn found(window: &Window) -> Vec<(Severity, String)> {
        let findings = run(&UnevenTokenLoad, window).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    #[test]
    fn a_node_with_twice_the_mean_is_told() {
        let mut window = window(1_000);
        nodes(&mut window, &[6_000, 2_000, 2_000]);
        let expected = "\
            10.0.0.1 has the replicas for 60 % of the reads and writes in `dc1`, 1.8 times the mean of its 3 \
            nodes, 100 a second";
        assert_eq!(found(&window), [(Severity::Low, expected.to_owned())]);
        let mut even = self::window(1_000);
        nodes(&mut even, &[3_600, 3_200, 3_200]);
        assert_eq!(found(&even), []);
        let mut few = self::window(50);
        nodes(&mut few, &[6_000, 2_000, 2_000]);
        assert_eq!(found(&few), []);
        // What the driver reads of the server's own tables spreads nothing.
        let system = TableName {
            keyspace: "system".to_owned(),
            table: "peers".to_owned(),
        };
        let table = few.tables.entry(system).or_default();
        let hashes = (1..=1_000_u64).map(|partition| partition.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        hashes.for_each(|hash| table.distinct_partitions.insert(hash));
        assert_eq!(found(&few), []);
    }

    #[test]
    fn where_one_partition_is_the_reason_no_node_is_told() {
        let mut window = window(1_000);
        nodes(&mut window, &[6_000, 2_000, 2_000]);
        let read = |window: &mut Window, times| {
            let tables = window.tables.values_mut();
            tables.for_each(|table| (0..times).for_each(|_| table.top_partitions.read(7)));
        };
        // Without these, 5,200 are beside a mean of 3,067.
        read(&mut window, 800);
        assert_eq!(found(&window).len(), 1);
        read(&mut window, 2_200);
        assert_eq!(found(&window), []);
    }

    /// Of a hundred thousand reads in a cluster of thirty nodes so many are of one partition of a table, and one node has twice
    /// its part of the others if so.
    fn of_thirty(popular: u64, is_uneven: bool) -> Vec<(Severity, String, Option<String>)> {
        let mut window = window(1_000);
        let tables = window.tables.values_mut();
        tables.for_each(|table| {
            (0..popular).for_each(|_| table.top_partitions.read(7));
            let others = (1_000..100_000 - popular).map(|key| key.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            others.for_each(|key| table.top_partitions.read(key));
        });
        let of_others = (100_000 - popular) / 30;
        let mut reads = [of_others; 30];
        reads[0] = popular + of_others * if is_uneven { 2 } else { 1 };
        nodes(&mut window, &reads);
        let findings = run(&UnevenTokenLoad, &window).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title, finding.table))
            .collect()
    }

    #[test]
    fn in_a_large_cluster_a_popular_partition_makes_its_node_uneven_long_before_it_is_hot() {
        let expected = "10.0.0.1 has the replicas for 13 % of the reads and writes in `dc1`, 3.9 times the \
                        mean of its 30 nodes, 217 a second; one partition of `shop.users` accounts for up to \
                        77 % of that";
        let table = Some("users".to_owned());
        assert_eq!(
            of_thirty(10_000, false),
            [(Severity::Medium, expected.to_owned(), table.clone())]
        );
        assert_eq!(of_thirty(1_000, false), [], "a quarter more than others");
        assert_eq!(of_thirty(30_000, false), [], "hot");
        // Without the partition there is still something to say, and both are of its table.
        let [(_, title, of)] = &of_thirty(30_000, true)[..] else {
            unreachable!("one finding")
        };
        assert!(title.ends_with(" a second"), "{title}");
        assert_eq!(*of, table);
        let [(_, _, of)] = &of_thirty(1_000, true)[..] else {
            unreachable!("one finding")
        };
        assert_eq!(*of, None, "the partition has no part in it");
    }

    #[test]
    fn nodes_outside_of_the_ring_are_not_compared() {
        let mut window = window(1_000);
        nodes(&mut window, &[3_400, 3_300, 3_300]);
        // Went before anything was counted, or never owned a part.
        for gone in ["gone-1", "gone-2"] {
            let node = NodeLoad {
                data_center: Some("dc1".to_owned()),
                ..NodeLoad::default()
            };
            window.load.nodes.insert(gone.to_owned(), node);
        }
        assert_eq!(found(&window), []);
    }

    /// Of ten thousand reads so many are of one partition, and the others are even on the ring; nodes, if they are known, are even.
    fn of_a_ring(popular: u64, nodes_are_known: bool) -> Vec<(Severity, String, Option<String>)> {
        let mut window = window(1_000);
        for table in window.tables.values_mut() {
            (0..popular).for_each(|_| table.top_partitions.read(7));
            let others = (1_000..10_000 - popular).map(|key| key.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            others.for_each(|key| table.top_partitions.read(key));
        }
        (0..popular).for_each(|_| window.load.ring.read(7));
        for token in popular.cast_signed()..10_000 {
            window.load.ring.read(token.wrapping_mul(0x1234_5678_9ABC_DEF1));
        }
        if nodes_are_known {
            nodes(&mut window, &[10_000; 3]);
        }
        let findings = run(&UnevenTokenLoad, &window).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title, finding.table))
            .collect()
    }

    #[test]
    fn one_partition_that_makes_a_part_of_the_ring_uneven_is_named() {
        let [(severity, title, table)] = &of_a_ring(1_500, false)[..] else {
            unreachable!("one finding")
        };
        assert_eq!(*severity, Severity::Low);
        let expected = "One of 256 parts of the ring gets 15 % of the reads and writes, 25 a second; one \
                        partition of `shop.users` accounts for up to 100 % of that";
        assert_eq!(title, expected);
        assert_eq!(table.as_deref(), Some("users"));
        let [(severity, _, table)] = &of_a_ring(1_500, true)[..] else {
            unreachable!("one finding")
        };
        assert_eq!(
            (*severity, table.as_deref()),
            (Severity::Info, Some("users")),
            "nodes are even"
        );
        assert_eq!(of_a_ring(900, false), [], "less than a tenth");
        assert_eq!(of_a_ring(3_000, false), [], "hot");
    }

    #[test]
    fn a_part_of_the_ring_is_told_unless_a_hot_partition_is_the_reason() {
        let mut window = window(1_000);
        nodes(&mut window, &[10_000]);
        for token in 0..8_000_i64 {
            window.load.ring.read(token.wrapping_mul(0x1234_5678_9ABC_DEF1));
        }
        assert_eq!(found(&window), []);
        (0..2_000).for_each(|token| window.load.ring.read(token));
        let expected = "One of 256 parts of the ring gets 20 % of the reads and writes, 33 a second";
        assert_eq!(found(&window), [(Severity::Low, expected.to_owned())]);
        let table = window.tables.values_mut().next();
        table
            .into_iter()
            .for_each(|table| (0..1_500).for_each(|_| table.top_partitions.read(7)));
        assert_eq!(found(&window), []);
    }
}
