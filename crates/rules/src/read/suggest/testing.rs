//! A shop for tests of suggestions.
#![allow(clippy::unwrap_used)]

use cqlens_cql::{footprint::PartitionClass, schema::Schema};

use super::{Suggestion, table_for};
use crate::{
    Context,
    testing::{read, window},
};
use cqlens_window::{Cluster, Pattern};

pub(super) const SHOP: &str = "
    CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TABLE shop.orders (id uuid PRIMARY KEY, status text, day date, amount decimal, tags set<text>);
    CREATE TABLE shop.events (user text, at timeuuid, kind text, note text, PRIMARY KEY (user, at))
        WITH CLUSTERING ORDER BY (at DESC);
    CREATE TABLE shop.users (id uuid PRIMARY KEY, email text, \"Full Name\" text);
    CREATE TABLE shop.users_by_email (email text PRIMARY KEY, id uuid, \"Full Name\" text);
    CREATE TABLE shop.flags (id uuid PRIMARY KEY, active boolean, note text)
        WITH default_time_to_live = 60 AND compaction = {'class': 'LeveledCompactionStrategy'} AND comment = 'x';
    CREATE TABLE shop.clicks (page text PRIMARY KEY, site text STATIC, count counter);";

/// What is suggested for the first of these queries.
pub(super) fn suggested_beside(queries: &[&str]) -> Option<Suggestion> {
    // The static column of a table without clustering is refused: it must not spoil the others.
    let (schema, _) = Schema::read_cql(SHOP);
    let patterns = queries.iter().map(|cql| read(cql, &[], PartitionClass::Scan, 1));
    let (window, cluster) = (window(patterns), Cluster::default());
    let context = Context::new(&window, &schema, &cluster);
    table_for(window.patterns.values().next()?, &context)
}

pub(super) fn suggested(cql: &str) -> Option<Suggestion> {
    suggested_beside(&[cql])
}

/// The table and the query, without comments.
pub(super) fn cql(text: &str) -> String {
    let statements = suggested(text).unwrap().cql;
    let ends = statements.first().into_iter().chain(statements.last());
    let lines: Vec<_> = ends
        .flat_map(|statement| statement.lines())
        .filter(|line| !line.starts_with("--"))
        .collect();
    lines.join("\n")
}

/// What `suggest` says of a query.
pub(super) fn said<T>(cql: &str, suggest: impl Fn(&Pattern, &Context<'_>) -> T) -> T {
    let (schema, _) = Schema::read_cql(SHOP);
    let window = window([read(cql, &[], PartitionClass::Scan, 1)]);
    let cluster = Cluster::default();
    let pattern = window.patterns.values().next().unwrap();
    suggest(pattern, &Context::new(&window, &schema, &cluster))
}
