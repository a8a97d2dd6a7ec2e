//! The nodes of the cluster, as one of them tells.

use std::net::{IpAddr, SocketAddr};

/// What `system.local` and `system.peers` say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cluster {
    /// The cluster's name.
    pub name: Option<String>,
    /// The version of the node that was asked.
    pub release_version: Option<String>,
    /// The partitioner's class, without its package.
    pub partitioner: Option<String>,
    /// All nodes, the one that was asked first.
    pub nodes: Vec<Node>,
    /// Where the one that was asked was reached, which need not be what it tells others.
    pub asked: Option<SocketAddr>,
}

impl Cluster {
    /// The node that a connection to `address` leads to, an index of [`Cluster::nodes`].
    pub fn node_at(&self, address: SocketAddr) -> Option<u16> {
        if self.asked == Some(address) {
            return Some(0);
        }
        let index = self.nodes.iter().position(|node| node.leads_to(address))?;
        u16::try_from(index).ok()
    }
}

/// What is known of a node, and where it tells clients to connect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Its `host_id`, which stays when its address changes.
    pub host_id: Option<String>,
    /// Its `native_address` or `rpc_address`.
    pub address: Option<String>,
    /// Its native port, where it tells one.
    pub port: Option<u16>,
    /// Its datacenter.
    pub data_center: Option<String>,
    /// Its rack.
    pub rack: Option<String>,
    /// The Murmur3 tokens that it owns; empty with another partitioner.
    pub tokens: Vec<i64>,
}

impl Node {
    /// Whether a client that is told this address would come to `listener`.
    pub fn leads_to(&self, listener: SocketAddr) -> bool {
        let address = self
            .address
            .as_deref()
            .and_then(|address| address.parse::<IpAddr>().ok());
        // A node that tells no port means the one that the client used for the first connection.
        address == Some(listener.ip()) && self.port.is_none_or(|port| port == listener.port())
    }
}
