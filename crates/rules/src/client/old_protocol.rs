//! Connections of old versions of the native protocol.

use std::collections::BTreeMap;

use super::{About, Findings, Severity, application};
use crate::{Context, Finding, Rule};
use cqlens_window::number;

pub(crate) struct OldProtocol;

impl Rule for OldProtocol {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let mut applications: BTreeMap<String, u64> = BTreeMap::new();
        for (client, connections) in &context.window.connections {
            let old = connections.versions.range(..OLDEST_FINE);
            let old: u64 = old.map(|(_, count)| count).sum();
            *applications
                .entry(application::name(client).to_owned())
                .or_default() += old;
        }
        for (application, old) in applications.into_iter().filter(|(_, old)| *old > 0) {
            let title = format!(
                "{} uses protocol version 3: {}",
                application::subject(&application, context),
                number::plural(old, "connection", "connections")
            );
            let finding = Finding::on_definition(&ABOUT, Severity::Low, context)
                .about(application)
                .title(title)
                .first("connections", old);
            found.push(finding);
        }
    }
}

/// Version 4 came with Cassandra 2.2.
const OLDEST_FINE: u8 = 4;

const ABOUT: About = About {
    id: "old-protocol",
    group: "client habits",
    summary: "An application uses version 3 of the native protocol.",
    why: "Version 3 dates from Cassandra 2.1. It does not carry server warnings, so that large batches and \
        tombstones go unnoticed; it cannot leave a value unset, so that an unknown value is written as null, \
        which is a tombstone; and the driver cannot identify the partition key values without reading the \
        schema.",
    fix: "Update the driver, or remove the setting that pins the version to 3 (sometimes left over from an \
        upgrade from 2.1). Version 4 is supported by every Cassandra since 2.2 and by ScyllaDB.",
    fix_in_short: "Upgrade the driver",
    before: "-- protocol_version = 3\nINSERT INTO shop.users (id, name, phone) VALUES (?, ?, NULL);",
    after: "-- protocol_version = 4: phone is left unset\nINSERT INTO shop.users (id, name, phone) VALUES (?, ?, ?);",
    severity: "Low.",
    severities: &[Severity::Low],
    thresholds: &[],
    needs: "The STARTUP requests of connections that are opened during the observation.",
    source: "Native protocol v4 §10, changes from version 3; cassandra.yaml `native_transport_allow_older_protocols`",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, window};

    fn found(version: u8) -> Vec<String> {
        let mut window = window([]);
        window
            .connections_mut("orders 1.2 (gocql) 10.0.0.1")
            .open(version, true);
        let findings = run(&OldProtocol, &window).findings.into_iter();
        findings.map(|finding| finding.title).collect()
    }

    #[test]
    fn version_3_is_found_and_later_ones_are_not() {
        assert_eq!(found(3), ["`orders` uses protocol version 3: 1 connection"]);
        assert_eq!(found(4), Vec::<String>::new());
        assert_eq!(found(65), Vec::<String>::new());
    }
}
