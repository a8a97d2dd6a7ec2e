//! Counting the partitions of a prepared statement's executions allocates no memory.
//!
//! A test binary of its own: its allocator counts.
#![allow(clippy::unwrap_used)]

use cqlens::audit::plan::Plan;
use cqlens::audit::{Count, Keys};
use cqlens::catalog::Schema;
use cqlens_proto::cql;
use cqlens_proto::message::{Value, ValuesBuf};

const SCHEMA: &str = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy'};
    CREATE TABLE shop.kv (k uuid PRIMARY KEY, v int);
    CREATE TABLE shop.orders (shop text, day date, at timestamp, PRIMARY KEY ((shop, day), at));";

fn allocations_of_an_execution(text: &str, values: &[Value<'_>]) -> u64 {
    let schema = Schema::from_cql(SCHEMA).unwrap();
    let plan = Plan::of(&cql::parse(text).unwrap(), Some("shop"), &schema);
    let bound = ValuesBuf::positional(values.iter().copied()).unwrap();
    let values = bound.values();
    let mut keys = Keys::new();
    // The buffer grows with its first use.
    plan.footprint(&values, &mut keys);
    let measured = allocation_counter::measure(|| {
        for _ in 0..1_000 {
            keys.clear();
            let footprint = plan.footprint(&values, &mut keys);
            assert_eq!(footprint.count, Count::Exact(1));
        }
    });
    measured.count_total
}

#[test]
fn an_execution_on_one_partition_allocates_nothing() {
    let uuid = Value::Bytes(&[7; 16]);
    let (shop, day, at) = (
        Value::Bytes(b"a shop"),
        Value::Bytes(&[0x80, 0, 0, 1]),
        Value::Bytes(&[0; 8]),
    );
    for (text, values) in [
        ("SELECT v FROM kv WHERE k = ?", &[uuid][..]),
        ("UPDATE kv SET v = ? WHERE k = ?", &[day, uuid]),
        (
            "SELECT * FROM orders WHERE shop = ? AND day = ? AND at > ? LIMIT 10",
            &[shop, day, at],
        ),
        (
            "INSERT INTO orders (at, day, shop) VALUES (?, ?, ?)",
            &[at, day, shop],
        ),
    ] {
        assert_eq!(allocations_of_an_execution(text, values), 0, "{text}");
    }
}
