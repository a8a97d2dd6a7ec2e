//! The nodes of the cluster, as one of them tells.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
};

use super::Record;
use cqlens_cql::Product;
use cqlens_proto::types::CqlValue;

/// What `system.local` and `system.peers` say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterState {
    /// The cluster's name.
    pub name: Option<String>,
    /// The version of Cassandra that the node that was asked says it is.
    pub release_version: Option<String>,
    /// Whose software it runs.
    pub product: Option<Product>,
    /// The version of that software, where it is not the version of Cassandra.
    pub product_version: Option<String>,
    /// The partitioner's class, without its package.
    pub partitioner: Option<String>,
    /// All nodes, the one that was asked first.
    pub nodes: Vec<Node>,
    /// Where the one that was asked was reached, which need not be what it tells others.
    pub asked: Option<SocketAddr>,
}

impl ClusterState {
    /// The node that a connection to `address` leads to, an index of [`ClusterState::nodes`]; none where no node
    /// tells that address, or several do.
    pub fn node_at(&self, address: SocketAddr) -> Option<u16> {
        let mut told = (0..).zip(&self.nodes).filter(|(_, node)| node.leads_to(address));
        match (told.next(), told.next(), self.nodes.as_slice()) {
            (Some((index, _)), None, _) => Some(index),
            // Behind a forwarded port is the one node that there is. With several of them, what was asked
            // there once says nothing of the next connection: it may be a load balancer.
            (None, None, [_]) if self.asked == Some(address) => Some(0),
            _ => None,
        }
    }

    /// How many nodes each datacenter has, as far as they tell theirs.
    pub fn data_centers(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for name in self.nodes.iter().filter_map(|node| node.data_center.as_ref()) {
            *counts.entry(name.clone()).or_default() += 1;
        }
        counts
    }

    /// Whether partitions have the tokens that [`cqlens_cql::murmur3`] computes.
    pub fn has_murmur3_tokens(&self) -> bool {
        self.partitioner.as_deref() == Some("Murmur3Partitioner")
    }
}

/// What is known of a node, and where it tells clients to connect.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Node {
    /// Its `host_id`, which stays when its address changes.
    pub host_id: Option<String>,
    /// Where the other nodes reach it: `peer`, or `broadcast_address` of the one that was asked.
    pub broadcast: Option<IpAddr>,
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
    /// Whether a row is one of a node that has joined. That of one that is joining is filled piece by piece, with neither an address for
    /// clients nor tokens at first; drivers pass over it too.
    pub fn has_joined(row: &Record) -> bool {
        let columns = ["native_address", "rpc_address", "tokens"];
        row.iter()
            .any(|(column, value)| columns.contains(&column) && *value != CqlValue::Null)
    }

    /// What a row of `system.local`, `system.peers` or `system.peers_v2` says.
    pub fn of_row(row: &Record) -> Self {
        let address = row
            .optional_text("native_address")
            .or_else(|| row.optional_text("rpc_address"));
        let port = match (row.int("native_port", 0), row.int("rpc_port", 0)) {
            (0, port) | (port, _) => u16::try_from(port).ok().filter(|port| *port != 0),
        };
        let tokens = row.texts("tokens");
        let broadcast = row
            .optional_text("peer")
            .or_else(|| row.optional_text("broadcast_address"));
        Self {
            host_id: row.uuid("host_id"),
            broadcast: broadcast.and_then(|address| address.parse().ok()),
            address,
            port,
            data_center: row.optional_text("data_center"),
            rack: row.optional_text("rack"),
            tokens: tokens.iter().filter_map(|token| token.parse().ok()).collect(),
        }
    }

    /// Where clients are told to connect; `port` where the node tells none. None where there is no address,
    /// or one that leads nowhere (`0.0.0.0`).
    pub fn native(&self, port: u16) -> Option<SocketAddr> {
        let address: IpAddr = self.address.as_deref()?.parse().ok()?;
        (!address.is_unspecified()).then(|| SocketAddr::new(address, self.port.unwrap_or(port)))
    }

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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use cqlens_proto::types::CqlType;

    fn cluster(asked: &str, nodes: &[(&str, Option<u16>)]) -> ClusterState {
        let nodes = nodes.iter().map(|(address, port)| Node {
            address: Some((*address).to_owned()),
            port: *port,
            ..Node::default()
        });
        ClusterState {
            nodes: nodes.collect(),
            asked: Some(asked.parse().unwrap()),
            ..ClusterState::default()
        }
    }

    fn node_at(cluster: &ClusterState, address: &str) -> Option<u16> {
        cluster.node_at(address.parse().unwrap())
    }

    #[test]
    fn a_row_that_is_being_filled_is_no_node_yet() {
        let (uuid, inet) = (CqlType::Uuid, CqlType::Inet);
        let columns = [("host_id", &uuid), ("native_address", &inet)];
        let (id, address) = (Bytes::from_static(&[7; 16]), Bytes::from_static(&[10, 0, 0, 1]));
        let row = |cells: [Option<Bytes>; 2]| Record::new(columns, &cells).unwrap();
        assert!(!Node::has_joined(&row([Some(id.clone()), None])));
        assert!(Node::has_joined(&row([Some(id), Some(address)])));
    }

    #[test]
    fn a_connection_leads_to_the_node_that_tells_its_address() {
        let nodes = [
            ("10.0.0.1", Some(9042)),
            ("10.0.0.2", None),
            ("10.0.0.1", Some(9043)),
        ];
        let cluster = cluster("192.168.0.1:9042", &nodes);
        assert_eq!(node_at(&cluster, "10.0.0.1:9043"), Some(2));
        assert_eq!(node_at(&cluster, "10.0.0.2:7"), Some(1));
        assert_eq!(node_at(&cluster, "10.0.0.1:9044"), None);
        assert_eq!(
            node_at(&cluster, "192.168.0.1:9042"),
            None,
            "a load balancer, perhaps"
        );
    }

    #[test]
    fn a_single_node_is_behind_any_address_where_it_was_asked() {
        let cluster = cluster("127.0.0.1:19042", &[("172.17.0.2", Some(9042))]);
        assert_eq!(node_at(&cluster, "127.0.0.1:19042"), Some(0));
        assert_eq!(node_at(&cluster, "127.0.0.1:19043"), None);
    }

    #[test]
    fn an_address_that_two_nodes_tell_is_nobodys() {
        let cluster = cluster("10.0.0.9:1", &[("10.0.0.1", None), ("10.0.0.1", None)]);
        assert_eq!(node_at(&cluster, "10.0.0.1:9042"), None);
    }
}
