//! Both sides of every threshold of severities.

use super::*;
use crate::{
    Settings,
    testing::{pattern, window},
};
use cqlens_cql::{plan::StatementKind, schema::Schema};
use cqlens_window::{Cluster, Distribution, Window};

/// A second of latency and ten thousand partitions, each second: no idle cluster.
const BUSY: Cost = Cost {
    time_us: 3_600_000_000,
    work: 36_000_000,
};

/// One pattern with this cost and so many executions.
fn costing(cost: Cost, times: u64) -> Pattern {
    let mut costing = pattern("SELECT * FROM shop.t WHERE k = ?", StatementKind::Select, times);
    costing.latency_us = Distribution::default();
    costing.latency_us.record(cost.time_us);
    costing.partitions.record(cost.work);
    costing
}

/// An hour in which a pattern takes `mine` and others the rest of `all`, and the severity of the pattern.
fn of_hour(mine: Cost, all: Cost, impact: impl FnOnce(&Pattern) -> Impact<'_>) -> Severity {
    let others = Cost {
        time_us: all.time_us - mine.time_us,
        work: all.work - mine.work,
    };
    let window = window([costing(mine, 1), costing(others, 1)]);
    in_window(&window, &Cluster::default(), impact)
}

fn in_window(window: &Window, cluster: &Cluster, impact: impl FnOnce(&Pattern) -> Impact<'_>) -> Severity {
    let (settings, schema) = (Settings::default(), Schema::default());
    let context = Context::new(window, &schema, cluster);
    let first = window.patterns.values().next().expect("a pattern");
    context.severity(&Findings::new(&settings), &impact(first))
}

fn medium(pattern: &Pattern) -> Impact<'_> {
    Impact::each(Severity::Medium).of(pattern)
}

/// The severity of what takes so many of ten thousand parts of the time, and nothing of the work.
fn of_time(parts: u64) -> Severity {
    let time_us = BUSY.time_us / 10_000 * parts;
    of_hour(Cost { time_us, work: 0 }, BUSY, medium)
}

/// The same of the work, and nothing of the time.
fn of_work(parts: u64) -> Severity {
    let work = BUSY.work / 10_000 * parts;
    of_hour(Cost { time_us: 0, work }, BUSY, medium)
}

#[test]
fn a_large_share_raises_and_small_ones_lower_whether_of_the_time_or_of_the_work() {
    for of in [of_time, of_work] {
        assert_eq!(of(2_001), Severity::High, "more than a fifth");
        assert_eq!(of(2_000), Severity::Medium, "a fifth");
        assert_eq!(of(100), Severity::Medium, "a hundredth");
        assert_eq!(of(99), Severity::Low, "less than a hundredth");
        // Which is just at the floors.
        assert_eq!(of(10), Severity::Low, "a thousandth");
        assert_eq!(of(9), Severity::Info, "less than a thousandth");
    }
}

#[test]
fn below_the_floors_of_both_time_and_work_a_cluster_idles() {
    let all_of = |time_us, work| {
        let cost = Cost { time_us, work };
        of_hour(cost, cost, medium)
    };
    // A millisecond or ten partitions a second, for an hour.
    assert_eq!(all_of(3_600_000, 0), Severity::High);
    assert_eq!(all_of(3_599_999, 0), Severity::Info);
    assert_eq!(all_of(1, 36_000), Severity::High);
    assert_eq!(all_of(1, 35_999), Severity::Info);
}

#[test]
fn a_moment_of_load_is_spread_over_a_minute_before_it_is_called_busy() {
    let moment = |time_us, seconds| {
        let mut window = window([costing(Cost { time_us, work: 0 }, 1)]);
        window.observed_seconds = seconds;
        in_window(&window, &Cluster::default(), medium)
    };
    assert_eq!(moment(60_000, 1.0), Severity::High);
    assert_eq!(moment(59_999, 1.0), Severity::Info);
    assert_eq!(moment(60_000, 61.0), Severity::Info);
}

#[test]
fn where_latencies_mean_nothing_only_work_raises_and_nothing_lowers() {
    let stand_in = Cluster {
        is_embedded: true,
        ..Cluster::default()
    };
    let of = |parts: u64| {
        let mine = Cost {
            time_us: 1,
            work: parts,
        };
        let window = window([
            costing(mine, 1),
            costing(
                Cost {
                    time_us: 1,
                    work: 10_000 - parts,
                },
                1,
            ),
        ]);
        in_window(&window, &stand_in, medium)
    };
    assert_eq!(of(2_001), Severity::High);
    assert_eq!(of(2_000), Severity::Medium);
    assert_eq!(of(1), Severity::Medium);
}

#[test]
fn a_statement_that_was_only_read_is_as_bad_as_each_execution() {
    let mut read_once = window([costing(Cost::default(), 0)]);
    read_once.observed_seconds = 0.0;
    assert_eq!(
        in_window(&read_once, &Cluster::default(), medium),
        Severity::Medium
    );
}

/// The severity of what is no more than info by its load, comes so often an hour and takes so long at p99.
fn of_growth(times: u64, p99_us: u64, grows: bool) -> Severity {
    let mut mine = costing(Cost::default(), times);
    mine.latency_us = Distribution::default();
    mine.latency_us.record_n(p99_us, times);
    let window = window([mine, costing(BUSY, 1)]);
    in_window(&window, &Cluster::default(), |pattern| {
        Impact::each(Severity::Info).of(pattern).grows(grows)
    })
}

#[test]
fn what_grows_is_at_least_medium_where_it_comes_steadily() {
    assert_eq!(of_growth(60, 1, true), Severity::Medium);
    assert_eq!(of_growth(59, 1, true), Severity::Info);
    assert_eq!(of_growth(60, 1, false), Severity::Info);
}

#[test]
fn what_is_slow_is_at_least_medium_where_it_comes_steadily() {
    // Quantiles are exact to about a percent.
    assert_eq!(of_growth(60, 510_000, false), Severity::Medium);
    assert_eq!(of_growth(59, 510_000, false), Severity::Info);
    assert_eq!(of_growth(60, 490_000, false), Severity::Info);
}

#[test]
fn a_rule_says_how_much_its_cost_can_matter_at_most() {
    let all = of_hour(BUSY, BUSY, |pattern| medium(pattern).at_most(Severity::Low));
    assert_eq!(all, Severity::Low);
    let failing = of_hour(BUSY, BUSY, |pattern| {
        medium(pattern).at_most(Severity::Low).failed(100, 1_000)
    });
    assert_eq!(failing, Severity::High, "but failures fail");
}

#[test]
fn a_part_of_the_executions_costs_its_part() {
    let half = |times| {
        let cost = Cost {
            time_us: BUSY.time_us * 3 / 10,
            work: 0,
        };
        let window = window([costing(cost, 1_000), costing(BUSY, 1)]);
        in_window(&window, &Cluster::default(), |pattern| {
            medium(pattern).times(times)
        })
    };
    assert_eq!(half(1_000), Severity::High, "3 of 13 parts");
    assert_eq!(half(500), Severity::Medium);
}

#[test]
fn what_no_cost_shows_is_as_bad_whatever_the_load_unless_it_is_an_event() {
    let of = |cost, times| of_hour(cost, BUSY, |_| Impact::beside_cost(Severity::Medium, times));
    assert_eq!(of(Cost::default(), 10), Severity::Medium);
    assert_eq!(of(BUSY, 10), Severity::Medium);
    assert_eq!(of(BUSY, 9), Severity::Low);
}

/// The severity of so many failures among so many executions that cost nothing.
fn of_failures(all: &[(u64, u64)]) -> Severity {
    of_hour(Cost::default(), BUSY, |_| {
        let impact = Impact::each(Severity::Info);
        all.iter().fold(impact, |impact, &(failures, executions)| {
            impact.failed(failures, executions)
        })
    })
}

#[test]
fn failures_count_by_their_share() {
    assert_eq!(of_failures(&[(10, 1_000)]), Severity::High, "one in a hundred");
    assert_eq!(of_failures(&[(10, 1_001)]), Severity::Medium);
    assert_eq!(
        of_failures(&[(10, 10_000)]),
        Severity::Medium,
        "one in a thousand"
    );
    assert_eq!(of_failures(&[(10, 10_001)]), Severity::Low);
    assert_eq!(of_failures(&[(0, 1_000)]), Severity::Info);
}

#[test]
fn a_few_failures_are_an_event_and_one_step_less() {
    assert_eq!(of_failures(&[(9, 900)]), Severity::Medium);
    assert_eq!(of_failures(&[(9, 9_000)]), Severity::Low);
    assert_eq!(of_failures(&[(9, 90_000)]), Severity::Info);
    // Of several statements the worst decides, and their failures are counted together.
    assert_eq!(of_failures(&[(9, 900), (1, 1_000_000)]), Severity::High);
}
