//! Which node a row or an event is about.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use cqlens_proto::types::Uuid;

use super::known_nodes::{KnownNodes, NodeAddress};

/// What identifies a node, as far as a row or an event says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct NodeIdentity {
    pub(super) host_id: Option<Uuid>,
    pub(super) native: Option<IpAddr>,
    /// The port beside `native`.
    pub(super) port: Option<u16>,
    pub(super) broadcast: Option<IpAddr>,
}

impl NodeIdentity {
    /// The node, whether it is ready or not. `port` is assumed where none was there.
    ///
    /// A host id decides alone, unless the one of the node has not been read yet.
    pub(super) fn find<'a>(&self, known: &'a KnownNodes, port: u16) -> Option<&'a NodeAddress> {
        let Some(host_id) = self.host_id else {
            return self.by_address(known, port);
        };
        known
            .by_host_id(host_id)
            .or_else(|| self.by_address(known, port).filter(|node| node.host_id.is_none()))
    }

    /// Whether it is that of `node`, as far as both are known.
    pub(super) fn is(&self, node: &NodeAddress, port: u16) -> bool {
        if let (Some(host_id), Some(known)) = (self.host_id, node.host_id) {
            return host_id == known;
        }
        let native = self
            .native
            .map(|native| SocketAddr::new(native, self.port.unwrap_or(port)));
        native == Some(node.native)
    }

    fn by_address<'a>(&self, known: &'a KnownNodes, port: u16) -> Option<&'a NodeAddress> {
        let by_native = self.native.and_then(|native| {
            let here = SocketAddr::new(native, self.port.unwrap_or(port));
            known.by_native(here).or_else(|| match self.port {
                None => known.by_native_ip(native),
                Some(_) => None,
            })
        });
        by_native.or_else(|| known.by_broadcast(self.broadcast?))
    }
}

impl fmt::Display for NodeIdentity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.native.or(self.broadcast);
        match (self.host_id, address) {
            (Some(host_id), Some(address)) => write!(out, "{host_id} ({address})"),
            (Some(host_id), None) => write!(out, "{host_id}"),
            (None, Some(address)) => write!(out, "{address}"),
            (None, None) => out.write_str("no name is configured for it"),
        }
    }
}
