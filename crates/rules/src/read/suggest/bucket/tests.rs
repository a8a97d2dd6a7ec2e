//! Which keys get a bucket, and how many.

#![allow(clippy::unwrap_used)]
use super::*;
use crate::{
    read::suggest::table_for,
    testing::{read, window},
};
use cqlens_cql::{footprint::PartitionClass, schema::Schema};
use cqlens_window::{Cluster, RepeatedValue, Window};

const SHOP: &str = "
    CREATE KEYSPACE shop WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
    CREATE TABLE shop.orders (id uuid PRIMARY KEY, status text, customer text);
    CREATE TABLE shop.events (user text, at timeuuid, kind text, PRIMARY KEY (user, at));";

/// So many INSERTs in ten hours, and one read of so many rows.
fn seen(cql: &str, inserts: u64, rows: u64) -> Window {
    let mut pattern = read(cql, &[], PartitionClass::Scan, 1);
    pattern.unpaged_rows.record_n(rows, 1);
    let mut window = window([pattern]);
    window.observed_seconds = 36_000.0;
    for table in ["orders", "events"] {
        let name = TableName {
            keyspace: "shop".to_owned(),
            table: table.to_owned(),
        };
        let traffic = window.tables.entry(name).or_default();
        for row in 0..inserts {
            traffic
                .inserted
                .rows
                .insert(row.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        }
    }
    window
}

/// In so many of a thousand pairs of rows the column has one value.
fn repeat(window: &mut Window, column: &str, same_across: u64) {
    let value = RepeatedValue {
        across: 1_000,
        same_across,
        ..RepeatedValue::default()
    };
    let tables = window.tables.values_mut();
    tables.for_each(|traffic| traffic.repeated.count(column, value));
}

fn suggested(window: &Window) -> String {
    let schema = Schema::from_cql(SHOP).unwrap();
    let cluster = Cluster::default();
    let pattern = window.patterns.values().next().unwrap();
    table_for(pattern, &Context::new(window, &schema, &cluster))
        .unwrap()
        .cql
        .join("\n")
}

const BY_STATUS: &str = "SELECT id FROM shop.orders WHERE status = ? ALLOW FILTERING";

#[test]
fn a_column_without_an_index_has_few_values_where_other_partitions_have_the_same() {
    let mut window = seen(BY_STATUS, 1_000, 1);
    repeat(&mut window, "status", 200);
    let cql = suggested(&window);
    assert!(cql.contains("PRIMARY KEY ((status, bucket), id)"), "{cql}");
    assert!(
        cql.contains(
            "-- bucket: hash of id modulo 16\n-- about 11,000 rows a partition after a year at this rate\n"
        ),
        "{cql}"
    );
    assert!(
        cql.contains("-- 4. read the new table, all 16 buckets at the same time\n"),
        "{cql}"
    );
    let mut many = seen(BY_STATUS, 1_000, 1);
    repeat(&mut many, "status", 40);
    assert!(!suggested(&many).contains("bucket"));
    let mut few_rows = seen(BY_STATUS, 400, 1);
    repeat(&mut few_rows, "status", 200);
    assert!(!suggested(&few_rows).contains("bucket"), "80 rows a value");
}

#[test]
fn of_values_that_are_known_nobody_is_warned() {
    let may_be_large = |same_across: Option<u64>| {
        let mut window = seen(BY_STATUS, 400, 1);
        if let Some(same_across) = same_across {
            repeat(&mut window, "status", same_across);
        }
        let schema = Schema::from_cql(SHOP).unwrap();
        let cluster = Cluster::default();
        let pattern = window.patterns.values().next().unwrap();
        let suggestion = table_for(pattern, &Context::new(&window, &schema, &cluster));
        suggestion.unwrap().may_be_large
    };
    assert!(may_be_large(None));
    assert!(!may_be_large(Some(10)), "a hundred values");
    assert!(may_be_large(Some(11)));
}

#[test]
fn more_rows_get_more_buckets() {
    let mut window = seen(BY_STATUS, 10_000, 1);
    repeat(&mut window, "status", 500);
    let cql = suggested(&window);
    assert!(cql.contains("modulo 128\n"), "{cql}");
}

#[test]
fn long_reads_get_one_paged_or_not() {
    let cql = suggested(&seen(BY_STATUS, 0, 20_000));
    assert!(cql.contains("PRIMARY KEY ((status, bucket), id)"), "{cql}");
    let short = suggested(&seen(BY_STATUS, 0, 5_000));
    assert!(short.contains("PRIMARY KEY ((status), id)"), "{short}");
}

#[test]
fn the_time_in_a_key_makes_the_bucket() {
    let mut window = seen(
        "SELECT * FROM shop.events WHERE kind = ? AND at > ? ALLOW FILTERING",
        10_000,
        1,
    );
    repeat(&mut window, "kind", 250);
    let cql = suggested(&window);
    assert!(cql.contains("PRIMARY KEY ((kind, week), at, user)"), "{cql}");
    assert!(
        cql.contains("-- week: the first day of the week of at\n-- about 42,000 rows a partition\n"),
        "{cql}"
    );
}
