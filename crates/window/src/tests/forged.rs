//! Snapshots with forged counts, which would change those of other sources.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// As files have it.
fn document() -> Value {
    let mut window = window(0, 2..4, 2);
    window.coverage.unknown_reasons.insert("page".to_owned(), 0);
    window.connections_mut("client 2").open(4, true);
    let snapshot = Snapshot::new(window, Cluster::default(), String::new(), String::new());
    serde_json::to_value(snapshot).unwrap_or_default()
}

/// Where the document has whole numbers, by their pointers; without the values of distributions and what is no count.
fn numbers(value: &Value, at: &str, found: &mut Vec<String>) {
    const OTHER: [&str; 10] = [
        "few",
        "hdr",
        "page_sizes",
        "sample",
        "values",
        "cover",
        "most_ahead_us",
        "most_behind_us",
        "largest",
        "node_reads",
    ];
    let items: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(key, item)| (key.clone(), item)).collect(),
        Value::Array(items) => (0..)
            .zip(items)
            .map(|(at, item): (usize, _)| (at.to_string(), item))
            .collect(),
        Value::Number(number) if number.is_u64() => return found.push(at.to_owned()),
        _ => return,
    };
    for (key, item) in items.iter().filter(|(key, _)| !OTHER.contains(&key.as_str())) {
        numbers(item, &format!("{at}/{key}"), found);
    }
}

fn of_window(document: &Value) -> Vec<String> {
    let mut found = Vec::new();
    numbers(&document["window"], "/window", &mut found);
    found
}

fn with(document: &Value, at: &str, number: u64) -> Value {
    let mut changed = document.clone();
    if let Some(place) = changed.pointer_mut(at) {
        *place = number.into();
    }
    changed
}

fn parse(document: &Value) -> Option<Window> {
    serde_json::from_value(document["window"].clone()).ok()
}

/// Each of them wrapped around to nothing, beside another window with the difference.
#[test]
fn no_number_that_would_wrap_around_is_read() {
    let document = document();
    let numbers = of_window(&document);
    assert!(numbers.len() > 100, "{}", numbers.len());
    for at in &numbers {
        let read = Snapshot::read(with(&document, at, counts::MOST + 1).to_string().as_bytes());
        assert!(read.is_err(), "{at}");
    }
    let forged = with(&document, "/window/coverage/requests", u64::MAX);
    assert_eq!(
        Snapshot::read(forged.to_string().as_bytes())
            .err()
            .map(|error| error.to_string()),
        Some("the snapshot is damaged: no traffic has as much as window.coverage.requests says".to_owned())
    );
}

#[test]
fn hashes_and_what_others_state_may_be_any_number() {
    let mut window = window(0, 2..4, 2);
    let row = WrittenRow {
        partition: u64::MAX,
        bytes: 10,
        at: 0,
    };
    for table in window.tables.values_mut() {
        table.inserted.sample.insert(u64::MAX, row);
        table.top_partitions.read(u64::MAX);
        table.node_reads.get_or_insert_default().tombstones_max = u64::MAX;
    }
    for pattern in window.patterns.values_mut() {
        // The year 4000, and a warning of as much as there is.
        pattern.write_times.count(64_000_000_000_000_000, 0);
        pattern.count_warned(
            "tombstones",
            Warned {
                times: 1,
                largest: u64::MAX,
            },
        );
    }
    let snapshot = Snapshot::new(window, Cluster::default(), String::new(), String::new());
    let mut text = Vec::new();
    assert!(snapshot.write(&mut text).is_ok());
    assert_eq!(Snapshot::read(&text[..]).ok(), Some(snapshot));
}

/// Each of which traffic might have.
#[test]
fn many_large_counts_are_not_read() {
    let mut forged = document();
    for client in 0..17 {
        forged["window"]["clients"][format!("client {client}")] = counts::MOST.into();
    }
    let read = Snapshot::read(forged.to_string().as_bytes());
    assert!(
        matches!(read, Err(SnapshotError::Implausible(_))),
        "{:?}",
        read.err()
    );
}

/// Under the names of what may be any number elsewhere.
#[test]
fn a_name_that_others_choose_hides_no_count() {
    for name in ["few", "hdr", "partition"] {
        let mut forged = document();
        forged["window"]["clients"][name] = u64::MAX.into();
        let read = Snapshot::read(forged.to_string().as_bytes());
        assert!(matches!(read, Err(SnapshotError::Implausible(_))), "{name}");
    }
}

#[test]
fn counts_that_do_not_add_up_are_not_read() {
    let forged = with(&document(), "/window/coverage/audited", 1_000);
    let read = Snapshot::read(forged.to_string().as_bytes());
    assert!(matches!(read, Err(SnapshotError::Sums(_))), "{:?}", read.err());
}

/// The hash of a partition may be any number, and so may a value, but not how often it came.
#[test]
fn a_distribution_has_only_counts_that_traffic_has() {
    let read = |text: &str| serde_json::from_str::<Distribution>(text).is_ok();
    assert!(read(r#"{"sum":"0","few":[[18446744073709551615,3]]}"#));
    assert!(!read(r#"{"sum":"0","few":[[7,18446744073709551615]]}"#));
    assert!(!read(r#"{"sum":"0","few":[[7,72057594037927935],[8,2]]}"#));
    let mut many = Distribution::default();
    (0..20).for_each(|value| many.record(value));
    let stored = serde_json::to_value(&many).unwrap_or_default();
    assert!(read(&stored.to_string()));
    let mut forged = stored;
    forged["sum"] = u128::MAX.to_string().into();
    assert!(!read(&forged.to_string()), "a sum that its values do not have");
    let mut most = Distribution::default();
    most.record_n(1, counts::MOST);
    many.merge(&most);
    assert_eq!((many.count(), many.max()), (20, 19));
}

/// Where the document may have a number as large as counts are at most.
static COUNTS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let document = document();
    let all = of_window(&document).into_iter();
    all.filter(|at| parse(&with(&document, at, counts::MOST)).is_some())
        .collect()
});

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// However large the counts are, in however many windows.
    #[test]
    fn merging_never_lowers_a_count(choices in proptest::collection::vec(0_u64..6, 1..400), times in 1_usize..5) {
        let mut extreme = document();
        for (at, choice) in COUNTS.iter().zip(choices.iter().cycle()) {
            let number = [counts::MOST, counts::MOST - 1, counts::MOST / 2].into_iter().nth(usize::try_from(*choice).unwrap_or(9));
            if let (Some(number), Some(place)) = (number, extreme.pointer_mut(at)) {
                *place = number.into();
            }
        }
        let Some(other) = parse(&extreme) else { return Err(TestCaseError::fail("it is not read")) };
        let small = window(1, 2..6, 3);
        for (mut merged, more) in [(small.clone(), &other), (other.clone(), &small), (other.clone(), &other)] {
            let before = serde_json::json!({ "window": merged });
            (0..times).for_each(|_| merged.merge(more));
            let after = serde_json::json!({ "window": merged });
            for at in of_window(&before) {
                let [before, after] = [&before, &after].map(|all| all.pointer(&at).and_then(Value::as_u64));
                prop_assert!(after >= before && after <= Some(counts::MOST), "{}: {:?}, {:?}", at, before, after);
            }
        }
    }
}
