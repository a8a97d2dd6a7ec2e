//! Property: however the same traffic is split over time and over sources, the totals, the rates, what is found,
//! how severe it is and in which order are the same.

use cqlens_cql::schema::Schema;
use cqlens_proto::{envelope::Version, message::Consistency};
use cqlens_rules::{Context, Settings, Severity};
use cqlens_window::{Cluster, Distribution, Window};
use jiff::Timestamp;
use proptest::prelude::*;

use crate::wire::{
    Answer::{Error, Rows, Void, Warned},
    Cell::{Bytes, Int, Null, Text},
    ROW, SCHEMA, Wire, ask,
};

/// How long all of it is observed, in seconds.
const SECONDS: i64 = 1_200;

/// A kind of request that something is said of, or nothing.
fn do_one(wire: &mut Wire, kind: usize, key: i32) {
    let (key, order) = (Int(key), [Int(key), Int(key), Int(5)]);
    match kind {
        0 => wire.send(&ask("SELECT name FROM shop.users WHERE id = ?", &[key]), &ROW),
        1 => wire.send(
            &ask(
                "SELECT id FROM shop.users WHERE name = ? ALLOW FILTERING",
                &[Text("anna")],
            ),
            &Rows(40, 8),
        ),
        2 => wire.send(&ask("SELECT id, name FROM shop.users", &[]), &Rows(300, 8)),
        3 => wire.send(
            &ask(
                "SELECT name FROM shop.users WHERE id IN (?, ?, ?)",
                &[key, Int(1_000), Int(2_000)],
            ),
            &Rows(3, 8),
        ),
        4 => wire.send(
            &ask(
                "INSERT INTO shop.users (id, name, phone) VALUES (?, ?, ?)",
                &[key, Text("anna"), Null],
            ),
            &Void,
        ),
        5 => wire.send(
            &ask(
                "INSERT INTO shop.orders (customer, at, total) VALUES (?, ?, ?)",
                &order,
            ),
            &Void,
        ),
        6 => wire.send(
            &ask(
                "DELETE FROM shop.orders WHERE customer = ? AND at = ?",
                &order[..2],
            ),
            &Void,
        ),
        7 => wire.send(
            &ask(
                "INSERT INTO shop.names (name, owner) VALUES (?, ?) IF NOT EXISTS",
                &[Text("a"), Text("b")],
            ),
            &Void,
        ),
        // The same columns as another statement asks by, and the same table as another one writes: one finding of two.
        8 => wire.send(
            &ask(
                "SELECT phone FROM shop.users WHERE name = ? ALLOW FILTERING",
                &[Text("anna")],
            ),
            &Rows(40, 8),
        ),
        9 => wire.send(
            &ask(
                "INSERT INTO shop.users (id, phone, tags) VALUES (?, ?, ?)",
                &[key, Null, Bytes(&[0, 0, 0, 0])],
            ),
            &Void,
        ),
        10 => {
            let values = [key];
            let mut quorum = ask("SELECT name FROM two.users WHERE id = ?", &values);
            quorum.consistency = Consistency::Quorum;
            wire.send(&quorum, &ROW);
        }
        11 => wire.send(
            &ask("SELECT owner FROM shop.names WHERE name = ?", &[Text("a")]),
            &Warned("Aggregation query used without partition key"),
        ),
        _ => wire.send(
            &ask("SELECT v FROM shop.grid WHERE a = ? AND b = ?", &[key, key]),
            &Error(0x1000),
        ),
    }
}

/// How many kinds there are.
const KINDS: usize = 13;

/// What is compared: totals, and the findings in their order with their rates.
#[derive(Debug, PartialEq)]
struct Said {
    audited: u64,
    seconds: f64,
    findings: Vec<(String, Severity, Option<String>)>,
    rates: Vec<Option<String>>,
}

impl Said {
    fn of(windows: Vec<Window>) -> Self {
        // Latencies are of this machine.
        let cluster = Cluster {
            is_embedded: true,
            ..Cluster::default()
        };
        Self::of_cluster(windows, &cluster)
    }

    /// The same where latencies count: so many microseconds for each execution of a pattern.
    fn of_timed(mut windows: Vec<Window>) -> Self {
        for window in &mut windows {
            for (id, pattern) in &mut window.patterns {
                pattern.latency_us = Distribution::default();
                pattern.latency_us.record_n(200 + id.0 % 50_000, pattern.count);
            }
        }
        Self::of_cluster(windows, &Cluster::default())
    }

    fn of_cluster(windows: Vec<Window>, cluster: &Cluster) -> Self {
        let mut windows = windows.into_iter();
        let mut window = windows.next().unwrap();
        windows.for_each(|other| window.merge(&other));
        let schema = Schema::from_cql(SCHEMA).unwrap();
        let context = Context::new(&window, &schema, cluster);
        let found = cqlens_rules::check(&context, &Settings::default()).findings;
        let rate = |name: &str, finding: &cqlens_rules::Finding| {
            let mut evidence = finding.evidence.iter();
            evidence
                .find(|(key, _)| *key == name)
                .map(|(_, value)| format!("{value:?}"))
        };
        Self {
            audited: window.coverage.audited,
            seconds: window.seconds(),
            findings: found
                .iter()
                .map(|finding| (finding.id().to_string(), finding.severity, finding.table.clone()))
                .collect(),
            rates: found
                .iter()
                .map(|finding| rate("executions_per_second", finding))
                .collect(),
        }
    }
}

/// The traffic on one connection, cut after these numbers of steps.
fn over_time(steps: &[(usize, usize)], cuts: &[usize]) -> Said {
    let mut wire = Wire::of_source("a", SCHEMA, Version::V4).without_times();
    let mut windows = Vec::new();
    for (at, (kind, times)) in steps.iter().enumerate() {
        (0..*times).for_each(|turn| do_one(&mut wire, *kind, i32::try_from(at * 50 + turn).unwrap()));
        if cuts.contains(&at) {
            let done = i64::try_from(at + 1).unwrap() * SECONDS / i64::try_from(steps.len() + 1).unwrap();
            windows.push(wire.cut(done));
        }
    }
    windows.push(wire.end(SECONDS));
    Said::of(windows)
}

/// The traffic on two connections that two sources watch at the same time.
fn over_sources(steps: &[(usize, usize)], of_second: &[bool]) -> Said {
    let mut wires = ["a", "b"].map(|source| Wire::of_source(source, SCHEMA, Version::V4).without_times());
    for (at, (kind, times)) in steps.iter().enumerate() {
        let wire = &mut wires[usize::from(of_second[at % of_second.len()])];
        (0..*times).for_each(|turn| do_one(wire, *kind, i32::try_from(at * 50 + turn).unwrap()));
    }
    Said::of(wires.into_iter().map(|wire| wire.end(SECONDS)).collect())
}

/// A part of the time: which sources watch, and what is done. Where nobody watches, nobody knows.
#[derive(Debug, Clone)]
struct Slot {
    sources: Vec<&'static str>,
    steps: Vec<(usize, usize)>,
}

fn slot() -> impl Strategy<Value = Slot> {
    let sources = proptest::sample::subsequence(vec!["pod-1", "pod-2", "pod-3"], 0..=3);
    let steps = proptest::collection::vec((0..KINDS, 1..50_usize), 1..5);
    (sources, steps).prop_map(|(sources, steps)| Slot { sources, steps })
}

/// How long a slot is, in seconds.
const SLOT: i64 = 240;

/// What the sources of a slot see, each on a connection of its own, as pods do that come and go.
fn windows(at: usize, slot: &Slot, sources: &[&str]) -> Vec<Window> {
    let start = i64::try_from(at).unwrap() * SLOT;
    let wire = |source: &&str| Wire::of_source(source, SCHEMA, Version::V4).without_times();
    let mut wires: Vec<_> = sources.iter().map(wire).collect();
    for (step, (kind, times)) in slot.steps.iter().enumerate() {
        let turn = step % wires.len();
        let key = |execution: usize| i32::try_from(at * 1_000 + step * 50 + execution).unwrap();
        (0..*times).for_each(|execution| do_one(&mut wires[turn], *kind, key(execution)));
    }
    let ended = wires.into_iter().map(|wire| {
        let mut window = wire.end(start + SLOT);
        window.start = Timestamp::from_second(start).unwrap();
        window.close(window.end);
        window
    });
    ended.collect()
}

/// What is said of these slots, each seen by its sources, or all by the same one.
fn over_slots(slots: &[Slot], by_one: bool, said: fn(Vec<Window>) -> Said, backwards: bool) -> Said {
    let watched = slots
        .iter()
        .enumerate()
        .filter(|(_, slot)| !slot.sources.is_empty());
    let mut all: Vec<_> = watched
        .flat_map(|(at, slot)| windows(at, slot, if by_one { &["one"] } else { &slot.sources }))
        .collect();
    if backwards {
        all.reverse();
    }
    said(all)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn however_it_is_split_the_same_is_said(
        steps in proptest::collection::vec((0..KINDS, 1..50_usize), 4..16),
        cuts in proptest::collection::vec(0..16_usize, 0..5),
        of_second in proptest::collection::vec(any::<bool>(), 1..8),
    ) {
        let whole = over_time(&steps, &[]);
        prop_assert_eq!(whole.seconds, SECONDS as f64);
        prop_assert_eq!(&over_time(&steps, &cuts), &whole);
        let apart = over_sources(&steps, &of_second);
        // Each connection begins with a STARTUP of its own, and has its statements prepared.
        prop_assert!(apart.audited >= whole.audited);
        prop_assert_eq!(&apart.findings, &whole.findings);
        prop_assert_eq!(&apart.rates, &whole.rates);
        prop_assert_eq!(apart.seconds, whole.seconds);
    }

    #[test]
    fn pods_that_come_and_go_say_what_one_source_says_that_watched_in_their_stead(
        slots in proptest::collection::vec(slot(), 1..6),
        backwards in any::<bool>(),
    ) {
        prop_assume!(slots.iter().any(|slot| !slot.sources.is_empty()));
        for said in [Said::of, Said::of_timed] {
            let one = over_slots(&slots, true, said, false);
            let pods = over_slots(&slots, false, said, backwards);
            prop_assert!(pods.audited >= one.audited);
            prop_assert_eq!(&pods.findings, &one.findings);
            prop_assert_eq!(&pods.rates, &one.rates);
            prop_assert_eq!(pods.seconds, one.seconds);
            let watched = slots.iter().filter(|slot| !slot.sources.is_empty()).count();
            prop_assert_eq!(one.seconds, watched as f64 * SLOT as f64);
        }
    }
}
