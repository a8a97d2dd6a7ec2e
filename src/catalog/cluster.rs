//! The nodes of the cluster, as one of them tells.

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
}

/// Where a node tells clients to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Its `native_address` or `rpc_address`.
    pub address: Option<String>,
    /// Its native port, where it tells one.
    pub port: Option<u16>,
}

impl Node {
    /// Whether a client that is told this address would come to `listener`.
    pub fn leads_to(&self, listener: std::net::SocketAddr) -> bool {
        let address = self
            .address
            .as_deref()
            .and_then(|address| address.parse::<std::net::IpAddr>().ok());
        // A node that tells no port means the one that the client used for the first connection.
        address == Some(listener.ip()) && self.port.is_none_or(|port| port == listener.port())
    }
}
