//! What plans say of a statement before anything is bound.

use super::*;

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
fn contains_is_for_collections() {
    let plan = plan("SELECT * FROM kv WHERE k CONTAINS 1");
    assert_eq!(plan.refusal().unwrap().reason, Reason::InvalidStatement);
}

#[test]
fn the_rows_that_in_lists_are_multiplied_and_those_of_other_reads_are_none() {
    let values = ValuesBuf::positional([]).unwrap();
    let listed = |text: &str| plan(text).listed_rows(&values.values());
    for (text, rows) in [
        ("SELECT v FROM rows WHERE k = 1 AND c1 IN (1, 2, 3)", Some(3)),
        (
            "SELECT v FROM rows WHERE k = 1 AND c1 IN (1, 2, 3) AND c2 IN (1, 2)",
            Some(6),
        ),
        (
            "SELECT v FROM rows WHERE k = 1 AND (c1, c2) IN ((1, 2), (3, 4))",
            Some(2),
        ),
        ("SELECT v FROM rows WHERE k IN (1, 2) AND c1 = 3", None),
        ("SELECT v FROM rows WHERE k = 1 AND c1 > 3", None),
        (
            "UPDATE rows SET v = 1 WHERE k = 1 AND c1 IN (1, 2) AND c2 = 1 AND c3 = 1",
            None,
        ),
    ] {
        assert_eq!(listed(text), rows, "{text}");
    }
    let list = [
        &[0, 0, 0, 2][..],
        &[0, 0, 0, 4, 0, 0, 0, 1],
        &[0, 0, 0, 4, 0, 0, 0, 2],
    ]
    .concat();
    let bound = ValuesBuf::positional([Value::Bytes(&list)]).unwrap();
    let by_marker = plan("SELECT v FROM rows WHERE k = 1 AND c1 IN ?");
    assert_eq!(by_marker.listed_rows(&bound.values()), Some(2));
}
