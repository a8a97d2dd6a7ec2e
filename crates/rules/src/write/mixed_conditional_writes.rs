//! Columns that are written with and without conditions.

use std::collections::BTreeSet;

use super::{About, Findings, Severity};
use crate::{
    Cause, Context, Finding, Rule,
    application::{Patterns, impact, sum},
    figures::often,
    statement::{TableWrite, patterns},
};
use cqlens_cql::{
    schema::TableName,
    syntax::ast::{If, InsertSource, Modification},
};
use cqlens_window::number;

pub(crate) struct MixedConditionalWrites;

impl Rule for MixedConditionalWrites {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        for (name, writes) in context.writes() {
            let Some(table) = context.schema.table(&name.keyspace, &name.table) else {
                continue;
            };
            let (conditional, plain): (Vec<_>, Vec<_>) =
                writes.iter().partition(|write| write.is_conditional());
            if conditional.is_empty() || plain.is_empty() {
                continue;
            }
            let outside = table.columns.iter().filter(|column| !column.is_primary_key());
            let outside: BTreeSet<_> = outside.map(|column| column.name.as_str()).collect();
            let guarded: BTreeSet<_> = conditional
                .iter()
                .flat_map(|write| columns(write, &outside))
                .collect();
            let beside = plain
                .into_iter()
                .filter(|write| !columns(write, &outside).is_disjoint(&guarded));
            let beside = patterns(beside);
            if sum(&beside, |pattern| pattern.count) > 0 {
                found.push(finding(found, name, (beside, patterns(conditional)), context));
            }
        }
    }
}

/// Those of the columns outside the key that a write changes or asks for.
fn columns<'w>(write: &'w TableWrite<'_>, outside: &BTreeSet<&'w str>) -> BTreeSet<&'w str> {
    let mut names = BTreeSet::new();
    let whole_row = match &write.modification {
        Modification::Insert(insert) => {
            if let InsertSource::Values { columns, .. } = &insert.source {
                names.extend(columns.iter().map(|column| column.as_str()));
            }
            // What asks whether there is a row asks for all of it.
            names.insert(ROW);
            insert.if_not_exists || matches!(insert.source, InsertSource::Json { .. })
        }
        Modification::Update(update) => {
            let assigned = update.assignments.iter();
            names.extend(assigned.map(|assignment| assignment.column.as_str()));
            names.extend(asked(update.condition.as_ref()));
            update.condition == Some(If::Exists)
        }
        Modification::Delete(delete) => {
            let deleted = delete.deletions.iter();
            names.extend(deleted.map(|deletion| deletion.column.as_str()));
            names.extend(asked(delete.condition.as_ref()));
            delete.deletions.is_empty() || delete.condition == Some(If::Exists)
        }
    };
    match whole_row {
        true => outside.iter().copied().chain([ROW]).collect(),
        false => {
            names.retain(|name| *name == ROW || outside.contains(name));
            names
        }
    }
}

/// Stands for whether there is a row, which a table of nothing but its key has, too.
const ROW: &str = "";

fn asked<'c>(condition: Option<&'c If<'_>>) -> impl Iterator<Item = &'c str> {
    let relations = match condition {
        Some(If::Conditions(relations)) => relations.as_slice(),
        _ => &[],
    };
    let columns = relations.iter().flat_map(|relation| relation.subject.columns());
    columns.map(|column| column.as_str())
}

fn finding(
    found: &Findings<'_>,
    name: &TableName,
    (plain, conditional): (Patterns<'_>, Patterns<'_>),
    context: &Context<'_>,
) -> Finding {
    let [without, with] = [&plain, &conditional].map(|writes| sum(writes, |pattern| pattern.count));
    let severity = context.severity(found, &impact(Severity::Low, &plain).at_most(Severity::Medium));
    let title = match context.is_text() {
        true => format!("The same columns of `{name}` are written with IF and without"),
        false => format!(
            "The same columns of `{name}` are written with IF ({}) and without{}",
            number::plural(with, "time", "times"),
            often(without, context.watch_table(name))
        ),
    };
    Finding::on_all(
        &ABOUT,
        severity,
        plain.into_iter().chain(conditional).collect(),
        context,
    )
    .of_table(name)
    .title(title)
    .first("without_condition", without)
    .first("with_condition", with)
}

const ABOUT: About = About {
    id: "mixed-conditional-writes",
    group: "writes",
    summary: "The same columns are written both with and without conditions.",
    why: "A conditional write gets its timestamp from the Paxos round, a plain one from the client's or \
        coordinator's clock. A plain write does not wait for rounds in progress: it may be overwritten by a \
        condition that was decided earlier, or let one succeed on a value that has already been replaced, \
        and no error is raised.",
    fix: "\
        Write such columns only with conditions, even when deleting or renewing them (`IF EXISTS`, `IF owner \
        = ?`), or always without. Put data that needs no condition into other columns.",
    fix_in_short: "Always write with IF",
    before: "INSERT INTO shop.locks (name, owner) VALUES (?, ?) IF NOT EXISTS;\nUPDATE shop.locks SET owner = ? WHERE name = ?;",
    after: "INSERT INTO shop.locks (name, owner) VALUES (?, ?) IF NOT EXISTS;\n\
            UPDATE shop.locks SET owner = ? WHERE name = ? IF owner = ?;",
    severity: "Low, medium at most.",
    severities: &[Severity::Low, Severity::Medium],
    thresholds: &[],
    needs: "The schema and the statements' texts. Whether the same rows are written is not checked.",
    source: "Cassandra documentation, lightweight transactions: do not mix with plain writes; Cassandra class `StorageProxy.cas`",
    cause: Some(Cause::CONDITIONS),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, run_with, write};
    use cqlens_cql::{
        plan::{Flag, StatementKind},
        schema::Schema,
    };
    use cqlens_window::Pattern;

    fn findings(statements: &[&str]) -> Vec<Finding> {
        let schema = Schema::from_cql(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.locks (name text PRIMARY KEY, owner text, note text);
             CREATE TABLE shop.names (name text PRIMARY KEY);",
        )
        .unwrap();
        let pattern = |cql: &&str| -> Pattern {
            if cql.starts_with("BEGIN") {
                return write(cql, StatementKind::Batch, &[Flag::Lwt], 60);
            }
            let kind = match cql.split(' ').next() {
                Some("INSERT") => StatementKind::Insert,
                Some("UPDATE") => StatementKind::Update,
                _ => StatementKind::Delete,
            };
            write(cql, kind, &[], 60)
        };
        run_with(
            &MixedConditionalWrites,
            &amid(statements.iter().map(pattern)),
            &schema,
        )
        .findings
    }

    const CLAIM: &str = "INSERT INTO shop.locks (name, owner) VALUES (?, ?) IF NOT EXISTS";

    #[test]
    fn a_lock_that_is_renewed_or_freed_without_a_condition_is_found() {
        for plain in [
            "UPDATE shop.locks SET owner = ? WHERE name = ?",
            "DELETE FROM shop.locks WHERE name = ?",
        ] {
            let found = findings(&[CLAIM, plain]);
            assert_eq!(found.len(), 1, "{plain}");
            assert_eq!(
                found[0].title,
                "The same columns of `shop.locks` are written with IF (60 times) and without, 1 a second"
            );
            assert_eq!(found[0].severity, Severity::Low);
        }
    }

    #[test]
    fn conditions_throughout_and_columns_apart_are_fine() {
        let freed = "DELETE FROM shop.locks WHERE name = ? IF owner = ?";
        assert_eq!(findings(&[CLAIM, freed]), []);
        let renewed = "UPDATE shop.locks SET owner = ? WHERE name = ? IF owner = ?";
        let noted = "UPDATE shop.locks SET note = ? WHERE name = ?";
        assert_eq!(findings(&[renewed, noted]), []);
        assert_eq!(findings(&[noted]), []);
    }

    #[test]
    fn a_batch_with_a_condition_is_decided_as_a_whole() {
        let batch = "BEGIN BATCH INSERT INTO shop.locks (name, owner) VALUES (?, ?) IF NOT EXISTS; \
                     UPDATE shop.locks SET note = ? WHERE name = ?; APPLY BATCH";
        assert_eq!(findings(&[batch]), []);
        assert_eq!(findings(&[batch, CLAIM]), []);
    }

    #[test]
    fn a_table_of_keys_has_rows_that_are_claimed_and_freed() {
        let claim = "INSERT INTO shop.names (name) VALUES (?) IF NOT EXISTS";
        let freed = "DELETE FROM shop.names WHERE name = ?";
        assert_eq!(findings(&[claim, freed]).len(), 1);
        assert_eq!(
            findings(&[claim, "INSERT INTO shop.names (name) VALUES (?)"]).len(),
            1
        );
    }
}
