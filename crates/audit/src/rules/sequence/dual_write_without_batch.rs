//! Copies of rows in several tables that are written one by one.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    About, Context, Finding, Findings, GROUP, Impact, Pattern, PatternId, Rule, Sent, Sequence, Severity,
    TableName, Threshold, number, often, rounded, share, table_of,
};
use crate::window::{Distribution, WritePairs};

pub(in crate::rules) struct DualWriteWithoutBatch;

impl Rule for DualWriteWithoutBatch {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for copies in all(context, found) {
            judge(&copies, context, found);
        }
    }
}

/// Writes of the same values into several tables.
pub(super) struct Copies<'a> {
    patterns: BTreeMap<PatternId, &'a Pattern>,
    tables: BTreeSet<TableName>,
    /// Of the pair that comes most often.
    pairs: u64,
    writes: u64,
    one_failed: u64,
    concurrent: u64,
    apart_us: Distribution,
}

/// Copies that come with so many of the writes are a habit.
const HABIT: f64 = 0.5;

/// Pairs of which so much is explained by chance are none.
const MOST_BY_CHANCE: f64 = 0.2;

pub(super) fn all<'a>(context: &Context<'a>, found: &Findings<'_>) -> Vec<Copies<'a>> {
    let operations = found.threshold(&ABOUT, &OPERATIONS);
    let copies = &context.window.sequences.copies;
    let mut all: Vec<Copies<'a>> = Vec::new();
    for (first, writes) in copies {
        for (second, pairs) in &writes.pairs {
            let others = copies.get(second).map_or(0, |writes| writes.writes);
            let fewer = writes.writes.min(others);
            let by_chance = pairs.late as f64 / WritePairs::LATE as f64;
            let is_habit = fewer > 0 && share(pairs.pairs, fewer) >= HABIT;
            if (pairs.pairs as f64) < operations
                || !is_habit
                || by_chance > MOST_BY_CHANCE * pairs.pairs as f64
            {
                continue;
            }
            let patterns = &context.window.patterns;
            let Some(pair) = patterns.get(first).zip(patterns.get(second)) else {
                continue;
            };
            // Applications keep copies beside each other.
            if pair.0.head.keyspace != pair.1.head.keyspace {
                continue;
            }
            let with = all.iter().position(|copies| {
                copies.patterns.contains_key(first) || copies.patterns.contains_key(second)
            });
            match with.and_then(|at| all.get_mut(at)) {
                Some(copies) => copies.add((*first, *second), pair, pairs, fewer),
                None => {
                    let mut new = Copies::none();
                    new.add((*first, *second), pair, pairs, fewer);
                    all.push(new);
                }
            }
        }
    }
    all
}

impl<'a> Copies<'a> {
    fn none() -> Self {
        Self {
            patterns: BTreeMap::new(),
            tables: BTreeSet::new(),
            pairs: 0,
            writes: 0,
            one_failed: 0,
            concurrent: 0,
            apart_us: Distribution::default(),
        }
    }

    fn add(
        &mut self,
        (first, second): (PatternId, PatternId),
        (one, other): (&'a Pattern, &'a Pattern),
        pairs: &WritePairs,
        writes: u64,
    ) {
        self.patterns.extend([(first, one), (second, other)]);
        self.tables.extend([one, other].into_iter().filter_map(table_of));
        self.one_failed += pairs.one_failed;
        if pairs.pairs > self.pairs {
            self.pairs = pairs.pairs;
            self.writes = writes;
            self.concurrent = pairs.concurrent;
            self.apart_us = pairs.apart_us.clone();
        }
    }

    /// Operations, of all executions.
    fn times(&self) -> u64 {
        let fewest = self
            .patterns
            .values()
            .map(|pattern| pattern.count)
            .min()
            .unwrap_or(0);
        rounded(fewest as f64 * share(self.pairs, self.writes).min(1.0))
    }

    pub(super) fn sequence(&self) -> Sequence {
        Sequence {
            kind: ABOUT.id,
            path: {
                let tables: Vec<String> = self.tables.iter().map(|table| format!("`{table}`")).collect();
                tables.join(" + ")
            },
            tables: self.tables.iter().cloned().collect(),
            patterns: self.patterns.keys().copied().collect(),
            count: self.times(),
            sampled: self.pairs,
            fan_out: {
                let mut writes = Distribution::default();
                writes.record_n(self.tables.len() as u64, self.pairs);
                writes
            },
            partitions: self.tables.len() as f64,
            elapsed_us: self.apart_us.clone(),
            sent: match self.concurrent * 2 > self.pairs {
                true => Sent::AtTheSameTime,
                false => Sent::OneAfterTheOther,
            },
        }
    }

    fn names(&self) -> String {
        let names: Vec<String> = self.tables.iter().map(|table| format!("`{table}`")).collect();
        match names.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
            _ => names.join(""),
        }
    }
}

fn judge(copies: &Copies<'_>, context: &Context<'_>, found: &mut Findings<'_>) {
    let failed = share(copies.one_failed, copies.pairs);
    let severity = if copies.one_failed == 0 {
        Severity::Info
    } else if failed >= found.threshold(&ABOUT, &FAILED_SHARE) {
        Severity::Medium
    } else {
        Severity::Low
    };
    let impact = copies
        .patterns
        .values()
        .fold(Impact::each(severity), |impact, pattern| impact.of(pattern));
    // What failed is wrong however little it costs; what did not may fail.
    let weighed = context.severity(found, &impact.at_most(severity));
    let severity = if copies.one_failed > 0 { severity } else { weighed };
    let because = match copies.one_failed {
        0 => String::new(),
        failed => format!(
            "; {} only one of the writes succeeded",
            number::plural(failed, "time", "times")
        ),
    };
    let title = format!(
        "The client writes the same values to {} without a logged batch{}{because}",
        copies.names(),
        often(copies.times(), context.window)
    );
    let patterns: Vec<_> = copies
        .patterns
        .iter()
        .map(|(id, pattern)| (*id, *pattern))
        .collect();
    let mut finding = Finding::on_all(&ABOUT, severity, patterns, context);
    if let Some(first) = copies.tables.first() {
        let others: Vec<String> = copies
            .tables
            .iter()
            .skip(1)
            .map(|table| table.table.clone())
            .collect();
        finding = finding.of_table(first).about(others.join(" "));
    }
    let statements: Vec<String> = copies
        .patterns
        .values()
        .map(|pattern| format!("  {};", pattern.head.cql))
        .collect();
    found.push(
        finding
            .title(title)
            .first("apart_p99_us", copies.apart_us.quantile(0.99))
            .first("apart_p50_us", copies.apart_us.quantile(0.5))
            .first("only_one_succeeded", copies.one_failed)
            .first("without_the_other", copies.writes.saturating_sub(copies.pairs))
            .first("operations_looked_at", copies.writes)
            .first("operations", copies.times())
            .suggest([format!("BEGIN BATCH\n{}\nAPPLY BATCH;", statements.join("\n"))]),
    );
}

const OPERATIONS: Threshold = Threshold {
    name: "operations",
    unit: "pairs of writes that were looked at",
    default: 50.0,
    origin: "cqlens default: what happens less often in the time of a report is set up once, not written",
};

const FAILED_SHARE: Threshold = Threshold {
    name: "failed_share",
    unit: "of the pairs of writes of which one failed and the other did not",
    default: 0.01,
    origin: "cqlens default: one row in a hundred that is in one table only will be noticed by users",
};

pub(super) const ABOUT: About = About {
    id: "dual-write-without-batch",
    group: GROUP,
    summary: "Copies of a row are written to several tables, each by a request of its own.",
    why: "\
        Each table serves its query, and each copy has to be written: that is how Cassandra is meant to be used. But where each write goes by itself, one may fail, or the client may \
        end between them; then the tables contradict each other, and nothing puts that right. A logged batch writes all of them or none, in time.",
    fix: "\
        Write the copies in one logged batch. It costs about a third more than the writes by themselves, and is right for a few statements that belong together. Where the cost matters more \
        than the copies, write them at the same time, repeat what failed with the same timestamp, and compare the tables by a job.",
    before: "INSERT INTO shop.users_by_username (username, email, age) VALUES (?, ?, ?);\nINSERT INTO shop.users_by_email (email, username, age) VALUES (?, ?, ?);",
    after: "BEGIN BATCH\n  INSERT INTO shop.users_by_username (username, email, age) VALUES (?, ?, ?);\n  \
            INSERT INTO shop.users_by_email (email, username, age) VALUES (?, ?, ?);\nAPPLY BATCH;",
    severity: "\
        From `operations`: info as long as both writes succeed. Low where one failed and the other did not, medium from a `failed_share` of them. Retries count: what succeeds within a tenth of a second has not failed.",
    thresholds: &[OPERATIONS, FAILED_SHARE],
    needs: "\
        The bound values of INSERTs and UPDATEs, of the same session, or application and address: three quarters of the values in common, sent within 50 ms. Not seen: copies in another keyspace, \
        values in the text of a statement, values that the client changes, copies in unlogged batches.",
    source: "Cassandra documentation, BATCH: atomicity across tables that hold the same data; Getting started with data modelling: keep denormalised tables in step",
};
