//! Bind markers: their names, and which of them are the key.

use super::*;

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
