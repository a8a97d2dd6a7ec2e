//! Which nodes an execution goes to: the one that coordinates it, and those that hold its partitions.
//!
//! Nodes are small numbers here, their places in the cluster that an auditor last saw; they get their names when a window is
//! taken. So counting an execution allocates nothing and looks up no names but those of keyspaces.

use std::{net::SocketAddr, sync::Arc};

use super::{
    Count, Footprint, Keys,
    exchange::{Exchange, Execution},
};
use crate::{
    catalog::{Cluster, Live, Node, Placement},
    window::{Load, NodeLoad, Routed, Unplaced},
};

/// Which nodes hold partitions, as one auditor last saw it.
#[derive(Debug)]
pub(super) struct Holders {
    live: Arc<Live>,
    /// Of the schema and the ring under which everything here was worked out.
    version: u64,
    cluster: Arc<Cluster>,
    has_tokens: bool,
    /// By name, in its order. Bounded by [`MAX_KEYSPACES`]: all are dropped when there are more.
    keyspaces: Vec<(Box<str>, Placed)>,
}

type Placed = Result<Arc<Placement>, Unplaced>;

/// More than a cluster has; names in PREPARED results are the server's word.
const MAX_KEYSPACES: usize = 4_096;

impl Holders {
    /// The ring as it is now.
    pub(super) fn new(live: Arc<Live>) -> Self {
        let (version, cluster) = (live.version(), live.cluster());
        Self {
            version,
            has_tokens: cluster.has_murmur3_tokens(),
            cluster,
            keyspaces: Vec::new(),
            live,
        }
    }

    /// Looks again, if the schema or the ring has changed.
    pub(super) fn refresh(&mut self) {
        if self.live.version() != self.version {
            *self = Self::new(Arc::clone(&self.live));
        }
    }

    fn of(&mut self, keyspace: &str) -> Result<&Placement, Unplaced> {
        let found = self
            .keyspaces
            .binary_search_by(|(name, _)| (**name).cmp(keyspace));
        let at = found.unwrap_or_else(|at| {
            let full = self.keyspaces.len() >= MAX_KEYSPACES;
            if full {
                self.keyspaces.clear();
            }
            let at = if full { 0 } else { at };
            self.keyspaces.insert(at, (keyspace.into(), self.place(keyspace)));
            at
        });
        match self.keyspaces.get(at) {
            Some((_, Ok(placement))) => Ok(placement),
            Some((_, Err(why))) => Err(*why),
            None => Err(Unplaced::RingUnknown),
        }
    }

    fn place(&self, keyspace: &str) -> Placed {
        let placement = self.live.placement(keyspace);
        // Another ring may have come meanwhile, whose nodes have other numbers: the next look finds a new version.
        if !Arc::ptr_eq(&self.live.cluster(), &self.cluster) {
            return Err(Unplaced::RingUnknown);
        }
        placement.ok_or_else(|| self.why_not(keyspace))
    }

    fn why_not(&self, keyspace: &str) -> Unplaced {
        let tablets = |keyspace: &crate::catalog::schema::Keyspace| keyspace.tablets;
        if self.cluster.partitioner.is_none() {
            Unplaced::RingUnknown
        } else if !self.has_tokens {
            Unplaced::OtherPartitioner
        } else if self.live.schema().keyspaces.get(keyspace).is_some_and(tablets) {
            Unplaced::Tablets
        } else if self.cluster.nodes.iter().all(|node| node.tokens.is_empty()) {
            Unplaced::RingUnknown
        } else {
            Unplaced::ReplicationUnknown
        }
    }
}

/// The node at the other end of a connection.
#[derive(Debug, Clone, Default)]
pub(super) struct Coordinator {
    address: Option<SocketAddr>,
    /// What was found, under which version of the ring.
    found: Option<(u64, Option<u16>)>,
}

impl Coordinator {
    /// Whoever listens at `address`.
    pub(super) fn at(address: Option<SocketAddr>) -> Self {
        Self { address, found: None }
    }

    /// Its place in the cluster; none where the address is no node's.
    pub(super) fn node(&mut self, holders: &Holders) -> Option<u16> {
        match self.found {
            Some((version, node)) if version == holders.version => node,
            _ => {
                let node = self.address.and_then(|address| holders.cluster.node_at(address));
                self.found = Some((holders.version, node));
                node
            }
        }
    }
}

/// What the nodes of a cluster had to do since a window began.
#[derive(Debug, Default)]
pub(super) struct NodeCounts {
    cluster: Arc<Cluster>,
    /// By place in the cluster.
    nodes: Vec<Counts>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    coordinated: u64,
    reads: u64,
    writes: u64,
}

impl NodeCounts {
    /// Counts an execution that names `keys`; where it went, if it touches a single partition.
    pub(super) fn count(
        &mut self,
        load: &mut Load,
        exchange: &Exchange<'_>,
        keys: &Keys,
        holders: &mut Holders,
    ) -> Option<Routed> {
        let execution = exchange.execution.as_ref().filter(|execution| {
            let analysis = &execution.analysis;
            analysis.touches_partitions() && !analysis.head.system && !exchange.outcome.is_refused()
        })?;
        self.follow(&holders.cluster, load);
        let coordinator = exchange.coordinator;
        match coordinator.and_then(|node| self.nodes.get_mut(usize::from(node))) {
            Some(node) => node.coordinated += 1,
            None => load.coordinator_unknown += 1,
        }
        load.without_keys += u64::from(!has_all_keys(&execution.footprint));
        let mut holds = None;
        for key in keys.iter() {
            let read = execution.analysis.head.kind.is_read();
            if holders.has_tokens {
                load.ring.count(read, key.token);
            }
            match holders.of(&key.table.keyspace) {
                Ok(placement) => {
                    let replicas = placement.replicas(key.token);
                    self.count_replicas(replicas, read);
                    holds = coordinator.map(|node| replicas.contains(&node));
                }
                Err(why) => *load.unplaced.entry(why).or_default() += 1,
            }
        }
        touches_one(execution, keys).then_some(match holds {
            Some(true) => Routed::ToReplica,
            Some(false) => Routed::ToOther,
            None => Routed::Unknown,
        })
    }

    fn count_replicas(&mut self, replicas: &[u16], read: bool) {
        for &replica in replicas {
            if let Some(node) = self.nodes.get_mut(usize::from(replica)) {
                *(if read { &mut node.reads } else { &mut node.writes }) += 1;
            }
        }
    }

    /// Places mean something only in the cluster that they were counted in.
    fn follow(&mut self, cluster: &Arc<Cluster>, load: &mut Load) {
        if !Arc::ptr_eq(&self.cluster, cluster) {
            self.pour(load);
            self.cluster = Arc::clone(cluster);
        }
        if self.nodes.len() != cluster.nodes.len() {
            self.nodes.resize(cluster.nodes.len(), Counts::default());
        }
    }

    /// Adds everything to `load` and begins anew. Where anything was counted, all nodes are there, idle ones too.
    pub(super) fn pour(&mut self, load: &mut Load) {
        for (node, counts) in self.cluster.nodes.iter().zip(self.nodes.drain(..)) {
            if let Some(id) = node.host_id.as_ref().or(node.address.as_ref()) {
                add(load.nodes.entry(id.clone()).or_default(), node, counts);
            }
        }
    }
}

fn add(load: &mut NodeLoad, node: &Node, counts: Counts) {
    load.address = address(node);
    load.data_center.clone_from(&node.data_center);
    load.rack.clone_from(&node.rack);
    load.coordinated += counts.coordinated;
    load.reads += counts.reads;
    load.writes += counts.writes;
}

/// Address and port as drivers are told; the address alone where no port is.
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

/// A batch that writes one partition of two tables touches two.
fn touches_one(execution: &Execution, keys: &Keys) -> bool {
    execution.footprint.count == Count::Exact(1) && keys.len() <= 1
}
