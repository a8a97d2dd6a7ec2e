//! Which listener stands for which node: the one thing that discovery and the connections share.
//!
//! Discovery [publishes](Addresses::publish) a whole new view whenever the cluster or a listener changes; connections take the
//! [view](Addresses::known) of the moment. A connection that meets a node that is not in it says so, which wakes discovery
//! ([`Addresses::wanted`]), and waits for a view in which the node is ready, but never for longer than [`Addresses::patience`].

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use cqlens_proto::types::Uuid;
use tokio::sync::{Notify, watch};

/// How long a connection waits for a node that is not known yet, unless the operator says otherwise.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// A node, and the listener that stands for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeAddress {
    /// The node's identity, which outlives its addresses; none where the node was not asked yet.
    pub host_id: Option<Uuid>,
    /// Where the other nodes reach it: `peer` of `system.peers`, `broadcast_address` of `system.local`.
    pub broadcast: IpAddr,
    /// Where the cluster says that clients shall connect to: `rpc_address`, `native_address` and `native_port`; also the address
    /// in TOPOLOGY_CHANGE and STATUS_CHANGE.
    pub native: SocketAddr,
    /// Where cqlens says that clients shall connect to.
    pub listen: SocketAddr,
    /// Whether somebody listens there. Clients do not hear of nodes that are not ready.
    pub ready: bool,
}

/// All nodes at one moment.
#[derive(Debug, Default)]
pub struct Known {
    nodes: Vec<NodeAddress>,
    by_host_id: HashMap<Uuid, usize>,
    by_native: HashMap<SocketAddr, usize>,
    /// None where several nodes have the address, with different ports.
    by_native_ip: HashMap<IpAddr, Option<usize>>,
    by_broadcast: HashMap<IpAddr, Option<usize>>,
}

impl Known {
    fn new(nodes: Vec<NodeAddress>) -> Self {
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
        known.nodes = nodes;
        known
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
}

impl Addresses {
    /// No node is known yet; connections wait up to `patience` for one that they need.
    pub fn new(patience: Duration) -> Self {
        Self {
            shared: Arc::new(Shared {
                known: watch::Sender::default(),
                wanted: Notify::new(),
                patience,
            }),
        }
    }

    /// Replaces everything that was known, and wakes who waits for a node.
    ///
    /// Where two entries have one host id, or one native address and port, the later one counts.
    pub fn publish(&self, nodes: Vec<NodeAddress>) {
        self.shared.known.send_replace(Arc::new(Known::new(nodes)));
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
        let mut known = self.shared.known.subscribe();
        if let Some(node) = found(&known.borrow_and_update()) {
            return Some(node);
        }
        self.shared.wanted.notify_one();
        let in_time = tokio::time::timeout(self.shared.patience, async {
            // The sender is in `self`: this cannot fail.
            while known.changed().await.is_ok() {
                if let Some(node) = found(&known.borrow_and_update()) {
                    return Some(node);
                }
            }
            None
        });
        in_time.await.ok().flatten()
    }

    /// How long connections wait for one node.
    pub fn patience(&self) -> Duration {
        self.shared.patience
    }
}

/// What the connections of one listener have to know: all nodes, and which of them is theirs.
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
    async fn who_waits_for_a_node_gets_it_when_it_is_ready() {
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
    async fn nobody_waits_for_longer_than_the_patience() {
        let patience = Duration::from_millis(50);
        let addresses = Addresses::new(patience);
        addresses.publish(vec![node(1, false)]);
        let before = tokio::time::Instant::now();
        let found = addresses.ready(|known| known.by_host_id(Uuid([1; 16])));
        assert_eq!(found.await, None);
        assert!(before.elapsed() >= patience);
    }
}
