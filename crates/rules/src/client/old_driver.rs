//! Drivers of series that are no longer developed.

use std::collections::{BTreeMap, BTreeSet};

use super::{About, Findings, Severity, application};
use crate::{Context, Finding, Rule};
use cqlens_window::number;

pub(crate) struct OldDriver;

impl Rule for OldDriver {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        // By application and driver: after a release two versions run side by side.
        let mut users: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
        for client in context.window.connections.keys() {
            if let Some(driver) = driver(client).filter(|driver| successor(driver).is_some()) {
                let clients = users.entry((application::name(client), driver)).or_default();
                clients.insert(client);
            }
        }
        for ((application, driver), clients) in users {
            let title = format!(
                "{} uses {driver}, a series that is no longer developed: {}",
                application::subject(application, context),
                number::plural(clients.len() as u64, "client", "clients")
            );
            let finding = Finding::on_definition(&ABOUT, Severity::Info, context)
                .about(format!("{application} {driver}"))
                .title(title)
                .first("clients", clients.len() as u64);
            found.push(match successor(driver) {
                Some(Successor::Driver(name)) => finding
                    .advice(format!("Plan the upgrade to {name}: {}", upgrade(&name)))
                    .first("successor_driver", name),
                Some(Successor::None) | None => {
                    finding.first("has_successor", false).advice(WITHOUT_SUCCESSOR)
                }
            });
        }
    }
}

/// The driver in a client's name, `APPLICATION VERSION (DRIVER VERSION) ADDRESS`, with its version.
fn driver(client: &str) -> Option<&str> {
    let (_, behind) = client.split_once('(')?;
    let (driver, _) = behind.rsplit_once(')')?;
    Some(driver)
}

/// What replaces a driver.
#[derive(Debug, PartialEq, Eq)]
enum Successor {
    /// This one.
    Driver(String),
    /// Nobody maintains one for its language.
    None,
}

const WITHOUT_SUCCESSOR: &str = "\
    This driver is no longer maintained and has no successor. Plan to move the code that reads and writes \
    Cassandra to a language with a maintained driver, or behind a service written in one.";

/// What moving to a driver takes.
fn upgrade(successor: &str) -> &'static str {
    if successor.starts_with("Java") {
        "it has a new API, so that moving to it is a project of its own."
    } else if successor.contains("gocql") {
        "the module has another path and major version, and a few interfaces have changed."
    } else {
        "for most programs it is a version bump."
    }
}

/// What replaces a driver with its version; nothing where its series is developed, or where it is not known.
fn successor(driver: &str) -> Option<Successor> {
    let name = driver.to_lowercase();
    let series: Option<u32> = name
        .rsplit_once(' ')
        .and_then(|(_, version)| version.trim_start_matches('v').split('.').next()?.parse().ok());
    let this = |name: &str| Some(Successor::Driver(name.to_owned()));
    let is_below = |least: u32| series.is_some_and(|series| series < least);
    match name.as_str() {
        // Forks have series of their own.
        name if name.contains("scylla") => None,
        name if name.contains("enterprise") => Some(Successor::Driver(for_cassandra(driver))),
        name if name.contains("java driver") && is_below(4) => this("Java driver 4"),
        name if name.contains("node.js driver") && is_below(4) => this("Node.js driver 4"),
        name if name.contains("gocql") && is_below(2) => this("apache/cassandra-gocql-driver 2"),
        name if name.contains("ruby driver") || name.contains("php driver") => Some(Successor::None),
        _ => None,
    }
}

/// `DataStax Enterprise Python Driver 2.11.2` has been replaced by `DataStax Python Driver for Apache Cassandra`.
fn for_cassandra(driver: &str) -> String {
    let is_version = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    let words = driver
        .split(' ')
        .filter(|word| !word.eq_ignore_ascii_case("enterprise") && !is_version(word));
    let name: Vec<_> = words.collect();
    format!("{} for Apache Cassandra", name.join(" "))
}

const ABOUT: About = About {
    id: "old-driver",
    group: "client habits",
    summary: "An application uses a driver series that is no longer developed.",
    why: "\
        Only current series get protocol version 5, new types such as vectors, and fixes to reconnection and \
        token awareness. The Java driver 3 and the drivers for DataStax Enterprise get fixes for serious \
        faults at most.",
    fix: "Plan the upgrade: it may come with a new API, so that moving to it is a project of its own.",
    fix_in_short: "Upgrade the driver",
    before: "-- DataStax Java Driver 3.11\nSELECT name FROM shop.users WHERE id = ?;",
    after: "-- Java driver 4\nSELECT name FROM shop.users WHERE id = ?;",
    severity: "Info.",
    severities: &[Severity::Info],
    thresholds: &[],
    needs: "STARTUP requests with DRIVER_NAME and DRIVER_VERSION of connections that are opened during the \
        observation. The Python, C# and C++ drivers have had a single series for years; ScyllaDB's forks are \
        not judged.",
    source: "Driver compatibility pages of DataStax: end-of-life drivers, and the advice to leave the 3.x series of the Java driver",
    cause: None,
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, window};

    fn found(client: &str) -> Vec<String> {
        let mut window = window([]);
        window.connections_mut(client).open(4, true);
        let findings = run(&OldDriver, &window).findings.into_iter();
        findings.map(|finding| finding.title).collect()
    }

    #[test]
    fn what_replaces_it_is_named_where_there_is_such() {
        let driver = |name: &str| Some(Successor::Driver(name.to_owned()));
        assert_eq!(successor("DataStax Java Driver 3.11.2"), driver("Java driver 4"));
        assert_eq!(
            successor("DataStax Enterprise Python Driver 2.11.2"),
            driver("DataStax Python Driver for Apache Cassandra")
        );
        let mut window = window([]);
        let client = "shop (DataStax Ruby Driver 3.2.5) 10.0.0.1";
        window.connections_mut(client).open(4, true);
        let finding = run(&OldDriver, &window).findings.remove(0);
        assert_eq!(finding.evidence[0], ("has_successor", false.into()));
        assert_eq!(finding.advice, WITHOUT_SUCCESSOR);
    }

    #[test]
    fn the_series_decides() {
        assert_eq!(
            found("orders 1.2 (DataStax Java Driver 3.11.2) 10.0.0.1"),
            ["`orders` uses DataStax Java Driver 3.11.2, a series that is no longer developed: 1 client"]
        );
        for old in [
            "(github.com/gocql/gocql v1.6.0)",
            "a (DataStax Enterprise Python Driver 2.11.2) 10.0.0.1",
            "(DataStax Node.js Driver for Apache Cassandra 3.6.0) 10.0.0.1",
        ] {
            assert_eq!(found(old).len(), 1, "{old}");
        }
        for current in [
            "(DataStax Java driver for Apache Cassandra(R) 4.17.0) 10.0.0.1",
            "orders (DataStax Python Driver 3.29.2) 10.0.0.1",
            "(github.com/apache/cassandra-gocql-driver v2.0.0)",
            "orders (gocql) 10.0.0.1",
            "(DataStax Node.js Driver for Apache Cassandra 4.8.0) 10.0.0.1",
            "(DataStax C# Driver for Apache Cassandra 3.22.0) 10.0.0.1",
            "(ScyllaDB GoCQL Driver v1.15.3) 10.0.0.1",
            "(Scylla Java Driver 3.11.5) 10.0.0.1",
            "10.0.0.1",
        ] {
            assert_eq!(found(current), Vec::<String>::new(), "{current}");
        }
    }
}
