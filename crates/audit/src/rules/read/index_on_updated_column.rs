//! Indexes on columns whose values are changed all the time: the index keeps an entry for each of them.

use cqlens_cql::syntax::ast::Modification;

use super::{
    About, Findings, Severity, Threshold,
    index::{Indexed, indexed},
};
use crate::{
    number,
    rules::{
        Finding, Rule,
        figures::{OFTEN_PER_SECOND, STEADY_PER_HOUR, often, per_hour, share, user_writes},
        statement::writes_of,
    },
    window::{Pattern, PatternId, Window},
};
use cqlens_cql::schema::Schema;

pub(in crate::rules) struct IndexOnUpdatedColumn;

impl Rule for IndexOnUpdatedColumn {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, window: &Window, schema: &Schema, found: &mut Findings<'_>) {
        for indexed in indexed(window, schema) {
            if let Some(severity) = severity(found, &indexed, window) {
                found.push(finding(severity, &indexed, window));
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

fn severity(found: &Findings<'_>, indexed: &Indexed<'_>, window: &Window) -> Option<Severity> {
    let per_hour = per_hour(updates(indexed), window);
    let share = updates_share(indexed);
    let reached = |threshold: &Threshold| share >= found.threshold(&ABOUT, threshold);
    if per_hour < found.threshold(&ABOUT, &STEADY_PER_HOUR) || !reached(&SOME_SHARE) {
        return None;
    }
    let severity = if per_hour >= found.threshold(&ABOUT, &OFTEN_PER_SECOND) * 3_600.0 {
        Severity::High
    } else if reached(&MANY_SHARE) {
        Severity::Medium
    } else {
        Severity::Low
    };
    Some(indexed.of_class(severity))
}

fn finding(severity: Severity, indexed: &Indexed<'_>, window: &Window) -> Finding {
    let (column, updates) = (indexed.column, updates(indexed));
    let title = format!(
        "The index on {} follows a column that is changed all the time: {} of its writes are updates{}",
        indexed.title(),
        number::percent(updates_share(indexed)),
        often(updates, window)
    );
    Finding::on_all(&ABOUT, severity, writes(indexed, window), window)
        .of_table(&indexed.name.table)
        .title(title)
        .first("rows_written", column.rows.estimate())
        .first("reads_of_the_index", column.reads + column.reads_in_partition)
        .first("inserts_of_the_column", column.inserts)
        .first("updates_of_the_column", updates)
        .first("updates_share", updates_share(indexed))
        .first("index", indexed.index.name.clone())
}

/// The statements that change the column.
fn writes<'w>(indexed: &Indexed<'_>, window: &'w Window) -> Vec<(PatternId, &'w Pattern)> {
    let column = indexed.name.column.as_str();
    let changes = |modification: &Modification<'_>| match modification {
        Modification::Insert(_) => false,
        Modification::Update(update) => update
            .assignments
            .iter()
            .any(|assignment| assignment.column.as_str() == column),
        Modification::Delete(delete) => delete
            .deletions
            .iter()
            .any(|deletion| deletion.column.as_str() == column),
    };
    let all = user_writes(window);
    all.filter(|(_, pattern)| writes_of(&pattern.head, &indexed.name.table).iter().any(changes))
        .collect()
}

const SOME_SHARE: Threshold = Threshold {
    name: "some_share",
    unit: "of the column's writes",
    default: 0.3,
    origin: "own choice: every second or third row is changed after it was made",
};

const MANY_SHARE: Threshold = Threshold {
    name: "many_share",
    unit: "of the column's writes",
    default: 0.5,
    origin: "own choice: each row is changed at least once",
};

const ABOUT: About = About {
    id: "index-on-updated-column",
    group: "read shape",
    summary: "The values of an indexed column are changed all the time, and the index keeps an entry for each of them.",
    why: "\
        Cassandra does not read before it writes, so a changed value gets a new entry in the index while the \
        old one stays. In a legacy index the old entry is found stale by a read that fetches the row for \
        nothing, and only then deleted: a tombstone in the index's hidden table. Each value that changes to \
        and fro leaves entries in the same index partition. A storage-attached index drops old entries when \
        files are compacted, and checks the rows that it finds until then.",
    fix: "\
        Do not index what changes: keep the state in a table of its own whose partition key is the state and a \
        bucket, or ask by what stays (an owner, a day) and filter in the client. Then drop the index.",
    before: "CREATE INDEX ON lab.orders (status);\nUPDATE lab.orders SET status = ? WHERE id = ?;",
    after: "CREATE TABLE lab.open_orders (day date, id uuid, lab text, PRIMARY KEY ((day), id));\n\
            INSERT INTO lab.open_orders (day, id, lab) VALUES (?, ?, ?);\n\
            SELECT * FROM lab.open_orders WHERE day = ?;",
    severity: "\
        From `some_share` of the column's writes and `steady_per_hour` updates an hour: low, medium from \
        `many_share`, high from `often_per_second` updates a second; one step down for storage-attached \
        indexes.",
    thresholds: &[SOME_SHARE, MANY_SHARE, STEADY_PER_HOUR, OFTEN_PER_SECOND],
    needs: "\
        The schema with its indexes. INSERTs count as updates where their row was written before in the same \
        window; that is counted by a sketch with an error of 2.3 %.",
    source: "Cassandra documentation, secondary indexes: when not to use an index (frequently updated columns)",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        rules::{
            read::index::testing::{schema, window},
            testing::{run_with, write},
        },
        window::PatternId,
    };
    use cqlens_cql::plan::StatementKind;

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
    fn severity_follows_the_share_and_the_rate_of_updates() {
        assert_eq!(severity(&updated("status", 140, 59)), None);
        assert_eq!(severity(&updated("status", 140, 60)), Some(Severity::Low));
        assert_eq!(severity(&updated("status", 60, 60)), Some(Severity::Medium));
        assert_eq!(severity(&updated("status", 60, 360_000)), Some(Severity::High));
        assert_eq!(severity(&updated("kind", 60, 60)), Some(Severity::Low));
    }

    #[test]
    fn a_column_that_stays_is_fine() {
        assert_eq!(severity(&updated("status", 1_000, 0)), None);
        assert_eq!(severity(&updated("status", 1_000, 60)), None);
    }

    #[test]
    fn inserts_of_known_rows_are_updates() {
        let mut window = updated("status", 100, 0);
        for column in window.indexed.values_mut() {
            column.inserts = 300;
            column.known = 300;
        }
        assert_eq!(severity(&window), Some(Severity::Medium));
    }

    #[test]
    fn the_finding_names_the_statements_that_change_the_column() {
        let judgement = run_with(&IndexOnUpdatedColumn, &updated("status", 60, 60), &schema());
        let finding = &judgement.findings[0];
        assert_eq!(
            finding.title,
            "The index on `lab.orders.status` follows a column that is changed all the time: \
             50 % of its writes are updates, 1 a minute"
        );
        assert_eq!(finding.patterns, [PatternId(9)]);
    }
}
