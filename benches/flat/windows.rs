//! The windows of a week, each merged into what the running report is made of.

use std::{
    collections::BTreeSet,
    env,
    process::{Command, Stdio},
    time::Instant,
};

use cqlens_cql::{plan::StatementKind, schema::TableName};
use cqlens_window::{Pattern, PatternHead, PatternId, Window};
use jiff::{SignedDuration, Timestamp};

use crate::{figures::median, mebibytes, process};

/// Minutes of a week.
const WINDOWS: u64 = 7 * 24 * 60;
const PATTERNS: u64 = 100;
const TABLES: u64 = 10;
/// Of each pattern in each window, each with a partition of its own.
const EXCHANGES: u64 = 32;
/// How many of the patterns of a window never come again.
const NEW: [u64; 2] = [0, 10];
/// Merges that one figure is the median of.
const MERGES: u64 = 100;

/// Where the memory and the time of a merge are looked at: after so many windows.
const LOOKED_AT: [u64; 3] = [MERGES, WINDOWS / 2, WINDOWS];

/// Says that this process is to live through a week, so that the memory is that of nothing else.
const WEEK: &str = "CQLENS_BENCH_WEEK";

pub(crate) fn is_week() -> bool {
    env::var_os(WEEK).is_some()
}

pub(crate) fn measure() {
    println!("{WINDOWS} windows of a minute, {PATTERNS} patterns each, merged one after the other\n");
    println!("| never come again | windows | us/merge | resident MiB |");
    println!("| --- | --- | --- | --- |");
    // Once each: a figure is a median of many merges already.
    for new in NEW {
        let row = in_a_process(new);
        for (windows, figures) in LOOKED_AT.into_iter().zip(row.chunks_exact(2)) {
            println!("| {new} | {windows} | {:.0} | {:.0} |", figures[0], figures[1]);
        }
    }
}

fn in_a_process(new: u64) -> [f64; 2 * LOOKED_AT.len()] {
    let mut command = Command::new(env::current_exe().unwrap());
    let lived = command
        .env(WEEK, new.to_string())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let text = String::from_utf8(lived.stdout).unwrap();
    let figures: Vec<f64> = text
        .split_whitespace()
        .map(|figure| figure.parse().unwrap())
        .collect();
    figures.try_into().unwrap()
}

/// Prints time and memory of each place that is looked at.
pub(crate) fn week() {
    let new = env::var(WEEK).unwrap().parse().unwrap();
    let mut all = Window::new(Timestamp::UNIX_EPOCH, "bench");
    let mut times = Vec::new();
    for minute in 0..WINDOWS {
        let window = window(minute, new);
        let began = Instant::now();
        all.merge(&window);
        times.push(began.elapsed().as_secs_f64() * 1e6);
        let windows = minute + 1;
        if LOOKED_AT.contains(&windows) {
            let time = median(times.drain(..));
            println!("{time} {}", mebibytes(process::kib("self", "VmRSS:")));
        }
        if LOOKED_AT.contains(&(windows + MERGES)) {
            times.clear();
        }
    }
    assert_eq!(all.coverage.audited, WINDOWS * PATTERNS * EXCHANGES);
}

/// What is seen in a minute.
fn window(minute: u64, new: u64) -> Window {
    let start = Timestamp::UNIX_EPOCH + SignedDuration::from_mins(minute.cast_signed());
    let mut window = Window::new(start, "bench");
    for place in 0..PATTERNS {
        // 0 and 1 stand for something else.
        let id = if place < new {
            2 + PATTERNS + minute * new + place
        } else {
            2 + place
        };
        let mut random = Random(minute * PATTERNS + place);
        see(
            window.pattern_mut(PatternId(id), &head(id).cql, || (head(id), BTreeSet::new())),
            &mut random,
            start,
        );
        let name = TableName {
            keyspace: "bench".to_owned(),
            table: format!("table_{}", place % TABLES),
        };
        window.count_table(&name, |table| {
            for _ in 0..EXCHANGES {
                let partition = random.next();
                table.reads += 1;
                table.partitions_per_read.record(1);
                table.top_partitions.read(partition);
                table.distinct_partitions.insert(partition);
            }
        });
        window.count_client(&format!("client {place}"), 1);
    }
    window.coverage.audited = PATTERNS * EXCHANGES;
    window.close(start + SignedDuration::from_mins(1));
    window
}

fn head(id: u64) -> PatternHead {
    PatternHead {
        kind: StatementKind::Select,
        keyspace: Some("bench".to_owned()),
        table: Some(format!("table_{}", id % TABLES)),
        cql: format!(
            "SELECT a, b, c AS c_{id} FROM bench.table_{} WHERE id = ?",
            id % TABLES
        ),
        system: false,
    }
}

fn see(pattern: &mut Pattern, random: &mut Random, at: Timestamp) {
    for _ in 0..EXCHANGES {
        pattern.count += 1;
        pattern.prepared += 1;
        pattern.logical_reads += 1;
        // From a quarter of a millisecond to some ten.
        pattern
            .latency_us
            .record(250 + random.below(1 << 5) * random.below(1 << 9));
        pattern.partitions.record(1);
        pattern.rows.record(random.below(100));
        pattern.request_bytes.record(60 + random.below(8));
        pattern.response_bytes.record(100 * random.below(1 << 10));
        pattern.count_consistency("LOCAL_QUORUM", 1);
        pattern.count_client("client", 1);
        pattern.see(at);
    }
}

/// Numbers that look random and are the same in every run (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ (number >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}
