//! Clients that keep more connections than a driver needs.

use std::collections::BTreeMap;

use super::{About, Findings, Severity, Threshold, application};
use crate::{Context, Finding, Rule, severity::Impact};
use cqlens_window::number;

pub(crate) struct ManyConnections;

impl Rule for ManyConnections {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (application, open) in by_application(context) {
            let each = open.most_of_a_client as f64;
            let bad = if each >= found.threshold(&ABOUT, &MANY) {
                Severity::Medium
            } else if each >= found.threshold(&ABOUT, &SOME) {
                Severity::Low
            } else {
                continue;
            };
            let severity = context.severity(found, &Impact::beside_cost(bad, open.most_of_a_client));
            found.push(finding(severity, application, &open, context));
        }
    }
}

/// What the clients of an application keep open.
#[derive(Default)]
struct Open {
    /// The most that one of them has to one node.
    most_of_a_client: u64,
    /// The node.
    node: String,
    clients: u64,
    /// By node, all clients together.
    by_node: BTreeMap<String, u64>,
}

fn by_application<'a>(context: &Context<'a>) -> BTreeMap<&'a str, Open> {
    let mut applications: BTreeMap<&str, Open> = BTreeMap::new();
    for (client, connections) in &context.window.connections {
        let open = applications.entry(application::name(client)).or_default();
        open.clients += 1;
        for (node, &count) in &connections.at_once {
            *open.by_node.entry(node.clone()).or_default() += count;
            if count > open.most_of_a_client {
                open.most_of_a_client = count;
                open.node.clone_from(node);
            }
        }
    }
    applications
}

fn finding(severity: Severity, application: &str, open: &Open, context: &Context<'_>) -> Finding {
    let title = format!(
        "{} keeps {} open from one client to one node ({})",
        application::subject(application, context),
        number::plural(open.most_of_a_client, "connection", "connections"),
        open.node
    );
    let of_node = open.by_node.values().max().copied().unwrap_or_default();
    Finding::on_definition(&ABOUT, severity, context)
        .about(application)
        .title(title)
        .first("clients", open.clients)
        .first("connections_to_a_node_max", of_node)
        .first("connections_of_a_client_max", open.most_of_a_client)
}

const SOME: Threshold = Threshold {
    name: "some",
    unit: "simultaneous connections of one client to one node",
    default: 32.0,
    origin: "cqlens default: drivers open one or two, and dozens of processes may share one address",
};

const MANY: Threshold = Threshold {
    name: "many",
    unit: "simultaneous connections of one client to one node",
    default: 256.0,
    origin: "cqlens default; Cassandra's `native_transport_max_concurrent_connections_per_ip` has no limit by default",
};

const ABOUT: About = About {
    id: "many-connections",
    group: "client habits",
    summary: "A client keeps dozens of connections to one node.",
    why: "One connection carries up to 32,768 requests at the same time, so one or two per node are enough. \
        More connections cost buffers and heartbeats on both sides, and after a node restarts all of them \
        reconnect at once, each with a TLS handshake and a password check. The usual cause is a session per \
        thread, or a pool sized as for a relational database.",
    fix: "Create one session per process, shared by all threads, with the driver's default pool (one or two \
        connections per node). If many processes share a machine, run fewer and larger ones.",
    fix_in_short: "Share one session",
    before: "-- one session per worker thread\nSELECT name FROM shop.users WHERE id = ?;",
    after: "-- one session per process\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "\
        Low from `some`, medium from `many`. A client is an application at one address: several processes \
        there count together. Connections have no share of the statements' time and work, so only their \
        number counts.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[SOME, MANY],
    needs: "\
        The STARTUP requests of connections that are opened during the observation, and the node's address.",
    source: "Native protocol v5 §2.4.1.3, stream ids; drivers' manuals: pool settings; cassandra.yaml `native_transport_max_concurrent_connections_per_ip`",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, window};

    fn found(each: u64) -> Vec<(Severity, String)> {
        let mut window = window([]);
        for host in 1..=2 {
            let client = format!("orders 1.2 (gocql) 10.0.0.{host}");
            let connections = window.connections_mut(&client);
            connections.are_open("10.9.0.1:9042", each * host);
            connections.are_open("10.9.0.2:9042", 1);
        }
        let findings = run(&ManyConnections, &window).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    #[test]
    fn a_pool_is_fine_and_a_session_for_each_thread_is_not() {
        assert_eq!(found(4), []);
        assert_eq!(
            found(20),
            [(
                Severity::Low,
                "`orders` keeps 40 connections open from one client to one node (10.9.0.1:9042)".to_owned()
            )]
        );
        assert_eq!(found(128)[0].0, Severity::Medium);
    }
}
