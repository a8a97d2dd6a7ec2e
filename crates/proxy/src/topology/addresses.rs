//! Which listener stands for which node: what discovery and the connections share.
//!
//! Discovery [publishes](Addresses::publish) a whole new view whenever the cluster or a listener changes;
//! connections take the [view](Addresses::known) of the moment. A connection that meets a node that is not in
//! it says so, which wakes discovery ([`Addresses::wanted`]), and waits for a view in which the node is
//! ready, but never for longer than [`Addresses::patience`].

use std::{sync::Arc, time::Duration};

use tokio::sync::{Notify, watch};

use super::{
    counts::{Counters, Counts},
    hold_budget::HoldBudget,
    known_nodes::{KnownNodes, NodeAddress},
    missing::MissingNodes,
    node::NodeIdentity,
    prepared::PreparedStatements,
};
use crate::timers;

/// How long a connection waits for a node that is not known yet, unless the operator says otherwise.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// What is known of the cluster's nodes, shared and replaced as a whole. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Addresses {
    shared: Arc<SharedAddresses>,
}

#[derive(Debug)]
struct SharedAddresses {
    known: watch::Sender<Arc<KnownNodes>>,
    wanted: Notify,
    patience: Duration,
    missing: MissingNodes,
    prepared: PreparedStatements,
    counters: Counters,
    hold_budget: HoldBudget,
}

impl Addresses {
    /// No node is known yet; connections wait up to `patience` for one that they need.
    pub fn new(patience: Duration) -> Self {
        Self {
            shared: Arc::new(SharedAddresses {
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
        let publish = |known: &mut Arc<KnownNodes>| *known = Arc::new(KnownNodes::new(nodes, known));
        self.shared.known.send_modify(publish);
    }

    /// What is known now.
    pub fn known(&self) -> Arc<KnownNodes> {
        Arc::clone(&self.shared.known.borrow())
    }

    /// Waits until a connection has met a node that was not known or not ready. For discovery, which then
    /// looks at the cluster anew, and publishes what it finds; any number of such meetings before the call
    /// are one.
    pub async fn wanted(&self) {
        self.shared.wanted.notified().await;
    }

    /// Asks for the node that `find` finds, and waits until it is known and ready; none if that takes longer
    /// than [`patience`](Self::patience), or at once if that is zero.
    pub async fn ready(&self, find: impl Fn(&KnownNodes) -> Option<&NodeAddress>) -> Option<NodeAddress> {
        let found = |known: &KnownNodes| find(known).filter(|node| node.ready).cloned();
        if let Some(node) = found(&self.known()) {
            return Some(node);
        }
        self.shared.wanted.notify_one();
        let changed = self.until(|known| found(known).is_some()).await;
        changed.and_then(|known| found(&known))
    }

    /// Waits until what is known is `enough`; none if that takes longer than the patience.
    async fn until(&self, enough: impl Fn(&KnownNodes) -> bool) -> Option<Arc<KnownNodes>> {
        let mut known = self.shared.known.subscribe();
        let waited = timers::timeout(self.shared.patience, known.wait_for(|known| enough(known)));
        Some(Arc::clone(&*waited.await.ok()?.ok()?))
    }

    /// Waits until all of `nodes` are known and ready, but for those that were waited for in vain a short
    /// while ago. Which have not come, the log says. `port` is assumed where a node has none.
    pub(super) async fn wait_for(&self, nodes: &[NodeIdentity], port: u16) {
        let is_ready =
            |known: &KnownNodes, node: &NodeIdentity| node.find(known, port).is_some_and(|node| node.ready);
        let worth = |node: &&NodeIdentity| self.shared.missing.is_worth_waiting(node);
        let nodes: Vec<NodeIdentity> = nodes.iter().filter(worth).copied().collect();
        if nodes.is_empty() {
            return;
        }
        self.shared.wanted.notify_one();
        let all = |known: &KnownNodes| nodes.iter().all(|node| is_ready(known, node));
        if self.until(all).await.is_some() {
            return;
        }
        let known = self.known();
        for node in nodes {
            if !is_ready(&known, &node) {
                let waited = self.shared.patience;
                let later = |suppressed| tracing::warn!(suppressed, "more nodes have no listener");
                if self.counters().node_missing.is_new(later) {
                    tracing::warn!(%node, ?waited, "a node has no listener, so clients are not told about it");
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
    /// The node that every connection of the listener is connected to. `own.listen` is what `system.local`
    /// shows.
    pub own: Arc<NodeAddress>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::{IpAddr, SocketAddr};

    use cqlens_proto::types::Uuid;

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
