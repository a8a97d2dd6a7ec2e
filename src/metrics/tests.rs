#![allow(clippy::unwrap_used)]
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use cqlens_admin::{AuditStatus, ControlConnection, ReadyState, Status, ThreadStatus};
use cqlens_capture::{Forwarded, memory::Memory};
use cqlens_cql::plan::StatementKind;
use cqlens_rules::Severity;
use cqlens_window::{Limits, PatternHead, PatternId, Window};
use jiff::Timestamp;

use super::*;

fn process() -> Process {
    Process {
        status: Status {
            state: ReadyState::Accepting,
            since: Timestamp::UNIX_EPOCH,
            listen: String::new(),
            upstream: String::new(),
            listeners: Vec::new(),
            problems: Vec::new(),
            bypass: None,
            connections: 3,
            control_connection: ControlConnection::Trying,
            control_connection_error: None,
            schema_known: true,
            log_lines_dropped: 0,
            audit: AuditStatus::default(),
            threads: vec![ThreadStatus {
                thread: "audit".to_owned(),
                silent_seconds: 12,
                stuck: true,
            }],
            memory: Memory::default().status(),
        },
        max_connections: 1_000,
        requests: Forwarded {
            bytes: 1 << 20,
            times: [0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            total: Duration::from_secs(2),
        },
        responses: Forwarded::default(),
        recording_left_out: Some(vec![("queue full", 5), ("not written", 0)]),
        nodes_down: 1,
        certificates: vec![Certificate {
            presented_to: "clients",
            file: "/etc/\"cqlens\"\n.pem".to_owned(),
            expires: 1_800_000_000,
        }],
        exports: None,
        usage: Usage {
            cpu_seconds: Some(1.5),
            ..Usage::default()
        },
    }
}

fn exposed(traffic: &Traffic, exposition: Exposition) -> String {
    let metrics = Metrics {
        traffic: Arc::new(traffic.clone()),
        process: process(),
    };
    metrics.expose(exposition)
}

/// Every sample by its name and labels.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples: Vec<_> = lines
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        })
        .collect();
    let by_name: BTreeMap<_, _> = samples.iter().cloned().collect();
    assert_eq!(by_name.len(), samples.len(), "each series once: {text}");
    by_name
}

/// A window with so many executions of a read of each of these tables, 3 ms each.
fn window(tables: impl IntoIterator<Item = (String, u64)>) -> Window {
    let mut window = Window::new(Timestamp::UNIX_EPOCH, "proxy-a");
    for (number, (table, count)) in tables.into_iter().enumerate() {
        let cql = format!("SELECT * FROM shop.{table} WHERE id = ?");
        let head = || {
            let head = PatternHead {
                kind: StatementKind::Select,
                keyspace: Some("shop".to_owned()),
                table: Some(table.clone()),
                cql: cql.clone(),
                system: false,
            };
            (head, BTreeSet::new())
        };
        let pattern = window.pattern_mut(PatternId(number as u64 + 1), &cql, head);
        pattern.count = count;
        pattern.errors = 1;
        pattern.latency_us.record_n(3_000, count);
        pattern.partitions.record_n(2, count);
        pattern.rows.record_n(5, count);
        window.coverage.requests += count;
    }
    window.count_client("checkout 1.2 (Java driver 4.17) 10.0.0.1", 7);
    window
        .connections_mut("checkout 1.3 (Java driver 4.17) 10.0.0.2")
        .open(4, true);
    window.close(Timestamp::from_second(60).unwrap());
    window
}

fn of(pairs: &[(&str, u64)]) -> Window {
    window(pairs.iter().map(|(table, count)| ((*table).to_owned(), *count)))
}

#[test]
fn a_window_is_counted_by_keyspace_table_and_application() {
    let mut traffic = Traffic::new(SeriesLimits::default());
    traffic.add(&of(&[("orders", 10), ("users", 4)]));
    traffic.find([("full-scan", Severity::High), ("full-scan", Severity::High)]);
    let found = samples(&exposed(&traffic, Exposition::Prometheus));
    for (series, value) in [
        ("cqlens_requests_total", 14.0),
        ("cqlens_keyspace_requests_total{keyspace=\"shop\"}", 14.0),
        ("cqlens_keyspace_errors_total{keyspace=\"shop\"}", 2.0),
        (
            "cqlens_table_requests_total{keyspace=\"shop\",table=\"orders\"}",
            10.0,
        ),
        (
            "cqlens_table_requests_total{keyspace=\"(others)\",table=\"(others)\"}",
            0.0,
        ),
        (
            "cqlens_table_partitions_total{keyspace=\"shop\",table=\"orders\"}",
            20.0,
        ),
        ("cqlens_table_rows_total{keyspace=\"shop\",table=\"users\"}", 20.0),
        (
            "cqlens_table_latency_seconds_count{keyspace=\"shop\",table=\"orders\"}",
            10.0,
        ),
        (
            "cqlens_table_latency_seconds_sum{keyspace=\"shop\",table=\"orders\"}",
            0.03,
        ),
        (
            "cqlens_table_latency_seconds_bucket{keyspace=\"shop\",table=\"orders\",le=\"0.0025\"}",
            0.0,
        ),
        (
            "cqlens_table_latency_seconds_bucket{keyspace=\"shop\",table=\"orders\",le=\"0.005\"}",
            10.0,
        ),
        (
            "cqlens_table_latency_seconds_bucket{keyspace=\"shop\",table=\"orders\",le=\"+Inf\"}",
            10.0,
        ),
        ("cqlens_application_requests_total{application=\"checkout\"}", 7.0),
        (
            "cqlens_application_connections_total{application=\"checkout\"}",
            1.0,
        ),
        ("cqlens_findings{rule=\"full-scan\",severity=\"high\"}", 2.0),
        ("cqlens_recording_left_out_total{reason=\"queue full\"}", 5.0),
        ("cqlens_recording_left_out_total{reason=\"not written\"}", 0.0),
        ("cqlens_forwarded_bytes_total{to=\"nodes\"}", 1_048_576.0),
        ("cqlens_forwarding_seconds_bucket{to=\"nodes\",le=\"1e-05\"}", 3.0),
        ("cqlens_forwarding_seconds_count{to=\"nodes\"}", 4.0),
        ("cqlens_forwarding_seconds_sum{to=\"nodes\"}", 2.0),
        ("cqlens_forwarding_seconds_count{to=\"clients\"}", 0.0),
        ("cqlens_window_end_timestamp_seconds", 60.0),
        ("cqlens_control_connection{state=\"trying\"}", 1.0),
        ("cqlens_control_connection{state=\"open\"}", 0.0),
        ("cqlens_thread_stuck{thread=\"audit\"}", 1.0),
        (
            "cqlens_connections_refused_total{reason=\"max-connections\"}",
            0.0,
        ),
    ] {
        assert_eq!(found.get(series), Some(&value), "{series}: {found:#?}");
    }
}

#[test]
fn counters_never_fall_though_windows_give_up_what_they_hold() {
    let mut traffic = Traffic::new(SeriesLimits {
        keyspaces: 2,
        tables: 4,
        applications: 2,
    });
    let mut before: BTreeMap<String, f64> = BTreeMap::new();
    for round in 0..30_u64 {
        let tables = (0..40).map(|table| (format!("t{table}"), 1 + (table * 7 + round * 11) % 23));
        let mut window = window(tables);
        // What has no room in the window goes to its other statements.
        window = {
            let mut small = Window::new(window.start, "proxy-a").with_limits(Limits {
                patterns: 10,
                ..Limits::default()
            });
            small.merge(&window);
            small
        };
        traffic.add(&window);
        let text = exposed(&traffic, Exposition::Prometheus);
        let counters: BTreeMap<_, _> = samples(&text)
            .into_iter()
            .filter(|(name, _)| {
                let name = name.split('{').next().unwrap();
                ["_total", "_bucket", "_count", "_sum"]
                    .iter()
                    .any(|ending| name.ends_with(ending))
            })
            .collect();
        for (series, value) in &before {
            // A table may lose its place, and the series ends.
            let now = counters.get(series).unwrap_or(&f64::INFINITY);
            let is_named_table = series.contains("table=\"t");
            assert!(now >= value || is_named_table, "{series}: {value}, then {now}");
            assert!(
                counters.contains_key(series) || is_named_table,
                "{series} has gone"
            );
        }
        let requests = counters["cqlens_requests_total"];
        let of_keyspaces: f64 = counters
            .iter()
            .filter(|(name, _)| name.starts_with("cqlens_keyspace_requests_total"))
            .map(|(_, value)| value)
            .sum();
        assert!(
            (requests - of_keyspaces).abs() < 0.5,
            "{requests}, {of_keyspaces}"
        );
        before = counters;
    }
}

#[test]
fn ten_thousand_tables_make_no_more_series_than_there_are_places() {
    let mut traffic = Traffic::new(SeriesLimits::default());
    for tables in [100, 10_000] {
        traffic.add(&window((0..tables).map(|table| (format!("t{table}"), table + 1))));
    }
    let found = samples(&exposed(&traffic, Exposition::Prometheus));
    let tables = found
        .keys()
        .filter(|name| name.starts_with("cqlens_table_requests_total"));
    assert_eq!(tables.count(), 101);
    assert!(found.len() < 5_000, "{}", found.len());
}

#[test]
fn names_and_help_follow_the_conventions() {
    let mut names = BTreeSet::new();
    for family in FAMILIES {
        let name = family.full_name();
        assert!(
            name.starts_with("cqlens_") || name.starts_with("process_"),
            "{name}"
        );
        assert!(
            name.chars()
                .all(|character| character.is_ascii_lowercase() || character == '_'),
            "{name}"
        );
        assert_eq!(name.ends_with("_total"), family.kind == Kind::Counter, "{name}");
        assert!(
            family.help.ends_with('.') && !family.help.contains('\n'),
            "{name}: {}",
            family.help
        );
        for wrong in ["_ms", "_us", "_mib", "_percent", "_count_total"] {
            assert!(!name.ends_with(wrong), "{name}");
        }
        assert!(names.insert(name), "once");
    }
    let text = exposed(&Traffic::new(SeriesLimits::default()), Exposition::Prometheus);
    for family in FAMILIES {
        let name = family.full_name();
        assert!(
            text.contains(&format!("# HELP {name} {}\n", family.help)),
            "{name}"
        );
        assert!(
            text.contains(&format!("# TYPE {name} {}\n", family.kind.name())),
            "{name}"
        );
    }
}

#[test]
fn labels_are_those_that_the_table_of_families_names_and_escaped() {
    let mut traffic = Traffic::new(SeriesLimits::default());
    let mut odd = of(&[("a\"b\\c\nd", 1)]);
    odd.count_client(&"x".repeat(1_000), 1);
    traffic.add(&odd);
    traffic.find([("full-scan", Severity::Low)]);
    let text = exposed(&traffic, Exposition::Prometheus);
    assert!(text.contains(r#"table="a\"b\\cd""#), "{text}");
    assert!(text.contains(r#"file="/etc/\"cqlens\"\n.pem""#), "{text}");
    assert!(text.lines().all(|line| line.len() < 400));
    for family in FAMILIES.iter().filter(|family| family.kind != Kind::Histogram) {
        let start = format!("{}{{", family.full_name());
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(&start));
        let has = |line: &str| {
            family
                .labels
                .iter()
                .all(|label| line.contains(&format!("{label}=\"")))
        };
        assert!(lines.all(has), "{start}");
    }
}

#[test]
fn open_metrics_end_with_their_end() {
    let text = exposed(&Traffic::new(SeriesLimits::default()), Exposition::OpenMetrics);
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert!(
        text.contains("# TYPE cqlens_requests counter\ncqlens_requests_total 0\n"),
        "{text}"
    );
    assert!(text.contains("# UNIT cqlens_queue_bytes bytes\n"), "{text}");
}
