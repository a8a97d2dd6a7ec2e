//! Where on the ring the traffic goes: by node, and by token.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, de::Error};

use super::{
    counts::{self, raise},
    coverage::add_counts,
    sketch::meter,
};

/// Which nodes the traffic of a window goes to, and which parts of the ring.
///
/// Speaks of executions of SELECT, INSERT, UPDATE, DELETE and BATCH on user keyspaces that the server did not
/// refuse, each page being one. A partition counts once for each of them that names its whole key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Load {
    /// By `host_id`; a node without one by its address. Those that were known and had nothing to do are there
    /// with zeros.
    #[serde(deserialize_with = "meter::map")]
    pub nodes: BTreeMap<String, NodeLoad>,
    /// By token; empty with another partitioner than Murmur3.
    pub ring: RingLoad,
    /// Executions that went to an address that no known node tells: their coordinator is not known.
    pub coordinator_unknown: u64,
    /// Partitions whose replicas are not known, by the reason; they are in no node's reads and writes.
    #[serde(deserialize_with = "meter::map")]
    pub unplaced: BTreeMap<Unplaced, u64>,
    /// Executions that do not name all of their partitions, such as scans: what they touch beyond those is in
    /// no node's reads and writes, and in no part of the ring.
    pub without_keys: u64,
}

impl Load {
    /// Adds what `other` has counted.
    pub(super) fn merge(&mut self, other: &Self) {
        for (id, load) in &other.nodes {
            self.nodes.entry(id.clone()).or_default().merge(load);
        }
        self.keep_busiest();
        self.ring.merge(&other.ring);
        raise(&mut self.coordinator_unknown, other.coordinator_unknown);
        add_counts(&mut self.unplaced, &other.unplaced);
        raise(&mut self.without_keys, other.without_keys);
    }
}

/// How many nodes are told apart, thrice as many as the largest clusters have; what the idlest of further
/// ones did is not known.
const MAX_NODES: usize = 4_096;

impl Load {
    /// Lets go of the idlest nodes where there are too many: of a fleet whose nodes come and go, or made up
    /// by a hostile one.
    pub fn keep_busiest(&mut self) {
        if self.nodes.len() <= MAX_NODES {
            return;
        }
        let work = |load: &NodeLoad| load.coordinated + load.reads + load.writes;
        let mut works: Vec<_> = self
            .nodes
            .iter()
            .map(|(id, load)| (work(load), id.clone()))
            .collect();
        works.sort_unstable_by(|a, b| b.cmp(a));
        for (_, id) in works.drain(counts::kept(MAX_NODES)..) {
            if let Some(load) = self.nodes.remove(&id) {
                raise(&mut self.coordinator_unknown, load.coordinated);
            }
        }
    }
}

/// Why nobody can tell which nodes hold a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Unplaced {
    /// No node has told its tokens: there is no control connection, or not yet.
    RingUnknown,
    /// The partitioner is not Murmur3.
    OtherPartitioner,
    /// The keyspace's tables are placed by Scylla's tablets, not by the ring.
    Tablets,
    /// The keyspace is not known, or has a replication strategy of its own.
    ReplicationUnknown,
}

impl Unplaced {
    /// All of them, in order.
    pub const ALL: [Self; 4] = [
        Self::RingUnknown,
        Self::OtherPartitioner,
        Self::Tablets,
        Self::ReplicationUnknown,
    ];
}

/// What a node had to do, as far as keys and the ring are known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeLoad {
    /// Where clients reach it.
    pub address: Option<String>,
    /// Its datacenter.
    pub data_center: Option<String>,
    /// Its rack.
    pub rack: Option<String>,
    /// Executions that it coordinated.
    pub coordinated: u64,
    /// Partitions read that it holds a replica of. Which of the replicas has answered is not known.
    pub reads: u64,
    /// Partitions written that it holds a replica of.
    pub writes: u64,
    /// Its reads and writes beside those of its datacenter.
    pub in_ring: InRing,
}

/// Reads and writes of a node while it had a part of the ring, beside those of its datacenter's nodes that had one, too:
/// nodes that come and go are compared with what others had to do meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InRing {
    /// Its own.
    pub own: u64,
    /// The mean of all nodes, this one included.
    pub mean: u64,
}

impl NodeLoad {
    /// Adds the load of `other`, the same node at another time; what is newer about its place stays unknown,
    /// so the greater text wins.
    pub(super) fn merge(&mut self, other: &Self) {
        self.address = self.address.take().max(other.address.clone());
        self.data_center = self.data_center.take().max(other.data_center.clone());
        self.rack = self.rack.take().max(other.rack.clone());
        raise(&mut self.coordinated, other.coordinated);
        raise(&mut self.reads, other.reads);
        raise(&mut self.writes, other.writes);
        raise(&mut self.in_ring.own, other.in_ring.own);
        raise(&mut self.in_ring.mean, other.in_ring.mean);
    }
}

/// Partitions read and written, by the part of the ring that their tokens are in.
///
/// The ring of Murmur3 tokens is cut into [`RingLoad::SLICES`] equal slices, whatever nodes there are: so the
/// loads of windows add up although nodes come and go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RingLoad {
    /// By slice; empty until something is counted.
    #[serde(deserialize_with = "slices")]
    reads: Vec<u64>,
    #[serde(deserialize_with = "slices")]
    writes: Vec<u64>,
}

impl RingLoad {
    /// How many slices there are.
    pub const SLICES: usize = 256;

    /// Counts a read, or else a write, of the partition with the token.
    pub fn count(&mut self, is_read: bool, token: i64) {
        if is_read {
            self.read(token);
        } else {
            self.write(token);
        }
    }

    /// Counts a read of the partition with the token.
    pub fn read(&mut self, token: i64) {
        count(&mut self.reads, token);
    }

    /// Counts a write of the partition with the token.
    pub fn write(&mut self, token: i64) {
        count(&mut self.writes, token);
    }

    /// Reads and writes of each slice, from the smallest token on; empty if nothing was counted.
    pub fn slices(&self) -> impl Iterator<Item = (u64, u64)> {
        let slices = self.reads.len().max(self.writes.len());
        let of = |counts: &[u64], slice| counts.get(slice).copied().unwrap_or(0);
        (0..slices).map(move |slice| (of(&self.reads, slice), of(&self.writes, slice)))
    }

    /// The first token of a slice, of which there are [`RingLoad::SLICES`].
    pub fn first_token(slice: usize) -> i64 {
        let slice = u64::try_from(slice).unwrap_or(0);
        ((slice << SLICE_BITS) ^ (1 << 63)).cast_signed()
    }

    /// Adds what `other` has counted.
    pub(super) fn merge(&mut self, other: &Self) {
        add(&mut self.reads, &other.reads);
        add(&mut self.writes, &other.writes);
    }
}

/// What is stored, if there are no more than [`RingLoad::SLICES`].
fn slices<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    let slices = meter::list(deserializer)?;
    match slices.len() <= RingLoad::SLICES {
        true => Ok(slices),
        false => Err(D::Error::custom("more slices than the ring has")),
    }
}

/// A slice has 2^56 tokens: the slice is a token's highest byte.
const SLICE_BITS: u32 = 56;

fn count(counts: &mut Vec<u64>, token: i64) {
    if counts.is_empty() {
        begin(counts);
    }
    // From the smallest token, which is negative, upwards.
    let slice = (token.cast_unsigned() ^ (1 << 63)) >> SLICE_BITS;
    if let Some(count) = usize::try_from(slice)
        .ok()
        .and_then(|slice| counts.get_mut(slice))
    {
        *count += 1;
    }
}

#[cold]
fn begin(counts: &mut Vec<u64>) {
    counts.resize(RingLoad::SLICES, 0);
}

fn add(counts: &mut Vec<u64>, other: &[u64]) {
    if counts.len() < other.len() {
        counts.resize(other.len(), 0);
    }
    for (count, other) in counts.iter_mut().zip(other) {
        raise(count, *other);
    }
}

/// Whether executions that touch a single partition went to a node that holds it.
///
/// Where they did, the coordinator is a replica and reads or writes the partition itself. A driver that knows
/// the ring makes it so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Routing {
    /// The coordinator holds the partition.
    pub replica: u64,
    /// It does not, and has to ask others.
    pub other: u64,
    /// Nobody knows: the coordinator is not known, or the partition's replicas are not.
    pub unknown: u64,
}

/// Where one execution that touches a single partition went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Routed {
    /// To a node that holds the partition.
    ToReplica,
    /// To another one.
    ToOther,
    /// Not known.
    Unknown,
}

impl Routing {
    /// Counts an execution.
    pub fn count(&mut self, routed: Routed) {
        *match routed {
            Routed::ToReplica => &mut self.replica,
            Routed::ToOther => &mut self.other,
            Routed::Unknown => &mut self.unknown,
        } += 1;
    }

    /// Share of the executions of which it is known whose coordinator holds the partition, 0.0..=1.0; none
    /// where it never was.
    pub fn share(&self) -> Option<f64> {
        let all = self.replica + self.other;
        (all > 0).then(|| self.replica as f64 / all as f64)
    }

    /// Adds what `other` has counted.
    pub fn merge(&mut self, other: &Self) {
        raise(&mut self.replica, other.replica);
        raise(&mut self.other, other.other);
        raise(&mut self.unknown, other.unknown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_fall_into_equal_slices() {
        let mut load = RingLoad::default();
        assert_eq!(load.slices().count(), 0);
        for token in [i64::MIN, -1, 0, i64::MAX] {
            load.read(token);
        }
        load.write(RingLoad::first_token(3));
        load.write(RingLoad::first_token(4) - 1);
        let counted: Vec<_> = load
            .slices()
            .enumerate()
            .filter(|(_, counts)| *counts != (0, 0))
            .collect();
        assert_eq!(
            counted,
            [
                (0, (1, 0)),
                (3, (0, 2)),
                (127, (1, 0)),
                (128, (1, 0)),
                (255, (1, 0))
            ]
        );
        assert_eq!(RingLoad::first_token(0), i64::MIN);
        assert_eq!(RingLoad::first_token(128), 0);
    }

    #[test]
    fn of_too_many_nodes_the_busiest_stay() {
        let mut load = Load::default();
        for number in 0..2 * MAX_NODES as u64 {
            let node = load.nodes.entry(format!("node {number}")).or_default();
            node.coordinated = number;
        }
        let sum = |load: &Load| load.nodes.values().map(|node| node.coordinated).sum::<u64>();
        let all = sum(&load);
        load.merge(&Load::default());
        assert_eq!(load.nodes.len(), counts::kept(MAX_NODES));
        assert!(load.nodes.contains_key(&format!("node {}", 2 * MAX_NODES - 1)));
        assert_eq!(sum(&load) + load.coordinator_unknown, all);
    }

    #[test]
    fn loads_merge_in_any_order() {
        let (mut a, mut b) = (RingLoad::default(), RingLoad::default());
        a.read(1);
        b.write(1);
        b.write(i64::MAX);
        let (mut ab, mut ba) = (a.clone(), b.clone());
        ab.merge(&b);
        ba.merge(&a);
        assert_eq!(ab, ba);

        let node = |address: &str, reads| NodeLoad {
            address: Some(address.to_owned()),
            reads,
            ..NodeLoad::default()
        };
        let (old, new) = (node("10.0.0.1", 2), node("10.0.0.2", 3));
        let (mut left, mut right) = (old.clone(), new.clone());
        left.merge(&new);
        right.merge(&old);
        assert_eq!((&left, left.reads), (&right, 5));
    }

    #[test]
    fn a_share_is_known_once_something_was_counted() {
        assert_eq!(Routing::default().share(), None);
        let mut routing = Routing::default();
        for routed in [
            Routed::ToReplica,
            Routed::ToOther,
            Routed::ToReplica,
            Routed::Unknown,
        ] {
            routing.count(routed);
        }
        routing.merge(&Routing {
            replica: 1,
            other: 0,
            unknown: 2,
        });
        assert_eq!(
            routing,
            Routing {
                replica: 3,
                other: 1,
                unknown: 3
            }
        );
        assert_eq!(routing.share(), Some(0.75));
    }
}
