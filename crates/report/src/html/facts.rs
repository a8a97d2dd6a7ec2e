//! What is known of a pattern beyond its line in the table.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::{Latency, PatternReport};
use cqlens_window::number;

/// What is known of a pattern beyond its line. With a single node it is no news that its coordinator holds
/// the partition.
pub(super) fn facts(
    pattern: &PatternReport,
    several_nodes: bool,
    has_times: bool,
    several_applications: bool,
) -> Vec<(&'static str, String)> {
    let latency = &pattern.latency_us;
    [
        (
            "Time",
            pattern.time_share.map_or_else(String::new, number::percent),
        ),
        ("Work", work(pattern)),
        ("Executions", executions(pattern)),
        ("Latency p50 · p99 · slowest", shown_latency(latency, has_times)),
        ("Partitions p99 · sum", partitions(pattern)),
        ("Rows p99 · sum", rows(pattern)),
        (
            "Response size p50 · p99",
            format!(
                "{} · {}",
                number::bytes(pattern.response_bytes.p50),
                number::bytes(pattern.response_bytes.p99)
            ),
        ),
        ("Errors", number::count(pattern.errors)),
        ("Warnings", number::count(pattern.warnings)),
        ("Pages · reads", pages(pattern)),
        ("Rows · pages per read p99", paged(pattern)),
        ("Repeated", repeats(pattern)),
        ("Partitions seen, at least", scanned(pattern)),
        ("Share of the ring", token_ranges(pattern)),
        (
            "Sent to a node that holds the partition",
            pattern
                .routing
                .filter(|_| several_nodes)
                .map_or_else(String::new, |routing| routing.shown()),
        ),
        ("Prepared", prepared(pattern)),
        ("Consistency", names(&pattern.consistency)),
        ("Serial consistency", names(&pattern.serial_consistency)),
        ("Clients", clients(pattern, several_applications)),
        ("Fingerprint", pattern.id.to_string()),
    ]
    .into_iter()
    .filter(|(_, value)| !["", "0", "–", "0 · 0", "0 B · 0 B", "0 µs · 0 µs"].contains(&value.as_str()))
    .collect()
}

/// `1,200, and 30 more that are counted among other statements`; nothing where the rate in its line is that count.
fn executions(pattern: &PatternReport) -> String {
    let has_rate = number::per_second(pattern.count, pattern.observed_seconds).is_some();
    let count = number::count(pattern.count);
    match pattern.missed {
        0 if !has_rate => String::new(),
        0 => count,
        missed => format!(
            "{count}, and at least {} more counted among other statements",
            number::count(missed)
        ),
    }
}

/// As it should be, it is not worth a line.
fn prepared(pattern: &PatternReport) -> String {
    match pattern.unprepared {
        0 => String::new(),
        unprepared => number::share(pattern.prepared, pattern.prepared + unprepared),
    }
}

/// A share that is worth a line.
fn work(pattern: &PatternReport) -> String {
    match pattern.work_share >= 0.001 {
        true => number::percent(pattern.work_share),
        false => String::new(),
    }
}

/// Who sends it, where there is anybody else.
fn clients(pattern: &PatternReport, several_applications: bool) -> String {
    match several_applications {
        true => names(&pattern.clients),
        false => String::new(),
    }
}

/// Latencies of a stand-in say nothing of a cluster.
fn shown_latency(latency: &Latency, has_times: bool) -> String {
    if !has_times || latency.count == 0 {
        return String::new();
    }
    let numbers = [latency.p50, latency.p99, latency.max];
    numbers.map(number::micros).join(" · ")
}

fn partitions(pattern: &PatternReport) -> String {
    let shown = pattern.partitions.shown();
    match pattern.partitions.numbers.total {
        0 => shown,
        total => format!("{shown} · {}", number::count(total)),
    }
}

/// Of reads of which some come in pages.
fn pages(pattern: &PatternReport) -> String {
    let (pages, reads) = (pattern.pages, pattern.logical_reads);
    match pages {
        0 => String::new(),
        _ => format!("{} · {}", number::count(pages), number::count(reads)),
    }
}

fn rows(pattern: &PatternReport) -> String {
    let rows = &pattern.rows;
    match rows.steps.is_empty() {
        true => String::new(),
        false => format!("{} · {}", number::count(rows.p99), number::count(rows.total)),
    }
}

/// The three most frequent names, with their shares where there are several.
fn names(counts: &BTreeMap<String, u64>) -> String {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|&(name, count)| (Reverse(count), name));
    let whole: u64 = counts.iter().map(|&(_, count)| count).sum();
    let shown = counts.iter().take(3).map(|&(name, &count)| match counts.len() {
        1 => name.clone(),
        _ => format!("{name} {}", number::share(count, whole)),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Of reads that came in pages; what comes in one is an answer like others.
fn paged(pattern: &PatternReport) -> String {
    let per_read = pattern.per_read.as_ref();
    per_read
        .filter(|reads| reads.pages.max > 1)
        .map_or_else(String::new, |reads| {
            format!(
                "{} · {}",
                number::count(reads.rows.p99),
                number::count(reads.pages.p99)
            )
        })
}

/// `3 while the first was in flight, 2 after errors`.
fn repeats(pattern: &PatternReport) -> String {
    let Some(repeats) = &pattern.repeats else {
        return String::new();
    };
    let said = |count: u64, when: &str| (count > 0).then(|| format!("{} {when}", number::count(count)));
    let parts = [
        said(repeats.in_flight, "while the first was in flight"),
        said(repeats.retries.values().sum(), "after a failure"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn scanned(pattern: &PatternReport) -> String {
    let scanned = pattern.scanned.as_ref();
    scanned.map_or_else(String::new, |scanned| number::count(scanned.distinct_partitions))
}

/// `100 %, 1 sweep in 384 reads`.
fn token_ranges(pattern: &PatternReport) -> String {
    let Some(ranges) = &pattern.token_ranges else {
        return String::new();
    };
    let share = number::percent(ranges.ring_share);
    if ranges.sweeps == 0 {
        return share;
    }
    let sweeps = number::plural(ranges.sweeps, "sweep", "sweeps");
    format!("{share}, {sweeps} in {} reads", number::count(ranges.sweep_reads))
}
