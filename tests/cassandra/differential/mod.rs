//! What cqlens says of a statement, held against what a real server does with it.
//!
//! A seeded generator and a list written by hand give some thousands of statements. Each is prepared over the
//! wire, and those that are accepted are executed, with values for their markers and with tracing on. cqlens
//! is asked the same: does it parse, is it refused, which markers are there and which are the partition
//! key's, which partitions does it touch.
//!
//! A Cassandra 6.0 (`CQLENS_CASSANDRA=6.0`) also gets statements that older versions cannot parse: `BETWEEN`, `NOT IN`, `!=`, index
//! hints, constraints, transactions.
//!
//! `CQLENS_DIFFERENTIAL_SEED=7` draws other statements, `CQLENS_DIFFERENTIAL_TIMES=5` five times as many.

mod ask;
mod bind;
mod case;
mod doctor;
mod grammar;
mod judge;
pub(crate) mod random;
mod tally;
mod trace;

use std::time::Instant;

use cqlens_cql::ServerVersion;
use cqlens_cql::schema::Schema;

use crate::node;
use crate::support::cassandra::Release;
use ask::Server;
use case::{Case, Group, Text};
use doctor::doctor;
use grammar::Grammar;
use judge::{Category, Verdict, judge};
use tally::Tally;

/// The keyspace of unqualified names.
const KEYSPACE: &str = "lab";
const SCHEMA: &str = include_str!("schema.cql");
const REFERENCE: &str = include_str!("reference.cql");
/// Tables and statements for Cassandra 6.0 only.
const SCHEMA_6: &str = include_str!("schema_6.cql");
const REFERENCE_6: &str = include_str!("reference_6.cql");
const SEED: u64 = 5_006;

/// How many statements of each group are generated.
const GENERATED: &[(Group, usize)] = &[
    (Group::Insert, 260),
    (Group::Update, 260),
    (Group::Select, 900),
    (Group::Delete, 220),
    (Group::Batch, 180),
    (Group::Message, 120),
    (Group::Definition, 200),
    (Group::Broken, 500),
];

/// How many more on Cassandra 6.0.
const GENERATED_6: &[(Group, usize)] = &[(Group::Transaction, 300)];

#[tokio::test]
async fn cqlens_and_cassandra_agree() {
    let Some(node) = node() else { return };
    let started = Instant::now();
    let seed = setting("CQLENS_DIFFERENTIAL_SEED").unwrap_or(SEED);
    let version = ServerVersion::of_release(Release::default().version()).unwrap();
    let cases = cases(version, seed);
    let mut server = Server::new(node.address(), version, seed, &schema_text(version)).await;
    let mut observations = Vec::new();
    for case in &cases {
        observations.push(server.observe(case).await);
    }
    let executions = observations
        .iter_mut()
        .filter_map(|observation| observation.executed.as_mut());
    server.fetch_traces(executions).await;
    println!("{} cases asked after {:?}", cases.len(), started.elapsed());
    let (mut tally, mut unnoticed) = (Tally::default(), 0);
    for (case, observation) in cases.iter().zip(&observations) {
        let verdicts = judge(case, observation, version);
        tally.add(&verdicts);
        for category in Category::ALL {
            if verdicts.agree(category)
                && let Some(doctored) = doctor(category, case, observation)
            {
                if judge(case, &doctored, version).disagree(category) {
                    tally.add_noticed(category);
                } else {
                    println!("UNNOTICED {category:?} @ {:?}", case.text);
                    unnoticed += 1;
                }
            }
        }
        for (category, verdict) in &verdicts.0 {
            match verdict {
                Verdict::Agreed => {}
                Verdict::Unforeseen(why) => println!("UNFORESEEN {category:?} {why} @ {:?}", case.text),
                Verdict::Disagreed(why) => {
                    println!(
                        "DISAGREED {category:?} {why} @ {:?} [{}]",
                        case.text,
                        observation.values()
                    );
                }
            }
        }
    }
    println!("judged after {:?}, seed {seed}\n{tally}", started.elapsed());
    assert!(cases.len() > 2_000);
    assert_eq!(unnoticed, 0, "see the lines that begin with UNNOTICED");
    for category in Category::ALL {
        let (counts, question) = (tally.of(category), category.question());
        assert!(counts.agreed > 30, "{question}: hardly ever asked: {counts:?}");
        assert!(
            counts.noticed > 10,
            "{question}: hardly ever wrong on purpose: {counts:?}"
        );
        assert_eq!(
            counts.disagreed, 0,
            "{question}: see the lines that begin with DISAGREED"
        );
    }
}

/// A number from the environment.
pub(crate) fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {value}")),
    )
}

/// The statements written by hand, then the generated ones, definitions among the others.
fn cases(version: ServerVersion, seed: u64) -> Vec<Case> {
    let times = usize::try_from(setting("CQLENS_DIFFERENTIAL_TIMES").unwrap_or(1)).unwrap();
    let schema = Schema::from_cql(&schema_text(version)).unwrap();
    let mut cases = reference(REFERENCE);
    let mut generated = GENERATED.to_vec();
    if version >= ServerVersion::V6_0 {
        cases.extend(reference(REFERENCE_6));
        generated.extend(GENERATED_6);
    }
    let mut grammar = Grammar::new(seed, schema.keyspace(KEYSPACE).unwrap(), version);
    for (group, count) in &generated {
        cases.extend(grammar.cases(*group, times * count));
    }
    cases
}

fn schema_text(version: ServerVersion) -> String {
    match version >= ServerVersion::V6_0 {
        true => [SCHEMA, SCHEMA_6].concat(),
        false => SCHEMA.to_owned(),
    }
}

/// One statement a line; a line that begins with a space continues the one before.
fn reference(text: &str) -> Vec<Case> {
    let mut statements: Vec<String> = Vec::new();
    for line in text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        match statements.last_mut() {
            Some(last) if line.starts_with(' ') => last.extend(["\n", line]),
            _ => statements.push(line.to_owned()),
        }
    }
    let case = |text| Case {
        group: Group::Reference,
        text: Text::Statement(text),
    };
    statements.into_iter().map(case).collect()
}
