//! Batches, in text and as messages.

use super::*;

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
fn a_batch_of_one_key_in_each_of_several_tables_is_foreseen() {
    let two = "BEGIN BATCH INSERT INTO kv (k, v) VALUES (?, 1); INSERT INTO other.kv (k, v) VALUES (?, 1); APPLY BATCH";
    assert_eq!(plan(two).foreseen_partitions(), Some(2));
    assert_eq!(plan(two).class(), PartitionClass::Multi);
    let same =
        "BEGIN BATCH INSERT INTO kv (k, v) VALUES (?, 1); UPDATE kv SET v = 2 WHERE k = ?; APPLY BATCH";
    assert_eq!(plan(same).foreseen_partitions(), None, "the keys may be the same");
    let listed = "BEGIN BATCH INSERT INTO kv (k, v) VALUES (?, 1); UPDATE other.kv SET v = 2 WHERE k IN ?; APPLY BATCH";
    assert_eq!(plan(listed).foreseen_partitions(), None);
}
