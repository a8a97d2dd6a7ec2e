//! Nodes and ring: from the loads of a window to what the report says of them, and in which words.

use std::{cmp::Reverse, collections::BTreeMap};

use serde::Serialize;

use cqlens_window::{Load, NodeLoad, RingLoad, Routing, Unplaced, Window, number};

/// Which nodes the traffic goes to, and which parts of the ring.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct LoadReport {
    /// The busiest first; empty where no node is known.
    pub nodes: Vec<NodeReport>,
    /// By token; absent where no token is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<RingReport>,
    /// Executions that touch one partition, over all patterns; absent where there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<RoutingReport>,
    /// Executions sent to an address that belongs to no known node.
    pub coordinator_unknown: u64,
    /// Partitions read and written whose replicas are not known, by the reason.
    pub unplaced: BTreeMap<Unplaced, u64>,
    /// Executions that do not name all of their partitions: the others are not in any node's reads and writes.
    pub without_keys: u64,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct NodeReport {
    /// Its `host_id`.
    pub id: String,
    /// Where drivers are told to connect, with the port where one is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Its datacenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data_center: Option<String>,
    /// Its rack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rack: Option<String>,
    /// Executions that it coordinated.
    pub coordinated: u64,
    /// Its part of all executions whose coordinator is known, 0 to 1.
    pub coordinated_share: f64,
    /// Partitions read, by their whole key, that it holds a replica of. Which replica responded is not known.
    pub reads: u64,
    /// The same of partitions written.
    pub writes: u64,
    /// Reads and writes, as a multiple of the mean of the nodes in its datacenter; absent if those have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times_mean: Option<f64>,
}

/// The ring, in slices of 2⁵⁶ tokens.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct RingReport {
    /// How many slices there are.
    pub slices: usize,
    /// The busiest slice.
    pub hottest: SliceReport,
    /// Its part of all partitions read and written, 0 to 1.
    pub hottest_share: f64,
    /// The hottest slice, compared with the mean of all slices.
    pub hottest_times_mean: f64,
    /// The slices with any requests, in token order.
    pub loads: Vec<SliceReport>,
}

/// A slice of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct SliceReport {
    /// Its number, from 0 for the smallest tokens.
    pub slice: usize,
    /// Its first token.
    pub first_token: i64,
    /// Partitions read.
    pub reads: u64,
    /// Partitions written.
    pub writes: u64,
}

/// Executions that touch one partition, by whether their coordinator holds it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct RoutingReport {
    /// It does: it is a replica.
    pub replica: u64,
    /// It does not, and had to query other nodes.
    pub other: u64,
    /// Unknown.
    pub unknown: u64,
    /// The part of those for which it is known, 0 to 1; absent if it is unknown for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_share: Option<f64>,
}

impl LoadReport {
    pub(super) fn of(window: &Window) -> Self {
        let load = &window.load;
        let users = window.patterns.values().filter(|pattern| !pattern.head.system);
        let all = users.fold(Routing::default(), |mut all, pattern| {
            all.merge(&pattern.routing);
            all
        });
        Self {
            nodes: nodes(load),
            ring: ring(&load.ring),
            routing: RoutingReport::of(&all),
            coordinator_unknown: load.coordinator_unknown,
            unplaced: load.unplaced.clone(),
            without_keys: load.without_keys,
        }
    }

    /// Whether there is anything to compare: of one node a reader is told nothing by its share of everything.
    pub(super) fn has_several_nodes(&self) -> bool {
        self.nodes.len() > 1
    }

    /// What a reader must know beside the numbers of the nodes, in whole sentences.
    pub(super) fn sentences(&self) -> Vec<String> {
        let sentences = [self.on_routing(), self.on_ring(), self.on_scans()];
        sentences.into_iter().flatten().collect()
    }

    fn on_routing(&self) -> Option<String> {
        let routing = self.routing?;
        let share = number::percent(routing.replica_share?);
        let known = number::plural(routing.replica + routing.other, "execution", "executions");
        let mut text = format!("Of {known} that touch one partition, {share} went to a node that holds it.");
        if routing.unknown > 0 {
            let unknown = number::count(routing.unknown);
            text += &format!(" For {unknown} more this is not known.");
        }
        let mut coordinators = self.nodes.iter().filter(|node| node.coordinated > 0);
        if let (Some(_), None, 0) = (coordinators.next(), coordinators.next(), self.coordinator_unknown) {
            text += " All of them went through one node: this shows its share of the ring, not how well drivers \
                route.";
        }
        Some(text)
    }

    fn on_ring(&self) -> Option<String> {
        let ring = self.ring.as_ref()?;
        let all: u64 = ring.loads.iter().map(SliceReport::all).sum();
        if all < FEW {
            let all = number::plural(all, "partition", "partitions");
            return Some(format!(
                "{all} read and written are too few to compare the parts of the ring."
            ));
        }
        Some(format!(
            "The busiest {}th of the ring, starting at token {}, has {} of the partitions read and \
                written: {} times the mean.",
            ring.slices,
            ring.hottest.first_token,
            number::percent(ring.hottest_share),
            number::decimal(ring.hottest_times_mean),
        ))
    }

    fn on_scans(&self) -> Option<String> {
        let executions = number::plural(
            self.without_keys,
            "execution does not specify all of its",
            "executions do not specify all of their",
        );
        (self.without_keys > 0).then(|| {
            format!(
                "{executions} partitions (scans, index reads, unknown keys): those are not counted for \
                    any node."
            )
        })
    }
}

/// Ten for each slice: with fewer, some slice has a multiple of the mean by chance.
const FEW: u64 = 10 * RingLoad::SLICES as u64;

/// What the columns of nodes mean.
pub(super) const MEANING: &str = "What each node coordinated, and the partitions read and written for which \
     it holds a replica. A write goes to every replica; a read goes to as many as its consistency level \
     requires, and which ones is not known.";

/// What is not known of nodes, in whole sentences.
pub(super) fn unknown(load: &LoadReport, partitioner: Option<&str>) -> Vec<String> {
    let mut lines: Vec<_> = load
        .unplaced
        .iter()
        .map(|(why, &count)| {
            let partitions = number::plural(count, "partition", "partitions");
            let why = why_unplaced(*why, partitioner);
            format!("For {partitions} read or written, the nodes that hold them are not known: {why}.")
        })
        .collect();
    // Where no node is known at all, that has been said.
    if load.coordinator_unknown > 0 && !load.nodes.is_empty() {
        let executions = number::plural(load.coordinator_unknown, "execution", "executions");
        lines.push(format!(
            "The coordinator of {executions} is not known: no single node has the address that they were \
             sent to (perhaps because of a load balancer or address translation)."
        ));
    }
    lines
}

fn why_unplaced(why: Unplaced, partitioner: Option<&str>) -> String {
    match why {
        Unplaced::RingUnknown => "no node reported its tokens, as without a control connection".to_owned(),
        Unplaced::OtherPartitioner => format!(
            "cqlens computes only Murmur3 tokens, and the cluster's partitioner is `{}`",
            partitioner.unwrap_or("another one")
        ),
        Unplaced::Tablets => "their keyspace uses tablets, which only ScyllaDB itself can place".to_owned(),
        Unplaced::ReplicationUnknown => {
            "their keyspace is not known, or its replication strategy is not Cassandra's own".to_owned()
        }
    }
}

impl RoutingReport {
    /// None where nothing was counted.
    pub(super) fn of(routing: &Routing) -> Option<Self> {
        let Routing {
            replica,
            other,
            unknown,
        } = *routing;
        (replica + other + unknown > 0).then(|| Self {
            replica,
            other,
            unknown,
            replica_share: routing.share(),
        })
    }

    /// `94 %`, `94 %, of 12 not known`, `not known`.
    pub(super) fn shown(&self) -> String {
        match (self.replica_share, self.unknown) {
            (None, _) => "not known".to_owned(),
            (Some(share), 0) => number::percent(share),
            (Some(share), unknown) => {
                format!(
                    "{}, unknown for {}",
                    number::percent(share),
                    number::count(unknown)
                )
            }
        }
    }
}

impl NodeReport {
    /// Address, else id.
    pub(super) fn name(&self) -> &str {
        self.address.as_deref().unwrap_or(&self.id)
    }

    /// `dc1 · r2`.
    pub(super) fn place(&self) -> String {
        let parts = [&self.data_center, &self.rack].into_iter().flatten();
        parts.map(String::as_str).collect::<Vec<_>>().join(" · ")
    }

    /// `1.2 ×`; a dash where nothing was read or written.
    pub(super) fn against_mean(&self) -> String {
        let times = self
            .times_mean
            .map(|times| format!("{} ×", number::decimal(times)));
        times.unwrap_or_else(|| "–".to_owned())
    }
}

impl SliceReport {
    /// Reads and writes.
    pub(super) fn all(&self) -> u64 {
        self.reads + self.writes
    }
}

fn nodes(load: &Load) -> Vec<NodeReport> {
    let coordinated: u64 = load.nodes.values().map(|node| node.coordinated).sum();
    let means = means(load);
    let mut nodes: Vec<_> = load
        .nodes
        .iter()
        .map(|(id, node)| NodeReport {
            id: id.clone(),
            address: node.address.clone(),
            data_center: node.data_center.clone(),
            rack: node.rack.clone(),
            coordinated: node.coordinated,
            coordinated_share: node.coordinated as f64 / coordinated.max(1) as f64,
            reads: node.reads,
            writes: node.writes,
            times_mean: means
                .get(&node.data_center)
                .map(|mean| (node.reads + node.writes) as f64 / mean),
        })
        .collect();
    nodes.sort_by_key(|node| {
        let work = (node.reads + node.writes, node.coordinated);
        (Reverse(work), node.address.clone(), node.id.clone())
    });
    nodes
}

/// Reads and writes of a node of each datacenter that has any. Keyspaces may be replicated in some
/// datacenters only: nodes compare within theirs.
fn means(load: &Load) -> BTreeMap<Option<String>, f64> {
    let mut sums: BTreeMap<Option<String>, (u64, u64)> = BTreeMap::new();
    for NodeLoad {
        data_center,
        reads,
        writes,
        ..
    } in load.nodes.values()
    {
        let (work, nodes) = sums.entry(data_center.clone()).or_default();
        *work += reads + writes;
        *nodes += 1;
    }
    let busy = sums.into_iter().filter(|(_, (work, _))| *work > 0);
    busy.map(|(center, (work, nodes))| (center, work as f64 / nodes as f64))
        .collect()
}

fn ring(ring: &RingLoad) -> Option<RingReport> {
    let loads: Vec<_> = ring
        .slices()
        .enumerate()
        .map(|(slice, (reads, writes))| SliceReport {
            slice,
            first_token: RingLoad::first_token(slice),
            reads,
            writes,
        })
        .filter(|slice| slice.all() > 0)
        .collect();
    // Of equally busy ones the first.
    let hottest = *loads.iter().rev().max_by_key(|slice| slice.all())?;
    let all: u64 = loads.iter().map(SliceReport::all).sum();
    let share = hottest.all() as f64 / all as f64;
    Some(RingReport {
        slices: RingLoad::SLICES,
        hottest,
        hottest_share: share,
        hottest_times_mean: share * RingLoad::SLICES as f64,
        loads,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use cqlens_cql::footprint::PartitionClass;
    use cqlens_rules::testing::{read, window};

    fn node(load: &mut Load, name: &str, center: &str, [coordinated, reads, writes]: [u64; 3]) {
        let node = NodeLoad {
            address: Some(format!("{name}:9042")),
            data_center: Some(center.to_owned()),
            rack: Some("r1".to_owned()),
            coordinated,
            reads,
            writes,
            ..NodeLoad::default()
        };
        load.nodes.insert(format!("id of {name}"), node);
    }

    fn report(change: impl FnOnce(&mut Load, &mut Routing)) -> LoadReport {
        let mut pattern = read("SELECT * FROM a.b WHERE c = ?", &[], PartitionClass::Single, 9);
        let mut load = Load::default();
        change(&mut load, &mut pattern.routing);
        let mut window = window([pattern]);
        window.load = load;
        LoadReport::of(&window)
    }

    #[test]
    fn nodes_compare_within_their_datacenter() {
        let report = report(|load, _| {
            node(load, "a", "east", [30, 100, 20]);
            node(load, "b", "east", [10, 30, 10]);
            node(load, "c", "west", [0, 0, 0]);
        });
        let said: Vec<_> = report
            .nodes
            .iter()
            .map(|node| (node.name(), node.coordinated_share, node.against_mean()))
            .collect();
        assert_eq!(
            said,
            [
                ("a:9042", 0.75, "1.5 ×".to_owned()),
                ("b:9042", 0.25, "0.50 ×".to_owned()),
                ("c:9042", 0.0, "–".to_owned()),
            ]
        );
        assert_eq!(report.nodes[0].place(), "east · r1");
    }

    #[test]
    fn one_coordinator_says_nothing_of_the_drivers() {
        let two = report(|load, routing| {
            (routing.replica, routing.other) = (3, 1);
            node(load, "a", "east", [2, 0, 0]);
            node(load, "b", "east", [2, 0, 0]);
        });
        assert_eq!(
            two.sentences(),
            ["Of 4 executions that touch one partition, 75 % went to a node that holds it."]
        );
        let one = report(|load, routing| {
            (routing.replica, routing.other, routing.unknown) = (3, 1, 7);
            node(load, "a", "east", [4, 0, 0]);
            node(load, "b", "east", [0, 0, 0]);
        });
        let said = one.sentences().concat();
        assert!(said.contains("For 7 more this is not known."), "{said}");
        assert!(said.contains("not how well drivers route"), "{said}");
        assert_eq!(one.routing.unwrap().shown(), "75 %, unknown for 7");
    }

    #[test]
    fn the_busiest_slice_is_named_once_there_is_enough_to_compare() {
        let few = report(|load, _| (0..5).for_each(|token| load.ring.read(token)));
        assert_eq!(
            few.sentences(),
            ["5 partitions read and written are too few to compare the parts of the ring."]
        );
        let ring = few.ring.unwrap();
        assert_eq!(
            (ring.hottest.slice, ring.hottest.reads, ring.loads.len()),
            (128, 5, 1)
        );

        let many = report(|load, _| {
            for slice in 0..RingLoad::SLICES {
                (0..30).for_each(|_| load.ring.write(RingLoad::first_token(slice)));
            }
            (0..2_560).for_each(|_| load.ring.read(-1));
        });
        assert_eq!(
            many.sentences(),
            [
                "The busiest 256th of the ring, starting at token -72057594037927936, has 25 % of the \
              partitions read and written: 65 times the mean."
            ]
        );
    }

    #[test]
    fn whatever_is_not_known_is_said_with_its_reason() {
        let report = report(|load, _| {
            load.unplaced = (1..)
                .zip(Unplaced::ALL)
                .map(|(count, why)| (why, count))
                .collect();
            load.coordinator_unknown = 8;
            load.without_keys = 1;
            node(load, "a", "east", [1, 0, 0]);
        });
        let lines = unknown(&report, Some("RandomPartitioner"));
        assert_eq!(lines.len(), Unplaced::ALL.len() + 1);
        assert!(lines[1].contains("`RandomPartitioner`"), "{lines:?}");
        assert!(
            lines[4].starts_with("The coordinator of 8 executions is not known"),
            "{lines:?}"
        );
        let reasons: std::collections::BTreeSet<_> = lines.iter().collect();
        assert_eq!(reasons.len(), lines.len());
        let sentences = report.sentences();
        assert!(
            sentences[0].starts_with("1 execution does not specify all of its partitions"),
            "{sentences:?}"
        );
    }
}
