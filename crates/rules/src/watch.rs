//! How long those sources watched that could have seen something: what its count is divided by to make a rate.
//!
//! A source could have seen an application if it saw any client of it, at any time. What a pattern is counted for are the
//! applications that send it, so all sources that saw one of them count, whether they saw the pattern or not; where it is not known
//! who sends it, those that saw its table. A table is watched by those that saw it, and by those that could have seen a
//! pattern on it. Where nothing is known, all sources count.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
};

use super::{Context, application, statement::table_of};
use cqlens_cql::schema::TableName;
use cqlens_window::{OTHERS, Pattern, Window};

/// A time of observation, in seconds: 0 of what was only read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WatchedTime(f64);

impl WatchedTime {
    pub(crate) fn seconds(self) -> f64 {
        self.0
    }
}

/// The time in which any source watched.
impl From<&Window> for WatchedTime {
    fn from(window: &Window) -> Self {
        Self(window.seconds())
    }
}

/// Names of sources; nothing for any of them.
type SourceNames<'a> = Option<BTreeSet<&'a str>>;

/// Which sources could have seen an application or a table; nothing is known, nor needed, of windows of one source.
#[derive(Debug, Default)]
pub(super) struct Watching<'a> {
    applications: BTreeMap<&'a str, SourceNames<'a>>,
    tables: BTreeMap<TableName, SourceNames<'a>>,
    /// Added up once for the sources of each application.
    seconds: RefCell<BTreeMap<BTreeSet<&'a str>, f64>>,
}

impl<'a> Watching<'a> {
    pub(super) fn of(window: &'a Window) -> Self {
        let mut watching = Self::default();
        let borrowed = |sources: Option<&'a BTreeSet<String>>| -> SourceNames<'a> {
            sources.map(|sources| sources.iter().map(String::as_str).collect())
        };
        for (client, sources) in window.sightings.clients() {
            // Whoever there was no room for.
            let sources = borrowed(sources.filter(|_| client != OTHERS));
            add(&mut watching.applications, application::name(client), sources);
        }
        for (table, sources) in window.sightings.tables() {
            add(&mut watching.tables, table.clone(), borrowed(sources));
        }
        if !window.sightings.is_empty() {
            for pattern in window.patterns.values() {
                let of_table = table_of(pattern).filter(|_| !pattern.clients.is_empty());
                if let Some(table) = of_table {
                    let sources = watching.sources_of(pattern);
                    add(&mut watching.tables, table, sources);
                }
            }
        }
        watching
    }

    fn sources_of(&self, pattern: &Pattern) -> SourceNames<'a> {
        if pattern.clients.is_empty() {
            let table = table_of(pattern)?;
            return self.tables.get(&table)?.clone();
        }
        let mut all = BTreeSet::new();
        for application in application::of(pattern) {
            all.extend(self.applications.get(application)?.as_ref()?);
        }
        Some(all)
    }

    /// The time of these sources together; that of all where any of them may have seen it.
    fn watch(&self, window: &Window, sources: SourceNames<'a>) -> WatchedTime {
        let Some(sources) = sources.filter(|sources| sources.len() < window.sources.len()) else {
            return WatchedTime::from(window);
        };
        let mut known = self.seconds.borrow_mut();
        let seconds = known
            .entry(sources)
            .or_insert_with_key(|sources| window.observed.seconds_of(sources.iter().copied()));
        // Nobody is known to have watched.
        if *seconds > 0.0 {
            WatchedTime(*seconds)
        } else {
            WatchedTime::from(window)
        }
    }
}

/// Once any source may have seen it, any may.
fn add<'a, K: Ord>(to: &mut BTreeMap<K, SourceNames<'a>>, key: K, sources: SourceNames<'a>) {
    let mine = to.entry(key).or_insert_with(|| Some(BTreeSet::new()));
    *mine = mine.take().zip(sources).map(|(mut mine, sources)| {
        mine.extend(sources);
        mine
    });
}

impl Context<'_> {
    /// How long an application was watched.
    pub(super) fn watch_application(&self, name: &str) -> WatchedTime {
        let sources = self.watching.applications.get(name).cloned();
        self.watching.watch(self.window, sources.flatten())
    }

    /// How long a table was watched.
    pub(super) fn watch_table(&self, name: &TableName) -> WatchedTime {
        let sources = self.watching.tables.get(name).cloned();
        self.watching.watch(self.window, sources.flatten())
    }

    /// How long it was watched for a pattern.
    pub(crate) fn watch(&self, pattern: &Pattern) -> WatchedTime {
        self.watch_all([pattern])
    }

    /// How long it was watched for any of these patterns.
    pub(crate) fn watch_all<'p>(&self, patterns: impl IntoIterator<Item = &'p Pattern>) -> WatchedTime {
        let sources = patterns
            .into_iter()
            .map(|pattern| self.watching.sources_of(pattern));
        let together = sources.reduce(|all, sources| {
            let (mut all, sources) = all.zip(sources)?;
            all.extend(sources);
            Some(all)
        });
        self.watching.watch(self.window, together.flatten())
    }

    /// The same in seconds.
    pub fn watched_seconds<'p>(&self, patterns: impl IntoIterator<Item = &'p Pattern>) -> f64 {
        self.watch_all(patterns).seconds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Finding, testing};
    use cqlens_cql::{footprint::PartitionClass, plan::Flag, schema::Schema};
    use cqlens_window::{Cluster, PatternId};
    use jiff::Timestamp;

    const HOUR: i64 = 3_600;

    /// A source that watched from one hour to another, and saw the application scan its table so often.
    fn seen(source: &str, hours: (i64, i64), application: &str, times: u64) -> Window {
        let at = |hour| Timestamp::from_second(hour * HOUR).unwrap_or_default();
        let mut window = Window::new(at(hours.0), source);
        let cql = format!("SELECT * FROM shop.{application} WHERE name = ? ALLOW FILTERING");
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded];
        let mut pattern = testing::read(&cql, &flags, PartitionClass::Scan, times);
        let client = format!("{application} 1.0 (driver) 10.0.0.{}", source.len());
        pattern.count_client(&client, times);
        window.count_client(&client, times);
        let table = table_of(&pattern).expect("the statement names its table");
        window.count_table(&table, |table| table.reads += times);
        let id = application.bytes().map(u64::from).sum();
        if times > 0 {
            window.patterns.insert(PatternId(id), pattern);
        }
        window.close(at(hours.1));
        window
    }

    fn merged(windows: &[Window]) -> Window {
        let mut all = windows[0].clone();
        windows[1..].iter().for_each(|window| all.merge(window));
        all
    }

    /// For how many hours the application's pattern, its table and itself were watched.
    fn hours(window: &Window, application: &str) -> [f64; 3] {
        let (schema, cluster) = (Schema::default(), Cluster::default());
        let context = Context::new(window, &schema, &cluster);
        let name = TableName {
            keyspace: "shop".to_owned(),
            table: application.to_owned(),
        };
        let mut patterns = window.patterns.values();
        let pattern = patterns.find(|pattern| pattern.head.table.as_deref() == Some(application));
        [
            context.watch(pattern.expect("the application's pattern")),
            context.watch_table(&name),
            context.watch_application(application),
        ]
        .map(|watch| watch.seconds() / HOUR as f64)
    }

    fn scans(window: &Window) -> Vec<Finding> {
        let findings = testing::judge(window).findings.into_iter();
        findings
            .filter(|finding| finding.rule == "allow-filtering")
            .collect()
    }

    #[test]
    fn a_proxy_of_another_application_does_not_count() {
        let all = merged(&[
            seen("orders-proxy", (0, 1), "orders", 3_600),
            seen("stock", (0, 168), "stock", 168),
        ]);
        assert_eq!(all.seconds(), 168.0 * HOUR as f64);
        assert_eq!(hours(&all, "orders"), [1.0; 3]);
        assert_eq!(hours(&all, "stock"), [168.0; 3]);
        let orders = &scans(&all)[0];
        assert!(orders.title.ends_with(", 1 a second"), "{}", orders.title);
        assert!(orders.evidence.contains(&("executions_per_second", 1.0.into())));
    }

    #[test]
    fn a_source_that_saw_the_application_counts_also_for_what_it_did_not_see() {
        // Another table of the same application.
        let mut other = seen("second", (1, 10), "orders", 0);
        other.tables.clear();
        let all = merged(&[seen("first", (0, 1), "orders", 100), other]);
        assert_eq!(hours(&all, "orders"), [10.0; 3]);
    }

    #[test]
    fn pods_after_each_other_and_at_once_watch_as_long_as_any_did() {
        let all = merged(&[
            seen("pod-a", (0, 1), "orders", 100),
            seen("pod-bb", (1, 2), "orders", 100),
            seen("pod-ccc", (1, 3), "orders", 100),
            seen("stock", (0, 24), "stock", 100),
        ]);
        assert_eq!(hours(&all, "orders"), [3.0; 3]);
    }

    #[test]
    fn of_whom_nobody_knows_all_sources_count() {
        let mut unnamed = seen("first", (0, 1), "orders", 100);
        unnamed.clients.clear();
        unnamed
            .patterns
            .values_mut()
            .for_each(|pattern| pattern.clients.clear());
        let mut untold = unnamed.clone();
        let stock = seen("second", (0, 24), "stock", 100);
        unnamed.merge(&stock);
        let [pattern, table, application] = hours(&unnamed, "orders");
        assert_eq!((pattern, table, application), (1.0, 1.0, 24.0), "by its table");
        untold.tables.clear();
        untold.merge(&stock);
        assert_eq!(hours(&untold, "orders"), [24.0; 3]);
    }

    #[test]
    fn of_snapshots_of_older_versions_all_their_sources_count() {
        let mut older = merged(&[
            seen("orders-proxy", (0, 1), "orders", 100),
            seen("stock", (0, 24), "stock", 100),
        ]);
        older.sightings = cqlens_window::Sightings::default();
        assert_eq!(hours(&older, "orders"), [24.0; 3]);
        older.merge(&seen("orders-proxy", (24, 25), "orders", 100));
        assert_eq!(hours(&older, "orders"), [25.0; 3]);
    }
}
