//! What a second attempt, or a way past the proxy, changes about a verdict, and what it does not.

use std::time::Duration;

use crate::support::driver::Compression;

use super::mode::Mode;
use super::place::Place;
use super::programs::{Dialect, Leaves, Program};
use super::run::{Job, Line, Outcome, Seen};
use super::table::Table;

fn program() -> Program {
    Program {
        name: "one",
        title: "One",
        version: "1",
        command: Vec::new(),
        dialects: Vec::new(),
        leaves: Leaves::Never,
        knows_ports: true,
        translates: true,
        is_short_lived: false,
    }
}

fn job(program: &Program, mode: Mode) -> Job<'_> {
    Job {
        program,
        dialect: Dialect {
            version: Some(5),
            compression: Compression::None,
        },
        place: Place::Ring,
        mode,
    }
}

/// A run with one check, whose detail is `share`; it fails if there is none, as does whatever ends a program.
fn seen<'a>(job: Job<'a>, again: bool, share: Option<&str>) -> Seen<'a> {
    let line = |check: &str, outcome, detail: &str| Line {
        check: check.to_owned(),
        outcome,
        detail: detail.into(),
    };
    Seen {
        job,
        lines: match share {
            Some(share) => vec![line("share", Outcome::Passed, share)],
            None => vec![line("end", Outcome::Failed, "it ended")],
        },
        gone_around: Vec::new(),
        outage: false,
        again,
        log: "log".into(),
        took: Duration::ZERO,
    }
}

/// The number of complaints about what was seen without a proxy and in cluster mode, one value for each
/// attempt.
fn complaints(direct: &[Option<&str>], cluster: &[Option<&str>]) -> usize {
    let program = program();
    let mut table = Table::default();
    for (mode, attempts) in [(Mode::Direct, direct), (Mode::Cluster, cluster)] {
        let runs = attempts.iter().enumerate();
        table.add(runs.map(|(index, share)| seen(job(&program, mode), index > 0, *share)));
    }
    table.complaints().len()
}

#[test]
fn what_differs_in_all_attempts_is_a_regression() {
    let (all, fewer) = (Some("30 of 30"), Some("29 of 30"));
    assert_eq!(complaints(&[all], &[all]), 0);
    assert_eq!(complaints(&[all], &[fewer]), 1);
    assert_eq!(complaints(&[all], &[fewer, all]), 0);
    assert_eq!(complaints(&[all], &[fewer, fewer]), 1);
    // It was the baseline that was unlucky.
    assert_eq!(complaints(&[fewer, all], &[all, all]), 0);
    assert_eq!(complaints(&[all, all], &[fewer, fewer]), 1);
}

#[test]
fn a_program_that_ends_early_has_not_seen_the_rest() {
    let all = Some("30 of 30");
    // The check that is not reached, and the end.
    assert_eq!(complaints(&[all], &[None]), 2);
    assert_eq!(complaints(&[all], &[None, None]), 2);
    assert_eq!(complaints(&[all], &[None, all]), 0);
    assert_eq!(complaints(&[None, all], &[all]), 0);
    // Nothing is said of a proxy by a program that never runs.
    assert_eq!(complaints(&[None, None], &[None, None]), 1);
}

#[test]
fn what_differs_is_done_again_once_and_the_baseline_first() {
    let program = program();
    let (direct, cluster) = (job(&program, Mode::Direct), job(&program, Mode::Cluster));
    let mut table = Table::default();
    table.add([seen(cluster, false, Some("30 of 30")), seen(direct, false, None)]);
    assert!(table.doubtful().is_some_and(|job| job.is_same(&direct)));
    table.add([seen(direct, true, Some("30 of 30"))]);
    assert!(table.doubtful().is_none());
    assert!(!table.differs(&cluster));
    assert!(
        table
            .markdown()
            .contains("| direct | cluster |\n| --- | --- | --- | --- | --- |\n| three nodes | One 1 | v5 | 1 passed, again | 1 passed |")
    );

    let mut table = Table::default();
    table.add([seen(direct, false, Some("30 of 30")), seen(cluster, false, None)]);
    assert!(table.doubtful().is_some_and(|job| job.is_same(&cluster)));
    table.add([seen(cluster, true, None)]);
    assert!(table.differs(&cluster) && table.doubtful().is_none());
}

#[test]
fn a_driver_may_leave_a_proxy_that_changes_nothing_where_it_believes_the_node() {
    let may = |leaves, mode, outage| {
        let program = Program { leaves, ..program() };
        let place = Place::OneNode;
        let run = seen(
            Job {
                place,
                ..job(&program, mode)
            },
            false,
            None,
        );
        Seen { outage, ..run }.may_go_around()
    };
    for (leaves, in_session, in_outage) in [
        (Leaves::Never, false, false),
        (Leaves::AfterOutage, false, true),
        (Leaves::AtOnce, true, true),
    ] {
        assert_eq!(may(leaves, Mode::Passthrough, false), in_session, "{leaves:?}");
        assert_eq!(may(leaves, Mode::Passthrough, true), in_outage, "{leaves:?}");
        assert!(!may(leaves, Mode::Cluster, false) && !may(leaves, Mode::Cluster, true));
    }
}
