//! Indexes on columns whose values are changed all the time: the index keeps an entry for each of them.

use cqlens_cql::syntax::ast::{InsertSource, Modification};

use super::{
    About, Findings, Impact, Severity, Threshold,
    index::{Indexed, indexed},
};
use crate::{
    Cause, Context, Finding, Rule,
    figures::{is_steady, often, share},
    statement::patterns,
};
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct IndexOnUpdatedColumn;

impl Rule for IndexOnUpdatedColumn {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let schema = context.schema;
        for indexed in indexed(context, schema) {
            if let Some(severity) = severity(found, &indexed, context) {
                found.push(finding(severity, &indexed, context));
            }
        }
    }
}

/// Writes that met a value: UPDATEs, and INSERTs of rows that had been written before.
fn updates(indexed: &Indexed<'_>) -> u64 {
    let column = indexed.column;
    let met_a_row = column.known.saturating_sub(column.rows.at_most());
    column.updates.max(met_a_row)
}

fn updates_share(indexed: &Indexed<'_>) -> f64 {
    share(updates(indexed), indexed.column.inserts + indexed.column.updates)
}

fn severity(found: &Findings<'_>, indexed: &Indexed<'_>, context: &Context<'_>) -> Option<Severity> {
    let share = updates_share(indexed);
    let reached = |threshold: &Threshold| share >= found.threshold(&ABOUT, threshold);
    if !is_steady(found, updates(indexed), context.watch_table(&indexed.name.table)) || !reached(&SOME_SHARE)
    {
        return None;
    }
    let each = if reached(&MANY_SHARE) {
        Severity::Medium
    } else {
        Severity::Low
    };
    let impact = Impact::each(indexed.of_class(each));
    let writes = writes(indexed, context);
    let impact = writes
        .iter()
        .fold(impact, |impact, (_, pattern)| impact.of(pattern));
    Some(context.severity(found, &impact))
}

fn finding(severity: Severity, indexed: &Indexed<'_>, context: &Context<'_>) -> Finding {
    let (column, updates) = (indexed.column, updates(indexed));
    let title = format!(
        "The index on {} covers a frequently updated column: {} of its writes change an existing value{}",
        indexed.title(),
        number::percent(updates_share(indexed)),
        often(updates, context.watch_table(&indexed.name.table))
    );
    let finding = Finding::on_all(&ABOUT, severity, writes(indexed, context), context);
    let finding = if context.is_scylladb() {
        finding.advice(GLOBAL)
    } else {
        finding
    };
    finding
        .of_table(&indexed.name.table)
        .about(indexed.name.column.clone())
        .title(title)
        .first("rows_written", column.rows.estimate())
        .first("reads_of_the_index", column.reads + column.reads_in_partition)
        .first("inserts_of_the_column", column.inserts)
        .first("updates_of_the_column", updates)
        .first("updates_share", updates_share(indexed))
        .first("index", indexed.index.name.clone())
}

/// The statements that change the column.
fn writes<'w>(indexed: &Indexed<'_>, context: &Context<'w>) -> Vec<(PatternId, &'w Pattern)> {
    let column = indexed.name.column.as_str();
    let by_inserts = updates(indexed) > indexed.column.updates;
    let changes = |modification: &Modification<'_>| match modification {
        Modification::Insert(insert) => {
            by_inserts
                && matches!(&insert.source, InsertSource::Values { columns, .. }
                    if columns.iter().any(|name| name.as_str() == column))
        }
        Modification::Update(update) => update
            .assignments
            .iter()
            .any(|assignment| assignment.column.as_str() == column),
        Modification::Delete(delete) => delete
            .deletions
            .iter()
            .any(|deletion| deletion.column.as_str() == column),
    };
    let writes = context.writes_to(&indexed.name.table).iter();
    patterns(writes.filter(|write| changes(&write.modification)))
}

const GLOBAL: &str = "\
    ScyllaDB stores the index as a view: each write to the row reads it first, deletes its old entry and \
    writes a new one, mostly on other nodes. Do not index a value that changes all the time: query by a \
    stable column and filter the few rows in the client, or keep the current state in a separate table.";

const SOME_SHARE: Threshold = Threshold {
    name: "some_share",
    unit: "of the column's writes",
    default: 0.3,
    origin: "cqlens default: every second or third row is changed after it was written",
};

const MANY_SHARE: Threshold = Threshold {
    name: "many_share",
    unit: "of the column's writes",
    default: 0.5,
    origin: "cqlens default: each row is changed at least once",
};

const ABOUT: About = About {
    id: "index-on-updated-column",
    group: "read shape",
    summary: "An indexed column changes all the time, and the index keeps an entry for each value.",
    why: "Cassandra does not read before it writes, so a changed value gets a new index entry while the old \
        one stays. In a legacy index, the stale entry is only found and deleted by a read that fetches the \
        row for nothing, and the delete leaves a tombstone in the index's hidden table. Each value that \
        changes back and forth leaves entries in the same index partitions. A storage-attached index drops \
        stale entries when SSTables are compacted, and until then checks the rows that it finds.",
    fix: "\
        Do not index a column that changes: keep the state in a separate table, with the state and a bucket \
        as its partition key, or query by a stable column (an owner, a day) and filter in the client. Then \
        drop the index.",
    fix_in_short: "Table by this column",
    before: "CREATE INDEX ON lab.orders (status);\nUPDATE lab.orders SET status = ? WHERE id = ?;",
    after: "CREATE TABLE lab.open_orders (day date, id uuid, lab text, PRIMARY KEY ((day), id));\n\
            INSERT INTO lab.open_orders (day, id, lab) VALUES (?, ?, ?);\n\
            SELECT * FROM lab.open_orders WHERE day = ?;",
    severity: "\
        If updates come steadily: low from `some_share` of the column's writes, medium from `many_share`; \
        one step down for storage-attached indexes.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[SOME_SHARE, MANY_SHARE],
    needs: "\
        The schema with its indexes. INSERTs count as updates if their row was written before in the same \
        window; this is counted by a sketch with an error of 2.3 %.",
    source: "Cassandra documentation, secondary indexes: when not to use an index (frequently updated columns)",
    cause: Some(Cause::NO_TABLE_FOR_THE_QUERY),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        read::index::testing::{schema, window},
        testing::{run_with, write},
    };
    use cqlens_cql::plan::StatementKind;
    use cqlens_window::PatternId;
    use cqlens_window::Window;

    const UPDATE: &str = "UPDATE lab.orders SET status = ? WHERE id = ?";

    fn updated(column: &str, inserts: u64, updates: u64) -> Window {
        let mut window = window(column, inserts, inserts, 0);
        let update = UPDATE.replace("status", column);
        let pattern = write(&update, StatementKind::Update, &[], updates);
        window.patterns.insert(PatternId(9), pattern);
        for column in window.indexed.values_mut() {
            column.updates = updates;
        }
        window
    }

    fn severity(window: &Window) -> Option<Severity> {
        let judgement = run_with(&IndexOnUpdatedColumn, window, &schema());
        judgement.findings.first().map(|finding| finding.severity)
    }

    #[test]
    fn severity_follows_the_share_of_updates_where_they_come_steadily() {
        assert_eq!(severity(&updated("status", 10, 9)), None);
        assert_eq!(severity(&updated("status", 1_400, 600)), Some(Severity::Low));
        assert_eq!(severity(&updated("status", 600, 600)), Some(Severity::Medium));
        assert_eq!(severity(&updated("kind", 600, 600)), Some(Severity::Low));
    }

    #[test]
    fn a_column_that_stays_is_fine() {
        assert_eq!(severity(&updated("status", 1_000, 0)), None);
        assert_eq!(severity(&updated("status", 1_000, 60)), None);
    }

    #[test]
    fn inserts_of_known_rows_are_updates() {
        let mut window = updated("status", 300, 0);
        for column in window.indexed.values_mut() {
            column.inserts = 900;
            column.known = 900;
        }
        assert_eq!(severity(&window), Some(Severity::Medium));
    }

    #[test]
    fn the_finding_names_the_statements_that_change_the_column() {
        let judgement = run_with(&IndexOnUpdatedColumn, &updated("status", 60, 60), &schema());
        let finding = &judgement.findings[0];
        assert_eq!(
            finding.title,
            "The index on `lab.orders.status` covers a frequently updated column: \
             50 % of its writes change an existing value, 1 a second"
        );
        assert_eq!(finding.patterns, [PatternId(9)]);
    }
}
