//! Keyspaces with too few replicas, or with more than there are nodes.

use super::{About, Findings, GROUP, Rule, Severity, replicas, replicated};
use crate::{Context, Finding};
use cqlens_cql::schema::Keyspace;
use cqlens_window::number;

pub(crate) struct ReplicationFactor;

impl Rule for ReplicationFactor {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        if context.is_single_node() {
            found.blind_on_one_node(&ABOUT);
            return;
        }
        for keyspace in context.keyspaces() {
            for (data_center, count) in replicas(keyspace) {
                let place = DataCenterReplicas {
                    keyspace,
                    data_center,
                    count,
                };
                if let Some(fault) = place.fault(context) {
                    found.push(place.finding(fault, context));
                }
            }
        }
    }
}

/// The replicas of a keyspace in a datacenter; in all of them where the name is empty.
struct DataCenterReplicas<'k> {
    keyspace: &'k Keyspace,
    data_center: &'k str,
    count: usize,
}

enum Fault {
    /// A single replica.
    One,
    /// More replicas than this number of nodes.
    MoreThanNodes(usize),
}

impl DataCenterReplicas<'_> {
    fn fault(&self, context: &Context<'_>) -> Option<Fault> {
        let nodes = match self.data_center {
            "" => context.cluster.nodes,
            // A datacenter that no known node belongs to may have nodes: not every node is known.
            name => context.cluster.data_centers.get(name).copied(),
        };
        match nodes {
            Some(nodes) if self.count > nodes => Some(Fault::MoreThanNodes(nodes)),
            _ => (self.count == 1).then_some(Fault::One),
        }
    }

    fn finding(&self, fault: Fault, context: &Context<'_>) -> Finding {
        let name = &self.keyspace.name;
        let place = match self.data_center {
            "" => String::new(),
            data_center => format!(" in `{data_center}`"),
        };
        let (severity, title) = match fault {
            Fault::One => (
                // A file may be that of a test.
                context.cluster.nodes.map_or(Severity::Low, |_| Severity::Medium),
                format!(
                    "The keyspace `{name}` has one replica{place}: any node that is down makes rows \
                        unavailable"
                ),
            ),
            Fault::MoreThanNodes(nodes) => (
                Severity::Medium,
                format!(
                    "The keyspace `{name}` requires {} replicas{place}, but there are {}",
                    self.count,
                    number::plural(nodes as u64, "node", "nodes")
                ),
            ),
        };
        let finding = Finding::on_definition(&ABOUT, severity, context)
            .of_keyspace(name)
            .about(self.data_center)
            .title(title)
            .first("replicas", self.count as u64);
        match fault {
            Fault::One => finding.suggest([replicated(self.keyspace, context)]),
            Fault::MoreThanNodes(_) => finding,
        }
    }
}

const ABOUT: About = About {
    id: "replication-factor",
    group: GROUP,
    summary: "A keyspace has only one replica, or more replicas than there are nodes.",
    why: "With one replica, each node holds the only copy of its rows: while it restarts they can be neither \
        read nor written, and if its disk fails they are lost. With more replicas than nodes, Cassandra \
        places one on each node but still computes quorums from the number in the definition: QUORUM may \
        require more nodes than there are.",
    fix: "Use three replicas in each datacenter, so that QUORUM works while one node is down. After raising \
        the number, repair every node: reads may reach a replica that has no data yet.",
    fix_in_short: "Three replicas",
    before: "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 1};\n\
             INSERT INTO shop.orders (id, amount) VALUES (?, ?);",
    after: "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};\n\
            INSERT INTO shop.orders (id, amount) VALUES (?, ?);",
    severity: "\
        Medium; low for one replica in a file of definitions, which may belong to a test. Nothing in a \
        cluster of one node.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[],
    needs: "The keyspaces' replication; for more replicas than nodes, the nodes listed in `system.peers`.",
    source: "Cassandra guardrails `minimum_replication_factor` and `maximum_replication_factor` (4.1)",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::super::testing::{cluster, in_cluster, in_file};
    use super::*;

    fn keyspace(replication: &str) -> String {
        format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'NetworkTopologyStrategy', {replication}}};"
        )
    }

    #[test]
    fn one_replica_is_medium_and_low_in_a_file() {
        let one = keyspace("'dc1': 1, 'dc2': 3");
        let found = in_cluster(&ReplicationFactor, &one, &cluster(&[("dc1", 3), ("dc2", 3)]));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].severity, Severity::Medium);
        assert!(
            found[0]
                .title
                .starts_with("The keyspace `shop` has one replica in `dc1`:"),
            "{}",
            found[0].title
        );
        assert!(
            found[0].suggested_cql[0].starts_with(
                "ALTER KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 3};"
            ),
            "{:?}",
            found[0].suggested_cql
        );
        assert_eq!(in_file(&ReplicationFactor, &one)[0].severity, Severity::Low);
    }

    #[test]
    fn more_replicas_than_nodes_are_named() {
        let five = keyspace("'dc1': 5");
        let found = in_cluster(&ReplicationFactor, &five, &cluster(&[("dc1", 3)]));
        assert_eq!(
            found[0].title,
            "The keyspace `shop` requires 5 replicas in `dc1`, but there are 3 nodes"
        );
    }

    #[test]
    fn three_of_three_and_a_developers_node_are_fine() {
        let three = keyspace("'dc1': 3");
        assert_eq!(in_file(&ReplicationFactor, &three), []);
        assert_eq!(
            in_cluster(&ReplicationFactor, &three, &cluster(&[("dc1", 3)])),
            []
        );
        let one = keyspace("'dc1': 1");
        assert_eq!(in_cluster(&ReplicationFactor, &one, &cluster(&[("dc1", 1)])), []);
    }
}
