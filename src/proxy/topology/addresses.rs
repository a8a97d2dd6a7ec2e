//! Which listener stands for which node: what discovery and the connections share.
//!
//! Discovery [publishes](Addresses::publish) a whole new view whenever the cluster or a listener changes; connections take the
//! [view](Addresses::known) of the moment. A connection that meets a node that is not in it says so, which wakes discovery
//! ([`Addresses::wanted`]), and waits for a view in which the node is ready, but never for longer than [`Addresses::patience`].

use std::{
    collections::{HashMap, HashSet},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use cqlens_proto::types::Uuid;
use tokio::sync::{Notify, watch};

use super::{
    counts::{Counters, Counts},
    hold_budget::HoldBudget,
    missing::MissingNodes,
    node::NodeIdentity,
    prepared::PreparedStatements,
};
use crate::timers;

/// How long a connection waits for a node that is not known yet, unless the operator says otherwise.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A node, and the listener that stands for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    /// The node's identity, which outlives its addresses; none until cqlens has read it from the node.
    pub host_id: Option<Uuid>,
    /// Where the other nodes reach it: `peer` of `system.peers`, `broadcast_address` of `system.local`.
    pub broadcast: IpAddr,
    /// Where the cluster says that clients shall connect to: `rpc_address`, `native_address` and `native_port`; also the address
    /// in TOPOLOGY_CHANGE and STATUS_CHANGE.
    pub native: SocketAddr,
    /// Where cqlens says that clients shall connect to.
    pub listen: SocketAddr,
    /// Whether cqlens listens there. Clients do not learn of nodes that are not ready.
    pub ready: bool,
}

/// All nodes at one moment.
#[derive(Debug, Default)]
pub struct Known {
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

impl Known {
    fn new(nodes: Vec<NodeAddress>, before: &Self) -> Self {
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

    /// The node that the cluster shows to clients at an address, whatever the port; none where several nodes share it.
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

/// What is known of the cluster's nodes, shared and replaced as a whole. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Addresses {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    known: watch::Sender<Arc<Known>>,
    wanted: Notify,
    patience: Duration,
    missing: MissingNodes,
    prepared: PreparedStatements,
    counters: Counters,
    hold_budget: HoldBudget,
}

/// Nodes that have left and are remembered.
const MAX_FORMER: usize = 256;

impl Addresses {
    /// No node is known yet; connections wait up to `patience` for one that they need.
    pub fn new(patience: Duration) -> Self {
        Self {
            shared: Arc::new(Shared {
                known: watch::Sender::default(),
                wanted: Notify::new(),
                patience,
                missing: MissingNodes::default(),
                prepared: PreparedStatements::default(),
                counters: Counters::default(),
                hold_budget: HoldBudget::default(),
            }),
        }
    }

    /// Replaces everything that was known, and wakes the connections that wait for a node.
    ///
    /// Where two entries have one host id, or one native address and port, the later one counts.
    pub fn publish(&self, nodes: Vec<NodeAddress>) {
        let publish = |known: &mut Arc<Known>| *known = Arc::new(Known::new(nodes, known));
        self.shared.known.send_modify(publish);
    }

    /// What is known now.
    pub fn known(&self) -> Arc<Known> {
        Arc::clone(&self.shared.known.borrow())
    }

    /// Waits until a connection has met a node that was not known or not ready. For discovery, which then looks at the cluster
    /// anew, and publishes what it finds; any number of such meetings before the call are one.
    pub async fn wanted(&self) {
        self.shared.wanted.notified().await;
    }

    /// Asks for the node that `find` finds, and waits until it is known and ready; none if that takes longer than
    /// [`patience`](Self::patience), or at once if that is zero.
    pub async fn ready(&self, find: impl Fn(&Known) -> Option<&NodeAddress>) -> Option<NodeAddress> {
        let found = |known: &Known| find(known).filter(|node| node.ready).cloned();
        if let Some(node) = found(&self.known()) {
            return Some(node);
        }
        self.shared.wanted.notify_one();
        let changed = self.until(|known| found(known).is_some()).await;
        changed.and_then(|known| found(&known))
    }

    /// Waits until what is known is `enough`; none if that takes longer than the patience.
    async fn until(&self, enough: impl Fn(&Known) -> bool) -> Option<Arc<Known>> {
        let mut known = self.shared.known.subscribe();
        let waited = timers::timeout(self.shared.patience, known.wait_for(|known| enough(known)));
        Some(Arc::clone(&*waited.await.ok()?.ok()?))
    }

    /// Waits until all of `nodes` are known and ready, but for those that were waited for in vain a short while ago. Which have not
    /// come, the log says. `port` is assumed where a node has none.
    pub(super) async fn wait_for(&self, nodes: &[NodeIdentity], port: u16) {
        let is_ready =
            |known: &Known, node: &NodeIdentity| node.find(known, port).is_some_and(|node| node.ready);
        let worth = |node: &&NodeIdentity| self.shared.missing.is_worth_waiting(node);
        let nodes: Vec<NodeIdentity> = nodes.iter().filter(worth).copied().collect();
        if nodes.is_empty() {
            return;
        }
        self.shared.wanted.notify_one();
        let all = |known: &Known| nodes.iter().all(|node| is_ready(known, node));
        if self.until(all).await.is_some() {
            return;
        }
        let known = self.known();
        for node in nodes {
            if !is_ready(&known, &node) {
                let waited = self.shared.patience;
                let later = |suppressed| tracing::warn!(suppressed, "more nodes have no listener");
                if self.counters().node_missing.is_new(later) {
                    tracing::warn!(%node, ?waited, "a node has no listener: clients do not hear of it");
                }
                self.shared.missing.note(node);
            }
        }
    }

    /// What rewriting has done so far.
    pub fn counts(&self) -> Counts {
        self.shared.counters.read()
    }

    /// Memory for responses that are held.
    pub(super) fn hold_budget(&self) -> &HoldBudget {
        &self.shared.hold_budget
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.shared.counters
    }

    pub(super) fn prepared(&self) -> &PreparedStatements {
        &self.shared.prepared
    }

    /// How long connections wait for one node.
    pub fn patience(&self) -> Duration {
        self.shared.patience
    }
}

/// What the connections of one listener need: all nodes, and which of them is theirs.
#[derive(Debug, Clone)]
pub struct Pairing {
    /// All nodes.
    pub addresses: Addresses,
    /// The node that every connection of the listener is connected to. `own.listen` is what `system.local` shows.
    pub own: Arc<NodeAddress>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn node(number: u8, ready: bool) -> NodeAddress {
        NodeAddress {
            host_id: Some(Uuid([number; 16])),
            broadcast: IpAddr::from([10, 0, 0, number]),
            native: SocketAddr::from(([10, 1, 0, number], 9042)),
            listen: SocketAddr::from(([127, 0, 1, number], 9042)),
            ready,
        }
    }

    #[test]
    fn a_node_is_found_by_each_of_its_names() {
        let addresses = Addresses::new(PATIENCE);
        addresses.publish(vec![node(1, true), node(2, true)]);
        let known = addresses.known();
        assert_eq!(known.by_host_id(Uuid([2; 16])), Some(&node(2, true)));
        assert_eq!(known.by_native(node(2, true).native), Some(&node(2, true)));
        assert_eq!(
            known.by_native_ip(node(2, true).native.ip()),
            Some(&node(2, true))
        );
        assert_eq!(known.by_broadcast(node(2, true).broadcast), Some(&node(2, true)));
        assert_eq!(known.by_broadcast(node(3, true).broadcast), None);
    }

    #[test]
    fn an_address_that_nodes_share_names_none_of_them() {
        let mut second = node(2, true);
        second.native = SocketAddr::new(node(1, true).native.ip(), 9043);
        let addresses = Addresses::new(PATIENCE);
        addresses.publish(vec![node(1, true), second.clone()]);
        let known = addresses.known();
        assert_eq!(known.by_native_ip(second.native.ip()), None);
        assert_eq!(known.by_native(second.native), Some(&second));
    }

    #[tokio::test]
    async fn a_connection_that_waits_for_a_node_gets_it_when_it_is_ready() {
        let addresses = Addresses::new(PATIENCE);
        addresses.publish(vec![node(1, true)]);
        let discovery = addresses.clone();
        let discovery = tokio::spawn(async move {
            discovery.wanted().await;
            discovery.publish(vec![node(1, true), node(2, false)]);
            tokio::time::sleep(Duration::from_millis(20)).await;
            discovery.publish(vec![node(1, true), node(2, true)]);
        });
        let found = addresses.ready(|known| known.by_host_id(Uuid([2; 16]))).await;
        assert_eq!(found, Some(node(2, true)));
        discovery.await.unwrap();
    }

    #[tokio::test]
    async fn a_wait_ends_with_the_patience() {
        let patience = Duration::from_millis(50);
        let addresses = Addresses::new(patience);
        addresses.publish(vec![node(1, false)]);
        let before = tokio::time::Instant::now();
        let found = addresses.ready(|known| known.by_host_id(Uuid([1; 16])));
        assert_eq!(found.await, None);
        assert!(before.elapsed() >= patience);
    }
}
