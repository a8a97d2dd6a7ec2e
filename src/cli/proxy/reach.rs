//! What of a cluster's traffic comes this way, and what could not (promise P1: what is not
//! seen must not look clean).

use std::{collections::BTreeSet, net::SocketAddr, sync::Arc};

use cqlens_audit::catalog::{ClusterState, Node};
use cqlens_proxy::{Transparent, is_local};

/// How clients find their way here.
#[derive(Debug, Clone)]
pub(super) enum Reach {
    /// They learn the nodes' own addresses, and come here if those are the listeners'.
    Listeners(Vec<SocketAddr>),
    /// The kernel redirects connections to some nodes.
    Transparent(Arc<Transparent>),
    /// They learn the listeners' addresses.
    Cluster {
        /// The nodes whose listeners are open, by their address for clients.
        here: BTreeSet<SocketAddr>,
        /// Those that another process listens for.
        elsewhere: BTreeSet<SocketAddr>,
    },
}

impl Reach {
    /// What a reader must know before any number; none where everything comes this way.
    pub(super) fn notice(&self, cluster: &ClusterState) -> Option<String> {
        if cluster.nodes.is_empty() {
            return Some(
                "Whether traffic bypasses this proxy is not known: no node has reported the nodes of the \
                    cluster."
                    .to_owned(),
            );
        }
        match self {
            Self::Listeners(listeners) => around(cluster, listeners),
            Self::Transparent(transparent) => past(cluster, transparent),
            Self::Cluster { here, elsewhere } => part(here, elsewhere, cluster.nodes.len()),
        }
    }
}

/// The nodes that a driver would reach without the proxy.
fn around(cluster: &ClusterState, listeners: &[SocketAddr]) -> Option<String> {
    let comes_here = |node: &&Node| listeners.iter().any(|listener| leads_to(node, *listener));
    let elsewhere: Vec<_> = cluster.nodes.iter().filter(|node| !comes_here(node)).collect();
    let first = elsewhere.first()?;
    let listening: Vec<_> = listeners.iter().map(ToString::to_string).collect();
    Some(format!(
        "Traffic may bypass this proxy: the cluster tells drivers to connect to {}{} and not to {}. That \
         traffic is not in this report.",
        told(first),
        and_more(elsewhere.len()),
        listening.join(" or "),
    ))
}

fn leads_to(node: &Node, listener: SocketAddr) -> bool {
    if !listener.ip().is_unspecified() {
        return node.leads_to(listener);
    }
    // A listener at all addresses of this machine listens at the node's, if that is one of them.
    node.native(listener.port())
        .is_some_and(|native| native.port() == listener.port() && is_local(native.ip()))
}

fn past(cluster: &ClusterState, transparent: &Transparent) -> Option<String> {
    let destinations = transparent.destinations();
    let is_redirected = |node: &&Node| destinations.keys().any(|address| node.leads_to(*address));
    let others: Vec<_> = cluster.nodes.iter().filter(|node| !is_redirected(node)).collect();
    let first = others.first()?;
    Some(format!(
        "Of {} nodes, connections to {} were redirected to this proxy so far: traffic to {}{} is not in \
            this report.",
        cluster.nodes.len(),
        cluster.nodes.len() - others.len(),
        told(first),
        and_more(others.len()),
    ))
}

fn part(here: &BTreeSet<SocketAddr>, elsewhere: &BTreeSet<SocketAddr>, nodes: usize) -> Option<String> {
    if here.len() == nodes {
        return None;
    }
    let mut sentence = format!("Of {nodes} nodes, this proxy listens for {}.", here.len());
    if !elsewhere.is_empty() {
        let count = elsewhere.len();
        sentence += &format!(" Traffic to the {count} with other listeners is in their reports.");
    }
    let without = nodes.saturating_sub(here.len() + elsewhere.len());
    if without > 0 {
        sentence += &format!(
            " {without} cannot have a listener: clients that know their addresses bypass this proxy."
        );
    }
    Some(sentence)
}

/// The address that a node advertises to clients.
fn told(node: &Node) -> String {
    let address = node.address.as_deref().unwrap_or("an unknown address");
    node.port
        .map_or_else(|| address.to_owned(), |port| format!("{address}:{port}"))
}

fn and_more(nodes: usize) -> String {
    match nodes {
        0 | 1 => String::new(),
        2 => " and 1 more node".to_owned(),
        nodes => format!(" and {} more nodes", nodes - 1),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn cluster(addresses: &[&str]) -> ClusterState {
        let nodes = addresses.iter().map(|address| {
            let address: SocketAddr = address.parse().unwrap();
            Node {
                address: Some(address.ip().to_string()),
                port: Some(address.port()),
                ..Node::default()
            }
        });
        ClusterState {
            nodes: nodes.collect(),
            ..ClusterState::default()
        }
    }

    fn listeners(addresses: &[&str]) -> Reach {
        Reach::Listeners(addresses.iter().map(|address| address.parse().unwrap()).collect())
    }

    fn notice(reach: &Reach, nodes: &[&str]) -> String {
        reach.notice(&cluster(nodes)).unwrap_or_default()
    }

    #[test]
    fn a_node_that_is_told_elsewhere_can_be_reached_past_the_proxy() {
        let own = listeners(&["10.0.0.1:9042"]);
        assert_eq!(notice(&own, &["10.0.0.1:9042"]), "");
        assert!(notice(&own, &[]).contains("is not known"));
        assert!(
            notice(&own, &["10.0.0.1:9043"])
                .contains("to connect to 10.0.0.1:9043 and not to 10.0.0.1:9042.")
        );
        let three = ["10.0.0.1:9042", "10.0.0.2:9042", "10.0.0.3:9042"];
        assert!(notice(&own, &three).contains("10.0.0.2:9042 and 1 more node and not to"));
        assert_eq!(notice(&listeners(&three), &three), "");
    }

    #[test]
    fn all_addresses_of_this_machine_are_no_others() {
        let any = listeners(&["0.0.0.0:9042"]);
        assert_eq!(notice(&any, &["127.0.0.1:9042"]), "");
        assert!(notice(&any, &["192.0.2.1:9042"]).contains("192.0.2.1:9042"));
        assert!(notice(&any, &["127.0.0.1:9043"]).contains("127.0.0.1:9043"));
    }

    #[test]
    fn a_process_that_listens_for_a_part_says_so() {
        let address = |text: &str| -> SocketAddr { text.parse().unwrap() };
        let reach = |here: &[&str], elsewhere: &[&str]| Reach::Cluster {
            here: here.iter().map(|text| address(text)).collect(),
            elsewhere: elsewhere.iter().map(|text| address(text)).collect(),
        };
        let nodes = ["10.0.0.1:9042", "10.0.0.2:9042", "10.0.0.3:9042"];
        assert_eq!(notice(&reach(&nodes, &[]), &nodes), "");
        assert_eq!(
            notice(&reach(&nodes[..1], &nodes[1..2]), &nodes),
            "Of 3 nodes, this proxy listens for 1. Traffic to the 1 with other listeners is in their \
             reports. 1 cannot have a listener: clients that know their addresses bypass this proxy."
        );
    }

    #[test]
    fn only_what_was_redirected_is_known_to_come_here() {
        let transparent = Arc::new(Transparent::new("127.0.0.1:9142".parse().unwrap(), true));
        let text = notice(
            &Reach::Transparent(transparent),
            &["10.0.0.1:9042", "10.0.0.2:9042"],
        );
        assert!(
            text.starts_with("Of 2 nodes, connections to 0 were redirected"),
            "{text}"
        );
    }
}
