//! Snapshots of every version of the format are read, for as long as cqlens is: years of them may lie in folders.
//!
//! `tests/golden` holds one of each. What today's version writes must look like the latest of them. A field that is new
//! and has a default may be added: write that file anew (`CQLENS_WRITE_GOLDEN=1 cargo test --test hermetic snapshots::golden`),
//! and keep the one before under another name, with a line in `KEPT`. Whatever else changes needs a new version of the
//! format, and a file of it here.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use cqlens_cql::{
    footprint::PartitionClass,
    plan::{Flag, StatementKind},
    schema::{ColumnName, TableName},
};
use cqlens_rules::testing::{read, write};
use cqlens_window::{
    Cluster, Detail, NodeLoad, PatternId, RepeatedValue, RetryCause, Routed, Snapshot, TableTraffic,
    Unplaced, Window, WrittenRow,
};
use jiff::SignedDuration;
use serde_json::Value;

/// The version that is written today.
const LATEST: &str = "snapshot-v1.cqlens.json";

/// All files, with what their windows have in sum: requests, executions of all patterns, partitions of all reads,
/// reads of all tables, distinct partitions of all tables.
const KEPT: [(&str, [u64; 5]); 3] = [
    (LATEST, [700, 700, 2_914, 300, 40]),
    // With samples and heavy partitions as windows have them in memory, and a byte for each register of sketches.
    ("snapshot-v1-in-full.cqlens.json", [700, 700, 2_914, 300, 40]),
    // With nothing but what the first version of this format had: all other fields have their defaults.
    ("snapshot-v1-first.cqlens.json", [700, 700, 2_914, 300, 40]),
];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn table() -> TableName {
    TableName {
        keyspace: "shop".to_owned(),
        table: "orders".to_owned(),
    }
}

/// A little of everything.
fn small() -> Snapshot {
    let start = "2026-11-21T06:00:00Z".parse().unwrap();
    let mut window = Window::new(start, "proxy-a");
    let select = "SELECT * FROM shop.orders WHERE customer_id IN ? ALLOW FILTERING";
    let mut selects = read(
        select,
        &[Flag::AllowFiltering, Flag::SelectStar],
        PartitionClass::Multi,
        300,
    );
    let insert = "INSERT INTO shop.orders (customer_id, order_id, state) VALUES (?, ?, ?)";
    let mut inserts = write(insert, StatementKind::Insert, &[], 400);
    (0..300).for_each(|number| selects.partitions.record(number % 18));
    for number in 0..100 {
        selects.rows.record(number);
        selects.response_bytes.record(number * 97);
        selects.tombstones.scanned.record(number % 7);
        selects.unpaged_rows.record(number);
        selects.paging.rows.record(number * 10);
        inserts.request_bytes.record(60 + number % 9);
    }
    (selects.errors, selects.warnings, selects.pages) = (3, 2, 20);
    selects.error_codes.insert(0x1200, 3);
    selects.repeats.retries.insert(RetryCause::ReadTimeout, 2);
    selects.routing.count(Routed::ToReplica);
    selects.scanned.see(7);
    selects.token_ranges.cover.insert(0, 1 << 60);
    inserts.nulls.count(Some("state"), 5);
    for pattern in [&mut selects, &mut inserts] {
        pattern
            .clients
            .insert("shop 4.2 (driver 4.17)".to_owned(), pattern.count);
        pattern
            .consistency
            .insert("LOCAL_QUORUM".to_owned(), pattern.count);
        pattern.seen = Some((start, start + SignedDuration::from_secs(59)));
    }
    window.patterns = [
        (PatternId(0x0123_4567_89ab_cdef), selects),
        (PatternId(0xfedc_ba98_7654_3210), inserts),
    ]
    .into();
    window.tables.insert(table(), orders());
    let state = ColumnName {
        table: table(),
        column: "state".to_owned(),
    };
    window.count_indexed(&state, |column| {
        column.inserts += 400;
        column.values.insert(1);
    });
    let node = NodeLoad {
        address: Some("10.0.0.1".to_owned()),
        coordinated: 700,
        ..NodeLoad::default()
    };
    window.load.nodes.insert("node-1".to_owned(), node);
    window.load.ring.read(1 << 60);
    window.load.unplaced.insert(Unplaced::Tablets, 1);
    window.count_client("shop 4.2 (driver 4.17)", 700);
    window.connections_mut("shop 4.2 (driver 4.17)");
    (window.coverage.requests, window.coverage.audited) = (700, 700);
    window
        .coverage
        .notices
        .insert("The schema could not be read.".to_owned());
    window.close(start + SignedDuration::from_mins(1));
    window.condense(Detail::Observed);
    let cluster = Cluster {
        name: Some("production".to_owned()),
        release_version: Some("4.1.7".to_owned()),
        partitioner: Some("Murmur3Partitioner".to_owned()),
        nodes: Some(1),
        ..Cluster::default()
    };
    let schema = "CREATE TABLE shop.orders (customer_id uuid, order_id timeuuid, state text, PRIMARY KEY (customer_id, order_id));";
    let mut snapshot = Snapshot::new(window, cluster, schema.to_owned(), "1f9b3c70d4a2e586".to_owned());
    snapshot.parts = vec![start + SignedDuration::from_secs(30)];
    snapshot
}

fn orders() -> TableTraffic {
    let mut orders = TableTraffic {
        known: true,
        reads: 300,
        writes: 400,
        ..TableTraffic::default()
    };
    orders.partitions_per_read.record_n(1, 300);
    for number in 0..40 {
        orders.distinct_partitions.insert(number);
        orders.top_partitions.read(number % 5);
        orders.weights.read(number, number + 1, 100 * (number + 1));
        orders.partition_reads.see(number, 1_000 + number, 1 << 20);
        orders.key_sizes.count(16);
        orders.inserted.inserts += 1;
        orders.inserted.rows.insert(number);
        orders.inserted.contents.insert(number);
        let row = WrittenRow {
            partition: number,
            bytes: 80,
            at: 1_795_240_800_000,
        };
        orders.inserted.sample.insert(number, row);
    }
    let repeated = RepeatedValue {
        within: 3,
        same_within: 2,
        across: 1,
        same_across: 0,
    };
    orders.repeated.count("state", repeated);
    orders
}

fn json(snapshot: &Snapshot) -> Value {
    let mut text = Vec::new();
    snapshot.write(&mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// All places in a document with the kinds of what is there. Names of maps that traffic chooses are one place.
fn shape(value: &Value, place: &str, places: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            let is_map = [
                "patterns",
                "tables",
                "entries",
                "nodes",
                "clients",
                "connections",
                "sample",
            ]
            .iter()
            .any(|map| place.ends_with(map));
            for (name, value) in fields {
                let name = if is_map { "*" } else { name };
                shape(value, &format!("{place}.{name}"), places);
            }
        }
        Value::Array(all) => all
            .iter()
            .for_each(|one| shape(one, &format!("{place}[]"), places)),
        Value::Null => drop(places.insert(format!("{place}: null"))),
        Value::Bool(_) => drop(places.insert(format!("{place}: bool"))),
        Value::Number(_) => drop(places.insert(format!("{place}: number"))),
        Value::String(_) => drop(places.insert(format!("{place}: text"))),
    }
}

fn places(value: &Value) -> BTreeSet<String> {
    let mut places = BTreeSet::new();
    shape(value, "", &mut places);
    places
}

#[test]
fn every_version_that_was_ever_written_is_read() {
    for (name, expected) in KEPT {
        let snapshot = Snapshot::read(fs::File::open(path(name)).unwrap())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let window = &snapshot.window;
        let (patterns, tables) = (|| window.patterns.values(), || window.tables.values());
        let sums = [
            window.coverage.requests,
            patterns().map(|pattern| pattern.count).sum(),
            patterns().map(|pattern| pattern.partitions.total()).sum(),
            tables().map(|table| table.reads).sum(),
            tables().map(|table| table.distinct_partitions.estimate()).sum(),
        ];
        assert_eq!(sums, expected, "{name}");
        assert_eq!(window.observed_seconds, 60.0, "{name}");
        assert_eq!(window.observed.seconds(), 60.0, "{name}");
    }
}

#[test]
fn what_is_written_today_looks_like_the_latest_golden_file() {
    let today = json(&small());
    if std::env::var_os("CQLENS_WRITE_GOLDEN").is_some() {
        fs::write(path(LATEST), format!("{today:#}\n")).unwrap();
    }
    let golden: Value = serde_json::from_slice(&fs::read(path(LATEST)).unwrap()).unwrap();
    let (is, was) = (places(&today), places(&golden));
    let (new, gone): (Vec<_>, Vec<_>) = (is.difference(&was).collect(), was.difference(&is).collect());
    assert!(
        gone.is_empty(),
        "a field is gone, or another one: that is a new version of the format, see the top of this file: {gone:#?} {new:#?}"
    );
    assert!(
        new.is_empty(),
        "a field is new: write the golden file anew and keep the one before, see the top of this file: {new:#?}"
    );
    let read = Snapshot::read(golden.to_string().as_bytes()).unwrap();
    let again = json(&read);
    assert_eq!(places(&again), was);
    // Not as text: distinct counts are written in no order.
    assert_eq!(Snapshot::read(again.to_string().as_bytes()).unwrap(), read);
}

#[test]
fn a_later_version_is_refused_and_what_wrote_it_is_said() {
    let mut later = json(&small());
    later["format"] = "cqlens.snapshot.v2".into();
    let error = Snapshot::read(later.to_string().as_bytes())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("\"cqlens.snapshot.v2\", which a later version of cqlens wrote; this one reads \"cqlens.snapshot.v1\""),
        "{error}"
    );
    later["format"] = "cqlens.report.v1".into();
    let error = Snapshot::read(later.to_string().as_bytes())
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("unknown snapshot format"), "{error}");
}

/// As an earlier program sees a snapshot after it was put back in the place of a later one.
#[test]
fn fields_that_a_later_version_has_added_are_passed_over() {
    let snapshot = small();
    let mut later = json(&snapshot);
    let invented = serde_json::json!({ "of": [1, 2] });
    for part in ["", "/window", "/window/coverage", "/cluster"] {
        later.pointer_mut(part).unwrap()["invented"] = invented.clone();
    }
    let patterns = later["window"]["patterns"].as_object_mut().unwrap();
    patterns
        .values_mut()
        .for_each(|pattern| pattern["invented"] = invented.clone());
    assert_eq!(Snapshot::read(later.to_string().as_bytes()).unwrap(), snapshot);
}
