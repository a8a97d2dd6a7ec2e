//! What plans conclude, statement by statement, under one schema.
#![allow(clippy::unwrap_used, clippy::panic)]

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

#[test]
fn equality_on_the_whole_key_is_one_partition() {
    for text in [
        "SELECT * FROM kv WHERE k = 1",
        "SELECT * FROM orders WHERE day = '2024-01-01' AND shop = 'a'",
        "INSERT INTO kv (v, k) VALUES (1, 2)",
        "UPDATE kv SET v = 1 WHERE k = 2",
        "DELETE FROM kv WHERE k = 2",
        "SELECT * FROM kv WHERE k = 1 AND w = 'x'",
        "SELECT * FROM kv_by_v WHERE v = 7",
    ] {
        assert_eq!(count(text), Count::Exact(1), "{text}");
    }
}

#[test]
fn an_in_counts_distinct_keys_literal_or_bound() {
    assert_eq!(count("SELECT * FROM kv WHERE k IN (1, 2, 1)"), Count::Exact(2));
    assert_eq!(count("SELECT * FROM kv WHERE k IN ()"), Count::Exact(0));
    assert_eq!(
        count_with("SELECT * FROM kv WHERE k IN (?, 1, ?)", &[1, 2]),
        Count::Exact(2)
    );
    let bound = list(&[3, 4, 3]);
    assert_eq!(
        footprint("SELECT * FROM kv WHERE k IN ?", &[Value::Bytes(&bound)]).count,
        Count::Exact(2)
    );
    assert_eq!(
        footprint("SELECT * FROM kv WHERE k IN ?", &[Value::Bytes(&list(&[]))]).count,
        Count::Exact(0)
    );
}

#[test]
fn several_in_lists_of_one_key_multiply() {
    let text = "SELECT * FROM orders WHERE shop IN ('a', 'b', 'a') AND day IN ('2024-01-01', '2024-01-02')";
    assert_eq!(count(text), Count::Exact(4));
    assert!(facts(text).in_cartesian);
    assert!(!facts("SELECT * FROM orders WHERE shop IN ('a', 'b') AND day = '2024-01-01'").in_cartesian);
    let many: Vec<String> = (0..300).map(|number| number.to_string()).collect();
    let text = format!(
        "SELECT * FROM orders WHERE shop IN ('{}') AND day IN ({})",
        many.join("','"),
        many.join(",")
    );
    let mut keys = Keys::new();
    let footprint = plan(&text).footprint(&Values::NONE, &mut keys);
    assert_eq!(footprint.count, Count::Exact(90_000));
    assert_eq!(
        (footprint.keys_missing, keys.len()),
        (Some(Reason::TooManyKeys), Keys::MAX_KEYS)
    );
}

#[test]
fn duplicates_in_an_in_are_equal_for_the_type() {
    assert_eq!(
        count("SELECT * FROM by_decimal WHERE k IN (1.0, 1.00)"),
        Count::Exact(1)
    );
    assert_eq!(
        count("SELECT * FROM by_double WHERE k IN (0.0, -0.0)"),
        Count::Exact(2)
    );
    assert_eq!(
        count("SELECT * FROM by_double WHERE k IN (NaN, -NaN)"),
        Count::Exact(1)
    );
    assert_eq!(
        count("SELECT * FROM by_inet WHERE k IN ('127.0.0.1', '::ffff:127.0.0.1')"),
        Count::Exact(1)
    );
    assert_eq!(
        count("SELECT * FROM by_set WHERE k IN ({1, 2}, {2, 1, 1})"),
        Count::Exact(1)
    );
    assert_eq!(
        count("SELECT * FROM by_list WHERE k IN ([1, 2], [2, 1])"),
        Count::Exact(2)
    );
    let varints = [Value::Bytes(&[1]), Value::Bytes(&[0, 0, 1])];
    assert_eq!(
        footprint("SELECT * FROM by_varint WHERE k IN (?, ?)", &varints).count,
        Count::Exact(1)
    );
}

#[test]
fn duplicates_in_a_batch_are_equal_bytes_of_one_table() {
    let two = "BEGIN BATCH DELETE FROM by_decimal WHERE k = 1.0; DELETE FROM by_decimal WHERE k = 1.00; APPLY BATCH";
    assert_eq!(count(two), Count::Exact(2));
    let text = "BEGIN BATCH INSERT INTO kv (k, v) VALUES (1, ?); UPDATE kv SET v = 2 WHERE k IN (?, 2); \
                DELETE FROM other.kv WHERE k = 1 APPLY BATCH";
    assert_eq!(count_with(text, &[7, 1]), Count::Exact(3));
    assert_eq!(count("BEGIN BATCH APPLY BATCH"), Count::Exact(0));
}

#[test]
fn a_batch_message_sums_statements_with_values_of_their_own() {
    let insert = plan("INSERT INTO kv (k, v) VALUES (?, 1)");
    let generated = plan("INSERT INTO by_uuid (k, v) VALUES (uuid(), 1)");
    let mut keys = Keys::new();
    let mut sum = BatchSum::new(syntax::ast::BatchKind::Unlogged);
    for key in [1_i32, 2, 1] {
        let bound = ValuesBuf::positional([Value::Bytes(&key.to_be_bytes())]).unwrap();
        sum.add(&insert, Some(&bound.values()), &mut keys).unwrap();
    }
    sum.add(&generated, Some(&Values::NONE), &mut keys).unwrap();
    let footprint = sum.footprint(&keys).unwrap();
    assert_eq!(
        (footprint.count, footprint.keys_missing),
        (Count::Exact(3), Some(Reason::FunctionValue))
    );
    assert_eq!((keys.len(), sum.distinct_keys(&keys)), (2, 3));
    sum.add_unknown(Reason::PreparedIdUnknown);
    assert_eq!(
        sum.footprint(&keys).unwrap().count,
        Count::AtLeast(3, Reason::FunctionValue)
    );
    assert!(
        sum.add(&plan("SELECT * FROM kv"), Some(&Values::NONE), &mut keys)
            .is_err()
    );
}

#[test]
fn reads_without_the_key_are_scans_ranges_or_index_reads() {
    let class = |text: &str| footprint(text, &[]).class();
    assert_eq!(class("SELECT * FROM kv"), PartitionClass::Scan);
    assert_eq!(
        class("SELECT * FROM kv WHERE v = 1 ALLOW FILTERING"),
        PartitionClass::Scan
    );
    assert_eq!(class("SELECT * FROM kv WHERE w = 'x'"), PartitionClass::Index);
    assert_eq!(class("SELECT * FROM rows WHERE v > 3"), PartitionClass::Index);
    assert_eq!(
        class("SELECT * FROM rows WHERE m['a'] = 1"),
        PartitionClass::Index
    );
    assert_eq!(
        class("SELECT * FROM kv WHERE token(k) > 0"),
        PartitionClass::TokenRange
    );
    assert_eq!(
        class("SELECT * FROM kv WHERE token(k) = 5"),
        PartitionClass::TokenRange
    );
    assert_eq!(
        class("SELECT * FROM orders WHERE shop = 'a' ALLOW FILTERING"),
        PartitionClass::Scan
    );
    assert_eq!(facts("SELECT * FROM kv WHERE w = 'x'").indexes, ["kv_w"]);
    assert_eq!(
        facts("SELECT * FROM kv WHERE k = 1 AND w = 'x'").indexes,
        ["kv_w"]
    );
}

#[test]
fn a_token_beside_named_keys_filters_them() {
    let (low, high) = (
        murmur3::token(&2_i32.to_be_bytes()),
        murmur3::token(&1_i32.to_be_bytes()),
    );
    let (low, high) = (low.min(high), low.max(high));
    let text = format!("SELECT * FROM kv WHERE token(k) > {low} AND token(k) <= {high} AND k IN (1, 2)");
    assert_eq!(count(&text), Count::Exact(1));
    assert_eq!(
        count("SELECT * FROM kv WHERE token(k) > 10 AND token(k) < 5"),
        Count::Exact(0)
    );
    let Count::TokenRange { share } = count("SELECT * FROM kv WHERE token(k) > token(1) AND token(k) < 9")
    else {
        panic!("no range");
    };
    assert!(share > 0.0 && share < 1.0);
}

#[test]
fn what_cannot_match_touches_nothing() {
    for text in [
        "SELECT * FROM rows WHERE k = 1 AND c1 > 5 AND c1 < 3",
        "SELECT * FROM rows WHERE k = 1 AND c1 = 1 AND c2 IN ()",
        "SELECT * FROM rows WHERE k = 1 AND c1 >= 5 AND c1 < 5",
        "SELECT * FROM rows WHERE k = 1 AND (c1, c2) > (5, 1) AND (c1, c2) < (5, 0)",
        "SELECT * FROM orders WHERE shop = 'a' AND day = '2024-01-01' AND at > 5 AND at < 4",
    ] {
        assert_eq!(count(text), Count::Exact(0), "{text}");
    }
    for text in [
        "SELECT * FROM rows WHERE k = 1 AND c1 >= 5 AND c1 <= 5",
        "SELECT * FROM rows WHERE k = 1 AND (c1, c2) >= (5, 1) AND c1 <= 5",
        "SELECT * FROM rows WHERE k = 1 AND (c1, c2) > (5, 1) AND (c1, c2) < (6, 0)",
    ] {
        assert_eq!(count(text), Count::Exact(1), "{text}");
    }
    assert_eq!(
        count_with("SELECT * FROM rows WHERE k = ? AND c1 > ? AND c1 < ?", &[1, 5, 3]),
        Count::Exact(0)
    );
}

#[test]
fn filtering_is_needed_only_where_cassandra_would_refuse_without_it() {
    let needed = |text: &str| facts(text).filtering_needed;
    assert!(!needed("SELECT * FROM kv WHERE k = 1 ALLOW FILTERING"));
    assert!(!needed("SELECT * FROM kv WHERE w = 'x' ALLOW FILTERING"));
    assert!(needed("SELECT * FROM kv WHERE v = 1 ALLOW FILTERING"));
    assert!(needed("SELECT * FROM kv WHERE k = 1 AND v = 1 ALLOW FILTERING"));
    assert!(needed("SELECT * FROM kv WHERE w = 'x' AND v = 1 ALLOW FILTERING"));
    assert!(needed(
        "SELECT * FROM rows WHERE k = 1 AND c2 = 1 ALLOW FILTERING"
    ));
    assert!(needed("SELECT * FROM orders WHERE shop = 'a' ALLOW FILTERING"));
}

#[test]
fn an_order_is_reversed_against_the_clustering_order() {
    let reversed = |order: &str| {
        facts(&format!(
            "SELECT * FROM orders WHERE shop = 'a' AND day = '2024-01-01' ORDER BY {order}"
        ))
        .reversed
    };
    assert!(!reversed("at DESC"));
    assert!(reversed("at ASC"));
    assert!(!reversed("at DESC, id ASC"));
    assert!(reversed("at ASC, id DESC"));
}

#[test]
fn an_in_of_one_value_is_an_equality() {
    assert!(!facts("SELECT * FROM kv WHERE k IN (1)").in_on_partition_key);
    assert!(facts("SELECT * FROM kv WHERE k IN ?").in_on_partition_key);
    assert!(facts("SELECT * FROM rows WHERE k = 1 AND c1 IN (1, 2)").in_on_clustering);
    assert!(facts("SELECT * FROM rows WHERE k = 1 AND (c1, c2) IN ((1, 2), (3, 4))").in_on_clustering);
}

#[test]
fn deletes_are_of_partitions_rows_ranges_or_columns() {
    let kind = |text: &str| facts(text).delete_kind.unwrap();
    assert_eq!(kind("DELETE FROM rows WHERE k = 1"), DeleteKind::Partition);
    assert_eq!(
        kind("DELETE FROM rows WHERE k = 1 AND c1 = 1 AND c2 = 1 AND c3 IN (1, 2)"),
        DeleteKind::Row
    );
    assert_eq!(
        kind("DELETE FROM rows WHERE k = 1 AND c1 = 1 AND c2 IN (1, 2)"),
        DeleteKind::Range
    );
    assert_eq!(kind("DELETE FROM rows WHERE k = 1 AND c1 > 1"), DeleteKind::Range);
    assert_eq!(
        kind("DELETE v FROM rows WHERE k = 1 AND c1 = 1 AND c2 = 1 AND c3 = 1"),
        DeleteKind::Column
    );
}

#[test]
fn keys_are_serialized_as_cassandra_serializes_them() {
    for (text, expected) in [
        ("SELECT * FROM kv WHERE k = 5 * 2", &[0, 0, 0, 10][..]),
        ("SELECT * FROM kv WHERE k = -(3 - 4)", &[0, 0, 0, 1]),
        ("SELECT * FROM by_varint WHERE k = 5 * 2", &[0, 0, 0, 10]),
        ("SELECT * FROM kv WHERE k = (int) 7", &[0, 0, 0, 7]),
        ("SELECT * FROM by_decimal WHERE k = 1.50", &[0, 0, 0, 2, 0, 150]),
        ("SELECT * FROM by_text WHERE k = $$it's$$", b"it's"),
        ("SELECT * FROM by_text WHERE k = blob_as_text(0x6162)", b"ab"),
        ("SELECT * FROM by_text WHERE k = CAST(5 AS text)", b"5"),
        (
            "SELECT * FROM by_date WHERE k = toDate('1970-01-02 03:04:05+0000')",
            &[0x80, 0, 0, 1],
        ),
        (
            "SELECT * FROM by_set WHERE k = {2, 1}",
            &[0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 2],
        ),
        (
            "SELECT * FROM by_tuple WHERE k = (1, null)",
            &[0, 0, 0, 4, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff],
        ),
        (
            "SELECT * FROM by_address WHERE k = {zip: 5}",
            &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 4, 0, 0, 0, 5],
        ),
        ("INSERT INTO kv JSON '{\"k\": 3, \"V\": 1}'", &[0, 0, 0, 3]),
    ] {
        let mut keys = Keys::new();
        assert_eq!(
            plan(text).footprint(&Values::NONE, &mut keys),
            Footprint::exact(1),
            "{text}"
        );
        assert_eq!(keys.iter().next().unwrap().bytes, expected, "{text}");
    }
}

#[test]
fn what_the_server_generates_is_counted_and_not_known() {
    let footprint = footprint("INSERT INTO by_uuid (k, v) VALUES (uuid(), 1)", &[]);
    assert_eq!(
        (footprint.count, footprint.reason()),
        (Count::Exact(1), Some(Reason::FunctionValue))
    );
    assert_eq!(
        count("SELECT * FROM by_uuid WHERE k IN (uuid(), uuid())"),
        Count::Exact(2)
    );
    assert_eq!(
        count("SELECT * FROM kv WHERE k IN (abs(1), 2)"),
        Count::AtLeast(1, Reason::FunctionValue)
    );
}

#[test]
fn null_unset_and_wrong_lengths_are_no_key() {
    let text = "SELECT * FROM kv WHERE k = ?";
    for (value, reason) in [
        (Value::Null, Reason::InvalidKey),
        (Value::NotSet, Reason::InvalidKey),
        (Value::Bytes(&[]), Reason::InvalidKey),
        (Value::Bytes(&[1, 2, 3]), Reason::ValueUndecodable),
    ] {
        assert_eq!(
            footprint(text, &[value]).count,
            Count::Unknown(reason),
            "{value:?}"
        );
    }
    let with_null = [0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff];
    let bound = [Value::Bytes(&with_null)];
    assert_eq!(
        footprint("SELECT * FROM kv WHERE k IN ?", &bound).count,
        Count::Unknown(Reason::InvalidKey)
    );
    assert_eq!(
        footprint(text, &[]).count,
        Count::Unknown(Reason::ValueUndecodable)
    );
}

#[test]
fn an_empty_component_is_a_key_and_an_empty_whole_is_not() {
    assert_eq!(
        refusal("SELECT * FROM by_text WHERE k = ''"),
        (Stage::Bind, "Key may not be empty".to_owned())
    );
    assert_eq!(
        count("SELECT * FROM orders WHERE shop = '' AND day = '2024-01-01'"),
        Count::Exact(1)
    );
}

#[test]
fn a_write_that_names_no_row_touches_nothing() {
    for text in [
        "DELETE FROM rows WHERE k = 1 AND c1 > 5 AND c1 < 3",
        "DELETE FROM rows WHERE k = 1 AND c1 = 1 AND c2 IN ()",
        "UPDATE rows SET v = 1 WHERE k IN (1, 2) AND c1 = 1 AND c2 = 1 AND c3 IN ()",
        "BEGIN COUNTER BATCH UPDATE views SET hits = hits + 1 WHERE page = 'a' AND day IN (); APPLY BATCH",
    ] {
        assert_eq!(count(text), Count::Exact(0), "{text}");
    }
    let batch = "BEGIN BATCH INSERT INTO kv (k, v) VALUES (1, 1);
        DELETE FROM rows WHERE k = 2 AND c1 > 5 AND c1 < 3 APPLY BATCH";
    assert_eq!(count(batch), Count::Exact(1));
    assert_eq!(
        refusal("DELETE FROM orders WHERE shop = NULL AND day = '2024-01-01' AND at IN ()").0,
        Stage::Bind
    );
}

#[test]
fn null_ends_a_slice_before_all_values_in_the_order_of_storage() {
    let time = 7_i64.to_be_bytes();
    let (time, null) = (Value::Bytes(&time), Value::Null);
    let ascending = "SELECT * FROM views WHERE page = 'a' AND day > '2024-01-01' AND day <= ?";
    assert_eq!(footprint(ascending, &[null]).count, Count::Exact(0));
    let descending = "SELECT * FROM orders WHERE shop = 'a' AND day = '2024-01-01' AND at > ? AND at <= ?";
    assert_eq!(footprint(descending, &[time, null]).count, Count::Exact(1));
    assert_eq!(footprint(descending, &[null, time]).count, Count::Exact(0));
    assert_eq!(footprint(descending, &[null, null]).count, Count::Exact(0));
}

#[test]
fn markers_without_a_name_are_called_as_the_server_calls_them() {
    let bytes = 1_i32.to_be_bytes();
    for (text, name) in [
        (
            "SELECT * FROM kv WHERE k = blobAsInt(?)",
            "arg0(system.blobasint)",
        ),
        ("SELECT * FROM kv WHERE k = -(?)", "arg0(system._negate)"),
        ("SELECT * FROM by_tuple WHERE k = (?, 'a')", "k[0]"),
        (
            "SELECT * FROM by_address WHERE k = {zip: ?, street: 'a'}",
            "k.zip",
        ),
        (
            "SELECT * FROM kv WHERE k IN (1, 2) AND token(k) > token(?)",
            "arg0(system.token)",
        ),
    ] {
        let bound = ValuesBuf::by_name([(name, Value::Bytes(&bytes))]).unwrap();
        let footprint = plan(text).footprint(&bound.values(), &mut Keys::new());
        assert!(
            matches!(footprint.count, Count::Exact(_)),
            "{text}: {footprint:?}"
        );
    }
    let bound = ValuesBuf::by_name([("c1", Value::Bytes(&bytes)), ("c2", Value::Bytes(&bytes))]).unwrap();
    let plan = plan("SELECT * FROM rows WHERE k = 1 AND (c1, c2) > (?, ?) AND (c1, c2) < (1, 1)");
    assert_eq!(
        plan.footprint(&bound.values(), &mut Keys::new()).count,
        Count::Exact(0)
    );
}

#[test]
fn named_values_are_found_by_name() {
    let plan = plan("UPDATE kv SET v = :v WHERE k = :key");
    let (one, two) = (1_i32.to_be_bytes(), 2_i32.to_be_bytes());
    let bound = ValuesBuf::by_name([("key", Value::Bytes(&two)), ("v", Value::Bytes(&one))]).unwrap();
    let mut keys = Keys::new();
    assert_eq!(plan.footprint(&bound.values(), &mut keys), Footprint::exact(1));
    assert_eq!(keys.iter().next().unwrap().bytes, two);
}

#[test]
fn markers_of_the_key_are_known_by_position() {
    let markers = |text: &str| facts(text).partition_key_markers;
    assert_eq!(markers("UPDATE kv SET v = ? WHERE k = ?"), Some(vec![1]));
    assert_eq!(
        markers("SELECT * FROM orders WHERE day = ? AND shop = ? LIMIT ?"),
        Some(vec![1, 0])
    );
    assert_eq!(markers("SELECT * FROM orders WHERE day = ? AND shop = 'a'"), None);
    assert_eq!(
        markers("INSERT INTO orders (day, shop, at, id) VALUES (?, ?, ?, ?)"),
        Some(vec![1, 0])
    );
}

#[test]
fn statements_that_cassandra_refuses_have_a_refusal() {
    for text in [
        "SELECT * FROM kv WHERE v = 1",
        "SELECT * FROM kv WHERE nope = 1",
        "SELECT nope FROM kv",
        "SELECT * FROM nope",
        "SELECT * FROM kv WHERE k = 1 AND k = 2",
        "SELECT * FROM kv WHERE k = 'text'",
        "SELECT * FROM kv WHERE k != 1",
        "SELECT * FROM rows WHERE k = 1 AND c2 = 1",
        "SELECT * FROM orders WHERE shop = 'a'",
        "SELECT DISTINCT v FROM kv",
        "SELECT * FROM kv WHERE k IN (1, 2) AND w = 'x'",
        "INSERT INTO kv (v) VALUES (1)",
        "INSERT INTO kv (k, v) VALUES (1)",
        "INSERT INTO views (page, day, hits) VALUES ('a', '2024-01-01', 1)",
        "UPDATE kv SET k = 1 WHERE k = 1",
        "UPDATE rows SET v = 1 WHERE k = 1",
        "UPDATE kv USING TIMESTAMP 1 SET v = 1 WHERE k = 1 IF EXISTS",
        "DELETE FROM kv WHERE v = 1",
        "BEGIN BATCH UPDATE views SET hits = hits + 1 WHERE page = 'a' AND day = '2024-01-01'; APPLY BATCH",
        "BEGIN COUNTER BATCH DELETE FROM kv WHERE k = 1; APPLY BATCH",
    ] {
        let plan = plan(text);
        assert_eq!(
            plan.refusal().map(|refusal| refusal.stage),
            Some(Stage::Prepare),
            "{text}"
        );
        assert!(plan.facts().schema.is_none(), "{text}");
    }
    assert_eq!(refusal("SELECT * FROM kv WHERE k = 1 LIMIT 0").0, Stage::Bind);
    assert_eq!(
        refusal("UPDATE kv SET v = 1 WHERE k IN (1, 2) IF EXISTS").0,
        Stage::Bind
    );
    assert_eq!(refusal("DELETE FROM kv_by_v WHERE v = 1").0, Stage::Validate);
    let two = "BEGIN BATCH DELETE FROM kv WHERE k = 1 IF EXISTS; DELETE FROM kv WHERE k = 2; APPLY BATCH";
    assert_eq!(refusal(two).0, Stage::Bind);
}

#[test]
fn a_prepared_statement_needs_no_schema_if_its_markers_are_described() {
    let text = "SELECT * FROM shop.orders WHERE shop = ? AND day = ?";
    let markers = Markers {
        columns: vec![("shop".into(), CqlType::Text), ("day".into(), CqlType::Date)],
        table: Some(("shop".into(), "orders".into())),
        partition_key: vec![0, 1],
    };
    let statement = syntax::parse(text).unwrap();
    let plan = Plan::without_schema(&statement, None, &markers);
    let bound = ValuesBuf::positional([Value::Bytes(b"a"), Value::Bytes(&[0x80, 0, 0, 0])]).unwrap();
    let mut keys = Keys::new();
    assert_eq!(plan.footprint(&bound.values(), &mut keys), Footprint::exact(1));
    assert_eq!(
        keys.iter().next().unwrap().bytes,
        [&[0, 1, b'a', 0, 0, 4, 0x80, 0, 0, 0, 0][..]].concat()
    );
    let statement =
        syntax::parse("SELECT * FROM shop.orders WHERE shop = ? AND day IN (?, '2024-01-01')").unwrap();
    let plan = Plan::without_schema(&statement, None, &markers);
    assert_eq!(
        plan.footprint(&bound.values(), &mut Keys::new()),
        Footprint::unknown(Reason::SchemaUnknown)
    );
}

#[test]
fn without_a_schema_a_row_that_is_written_is_one_partition() {
    let markers = Markers::default();
    let footprint = |text: &str| {
        let plan = Plan::without_schema(&syntax::parse(text).unwrap(), Some("shop"), &markers);
        plan.footprint(&Values::NONE, &mut Keys::new())
    };
    for text in [
        "INSERT INTO t (a, b) VALUES (1, 2)",
        "INSERT INTO t JSON '{}'",
        "UPDATE t SET v = 1 WHERE a = 1 AND b = 2",
        "DELETE v FROM t WHERE a = 1",
    ] {
        let written = footprint(text);
        let one = (Count::Exact(1), Some(Reason::SchemaUnknown));
        assert_eq!((written.count, written.keys_missing), one, "{text}");
    }
    assert_eq!(footprint("SELECT v FROM t").count, Count::Scan);
    for text in [
        "UPDATE t SET v = 1 WHERE a IN (1, 2)",
        "DELETE FROM t WHERE a = 1 AND b > 2 AND b < 1",
        "SELECT v FROM t WHERE a = 1",
        "SELECT v FROM t WHERE token(a) > 1",
    ] {
        assert_eq!(
            footprint(text),
            Footprint::unknown(Reason::SchemaUnknown),
            "{text}"
        );
    }
}

#[test]
fn a_batch_of_keys_that_nobody_knows_has_at_least_one() {
    let statement = syntax::parse("INSERT INTO t (a) VALUES (1)").unwrap();
    let markers = Markers::default();
    let plan = Plan::without_schema(&statement, Some("shop"), &markers);
    let (mut sum, mut keys) = (BatchSum::new(syntax::ast::BatchKind::Logged), Keys::new());
    for _ in 0..2 {
        sum.add(&plan, Some(&Values::NONE), &mut keys).unwrap();
    }
    let count = sum.footprint(&keys).unwrap().count;
    assert_eq!(count, Count::AtLeast(1, Reason::SchemaUnknown));
}

#[test]
fn a_token_that_only_the_server_knows_leaves_any_number_of_keys() {
    for text in [
        "SELECT * FROM kv WHERE k IN (1, 2) AND token(k) > toUnixTimestamp(now())",
        "SELECT * FROM by_uuid WHERE k IN (uuid(), uuid()) AND token(k) > 0",
        "SELECT * FROM by_text WHERE k = 'a' AND token(k) > token('a' + 'b')",
    ] {
        assert_eq!(count(text), Count::AtLeast(0, Reason::FunctionValue), "{text}");
    }
}

#[test]
fn above_the_last_token_is_nothing_whatever_the_server_computes() {
    let range = |start: &str| {
        count(&format!(
            "SELECT * FROM by_text WHERE token(k) {start} AND token(k) <= token('a' + 'b')"
        ))
    };
    assert_eq!(range("> 9223372036854775807"), Count::Exact(0));
    assert_eq!(range(">= 9223372036854775807"), Count::TokenRange { share: 1.0 });
    assert_eq!(range("> 0"), Count::TokenRange { share: 1.0 });
}

#[test]
fn a_literal_timestamp_of_a_batch_is_no_marker() {
    let is_of_one_table = |using: &str| {
        let text =
            format!("BEGIN BATCH USING TIMESTAMP {using} INSERT INTO kv (k, v) VALUES (?, ?) APPLY BATCH");
        let facts = plan(&text).facts().schema.clone().unwrap();
        facts.markers_of_one_table
    };
    assert!(is_of_one_table("1700000000000000"));
    assert!(!is_of_one_table("?"));
}

#[test]
fn without_a_schema_a_prepared_statement_may_name_no_row() {
    let int = |value: i32| value.to_be_bytes();
    let (one, two, none) = (int(1), int(2), int(0));
    let (one, two, none) = (Value::Bytes(&one), Value::Bytes(&two), Value::Bytes(&none));
    let unsure = Count::Unknown(Reason::SchemaUnknown);
    for (text, types, values, expected) in [
        (
            "k = ? AND c > ? AND c < ?",
            vec![CqlType::Int; 3],
            vec![one, one, two],
            Count::Exact(1),
        ),
        (
            "k = ? AND c > ? AND c < ?",
            vec![CqlType::Int; 3],
            vec![one, two, one],
            unsure,
        ),
        (
            "k = ? AND c > ? AND c <= ?",
            vec![CqlType::Int; 3],
            vec![one, one, one],
            unsure,
        ),
        (
            "k = ? AND c > 5 AND c < ?",
            vec![CqlType::Int; 2],
            vec![one, two],
            unsure,
        ),
        (
            "k = ? AND c >= -1 AND c < ?",
            vec![CqlType::Int; 2],
            vec![one, two],
            Count::Exact(1),
        ),
        (
            "k = ? AND c >= -1 AND c < ?",
            vec![CqlType::Int; 2],
            vec![one, Value::Null],
            unsure,
        ),
        (
            "k = ? AND c > 9 AND c < 10",
            vec![CqlType::Int],
            vec![one],
            Count::Exact(1),
        ),
        (
            "k = ? AND c > 10 AND c < 9",
            vec![CqlType::Int],
            vec![one],
            unsure,
        ),
        (
            "k = ? AND c > 'b' AND c < 'a'",
            vec![CqlType::Int],
            vec![one],
            unsure,
        ),
        ("k = ? AND c IN ()", vec![CqlType::Int], vec![one], unsure),
        (
            "k = ? AND (c, d) > (?, ?) AND c < ?",
            vec![CqlType::Int; 4],
            vec![one, two, two, one],
            unsure,
        ),
        (
            "k = ? AND (c, d) > (?, ?) AND c < ?",
            vec![CqlType::Int; 4],
            vec![one, one, two, two],
            Count::Exact(1),
        ),
        (
            "k = ? AND c IN ?",
            vec![CqlType::Int, CqlType::list(CqlType::Int)],
            vec![one, none],
            unsure,
        ),
    ] {
        let markers = Markers {
            columns: types.into_iter().map(|cql_type| ("c".into(), cql_type)).collect(),
            table: Some(("shop".into(), "t".into())),
            partition_key: vec![0],
        };
        let bound = ValuesBuf::positional(values).unwrap();
        for start in ["SELECT * FROM t WHERE ", "DELETE FROM t WHERE "] {
            let text = format!("{start}{text}");
            let statement = syntax::parse(&text).unwrap();
            let plan = Plan::without_schema(&statement, None, &markers);
            let footprint = plan.footprint(&bound.values(), &mut Keys::new());
            assert_eq!(footprint.count, expected, "{text}");
        }
    }
}

#[test]
fn long_sums_and_deep_brackets_cost_no_exponential_time() {
    let sum = |operands: usize| vec!["1"; operands].join(" + ");
    let counted = |operands: usize| count(&format!("SELECT * FROM kv WHERE k = {}", sum(operands)));
    assert_eq!(counted(30), Count::Exact(1));
    assert_eq!(counted(900), Count::Unknown(Reason::StatementTooComplex));
    let nested = format!("{}1{}", "(".repeat(80), ")".repeat(80));
    assert_eq!(
        count(&format!("SELECT * FROM kv WHERE k = {nested}")),
        Count::Exact(1)
    );
    let negated = format!("{}1{}", "-(".repeat(40), ")".repeat(40));
    assert_eq!(
        count(&format!("SELECT * FROM kv WHERE k = {negated}")),
        Count::Exact(1)
    );
}

mod hostile {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_bound_bytes_panic(
            table in prop::sample::select(&["kv", "by_decimal", "by_varint", "by_text", "by_inet", "by_set", "by_list", "by_tuple", "by_address", "by_date"][..]),
            form in prop::sample::select(&["= ?", "IN ?", "IN (?, ?)"][..]),
            first in prop::collection::vec(any::<u8>(), 0..40),
            second in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            let plan = plan(&format!("SELECT * FROM {table} WHERE k {form}"));
            let bound = ValuesBuf::positional([Value::Bytes(&first), Value::Bytes(&second)]).unwrap();
            let mut keys = Keys::new();
            let footprint = plan.footprint(&bound.values(), &mut keys);
            if let Count::Exact(count) = footprint.count {
                prop_assert_eq!(count, keys.len() as u64);
            }
        }
    }
}

/// What a statement takes, and why it has no plan where it has none.
fn work_of(text: &str) -> (u64, Option<Reason>) {
    let work = Work::of_text(text);
    let statement = syntax::parse_within(text, &work).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan::of_within(&statement, Some("shop"), schema(), &work);
    let reason = match plan.execute(None, &mut Keys::new()) {
        Ok(footprint) => footprint.reason(),
        Err(refusal) => Some(refusal.reason),
    };
    (work.spent(), reason)
}

/// The most that a statement may have taken when it is given up: what was begun last is not linear in anything, but small.
fn most(text: &str) -> u64 {
    Work::BASE + Work::PER_BYTE * text.len() as u64 + (1 << 22)
}

#[test]
fn nested_arithmetic_is_given_up_and_said() {
    let nested = |open: &str, close: &str, depth: usize| {
        let key = format!("{}1{}", open.repeat(depth), close.repeat(depth));
        format!("SELECT v FROM kv WHERE k = {key}")
    };
    for (open, close) in [
        ("(1 + ", ")"),
        ("(", " + 1)"),
        ("-(", ")"),
        ("(1 + 1) * (", ")"),
        ("int_as_blob(", ")"),
        ("to_timestamp(", ")"),
        ("CAST((1 + ", ") AS int)"),
    ] {
        let text = nested(open, close, 40);
        let (spent, _) = work_of(&text);
        assert!(spent <= most(&text), "{open}: {spent}");
    }
    let (spent, reason) = work_of(&nested("(1 + ", ")", 60));
    assert_eq!(reason, Some(Reason::StatementTooComplex), "{spent}");
    let long = format!("SELECT v FROM kv WHERE k = 1{}", " + (1 * (2 - 3))".repeat(900));
    assert_eq!(work_of(&long).1, Some(Reason::StatementTooComplex));
}

#[test]
fn what_people_write_is_within_the_budget() {
    let list = |count: usize| {
        (0..count)
            .map(|key| key.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    for text in [
        format!("SELECT v FROM kv WHERE k IN ({})", list(20_000)),
        "SELECT v FROM kv WHERE k = 1 + 2 * (3 - 4) % 5".to_owned(),
        "SELECT v FROM by_varint WHERE k = 123456789012345678901234567890".to_owned(),
        format!(
            "BEGIN BATCH {} APPLY BATCH",
            "UPDATE kv SET v = 1 WHERE k = 1; ".repeat(5_000)
        ),
        format!(
            "SELECT * FROM rows WHERE k = 1 AND (c1, c2, c3) IN ({})",
            "(1, 2, 3), ".repeat(5_000) + "(1, 2, 4)"
        ),
    ] {
        assert_eq!(work_of(&text).1, None, "{}", &text[..40]);
    }
}

#[test]
fn numbers_of_a_million_digits_are_given_up_before_they_are_read() {
    for digits in [100_000, 1_000_000] {
        for text in [
            format!("SELECT v FROM by_varint WHERE k = {}", "1".repeat(digits)),
            format!("SELECT v FROM by_decimal WHERE k = 1.{}", "1".repeat(digits)),
            format!(
                "INSERT INTO by_varint JSON '{{\"k\": \"{}\"}}'",
                "1".repeat(digits)
            ),
        ] {
            // The steps count what reading the digits would take, not what was done.
            assert_eq!(
                work_of(&text).1,
                Some(Reason::StatementTooComplex),
                "{}",
                &text[..40]
            );
        }
    }
    let many = format!(
        "SELECT v FROM by_varint WHERE k IN ({})",
        vec!["1".repeat(1_000); 100].join(", ")
    );
    assert_eq!(work_of(&many).1, None);
}

#[test]
fn as_many_markers_as_there_can_be_are_each_looked_up_once() {
    let many = usize::from(u16::MAX);
    let text = format!("SELECT v FROM kv WHERE k IN ({})", vec!["?"; many].join(", "));
    let bytes: Vec<[u8; 4]> = (0..u32::from(u16::MAX)).map(u32::to_be_bytes).collect();
    let values = ValuesBuf::positional(bytes.iter().map(|value| Value::Bytes(value))).unwrap();
    let plan = plan(&text);
    let started = std::hint::black_box(plan.footprint(&values.values(), &mut Keys::new()));
    assert_eq!(started.count, Count::Exact(many as u64));
}

#[test]
fn short_lists_that_make_very_many_long_keys_are_cut_short() {
    let day: Vec<[u8; 4]> = (0..5_000_u32).map(u32::to_be_bytes).collect();
    let mut list = 5_000_i32.to_be_bytes().to_vec();
    for day in &day {
        list.extend([0, 0, 0, 4]);
        list.extend(day);
    }
    let shop = vec![b'a'; 60_000];
    let values = ValuesBuf::positional([Value::Bytes(&shop), Value::Bytes(&list)]).unwrap();
    let mut keys = Keys::new();
    let footprint =
        plan("SELECT total FROM orders WHERE shop = ? AND day IN ?").footprint(&values.values(), &mut keys);
    assert_eq!(footprint.count, Count::Exact(5_000));
    assert_eq!(footprint.keys_missing, Some(Reason::TooManyKeys));
    assert!(keys.overflowed() < 1_000, "{}", keys.overflowed());
}

mod work_properties {
    use proptest::{collection::vec, prelude::*, sample::select};

    use super::*;

    /// Where a term may stand.
    const FRAMES: [(&str, &str); 6] = [
        ("SELECT v FROM kv WHERE k = ", ""),
        ("SELECT v FROM kv WHERE k IN (", ")"),
        ("SELECT * FROM rows WHERE k = 1 AND (c1, c2) > (", ", 1)"),
        ("INSERT INTO kv (k, v) VALUES (1, ", ")"),
        ("UPDATE kv SET v = v + ", " WHERE k = 1"),
        ("BEGIN BATCH UPDATE kv SET v = 1 WHERE k = ", " APPLY BATCH"),
    ];

    const OPENINGS: [(&str, &str); 9] = [
        ("(", ")"),
        ("-(", ")"),
        ("(1 + ", ")"),
        ("(", " * 2)"),
        ("int_as_blob(", ")"),
        ("CAST(", " AS int)"),
        ("(int)(", ")"),
        ("[", "]"),
        ("{1: ", "}"),
    ];

    proptest! {
        #[test]
        fn no_statement_takes_more_steps_than_its_length_allows(
            frame in select(&FRAMES[..]),
            openings in vec(select(&OPENINGS[..]), 1..4),
            depth in 0_usize..150,
            more in select(&[" + 1", " * (2 - 3)", ", 1", " % 5", ""][..]),
            times in 0_usize..2_000,
        ) {
            let nested = openings.iter().cycle().take(depth).fold("1".to_owned(), |inner, (open, close)| {
                format!("{open}{inner}{close}")
            });
            let text = format!("{}{nested}{}{}", frame.0, more.repeat(times), frame.1);
            let work = Work::of_text(&text);
            if let Ok(statement) = syntax::parse_within(&text, &work) {
                let plan = Plan::of_within(&statement, Some("shop"), schema(), &work);
                let _ = plan.execute(None, &mut Keys::new());
            }
            prop_assert!(work.spent() <= most(&text), "{} for {} bytes", work.spent(), text.len());
        }
    }
}

#[test]
fn relations_that_only_newer_servers_know_are_not_followed() {
    for text in [
        "SELECT * FROM kv WHERE k != 1",
        "SELECT * FROM kv WHERE k NOT IN (1, 2)",
        "SELECT * FROM kv WHERE k BETWEEN 1 AND 2",
    ] {
        let plan = plan(text);
        let refusal = plan.refusal().unwrap();
        assert_eq!(
            (refusal.stage, refusal.reason),
            (Stage::Prepare, Reason::NotFollowed),
            "{text}"
        );
    }
    let plan = plan("SELECT * FROM kv WHERE k CONTAINS 1");
    assert_eq!(plan.refusal().unwrap().reason, Reason::InvalidStatement);
}
