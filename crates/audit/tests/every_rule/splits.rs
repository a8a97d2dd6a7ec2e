//! Property: however the same traffic is split over time and over sources, the totals, the rates, what is found,
//! how severe it is and in which order are the same.

use cqlens_audit::{
    rules::{self, Context, Settings, Severity},
    window::{Cluster, Window},
};
use cqlens_cql::schema::Schema;
use cqlens_proto::envelope::Version;
use proptest::prelude::*;

use crate::wire::{
    Answer::{Rows, Void},
    Cell::{Int, Null, Text},
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
        _ => wire.send(
            &ask(
                "INSERT INTO shop.names (name, owner) VALUES (?, ?) IF NOT EXISTS",
                &[Text("a"), Text("b")],
            ),
            &Void,
        ),
    }
}

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
        let mut windows = windows.into_iter();
        let mut window = windows.next().unwrap();
        windows.for_each(|other| window.merge(&other));
        let schema = Schema::from_cql(SCHEMA).unwrap();
        // Latencies are of this machine.
        let cluster = Cluster {
            is_embedded: true,
            ..Cluster::default()
        };
        let context = Context::new(&window, &schema, &cluster);
        let found = rules::check(&context, &Settings::default()).findings;
        let rate = |name: &str, finding: &rules::Finding| {
            let mut evidence = finding.evidence.iter();
            evidence
                .find(|(key, _)| *key == name)
                .map(|(_, value)| value.to_string())
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn however_it_is_split_the_same_is_said(
        steps in proptest::collection::vec((0..8_usize, 1..50_usize), 4..16),
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
}
