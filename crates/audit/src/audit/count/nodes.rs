//! What the nodes of the cluster had to do: the node that coordinates an execution, and those that hold its
//! partitions.
//!
//! Nodes are small numbers here, their places in the cluster that the auditor last saw; they get their names
//! when a window is taken.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use crate::audit::exchange::{Exchange, NamedKeys, replicas::ReplicaLookup};
use crate::catalog::{ClusterState, Node};
use cqlens_cql::footprint::{Count, Footprint};
use cqlens_window::{Load, NodeLoad, Routed, Unplaced};

/// What the nodes of a cluster had to do since a window began.
#[derive(Debug, Default)]
pub(crate) struct NodeCounts {
    cluster: Arc<ClusterState>,
    /// By place in the cluster.
    nodes: Vec<NodeCount>,
    /// Partitions that are nowhere in it, in the order of [`Unplaced::ALL`].
    unplaced: [u64; Unplaced::ALL.len()],
}

#[derive(Debug, Clone, Copy, Default)]
struct NodeCount {
    coordinated: u64,
    reads: u64,
    writes: u64,
}

impl NodeCounts {
    /// Counts an execution that names `keys`. Whether the coordinator holds the partition; none unless a
    /// client's statement touches just one. A batch that writes one partition of two tables touches two.
    pub(crate) fn count(
        &mut self,
        load: &mut Load,
        exchange: &Exchange<'_>,
        keys: NamedKeys<'_>,
        replicas: &mut ReplicaLookup,
    ) -> Option<Routed> {
        let touching = exchange.touching();
        let execution = touching.filter(|execution| !execution.analysis.head.system)?;
        self.follow(replicas.cluster(), load);
        let coordinator = exchange.coordinator;
        match coordinator.and_then(|node| self.nodes.get_mut(usize::from(node))) {
            Some(node) => node.coordinated += 1,
            None => load.coordinator_unknown += 1,
        }
        load.without_keys += u64::from(!has_all_keys(&execution.footprint));
        let read = execution.only_reads();
        let mut routed = Routed::Unknown;
        for (table, key) in keys.iter() {
            if replicas.has_tokens() {
                load.ring.count(read, key.token);
            }
            match replicas.replicas(table, &key) {
                Ok(replicas) => {
                    self.count_replicas(replicas, read);
                    routed = match coordinator {
                        Some(node) if replicas.contains(&node) => Routed::ToReplica,
                        Some(_) => Routed::ToOther,
                        None => Routed::Unknown,
                    };
                }
                // In the order of the list, which is that of the enum.
                Err(why) => self.unplaced[why as usize] += 1,
            }
        }
        let is_one = execution.footprint.count == Count::Exact(1) && keys.len() <= 1;
        is_one.then_some(routed)
    }

    fn count_replicas(&mut self, replicas: &[u16], read: bool) {
        for &replica in replicas {
            if let Some(node) = self.nodes.get_mut(usize::from(replica)) {
                *(if read { &mut node.reads } else { &mut node.writes }) += 1;
            }
        }
    }

    /// Places mean something only in the cluster that they were counted in.
    fn follow(&mut self, cluster: &Arc<ClusterState>, load: &mut Load) {
        if !Arc::ptr_eq(&self.cluster, cluster) || self.nodes.len() != cluster.nodes.len() {
            self.begin(cluster, load);
        }
    }

    #[cold]
    fn begin(&mut self, cluster: &Arc<ClusterState>, load: &mut Load) {
        self.flush_into(load);
        self.cluster = Arc::clone(cluster);
        self.nodes.resize(cluster.nodes.len(), NodeCount::default());
    }

    /// The mean of the reads and writes of each datacenter's nodes that have a part of the ring.
    fn means(&self) -> BTreeMap<Option<String>, u64> {
        let mut sums: BTreeMap<Option<String>, (u64, u64)> = BTreeMap::new();
        let nodes = self.cluster.nodes.iter().zip(&self.nodes);
        for (node, counts) in nodes.filter(|(node, _)| !node.tokens.is_empty()) {
            let (sum, nodes) = sums.entry(node.data_center.clone()).or_default();
            *sum += counts.reads + counts.writes;
            *nodes += 1;
        }
        let means = sums.into_iter().map(|(name, (sum, nodes))| (name, sum / nodes));
        means.collect()
    }

    /// Adds everything to `load` and begins anew. Where anything was counted, all nodes are there, idle ones
    /// too.
    pub(crate) fn flush_into(&mut self, load: &mut Load) {
        let means = self.means();
        for (node, counts) in self.cluster.nodes.iter().zip(self.nodes.drain(..)) {
            if let Some(id) = node.host_id.as_ref().or(node.address.as_ref()) {
                let load = load.nodes.entry(id.clone()).or_default();
                add(load, node, counts);
                if let Some(mean) = means.get(&node.data_center).filter(|_| !node.tokens.is_empty()) {
                    load.in_ring.own += counts.reads + counts.writes;
                    load.in_ring.mean += mean;
                }
            }
        }
        load.keep_busiest();
        for (why, count) in Unplaced::ALL.into_iter().zip(std::mem::take(&mut self.unplaced)) {
            if count > 0 {
                *load.unplaced.entry(why).or_default() += count;
            }
        }
    }
}

fn add(load: &mut NodeLoad, node: &Node, counts: NodeCount) {
    load.address = address(node);
    load.data_center.clone_from(&node.data_center);
    load.rack.clone_from(&node.rack);
    load.coordinated += counts.coordinated;
    load.reads += counts.reads;
    load.writes += counts.writes;
}

/// Address and port as the cluster announces them to drivers; the address alone where it announces no port.
fn address(node: &Node) -> Option<String> {
    let address = node.address.clone()?;
    let Some(port) = node.port else {
        return Some(address);
    };
    let socket = address.parse().map(|ip| SocketAddr::new(ip, port).to_string());
    Some(socket.unwrap_or(address))
}

fn has_all_keys(footprint: &Footprint) -> bool {
    footprint.keys_missing.is_none() && matches!(footprint.count, Count::Exact(_) | Count::AtLeast(..))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;
    use crate::{
        audit::{
            Audit, HashKey,
            testing::{query, void},
        },
        catalog::Live,
    };
    use cqlens_capture::{Clock, Connection, ConnectionId, Queue, QueueLimits, Tap};
    use cqlens_cql::schema::Schema;
    use cqlens_proto::{envelope::Direction, message::Consistency};
    use cqlens_window::{Routing, Window};
    use jiff::Timestamp;

    const SCHEMA: &str = "
        CREATE KEYSPACE one WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE KEYSPACE two WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2};
        CREATE KEYSPACE own WITH replication = {'class': 'com.example.OurStrategy'};
        CREATE TABLE one.t (k int PRIMARY KEY, v int);
        CREATE TABLE two.t (k int PRIMARY KEY, v int);
        CREATE TABLE own.t (k int PRIMARY KEY, v int);";

    /// The tokens of the keys 10, 1 and 2 lie in this order, one in each node's range.
    const TOKENS: [i64; 3] = [-5_000_000_000_000_000_000, -3_400_000_000_000_000_000, 0];
    const A: &str = "10.0.0.1:9042";
    const B: &str = "10.0.0.2:9042";

    fn node(number: u8) -> Node {
        Node {
            broadcast: None,
            host_id: Some(format!("host {number}")),
            address: Some(format!("10.0.0.{number}")),
            port: Some(9042),
            data_center: Some("dc1".to_owned()),
            rack: Some(format!("r{number}")),
            tokens: TOKENS.get(usize::from(number) - 1).copied().into_iter().collect(),
        }
    }

    fn cluster(partitioner: &str, nodes: &[u8]) -> ClusterState {
        ClusterState {
            partitioner: Some(partitioner.to_owned()),
            nodes: nodes.iter().map(|number| node(*number)).collect(),
            ..ClusterState::default()
        }
    }

    /// An audit of connections to several nodes.
    struct Observed {
        live: Arc<Live>,
        queue: Arc<Queue>,
        audit: Audit,
        connections: u64,
    }

    impl Observed {
        fn on(cluster: ClusterState) -> Self {
            let live = Arc::new(Live::with_schema(Schema::from_cql(SCHEMA).unwrap()));
            live.replace_cluster(cluster);
            let queue = Arc::new(Queue::new(QueueLimits::default()));
            let now = Timestamp::UNIX_EPOCH;
            let audit = Audit::start(Arc::clone(&queue), &live, HashKey::random(), "test", now).unwrap();
            Self {
                live,
                queue,
                audit,
                connections: 0,
            }
        }

        /// Sends statements over a connection of their own; each is answered with a RESULT of kind void.
        fn send(&mut self, upstream: &str, statements: &[&str]) {
            let client = "127.0.0.1:5".parse().unwrap();
            let connection = Arc::new(Connection::new(ConnectionId(self.connections), client));
            self.connections += 1;
            connection.reaches(upstream.parse().unwrap());
            let tap = |direction| {
                Tap::new(
                    Arc::clone(&connection),
                    direction,
                    Arc::clone(&self.queue),
                    Clock::start(),
                )
            };
            let (mut requests, mut responses) = (tap(Direction::Request), tap(Direction::Response));
            for cql in statements {
                requests.offer(&query(cql, Consistency::One));
                responses.offer(&void());
            }
            connection.close(Clock::start().now());
        }

        /// Waits until so many statements have been counted; their window.
        fn window_of(&self, statements: u64) -> Window {
            let mut all = self.audit.take_window(Timestamp::UNIX_EPOCH);
            while all.coverage.audited < statements {
                std::thread::yield_now();
                all.merge(&self.audit.take_window(Timestamp::UNIX_EPOCH));
            }
            all
        }

        fn end(self) -> Window {
            self.audit.stop(Timestamp::UNIX_EPOCH)
        }
    }

    /// What each node coordinated, read and wrote, in the order of their names.
    fn nodes(load: &Load) -> Vec<(&str, u64, u64, u64)> {
        let nodes = load.nodes.iter();
        nodes
            .map(|(id, node)| (id.as_str(), node.coordinated, node.reads, node.writes))
            .collect()
    }

    fn routing(window: &Window, template: &str) -> Routing {
        let mut patterns = window.patterns.values();
        let found = patterns.find(|pattern| pattern.head.cql == template);
        found
            .unwrap_or_else(|| panic!("no {template} in {:#?}", window.patterns))
            .routing
    }

    #[test]
    fn every_replica_of_every_partition_that_is_named_has_its_load() {
        let mut observed = Observed::on(cluster("Murmur3Partitioner", &[1, 2, 3]));
        observed.send(
            A,
            &[
                "SELECT v FROM one.t WHERE k = 10",
                "SELECT v FROM one.t WHERE k = 1",
                "SELECT v FROM two.t WHERE k IN (1, 2, 2)",
            ],
        );
        observed.send(
            B,
            &[
                "INSERT INTO two.t (k, v) VALUES (10, 1)",
                "BEGIN BATCH UPDATE one.t SET v = 1 WHERE k = 2; UPDATE one.t SET v = 2 WHERE k = 2; APPLY BATCH",
                "SELECT v FROM one.t",
                "SELECT * FROM system.local",
            ],
        );
        let window = observed.end();
        let load = &window.load;
        assert_eq!(
            nodes(load),
            [("host 1", 3, 2, 1), ("host 2", 3, 2, 1), ("host 3", 0, 2, 1)],
        );
        assert_eq!(
            (load.coordinator_unknown, &load.unplaced, load.without_keys),
            (0, &[].into(), 1)
        );
        let (reads, writes) = load
            .ring
            .slices()
            .fold((0, 0), |all, slice| (all.0 + slice.0, all.1 + slice.1));
        assert_eq!((reads, writes), (4, 2));
        let of = |replica, other, unknown| Routing {
            replica,
            other,
            unknown,
        };
        assert_eq!(routing(&window, "SELECT v FROM one.t WHERE k = ?"), of(1, 1, 0));
        assert_eq!(routing(&window, "SELECT v FROM two.t WHERE k IN ?"), of(0, 0, 0));
        assert_eq!(
            routing(&window, "INSERT INTO two.t (k, v) VALUES (?, ?)"),
            of(1, 0, 0)
        );
        let batch = "BEGIN BATCH UPDATE one.t SET v = ? WHERE k = ?; APPLY BATCH";
        assert_eq!(routing(&window, batch), of(0, 1, 0));
        assert_eq!(routing(&window, "SELECT v FROM one.t"), of(0, 0, 0));
    }

    #[test]
    fn a_node_is_compared_with_those_that_had_a_part_of_the_ring_meanwhile() {
        let mut nodes = cluster("Murmur3Partitioner", &[1, 2, 3]);
        // Coordinates, and owns nothing.
        nodes.nodes.push(Node {
            tokens: Vec::new(),
            ..node(4)
        });
        let mut observed = Observed::on(nodes);
        observed.send(A, &["SELECT v FROM one.t WHERE k = 1"; 6]);
        let mut all = observed.window_of(6);
        observed
            .live
            .replace_cluster(cluster("Murmur3Partitioner", &[1, 3]));
        observed.send(A, &["SELECT v FROM one.t WHERE k = 1"; 4]);
        all.merge(&observed.end());
        let in_ring = |id| {
            let node: &NodeLoad = &all.load.nodes[id];
            (node.in_ring.own, node.in_ring.mean)
        };
        assert_eq!(in_ring("host 1"), (0, 2 + 2));
        assert_eq!(in_ring("host 2"), (6, 2));
        assert_eq!(in_ring("host 3"), (4, 2 + 2));
        assert_eq!(in_ring("host 4"), (0, 0));
    }

    #[test]
    fn what_cannot_be_placed_says_why() {
        for (partitioner, keyspace, why, in_ring) in [
            ("Murmur3Partitioner", "own", Unplaced::ReplicationUnknown, 1),
            ("RandomPartitioner", "one", Unplaced::OtherPartitioner, 0),
        ] {
            let mut observed = Observed::on(cluster(partitioner, &[1, 2, 3]));
            observed.send(A, &[&format!("SELECT v FROM {keyspace}.t WHERE k = 1")]);
            let window = observed.end();
            assert_eq!(window.load.unplaced, [(why, 1)].into());
            let in_slices: u64 = window.load.ring.slices().map(|(reads, _)| reads).sum();
            assert_eq!(in_slices, in_ring);
            let pattern = window.patterns.values().next().unwrap();
            assert_eq!(pattern.routing.unknown, 1);
        }
        let mut nothing_read = Observed::on(ClusterState::default());
        nothing_read.send(A, &["SELECT v FROM one.t WHERE k = 1"]);
        let load = nothing_read.end().load;
        assert_eq!(load.unplaced, [(Unplaced::RingUnknown, 1)].into());
        assert_eq!((load.coordinator_unknown, load.nodes.len()), (1, 0));
    }

    #[test]
    fn tablets_are_not_placed_by_the_ring() {
        let mut schema = Schema::from_cql(SCHEMA).unwrap();
        schema.keyspaces.get_mut("one").unwrap().tablets = true;
        let mut observed = Observed::on(cluster("Murmur3Partitioner", &[1, 2, 3]));
        observed
            .live
            .replace_schema(schema, observed.live.begin_reading());
        observed.send(A, &["SELECT v FROM one.t WHERE k = 1"]);
        assert_eq!(observed.end().load.unplaced, [(Unplaced::Tablets, 1)].into());
    }

    #[test]
    fn behind_an_address_that_no_node_tells_the_coordinator_is_not_known() {
        let mut observed = Observed::on(cluster("Murmur3Partitioner", &[1, 2, 3]));
        observed.send("10.9.9.9:9042", &["SELECT v FROM one.t WHERE k = 1"]);
        let window = observed.end();
        assert_eq!(
            nodes(&window.load),
            [("host 1", 0, 0, 0), ("host 2", 0, 1, 0), ("host 3", 0, 0, 0)]
        );
        assert_eq!(window.load.coordinator_unknown, 1);
        assert_eq!(routing(&window, "SELECT v FROM one.t WHERE k = ?").unknown, 1);
    }

    #[test]
    fn loads_stay_with_their_nodes_when_the_cluster_changes() {
        let mut observed = Observed::on(cluster("Murmur3Partitioner", &[1, 2, 3]));
        observed.send(B, &["SELECT v FROM one.t WHERE k = 1"]);
        let mut all = observed.window_of(1);
        // The second node has gone, and the third one has its place and its part of the ring.
        observed
            .live
            .replace_cluster(cluster("Murmur3Partitioner", &[1, 3]));
        observed.send("10.0.0.3:9042", &["SELECT v FROM one.t WHERE k = 1"]);
        all.merge(&observed.end());
        assert_eq!(
            nodes(&all.load),
            [("host 1", 0, 0, 0), ("host 2", 1, 1, 0), ("host 3", 1, 1, 0)]
        );
        assert_eq!(routing(&all, "SELECT v FROM one.t WHERE k = ?").replica, 2);
        assert_eq!(all.load.nodes["host 3"].address.as_deref(), Some("10.0.0.3:9042"));
    }
}
