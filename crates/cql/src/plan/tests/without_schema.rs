//! Plans of prepared statements whose table no schema describes.

use super::*;

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
