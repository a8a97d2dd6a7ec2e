//! From the nodes of a cluster to listeners: where cqlens listens for each node, and why not for the others.

use std::{
    collections::{HashMap, HashSet},
    net::SocketAddr,
};

use cqlens_proto::types::Uuid;

use super::{endpoint::Endpoint, listen_rules::ListenRules, names::is_chosen};
use cqlens_audit::catalog::{ClusterState, Node};
use cqlens_proxy::topology::NodeAddress;

/// A node and its listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::proxy) struct Planned {
    pub(in crate::cli::proxy) node: Endpoint,
    pub(in crate::cli::proxy) listen: SocketAddr,
    /// Whether this process listens for it; otherwise another one does.
    pub(in crate::cli::proxy) is_here: bool,
}

/// Something that keeps a node from having a listener, in the words of the log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cli::proxy) struct Problem {
    pub(in crate::cli::proxy) text: String,
    /// Whether the settings are at fault: then it would be no good to begin with them.
    pub(in crate::cli::proxy) of_settings: bool,
}

impl Planned {
    /// As connections know it.
    pub(in crate::cli::proxy) fn address(&self, ready: bool) -> NodeAddress {
        NodeAddress {
            host_id: Some(self.node.host_id),
            broadcast: self.node.broadcast,
            native: self.node.native,
            listen: self.listen,
            ready,
        }
    }
}

impl Problem {
    pub(in crate::cli::proxy) fn of_cluster(text: String) -> Self {
        Self {
            text,
            of_settings: false,
        }
    }

    pub(in crate::cli::proxy) fn of_settings(text: String) -> Self {
        Self {
            text,
            of_settings: true,
        }
    }
}

/// More nodes than a cluster has: a hostile server must not make cqlens open any number of listeners.
const MOST_NODES: usize = 2_000;

/// The nodes of `cluster` that can have a listener. `port` is the port of nodes that advertise none. If two
/// nodes conflict, those in `served` come first, so that the result does not depend on the contact point.
pub(super) fn identify(
    cluster: &ClusterState,
    port: u16,
    served: &HashSet<Uuid>,
    problems: &mut Vec<Problem>,
) -> Vec<Endpoint> {
    if cluster.nodes.len() > MOST_NODES {
        problems.push(Problem::of_cluster(format!(
            "the cluster lists {} nodes: only {MOST_NODES} are used",
            cluster.nodes.len()
        )));
    }
    let mut nodes: Vec<_> = cluster.nodes.iter().take(MOST_NODES).collect();
    nodes.sort_by_key(|node| {
        let host_id = node.host_id.as_deref().and_then(Uuid::parse);
        !host_id.is_some_and(|host_id| served.contains(&host_id))
    });
    let mut known: Vec<Endpoint> = Vec::with_capacity(nodes.len());
    for node in nodes {
        let found =
            identity(node, port).and_then(|node| match known.iter().find(|other| is_same(other, &node)) {
                None => Ok(node),
                Some(other) if other.host_id == node.host_id => Err(format!(
                    "two nodes have the host id {}, {} and {}: only the first gets a listener",
                    node.host_id, other.native, node.native
                )),
                Some(other) => Err(format!(
                    "the nodes {} and {} advertise the same address {} to clients (rpc_address, \
                 native_transport_port): only the first gets a listener; if one of them no longer exists, \
                 remove it (nodetool assassinate)",
                    other.host_id, node.host_id, node.native
                )),
            });
        match found {
            Ok(node) => known.push(node),
            Err(text) => problems.push(Problem::of_cluster(text)),
        }
    }
    known
}

fn is_same(one: &Endpoint, other: &Endpoint) -> bool {
    one.host_id == other.host_id || one.native == other.native
}

fn identity(node: &Node, port: u16) -> Result<Endpoint, String> {
    let name = || match (&node.host_id, node.broadcast, &node.address) {
        (Some(host_id), _, _) => host_id.clone(),
        (None, Some(address), _) => address.to_string(),
        (None, None, address) => address.clone().unwrap_or_else(|| "without a name".to_owned()),
    };
    let no_listener = |why: &str| format!("the node {} {why}: it gets no listener", name());
    let Some(host_id) = node.host_id.as_deref().and_then(Uuid::parse) else {
        return Err(no_listener(
            "has no host_id in system.peers, so that drivers leave it out too",
        ));
    };
    let Some(address) = &node.address else {
        return Err(no_listener(
            "advertises no address to clients (rpc_address or native_address is null)",
        ));
    };
    let native = node.native(port).ok_or_else(|| {
        no_listener(&format!(
            "advertises {address} to clients, which is not reachable (set broadcast_rpc_address in its \
                cassandra.yaml)"
        ))
    })?;
    Ok(Endpoint {
        host_id,
        broadcast: node.broadcast.unwrap_or(native.ip()),
        native,
        data_center: node.data_center.clone(),
    })
}

/// The listener of each node, in the order of listen addresses. `number` is the number of a node in the rule.
pub(super) fn listeners(
    nodes: Vec<Endpoint>,
    rules: &ListenRules,
    number: impl Fn(Uuid) -> Option<u32>,
    problems: &mut Vec<Problem>,
) -> Vec<Planned> {
    for mapped in &rules.map {
        if !nodes.iter().any(|node| mapped.node.is(node)) {
            let (name, listen) = (mapped.node, mapped.listen);
            problems.push(Problem::of_cluster(format!(
                "map: the cluster has no node {name}, which is mapped to {listen}"
            )));
        }
    }
    let mut planned: Vec<Planned> = Vec::with_capacity(nodes.len());
    let mut taken: HashMap<SocketAddr, Endpoint> = HashMap::new();
    for node in nodes {
        let listen = match listen(&node, rules, &number) {
            Ok(listen) => listen,
            Err(text) => {
                problems.push(Problem::of_settings(text));
                continue;
            }
        };
        if let Some(other) = taken.get(&listen) {
            problems.push(Problem::of_settings(format!(
                "map: the nodes {other} and {node} would both listen on {listen}: only the first does"
            )));
            continue;
        }
        taken.insert(listen, node.clone());
        let is_here = is_chosen(&rules.listen_for, &node, listen);
        planned.push(Planned {
            node,
            listen,
            is_here,
        });
    }
    planned.sort_by_key(|planned| planned.listen);
    planned
}

fn listen(
    node: &Endpoint,
    rules: &ListenRules,
    number: impl Fn(Uuid) -> Option<u32>,
) -> Result<SocketAddr, String> {
    let mut mapped = rules.map.iter().filter(|mapped| mapped.node.is(node));
    if let Some(first) = mapped.next() {
        return match mapped.find(|other| other.listen != first.listen) {
            None => Ok(first.listen),
            Some(other) => Err(format!(
                "map: the node {node} is mapped to {} ({}) and to {} ({}): it gets no listener",
                first.listen, first.node, other.listen, other.node
            )),
        };
    }
    let Some(rule) = &rules.rule else {
        return Err(format!(
            "map: the node {node} is not listed, and listen has no rule for others: it gets no listener"
        ));
    };
    number(node.host_id)
        .and_then(|number| rule.nth(number))
        .ok_or_else(|| {
            let addresses = rule.capacity();
            format!(
                "listen: {rule} has {addresses} addresses, too few for the node {node}: it gets no listener"
            )
        })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::IpAddr;

    use super::*;

    fn node(number: u8, address: Option<&str>) -> Node {
        Node {
            host_id: Some(Uuid([number; 16]).to_string()),
            broadcast: Some(IpAddr::from([10, 1, 0, number])),
            address: address.map(str::to_owned),
            port: Some(9042),
            ..Node::default()
        }
    }

    fn cluster(nodes: Vec<Node>) -> ClusterState {
        ClusterState {
            nodes,
            ..ClusterState::default()
        }
    }

    fn rules(listen: &str, map: &[&str]) -> ListenRules {
        ListenRules {
            rule: (!listen.is_empty()).then(|| listen.parse().unwrap()),
            map: map.iter().map(|pair| pair.parse().unwrap()).collect(),
            listen_for: Vec::new(),
        }
    }

    fn planned(cluster: &ClusterState, rules: &ListenRules) -> (Vec<String>, Vec<String>) {
        let mut problems = Vec::new();
        let nodes = identify(cluster, 9042, &HashSet::new(), &mut problems);
        let number = |host_id: Uuid| Some(u32::from(host_id.0[0]));
        let planned = listeners(nodes, rules, number, &mut problems);
        let pairs = planned
            .iter()
            .map(|planned| format!("{}={}", planned.node.native, planned.listen));
        (
            pairs.collect(),
            problems.into_iter().map(|problem| problem.text).collect(),
        )
    }

    #[test]
    fn nodes_that_cannot_be_told_apart_or_reached_are_named_and_the_others_go_on() {
        let nameless = Node {
            host_id: None,
            ..node(2, Some("10.0.0.2"))
        };
        let cluster = cluster(vec![
            node(1, Some("10.0.0.1")),
            nameless,
            node(3, None),
            node(4, Some("0.0.0.0")),
            node(5, Some("10.0.0.1")),
            node(1, Some("10.0.0.6")),
            node(7, Some("10.0.0.7")),
        ]);
        let (pairs, problems) = planned(&cluster, &rules("127.0.1.{n}:9042", &[]));
        assert_eq!(
            pairs,
            ["10.0.0.1:9042=127.0.1.1:9042", "10.0.0.7:9042=127.0.1.7:9042"]
        );
        let id = |number| Uuid([number; 16]).to_string();
        for (problem, names) in problems.iter().zip([
            ["10.1.0.2", "host_id"].map(str::to_owned),
            [id(3), "rpc_address or native_address is null".to_owned()],
            [id(4), "0.0.0.0 to clients".to_owned()],
            [id(1), id(5)],
            [id(1), "10.0.0.6:9042".to_owned()],
        ]) {
            assert!(
                names.iter().all(|name| problem.contains(name)),
                "{names:?}: {problem}"
            );
        }
        assert_eq!(problems.len(), 5);
    }

    #[test]
    fn a_served_node_stays_so_even_if_another_claims_its_address() {
        let both =
            |first: u8, second: u8| cluster([first, second].map(|id| node(id, Some("10.0.0.1"))).to_vec());
        let first = |cluster: &ClusterState, served: &[u8]| {
            let served = served.iter().map(|id| Uuid([*id; 16])).collect();
            let nodes = identify(cluster, 9042, &served, &mut Vec::new());
            (nodes.len(), nodes[0].host_id.0[0])
        };
        assert_eq!(first(&both(1, 2), &[]), (1, 1));
        assert_eq!(first(&both(1, 2), &[2]), (1, 2));
        assert_eq!(first(&both(2, 1), &[2]), (1, 2));
    }

    #[test]
    fn no_server_makes_any_number_of_listeners() {
        let number = |index: usize| Node {
            host_id: Some(Uuid(u128::try_from(index).unwrap().to_be_bytes()).to_string()),
            port: Some(u16::try_from(index + 1).unwrap()),
            ..node(1, Some("10.0.0.1"))
        };
        let cluster = cluster((0..MOST_NODES + 9).map(number).collect());
        let mut problems = Vec::new();
        assert_eq!(
            identify(&cluster, 9042, &HashSet::new(), &mut problems).len(),
            MOST_NODES
        );
        assert!(problems[0].text.contains("2009 nodes"), "{problems:?}");
    }

    #[test]
    fn a_map_comes_before_the_rule_and_what_fits_nothing_is_said() {
        let cluster = cluster((1..=3).map(|n| node(n, Some(&format!("10.0.0.{n}")))).collect());
        let map = ["10.0.0.1=127.0.2.9:9042", "10.0.0.8=127.0.2.8:9042"];
        let (pairs, problems) = planned(&cluster, &rules("127.0.0.1:9001-9002", &map));
        assert_eq!(
            pairs,
            ["10.0.0.2:9042=127.0.0.1:9002", "10.0.0.1:9042=127.0.2.9:9042"]
        );
        assert!(
            problems[0].contains("map: the cluster has no node 10.0.0.8"),
            "{problems:?}"
        );
        assert!(
            problems[1]
                .contains("listen: 127.0.0.1:9001-9002 has 2 addresses, too few for the node 10.0.0.3:9042"),
            "{problems:?}"
        );
        let (pairs, problems) = planned(&cluster, &rules("", &map[..1]));
        assert_eq!((pairs.len(), problems.len()), (1, 2));
        assert!(
            problems[0].contains("map: the node 10.0.0.2:9042"),
            "{problems:?}"
        );
        let twice = [
            "10.0.0.1=127.0.2.1:1",
            "10.1.0.1=127.0.2.2:2",
            "10.0.0.2=127.0.2.3:3",
            "10.0.0.3=127.0.2.3:3",
        ];
        let (pairs, problems) = planned(&cluster, &rules("", &twice));
        assert_eq!(pairs, ["10.0.0.2:9042=127.0.2.3:3"]);
        assert!(
            problems[0].contains("127.0.2.1:1") && problems[1].contains("both listen on 127.0.2.3:3"),
            "{problems:?}"
        );
    }
}
