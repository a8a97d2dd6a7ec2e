//! How well operations of several statements are found: in traffic of which it is known what belongs together, mixed
//! with what only looks like it, at several loads.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that prints its score"
)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "numbers of a simulation are small"
)]

mod operations;
mod simulation;

use std::collections::BTreeSet;

use cqlens_audit::{
    rules::{self, Context, Sequence, Settings},
    window::{Cluster, Window},
};
use cqlens_cql::schema::Schema;
use operations::SCHEMA;
use simulation::{Application, MILLISECOND, Random, Stage, Time, observe};

/// An operation, what it is called, and how it is to be found: the rule and the tables.
struct Known {
    name: &'static str,
    operation: fn(&mut Random) -> Vec<Stage>,
    found: Option<(&'static str, &'static [&'static str])>,
}

const fn guilty(
    name: &'static str,
    operation: fn(&mut Random) -> Vec<Stage>,
    rule: &'static str,
    tables: &'static [&'static str],
) -> Known {
    Known {
        name,
        operation,
        found: Some((rule, tables)),
    }
}

const fn innocent(name: &'static str, operation: fn(&mut Random) -> Vec<Stage>) -> Known {
    Known {
        name,
        operation,
        found: None,
    }
}

const JOINS: [Known; 4] = [
    guilty(
        "joins",
        operations::join_one_by_one,
        "client-join",
        &["s.groups", "s.users"],
    ),
    guilty(
        "joins",
        operations::join_in_no_order,
        "client-join",
        &["s.groups", "s.users"],
    ),
    guilty(
        "joins",
        operations::join_at_once,
        "client-join",
        &["s.groups", "s.users"],
    ),
    guilty(
        "joins",
        operations::join_with_cache,
        "client-join",
        &["s.groups", "s.users"],
    ),
];

const OTHERS: [Known; 10] = [
    guilty(
        "lookups",
        operations::lookup,
        "index-table-lookup",
        &["s.emails", "s.accounts"],
    ),
    guilty(
        "chains",
        operations::chain,
        "client-join",
        &["s.words", "s.documents", "s.parts"],
    ),
    guilty("buckets", operations::buckets, "bucket-fan-out", &["s.bucketed"]),
    guilty("days", operations::days_back, "time-bucket-walk", &["s.daily"]),
    guilty(
        "copies",
        operations::two_tables,
        "dual-write-without-batch",
        &["s.by_name", "s.by_phone"],
    ),
    innocent("pages", operations::page_of_an_item),
    innocent("clicks", operations::click),
    innocent("news", operations::news),
    innocent("sensors", operations::sensors),
    innocent("orders", operations::orders),
];

/// How much is going on: users of each application, the connections that they share, and the pause between two of
/// their operations.
const LOADS: [(u64, u64, Time); 5] = [
    (1, 1, 1_000 * MILLISECOND),
    (4, 2, 200 * MILLISECOND),
    (16, 4, 200 * MILLISECOND),
    (64, 1, 400 * MILLISECOND),
    (24, 4, 15 * MILLISECOND),
];

/// Of the loads the one with so many requests that they are not all looked at.
const TOO_MUCH: usize = 4;

/// What was found right, what was found that is not there, and what was missed.
#[derive(Debug, Default)]
struct Score {
    right: Vec<String>,
    wrong: Vec<String>,
    missed: Vec<String>,
}

impl Score {
    fn precision(&self) -> f64 {
        self.right.len() as f64 / (self.right.len() + self.wrong.len()) as f64
    }

    fn recall(&self) -> f64 {
        self.right.len() as f64 / (self.right.len() + self.missed.len()) as f64
    }
}

fn sequences(window: &Window) -> Vec<Sequence> {
    let (schema, cluster) = (Schema::from_cql(SCHEMA).unwrap(), Cluster::default());
    rules::check(&Context::new(window, &schema, &cluster), &Settings::default()).sequences
}

/// What is compared: the rule, and the tables in alphabetical order.
type Found = (String, BTreeSet<String>);

/// Whether each kind of operation has an application of its own, or one does all of them.
#[derive(Debug, Clone, Copy)]
enum Mix {
    Apart,
    Together,
}

fn score(join: &'static Known, load: usize, mix: Mix, score: &mut Score) {
    let (users, connections, pause) = LOADS[load];
    let known: Vec<&Known> = [join].into_iter().chain(&OTHERS).collect();
    let all = |name, operations, pause| Application {
        name,
        users,
        connections,
        pause,
        operations,
    };
    let operations = known.iter().map(|known| known.operation).collect();
    let applications: Vec<Application> = match mix {
        Mix::Apart => known
            .iter()
            .map(|known| all(known.name, vec![known.operation], pause))
            .collect(),
        Mix::Together => vec![all("everything", operations, pause / known.len() as i64)],
    };
    // As long as it takes to have seen a hundred of each.
    let duration = match load {
        TOO_MUCH => 3_000 * MILLISECOND,
        _ => 480 * pause / users as i64 + 5_000 * MILLISECOND,
    };
    let window = observe(SCHEMA, &applications, duration, load as u64 + 1);
    assert_eq!((window.coverage.undecoded, window.coverage.dropped), (0, 0));
    assert_eq!(window.coverage.not_related > 0, load == TOO_MUCH);
    assert!(load != TOO_MUCH || window.coverage.reads_not_followed > 0);
    let sequences = sequences(&window);
    let found: BTreeSet<Found> = sequences.iter().map(found).collect();
    let expected: BTreeSet<Found> = known
        .iter()
        .filter_map(|known| known.found)
        .map(|(rule, tables)| (rule.to_owned(), tables.iter().map(ToString::to_string).collect()))
        .collect();
    let told = |of: &Found| format!("load {load}, {mix:?}: {} of {:?}", of.0, of.1);
    score.right.extend(found.intersection(&expected).map(told));
    score.wrong.extend(found.difference(&expected).map(told));
    score.missed.extend(expected.difference(&found).map(told));
    check_figures(&sequences, load);
}

fn found(sequence: &Sequence) -> Found {
    let tables = sequence.tables.iter().map(ToString::to_string).collect();
    (sequence.kind.to_owned(), tables)
}

/// Fan-outs are those of the operations, within a tenth.
fn check_figures(sequences: &[Sequence], load: usize) {
    for sequence in sequences {
        let tables: Vec<String> = sequence.tables.iter().map(ToString::to_string).collect();
        let expected = match (sequence.kind, tables[0].as_str()) {
            ("client-join", "s.words") => 10.0,
            ("bucket-fan-out", _) => 6.0,
            ("time-bucket-walk", _) => 4.0,
            _ => continue,
        };
        let mean = sequence.fan_out.mean();
        assert!(
            (mean - expected).abs() <= expected / 10.0,
            "load {load}: {} of {tables:?}: {mean}, not {expected}",
            sequence.kind
        );
    }
}

#[test]
fn what_belongs_together_is_found_and_nothing_else() {
    let mut all = Score::default();
    for join in &JOINS {
        for load in 0..TOO_MUCH {
            score(join, load, Mix::Apart, &mut all);
            score(join, load, Mix::Together, &mut all);
        }
    }
    score(&JOINS[0], TOO_MUCH, Mix::Apart, &mut all);
    // Users of one application who walk over the days of one name at the same time are taken for one.
    let load = format!("load {TOO_MUCH}");
    let of_sample = all.missed.iter().filter(|missed| missed.starts_with(&load));
    assert!(
        of_sample
            .clone()
            .all(|missed| missed.contains("time-bucket-walk")),
        "a sample has all: {:#?}",
        of_sample.collect::<Vec<_>>()
    );
    println!("precision {:.3}, recall {:.3}", all.precision(), all.recall());
    assert!(all.precision() >= 0.98, "{:#?}", all.wrong);
    assert!(all.recall() >= 0.95, "{:#?}", all.missed);
}
