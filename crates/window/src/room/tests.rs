use std::collections::BTreeSet;

use jiff::Timestamp;
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{PatternHead, overflow};
use cqlens_cql::plan::StatementKind;

fn head(cql: &str) -> (PatternHead, BTreeSet<cqlens_cql::plan::Flag>) {
    let head = PatternHead {
        kind: StatementKind::Select,
        cql: cql.to_owned(),
        ..overflow()
    };
    (head, BTreeSet::new())
}

fn new(patterns: usize) -> Window {
    Window::new(Timestamp::UNIX_EPOCH, "test").with_limits(Limits {
        patterns,
        ..Limits::default()
    })
}

#[derive(Debug, Clone, Copy)]
struct Execution {
    id: u64,
    is_confirmed: bool,
    on_known_table: bool,
    latency_us: u64,
}

impl Execution {
    fn of(id: u64) -> Self {
        Self {
            id,
            is_confirmed: true,
            on_known_table: true,
            latency_us: 100,
        }
    }
}

fn execute(window: &mut Window, execution: Execution) {
    if window.is_full() {
        window.make_room();
    }
    let pattern = window.pattern_mut(PatternId(execution.id), "SELECT", || head("SELECT"));
    pattern.count += 1;
    pattern.unconfirmed += u64::from(!execution.is_confirmed);
    pattern.on_known_table |= execution.on_known_table;
    pattern.latency_us.record(execution.latency_us);
}

fn executions(window: &Window) -> u64 {
    window.patterns.values().map(|pattern| pattern.count).sum()
}

/// What came first filled the table, and everything else was counted together.
#[test]
fn a_steady_statement_outweighs_any_number_of_others_that_come_once() {
    for is_confirmed in [false, true] {
        let mut window = new(1_000);
        let junk = |id| Execution {
            is_confirmed,
            ..Execution::of(id)
        };
        (10..5_010).for_each(|id| execute(&mut window, junk(id)));
        for id in 10_000..40_000 {
            execute(&mut window, junk(id));
            if id % 100 == 0 {
                execute(&mut window, Execution::of(7));
            }
        }
        let steady = &window.patterns[&PatternId(7)];
        assert_eq!(steady.count + steady.missed.executions, 300);
        assert!(window.patterns.len() <= 1_001);
        assert_eq!(executions(&window), 35_300);
        let coverage = &window.coverage;
        assert_eq!(coverage.patterns_overflowed, window.patterns[&OVERFLOW].count);
        assert!(
            coverage.patterns_evicted >= 34_000,
            "{}",
            coverage.patterns_evicted
        );
    }
}

/// Between two of its executions everything is thrown out that weighs no more than it does by itself.
#[test]
fn a_pattern_that_goes_and_comes_again_regains_its_weight_and_says_what_it_lacks() {
    let mut window = new(100);
    let mut next = 1_000;
    for _ in 0..200 {
        execute(&mut window, Execution::of(7));
        // Each twice: more than the steady one has at that time.
        for _ in 0..150 {
            next += 1;
            (0..2).for_each(|_| execute(&mut window, Execution::of(next)));
        }
    }
    execute(&mut window, Execution::of(7));
    let steady = &window.patterns[&PatternId(7)];
    assert_eq!(steady.count + steady.missed.executions, 201);
    assert!(steady.missed.executions > 0 && steady.count > 100, "{steady:?}");
    assert_eq!(executions(&window), 201 + 200 * 300);
}

#[test]
fn what_the_server_ran_stands_before_what_it_refused_and_known_tables_before_others() {
    let mut window = new(64);
    for id in 100..130 {
        let known = Execution::of(id);
        execute(&mut window, known);
        let unknown = Execution {
            on_known_table: false,
            ..Execution::of(id + 1_000)
        };
        (0..2).for_each(|_| execute(&mut window, unknown));
    }
    let refused = |id| Execution {
        is_confirmed: false,
        ..Execution::of(id)
    };
    for id in 10_000..12_000 {
        (0..50).for_each(|_| execute(&mut window, refused(id)));
    }
    let kept = |ids: std::ops::Range<u64>| {
        ids.filter(|id| window.patterns.contains_key(&PatternId(*id)))
            .count()
    };
    assert_eq!(kept(100..130), 30);
    assert_eq!(kept(1_100..1_130), 18, "48 of 64 stay");
}

#[test]
fn what_takes_the_time_stays_as_well_as_what_comes_often() {
    let mut window = new(64);
    let slow = Execution {
        latency_us: 5_000_000,
        ..Execution::of(7)
    };
    execute(&mut window, slow);
    for id in 1_000..3_000 {
        (0..20).for_each(|_| execute(&mut window, Execution::of(id)));
    }
    assert!(window.patterns.contains_key(&PatternId(7)));
}

#[test]
fn bytes_are_bounded_however_much_each_pattern_holds() {
    let limits = Limits::of_bytes(Limits::LEAST_BYTES);
    let mut window = Window::new(Timestamp::UNIX_EPOCH, "test").with_limits(limits);
    let mut most = 0;
    for id in 10..2_000 {
        for exchange in 0..40_u64 {
            let execution = Execution {
                latency_us: 1 << exchange,
                ..Execution::of(id)
            };
            execute(&mut window, execution);
            let pattern = window.pattern_mut(PatternId(id), "SELECT", || head("SELECT"));
            pattern.rows.record(1 << exchange);
            pattern.response_bytes.record(1 << exchange);
        }
        most = most.max(window.measure());
    }
    // One pattern's sketches may grow before it is looked at again.
    assert!(most <= limits.bytes + (256 << 10), "{most} bytes");
    assert_eq!(executions(&window), 1_990 * 40);
}

#[test]
fn bytes_of_tables_are_bounded_and_the_busiest_ones_stay() {
    let limits = Limits::of_bytes(Limits::LEAST_BYTES);
    let mut all = Window::new(Timestamp::UNIX_EPOCH, "test").with_limits(limits);
    let name = |number: u64| TableName {
        keyspace: "s".to_owned(),
        table: format!("t{number}"),
    };
    let mut reads = 0;
    for round in 0..5 {
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "test").with_limits(limits);
        for number in (round * 300..round * 300 + 300).chain([9_999; 5]) {
            window.count_table(&name(number), |table| {
                table.reads += 1;
                (0..600).for_each(|key| table.top_partitions.read(key * 31 + round));
                (0..600).for_each(|key| table.distinct_partitions.insert(key * 31 + round));
                table.known = number == 9_999;
            });
            reads += 1;
        }
        all.merge(&window);
    }
    assert!(all.measure() <= limits.bytes, "{} bytes", all.measure());
    let busiest = &all.tables[&name(9_999)];
    assert_eq!(busiest.reads, 25);
    let kept: u64 = all.tables.values().map(|table| table.reads).sum();
    assert_eq!(kept + all.coverage.tables_overflowed, reads);
    assert!(all.coverage.tables_evicted > 0);
}

#[test]
fn tables_beyond_the_limit_are_those_that_are_used_least() {
    let mut window = Window::new(Timestamp::UNIX_EPOCH, "test");
    for number in 0..2 * MAX_TABLES {
        for table in [number, 0] {
            let name = TableName {
                keyspace: "s".to_owned(),
                table: table.to_string(),
            };
            window.count_table(&name, |table| table.reads += 1);
        }
    }
    assert!(window.tables.len() <= MAX_TABLES);
    let kept: u64 = window.tables.values().map(|table| table.reads).sum();
    assert_eq!(kept + window.coverage.tables_overflowed, 4 * MAX_TABLES as u64);
    assert_eq!(
        window.tables.values().map(|table| table.reads).max(),
        Some(2 * MAX_TABLES as u64 + 1)
    );
}

#[test]
fn up_to_the_limit_nothing_goes_and_merging_does_not_depend_on_the_order() {
    let of = |ids: std::ops::Range<u64>| {
        let mut window = new(200);
        ids.for_each(|id| execute(&mut window, Execution::of(id)));
        window
    };
    let (a, b) = (of(10..110), of(60..190));
    let (mut ab, mut ba) = (a.clone(), b.clone());
    ab.merge(&b);
    ba.merge(&a);
    assert_eq!(ab, ba);
    assert_eq!((ab.patterns.len(), ab.coverage.patterns_evicted), (180, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever goes, and in whatever order windows come.
    #[test]
    fn totals_never_change(windows in vec(vec((2u64..400, any::<bool>()), 0..300), 1..5), turn in 0usize..5) {
        let each: Vec<Window> = windows
            .iter()
            .map(|executions| {
                let mut window = new(64);
                for &(id, is_confirmed) in executions {
                    execute(&mut window, Execution { is_confirmed, ..Execution::of(id) });
                }
                window
            })
            .collect();
        let total: u64 = windows.iter().map(|executions| executions.len() as u64).sum();
        let mut order: Vec<_> = each.iter().collect();
        order.rotate_left(turn % each.len());
        let mut all = new(64);
        order.iter().for_each(|window| all.merge(window));
        prop_assert_eq!(executions(&all), total);
        let latencies: u64 = all.patterns.values().map(|pattern| pattern.latency_us.count()).sum();
        prop_assert_eq!(latencies, total);
        let others = all.patterns.get(&OVERFLOW).map_or(0, |others| others.count);
        prop_assert_eq!(all.coverage.patterns_overflowed, others);
        prop_assert!(all.patterns.len() <= 65);
    }

    /// With 64 places, of which 48 are kept.
    #[test]
    fn heavy_patterns_survive_any_stream_of_others(
        junk in vec(100u64..100_000, 0..3_000), every in 4usize..12, is_confirmed in any::<bool>(),
    ) {
        let mut window = new(64);
        let mut heavy = 0;
        for (at, &id) in junk.iter().enumerate() {
            execute(&mut window, Execution { is_confirmed, ..Execution::of(id) });
            if at % every == 0 {
                execute(&mut window, Execution::of(7));
                heavy += 1;
            }
        }
        if heavy > 0 {
            let pattern = &window.patterns[&PatternId(7)];
            prop_assert!(pattern.count + pattern.missed.executions <= heavy);
            prop_assert!(pattern.count + pattern.missed.executions >= heavy);
        }
    }
}
