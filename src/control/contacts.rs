//! Which nodes the control connection may ask, and in which order.

use std::net::SocketAddr;

use cqlens_audit::catalog::ClusterState;

/// Where a cluster can be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contacts {
    /// Contact points, as `host:port`. Names are resolved for each attempt.
    pub points: Vec<String>,
    /// Whether the nodes that they tell of may be asked as well.
    pub and_nodes: bool,
}

impl Contacts {
    /// One node and no other.
    pub fn only(address: String) -> Self {
        Self {
            points: vec![address],
            and_nodes: false,
        }
    }

    /// Everybody who may be asked, in the order of one round of attempts: the contact points, then the nodes
    /// of `cluster`. A round begins after the one that was asked `last`.
    pub fn round(&self, cluster: &ClusterState, last: Option<&str>) -> Vec<String> {
        let mut round = self.points.clone();
        if self.and_nodes {
            let port = self.port(cluster);
            for node in cluster.nodes.iter().filter_map(|node| node.native(port)) {
                let node = node.to_string();
                if !round.contains(&node) {
                    round.push(node);
                }
            }
        }
        let after = round.iter().position(|address| Some(address.as_str()) == last);
        if let Some(after) = after {
            round.rotate_left(after + 1);
        }
        round
    }

    /// The port of nodes that tell none: the one at which one of them was reached.
    pub fn port(&self, cluster: &ClusterState) -> u16 {
        const NATIVE: u16 = 9042;
        let of_point = || self.points.first()?.rsplit_once(':')?.1.parse().ok();
        let asked = cluster.asked.map(|address: SocketAddr| address.port());
        asked.or_else(of_point).unwrap_or(NATIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqlens_audit::catalog::Node;

    fn cluster(addresses: &[&str]) -> ClusterState {
        let nodes = addresses.iter().map(|address| Node {
            address: Some((*address).to_owned()),
            ..Node::default()
        });
        ClusterState {
            nodes: nodes.collect(),
            ..ClusterState::default()
        }
    }

    #[test]
    fn a_round_begins_after_the_node_that_was_lost() {
        let contacts = Contacts {
            points: vec!["10.0.0.1:9043".to_owned(), "db:9043".to_owned()],
            and_nodes: true,
        };
        let cluster = cluster(&["10.0.0.1", "10.0.0.2", "0.0.0.0", "nonsense"]);
        let all = ["10.0.0.1:9043", "db:9043", "10.0.0.2:9043"];
        assert_eq!(contacts.round(&cluster, None), all);
        assert_eq!(
            contacts.round(&cluster, Some("db:9043")),
            ["10.0.0.2:9043", "10.0.0.1:9043", "db:9043"]
        );
        assert_eq!(contacts.round(&cluster, Some("gone:9043")), all);
    }

    #[test]
    fn who_may_ask_one_node_asks_no_other() {
        let contacts = Contacts::only("db:9042".to_owned());
        assert_eq!(
            contacts.round(&cluster(&["10.0.0.2"]), Some("db:9042")),
            ["db:9042"]
        );
    }
}
