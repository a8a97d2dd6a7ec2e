//! Property: what a finding suggests serves the query for which it is suggested, cleanly, by the same rules and with the
//! same traffic.

#![allow(clippy::unwrap_used, reason = "tests")]

mod suggestion;

use cqlens_audit::audit::Once;
use cqlens_cql::schema::{Schema, TableName};
use cqlens_rules::Finding;
use cqlens_window::RepeatedValue;
use proptest::prelude::*;
use suggestion::{judged, wrong};

/// What was seen of a statement and its table.
#[derive(Debug, Clone, Copy)]
struct Traffic {
    /// INSERTs into the table, in ten hours.
    inserts: u64,
    /// How many of a thousand pairs of rows have the same value, in each column.
    same: u64,
    /// Rows and tombstones of each read.
    rows: u64,
    tombstones: u64,
    /// Rows of the largest partition.
    partition: u64,
}

/// Executions of the statement.
const TIMES: u64 = 1_000;

impl Traffic {
    fn put(self, once: &mut Once) {
        once.window.observed_seconds = 36_000.0;
        let pattern = once.window.patterns.get_mut(&once.id).unwrap();
        if pattern.head.kind.is_read() {
            pattern.rows.record_n(self.rows, TIMES);
            pattern.tombstones.scanned.record_n(self.tombstones, TIMES);
            pattern.logical_reads = TIMES;
        }
        pattern.count = TIMES;
        pattern.prepared = TIMES;
        pattern.classes.values_mut().for_each(|times| *times = TIMES);
        let name = TableName {
            keyspace: "shop".to_owned(),
            table: pattern.head.table.clone().unwrap_or_default(),
        };
        let traffic = once.window.tables.entry(name).or_default();
        traffic.partition_reads.see(1, self.partition, 0);
        for row in 0..self.inserts {
            traffic
                .inserted
                .rows
                .insert(row.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        }
        let value = RepeatedValue {
            across: 1_000,
            same_across: self.same,
            ..RepeatedValue::default()
        };
        (0..6).for_each(|at| traffic.repeated.count(&format!("c{at}"), value));
    }

    /// What it comes to under what is suggested, by what the comments of that say.
    fn after(self, script: &str) -> Self {
        let mut after = self;
        if let Some(buckets) = number_after(script, " modulo ") {
            after.rows = self.rows.div_ceil(buckets);
            after.partition = self.partition.div_ceil(buckets);
        } else if script.contains("-- hour: when the row was written") {
            // Whole partitions go.
            after.tombstones = 0;
            after.partition = self.partition.min(self.inserts);
        } else if ["hour", "day", "week", "month", "year"]
            .iter()
            .any(|span| script.contains(&format!(" {span} by {span}, the ")))
        {
            let rows = number_after(script, "-- about ").unwrap_or(50_000);
            after.rows = self.rows.min(rows);
            after.partition = self.partition.min(rows);
        }
        if !keeps_partitions(script) {
            // A partition of the new table is what a value of the query has.
            after.partition = after.rows;
        }
        after
    }
}

/// Whether the new table, if there is one, has the partition key of the old one, perhaps with a bucket.
fn keeps_partitions(script: &str) -> bool {
    let Some((_, key)) = script.split_once("PRIMARY KEY ((") else {
        return true;
    };
    let key = key.split(')').next().unwrap_or_default();
    let columns = key.split(", ").filter(|column| column.starts_with('c'));
    let columns: Vec<_> = columns.collect();
    let token = format!("token({})", columns.join(", "));
    script.contains(&token) || script.contains("-- hour: when the row was written")
}

/// The number behind these words.
fn number_after(script: &str, words: &str) -> Option<u64> {
    let (_, rest) = script.split_once(words)?;
    let digits = rest
        .chars()
        .take_while(|digit| digit.is_ascii_digit() || *digit == ',');
    digits
        .filter(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .ok()
}

fn traffic() -> impl Strategy<Value = Option<Traffic>> {
    let rows = || prop_oneof![Just(0_u64), Just(200), Just(30_000), Just(400_000)];
    let some = (0..3_000_u64, 0..1_000_u64, rows(), rows(), rows());
    proptest::option::of(
        some.prop_map(|(inserts, same, rows, tombstones, partition)| Traffic {
            inserts,
            same,
            rows,
            tombstones,
            partition,
        }),
    )
}

const KEYSPACE: &str =
    "CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};";

const TYPES: [&str; 11] = [
    "int",
    "text",
    "uuid",
    "boolean",
    "tinyint",
    "timestamp",
    "timeuuid",
    "date",
    "duration",
    "set<text>",
    "frozen<list<int>>",
];

/// A table of six columns of which the first are the partition key and the next the clustering key.
fn table() -> impl Strategy<Value = String> {
    let types = proptest::collection::vec(0..TYPES.len(), 6);
    let parts = (types, 1..3_usize, 0..3_usize, any::<bool>(), any::<bool>());
    parts.prop_map(|(types, keys, clustering, expires, has_static)| {
        let columns: String = types
            .iter()
            .enumerate()
            .map(|(at, of)| match (at, has_static && clustering > 0) {
                (5, true) => format!("c5 {} static, ", TYPES[*of]),
                _ => format!("c{at} {}, ", TYPES[*of]),
            })
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

/// A query by some columns, perhaps with a list, a range or an order; or by none.
fn query() -> impl Strategy<Value = String> {
    let some = |range| proptest::collection::btree_set(0..6_usize, range);
    let column = || proptest::option::of(0..6_usize);
    let limit = prop_oneof![Just(""), Just(" LIMIT 10")];
    let parts = (some(0..4), column(), column(), column(), some(1..4), limit);
    parts.prop_map(|(equal, listed, range, order, selected, limit)| {
        let mut relations: Vec<_> = equal.iter().map(|at| format!("c{at} = ?")).collect();
        let listed = listed.filter(|at| !equal.contains(at));
        relations.extend(listed.map(|at| format!("c{at} IN ?")));
        let range = range.filter(|at| !equal.contains(at) && listed != Some(*at));
        relations.extend(range.map(|at| format!("c{at} > ?")));
        let selected: Vec<_> = selected.iter().map(|at| format!("c{at}")).collect();
        let (selected, relations) = (selected.join(", "), relations.join(" AND "));
        let order = order
            .map(|at| format!(" ORDER BY c{at} DESC"))
            .unwrap_or_default();
        match relations.is_empty() {
            true => format!("SELECT {selected} FROM shop.base{limit}"),
            false => {
                format!("SELECT {selected} FROM shop.base WHERE {relations}{order}{limit} ALLOW FILTERING")
            }
        }
    })
}

/// What is found in a query of a table, with this traffic.
fn found(cql: &str, definitions: &str, traffic: Option<Traffic>) -> Vec<Finding> {
    let schema = Schema::from_cql(definitions).unwrap();
    // Cassandra refuses such types in a key.
    let mut key = schema.table("shop", "base").unwrap().columns.iter();
    let is_refused = key.any(|column| {
        let has_order = column.data_type.to_string() != "duration" && !column.data_type.is_multi_cell();
        column.is_primary_key() && !has_order
    });
    if is_refused {
        return Vec::new();
    }
    let seen = |once: &mut Once| traffic.iter().for_each(|traffic| traffic.put(once));
    judged(cql, &schema, seen).unwrap_or_default()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_is_suggested_is_clean(table in table(), cql in query(), traffic in traffic()) {
        let before = format!("{KEYSPACE} {table}");
        let seen = |once: &mut Once, script: &str| {
            traffic.iter().for_each(|traffic| traffic.after(script).put(once));
        };
        let found = found(&cql, &before, traffic);
        for finding in &found {
            let wrong = wrong(finding, &found, &before, &seen);
            prop_assert!(wrong.is_ok(), "{}: {cql}\n{}", finding.rule, wrong.unwrap_err());
        }
    }
}

#[test]
fn the_property_is_about_something() {
    let traffic = Traffic {
        inserts: 2_000,
        same: 250,
        rows: 200,
        tombstones: 30_000,
        partition: 400_000,
    };
    let definitions =
        format!("{KEYSPACE} CREATE TABLE shop.base (c0 int, c1 text, c2 int, PRIMARY KEY (c0, c1));");
    let small = Traffic {
        partition: 40_000,
        ..traffic
    };
    for (cql, rule, part) in [
        (
            "SELECT c0 FROM shop.base WHERE c2 = ? ALLOW FILTERING",
            "allow-filtering",
            "PRIMARY KEY ((c2, bucket), c0, c1)",
        ),
        (
            "SELECT * FROM shop.base WHERE c0 = ? ORDER BY c1 DESC",
            "reversed-read",
            "shop.base_by_c1_desc (",
        ),
        (
            "SELECT * FROM shop.base WHERE c0 = ?",
            "tombstone-heavy-read",
            "((c0, hour), c1)",
        ),
        (
            "SELECT * FROM shop.base WHERE c0 = ?",
            "large-partition",
            "((c0, bucket), c1)",
        ),
        (
            "SELECT * FROM shop.base WHERE c0 IN ?",
            "in-partition-key",
            "WHERE c0 = ?",
        ),
        ("SELECT * FROM shop.base", "full-scan", "token(c0) > ?"),
    ] {
        let suggested: Vec<_> = found(
            cql,
            &definitions,
            Some(if rule == "reversed-read" { small } else { traffic }),
        )
        .into_iter()
        .map(|finding| (finding.rule, finding.suggested_cql.join("\n")))
        .collect();
        let is_there = |(of, cql): &(&str, String)| *of == rule && cql.contains(part);
        assert!(suggested.iter().any(is_there), "{rule}, {part}: {suggested:#?}");
    }
}
