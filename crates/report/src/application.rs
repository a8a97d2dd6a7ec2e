//! Applications: who sends what, by which driver and over which connections, so that a reader sees which team has to act.
//!
//! What is counted of connections and requests is exact. Latencies, errors and preparation are counted by statement:
//! they are those of the statements that the application sends, which others may send, too.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use serde::Serialize;

use super::{Latency, build::latency};
use cqlens_rules::{application_name, client_parts};
use cqlens_window::{Distribution, Pattern, Window};

/// More versions and drivers of one application than this are not told apart.
const MOST_VARIANTS: usize = 20;

/// One application on all of its machines, in all of its versions.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "json-schema", derive(schemars::JsonSchema))]
pub struct ApplicationReport {
    /// Its name; if it has none, the name of its driver, or its address.
    pub name: String,
    /// Its versions; empty where it names none.
    pub versions: BTreeSet<String>,
    /// The drivers with their versions.
    pub drivers: BTreeSet<String>,
    /// How many distinct addresses, or networks, it has.
    pub addresses: u64,
    /// Requests, those on system keyspaces included.
    pub requests: u64,
    /// Connections that it has opened.
    pub connections: u64,
    /// Those by version of the native protocol.
    pub protocol_versions: BTreeMap<u8, u64>,
    /// Those without compression.
    pub uncompressed: u64,
    /// Those with TLS that ended at cqlens.
    pub tls: u64,
    /// Those with TLS that a load balancer ended before cqlens, as its PROXY header says.
    pub tls_before: u64,
    /// Those without TLS on the way to cqlens, or where they were captured.
    pub plain: u64,
    /// Connections whose encryption is unknown: those in snapshots of versions that did not record it.
    pub encryption_unknown: u64,
    /// Executions of its statements, as far as they are known to be its own.
    pub executions: u64,
    /// Executions of the statements that it sends, by any application: the following fields refer to these.
    pub of_statements: u64,
    /// Those by a prepared statement.
    pub prepared: u64,
    /// Those that sent the text.
    pub unprepared: u64,
    /// Those whose response was an error.
    pub errors: u64,
    /// Their latency.
    pub latency_us: Latency,
    /// The tables that it reads or writes, as `keyspace.table`; those that it uses most first.
    pub tables: Vec<String>,
}

impl ApplicationReport {
    /// The part of the executions that are prepared, 0 to 1; none without any.
    pub(super) fn prepared_share(&self) -> Option<f64> {
        let all = self.prepared + self.unprepared;
        (all > 0).then(|| self.prepared as f64 / all as f64)
    }
}

/// The applications of a window, those that send most first.
pub(super) fn applications(window: &Window) -> Vec<ApplicationReport> {
    let mut applications: BTreeMap<&str, ApplicationReport> = BTreeMap::new();
    for (client, &requests) in &window.clients {
        let application = applications.entry(application_name(client)).or_default();
        application.requests += requests;
        application.addresses += 1;
        let (version, driver) = version_and_driver(client);
        add(&mut application.versions, version);
        add(&mut application.drivers, driver);
    }
    for (client, connections) in &window.connections {
        let application = applications.entry(application_name(client)).or_default();
        application.connections += connections.opened;
        application.uncompressed += connections.uncompressed;
        application.tls += connections.tls;
        application.tls_before += connections.tls_before;
        application.plain += connections.plain;
        let known = connections.tls + connections.tls_before + connections.plain;
        application.encryption_unknown += connections.opened.saturating_sub(known);
        for (&version, count) in &connections.versions {
            *application.protocol_versions.entry(version).or_default() += count;
        }
    }
    let traffic = traffic(window);
    let mut reports: Vec<_> = applications
        .into_iter()
        .map(|(name, mut report)| {
            name.clone_into(&mut report.name);
            if let Some(traffic) = traffic.get(name) {
                traffic.fill(&mut report);
            }
            report
        })
        .collect();
    reports.sort_by_key(|report| Reverse(report.requests));
    reports
}

fn add(names: &mut BTreeSet<String>, name: Option<&str>) {
    if let Some(name) = name
        && names.len() < MOST_VARIANTS
    {
        names.insert(name.to_owned());
    }
}

/// Of `APPLICATION VERSION (DRIVER VERSION) ADDRESS`.
pub(super) fn version_and_driver(client: &str) -> (Option<&str>, Option<&str>) {
    let parts = client_parts(client);
    (parts.version, parts.driver)
}

/// What the statements of an application say.
#[derive(Default)]
struct Traffic {
    executions: u64,
    of_statements: u64,
    prepared: u64,
    unprepared: u64,
    errors: u64,
    latency_us: Distribution,
    tables: BTreeMap<String, u64>,
}

fn traffic(window: &Window) -> BTreeMap<&str, Traffic> {
    let mut applications: BTreeMap<&str, Traffic> = BTreeMap::new();
    for pattern in window.patterns.values().filter(|pattern| !pattern.head.system) {
        for (name, executions) in executions_by_application(pattern) {
            applications.entry(name).or_default().add(pattern, executions);
        }
    }
    applications
}

fn executions_by_application(pattern: &Pattern) -> BTreeMap<&str, u64> {
    let mut applications = BTreeMap::new();
    for (client, executions) in &pattern.clients {
        *applications.entry(application_name(client)).or_default() += executions;
    }
    applications
}

impl Traffic {
    fn add(&mut self, pattern: &Pattern, executions: u64) {
        self.executions += executions;
        self.of_statements += pattern.count;
        self.prepared += pattern.prepared;
        self.unprepared += pattern.unprepared;
        self.errors += pattern.errors;
        self.latency_us.merge(&pattern.latency_us);
        if let (Some(keyspace), Some(table)) = (&pattern.head.keyspace, &pattern.head.table) {
            *self.tables.entry(format!("{keyspace}.{table}")).or_default() += executions;
        }
    }

    fn fill(&self, report: &mut ApplicationReport) {
        report.executions = self.executions;
        report.of_statements = self.of_statements;
        report.prepared = self.prepared;
        report.unprepared = self.unprepared;
        report.errors = self.errors;
        report.latency_us = latency(&self.latency_us);
        let mut tables: Vec<_> = self.tables.iter().collect();
        tables.sort_by_key(|&(name, count)| (Reverse(count), name));
        report.tables = tables.into_iter().map(|(name, _)| name.clone()).collect();
    }
}

/// The applications that send these patterns, those that send most first.
pub(super) fn senders<'p>(patterns: impl Iterator<Item = &'p Pattern>) -> Vec<String> {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for pattern in patterns {
        for (name, executions) in executions_by_application(pattern) {
            *counts.entry(name).or_default() += executions;
        }
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|&(name, count)| (Reverse(count), name));
    counts.into_iter().map(|(name, _)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqlens_cql::footprint::PartitionClass;
    use cqlens_rules::testing::{read, window};

    #[test]
    fn an_application_is_one_on_all_of_its_machines_and_in_all_versions() {
        let clients = [
            ("portal 4.1 (Java Driver 4.17) 10.0.0.1", 10),
            ("portal 4.2 (Java Driver 4.19) 10.0.0.2", 20),
            ("billing (gocql 2.1) 10.0.0.3", 5),
        ];
        let mut orders = read(
            "SELECT a FROM shop.orders WHERE id = ?",
            &[],
            PartitionClass::Single,
            40,
        );
        orders.prepared = 30;
        orders.unprepared = 10;
        orders.errors = 2;
        orders.clients = clients.map(|(client, count)| (client.to_owned(), count)).into();
        let mut window = window([orders]);
        for (client, count) in clients {
            window.count_client(client, count * 2);
            window.connections_mut(client).open(4, true);
            window.connections_mut(client).open(5, false);
        }
        window.connections_mut(clients[0].0).tls += 2;
        window.connections_mut(clients[1].0).tls_before += 1;
        let reports = applications(&window);
        let portal = &reports[0];
        assert_eq!(
            (portal.name.as_str(), portal.requests, portal.addresses),
            ("portal", 60, 2)
        );
        assert_eq!(
            portal.versions,
            BTreeSet::from(["4.1".to_owned(), "4.2".to_owned()])
        );
        assert!(portal.drivers.contains("Java Driver 4.19"));
        assert_eq!(portal.protocol_versions, BTreeMap::from([(4, 2), (5, 2)]));
        assert_eq!((portal.connections, portal.uncompressed), (4, 2));
        assert_eq!((portal.tls, portal.tls_before), (2, 1));
        assert_eq!((portal.plain, portal.encryption_unknown), (0, 1));
        assert_eq!(reports[1].encryption_unknown, 2, "as all of an old snapshot");
        assert_eq!(
            (portal.executions, portal.of_statements, portal.errors),
            (30, 40, 2)
        );
        assert_eq!(portal.prepared_share(), Some(0.75));
        assert_eq!(portal.tables, ["shop.orders"]);
        assert_eq!(reports[1].name, "billing");
        assert!(reports[1].versions.is_empty());
    }

    #[test]
    fn a_client_without_a_name_is_its_driver_or_its_address() {
        assert_eq!(
            version_and_driver("(gocql 2.1) 10.0.0.3"),
            (None, Some("gocql 2.1"))
        );
        assert_eq!(version_and_driver("10.0.0.3"), (None, None));
        assert_eq!(version_and_driver("x) (y"), (None, None));
    }
}
