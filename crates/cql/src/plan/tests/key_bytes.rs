//! Keys as bytes: how values are serialized, which are equal, and which are no key.

use super::*;

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
