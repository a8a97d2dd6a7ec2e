//! Which application sends a statement: what is a habit of a client is said once for each application, not for
//! each of its statements and not for each of its processes.

use std::collections::{BTreeMap, BTreeSet};

use super::{About, Context, Finding, Severity, figures, severity::Impact, watch::WatchedTime};
use cqlens_window::{OTHERS, Pattern, PatternId, Window, is_client_address, number};

/// Patterns with their ids.
pub(super) type Patterns<'a> = Vec<(PatternId, &'a Pattern)>;

/// These patterns by the applications that sent them; below an empty name those of which nobody is known.
pub(super) fn by_application<'a>(
    patterns: impl IntoIterator<Item = (PatternId, &'a Pattern)>,
) -> BTreeMap<String, Patterns<'a>> {
    let mut applications: BTreeMap<String, Patterns<'_>> = BTreeMap::new();
    for (id, pattern) in patterns {
        for application in of(pattern) {
            let patterns = applications.entry(application.to_owned()).or_default();
            patterns.push((id, pattern));
        }
    }
    applications
}

/// The applications that sent a pattern; an empty name where nobody is known.
pub(super) fn of(pattern: &Pattern) -> BTreeSet<&str> {
    let mut names: BTreeSet<_> = pattern.clients.keys().map(|client| name(client)).collect();
    if names.is_empty() {
        names.insert("");
    }
    names
}

/// The application in a client's name, `APPLICATION VERSION (DRIVER VERSION) ADDRESS`: without the version, the
/// driver and the address, so that it is the same on every machine and after every release. The driver where
/// the application has no name.
pub fn name(client: &str) -> &str {
    let without_address = match split_address(client) {
        ("", _) => client,
        (before, _) => before,
    };
    let application = match without_address.split_once('(') {
        Some(("", driver)) => driver.trim_end_matches(')'),
        Some((application, _)) => application,
        None => without_address,
    };
    let application = application.trim_end();
    match application.rsplit_once(' ') {
        Some((rest, last)) if is_version(last) => without_run(rest),
        _ => without_run(application),
    }
}

/// Without the number at its end that another run does not have: when it started, or its process.
/// `Spark-Cassandra-Connector-local-1795918192237` is `Spark-Cassandra-Connector-local`.
fn without_run(name: &str) -> &str {
    const SHORTEST: usize = 5;
    let before = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
    match before.strip_suffix(['-', '_', '.', '@', ':']) {
        Some(rest) if name.len() - before.len() >= SHORTEST && !rest.is_empty() => rest,
        _ => name,
    }
}

/// A client's name in its parts; what it does not say is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts<'c> {
    /// Its name.
    pub application: Option<&'c str>,
    /// The application's.
    pub version: Option<&'c str>,
    /// With its version.
    pub driver: Option<&'c str>,
    /// The address, or the network.
    pub address: Option<&'c str>,
}

/// The parts of `APPLICATION VERSION (DRIVER VERSION) ADDRESS`.
pub fn parts(client: &str) -> Parts<'_> {
    let (without_address, address) = split_address(client);
    let (before, driver) = match without_address.split_once('(') {
        // What is counted of all for whom there was no room is nobody's driver.
        Some(_) if client == OTHERS => (client, None),
        Some((before, rest)) => (before, rest.rsplit_once(')').map(|(driver, _)| driver)),
        None => (without_address, None),
    };
    let before = before.trim_end();
    let (application, version) = match before.rsplit_once(' ') {
        Some((rest, last)) if is_version(last) => (rest, Some(last)),
        _ => (before, None),
    };
    Parts {
        application: Some(application).filter(|name| !name.is_empty()),
        version,
        driver,
        address,
    }
}

/// What stands before the address, and the address.
fn split_address(client: &str) -> (&str, Option<&str>) {
    match client.rsplit_once(' ') {
        Some((rest, last)) if is_client_address(last) => (rest, Some(last)),
        None if is_client_address(client) => ("", Some(client)),
        _ => (client, None),
    }
}

fn is_version(word: &str) -> bool {
    let digits = word.strip_prefix('v').unwrap_or(word);
    digits.starts_with(|first: char| first.is_ascii_digit())
}

/// A finding on what an application does with all of these patterns; of their table where they have one in
/// common.
pub(super) fn finding(
    about: &'static About,
    severity: Severity,
    (application, patterns): (&str, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    Finding::on_all(about, severity, patterns, context).about(application)
}

/// The application as the subject of a title; one without a name is called so, with its driver and address.
pub(super) fn subject(application: &str, context: &Context<'_>) -> String {
    if application.is_empty() {
        return "A client".to_owned();
    }
    match context.unnamed(application) {
        [] => format!("`{application}`"),
        [client] => format!("An unnamed application ({client})"),
        clients => format!(
            "An unnamed application ({application}, {} clients)",
            number::count(clients.len() as u64)
        ),
    }
}

/// The clients that do not say which application they are, below what stands for it.
pub(super) fn unnamed(window: &Window) -> BTreeMap<String, Vec<String>> {
    let mut applications: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for client in window.connections.keys() {
        let Parts {
            application: None,
            driver: Some(driver),
            address,
            ..
        } = parts(client)
        else {
            continue;
        };
        let client_in_words = [Some(driver), address].into_iter().flatten();
        let client_in_words: Vec<_> = client_in_words.collect();
        let of_application = applications.entry(name(client).to_owned()).or_default();
        of_application.push(client_in_words.join(", "));
    }
    applications
}

/// The statements of a title: `12 statements on 3 tables`.
pub(super) fn on_tables(patterns: &[(PatternId, &Pattern)]) -> String {
    let statements = number::plural(patterns.len() as u64, "statement", "statements");
    format!("{statements} on {}", tables(patterns))
}

/// The table of a title where all are on one, else how many tables there are.
pub(super) fn tables(patterns: &[(PatternId, &Pattern)]) -> String {
    let tables: BTreeSet<_> = patterns
        .iter()
        .map(|(_, pattern)| figures::table(pattern))
        .collect();
    match tables.len() {
        1 => tables.into_iter().next().unwrap_or_default(),
        several => number::plural(several as u64, "table", "tables"),
    }
}

/// What these patterns cost together, where one execution is this bad.
pub(super) fn impact<'p>(each: Severity, patterns: &[(PatternId, &'p Pattern)]) -> Impact<'p> {
    let impact = Impact::each(each);
    patterns
        .iter()
        .fold(impact, |impact, (_, pattern)| impact.of(pattern))
}

/// How long it was watched for any of these patterns.
pub(super) fn watch(patterns: &[(PatternId, &Pattern)], context: &Context<'_>) -> WatchedTime {
    context.watch_all(patterns.iter().map(|&(_, pattern)| pattern))
}

/// Adds up what is counted of each pattern.
pub(super) fn sum(patterns: &[(PatternId, &Pattern)], of: impl Fn(&Pattern) -> u64) -> u64 {
    patterns.iter().map(|(_, pattern)| of(pattern)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use cqlens_cql::schema::Schema;
    use cqlens_window::Cluster;

    #[test]
    fn an_application_has_the_same_name_on_every_machine_and_after_every_release() {
        for client in [
            "orders-api 1.2.0 (DataStax Python Driver 3.29.1) 10.0.0.3",
            "orders-api 1.3 (DataStax Python Driver 3.29.1) fe80::1",
            "orders-api (gocql) 10.0.0.0/24",
            "orders-api v7",
            "orders-api",
        ] {
            assert_eq!(name(client), "orders-api", "{client}");
        }
        assert_eq!(
            name("(DataStax Python Driver 3.29.1) 10.0.0.3"),
            "DataStax Python Driver"
        );
        assert_eq!(name("10.0.0.3"), "10.0.0.3");
    }

    #[test]
    fn a_name_does_not_change_with_each_run() {
        for (client, application) in [
            (
                "Spark-Cassandra-Connector-local-1795918192237 (DataStax Java Driver 4.18.1) 10.0.0.3",
                "Spark-Cassandra-Connector-local",
            ),
            ("worker_31337 1.2 (gocql) 10.0.0.3", "worker"),
            ("orders-2024 (gocql) 10.0.0.3", "orders-2024"),
            ("12345678 (gocql) 10.0.0.3", "12345678"),
        ] {
            assert_eq!(name(client), application, "{client}");
        }
    }

    #[test]
    fn an_application_without_a_name_is_said_to_have_none() {
        let (schema, cluster) = (Schema::default(), Cluster::default());
        let mut window = testing::window([]);
        for client in [
            "(DataStax Java Driver 3.10.2) 10.0.0.3",
            "(gocql) 10.0.0.4",
            "(gocql) 10.0.0.5",
            "orders 1.2 (gocql) 10.0.0.6",
        ] {
            window.connections_mut(client);
        }
        let context = Context::new(&window, &schema, &cluster);
        for (application, in_title) in [
            (
                "DataStax Java Driver",
                "An unnamed application (DataStax Java Driver 3.10.2, 10.0.0.3)",
            ),
            ("gocql", "An unnamed application (gocql, 2 clients)"),
            ("orders", "`orders`"),
            ("", "A client"),
        ] {
            assert_eq!(subject(application, &context), in_title);
        }
    }
}
