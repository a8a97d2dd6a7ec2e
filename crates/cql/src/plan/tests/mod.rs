//! What plans conclude, statement by statement, under one schema.
#![allow(clippy::unwrap_used, clippy::panic)]

mod batches;
mod constants;
mod facts;
mod key_bytes;
mod markers;
mod partitions;
mod set_cells;
mod six;
mod without_schema;
mod work;

use crate::syntax::{self, Work};
use cqlens_proto::message::{Value, Values, ValuesBuf};
use cqlens_proto::types::CqlType;

use super::{BatchSum, DeleteKind, Plan, SchemaFacts, Stage};
use crate::footprint::{Count, Footprint, Keys};
use crate::footprint::{PartitionClass, Reason};
use crate::schema::Schema;
use crate::{murmur3, plan::Markers};

const SCHEMA: &str = "
    CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE KEYSPACE other WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
    CREATE TYPE shop.address (street text, zip int);
    CREATE TABLE shop.kv (k int PRIMARY KEY, v int, w text, s set<int>);
    CREATE INDEX kv_w ON shop.kv (w);
    CREATE TABLE other.kv (k int PRIMARY KEY, v int);
    CREATE TABLE shop.orders (shop text, day date, at timestamp, id int, total decimal, owner text STATIC, PRIMARY KEY ((shop, day), at, id)) WITH CLUSTERING ORDER BY (at DESC, id ASC);
    CREATE TABLE shop.by_decimal (k decimal PRIMARY KEY, v int);
    CREATE TABLE shop.by_varint (k varint PRIMARY KEY, v int);
    CREATE TABLE shop.by_double (k double PRIMARY KEY, v int);
    CREATE TABLE shop.by_text (k text PRIMARY KEY, v int);
    CREATE TABLE shop.by_inet (k inet PRIMARY KEY, v int);
    CREATE TABLE shop.by_uuid (k uuid PRIMARY KEY, v int);
    CREATE TABLE shop.by_date (k date PRIMARY KEY, v int);
    CREATE TABLE shop.by_set (k frozen<set<int>> PRIMARY KEY, v int);
    CREATE TABLE shop.by_list (k frozen<list<int>> PRIMARY KEY, v int);
    CREATE TABLE shop.by_tuple (k frozen<tuple<int, text>> PRIMARY KEY, v int);
    CREATE TABLE shop.by_address (k frozen<address> PRIMARY KEY, v int);
    CREATE TABLE shop.views (page text, day date, hits counter, PRIMARY KEY (page, day));
    CREATE TABLE shop.rows (k int, c1 int, c2 int, c3 int, v int, m map<text, int>, PRIMARY KEY (k, c1, c2, c3));
    CREATE TABLE shop.compact_rows (k int, c1 int, c2 int, v int, PRIMARY KEY (k, c1, c2)) WITH COMPACT STORAGE;
    CREATE CUSTOM INDEX rows_v ON shop.rows (v) USING 'sai';
    CREATE CUSTOM INDEX rows_m ON shop.rows (entries(m)) USING 'StorageAttachedIndex';
    CREATE MATERIALIZED VIEW shop.kv_by_v AS SELECT * FROM shop.kv WHERE v IS NOT NULL AND k IS NOT NULL PRIMARY KEY (v, k);
";

fn schema() -> &'static Schema {
    static SCHEMA_VALUE: std::sync::LazyLock<Schema> =
        std::sync::LazyLock::new(|| Schema::from_cql(SCHEMA).unwrap());
    &SCHEMA_VALUE
}

fn plan(text: &str) -> Plan {
    Plan::of(&syntax::parse(text).unwrap(), Some("shop"), schema())
}

fn facts(text: &str) -> SchemaFacts {
    let plan = plan(text);
    plan.facts()
        .schema
        .clone()
        .unwrap_or_else(|| panic!("{text}: {:?}", plan.refusal()))
}

/// The count of an execution, whose values are big-endian ints.
fn count_with(text: &str, values: &[i32]) -> Count {
    let bytes: Vec<[u8; 4]> = values.iter().map(|value| value.to_be_bytes()).collect();
    footprint(
        text,
        &bytes.iter().map(|bytes| Value::Bytes(bytes)).collect::<Vec<_>>(),
    )
    .count
}

fn footprint(text: &str, values: &[Value<'_>]) -> Footprint {
    let bound = ValuesBuf::positional(values.iter().copied()).unwrap();
    let plan = plan(text);
    assert_eq!(plan.refusal(), None, "{text}");
    plan.footprint(&bound.values(), &mut Keys::new())
}

fn count(text: &str) -> Count {
    count_with(text, &[])
}

fn refusal(text: &str) -> (Stage, String) {
    let refusal = match plan(text).execute(Some(&Values::NONE), &mut Keys::new()) {
        Err(refusal) => refusal,
        Ok(footprint) => panic!("{text}: {footprint:?}"),
    };
    (refusal.stage, refusal.message.into_owned())
}

fn list(values: &[i32]) -> Vec<u8> {
    let bytes: Vec<[u8; 4]> = values.iter().map(|value| value.to_be_bytes()).collect();
    super::value::pack(bytes.iter().map(|bytes| &bytes[..]), bytes.len())
}
