//! How well operations of several statements are found: in traffic of which it is known what belongs together, mixed
//! with what only looks like it, at several loads.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that prints its score"
)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "numbers of a simulation are small"
)]

mod forms;
mod look_alikes;
mod operations;
mod scoring;
mod simulation;
mod wire;

use cqlens_audit::audit::SourceLimit;
use cqlens_rules::Judgement;
use cqlens_testing::with_everything;
use operations::SCHEMA;
use scoring::{JOINS, Mix, Mixed, Score, TOO_MUCH, judge};
use simulation::{Application, MILLISECOND, Operation, Traffic};
use wire::Wire;

fn score(join: usize, load: usize, mix: Mix) -> Score {
    let mixed = Mixed::new(join, load, mix);
    let window = mixed.window();
    let coverage = &window.coverage;
    assert_eq!(
        (coverage.undecoded, coverage.auditor_failures),
        (0, 0),
        "{}",
        mixed.name
    );
    assert_eq!(coverage.not_related > 0, load == TOO_MUCH, "{}", mixed.name);
    assert!(load != TOO_MUCH || coverage.reads_not_followed > 0);
    let mut score = Score::default();
    score.add(&mixed, &judge(&window));
    score
}

/// Further from the truth than this part of it.
fn far_off(errors: &[(String, f64)], most: f64) -> Vec<&(String, f64)> {
    errors.iter().filter(|(_, error)| error.abs() > most).collect()
}

#[test]
fn what_belongs_together_is_found_and_nothing_else() {
    // Each join at all loads, or at one of them.
    let all = with_everything("joins at three of four loads");
    let of_load = |load: usize| -> Score {
        let joins = (0..JOINS.len()).filter(|join| all || (join + load).is_multiple_of(4));
        let mix = |join: usize| [Mix::Apart, Mix::Together][(join + load / 2) % 2];
        joins.map(|join| score(join, load, mix(join))).collect()
    };
    let all: Score = std::thread::scope(|threads| {
        let loads = (0..TOO_MUCH).map(|load| threads.spawn(move || of_load(load)));
        let loads: Vec<_> = loads.collect();
        loads.into_iter().map(|load| load.join().unwrap()).collect()
    });
    println!("precision {:.3}, recall {:.3}", all.precision(), all.recall());
    assert!(all.precision() >= 0.98, "{:#?}", all.wrong);
    assert!(all.recall() >= 0.95, "{:#?}", all.missed);
    assert!(all.sent_otherwise.is_empty(), "{:#?}", all.sent_otherwise);
    let (fan_outs, counts) = (far_off(&all.fan_outs, 0.1), far_off(&all.counts, 0.1));
    assert!(fan_outs.is_empty(), "{fan_outs:#?}");
    assert!(counts.is_empty(), "{counts:#?}");
}

#[test]
fn a_sample_has_what_all_requests_have() {
    let all = score(0, TOO_MUCH, Mix::Apart);
    assert!(all.wrong.is_empty(), "{:#?}", all.wrong);
    // Users of one application who walk over the days of one name at the same time are taken for one, and what one of them
    // reads again and again is not in a row among the reads of all.
    let is_of_one = |missed: &String| missed.starts_with("days") || missed.starts_with("settings");
    assert!(all.missed.iter().all(is_of_one), "{:#?}", all.missed);
    let (fan_outs, counts) = (far_off(&all.fan_outs, 0.1), far_off(&all.counts, 0.1));
    assert!(fan_outs.is_empty(), "{fan_outs:#?}");
    assert!(counts.is_empty(), "{counts:#?}");
}

/// What is found of applications that do one operation each, and do not say who they are.
fn of_unnamed(operations: &[Operation]) -> Judgement {
    let applications = operations.iter().map(|operation| Application {
        name: "",
        session: None,
        wire: Wire::Texts,
        users: 4,
        connections: 2,
        pause: 100 * MILLISECOND,
        operations: vec![*operation],
    });
    let applications: Vec<Application> = applications.collect();
    let traffic = Traffic::of(SCHEMA, &applications, 10_000 * MILLISECOND, 1);
    judge(&traffic.observe(SCHEMA, SourceLimit::default()))
}

#[test]
fn of_a_set_of_keys_no_copy_into_the_row_is_advised() {
    let found = of_unnamed(&[operations::join_of_a_set]);
    let join = found
        .findings
        .iter()
        .find(|finding| finding.rule == "client-join")
        .unwrap();
    assert!(
        join.title.starts_with("The client joins `s.teams`"),
        "{}",
        join.title
    );
    let advised = join.suggested_cql.join("\n");
    assert!(!advised.contains("ALTER TABLE s.teams"), "{advised}");
    let found = of_unnamed(&[operations::join_one_by_one]);
    let join = found
        .findings
        .iter()
        .find(|finding| finding.rule == "client-join")
        .unwrap();
    assert!(join.suggested_cql.join("\n").contains("ALTER TABLE s.groups ADD"));
}

/// 64 users of one session, over one connection.
#[test]
fn what_users_of_a_session_repeat_is_told_from_what_is_popular() {
    let of = |operation: Operation| {
        let application = Application {
            name: "shop",
            session: None,
            wire: Wire::Prepared,
            users: 64,
            connections: 1,
            pause: 600 * MILLISECOND,
            operations: vec![operation],
        };
        let traffic = Traffic::of(SCHEMA, &[application], 10_000 * MILLISECOND, 1);
        let found = judge(&traffic.observe(SCHEMA, SourceLimit::default())).findings;
        let repeated = found
            .into_iter()
            .filter(|finding| finding.rule == "redundant-reads");
        repeated.map(|finding| finding.title).collect::<Vec<_>>()
    };
    let settings = of(operations::settings);
    assert_eq!(settings.len(), 1, "{settings:?}");
    let times = settings[0].strip_prefix("The application repeats a read of `s.settings` ");
    let (times, _) = times.unwrap().split_once(' ').unwrap();
    let times: f64 = times.parse().unwrap();
    assert!((times - 8.0).abs() <= 0.8, "{settings:?}");
    assert_eq!(of(look_alikes::front_page), Vec::<String>::new());
    assert_eq!(of(look_alikes::queue), Vec::<String>::new());
}

/// Its users' requests go over connections from several addresses.
#[test]
fn a_session_is_one_by_what_startup_calls_it() {
    let of = |key| {
        let application = Application {
            name: "",
            session: Some((key, "5e55-1011")),
            wire: Wire::Prepared,
            users: 4,
            connections: 4,
            pause: 100 * MILLISECOND,
            operations: vec![operations::join_one_by_one],
        };
        let traffic = Traffic::of(SCHEMA, &[application], 10_000 * MILLISECOND, 1);
        let found = judge(&traffic.observe(SCHEMA, SourceLimit::default()));
        let joins = found.sequences.iter();
        let errors = joins.map(|join| join.fan_out.mean() / traffic.truth[0][0].fan_out() - 1.0);
        errors.collect::<Vec<f64>>()
    };
    for key in ["SESSION_ID", "CLIENT_ID"] {
        let errors = of(key);
        assert!(errors.len() == 1 && errors[0].abs() <= 0.1, "{key}: {errors:?}");
    }
    // Not an id: they are as many as there are addresses.
    let errors = of("DRIVER_NAME");
    assert!(errors.iter().all(|error| *error < -0.5), "{errors:?}");
}

/// They are one actor. What they do is found as if one of them did it, and what neither does by itself is not made up: values come
/// from the one to the other by chance only. Only how often the same is read within a second is that of both.
#[test]
fn two_unnamed_applications_behind_one_address_are_one() {
    let found = of_unnamed(&[operations::join_one_by_one, operations::lookup]);
    let kinds: Vec<_> = found.sequences.iter().map(|sequence| sequence.kind).collect();
    assert_eq!(
        kinds,
        ["client-join", "index-table-lookup"],
        "{:#?}",
        found.sequences
    );
    let found = of_unnamed(&[look_alikes::news, look_alikes::click]);
    assert_eq!(kinds_of(&found), Vec::<&str>::new());
}

fn kinds_of(found: &Judgement) -> Vec<&'static str> {
    found.sequences.iter().map(|sequence| sequence.kind).collect()
}
