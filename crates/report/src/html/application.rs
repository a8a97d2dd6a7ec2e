//! An application in detail: how it connects, what its statements take, which problems its team has to solve.

use super::{ReportPage, problem::Fact, table};
use crate::ApplicationReport;
use cqlens_rules::{Severity, application_name};
use cqlens_window::number;

/// Clients of one application that are named.
const MOST_CLIENTS: usize = 5;

/// How many of its connections are encrypted; nothing where it has opened none.
fn encryption(application: &ApplicationReport) -> String {
    let all = application.connections;
    if all > 0 && application.encryption_unknown >= all {
        return "not known".to_owned();
    }
    let said = |count: u64, what: &str| (count > 0).then(|| format!("{} {what}", number::share(count, all)));
    let parts = [
        said(application.tls, "of the connections"),
        said(application.tls_before, "as far as a load balancer"),
        said(application.plain, "plain"),
        said(application.encryption_unknown, "not known"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

impl ReportPage<'_> {
    /// Connections that were TLS through and through: whose they are, nobody sees.
    pub(super) fn passed_through(&self) -> u64 {
        let opaque = &self.report.coverage.opaque_connections;
        opaque.get("tls").copied().unwrap_or_default()
    }

    /// The busiest one is open if it has to act.
    pub(super) fn is_application_open(&self, application: &ApplicationReport, at: usize) -> bool {
        let mut problems = self.index.problems_by(&application.name).iter();
        at == 0 && problems.any(|ranked| ranked.problem.severity == Severity::High)
    }

    pub(super) fn all_requests(&self) -> u64 {
        self.report.clients.values().sum()
    }

    pub(super) fn application_facts(&self, application: &ApplicationReport) -> Vec<Fact> {
        let fact = |value: String, name: &str| Fact {
            value,
            name: name.to_owned(),
        };
        let mut facts = vec![fact(
            number::share(application.requests, self.all_requests()),
            "of the requests",
        )];
        let latency = table::latency(&application.latency_us);
        if self.report.has_times() && !latency.is_empty() {
            facts.push(fact(latency, "latency of its statements, p50 · p99"));
        }
        if application.of_statements > 0 {
            facts.push(fact(
                number::share(application.errors, application.of_statements),
                "of its statements fail",
            ));
        }
        if let Some(share) = application.prepared_share() {
            facts.push(fact(number::percent(share), "are prepared"));
        }
        if application.connections > 0 {
            facts.push(fact(number::count(application.connections), "connections opened"));
        }
        facts
    }

    /// The busiest of its clients, with their addresses.
    fn clients_of(&self, application: &ApplicationReport) -> String {
        let clients = self.report.clients.iter();
        let mut clients: Vec<_> = clients
            .filter(|(client, _)| application_name(client) == application.name)
            .collect();
        clients.sort_by_key(|&(client, count)| (std::cmp::Reverse(count), client));
        let shown = clients.iter().take(MOST_CLIENTS).map(|(client, count)| {
            let share = number::share(**count, application.requests);
            format!("{client} {share}")
        });
        let mut shown: Vec<_> = shown.collect();
        if clients.len() > MOST_CLIENTS {
            shown.push(format!("{} more", clients.len() - MOST_CLIENTS));
        }
        shown.join(", ")
    }

    pub(super) fn about_application(&self, application: &ApplicationReport) -> Vec<(&'static str, String)> {
        let joined = |names: &std::collections::BTreeSet<String>| {
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            names.join(", ")
        };
        let versions = application.protocol_versions.iter();
        let versions: Vec<_> = versions
            .map(|(version, &count)| format!("v{version} {}", number::share(count, application.connections)))
            .collect();
        let compressed = application.connections.saturating_sub(application.uncompressed);
        let compression = match application.connections {
            0 => String::new(),
            connections => format!("{} of the connections", number::share(compressed, connections)),
        };
        [
            ("Versions", joined(&application.versions)),
            ("Driver", joined(&application.drivers)),
            ("Protocol", versions.join(", ")),
            ("Compression", compression),
            ("TLS", encryption(application)),
            ("Addresses", number::count(application.addresses)),
            ("Requests", number::count(application.requests)),
            ("Clients", self.clients_of(application)),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .collect()
    }
}
