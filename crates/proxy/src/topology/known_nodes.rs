//! The nodes of the cluster at one moment, found by each of their names.

use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, SocketAddr},
};

use cqlens_proto::types::Uuid;

/// A node, and the listener that stands for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    /// The node's identity, which outlives its addresses; none until cqlens has read it from the node.
    pub host_id: Option<Uuid>,
    /// Where the other nodes reach it: `peer` of `system.peers`, `broadcast_address` of `system.local`.
    pub broadcast: IpAddr,
    /// Where the cluster says that clients shall connect to: `rpc_address`, `native_address` and
    /// `native_port`; also the address in TOPOLOGY_CHANGE and STATUS_CHANGE.
    pub native: SocketAddr,
    /// Where cqlens says that clients shall connect to.
    pub listen: SocketAddr,
    /// Whether cqlens listens there. Clients do not learn of nodes that are not ready.
    pub ready: bool,
}

/// Nodes that have left and are remembered.
const MAX_FORMER: usize = 256;

/// All nodes of the cluster at one moment.
#[derive(Debug, Default)]
pub struct KnownNodes {
    nodes: Vec<NodeAddress>,
    /// Nodes that have left, the last ones first: clients may still have to learn that they are gone.
    former: Vec<NodeAddress>,
    by_host_id: HashMap<Uuid, usize>,
    by_native: HashMap<SocketAddr, usize>,
    /// None where several nodes have the address, with different ports.
    by_native_ip: HashMap<IpAddr, Option<usize>>,
    by_broadcast: HashMap<IpAddr, Option<usize>>,
    listen_addresses_differ: bool,
}

impl KnownNodes {
    pub(super) fn new(nodes: Vec<NodeAddress>, before: &Self) -> Self {
        let mut known = Self::default();
        for (index, node) in nodes.iter().enumerate() {
            if let Some(host_id) = node.host_id {
                known.by_host_id.insert(host_id, index);
            }
            known.by_native.insert(node.native, index);
            let is_other = |other: &mut Option<usize>| *other = None;
            let natives = known.by_native_ip.entry(node.native.ip());
            natives.and_modify(is_other).or_insert(Some(index));
            let broadcasts = known.by_broadcast.entry(node.broadcast);
            broadcasts.and_modify(is_other).or_insert(Some(index));
        }
        let listens: HashSet<IpAddr> = nodes.iter().map(|node| node.listen.ip()).collect();
        known.listen_addresses_differ = listens.len() == nodes.len();
        known.nodes = nodes;
        let gone = before.nodes.iter().chain(&before.former);
        let gone = gone.filter(|node| known.by_native(node.native).is_none());
        known.former = gone.take(MAX_FORMER).cloned().collect();
        known
    }

    /// The node that the cluster has shown to clients at an address and port, if it does so no more.
    pub(super) fn former(&self, native: SocketAddr) -> Option<&NodeAddress> {
        self.former.iter().find(|node| node.native == native)
    }

    /// All nodes, in the order in which they were published.
    pub fn nodes(&self) -> &[NodeAddress] {
        &self.nodes
    }

    /// The node with an identity.
    pub fn by_host_id(&self, host_id: Uuid) -> Option<&NodeAddress> {
        self.nodes.get(*self.by_host_id.get(&host_id)?)
    }

    /// The node that the cluster shows to clients at an address and port.
    pub fn by_native(&self, native: SocketAddr) -> Option<&NodeAddress> {
        self.nodes.get(*self.by_native.get(&native)?)
    }

    /// The node that the cluster shows to clients at an address, whatever the port; none where several nodes
    /// share it.
    pub fn by_native_ip(&self, native: IpAddr) -> Option<&NodeAddress> {
        self.nodes.get((*self.by_native_ip.get(&native)?)?)
    }

    /// Whether every listener has an IP address of its own.
    pub(super) fn listen_addresses_differ(&self) -> bool {
        self.listen_addresses_differ
    }

    /// Whether the cluster shows any node to clients at an address.
    pub(super) fn is_native(&self, address: IpAddr) -> bool {
        self.by_native_ip.contains_key(&address)
    }

    /// The node that other nodes reach at an address; none where several nodes share it.
    pub fn by_broadcast(&self, broadcast: IpAddr) -> Option<&NodeAddress> {
        self.nodes.get((*self.by_broadcast.get(&broadcast)?)?)
    }
}
