#![allow(clippy::unwrap_used)]

use cqlens_proto::{
    message::{Value, ValuesBuf},
    types::CqlType,
};

use super::*;
use crate::audit::statement::analysis::UNKNOWN_PREPARED;
use cqlens_capture::memory::Memory;
use cqlens_cql::{footprint::Keys, plan::Markers, schema::Schema};

/// What effects do.
fn prepare(statements: &mut StatementCache, id: &[u8], statement: PreparedStatement) {
    statements.forget_prepared(id);
    statements.live.prepared.insert(id, statement);
}

#[test]
fn what_is_prepared_again_is_not_what_it_was() {
    let mut statements = StatementCache::new(Arc::new(Live::default()));
    let mut execute = |id: &[u8], cql: Option<&str>| {
        if let Some(cql) = cql {
            let statement = PreparedStatement {
                cql: cql.into(),
                keyspace: None,
                markers: Some(Markers::default()),
            };
            prepare(&mut statements, id, statement);
        }
        let again = statements.of_prepared(id).id;
        assert_eq!(statements.of_prepared(id).id, again);
        again
    };
    // Some ids share a place, and not all are digests.
    for ids in [[&[7_u8; 16][..], &[7 + 64; 16]], [b"a", b"b"]] {
        assert_eq!(ids.map(|id| execute(id, None)), [UNKNOWN_PREPARED; 2]);
        let [read, write] = ["SELECT a FROM k.t", "DELETE FROM k.t WHERE a = 1"];
        let [first, second] = ids;
        let (read, write) = (execute(first, Some(read)), execute(second, Some(write)));
        assert_ne!(read, write);
        assert_eq!((execute(first, None), execute(second, None)), (read, write));
        assert_eq!(execute(first, Some("DELETE FROM k.t WHERE a = 1")), write);
    }
}

/// Statements whose plans are many times their text.
fn large_statements() -> [String; 4] {
    let list = |element: &str, count: usize| vec![element; count].join(",");
    [
        format!("SELECT c FROM k.t WHERE a IN ({})", list("1", 30_000)),
        format!("SELECT c FROM k.t WHERE a IN ({})", list("?", 30_000)),
        format!(
            "BEGIN BATCH {} APPLY BATCH",
            "INSERT INTO k.t(a,b)VALUES(1,1)".repeat(2_000)
        ),
        format!("SELECT {} FROM k.t", list("c", 30_000)),
    ]
}

fn live(memory: Memory) -> Arc<Live> {
    let schema = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy'}; \
                  CREATE TABLE k.t (a int, b int, c int, PRIMARY KEY (a, b));";
    Arc::new(Live::within(memory).beginning_with(Schema::from_cql(schema).unwrap()))
}

/// The keys of an execution with these values of a statement of which PREPARED names these markers and,
/// of the partition key, these.
fn keys_of(cql: &str, markers: &[&str], partition_key: &[u16], values: &[i32]) -> (Vec<Vec<u8>>, bool) {
    let columns = markers.iter().map(|&name| (name.to_owned(), CqlType::Int));
    let statement = PreparedStatement {
        cql: cql.into(),
        keyspace: None,
        markers: Some(Markers {
            columns: columns.collect(),
            table: Some(("k".to_owned(), "t".to_owned())),
            partition_key: partition_key.to_vec(),
        }),
    };
    let mut statements = StatementCache::new(live(Memory::default()));
    prepare(&mut statements, b"id", statement);
    let analysis = statements.of_prepared(b"id");
    let values: Vec<_> = values.iter().map(|value| value.to_be_bytes()).collect();
    let values = ValuesBuf::positional(values.iter().map(|value| Value::Bytes(value))).unwrap();
    let mut keys = Keys::new();
    let plan = analysis.plan.as_ref().unwrap();
    plan.footprint(&values.values(), &mut keys);
    (
        keys.iter().map(|key| key.bytes.to_vec()).collect(),
        analysis.disagrees,
    )
}

#[test]
fn markers_are_numbered_as_the_server_has_them() {
    let update = "UPDATE k.t SET c = :c WHERE a = :a AND b = :b IF c < :c";
    let of = |value: i32| vec![value.to_be_bytes().to_vec()];
    // Cassandra's markers are places, ScyllaDB's are names where there are any.
    let cassandra = keys_of(update, &["c", "a", "b", "c"], &[1], &[7, 1, 2, 7]);
    assert_eq!(cassandra, (of(1), false));
    let again = "UPDATE k.t SET c = :x WHERE a = :a AND b = :x";
    let again_at_the_end = "SELECT c FROM k.t WHERE b = :x AND c = :x AND a = :a ALLOW FILTERING";
    assert_eq!(
        keys_of(update, &["c", "a", "b"], &[1], &[7, 1, 2]),
        (of(1), false)
    );
    assert_eq!(keys_of(again, &["x", "a"], &[1], &[7, 1]), (of(1), false));
    assert_eq!(
        keys_of(again_at_the_end, &["x", "a"], &[1], &[7, 1]),
        (of(1), false)
    );
    // Where a server counts or names other ones, only what it says is used.
    let select = "SELECT c FROM k.t WHERE a = ? AND b = ?";
    assert_eq!(keys_of(select, &["b", "a"], &[1], &[7, 1]), (of(1), true));
    let more = keys_of(select, &["b", "c", "a"], &[2], &[7, 8, 1]);
    assert_eq!(
        more,
        (vec![], true),
        "which of them belongs to which relation is not known"
    );
    // Version 3 names none.
    assert_eq!(keys_of(select, &["a", "b"], &[], &[1, 7]), (of(1), false));
}

#[test]
fn an_analysis_takes_up_no_more_than_it_weighs() {
    let live = live(Memory::default());
    // What is made once for the process is made by then, whichever test comes first.
    StatementCache::new(Arc::clone(&live)).of_text("SELECT a FROM k.t WHERE a = 1", None);
    let usual = [
        "SELECT a, b, c FROM k.t WHERE a = ? AND b >= ? ORDER BY b LIMIT ?".to_owned(),
        "INSERT INTO k.t (a, b, c) VALUES (?, ?, ?) USING TTL ?".to_owned(),
        "nothing that is CQL".to_owned(),
    ];
    for text in large_statements().iter().chain(&usual) {
        let (mut analysis, mut ids) = (None, Ids::default());
        let taken = allocation_counter::measure(|| {
            analysis = Some(Arc::new(Analysis::of(
                text,
                None,
                None,
                None,
                &live,
                &mut Templates::default(),
                &mut ids,
            )))
        });
        let (taken, weight) = (
            usize::try_from(taken.bytes_current).unwrap(),
            analysis.unwrap().weight,
        );
        assert!(taken <= weight, "{taken} bytes, weighed {weight}: {text:.40}");
    }
    for text in [
        "SELECT c FROM k.t WHERE a = 1 AND b > 2 LIMIT 3".to_owned(),
        list_of_constants(),
    ] {
        let mut statements = StatementCache::new(Arc::clone(&live));
        statements.of_text(&text, None);
        let before = statements.bytes;
        let taken = allocation_counter::measure(|| {
            // Of the same shape.
            statements.of_text(&text.replace('1', "2"), None);
        });
        let (taken, weight) = (
            usize::try_from(taken.bytes_current).unwrap(),
            statements.bytes - before,
        );
        assert!(
            weight > 0 && taken <= weight,
            "{taken} bytes, weighed {weight}: {text:.40}"
        );
    }
}

fn list_of_constants() -> String {
    format!("SELECT c FROM k.t WHERE a IN ({})", vec!["1"; 1_000].join(","))
}

#[test]
fn texts_that_differ_in_their_constants_share_an_analysis() {
    let mut statements = StatementCache::new(live(Memory::default()));
    let keyspace = Some("k");
    let mut query = |text: &str| {
        let (analysis, constants) = statements.of_text(text, keyspace);
        let mut keys = Keys::new();
        let none = ValuesBuf::default();
        let values = constants.as_ref().unwrap_or(&none).values();
        analysis.plan.as_ref().unwrap().footprint(&values, &mut keys);
        let keys: Vec<_> = keys.iter().map(|key| key.bytes.to_vec()).collect();
        (analysis, constants.is_some(), keys)
    };
    let of = |value: i32| vec![value.to_be_bytes().to_vec()];
    let text = |value: i32| format!("SELECT c FROM t WHERE a = {value}");
    // A shape is analysed when it comes again.
    let (first, is_shared, keys) = query(&text(1));
    assert_eq!(
        (first.head.table.as_deref(), is_shared, keys),
        (Some("t"), false, of(1))
    );
    let (second, is_shared, keys) = query(&text(2));
    assert_eq!((second.id, is_shared, keys), (first.id, true, of(2)));
    let (third, is_shared, keys) = query(&text(3));
    assert!(Arc::ptr_eq(&second, &third) && is_shared);
    assert_eq!(
        (&third.head, &third.flags, keys),
        (&first.head, &first.flags, of(3))
    );
    // What is no int is refused, and says so in each report as it did.
    let (refused, is_shared, keys) = query("SELECT c FROM t WHERE a = 99999999999");
    assert_eq!((refused.id, is_shared, keys.len()), (first.id, false, 0));
    // A text that comes again has an analysis of its own.
    assert!(!query(&text(3)).1);
    let (own, is_shared, keys) = query(&text(3));
    assert_eq!((own.id, is_shared, keys), (first.id, false, of(3)));
    // In another keyspace it is another table.
    assert_ne!(statements.of_text(&text(4), Some("other")).0.id, first.id);
    assert_ne!(statements.of_text(&text(5), Some("other")).0.id, first.id);
}

#[test]
fn thousands_of_long_statements_keep_to_their_part() {
    let memory = Memory::of(64 << 20);
    let live = live(memory.clone());
    let part = memory.part(Use::Statements);
    let texts = large_statements();
    let taken = allocation_counter::measure(|| {
        let mut statements = StatementCache::new(Arc::clone(&live));
        for number in 0_u32..400 {
            let mut id = [0; 16];
            id[..4].copy_from_slice(&number.to_be_bytes());
            let text = format!("{} /* {number} */", texts[number as usize % texts.len()]);
            prepare(&mut statements, &id, PreparedStatement::from_text(text, None));
            assert_ne!(statements.of_prepared(&id).id, UNKNOWN_PREPARED);
            statements.of_text(
                &format!("DELETE FROM k.t WHERE a = {number} AND b = {number}"),
                None,
            );
            // Of each shape three texts: from the second on they share an analysis.
            let selected = "a, ".repeat(number as usize / 3);
            statements.of_text(&format!("SELECT {selected}c FROM k.t WHERE a = {number}"), None);
            assert!(part.used() <= part.limit(), "{} of {}", part.used(), part.limit());
        }
        assert!(part.evicted() > 0);
    });
    // Plans, the texts of the prepared statements, and what it takes to parse one of them.
    let prepared = memory.part(Use::Prepared);
    let room = part.limit() + prepared.limit() + (12 << 20);
    assert!(taken.bytes_max <= room as u64, "{} of {room}", taken.bytes_max);
    assert_eq!(part.used(), 0, "all is given back at the end");
}

#[test]
fn a_statement_that_there_is_no_room_to_parse_is_unparsed() {
    let memory = Memory::of(64 << 20);
    let mut statements = StatementCache::new(live(memory.clone()));
    let longest = memory.longest_statement();
    let text = |length: usize| format!("SELECT {}c FROM k.t", "f(c),".repeat(length / 5));
    let texts = [longest - 100, longest + 100, 100 * longest].map(text);
    let taken = allocation_counter::measure(|| {
        let unparsed = texts
            .each_ref()
            .map(|text| statements.of_text(text, None).0.unparsed);
        assert_eq!(unparsed, [false, true, true]);
    });
    assert!(
        taken.bytes_max <= 170 * longest as u64,
        "{} bytes",
        taken.bytes_max
    );
}

#[test]
fn long_names_are_cut_off_before_anything_is_kept_of_them() {
    let mut statements = StatementCache::new(Arc::new(Live::default()));
    let name = "n".repeat(1 << 20);
    let length = |analysis: &Analysis| {
        let head = &analysis.head;
        let names = [&head.keyspace, &head.table].into_iter().flatten();
        let tables = analysis
            .tables
            .iter()
            .flat_map(|table| [&table.name.keyspace, &table.name.table]);
        let columns = analysis.marker_columns.iter().map(|column| column.len());
        let names = names.chain(tables).map(String::len).chain(columns);
        names.sum::<usize>() + head.cql.len()
    };
    for text in [
        format!("SELECT a FROM {name}.{name}"),
        format!("INSERT INTO t ({name}) VALUES (?)"),
        format!("UPDATE k.t SET {name} = 1 WHERE k = 1"),
        format!("SELECT a FROM {name} WHERE"),
        format!("USE {name}"),
        "SELECT a FROM t".to_owned(),
    ] {
        let (analysis, _) = statements.of_text(&text, Some(&name));
        assert!(
            length(&analysis) < 4_000,
            "{}: {}",
            &text[..20.min(text.len())],
            length(&analysis)
        );
    }
}

#[test]
fn what_nests_too_deeply_is_too_complex_and_what_is_wrong_is_not() {
    let mut statements = StatementCache::new(Arc::new(Live::default()));
    let mut unknown = |text: &str| statements.of_text(text, None).0.unknown;
    let nested = format!("SELECT a FROM t WHERE k = {}", "[".repeat(1_000));
    assert_eq!(unknown(&nested), Some(Reason::StatementTooComplex));
    let digits = format!("SELECT {}n FROM t", "1".repeat(1 << 18));
    assert_eq!(unknown(&digits), Some(Reason::StatementUnknown));
}
