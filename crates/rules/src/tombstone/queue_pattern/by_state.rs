//! Queues by a state: rows stay where they are, and a column says which of them are still to be done.

use std::collections::{BTreeMap, BTreeSet};

use cqlens_cql::{
    plan::Flag,
    schema::{ColumnName, IndexClass, Table, TableName},
    syntax::ast::{AssignmentOperation, Modification, RelationOperator, Select},
};

use super::{ABOUT, by_share, takes_few};
use crate::{
    Context, Finding, Findings, Severity,
    application::Patterns,
    figures::{at_rate, is_steady, share},
    read::user_reads,
    severity::Impact,
    statement::{TableWrite, executions, patterns, selected, table_of},
};
use cqlens_window::{Pattern, PatternId, number};

/// Findings on tables of which a few rows in a state are read at a time, while rows are appended and change their
/// state all the time; but for `others`, of which it is known already that they are queues.
pub(super) fn findings(
    found: &Findings<'_>,
    others: &BTreeSet<TableName>,
    context: &Context<'_>,
) -> Vec<Finding> {
    let polls: Vec<_> = user_reads(context)
        .filter_map(|read| Poll::of(read, context))
        .collect();
    if polls.is_empty() {
        return Vec::new();
    }
    let mut by_table: BTreeMap<&TableName, Vec<&Poll<'_>>> = BTreeMap::new();
    for poll in &polls {
        by_table.entry(&poll.table).or_default().push(poll);
    }
    let mut findings = Vec::new();
    let tables = context.writes().iter();
    for (name, writes) in tables.filter(|(name, _)| !others.contains(*name)) {
        let Some(table) = context.schema.table(&name.keyspace, &name.table) else {
            continue;
        };
        let Some(mut columns) = by_table.remove(name) else {
            continue;
        };
        columns.sort_by(|one, other| one.column.cmp(&other.column));
        for polls in columns.chunk_by(|one, other| one.column == other.column) {
            if asks_for_many_states(name, polls, context) {
                continue;
            }
            let queue = StateQueue::of(name, table, polls, writes);
            findings.extend(queue.and_then(|queue| queue.finding(found, context)));
        }
    }
    findings
}

/// A read of a few rows whose column has a value.
struct Poll<'a> {
    table: TableName,
    column: String,
    id: PatternId,
    pattern: &'a Pattern,
}

impl<'a> Poll<'a> {
    /// Of reads through an index, or that drop rows which they have read: by whatever column is no part of a key.
    fn of((id, pattern): (PatternId, &'a Pattern), context: &Context<'_>) -> Option<Self> {
        let passes_others = pattern.is(Flag::Index) || pattern.is(Flag::FilteringNeeded);
        let table = table_of(pattern).filter(|_| passes_others && takes_few(pattern))?;
        let definition = context.schema.table(&table.keyspace, &table.table)?;
        Some(Self {
            column: state(&selected(id, context)?, definition)?,
            table,
            id,
            pattern,
        })
    }
}

/// Workers ask for what is to be done, and perhaps for what failed. Whoever asks for every state shows lists of rows, and
/// takes none of them away. Only of indexed columns is that known.
fn asks_for_many_states(name: &TableName, polls: &[&Poll<'_>], context: &Context<'_>) -> bool {
    polls.first().is_some_and(|poll| {
        let column = ColumnName {
            table: name.clone(),
            column: poll.column.clone(),
        };
        let indexed = context.window.indexed.get(&column);
        indexed.is_some_and(|indexed| indexed.asked.estimate() > MOST_STATES)
    })
}

/// Two: what is new, and what has failed before.
const MOST_STATES: u64 = 2;

/// The first column beside the key that has to have a value.
fn state(select: &Select<'_>, table: &Table) -> Option<String> {
    let equal = select
        .where_clause
        .relations
        .iter()
        .filter(|relation| relation.operator == RelationOperator::Equal);
    let mut columns = equal.flat_map(|relation| relation.subject.columns());
    let name = columns.find(|name| {
        let column = table.column(name.as_str());
        column.is_some_and(|column| !column.is_primary_key())
    })?;
    Some(name.as_str().to_owned())
}

struct StateQueue<'q, 'a> {
    name: &'q TableName,
    column: &'q str,
    /// How the column is indexed; none where rows are filtered.
    index: Option<&'q IndexClass>,
    polls: &'q [&'q Poll<'a>],
    changing: Patterns<'a>,
    appends: u64,
    changes: u64,
}

impl<'q, 'a> StateQueue<'q, 'a> {
    fn of(
        name: &'q TableName,
        table: &'q Table,
        polls: &'q [&'q Poll<'a>],
        writes: &[TableWrite<'a>],
    ) -> Option<Self> {
        let column = polls.first()?.column.as_str();
        let mut indexes = table.indexes.values();
        let index = indexes.find(|index| index.targets.iter().any(|target| target.column == column));
        let changing = || writes.iter().filter(|write| sets(write, column));
        Some(Self {
            name,
            column,
            index: index.map(|index| &index.class),
            polls,
            changing: patterns(changing()),
            appends: executions(writes.iter().filter(|write| write.is_insert())),
            changes: executions(changing()),
        })
    }

    fn reads(&self) -> u64 {
        self.polls.iter().map(|poll| poll.pattern.logical_reads).sum()
    }

    fn finding(self, found: &Findings<'_>, context: &Context<'_>) -> Option<Finding> {
        let each = [self.appends, self.reads(), self.changes];
        if each
            .iter()
            .any(|&times| !is_steady(found, times, context.watch_table(self.name)))
        {
            return None;
        }
        let each = self.of_class(by_share(found, share(self.changes, self.appends))?);
        let mut patterns = self.changing.clone();
        patterns.extend(self.polls.iter().map(|poll| (poll.id, poll.pattern)));
        let impact = patterns
            .iter()
            .fold(Impact::each(each), |impact, (_, pattern)| impact.of(pattern));
        let title = format!(
            "`{}` is used as a queue: {} appended, `{}` changed {}{}, and each read by it scans {}",
            self.name,
            number::plural(self.appends, "row", "rows"),
            self.column,
            number::plural(self.changes, "time", "times"),
            at_rate(self.changes, context.watch_table(self.name)),
            self.passed(),
        );
        let finding = Finding::on_all(&ABOUT, context.severity(found, &impact), patterns, context)
            .of_table(self.name)
            .about(self.column)
            .title(title)
            .advice(ADVICE)
            .first("reads", self.reads())
            .first("changes", self.changes)
            .first("appends", self.appends)
            .first("changes_of_appends_share", share(self.changes, self.appends))
            .first("state_column", self.column);
        Some(finding)
    }

    /// A storage-attached index has no tombstones, only entries that are out of date until they are compacted.
    fn of_class(&self, severity: Severity) -> Severity {
        match self.index {
            Some(IndexClass::Sai) => severity.lowered(),
            _ => severity,
        }
    }

    fn passed(&self) -> &'static str {
        match self.index {
            Some(IndexClass::Sai) => "stale index entries",
            Some(_) => "tombstones of its index",
            None => "completed rows",
        }
    }
}

/// Whether an UPDATE gives the column a value.
fn sets(write: &TableWrite<'_>, column: &str) -> bool {
    let Modification::Update(update) = &write.modification else {
        return false;
    };
    update.assignments.iter().any(|assignment| {
        assignment.column.as_str() == column && matches!(assignment.operation, AssignmentOperation::Set(_))
    })
}

const ADVICE: &str = "\
    Keep open work in a separate table with one partition per span of time, such as an hour: append there, \
    work through it in order from where the last read ended, and delete the partition once all of it is \
    done. Keep the state as a column of the base table, but do not query by it. Or use a queue: logs and \
    message brokers are made for this.";

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{
        testing::{amid, read, run_with, write},
        tombstone::QueuePattern,
    };
    use cqlens_cql::{footprint::PartitionClass, plan::StatementKind, schema::Schema};

    const POLL: &str = "SELECT id FROM work.tasks WHERE state = ? LIMIT 10";

    fn found(index: &str, poll: Pattern, changes: &str, times: u64) -> Vec<(Severity, String)> {
        found_of(1, index, poll, changes, times)
    }

    /// Where reads ask for so many distinct states.
    fn found_of(
        states: u64,
        index: &str,
        poll: Pattern,
        changes: &str,
        times: u64,
    ) -> Vec<(Severity, String)> {
        let schema = format!(
            "CREATE KEYSPACE work WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}};
             CREATE TABLE work.tasks (id uuid PRIMARY KEY, state text, owner text);
             {index}"
        );
        let insert = "INSERT INTO work.tasks (id, state) VALUES (?, ?)";
        let mut window = amid([
            poll,
            write(insert, StatementKind::Insert, &[], 600),
            write(changes, StatementKind::Update, &[], times),
        ]);
        let column = ColumnName {
            table: TableName {
                keyspace: "work".to_owned(),
                table: "tasks".to_owned(),
            },
            column: "state".to_owned(),
        };
        let asked = &mut window.indexed.entry(column).or_default().asked;
        (1..=states).for_each(|state| asked.insert(state.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let judgement = run_with(&QueuePattern, &window, &Schema::from_cql(&schema).unwrap());
        let findings = judgement.findings.into_iter();
        findings
            .map(|finding| (finding.severity, finding.title))
            .collect()
    }

    fn poll(flags: &[Flag]) -> Pattern {
        read(POLL, flags, PartitionClass::Index, 600)
    }

    const LEGACY: &str = "CREATE INDEX by_state ON work.tasks (state);";
    const SAI: &str = "CREATE INDEX by_state ON work.tasks (state) USING 'sai';";
    const DONE: &str = "UPDATE work.tasks SET state = ? WHERE id = ?";

    #[test]
    fn a_state_that_is_polled_through_an_index_makes_a_queue() {
        let flags = [Flag::Index, Flag::Limit];
        assert_eq!(
            found(LEGACY, poll(&flags), DONE, 600),
            [(
                Severity::Medium,
                "`work.tasks` is used as a queue: 600 rows appended, `state` changed 600 times, 10 a second, \
                 and each read by it scans tombstones of its index"
                    .to_owned()
            )]
        );
        assert_eq!(found(LEGACY, poll(&flags), DONE, 180)[0].0, Severity::Low);
        assert_eq!(found(LEGACY, poll(&flags), DONE, 179), []);
        assert_eq!(found(SAI, poll(&flags), DONE, 600)[0].0, Severity::Low);
    }

    #[test]
    fn what_filters_passes_the_rows_that_are_done() {
        let flags = [Flag::AllowFiltering, Flag::FilteringNeeded, Flag::Limit];
        let filtering = read(
            &format!("{POLL} ALLOW FILTERING"),
            &flags,
            PartitionClass::Scan,
            600,
        );
        let title = &found("", filtering, DONE, 600)[0].1;
        assert!(title.ends_with("each read by it scans completed rows"), "{title}");
    }

    #[test]
    fn rows_that_are_listed_by_any_state_are_no_queue() {
        let flags = [Flag::Index, Flag::Limit];
        assert_eq!(found_of(2, LEGACY, poll(&flags), DONE, 600).len(), 1);
        assert_eq!(found_of(3, LEGACY, poll(&flags), DONE, 600), []);
    }

    #[test]
    fn other_columns_whole_lists_and_rare_reads_make_no_queue() {
        let flags = [Flag::Index, Flag::Limit];
        let owner = "UPDATE work.tasks SET owner = ? WHERE id = ?";
        assert_eq!(found(LEGACY, poll(&flags), owner, 600), []);
        assert_eq!(found(LEGACY, poll(&[Flag::Index]), DONE, 600), []);
        let mut rare = poll(&flags);
        rare.logical_reads = 9;
        assert_eq!(found(LEGACY, rare, DONE, 600), []);
        let by_key = read(
            "SELECT id FROM work.tasks WHERE id = ? LIMIT 1",
            &[Flag::Limit],
            PartitionClass::Single,
            600,
        );
        assert_eq!(found(LEGACY, by_key, DONE, 600), []);
    }
}
