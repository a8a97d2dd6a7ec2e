//! Keyspaces whose replication knows no datacenters.

use super::{About, Findings, GROUP, Rule, Severity, replicated, strategy};
use crate::{Context, Finding};
use cqlens_cql::schema::Keyspace;
use cqlens_window::number;

pub(crate) struct SimpleStrategy;

impl Rule for SimpleStrategy {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        if context.is_single_node() {
            found.blind_on_one_node(&ABOUT);
            return;
        }
        let simple = context
            .keyspaces()
            .filter(|keyspace| strategy(keyspace) == "SimpleStrategy");
        for keyspace in simple {
            found.push(finding(keyspace, context));
        }
    }
}

fn finding(keyspace: &Keyspace, context: &Context<'_>) -> Finding {
    let data_centers = &context.cluster.data_centers;
    let name = &keyspace.name;
    let (severity, title) = if data_centers.len() > 1 {
        let title = format!(
            "The keyspace `{name}` uses SimpleStrategy over {}",
            number::plural(data_centers.len() as u64, "datacenter", "datacenters")
        );
        (Severity::High, title)
    } else {
        let title = format!("The keyspace `{name}` uses SimpleStrategy, which ignores racks and datacenters");
        (Severity::Info, title)
    };
    Finding::on_definition(&ABOUT, severity, context)
        .of_keyspace(name)
        .title(title)
        .suggest([replicated(keyspace, context)])
}

const ABOUT: About = About {
    id: "simple-strategy",
    group: GROUP,
    summary: "A keyspace uses SimpleStrategy.",
    why: "SimpleStrategy puts replicas on the next nodes of the ring, regardless of their location: all of \
        them may be in one rack, and with several datacenters some rows have no replica in one of them. \
        LOCAL_QUORUM is then impossible there, and the loss of a site loses rows.",
    fix: "Use NetworkTopologyStrategy with a number for each datacenter, even if there is only one: another \
        can be added later. After the change, repair every node.",
    fix_in_short: "List the datacenters",
    before: "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3};\n\
             SELECT name FROM shop.users WHERE id = ?;",
    after: "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};\n\
            SELECT name FROM shop.users WHERE id = ?;",
    severity: "High with several datacenters, else info. Nothing in a cluster of one node.",
    severities: &[Severity::Info, Severity::High],
    thresholds: &[],
    needs: "The keyspaces' replication, and the datacenters listed in `system.local` and `system.peers`.",
    source: "Cassandra guardrail `simplestrategy_enabled` (5.0); Cassandra documentation, replication strategies",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::super::testing::{cluster, in_cluster, in_file};
    use super::*;

    const SIMPLE: &str =
        "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3};";

    #[test]
    fn several_datacenters_make_it_high() {
        let found = in_cluster(&SimpleStrategy, SIMPLE, &cluster(&[("dc1", 3), ("dc2", 3)]));
        assert_eq!(found[0].severity, Severity::High);
        assert!(
            found[0].suggested_cql[0].starts_with(
                "ALTER KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 3};"
            ),
            "{:?}",
            found[0].suggested_cql
        );
        assert_eq!(in_file(&SimpleStrategy, SIMPLE)[0].severity, Severity::Info);
    }

    #[test]
    fn one_node_and_the_other_strategy_are_fine() {
        assert_eq!(in_cluster(&SimpleStrategy, SIMPLE, &cluster(&[("dc1", 1)])), []);
        let other = "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};";
        assert_eq!(in_file(&SimpleStrategy, other), []);
    }
}
