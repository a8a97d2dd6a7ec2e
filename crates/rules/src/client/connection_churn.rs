//! Clients that connect again and again.

use std::collections::BTreeMap;

use super::{About, Findings, Severity, Threshold, application};
use crate::{Context, Finding, Rule, severity::Impact};
use cqlens_window::{Connections, number};

pub(crate) struct ConnectionChurn;

impl Rule for ConnectionChurn {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (application, opened) in by_application(context) {
            // Each process opens some to every node when it starts.
            let each = opened.opened / opened.clients.max(1);
            let watch = context.watch_application(&application);
            let rate = each as f64 / (watch.seconds() / 3_600.0).max(1.0);
            let bad = if rate >= found.threshold(&ABOUT, &MANY) {
                Severity::Medium
            } else if rate >= found.threshold(&ABOUT, &SOME) {
                Severity::Low
            } else {
                continue;
            };
            // Without requests it is a health check.
            let per_connection = opened.requests as f64 / opened.opened.max(1) as f64;
            if per_connection <= found.threshold(&ABOUT, &REQUESTS) {
                let severity = context.severity(found, &Impact::beside_cost(bad, opened.opened));
                found.push(finding(severity, &application, &opened, context));
            }
        }
    }
}

/// What the clients of an application have opened.
#[derive(Default)]
struct Opened {
    opened: u64,
    clients: u64,
    requests: u64,
}

fn by_application(context: &Context<'_>) -> BTreeMap<String, Opened> {
    let mut applications: BTreeMap<String, Opened> = BTreeMap::new();
    for (client, Connections { opened, .. }) in &context.window.connections {
        let all = applications
            .entry(application::name(client).to_owned())
            .or_default();
        all.opened += opened;
        all.clients += 1;
        all.requests += context.window.clients.get(client).copied().unwrap_or_default();
    }
    applications
}

fn finding(severity: Severity, application: &str, opened: &Opened, context: &Context<'_>) -> Finding {
    let per_connection = opened.requests as f64 / opened.opened.max(1) as f64;
    let title = format!(
        "{} opens {} in {}: a new one for every {} requests",
        application::subject(application, context),
        number::plural(opened.opened, "connection", "connections"),
        number::seconds(context.watch_application(application).seconds()),
        number::decimal(per_connection)
    );
    Finding::on_definition(&ABOUT, severity, context)
        .about(application)
        .title(title)
        .first("clients", opened.clients)
        .first("requests_per_connection", per_connection)
        .first("connections", opened.opened)
}

const SOME: Threshold = Threshold {
    name: "some_per_hour",
    unit: "connections per client and hour",
    default: 360.0,
    origin: "cqlens default: one every ten seconds, while drivers keep a connection to each node for days",
};

const MANY: Threshold = Threshold {
    name: "many_per_hour",
    unit: "connections per client and hour",
    default: 7_200.0,
    origin: "cqlens default: two a second",
};

const REQUESTS: Threshold = Threshold {
    name: "requests_each",
    unit: "requests per connection",
    default: 1_000.0,
    origin: "cqlens default: beyond that, the cost of a connection disappears among its requests",
};

const ABOUT: About = About {
    id: "connection-churn",
    group: "client habits",
    summary: "An application keeps opening new connections.",
    why: "Opening a connection costs round trips for STARTUP, authentication and TLS, and a password hash on \
        the node; a new session also reads the ring and the schema and prepares its statements again. \
        Drivers are meant to open one or two connections to each node and to send everything through them.",
    fix: "Create one session per process at startup and share it between all threads; in functions (AWS \
        Lambda), create it outside the handler. If connections break, look for an idle timeout between \
        client and cluster, and set the driver's heartbeat interval below it.",
    fix_in_short: "Keep connections open",
    before: "-- one session per request\nSELECT name FROM shop.users WHERE id = ?;",
    after: "-- one session per process\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "Low from `some_per_hour` connections per client, medium from `many_per_hour`; nothing above \
        `requests_each`. A shorter observation counts as one hour, because all processes connect when they \
        start. Connections have no share of the statements' time and work, so only their number counts.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[SOME, MANY, REQUESTS],
    needs: "The STARTUP requests of connections that are opened during the observation.",
    source: "Drivers' manuals: one session for an application; Cassandra metric `connectedNativeClients`",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, window};

    fn found(opened: u64, requests: u64) -> Vec<(Severity, String)> {
        let mut window = window([]);
        let client = "orders 1.2 (gocql) 10.0.0.1";
        (0..opened).for_each(|_| window.connections_mut(client).open(4, true));
        window.count_client(client, requests);
        let findings = run(&ConnectionChurn, &window).findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    #[test]
    fn a_session_for_each_request_is_found() {
        assert_eq!(
            found(7_200, 72_000),
            [(
                Severity::Medium,
                "`orders` opens 7,200 connections in 1 h: a new one for every 10 requests".to_owned()
            )]
        );
        assert_eq!(found(720, 7_200)[0].0, Severity::Low);
    }

    #[test]
    fn a_pool_and_busy_connections_are_fine() {
        assert_eq!(found(12, 72_000), []);
        assert_eq!(found(720, 7_200_000), []);
    }
}
