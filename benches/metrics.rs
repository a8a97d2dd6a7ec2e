//! What a scrape of some 10,000 series costs, and the adding of a window to the running totals: neither is on a thread that forwards.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    missing_docs,
    reason = "a benchmark"
)]

use std::{collections::BTreeSet, sync::Arc};

use cqlens::metrics::{Metrics, Process, SeriesLimits, Traffic, Usage};
use cqlens_admin::{AuditStatus, ControlConnection, Exposition, ReadyState, Status};
use cqlens_capture::{Forwarded, memory::Memory};
use cqlens_cql::plan::StatementKind;
use cqlens_window::{PatternHead, PatternId, Window};
use divan::{Bencher, black_box};
use jiff::Timestamp;

const TABLES: u64 = 400;

fn main() {
    divan::main();
}

#[divan::bench(args = [Exposition::Prometheus, Exposition::OpenMetrics])]
fn scrape(bencher: Bencher<'_, '_>, exposition: Exposition) {
    let metrics = metrics();
    let text = metrics.clone().expose(exposition);
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    eprintln!("{series} series, {} KiB", text.len() / 1024);
    bencher
        .with_inputs(|| metrics.clone())
        .bench_values(|metrics| black_box(metrics.expose(exposition)));
}

/// As the writer does once a window, for 1,600 statements on as many tables.
#[divan::bench]
fn add_a_window(bencher: Bencher<'_, '_>) {
    let window = window(4 * TABLES);
    let mut traffic = Traffic::new(limits());
    bencher.bench_local(|| {
        traffic.add(black_box(&window));
        black_box(Arc::new(traffic.clone()))
    });
}

fn limits() -> SeriesLimits {
    SeriesLimits {
        tables: usize::try_from(TABLES).unwrap(),
        ..SeriesLimits::default()
    }
}

fn metrics() -> Metrics {
    let mut traffic = Traffic::new(limits());
    traffic.add(&window(TABLES));
    Metrics {
        traffic: Arc::new(traffic),
        process: process(),
    }
}

fn window(tables: u64) -> Window {
    let mut window = Window::new(Timestamp::UNIX_EPOCH, "proxy-a");
    for table in 0..tables {
        let head = || {
            let head = PatternHead {
                kind: StatementKind::Select,
                keyspace: Some("shop".to_owned()),
                table: Some(format!("table_{table}")),
                cql: format!("SELECT * FROM shop.table_{table} WHERE id = ?"),
                system: false,
            };
            (head, BTreeSet::new())
        };
        let cql = head().0.cql;
        let pattern = window.pattern_mut(PatternId(table + 1), &cql, head);
        pattern.count = 1_000 + table;
        (0..1_000).for_each(|us| pattern.latency_us.record(us * 37));
        pattern.rows.record_n(table, 1_000);
    }
    window
}

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
            connections: 100,
            control_connection: ControlConnection::Open,
            control_connection_error: None,
            schema_known: true,
            log_lines_dropped: 0,
            audit: AuditStatus::default(),
            threads: Vec::new(),
            memory: Memory::default().status(),
        },
        max_connections: 1_000,
        requests: Forwarded::default(),
        responses: Forwarded::default(),
        recording_left_out: None,
        nodes_down: 0,
        certificates: Vec::new(),
        usage: Usage::default(),
        exports: None,
    }
}
