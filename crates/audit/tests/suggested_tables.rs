//! Property: a table that a finding suggests serves the query for which it is suggested, cleanly, by the same rules.

#![allow(clippy::unwrap_used, reason = "tests")]

use cqlens_audit::{
    audit::Once,
    rules::{self, Context, Finding, Settings, Severity},
    window::Cluster,
};
use cqlens_cql::{
    footprint::Keys,
    plan::Plan,
    schema::Schema,
    syntax::{self, Template},
};
use proptest::prelude::*;

/// What the rules say of a statement under a schema; nothing where Cassandra would refuse it.
fn judged(cql: &str, schema: &Schema) -> Option<Vec<Finding>> {
    let statement = syntax::parse(cql).unwrap();
    let plan = Plan::of(&statement, None, schema);
    let footprint = plan.execute(None, &mut Keys::new()).ok()?;
    let once = Once::of(Template::of(&statement, None), plan, &footprint);
    let cluster = Cluster::default();
    let context = Context::new(&once.window, schema, &cluster);
    Some(rules::check(&context, &Settings::default()).findings)
}

fn titles<'f>(findings: impl IntoIterator<Item = &'f Finding>, above: Severity) -> Vec<&'f str> {
    let above = findings.into_iter().filter(|finding| finding.severity > above);
    above.map(|finding| finding.title.as_str()).collect()
}

const KEYSPACE: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};";

const TYPES: [&str; 6] = ["int", "text", "uuid", "boolean", "timestamp", "date"];

/// A table of six columns of which the first are the partition key and the next the clustering key.
fn table() -> impl Strategy<Value = String> {
    let types = proptest::collection::vec(0..TYPES.len(), 6);
    (types, 1..3_usize, 0..3_usize, any::<bool>()).prop_map(|(types, keys, clustering, expires)| {
        let columns: String = types
            .iter()
            .enumerate()
            .map(|(at, of)| format!("c{at} {}, ", TYPES[*of]))
            .collect();
        let names = |range: std::ops::Range<usize>| {
            let names: Vec<_> = range.map(|at| format!("c{at}")).collect();
            names.join(", ")
        };
        let behind = match clustering {
            0 => String::new(),
            _ => format!(", {}", names(keys..keys + clustering)),
        };
        let with = if expires {
            " WITH default_time_to_live = 60"
        } else {
            ""
        };
        let key = names(0..keys);
        format!("CREATE TABLE shop.base ({columns}PRIMARY KEY (({key}){behind})){with};")
    })
}

/// A query by some columns, perhaps with a range.
fn query() -> impl Strategy<Value = String> {
    let some = || proptest::collection::btree_set(0..6_usize, 1..4);
    let range = proptest::option::of(0..6_usize);
    (some(), range, some()).prop_map(|(equal, range, selected)| {
        let mut relations: Vec<_> = equal.iter().map(|at| format!("c{at} = ?")).collect();
        let range = range.filter(|at| !equal.contains(at));
        relations.extend(range.map(|at| format!("c{at} > ?")));
        let selected: Vec<_> = selected.iter().map(|at| format!("c{at}")).collect();
        let (selected, relations) = (selected.join(", "), relations.join(" AND "));
        format!("SELECT {selected} FROM shop.base WHERE {relations} ALLOW FILTERING")
    })
}

/// The query that the last of these statements is.
fn query_in(script: &str) -> &str {
    let (_, query) = syntax::statements(script).next().unwrap();
    query.unwrap().text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_suggested_table_with_its_query_is_clean(table in table(), cql in query()) {
        let before = format!("{KEYSPACE} {table}");
        let findings = judged(&cql, &Schema::from_cql(&before).unwrap()).unwrap_or_default();
        for finding in findings.iter().filter(|finding| finding.suggested_cql.len() > 1) {
            let [create, .., read] = finding.suggested_cql.as_slice() else { continue };
            if !create.contains("CREATE TABLE") {
                continue;
            }
            let after = format!("{before} {create}");
            let schema = Schema::from_cql(&after).unwrap();
            let query = query_in(read);
            let found = judged(query, &schema);
            prop_assert!(found.is_some(), "refused: {after}\n{query}");
            let found = found.unwrap_or_default();
            prop_assert!(titles(&found, Severity::Info).is_empty(), "{after}\n{query}\n{found:?}");
            let linted = rules::lint(&schema, &Settings::default()).findings;
            let of_new = linted.iter().filter(|finding| finding.table.as_deref() != Some("base"));
            let worse = titles(of_new, Severity::Low);
            prop_assert!(worse.is_empty(), "{after}\n{worse:?}");
        }
    }
}

#[test]
fn the_property_is_about_something() {
    let schema = format!("{KEYSPACE} CREATE TABLE shop.base (k int PRIMARY KEY, v int);");
    let findings = judged(
        "SELECT k FROM shop.base WHERE v = ? ALLOW FILTERING",
        &Schema::from_cql(&schema).unwrap(),
    );
    let suggested = findings.unwrap().iter().any(|finding| {
        finding
            .suggested_cql
            .iter()
            .any(|cql| cql.contains("CREATE TABLE"))
    });
    assert!(suggested);
}
