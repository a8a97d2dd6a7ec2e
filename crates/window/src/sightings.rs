//! Which sources saw a client, and which a table: what a proxy of another application did not see it could not have
//! seen, however long it watched.
//!
//! A source that saw an application once could have seen it at all times that it watched. Nothing is kept as long as one
//! source has seen everything.

use std::collections::{BTreeMap, BTreeSet};

use cqlens_cql::schema::TableName;
use serde::{Deserialize, Deserializer, Serialize};

use super::sketch::meter;

/// The names of sources; nothing where there are too many to tell them apart: it may be any of them.
type Sources = Option<BTreeSet<String>>;

/// So many sources of one client or table are told apart. A client is one address, so few see it; of a table seen by
/// more, the time of all sources says enough.
const MOST_SOURCES: usize = 256;

/// By client, as [`super::Window::clients`] names them, and by table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sightings {
    #[serde(deserialize_with = "stored")]
    clients: BTreeMap<String, Sources>,
    #[serde(deserialize_with = "stored")]
    tables: BTreeMap<TableName, Sources>,
}

impl Sightings {
    /// Whether nothing is told apart.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty() && self.tables.is_empty()
    }

    /// The sources that saw each client; nothing for one that any of them may have seen.
    pub fn clients(&self) -> impl Iterator<Item = (&str, Option<&BTreeSet<String>>)> {
        let clients = self.clients.iter();
        clients.map(|(client, sources)| (client.as_str(), sources.as_ref()))
    }

    /// The sources that saw each table; nothing for one that any of them may have seen.
    pub fn tables(&self) -> impl Iterator<Item = (&TableName, Option<&BTreeSet<String>>)> {
        let tables = self.tables.iter();
        tables.map(|(table, sources)| (table, sources.as_ref()))
    }

    /// Says that these sources saw the clients and tables of which nothing is known yet: those of a window that is
    /// theirs.
    pub(super) fn fill<'w>(
        &mut self,
        sources: &BTreeSet<String>,
        clients: impl Iterator<Item = &'w String>,
        tables: impl Iterator<Item = &'w TableName>,
    ) {
        let all = || (sources.len() <= MOST_SOURCES).then(|| sources.clone());
        for client in clients {
            if !self.clients.contains_key(client) {
                self.clients.insert(client.clone(), all());
            }
        }
        for table in tables {
            if !self.tables.contains_key(table) {
                self.tables.insert(table.clone(), all());
            }
        }
    }

    /// Adds what `other` knows.
    pub(super) fn merge(&mut self, other: Self) {
        merge(&mut self.clients, other.clients);
        merge(&mut self.tables, other.tables);
    }

    /// Forgets clients and tables that the window had no room for.
    pub(super) fn retain(
        &mut self,
        has_client: impl Fn(&String) -> bool,
        has_table: impl Fn(&TableName) -> bool,
    ) {
        self.clients.retain(|client, _| has_client(client));
        self.tables.retain(|table, _| has_table(table));
    }
}

fn merge<K: Ord>(mine: &mut BTreeMap<K, Sources>, theirs: BTreeMap<K, Sources>) {
    for (key, theirs) in theirs {
        match mine.get_mut(&key) {
            Some(mine) => *mine = both(mine.take(), theirs),
            None => drop(mine.insert(key, theirs)),
        }
    }
}

/// What is stored; of too many sources as merging has it.
fn stored<'de, D, K>(deserializer: D) -> Result<BTreeMap<K, Sources>, D::Error>
where
    D: Deserializer<'de>,
    K: Deserialize<'de> + Ord,
{
    let mut stored: BTreeMap<K, Sources> = meter::nested(deserializer)?;
    for sources in stored.values_mut() {
        *sources = sources.take().filter(|sources| sources.len() <= MOST_SOURCES);
    }
    Ok(stored)
}

/// Once there are too many there always are, so that the order of merging does not matter.
fn both(mine: Sources, theirs: Sources) -> Sources {
    let mut mine = mine?;
    mine.extend(theirs?);
    (mine.len() <= MOST_SOURCES).then_some(mine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Window;
    use jiff::Timestamp;

    /// An hour of one source that saw one client.
    fn seen(source: &str, client: &str) -> Window {
        let at = |second| Timestamp::from_second(second).unwrap_or_default();
        let mut window = Window::new(at(0), source);
        window.count_client(client, 1);
        window.close(at(3_600));
        window
    }

    fn merged(windows: &[Window]) -> Window {
        let mut windows = windows.iter();
        let mut all = windows.next().cloned().unwrap_or_else(|| seen("", ""));
        windows.for_each(|window| all.merge(window));
        all
    }

    fn sources(window: &Window, client: &str) -> Option<Vec<String>> {
        let mut clients = window.sightings.clients();
        let sources = clients.find(|(name, _)| *name == client)?.1?;
        Some(sources.iter().cloned().collect())
    }

    #[test]
    fn each_client_has_the_sources_that_saw_it() {
        let all = merged(&[seen("a", "orders"), seen("b", "orders"), seen("c", "stock")]);
        assert_eq!(
            sources(&all, "orders"),
            Some(vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(sources(&all, "stock"), Some(vec!["c".to_owned()]));
    }

    #[test]
    fn one_source_needs_no_names() {
        let all = merged(&[seen("a", "orders"), seen("a", "stock")]);
        assert!(all.sightings.is_empty());
    }

    #[test]
    fn more_sources_than_are_told_apart_are_any_in_whatever_order_they_come() {
        let windows: Vec<_> = (0..=MOST_SOURCES)
            .map(|source| seen(&format!("pod-{source}"), "orders"))
            .collect();
        let told_apart = merged(&windows[1..]);
        assert_eq!(
            sources(&told_apart, "orders").map(|all| all.len()),
            Some(MOST_SOURCES)
        );
        let all = merged(&windows);
        assert_eq!(sources(&all, "orders"), None);
        let halves = windows.split_at(MOST_SOURCES / 2);
        assert_eq!(
            merged(&[merged(halves.1), merged(halves.0)]).sightings,
            all.sightings
        );
    }
}
