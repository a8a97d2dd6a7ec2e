//! One plan for all texts of a shape concludes of each what its own plan does.

use proptest::prelude::*;

use siphasher::sip::SipHasher13;

use super::*;
use crate::cells::Cells;
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
    cells: String,
}

impl Concluded {
    fn of(plan: &Plan, values: &Values<'_>) -> Self {
        let mut keys = Keys::new();
        let mut cells = Cells::new(SipHasher13::new());
        plan.note_cells(values, &mut cells);
        let executed = plan.execute(Some(values), &mut keys);
        Self {
            executed: executed
                .map_err(|refusal| (refusal.stage, refusal.reason, refusal.message.into_owned())),
            keys: keys.iter().map(|key| key.bytes.to_vec()).collect(),
            limits: plan.limits(Some(values)).map_err(|refusal| refusal.reason),
            listed_rows: plan.listed_rows(values),
            class: plan.class(),
            cells: format!("{:?}", (cells.inserted(), cells.indexed(), cells.sampled())),
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
        (
            "INSERT INTO kv (k, v, w) VALUES (1, 2, 'a')",
            "INSERT INTO kv (k, v, w) VALUES (-3, 4, '')",
        ),
        (
            "INSERT INTO kv (k, v) VALUES (1, null) USING TTL 5",
            "INSERT INTO kv (k, v) VALUES (2, null) USING TTL 6",
        ),
        (
            "INSERT INTO rows (k, c1, c2, c3, v) VALUES (1, 2, 3, 4, 5)",
            "INSERT INTO rows (k, c1, c2, c3, v) VALUES (5, 4, 3, 2, 1)",
        ),
        (
            "UPDATE kv USING TIMESTAMP 5 SET v = 1, w = 'a' WHERE k = 2",
            "UPDATE kv USING TIMESTAMP 6 SET v = 2, w = 'b' WHERE k = 3",
        ),
        (
            "UPDATE kv SET v = 1 WHERE k IN (1, 2) IF v = 3",
            "UPDATE kv SET v = 2 WHERE k IN (7, 7) IF v = 4",
        ),
        (
            "UPDATE views SET hits = hits + 1 WHERE page = 'a' AND day = 1",
            "UPDATE views SET hits = hits + 2 WHERE page = 'b' AND day = 2",
        ),
        (
            "DELETE v FROM rows WHERE k = 1 AND c1 = 2 AND c2 = 3 AND c3 = 4",
            "DELETE v FROM rows WHERE k = 4 AND c1 = 3 AND c2 = 2 AND c3 = 1",
        ),
        (
            "DELETE FROM rows WHERE k = 1 AND c1 > 2 AND c1 < 9",
            "DELETE FROM rows WHERE k = 1 AND c1 > 9 AND c1 < 2",
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
        "INSERT INTO kv (k, v) VALUES (1, ?)",
        "INSERT INTO kv (k, s) VALUES (1, {2})",
        "INSERT INTO kv JSON '{\"k\": 1}'",
        "UPDATE kv USING TIMESTAMP 99999999999999999999 SET v = 1 WHERE k = 2",
        "UPDATE rows SET m['a'] = 1 WHERE k = 1 AND c1 = 1 AND c2 = 1 AND c3 = 1",
        "DELETE m['a'] FROM rows WHERE k = 1 AND c1 = 1 AND c2 = 1 AND c3 = 1",
        "BEGIN BATCH INSERT INTO kv (k, v) VALUES (1, 2) APPLY BATCH",
        "TRUNCATE kv",
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

/// Two constants of one kind, for one place of two texts.
type Pair = [&'static str; 2];

fn pair() -> impl Strategy<Value = Pair> {
    // Most columns are numbers.
    let kind = prop_oneof![6 => 0..1_usize, 4 => 1..2_usize, 3 => 2..CONSTANTS.len()];
    (kind, any::<(u8, u8)>()).prop_map(|(kind, (one, other))| {
        let of_kind = CONSTANTS[kind];
        [one, other].map(|number| of_kind[usize::from(number) % of_kind.len()])
    })
}

/// What texts are made of: columns are picked by number, from those of the table.
#[derive(Debug, Clone)]
struct Parts {
    table: usize,
    kind: u8,
    relations: Vec<(u8, &'static str, Vec<Pair>)>,
    limit: Option<Pair>,
    in_order: bool,
    flag: bool,
    assigned: Vec<(u8, Pair)>,
}

fn parts() -> impl Strategy<Value = Parts> {
    let operator = prop_oneof![
        6 => Just("="), 1 => Just("<"), 1 => Just(">="), 1 => Just(">"), 1 => Just("<="), 2 => Just("IN"),
        1 => Just("CONTAINS"),
    ];
    let relation = (any::<u8>(), operator, proptest::collection::vec(pair(), 1..4));
    let relations = proptest::collection::vec(relation, 0..5);
    let limit = proptest::option::weighted(0.3, pair());
    let assigned = proptest::collection::vec((any::<u8>(), pair()), 1..6);
    (
        0..COLUMNS.len(),
        0..6_u8,
        relations,
        limit,
        any::<(bool, bool)>(),
        assigned,
    )
        .prop_map(
            |(table, kind, relations, limit, (in_order, flag), assigned)| Parts {
                table,
                kind,
                relations,
                limit,
                in_order,
                flag,
                assigned,
            },
        )
}

impl Parts {
    /// One of both texts.
    fn text(&self, which: usize) -> String {
        let (table, columns) = COLUMNS[self.table];
        let column = |place: usize, number: u8| {
            let number = if self.in_order { place } else { usize::from(number) };
            columns[number % columns.len()]
        };
        let relations = self.relations.iter().enumerate();
        let relations = relations.map(|(place, (number, operator, constants))| {
            let mut constants = constants.iter().map(|pair| pair[which]);
            let column = column(place, *number);
            match *operator {
                "IN" => format!("{column} IN ({})", constants.collect::<Vec<_>>().join(", ")),
                operator => format!("{column} {operator} {}", constants.next().unwrap()),
            }
        });
        let relations: Vec<_> = relations.collect();
        let clause = match relations.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", relations.join(" AND ")),
        };
        let integer = self
            .limit
            .map(|pair| pair[which])
            .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let behind = |words: &str| {
            integer
                .map(|integer| format!(" {words} {integer}"))
                .unwrap_or_default()
        };
        let assigned = self.assigned.iter().enumerate();
        let assigned = assigned.map(|(place, (number, pair))| (column(place, *number), pair[which]));
        let assigned: Vec<_> = assigned.collect();
        match self.kind {
            0 => {
                let (names, values): (Vec<_>, Vec<_>) = assigned.into_iter().unzip();
                let using = behind(if self.flag { "USING TTL" } else { "USING TIMESTAMP" });
                format!(
                    "INSERT INTO {table} ({}) VALUES ({}){using}",
                    names.join(", "),
                    values.join(", ")
                )
            }
            1 if !relations.is_empty() => {
                let set: Vec<_> = assigned
                    .iter()
                    .map(|(column, value)| format!("{column} = {value}"))
                    .collect();
                let using = behind("USING TIMESTAMP");
                format!("UPDATE {table}{using} SET {}{clause}", set.join(", "))
            }
            2 if !relations.is_empty() => {
                let deleted = if self.flag {
                    format!("{} ", columns[columns.len() - 1])
                } else {
                    String::new()
                };
                format!(
                    "DELETE {deleted}FROM {table}{}{clause}",
                    behind("USING TIMESTAMP")
                )
            }
            _ => {
                let filtering = if self.flag { " ALLOW FILTERING" } else { "" };
                let selected = assigned[0].0;
                format!(
                    "SELECT {selected} FROM {table}{clause}{}{filtering}",
                    behind("LIMIT")
                )
            }
        }
    }
}

#[test]
fn what_is_shared_is_what_each_text_says_for_itself() {
    let config = ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(20_000)
    };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let (all, shared) = (std::cell::Cell::new(0_u32), std::cell::Cell::new(0_u32));
    runner
        .run(&parts(), |parts| {
            let [first, other] = [parts.text(0), parts.text(1)];
            if shape(&first).key != shape(&other).key {
                return Ok(());
            }
            let are_cql = [&first, &other].map(|text| syntax::parse(text).is_ok());
            assert_eq!(are_cql[0], are_cql[1], "{first}\n{other}");
            if are_cql[0] {
                all.set(all.get() + 1);
                shared.set(shared.get() + u32::from(is_shared(&first, &other)));
            }
            Ok(())
        })
        .unwrap();
    assert!(shared.get() * 5 > all.get(), "{} of {}", shared.get(), all.get());
}
