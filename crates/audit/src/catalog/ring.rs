//! Which nodes hold a partition: tokens, and how a keyspace's replication places them.

use std::collections::{BTreeMap, BTreeSet};

use super::{ClusterState, Node};
use cqlens_cql::schema::Keyspace;

/// How a keyspace's partitions are placed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Replication {
    /// `SimpleStrategy`: the next so many nodes of the ring.
    Simple(usize),
    /// `NetworkTopologyStrategy`: so many nodes of each datacenter, on as many racks as possible;
    /// `replication_factor` stands for the datacenters that are not named.
    NetworkTopology(BTreeMap<String, usize>),
    /// `LocalStrategy` and DSE's `EverywhereStrategy`: every node has its own copy.
    Everywhere,
    /// A custom strategy, ScyllaDB's tablets, or a map that is not understood.
    Unknown,
}

/// The option with which Cassandra 4.0 and later fill in the datacenters that a definition does not name.
const ELSEWHERE: &str = "replication_factor";

impl Replication {
    /// The replication of a keyspace; Scylla's tablets are placed by a table that only Scylla knows.
    pub fn of(keyspace: &Keyspace) -> Self {
        if keyspace.tablets {
            Self::Unknown
        } else {
            Self::of_options(&keyspace.replication)
        }
    }

    /// Reads a `replication` map. Of a factor with transient replicas (`3/1`) all replicas count.
    fn of_options(options: &BTreeMap<String, String>) -> Self {
        let class = options
            .get("class")
            .map(|class| class.rsplit('.').next().unwrap_or_default());
        match class {
            Some("SimpleStrategy") => {
                let factor = options.get(ELSEWHERE).and_then(|text| factor(text));
                factor.map_or(Self::Unknown, Self::Simple)
            }
            Some("NetworkTopologyStrategy") => {
                let centers = options.iter().filter(|(name, _)| *name != "class");
                let factors: Option<_> = centers
                    .map(|(name, text)| Some((name.clone(), factor(text)?)))
                    .collect();
                factors.map_or(Self::Unknown, Self::NetworkTopology)
            }
            Some("LocalStrategy" | "EverywhereStrategy") => Self::Everywhere,
            _ => Self::Unknown,
        }
    }
}

fn factor(text: &str) -> Option<usize> {
    text.split('/').next()?.trim().parse().ok()
}

/// The tokens of all nodes, in ascending order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ring {
    nodes: Vec<Node>,
    /// Each token with its owner, an index of `nodes`.
    tokens: Vec<(i64, u16)>,
}

impl Ring {
    /// The ring of a cluster; none where the partitioner is not Murmur3 or no node tells its tokens.
    pub fn of(cluster: &ClusterState) -> Option<Self> {
        if !cluster.has_murmur3_tokens() {
            return None;
        }
        let mut tokens = Vec::new();
        for (index, node) in cluster.nodes.iter().enumerate() {
            let owner = u16::try_from(index).ok()?;
            tokens.extend(node.tokens.iter().map(|token| (*token, owner)));
        }
        tokens.sort_unstable();
        (!tokens.is_empty()).then(|| Self {
            nodes: cluster.nodes.clone(),
            tokens,
        })
    }

    /// The replicas of every range of the ring; none where the replication is not understood, or where they
    /// take up more than `limit` bytes: a node can tell any number of tokens.
    pub fn place(&self, replication: &Replication, limit: usize) -> Option<Placement> {
        let replicas_at: Box<dyn Fn(usize) -> Vec<u16>> = match replication {
            Replication::Simple(factor) => {
                let factor = (*factor).min(self.owners().len());
                Box::new(move |range| self.next_nodes(range, factor))
            }
            Replication::NetworkTopology(factors) => {
                let centers = self.centers(factors);
                Box::new(move |range| self.by_datacenter(range, &centers))
            }
            Replication::Everywhere => {
                let owners: Vec<u16> = self.owners().into_iter().collect();
                Box::new(move |_| owners.clone())
            }
            Replication::Unknown => return None,
        };
        let mut placement = Placement {
            tokens: self.tokens.iter().map(|(token, _)| *token).collect(),
            ends: Vec::with_capacity(self.tokens.len()),
            replicas: Vec::new(),
        };
        for range in 0..self.tokens.len() {
            placement.replicas.extend(replicas_at(range));
            placement.ends.push(placement.replicas.len());
            if placement.bytes() > limit {
                return None;
            }
        }
        Some(placement)
    }

    fn owners(&self) -> BTreeSet<u16> {
        self.tokens.iter().map(|(_, owner)| *owner).collect()
    }

    /// The owners of the tokens from range `range` on, once around the ring.
    fn clockwise(&self, range: usize) -> impl Iterator<Item = u16> {
        let (before, from) = self.tokens.split_at(range.min(self.tokens.len()));
        from.iter().chain(before).map(|(_, owner)| *owner)
    }

    /// `SimpleStrategy.calculateNaturalReplicas`.
    fn next_nodes(&self, range: usize, factor: usize) -> Vec<u16> {
        let mut replicas = Vec::with_capacity(factor);
        for owner in self.clockwise(range) {
            if replicas.len() == factor {
                break;
            }
            if !replicas.contains(&owner) {
                replicas.push(owner);
            }
        }
        replicas
    }

    /// The datacenters that hold replicas, with what is the same for every range.
    fn centers(&self, factors: &BTreeMap<String, usize>) -> BTreeMap<String, Center<'_>> {
        let known: BTreeSet<_> = self
            .nodes
            .iter()
            .filter_map(|node| node.data_center.as_ref())
            .collect();
        let mut centers = BTreeMap::new();
        for name in known {
            let Some(&factor) = factors.get(name).or_else(|| factors.get(ELSEWHERE)) else {
                continue;
            };
            let nodes: Vec<&Node> = self
                .owners()
                .into_iter()
                .filter_map(|owner| self.nodes.get(usize::from(owner)))
                .filter(|node| node.data_center.as_ref() == Some(name))
                .collect();
            let racks: BTreeSet<_> = nodes.iter().map(|node| node.rack.as_deref()).collect();
            centers.insert(
                name.clone(),
                Center {
                    left: factor.min(nodes.len()),
                    repeats: factor.saturating_sub(racks.len()),
                    racks: BTreeSet::new(),
                },
            );
        }
        centers
    }

    /// `NetworkTopologyStrategy.calculateNaturalReplicas` of Cassandra 4.0 and later.
    fn by_datacenter(&self, range: usize, centers: &BTreeMap<String, Center<'_>>) -> Vec<u16> {
        let mut centers: BTreeMap<&str, Center<'_>> = centers
            .iter()
            .map(|(name, center)| (name.as_str(), center.clone()))
            .collect();
        let mut open = centers.values().filter(|center| center.left > 0).count();
        let mut replicas = Vec::new();
        for owner in self.clockwise(range) {
            if open == 0 {
                break;
            }
            let Some(node) = self.nodes.get(usize::from(owner)) else {
                continue;
            };
            let Some(center) = node.data_center.as_deref().and_then(|name| centers.get_mut(name)) else {
                continue;
            };
            if replicas.contains(&owner) || !center.takes(node.rack.as_deref()) {
                continue;
            }
            replicas.push(owner);
            open -= usize::from(center.left == 0);
        }
        replicas
    }
}

/// A datacenter while the replicas of one range are chosen.
#[derive(Debug, Clone, Default)]
struct Center<'r> {
    /// Replicas that are still wanted.
    left: usize,
    /// How many of them may be on a rack that has one already: there are more replicas than racks.
    repeats: usize,
    /// Racks that have one.
    racks: BTreeSet<Option<&'r str>>,
}

impl<'r> Center<'r> {
    /// Whether the next node of the ring, on `rack`, is a replica.
    fn takes(&mut self, rack: Option<&'r str>) -> bool {
        if self.left == 0 {
            return false;
        }
        if !self.racks.insert(rack) {
            if self.repeats == 0 {
                return false;
            }
            self.repeats -= 1;
        }
        self.left -= 1;
        true
    }
}

/// The replicas of every range of a ring under one replication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The last token of each range, ascending; the first range also has what lies beyond the last token.
    tokens: Vec<i64>,
    /// Where in `replicas` those of each range end.
    ends: Vec<usize>,
    replicas: Vec<u16>,
}

impl Placement {
    /// What it takes up.
    pub fn bytes(&self) -> usize {
        let ranges = self.tokens.capacity() * (size_of::<i64>() + size_of::<usize>());
        size_of::<Self>() + ranges + self.replicas.capacity() * size_of::<u16>()
    }

    /// The nodes that hold a token, as indices of [`ClusterState::nodes`], in the order in which the strategy
    /// chose them.
    pub fn replicas(&self, token: i64) -> &[u16] {
        let range = self.tokens.partition_point(|last| *last < token);
        let range = if range == self.tokens.len() { 0 } else { range };
        let start = range
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .copied()
            .unwrap_or(0);
        let end = self.ends.get(range).copied().unwrap_or(start);
        self.replicas.get(start..end).unwrap_or_default()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Nodes by datacenter, rack and tokens.
    fn ring(nodes: &[(&str, &str, &[i64])]) -> Ring {
        let nodes = nodes.iter().map(|(center, rack, tokens)| Node {
            data_center: Some((*center).to_owned()),
            rack: Some((*rack).to_owned()),
            tokens: tokens.to_vec(),
            ..Node::default()
        });
        let cluster = ClusterState {
            partitioner: Some("Murmur3Partitioner".to_owned()),
            nodes: nodes.collect(),
            ..ClusterState::default()
        };
        Ring::of(&cluster).unwrap()
    }

    fn replication(options: &[(&str, &str)]) -> Replication {
        let options = options
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Replication::of(&Keyspace {
            replication: options.collect(),
            ..Keyspace::default()
        })
    }

    #[test]
    fn replication_maps_are_read() {
        let simple = replication(&[
            ("class", "org.apache.cassandra.locator.SimpleStrategy"),
            ("replication_factor", "2"),
        ]);
        assert_eq!(simple, Replication::Simple(2));
        let network = replication(&[("class", "NetworkTopologyStrategy"), ("a", "3"), ("b", "3/1")]);
        let factors = [("a".to_owned(), 3), ("b".to_owned(), 3)];
        assert_eq!(network, Replication::NetworkTopology(factors.into()));
        let elsewhere = replication(&[
            ("class", "NetworkTopologyStrategy"),
            ("replication_factor", "2"),
            ("b", "0"),
        ]);
        let ring = ring(&[
            ("a", "r", &[0]),
            ("a", "r", &[10]),
            ("b", "r", &[20]),
            ("c", "r", &[30]),
        ]);
        let placement = ring.place(&elsewhere, usize::MAX).unwrap();
        assert_eq!(
            placement.replicas(25),
            [3, 0, 1],
            "all datacenters but the one that has none"
        );
        assert_eq!(
            replication(&[("class", "LocalStrategy")]),
            Replication::Everywhere
        );
        for unknown in [
            &[("class", "OurOwnStrategy")][..],
            &[("class", "SimpleStrategy")],
            &[("class", "NetworkTopologyStrategy"), ("a", "many")],
            &[],
        ] {
            assert_eq!(replication(unknown), Replication::Unknown, "{unknown:?}");
        }
        let tablets = Keyspace {
            replication: [("class".to_owned(), "LocalStrategy".to_owned())].into(),
            tablets: true,
            ..Keyspace::default()
        };
        assert_eq!(Replication::of(&tablets), Replication::Unknown);
    }

    #[test]
    fn simple_strategy_takes_the_next_nodes() {
        let ring = ring(&[("d", "r", &[-100, 50]), ("d", "r", &[0]), ("d", "r", &[100])]);
        let placement = ring.place(&Replication::Simple(2), usize::MAX).unwrap();
        for (token, replicas) in [
            (i64::MIN, [0, 1]),
            (-100, [0, 1]),
            (-99, [1, 0]),
            (0, [1, 0]),
            (1, [0, 2]),
            (51, [2, 0]),
            (100, [2, 0]),
            (101, [0, 1]),
            (i64::MAX, [0, 1]),
        ] {
            assert_eq!(placement.replicas(token), replicas, "{token}");
        }
        let more_than_nodes = ring.place(&Replication::Simple(5), usize::MAX).unwrap();
        assert_eq!(more_than_nodes.replicas(1), [0, 2, 1]);
    }

    #[test]
    fn network_topology_strategy_prefers_other_racks() {
        let ring = ring(&[
            ("a", "r1", &[0]),
            ("a", "r1", &[10]),
            ("b", "r1", &[15]),
            ("a", "r2", &[20]),
            ("c", "r1", &[30]),
        ]);
        let place = |factors: &[(&str, usize)]| {
            let factors = factors.iter().map(|(name, factor)| ((*name).to_owned(), *factor));
            ring.place(&Replication::NetworkTopology(factors.collect()), usize::MAX)
                .unwrap()
        };
        // The second node of rack r1 is passed over while rack r2 has none.
        assert_eq!(place(&[("a", 2)]).replicas(0), [0, 3]);
        // Three replicas on two racks: one rack has two.
        assert_eq!(place(&[("a", 3)]).replicas(0), [0, 1, 3]);
        assert_eq!(place(&[("a", 2), ("b", 1)]).replicas(0), [0, 2, 3]);
        assert_eq!(place(&[("a", 9), ("b", 9)]).replicas(11), [2, 3, 0, 1]);
        assert!(place(&[("elsewhere", 3)]).replicas(0).is_empty());
    }

    #[test]
    fn other_partitioners_have_no_ring() {
        for partitioner in ["RandomPartitioner", "ByteOrderedPartitioner"] {
            let cluster = ClusterState {
                partitioner: Some(partitioner.to_owned()),
                nodes: vec![Node {
                    tokens: vec![1],
                    ..Node::default()
                }],
                ..ClusterState::default()
            };
            assert_eq!(Ring::of(&cluster), None);
        }
        assert_eq!(Ring::of(&ClusterState::default()), None);
    }
}
