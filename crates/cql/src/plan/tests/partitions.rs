//! Which partitions reads name: keys, ranges, scans and index reads.

use super::*;

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
fn a_compact_table_takes_rows_with_a_part_of_their_clustering_columns() {
    assert_eq!(
        count("INSERT INTO compact_rows (k, c1, v) VALUES (1, 2, 3)"),
        Count::Exact(1)
    );
    let (stage, message) = refusal("INSERT INTO compact_rows (k, v) VALUES (1, 3)");
    assert_eq!(
        (stage, message.as_str()),
        (Stage::Prepare, "Some clustering keys are missing: c1, c2")
    );
}
