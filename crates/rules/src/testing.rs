//! Windows for tests: an hour of one source, with the patterns that a test names.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Context, Findings, Judgement, Rule, Settings, check};
use cqlens_cql::{
    footprint::PartitionClass,
    plan::{Flag, StatementKind},
    schema::Schema,
};
use cqlens_window::{Cluster, Distribution, Pattern, PatternHead, PatternId, Window};

/// One hour that one proxy watched, with these patterns; ids count from 1.
pub fn window(patterns: impl IntoIterator<Item = Pattern>) -> Window {
    let mut window = Window::new(Timestamp::UNIX_EPOCH, "proxy-a");
    window.close(Timestamp::from_second(3_600).expect("an hour after the epoch is a time"));
    window.patterns = (1..).map(PatternId).zip(patterns).collect();
    window
}

/// A minute of a busy cluster: these patterns take a twentieth of its time and work, or less, so that each finding
/// is as severe as one execution is bad.
pub fn amid(patterns: impl IntoIterator<Item = Pattern>) -> Window {
    let mut window = window(patterns);
    window.observed_seconds = 60.0;
    let cost: super::Cost = window.patterns.values().map(super::Cost::of).sum();
    let mut others = write(
        "INSERT INTO other.t (k) VALUES (?)",
        StatementKind::Insert,
        &[],
        1,
    );
    others.latency_us = Distribution::default();
    others.latency_us.record(cost.time_us.saturating_mul(19));
    others.partitions.record(cost.work.saturating_mul(19));
    window.patterns.insert(PatternId(u64::MAX), others);
    window
}

/// A SELECT of the class, so often, 2 ms and one row each; `class` single means one partition each.
pub fn read(cql: &str, flags: &[Flag], class: PartitionClass, times: u64) -> Pattern {
    let mut pattern = pattern(cql, StatementKind::Select, times);
    pattern.flags = flags.iter().copied().collect();
    pattern.classes.insert(class, times);
    pattern.logical_reads = times;
    pattern.rows.record_n(1, times);
    if class == PartitionClass::Single {
        pattern.partitions.record_n(1, times);
    }
    pattern
}

/// Any statement, so often, 2 ms each. The table is what follows FROM, INTO or UPDATE.
pub fn pattern(cql: &str, kind: StatementKind, times: u64) -> Pattern {
    let mut words = cql.split_whitespace();
    let table = words
        .find(|word| ["FROM", "INTO", "UPDATE"].contains(word))
        .and_then(|_| words.next());
    let (keyspace, table) = table.and_then(|name| name.split_once('.')).unzip();
    let head = PatternHead {
        kind,
        keyspace: keyspace.map(str::to_owned),
        table: table.map(str::to_owned),
        cql: cql.to_owned(),
        system: false,
    };
    let mut pattern = Pattern::new(head, BTreeSet::new());
    pattern.count = times;
    pattern.prepared = times;
    pattern.latency_us.record_n(2_000, times);
    pattern
}

/// The same with so many partitions in each execution.
pub fn with_partitions(mut pattern: Pattern, partitions: u64) -> Pattern {
    pattern.partitions = Distribution::default();
    pattern.partitions.record_n(partitions, pattern.count);
    pattern
}

/// What one rule says of a window, with default thresholds and without a schema.
pub fn run(rule: &dyn Rule, window: &Window) -> Judgement {
    run_with(rule, window, &Schema::default())
}

/// What one rule says of a window under a schema, with default thresholds.
pub fn run_with(rule: &dyn Rule, window: &Window, schema: &Schema) -> Judgement {
    run_in(rule, &Context::new(window, schema, &Cluster::default()))
}

/// What one rule says in a context, with default thresholds.
pub fn run_in(rule: &dyn Rule, context: &Context<'_>) -> Judgement {
    let settings = Settings::default();
    let mut found = Findings::new(&settings);
    rule.check(context, &mut found);
    found.ranked(context)
}

/// What all rules say of a window, with default thresholds and without a schema.
pub fn judge(window: &Window) -> Judgement {
    judge_with(window, &Schema::default())
}

/// What all rules say of a window under a schema, with default thresholds.
pub fn judge_with(window: &Window, schema: &Schema) -> Judgement {
    check(
        &Context::new(window, schema, &Cluster::default()),
        &Settings::default(),
    )
}

/// A transaction with these flags, so often, 2 ms each and over so many partitions.
pub fn transaction(cql: &str, flags: &[Flag], partitions: u64, times: u64) -> Pattern {
    let class = match partitions {
        1 => PartitionClass::Single,
        _ => PartitionClass::Multi,
    };
    let mut pattern = with_partitions(pattern(cql, StatementKind::Transaction, times), partitions);
    pattern.flags = flags.iter().copied().collect();
    pattern.classes.insert(class, times);
    pattern
}

/// A write with these flags, so often, 2 ms each and to one partition.
pub fn write(cql: &str, kind: StatementKind, flags: &[Flag], times: u64) -> Pattern {
    let mut pattern = pattern(cql, kind, times);
    pattern.flags = flags.iter().copied().collect();
    pattern.classes.insert(PartitionClass::Single, times);
    pattern.partitions.record_n(1, times);
    pattern
}

/// A batch of INSERTs into `shop.orders` with these flags, so many partitions each, so often.
pub fn batch(flags: &[Flag], partitions: u64, times: u64) -> Pattern {
    let cql = "BEGIN BATCH INSERT INTO shop.orders (id) VALUES (?); APPLY BATCH";
    let mut pattern = write(cql, StatementKind::Batch, flags, times);
    if partitions > 1 {
        pattern.classes = [(PartitionClass::Multi, times)].into();
    }
    with_partitions(pattern, partitions)
}
