//! How applications take rows from one table to the next, each with what only looks like it.

use cqlens_audit::audit::SourceLimit;
use cqlens_rules::{Judgement, Sent, Sequence};

use crate::{
    operations::{list, number, text},
    simulation::{
        Application, Cell, MILLISECOND, Operation, Random, Stage, Statement, Time, Traffic, read, stage,
    },
    wire::Wire,
};

const SCHEMA: &str = "
    CREATE KEYSPACE s WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': 3};
    CREATE TABLE s.by_tag (tag text, at bigint, trace text, PRIMARY KEY (tag, at, trace));
    CREATE TABLE s.by_service (service text, at bigint, trace text, PRIMARY KEY (service, at, trace));
    CREATE TABLE s.traces (trace text, span bigint, body text, PRIMARY KEY (trace, span));
    CREATE TABLE s.by_time (metric text, at timestamp, PRIMARY KEY (metric, at));
    CREATE TABLE s.series (metric text, at timestamp, tags text, PRIMARY KEY ((metric, at), tags));
    CREATE TABLE s.jobs (queue text, job timeuuid, PRIMARY KEY (queue, job));
    CREATE TABLE s.job (job timeuuid PRIMARY KEY, state text);
    CREATE TABLE s.orders (id bigint PRIMARY KEY, state text);
    CREATE TABLE s.states (state text, place text, PRIMARY KEY (state, place));";

/// The sequences of an application of so many users, who do each of these.
fn found(users: u64, operations: &[Operation]) -> Judgement {
    let application = Application {
        name: "forms",
        session: None,
        wire: Wire::Prepared,
        users,
        connections: 4,
        pause: 200 * MILLISECOND,
        operations: operations.to_vec(),
    };
    let traffic = Traffic::of(SCHEMA, &[application], 40_000 * MILLISECOND, 7);
    let window = traffic.observe(SCHEMA, SourceLimit::default());
    crate::scoring::judge_with(SCHEMA, &window)
}

/// The only one.
fn only(users: u64, operation: Operation) -> Sequence {
    let found = found(users, &[operation]);
    assert_eq!(found.sequences.len(), 1, "{:#?}", found.sequences);
    found.sequences.into_iter().next().unwrap()
}

fn assert_silent(users: u64, operations: &[Operation]) {
    let found = found(users, operations);
    assert!(found.sequences.is_empty(), "{:#?}", found.sequences);
}

/// A trace as sixteen hex digits; of a place there are thirty, of 100 places.
fn trace(place: u64, at: u64) -> Cell {
    text(format!("{:016x}", Random(place * 1_000 + at).next()))
}

fn by_tag(place: u64) -> Statement {
    let rows = (0..30).map(|at| vec![number(at), trace(place, at / 2)]);
    read(
        "SELECT at, trace FROM s.by_tag WHERE tag = ?",
        vec![text(format!("tag-{place}"))],
        rows.collect(),
    )
}

fn by_service(place: u64) -> Statement {
    let rows = (0..30).map(|at| vec![number(at), trace(place, at)]);
    read(
        "SELECT at, trace FROM s.by_service WHERE service = ?",
        vec![text(format!("service-{place}"))],
        rows.collect(),
    )
}

fn traces(traces: &[Cell]) -> Statement {
    let rows = traces.iter().map(|_| vec![number(1), text("body")]);
    read(
        "SELECT span, body FROM s.traces WHERE trace IN ?",
        vec![list(traces.iter().cloned())],
        rows.collect(),
    )
}

fn one_trace(trace: Cell) -> Statement {
    read(
        "SELECT span, body FROM s.traces WHERE trace = ?",
        vec![trace],
        vec![vec![number(1), text("body")]],
    )
}

/// The ten newest traces of thirty rows, of which each trace has two.
fn ten_newest(place: u64) -> Vec<Cell> {
    (0..10).map(|at| trace(place, at)).collect()
}

fn after(after: Time, requests: Vec<Statement>) -> Stage {
    Stage { after, requests }
}

/// An index, and then a part of what it has with one `IN`.
fn a_part_by_in(random: &mut Random) -> Vec<Stage> {
    let place = random.popular(100);
    vec![
        stage(vec![by_tag(place)]),
        stage(vec![traces(&ten_newest(place))]),
    ]
}

/// An index alone; and traces by their ids, which are links in mails.
fn an_index_alone(random: &mut Random) -> Vec<Stage> {
    let place = random.popular(100);
    match random.below(2) {
        0 => vec![stage(vec![by_tag(place)])],
        _ => {
            let some = (0..10).map(|_| trace(random.popular(100), random.below(15)));
            vec![stage(vec![traces(&some.collect::<Vec<_>>())])]
        }
    }
}

/// A part of an index, one by one in the order of a hash map.
fn a_part_in_no_order(random: &mut Random) -> Vec<Stage> {
    let place = random.popular(100);
    let mut part = ten_newest(place);
    random.shuffle(&mut part);
    let part = part.into_iter().map(|trace| stage(vec![one_trace(trace)]));
    [stage(vec![by_tag(place)])].into_iter().chain(part).collect()
}

/// Two indices, and what both have one by one.
fn an_intersection(random: &mut Random) -> Vec<Stage> {
    let place = random.popular(100);
    let both = (0..15).map(|at| stage(vec![one_trace(trace(place, at))]));
    let indices = [stage(vec![by_service(place)]), stage(vec![by_tag(place)])];
    indices.into_iter().chain(both).collect()
}

/// The same with one `IN`, where what one index has alone is read as well.
fn a_union(random: &mut Random) -> Vec<Stage> {
    let place = random.popular(100);
    let all: Vec<Cell> = (0..20).map(|at| trace(place, at)).collect();
    vec![
        stage(vec![by_service(place), by_tag(place)]),
        stage(vec![traces(&all)]),
    ]
}

/// A part by `IN`, up to five seconds later, as threads do that take work from a queue.
fn a_part_later(random: &mut Random) -> Vec<Stage> {
    let place = random.popular(100);
    let waits = random.below(1_500) as Time * MILLISECOND;
    vec![
        stage(vec![by_tag(place)]),
        after(waits, vec![traces(&ten_newest(place))]),
    ]
}

/// The same one by one.
fn one_by_one_later(random: &mut Random) -> Vec<Stage> {
    let place = random.popular(100);
    let waits = random.below(1_500) as Time * MILLISECOND;
    let mut stages: Vec<Stage> = ten_newest(place)
        .into_iter()
        .map(|trace| stage(vec![one_trace(trace)]))
        .collect();
    stages[0].after = waits;
    stages.insert(0, stage(vec![by_tag(place)]));
    stages
}

/// A user clicks on one of them, some seconds later.
fn a_click_later(random: &mut Random) -> Vec<Stage> {
    let place = random.popular(100);
    let clicked = trace(place, random.below(15));
    vec![
        stage(vec![by_tag(place)]),
        after(2_000 * MILLISECOND, vec![one_trace(clicked)]),
    ]
}

/// Twenty traces, each read six times.
fn each_several_times(random: &mut Random) -> Vec<Stage> {
    let place = random.popular(100);
    let reads = (0..6).flat_map(|_| (0..15).map(|at| stage(vec![one_trace(trace(place, at))])));
    let reads: Vec<Stage> = reads.collect();
    [stage(vec![by_tag(place)])].into_iter().chain(reads).collect()
}

fn day(metric: u64) -> Cell {
    number(1_760_000_000_000 + (metric % 2) * 1_814_400_000)
}

/// The points in time of a metric, of which there are two, and then its series of that time.
fn series_by_time(random: &mut Random) -> Vec<Stage> {
    let metric = random.below(6);
    let name = text(format!("metric-{metric}"));
    vec![
        stage(vec![read(
            "SELECT at FROM s.by_time WHERE metric = ?",
            vec![name.clone()],
            vec![vec![day(metric)]],
        )]),
        stage(vec![read(
            "SELECT tags FROM s.series WHERE metric = ? AND at = ?",
            vec![name, day(metric)],
            vec![vec![text("a")], vec![text("b")]],
        )]),
    ]
}

/// Eight jobs, always the same.
fn jobs(random: &mut Random) -> Vec<Stage> {
    let id = |job: u64| {
        let mut id = [0_u8; 16];
        id[..8].copy_from_slice(&Random(job).next().to_be_bytes());
        id[6] = 0x10 | (id[6] & 0x0f);
        id[8] = 0x80;
        id.to_vec()
    };
    random.next();
    let rows = (0..8).map(|job| vec![id(job)]);
    let all = read(
        "SELECT job FROM s.jobs WHERE queue = ?",
        vec![text("mail")],
        rows.collect(),
    );
    let each = (0..8).map(|job| {
        let cql = "SELECT state FROM s.job WHERE job = ?";
        stage(vec![read(cql, vec![id(job)], vec![vec![text("done")]])])
    });
    [stage(vec![all])].into_iter().chain(each).collect()
}

/// A look-alike: one user reads the state of an order, another one the places of a state.
fn states(random: &mut Random) -> Vec<Stage> {
    let state = |random: &mut Random| text(["open", "paid", "sent", "done"][random.below(4) as usize]);
    let request = match random.below(2) {
        0 => read(
            "SELECT state FROM s.orders WHERE id = ?",
            vec![number(random.below(100_000))],
            vec![vec![state(random)]],
        ),
        _ => read(
            "SELECT place FROM s.states WHERE state = ?",
            vec![state(random)],
            vec![vec![text("berlin")]],
        ),
    };
    vec![stage(vec![request])]
}

fn is_near(sequence: &Sequence, fan_out: f64) -> bool {
    (sequence.fan_out.mean() / fan_out - 1.0).abs() <= 0.1
}

#[test]
fn a_part_of_the_rows_is_a_join_by_one_list_and_one_by_one() {
    for users in [2, 32] {
        let by_in = only(users, a_part_by_in);
        assert_eq!((by_in.kind, by_in.sent), ("client-join", Sent::InOneRequest));
        assert!(is_near(&by_in, 10.0), "{:?}", by_in.fan_out);
        let one_by_one = only(users, a_part_in_no_order);
        assert_eq!(
            (one_by_one.kind, one_by_one.sent),
            ("client-join", Sent::OneAfterTheOther)
        );
        assert!(is_near(&one_by_one, 10.0), "{:?}", one_by_one.fan_out);
        assert_silent(users, &[an_index_alone]);
    }
}

#[test]
fn rows_of_several_indices_are_joined_together() {
    for users in [2, 32] {
        for (operation, fan_out) in [(an_intersection as Operation, 15.0), (a_union, 17.5)] {
            let sequences = found(users, &[operation]).sequences;
            // Each index, of which the one has all twenty, and the other one has fifteen.
            assert_eq!(sequences.len(), 2, "{sequences:#?}");
            for join in &sequences {
                assert_eq!(join.kind, "client-join");
                let error = join.fan_out.mean() / fan_out - 1.0;
                assert!(error.abs() <= 0.2, "{}", join.path);
            }
        }
    }
}

#[test]
fn a_join_may_begin_some_seconds_later_and_a_click_is_none() {
    for operation in [a_part_later as Operation, one_by_one_later] {
        let late = only(4, operation);
        assert_eq!(late.kind, "client-join");
        assert!(is_near(&late, 10.0), "{:?}", late.fan_out);
    }
    assert_silent(4, &[a_click_later]);
}

#[test]
fn keys_that_are_read_again_count_once() {
    let found = found(1, &[each_several_times]);
    let join = found
        .findings
        .iter()
        .find(|finding| finding.rule == "client-join");
    let title = &join.unwrap().title;
    let expected = "15 partitions of `traces` in 90 reads, one after the other";
    assert!(title.contains(expected), "{title}");
}

#[test]
fn few_values_are_enough_where_they_cannot_be_equal_by_chance() {
    assert_eq!(only(2, series_by_time).kind, "index-table-lookup");
    let jobs = only(2, jobs);
    assert_eq!(jobs.kind, "client-join");
    assert!(is_near(&jobs, 8.0), "{:?}", jobs.fan_out);
    for users in [2, 32] {
        assert_silent(users, &[states]);
    }
}
