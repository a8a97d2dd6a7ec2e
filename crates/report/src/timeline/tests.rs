#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]
use super::*;
use crate::{Report, testing};
use cqlens_cql::footprint::PartitionClass;
use cqlens_rules::testing::{read, with_partitions};
use cqlens_window::Pattern;
use jiff::SignedDuration;

const HOUR: i64 = 3_600;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn lookup(reads: u64, latency_us: u64) -> Pattern {
    let mut pattern = with_partitions(
        read(
            "SELECT * FROM shop.items WHERE id IN ?",
            &[],
            PartitionClass::Multi,
            reads,
        ),
        3,
    );
    pattern.latency_us = Default::default();
    pattern.latency_us.record_n(latency_us, reads);
    pattern
}

fn window(source: &str, start: i64, seconds: i64, pattern: Pattern) -> Window {
    let mut window = Window::new(at(start), source);
    window.close(at(start + seconds));
    window.patterns.insert(PatternId(1), pattern);
    window
}

fn hours(reads: &[(i64, u64)]) -> Vec<Window> {
    let hour = |&(hour, reads)| window("a", hour * HOUR, HOUR, lookup(reads, 100 * reads));
    reads.iter().map(hour).collect()
}

fn of(windows: &[Window]) -> Timeline {
    let mut timeline = Timeline::default();
    windows.iter().for_each(|window| timeline.add(window));
    timeline
}

/// The report of the windows, merged.
fn reported(windows: &[Window]) -> Report {
    let mut whole = windows.first().unwrap().clone();
    windows.iter().skip(1).for_each(|window| whole.merge(window));
    testing::report(&whole).over_time(&of(windows), &whole)
}

fn points(windows: &[Window]) -> Vec<TimelinePoint> {
    reported(windows).timeline.unwrap().points
}

#[test]
fn hourly_windows_are_hourly_points_and_a_gap_is_no_point() {
    let report = reported(&hours(&[(0, 7_200), (1, 3_600), (5, 1_800)]));
    let timeline = report.timeline.unwrap();
    assert_eq!(timeline.point_seconds, 3_600);
    let seen: Vec<_> = timeline
        .points
        .iter()
        .map(|point| {
            (
                point.start.as_second() / HOUR,
                point.reads,
                point.observed_seconds,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [(0, 7_200, 3_600.0), (1, 3_600, 3_600.0), (5, 1_800, 3_600.0)]
    );
    let first = timeline.points.first().unwrap();
    assert_eq!(first.highest_latency_p99_us, Some(720_000));
    assert_eq!(first.partitions_per_read, Some(3.0));
    assert_eq!(first.highest_tombstones_p99, None);
}

#[test]
fn time_that_was_watched_without_requests_is_zero() {
    let mut windows = hours(&[(0, 10), (1, 10), (2, 10)]);
    windows[1].patterns.clear();
    let reads: Vec<_> = points(&windows).iter().map(|point| point.reads).collect();
    assert_eq!(reads, [10, 0, 10]);
}

#[test]
fn two_points_show_no_change() {
    let windows = hours(&[(0, 10), (1, 10)]);
    assert_eq!(reported(&windows).timeline, None);
    assert!(reported(&hours(&[(0, 10), (1, 10), (2, 10)])).timeline.is_some());
}

#[test]
fn sources_add_up_and_watch_the_same_time_once() {
    let mut windows = hours(&[(0, 10), (1, 20), (2, 30)]);
    windows.push(window("b", HOUR, HOUR, lookup(5, 9_000)));
    let points = points(&windows);
    let second = points.get(1).unwrap();
    assert_eq!((second.reads, second.sources), (25, 2));
    assert_eq!(second.observed_seconds.to_bits(), 3_600f64.to_bits());
    assert_eq!(second.highest_latency_p99_us, Some(9_000));
    assert_eq!(points.first().unwrap().sources, 1);
}

#[test]
fn points_grow_longer_where_there_are_too_many() {
    let minutes = |count: i64| -> Vec<_> {
        (0..count)
            .map(|minute| window("a", minute * 60, 60, lookup(60, 1)))
            .collect()
    };
    for (windows, length) in [(168, 60), (169, 300), (168 * 5, 300), (168 * 5 + 1, 900)] {
        let timeline = of(&minutes(windows));
        assert_eq!(timeline.grid.point_seconds(), length, "{windows}");
        assert!(timeline.cluster.cells.len() <= 168);
        let reads: u64 = timeline.cluster.cells.values().map(|cell| cell.reads).sum();
        assert_eq!(reads, u64::try_from(windows).unwrap() * 60);
    }
}

#[test]
fn a_point_is_no_shorter_than_the_windows() {
    let nearly = window("a", 0, HOUR - 5, lookup(1, 1));
    assert_eq!(of(&[nearly]).grid.point_seconds(), HOUR);
    let mut mixed: Vec<_> = (0..10)
        .map(|minute| window("a", minute * 60, 60, lookup(1, 1)))
        .collect();
    assert_eq!(of(&mixed).grid.point_seconds(), 60);
    mixed.push(window("a", HOUR, HOUR, lookup(1, 1)));
    assert_eq!(of(&mixed).grid.point_seconds(), HOUR);
}

#[test]
fn a_window_between_two_points_is_in_both() {
    let late = window("a", 45, 60, lookup(100, 7));
    let timeline = of(&[late]);
    let reads: Vec<_> = timeline
        .cluster
        .cells
        .iter()
        .map(|(at, cell)| (*at, cell.reads))
        .collect();
    assert_eq!(reads, [(0, 25), (1, 75)]);
    let mean = |cell: &Cell| cell.partitions_per_read();
    assert!(
        timeline
            .cluster
            .cells
            .values()
            .all(|cell| mean(cell) == Some(3.0))
    );
}

#[test]
fn the_order_of_adding_and_merging_does_not_matter() {
    let mut windows: Vec<_> = (0..400)
        .map(|at: i64| window("a", at * 61 + 13, 60, lookup(at.unsigned_abs() % 7, 50)))
        .collect();
    windows.push(window("b", 3_000, 1_000, lookup(999, 3)));
    windows.push(window("b", 90_000, 60, lookup(1, 70)));
    let forwards = of(&windows);
    windows.reverse();
    assert!(of(&windows) == forwards);
    let (one, other) = windows.split_at(150);
    for (first, second) in [(one, other), (other, one)] {
        let mut merged = of(first);
        merged.merge(&of(second));
        assert!(merged == forwards);
    }
    let mut with_nothing = forwards.clone();
    with_nothing.merge(&Timeline::default());
    assert_eq!(with_nothing, forwards);
}

#[test]
fn what_takes_most_time_is_kept_of_too_many_patterns() {
    let mut crowd = window("a", 0, 60, lookup(1, 1));
    for id in 0..1_000 {
        crowd.patterns.insert(PatternId(id + 2), lookup(1, id));
    }
    let mut timeline = of(&[crowd]);
    assert_eq!(timeline.patterns.len(), MOST_PATTERNS * 2);
    assert!(timeline.patterns.get(&PatternId(1_001)).is_some());
    assert!(timeline.patterns.get(&PatternId(1)).is_none());
    assert!(timeline.bytes() < 100_000, "{}", timeline.bytes());
    timeline.keep_within(10_000);
    assert!(timeline.bytes() <= 10_000, "{}", timeline.bytes());
    assert!(timeline.patterns.get(&PatternId(1_001)).is_some());
    timeline.keep_within(0);
    assert_eq!((timeline.patterns.len(), timeline.cluster.cells.len()), (0, 1));
}

#[test]
fn a_pattern_that_was_left_out_for_a_time_has_no_timeline() {
    let mut windows = hours(&[(0, 100), (1, 100), (2, 100)]);
    let by_table = |id, patterns: &mut BTreeMap<_, _>| {
        let mut heavy = lookup(100, 10_000 + id);
        heavy.partitions = Default::default();
        heavy.partitions.record_n(60, 100);
        heavy.flags.insert(cqlens_cql::plan::Flag::InPartitionKey);
        patterns.insert(PatternId(id), heavy);
    };
    for id in 2..300 {
        by_table(id, &mut windows[0].patterns);
    }
    by_table(1, &mut windows[1].patterns);
    by_table(299, &mut windows[1].patterns);
    let has = |windows: &[Window], id| {
        let patterns = reported(windows).timeline.unwrap().patterns;
        patterns.iter().any(|one| one.pattern == PatternId(id))
    };
    assert!(has(&windows, 299));
    assert!(!has(&windows, 1));
    let new = windows[1].patterns.get_mut(&PatternId(1)).unwrap();
    new.latency_us.record(1_000_000);
    new.see(at(HOUR));
    windows[0].patterns.remove(&PatternId(1));
    windows[2].patterns.clear();
    assert!(has(&windows, 1), "it was seen first when there was room");
}

#[test]
fn a_version_is_new_where_it_was_not_there_from_the_beginning() {
    let mut windows = hours(&[(0, 10), (1, 20), (2, 30), (3, 30)]);
    let old = "lab-portal 4.1 (Java driver 4.19) 10.0.0.7";
    let new = "lab-portal 4.2 (Java driver 4.19) 10.0.0.7";
    for (window, client) in windows.iter_mut().zip([old, old, new, new]) {
        window.count_client(client, 10);
        window.count_client("cqlsh", 1);
    }
    let mut second = lookup(3, 3);
    second.head.cql = "SELECT name FROM shop.items WHERE id = ?".to_owned();
    second.count_client(new, 3);
    second.see(at(2 * HOUR + 60));
    windows[2].patterns.insert(PatternId(2), second);
    windows[0].patterns.get_mut(&PatternId(1)).unwrap().see(at(1));
    let versions = reported(&windows).timeline.unwrap().new_versions;
    assert_eq!(
        versions,
        [VersionSeen {
            application: "lab-portal".to_owned(),
            version: "4.2".to_owned(),
            first_seen: at(2 * HOUR),
            new_patterns: vec![PatternId(2)],
        }]
    );
}

/// Hours of three nights in which clients were there.
fn nights(clients: &[(i64, &str)]) -> Vec<VersionSeen> {
    let mut windows = hours(&(0..72).map(|hour| (hour, 10)).collect::<Vec<_>>());
    for &(hour, client) in clients {
        windows[usize::try_from(hour).unwrap()].count_client(client, 10);
    }
    reported(&windows).timeline.unwrap().new_versions
}

#[test]
fn a_job_that_comes_each_night_is_no_deployment() {
    let portal = "lab-portal 4.1 (Java driver 4.19) 10.0.0.7";
    let job = "nightly-export 2.0 (Java driver 4.19) 10.0.0.8";
    let next = "nightly-export 2.1 (Java driver 4.19) 10.0.0.8";
    let mut clients: Vec<_> = (0..72).map(|hour| (hour, portal)).collect();
    clients.extend([(2, job), (26, job), (50, job)]);
    assert_eq!(nights(&clients), []);
    clients.pop();
    clients.push((50, next));
    let versions = nights(&clients);
    let seen: Vec<_> = versions
        .iter()
        .map(|one| (&*one.application, &*one.version, one.first_seen))
        .collect();
    assert_eq!(seen, [("nightly-export", "2.1", at(50 * HOUR))]);
}

#[test]
fn a_version_that_was_there_before_is_no_deployment_when_it_comes_again() {
    let old = "lab-portal 4.1 (Java driver 4.19) 10.0.0.7";
    let new = "lab-portal 4.2 (Java driver 4.19) 10.0.0.8";
    let beside: Vec<_> = (0..72).flat_map(|hour| [(hour, old), (hour, new)]).collect();
    assert_eq!(nights(&beside), [], "both are there from the beginning");
    let mut back: Vec<_> = (0..20).map(|hour| (hour, old)).collect();
    back.extend((20..40).map(|hour| (hour, new)));
    back.extend((40..72).map(|hour| (hour, old)));
    let versions = nights(&back);
    let [version] = &versions[..] else {
        panic!("{versions:?}");
    };
    assert_eq!((&*version.version, version.first_seen), ("4.2", at(20 * HOUR)));
}

#[test]
fn clocks_from_other_ages_and_windows_without_time_do_no_harm() {
    let mut windows = vec![window("a", 1, 0, lookup(1, 1)), window("a", 60, 60, lookup(1, 1))];
    for (source, start) in [("b", Timestamp::MIN), ("c", Timestamp::MAX)] {
        let mut odd = Window::new(start, source);
        odd.patterns.insert(PatternId(1), lookup(u64::MAX / 8, 1));
        odd.observe(SignedDuration::from_secs(60));
        windows.push(odd);
    }
    let timeline = of(&windows);
    assert!(timeline.cluster.cells.len() <= 168);
    let whole = windows.remove(1);
    let _ = testing::report(&whole).over_time(&timeline, &whole);
}

#[test]
fn tables_and_patterns_with_findings_have_points_where_they_are_busy() {
    let mut windows = hours(&[(0, 100), (1, 100), (2, 100), (3, 100)]);
    let name = TableName {
        keyspace: "shop".to_owned(),
        table: "items".to_owned(),
    };
    for (window, reads) in windows.iter_mut().zip([5, 0, 7, 9]) {
        window.count_table(&name, |table| {
            table.reads = reads;
            table.partitions_per_read.record_n(3, reads);
        });
        let pattern = window.patterns.get_mut(&PatternId(1)).unwrap();
        pattern.partitions = Default::default();
        pattern.partitions.record_n(60, 100);
        pattern.flags.insert(cqlens_cql::plan::Flag::InPartitionKey);
    }
    let timeline = reported(&windows).timeline.unwrap();
    let [table] = &timeline.tables[..] else {
        panic!("{:?}", timeline.tables);
    };
    let reads: Vec<_> = table
        .points
        .iter()
        .map(|point| (point.start.as_second() / HOUR, point.reads))
        .collect();
    assert_eq!(reads, [(0, 5), (2, 7), (3, 9)]);
    let [pattern] = &timeline.patterns[..] else {
        panic!("{:?}", timeline.patterns);
    };
    assert_eq!((pattern.pattern, pattern.points.len()), (PatternId(1), 4));
}
