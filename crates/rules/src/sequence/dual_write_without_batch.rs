//! Copies of rows in several tables that are written one by one.

use std::collections::BTreeMap;

use super::{
    About, Context, Finding, Findings, GROUP, Pattern, PatternId, Rule, Sent, Sequence, SequenceStep,
    Severity, TableName, Threshold, applications,
    batched_copies::{self, LoggedBatches},
    copies_in_short::Several,
    estimate, number, often, rounded, share, table_of,
};
use crate::{Cause, EvidenceValue};
use cqlens_window::{Distribution, WritePairs};

pub(crate) struct DualWriteWithoutBatch;

impl Rule for DualWriteWithoutBatch {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let mut harmless: BTreeMap<String, Vec<Copies<'_>>> = BTreeMap::new();
        let logged = batched_copies::logged(context);
        for copies in all(context, found) {
            match severity(copies.one_failed, copies.pairs, found) {
                Severity::Info => harmless.entry(copies.senders()).or_default().push(copies),
                severity => found.push(finding(severity, (&copies, &logged), context)),
            }
        }
        for (senders, copies) in harmless {
            found.push(match copies.as_slice() {
                [one] => finding(Severity::Info, (one, &logged), context),
                several => several_by_themselves(several).finding(&senders, context),
            });
        }
        batched_copies::judge(&logged, context, found);
    }
}

/// Writes of the same values into several tables.
pub(super) struct Copies<'a> {
    patterns: BTreeMap<PatternId, &'a Pattern>,
    /// Writes of each table that were looked at.
    tables: BTreeMap<TableName, u64>,
    /// Pairs of all patterns.
    all_pairs: u64,
    one_failed: u64,
    /// Of the pair that comes most often.
    pairs: u64,
    writes: u64,
    concurrent: u64,
    apart_us: Distribution,
}

/// Copies that come with so many of the writes are a habit.
pub(super) const HABIT: f64 = 0.5;

/// Pairs of which so much is explained by chance are none.
const MOST_BY_CHANCE: f64 = 0.2;

pub(super) fn all<'a>(context: &Context<'a>, found: &Findings<'_>) -> Vec<Copies<'a>> {
    let operations = found.threshold(&ABOUT, &OPERATIONS);
    let copies = &context.window.sequences.copies;
    let mut all: Vec<Copies<'a>> = Vec::new();
    let mut places: BTreeMap<PatternId, usize> = BTreeMap::new();
    for (first, writes) in copies {
        for (second, pairs) in &writes.pairs {
            let others = copies.get(second).map_or(0, |writes| writes.writes);
            let looked_at = [writes.writes, others];
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
            let known = [first, second]
                .into_iter()
                .filter_map(|id| places.get(id).copied());
            let place = known.min().unwrap_or(all.len());
            for id in [first, second] {
                let first = places.entry(*id).or_insert(place);
                *first = place.min(*first);
            }
            match all.get_mut(place) {
                Some(copies) => copies.add([(*first, pair.0), (*second, pair.1)], looked_at, pairs),
                None => {
                    let mut new = Copies::none();
                    new.add([(*first, pair.0), (*second, pair.1)], looked_at, pairs);
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
            tables: BTreeMap::new(),
            all_pairs: 0,
            one_failed: 0,
            pairs: 0,
            writes: 0,
            concurrent: 0,
            apart_us: Distribution::default(),
        }
    }

    /// Adds the pairs of two patterns, of each of which so many writes were looked at.
    fn add(&mut self, pair: [(PatternId, &'a Pattern); 2], looked_at: [u64; 2], pairs: &WritePairs) {
        for ((id, pattern), writes) in pair.into_iter().zip(looked_at) {
            if self.patterns.insert(id, pattern).is_none()
                && let Some(table) = table_of(pattern)
            {
                *self.tables.entry(table).or_default() += writes;
            }
        }
        self.all_pairs += pairs.pairs;
        self.one_failed += pairs.one_failed;
        if pairs.pairs > self.pairs {
            self.pairs = pairs.pairs;
            self.writes = looked_at.into_iter().min().unwrap_or(0);
            self.concurrent = pairs.concurrent;
            self.apart_us = pairs.apart_us.clone();
        }
    }

    /// Writes that a table lacks, of those that were looked at. Of three tables and more it is known only how many
    /// fewer it got than another one: that many, at least.
    fn missing(&self) -> Vec<(&TableName, u64)> {
        let writes: u64 = self.tables.values().sum();
        let most = self.tables.values().max().copied().unwrap_or(0);
        let missing = |(name, own): (_, &u64)| match self.tables.len() {
            2 => (name, (writes - own).saturating_sub(self.all_pairs)),
            _ => (name, most - own),
        };
        self.tables.iter().map(missing).collect()
    }

    /// Executions of the pattern that has the fewest.
    fn fewest(&self) -> u64 {
        let counts = self.patterns.values().map(|pattern| pattern.count);
        counts.min().unwrap_or(0)
    }

    /// The applications that write them, by name.
    fn senders(&self) -> String {
        applications(&self.patterns()).join(", ")
    }

    fn patterns(&self) -> Vec<(PatternId, &'a Pattern)> {
        let patterns = self.patterns.iter();
        patterns.map(|(id, pattern)| (*id, *pattern)).collect()
    }

    /// Operations, of all executions.
    fn times(&self) -> u64 {
        rounded(self.fewest() as f64 * share(self.pairs, self.writes).min(1.0))
    }

    /// The same statements in one logged batch.
    fn in_a_batch(&self) -> String {
        let patterns = self.patterns.values();
        let statements: Vec<String> = patterns
            .map(|pattern| format!("  {};", pattern.head.cql))
            .collect();
        format!("BEGIN BATCH\n{}\nAPPLY BATCH;", statements.join("\n"))
    }

    pub(super) fn sequence(&self) -> Sequence {
        Sequence {
            kind: ABOUT.id,
            path: {
                let tables: Vec<String> = self.tables.keys().map(|table| format!("`{table}`")).collect();
                tables.join(" + ")
            },
            tables: self.tables.keys().cloned().collect(),
            patterns: self.patterns.keys().copied().collect(),
            count: self.times(),
            count_range: estimate::range(self.times(), (self.pairs, self.writes), self.fewest()),
            steps: steps(self.tables.keys(), self.sent(), self.pairs),
            applications: applications(&self.patterns()),
            sampled: self.pairs,
            fan_out: {
                let mut writes = Distribution::default();
                writes.record_n(self.tables.len() as u64, self.pairs);
                writes
            },
            partitions: self.tables.len() as f64,
            elapsed_us: self.apart_us.clone(),
            sent: self.sent(),
            serial_share: 1.0 - share(self.concurrent, self.pairs),
        }
    }

    fn sent(&self) -> Sent {
        match self.concurrent * 2 > self.pairs {
            true => Sent::AtTheSameTime,
            false => Sent::OneAfterTheOther,
        }
    }
}

/// From the first of these tables to each other one, so often.
pub(super) fn steps<'n>(
    tables: impl IntoIterator<Item = &'n TableName>,
    sent: Sent,
    times: u64,
) -> Vec<SequenceStep> {
    let mut tables = tables.into_iter();
    let Some(first) = tables.next() else {
        return Vec::new();
    };
    let mut fan_out = Distribution::default();
    fan_out.record_n(1, times);
    let to_each = tables.map(|table| SequenceStep {
        from: first.clone(),
        to: table.clone(),
        fan_out: fan_out.clone(),
        sent,
    });
    to_each.collect()
}

/// `` `a`, `b` and `c` ``.
pub(super) fn names<'n>(tables: impl IntoIterator<Item = &'n TableName>) -> String {
    let names: Vec<String> = tables.into_iter().map(|table| format!("`{table}`")).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.join(""),
    }
}

/// Of so many copies, some of which are in one table only. What failed is wrong however little it costs; what did
/// not may fail.
pub(super) fn severity(failed: u64, copies: u64, found: &Findings<'_>) -> Severity {
    if failed == 0 {
        Severity::Info
    } else if share(failed, copies) >= found.threshold(&ABOUT, &FAILED_SHARE) {
        Severity::Medium
    } else {
        Severity::Low
    }
}

fn several_by_themselves<'a>(copies: &[Copies<'a>]) -> Several<'a> {
    let most = copies.iter().max_by_key(|copies| copies.times());
    Several {
        patterns: copies.iter().flat_map(Copies::patterns).collect(),
        sets: copies
            .iter()
            .map(|copies| (copies.tables.keys().cloned().collect(), copies.times()))
            .collect(),
        how: "without a logged batch",
        batch: most.map(Copies::in_a_batch),
    }
}

fn finding(
    severity: Severity,
    (copies, logged): (&Copies<'_>, &LoggedBatches),
    context: &Context<'_>,
) -> Finding {
    let because = match copies.one_failed {
        0 => String::new(),
        failed => format!(
            "; only one of the writes succeeded {}",
            number::plural(failed, "time", "times")
        ),
    };
    let title = format!(
        "The client writes the same values to {} without a logged batch{}{because}",
        names(copies.tables.keys()),
        often(
            copies.times(),
            context.watch_all(copies.patterns.values().copied())
        )
    );
    let tables: Vec<&TableName> = copies.tables.keys().collect();
    let finding = Finding::on_all(&ABOUT, severity, copies.patterns(), context);
    let finding = on_tables(finding, &tables);
    let missing = copies.missing();
    let all_missing: u64 = missing.iter().map(|(_, writes)| writes).sum();
    let missing = missing
        .into_iter()
        .map(|(name, writes)| (name.to_string(), writes));
    finding
        .title(title)
        .first("apart_p99_us", copies.apart_us.quantile(0.99))
        .first("apart_p50_us", copies.apart_us.quantile(0.5))
        .first("only_one_succeeded", copies.one_failed)
        .first("missing_by_table", EvidenceValue::Counts(missing.collect()))
        .first("without_the_other", all_missing)
        .first("operations_looked_at", copies.writes)
        .first("in_logged_batches", logged.of(&tables))
        .first("operations", copies.times())
        .suggest([copies.in_a_batch()])
        .or_in_a_transaction(copies.tables.keys(), IN_A_TRANSACTION, context)
}

const IN_A_TRANSACTION: &str = "\
    Where readers must never see one table without the other, write them in a transaction: all of it is seen at once, which \
    a batch does not promise.";

/// The finding on the first of these tables, told from others by the further ones.
pub(super) fn on_tables(finding: Finding, tables: &[&TableName]) -> Finding {
    let Some((first, others)) = tables.split_first() else {
        return finding;
    };
    let others: Vec<&str> = others.iter().map(|table| &*table.table).collect();
    finding.of_table(first).about(others.join(" "))
}

pub(super) const OPERATIONS: Threshold = Threshold {
    name: "operations",
    unit: "sampled pairs of writes",
    default: 50.0,
    origin: "\
        cqlens default: what happens less often during a report is a one-time setup, not regular writing",
};

const FAILED_SHARE: Threshold = Threshold {
    name: "failed_share",
    unit: "of the pairs of writes in which one write failed and the other succeeded",
    default: 0.01,
    origin: "cqlens default: users will notice one row in a hundred that is in only one table",
};

pub(super) const ABOUT: About = About {
    id: "dual-write-without-batch",
    group: GROUP,
    summary: "Copies of a row are written to several tables in separate requests.",
    why: "Each table serves its query, and each copy has to be written: this is how Cassandra is meant to be \
        used. But if each write is a separate request, one may fail, or the client may crash between them; \
        then the tables contradict each other, and nothing corrects that. A logged batch eventually writes \
        either all of them or none.",
    fix: "\
        Write the copies in one logged batch. It costs about a third more than separate writes, and is right \
        for a few statements that belong together. If the cost matters more than consistent copies, send the \
        writes in parallel, repeat failed ones with the same timestamp, and run a job that compares the \
        tables.",
    fix_in_short: "One logged batch",
    before: "INSERT INTO shop.users_by_username (username, email, age) VALUES (?, ?, ?);\nINSERT INTO shop.users_by_email (email, username, age) VALUES (?, ?, ?);",
    after: "BEGIN BATCH\n  INSERT INTO shop.users_by_username (username, email, age) VALUES (?, ?, ?);\n  \
            INSERT INTO shop.users_by_email (email, username, age) VALUES (?, ?, ?);\nAPPLY BATCH;",
    severity: "\
        From `operations`: info as long as both writes succeed. Low if one failed and the other succeeded, \
        medium from a `failed_share` of the pairs. Retries count: a write that succeeds within a tenth of a \
        second has not failed. Findings that are only info are combined into one per application. Copies in \
        one unlogged batch are judged in the same way, by the failed batches: each of them may have written \
        one table and not the other. Logged batches are only counted.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[OPERATIONS, FAILED_SHARE],
    needs: "The bound values of INSERTs and UPDATEs in the same session (or from the same application and \
        address): three quarters of the values in common, sent within 50 ms. Not seen: copies in another \
        keyspace, values in the text of a statement, values that the client changes; in batches with more \
        than one statement per table, the copies of those.",
    source: "Cassandra documentation, BATCH: atomicity across tables that hold the same data; Getting started with data modelling: keep denormalised tables in step",
    cause: Some(Cause::COPIES),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, run, write};
    use cqlens_cql::plan::StatementKind;
    use cqlens_window::{CopiedWrites, Window};
    use serde_json::json;

    /// So many writes of each table, which were all looked at, with so many pairs of neighbours.
    fn window(writes: &[u64], pairs: u64, one_failed: u64) -> Window {
        let inserts = writes.iter().zip(["by_name", "by_email", "by_phone"]);
        let inserts = inserts.map(|(times, table)| {
            let cql = format!("INSERT INTO shop.{table} (a, b, c) VALUES (?, ?, ?)");
            write(&cql, StatementKind::Insert, &[], *times)
        });
        let mut window = amid(inserts);
        for (id, &writes) in (1..).zip(writes) {
            let copied = window.sequences.copies.entry(PatternId(id)).or_default();
            copied.writes = writes;
            let mut apart_us = Distribution::default();
            apart_us.record_n(800, pairs - pairs / 20);
            apart_us.record_n(9_000, pairs / 20);
            let pairs = WritePairs {
                pairs,
                one_failed,
                apart_us,
                ..WritePairs::default()
            };
            copied.pairs.insert(PatternId(id + 1), pairs);
        }
        // What is paired with nothing that there is.
        window
            .sequences
            .copies
            .entry(PatternId(9))
            .or_insert_with(CopiedWrites::default);
        window
    }

    #[test]
    fn copies_of_which_none_failed_are_said_once_of_an_application() {
        let tables = ["a", "a_by_name", "b", "b_by_name", "c", "c_by_name"];
        let inserts = tables.map(|table| {
            let cql = format!("INSERT INTO shop.{table} (a, b, c) VALUES (?, ?, ?)");
            let mut insert = write(&cql, StatementKind::Insert, &[], 200);
            insert.count_client("orders 1.0 (driver) 10.0.0.1", 200);
            insert
        });
        let mut window = amid(inserts);
        for first in [1, 3, 5] {
            let copied = window.sequences.copies.entry(PatternId(first)).or_default();
            copied.writes = 200;
            let pairs = WritePairs {
                pairs: 200,
                one_failed: u64::from(first == 5),
                ..WritePairs::default()
            };
            copied.pairs.insert(PatternId(first + 1), pairs);
            let second = window.sequences.copies.entry(PatternId(first + 1));
            second.or_default().writes = 200;
        }
        let findings = run(&DualWriteWithoutBatch, &window).findings;
        let said: Vec<_> = findings
            .iter()
            .map(|finding| (finding.severity, &*finding.title))
            .collect();
        assert_eq!(
            said,
            [
                (
                    Severity::Low,
                    "The client writes the same values to `shop.c` and `shop.c_by_name` without a logged \
                     batch, 3.3 a second; only one of the writes succeeded 1 time"
                ),
                (
                    Severity::Info,
                    "`orders` writes the same values to 2 sets of tables without a logged batch, 6.7 a second"
                )
            ]
        );
        assert_eq!(
            evidence(&findings[1], "copied_tables"),
            json!([
                {"tables": ["shop.a", "shop.a_by_name"], "operations": 200},
                {"tables": ["shop.b", "shop.b_by_name"], "operations": 200},
            ])
        );
        assert_eq!(findings[1].subject.as_deref(), Some("orders"));
    }

    fn found(window: &Window) -> Option<Finding> {
        run(&DualWriteWithoutBatch, window).findings.pop()
    }

    fn evidence(finding: &Finding, name: &str) -> serde_json::Value {
        let of = finding.evidence.iter().find(|(key, _)| *key == name);
        serde_json::to_value(&of.unwrap().1).unwrap()
    }

    #[test]
    fn each_table_lacks_what_the_other_one_has_alone() {
        let finding = found(&window(&[200, 190], 190, 0)).unwrap();
        assert_eq!(finding.severity, Severity::Info);
        let missing = json!({"shop.by_email": 10, "shop.by_name": 0});
        assert_eq!(evidence(&finding, "missing_by_table"), missing);
        assert_eq!(evidence(&finding, "without_the_other"), 10);
        let finding = found(&window(&[200, 190], 180, 0)).unwrap();
        let missing = json!({"shop.by_email": 20, "shop.by_name": 10});
        assert_eq!(evidence(&finding, "missing_by_table"), missing);
        assert_eq!(evidence(&finding, "without_the_other"), 30);
        let finding = found(&window(&[200, 200, 185], 185, 0)).unwrap();
        let missing = json!({"shop.by_email": 0, "shop.by_name": 0, "shop.by_phone": 15});
        assert_eq!(evidence(&finding, "missing_by_table"), missing);
    }

    #[test]
    fn failures_and_the_time_between_writes_are_told() {
        let finding = found(&window(&[200, 200], 200, 3)).unwrap();
        assert_eq!(finding.severity, Severity::Medium);
        assert_eq!(
            finding.title,
            "The client writes the same values to `shop.by_email` and `shop.by_name` without a logged batch, \
             3.3 a second; only one of the writes succeeded 3 times"
        );
        assert_eq!(evidence(&finding, "only_one_succeeded"), 3);
        assert_eq!(evidence(&finding, "operations_looked_at"), 200);
        let apart = |name| evidence(&finding, name).as_u64().unwrap();
        assert!(
            (780..=820).contains(&apart("apart_p50_us")),
            "{}",
            apart("apart_p50_us")
        );
        assert!(
            (8_800..=9_200).contains(&apart("apart_p99_us")),
            "{}",
            apart("apart_p99_us")
        );
        let finding = found(&window(&[200, 200], 200, 1)).unwrap();
        assert_eq!(finding.severity, Severity::Low);
    }

    #[test]
    fn pairs_of_a_few_writes_and_pairs_by_chance_are_no_copies() {
        assert_eq!(found(&window(&[400, 400], 199, 0)), None);
        assert_eq!(found(&window(&[49, 49], 49, 0)), None);
        let mut by_chance = window(&[200, 200], 200, 0);
        let pairs = by_chance
            .sequences
            .copies
            .values_mut()
            .flat_map(|writes| writes.pairs.values_mut());
        pairs.for_each(|pairs| pairs.late = 41);
        assert_eq!(found(&by_chance), None);
    }
}
