//! What is known of a pattern beyond its line in the table.

use std::{cmp::Reverse, collections::BTreeMap};

use crate::{number, report::PatternReport};

/// What is known of a pattern beyond its line. With a single node it is no news that its coordinator holds
/// the partition.
pub(super) fn facts(pattern: &PatternReport, several_nodes: bool) -> Vec<(&'static str, String)> {
    let flags: Vec<_> = pattern
        .flags
        .iter()
        .filter_map(|flag| serde_json::to_value(flag).ok())
        .collect();
    let flags: Vec<_> = flags.iter().filter_map(|flag| flag.as_str()).collect();
    let latency = &pattern.latency_us;
    [
        (
            "Latency p999 · slowest",
            latency.shown([latency.p999, latency.max]),
        ),
        (
            "Partitions, all together",
            number::count(pattern.partitions.numbers.total),
        ),
        ("Rows, all together", number::count(pattern.rows.total)),
        (
            "Answer size p50 · p99",
            format!(
                "{} · {}",
                number::bytes(pattern.response_bytes.p50),
                number::bytes(pattern.response_bytes.p99)
            ),
        ),
        ("Errors", number::count(pattern.errors)),
        ("Warnings", number::count(pattern.warnings)),
        (
            "Pages · reads",
            format!(
                "{} · {}",
                number::count(pattern.pages),
                number::count(pattern.logical_reads)
            ),
        ),
        ("Rows · pages of one read p99", paged(pattern)),
        ("Asked again", repeats(pattern)),
        ("Partitions seen, at least", scanned(pattern)),
        ("Part of the ring", token_ranges(pattern)),
        (
            "Sent to a node that holds the partition",
            pattern
                .routing
                .filter(|_| several_nodes)
                .map_or_else(String::new, |routing| routing.shown()),
        ),
        (
            "Prepared",
            number::share(pattern.prepared, pattern.prepared + pattern.unprepared),
        ),
        ("Consistency", names(&pattern.consistency)),
        ("Serial consistency", names(&pattern.serial_consistency)),
        ("Clients", names(&pattern.clients)),
        ("Properties", flags.join(", ")),
        ("Fingerprint", pattern.id.to_string()),
    ]
    .into_iter()
    .filter(|(_, value)| !["", "0", "–", "0 · 0", "0 B · 0 B", "0 µs · 0 µs"].contains(&value.as_str()))
    .collect()
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
