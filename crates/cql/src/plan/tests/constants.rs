//! One plan for all texts of a shape concludes of each what its own plan does.

use proptest::prelude::*;

use super::*;
use crate::plan::{ConstantTypes, ReadLimits};
use crate::syntax::{TextShape, tokens};

/// What is concluded of an execution.
#[derive(Debug, PartialEq)]
struct Concluded {
    executed: Result<Footprint, (Stage, Reason, String)>,
    keys: Vec<Vec<u8>>,
    limits: Result<ReadLimits, Reason>,
    listed_rows: Option<u64>,
    class: PartitionClass,
}

impl Concluded {
    fn of(plan: &Plan, values: &Values<'_>) -> Self {
        let mut keys = Keys::new();
        let executed = plan.execute(Some(values), &mut keys);
        Self {
            executed: executed
                .map_err(|refusal| (refusal.stage, refusal.reason, refusal.message.into_owned())),
            keys: keys.iter().map(|key| key.bytes.to_vec()).collect(),
            limits: plan.limits(Some(values)).map_err(|refusal| refusal.reason),
            listed_rows: plan.listed_rows(values),
            class: plan.class(),
        }
    }
}

fn shape(text: &str) -> TextShape<'_> {
    TextShape::of(text, &tokens(text).unwrap(), Some("shop"))
}

/// The plan of all texts of the shape of `text`.
fn shared(text: &str) -> Option<(Plan, ConstantTypes)> {
    let statement = syntax::parse(text).unwrap();
    let constants = shape(text).constants;
    Plan::of_constants(
        &statement,
        Some("shop"),
        schema(),
        &Work::of_text(text),
        &constants,
    )
}

/// Holds what the plan of the shape of `first` concludes of `other` against what its own plan does; false where
/// they do not share one.
fn is_shared(first: &str, other: &str) -> bool {
    let of_other = shape(other);
    assert_eq!(shape(first).key, of_other.key, "{first}\n{other}");
    let Some((plan, types)) = shared(first) else {
        return false;
    };
    let Some(values) = types.values(&of_other.constants) else {
        return false;
    };
    let own = super::plan(other);
    assert_eq!(
        Concluded::of(&plan, &values.values()),
        Concluded::of(&own, &Values::NONE),
        "{first}\n{other}"
    );
    assert_eq!(plan.facts(), own.facts(), "{first}\n{other}");
    assert_eq!(plan.tables(), own.tables(), "{first}\n{other}");
    true
}

#[test]
fn texts_of_a_shape_share_a_plan() {
    for (first, other) in [
        (
            "SELECT v FROM kv WHERE k = 1",
            "SELECT v FROM kv WHERE k = -2147483648",
        ),
        (
            "SELECT v FROM kv WHERE k IN (1, 2)",
            "SELECT v FROM kv WHERE k IN (7, 7)",
        ),
        (
            "SELECT v FROM kv WHERE k IN (1)",
            "SELECT v FROM kv WHERE k IN (2)",
        ),
        (
            "SELECT v FROM kv WHERE w = 'a' LIMIT 1",
            "SELECT v FROM kv WHERE w = 'b' LIMIT 99",
        ),
        ("SELECT v FROM kv LIMIT 1", "SELECT v FROM kv LIMIT 0"),
        (
            "SELECT id FROM orders WHERE shop = 'a' AND day = '2026-01-01' AND at > '2026-01-01T00:00:00Z' AND at < '2026-01-02T00:00:00Z' PER PARTITION LIMIT 1 LIMIT 2",
            "SELECT id FROM orders WHERE shop = 'b' AND day = '2026-02-01' AND at > '2026-02-01T00:00:00Z' AND at < '2026-01-02T00:00:00Z' PER PARTITION LIMIT 3 LIMIT 4",
        ),
        (
            "SELECT id FROM orders WHERE shop = 'a' AND day = 1 AND at IN ('2026-01-01', 5)",
            "SELECT id FROM orders WHERE shop = '' AND day = 2 AND at IN ('2026-01-02', 6)",
        ),
        (
            "SELECT v FROM by_text WHERE k = 'a'",
            "SELECT v FROM by_text WHERE k = ''",
        ),
        (
            "SELECT v FROM by_inet WHERE k = '10.0.0.1'",
            "SELECT v FROM by_inet WHERE k = '::1'",
        ),
        // Refused before anything looks at a constant.
        (
            "SELECT nothing FROM kv WHERE k = 1",
            "SELECT nothing FROM kv WHERE k = 99999999999",
        ),
        (
            "SELECT v FROM nowhere.kv WHERE k = 1",
            "SELECT v FROM nowhere.kv WHERE k = 2",
        ),
        ("SELECT v FROM kv WHERE v = 1", "SELECT v FROM kv WHERE v = 2"),
        (
            "SELECT v FROM kv WHERE v = 1 ALLOW FILTERING",
            "SELECT v FROM kv WHERE v = 2 ALLOW FILTERING",
        ),
    ] {
        assert!(is_shared(first, other), "{first}");
    }
}

#[test]
fn what_depends_on_a_constant_is_not_shared() {
    for text in [
        // No value of the type: the refusal is that of this constant.
        "SELECT v FROM kv WHERE k = 'a'",
        "SELECT v FROM kv WHERE k = 99999999999",
        "SELECT v FROM by_inet WHERE k = 'localhost'",
        // Not a value of its own.
        "SELECT v FROM kv WHERE k = 1 + 1",
        "SELECT v FROM kv WHERE k = (int) 1",
        "SELECT v FROM kv WHERE token(k) > 5",
        "SELECT v FROM kv WHERE s CONTAINS 1 ALLOW FILTERING",
        "SELECT v FROM by_set WHERE k = {1, 2}",
        "SELECT v FROM by_tuple WHERE k = (1, 'a')",
        "SELECT v FROM by_tuple WHERE k = '1:a'",
        "SELECT v FROM rows WHERE k = 1 AND (c1, c2) = (1, 2)",
        "SELECT v, 1 FROM kv WHERE k = 1",
        // Markers have values of their own.
        "SELECT v FROM kv WHERE k = 1 AND v = ? ALLOW FILTERING",
        "INSERT INTO kv (k, v) VALUES (1, 2)",
        "UPDATE kv SET v = 1 WHERE k = 2",
    ] {
        assert!(shared(text).is_none(), "{text}");
    }
    for (first, other) in [
        (
            "SELECT v FROM kv WHERE k = 1",
            "SELECT v FROM kv WHERE k = 99999999999",
        ),
        (
            "SELECT v FROM by_inet WHERE k = '::1'",
            "SELECT v FROM by_inet WHERE k = 'localhost'",
        ),
        (
            "SELECT v FROM by_date WHERE k = '2026-01-01'",
            "SELECT v FROM by_date WHERE k = 'soon'",
        ),
    ] {
        assert!(!is_shared(first, other), "{other}");
    }
}

/// Tables with their columns.
const COLUMNS: [(&str, &[&str]); 12] = [
    ("kv", &["k", "v", "w", "s", "gone"]),
    ("orders", &["shop", "day", "at", "id", "total", "owner"]),
    ("rows", &["k", "c1", "c2", "c3", "v", "m"]),
    ("compact_rows", &["k", "c1", "c2", "v"]),
    ("kv_by_v", &["k", "v", "w"]),
    ("views", &["page", "day", "hits"]),
    ("by_decimal", &["k", "v"]),
    ("by_varint", &["k", "v"]),
    ("by_double", &["k", "v"]),
    ("by_inet", &["k", "v"]),
    ("by_uuid", &["k", "v"]),
    ("by_date", &["k", "v"]),
];

/// Constants by kind: of each kind two are taken.
const CONSTANTS: [&[&str]; 7] = [
    &[
        "1",
        "2",
        "-1",
        "0",
        "2147483647",
        "2147483648",
        "99999999999999999999",
    ],
    &[
        "'a'",
        "''",
        "'it''s'",
        "'2026-01-01'",
        "'2026-01-02T00:00:00Z'",
        "'10.0.0.1'",
        "'::1'",
        "'host'",
    ],
    &["1.0", "2.50", "1e3", "NaN"],
    &["true", "FALSE"],
    &["0x", "0xff", "0x00000001"],
    &[
        "123e4567-e89b-12d3-a456-426655440000",
        "123e4567-e89b-42d3-a456-426655440001",
    ],
    &["1h", "2m"],
];

/// A text with a place for each constant, and two constants for each place.
fn texts() -> impl Strategy<Value = (String, String)> {
    let constant = || {
        // Most columns are numbers.
        let kind = prop_oneof![6 => 0..1_usize, 4 => 1..2_usize, 3 => 2..CONSTANTS.len()];
        (kind, any::<(u8, u8)>()).prop_map(|(kind, (one, other))| {
            let of_kind = CONSTANTS[kind];
            [one, other].map(|number| of_kind[usize::from(number) % of_kind.len()])
        })
    };
    let operator = prop_oneof![6 => Just("="), 1 => Just("<"), 1 => Just(">="), 1 => Just(">"), 1 => Just("<="), 2 => Just("IN"), 1 => Just("CONTAINS")];
    let relation = (any::<u8>(), operator, proptest::collection::vec(constant(), 1..4));
    let relations = proptest::collection::vec(relation, 0..5);
    let limit = prop_oneof![2 => Just(None), 1 => constant().prop_map(Some)];
    (
        0..COLUMNS.len(),
        relations,
        limit,
        any::<(bool, bool)>(),
        any::<u8>(),
    )
        .prop_map(|(table, relations, limit, (in_order, filtering), selected)| {
            let (table, columns) = COLUMNS[table];
            let selected = columns[usize::from(selected) % columns.len()];
            [0, 1]
                .map(|which| {
                    let relations =
                        relations
                            .iter()
                            .enumerate()
                            .map(|(place, (column, operator, constants))| {
                                let column = columns
                                    [if in_order { place } else { usize::from(*column) } % columns.len()];
                                let mut constants = constants.iter().map(|both| both[which]);
                                match *operator {
                                    "IN" => {
                                        format!("{column} IN ({})", constants.collect::<Vec<_>>().join(", "))
                                    }
                                    operator => format!("{column} {operator} {}", constants.next().unwrap()),
                                }
                            });
                    let relations: Vec<_> = relations.collect();
                    let clause = if relations.is_empty() {
                        String::new()
                    } else {
                        format!(" WHERE {}", relations.join(" AND "))
                    };
                    let limit = limit
                        .map(|both| both[which])
                        .filter(|limit| limit.bytes().all(|byte| byte.is_ascii_digit()));
                    let limit = limit.map(|limit| format!(" LIMIT {limit}")).unwrap_or_default();
                    let filtering = if filtering { " ALLOW FILTERING" } else { "" };
                    format!("SELECT {selected} FROM {table}{clause}{limit}{filtering}")
                })
                .into()
        })
}

#[test]
fn what_is_shared_is_what_each_text_says_for_itself() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(20_000));
    let (all, shared) = (std::cell::Cell::new(0_u32), std::cell::Cell::new(0_u32));
    runner
        .run(&texts(), |(first, other)| {
            if shape(&first).key == shape(&other).key {
                all.set(all.get() + 1);
                shared.set(shared.get() + u32::from(is_shared(&first, &other)));
            }
            Ok(())
        })
        .unwrap();
    assert!(shared.get() * 4 > all.get(), "{} of {}", shared.get(), all.get());
}
