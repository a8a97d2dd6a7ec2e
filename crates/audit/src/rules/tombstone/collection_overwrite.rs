//! Collections that are written as a whole: each time a tombstone goes before the new elements.

use cqlens_cql::syntax::ast::{AssignmentOperation, InsertSource, Modification};

use crate::{
    number,
    rules::{
        About, Context, Finding, Findings, Rule, Severity,
        figures::{often, table, user_writes},
        severity::Impact,
        statement::modifications,
    },
    window::{Pattern, PatternId},
};
use cqlens_cql::{plan::StatementKind, schema::Schema};

pub(in crate::rules) struct CollectionOverwrite;

impl Rule for CollectionOverwrite {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn check(&self, context: &Context<'_>, found: &mut Findings<'_>) {
        let mut unknown = 0;
        for (id, pattern) in user_writes(context) {
            match overwritten((id, pattern), context) {
                None => unknown += pattern.count,
                Some(columns) if columns.is_empty() => {}
                Some(columns) => {
                    // Most INSERTs make a new row, where the tombstone covers nothing.
                    let impact = if pattern.head.kind == StatementKind::Insert {
                        Impact::each(Severity::Info).at_most(Severity::Info)
                    } else {
                        Impact::each(Severity::Low).at_most(Severity::Medium)
                    };
                    let impact = impact.of(pattern);
                    let severity = context.severity(found, &impact);
                    found.push(finding(severity, (id, pattern), &columns, context).weighing(impact));
                }
            }
        }
        if unknown > 0 {
            let writes = number::plural(unknown, "write", "writes");
            let text =
                format!("of {writes} the tables are not known, and so neither which columns are collections");
            found.blind(&ABOUT, text);
        }
    }
}

/// The collections that a statement sets as a whole; none where a table is not known.
fn overwritten((id, pattern): (PatternId, &Pattern), context: &Context<'_>) -> Option<Vec<String>> {
    let Some(statement) = context.statement(id) else {
        return Some(Vec::new());
    };
    let mut columns = Vec::new();
    for modification in modifications(&statement) {
        for column in collections_set(&modification, pattern.head.keyspace.as_deref(), context.schema)? {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
    }
    Some(columns)
}

/// The collections that it sets as a whole; none where it sets something and the table is not known.
pub(super) fn collections_set(
    modification: &Modification<'_>,
    keyspace: Option<&str>,
    schema: &Schema,
) -> Option<Vec<String>> {
    let mut set = set_columns(modification);
    if set.is_empty() {
        return Some(set);
    }
    let name = modification.table();
    let table = schema.table(name.keyspace_or(keyspace)?, name.name.as_str())?;
    // Frozen ones are single values: they are replaced without a tombstone.
    set.retain(|column| {
        let column = table.column(column);
        column.is_some_and(|column| column.data_type.is_multi_cell())
    });
    Some(set)
}

/// The columns that a statement gives a new value.
fn set_columns(modification: &Modification<'_>) -> Vec<String> {
    match modification {
        Modification::Insert(insert) => match &insert.source {
            InsertSource::Values { columns, .. } => {
                columns.iter().map(|column| column.as_str().to_owned()).collect()
            }
            InsertSource::Json { .. } => Vec::new(),
        },
        Modification::Update(update) => update
            .assignments
            .iter()
            .filter(|assignment| matches!(assignment.operation, AssignmentOperation::Set(_)))
            .map(|assignment| assignment.column.as_str().to_owned())
            .collect(),
        Modification::Delete(_) => Vec::new(),
    }
}

fn finding(
    severity: Severity,
    (id, pattern): (PatternId, &Pattern),
    columns: &[String],
    context: &Context<'_>,
) -> Finding {
    let names: Vec<_> = columns.iter().map(|column| format!("`{column}`")).collect();
    let noun = if columns.len() == 1 {
        "the collection"
    } else {
        "the collections"
    };
    let title = format!(
        "Writes to {} replace {noun} {} as a whole{}",
        table(pattern),
        names.join(", "),
        often(pattern.count, context.watch(pattern))
    );
    let tombstones = pattern.count.saturating_mul(columns.len() as u64);
    Finding::on(&ABOUT, severity, (id, pattern), context)
        .title(title)
        .first("evidence_level", "inferred from writes")
        .first("tombstones_written", tombstones)
        .first("collections", columns.join(", "))
}

const ABOUT: About = About {
    id: "collection-overwrite",
    group: "tombstones",
    summary: "A write replaces a collection as a whole, which leaves a tombstone each time.",
    why: "\
        The elements of a list, set or map are cells of their own. To replace them Cassandra does not look \
        what is there: it writes a range tombstone over the old elements and the new elements after it. That \
        also happens in an INSERT of a row that did not exist. Every read of the row passes these tombstones \
        until they are compacted away, and they keep the row from being answered from one file.",
    fix: "\
        Add and remove elements (`tags = tags + ?`) where the collection changes, use `frozen<…>` where it is \
        always written as a whole, or leave the column out of an INSERT that has nothing to say about it.",
    before: "CREATE TABLE shop.users (id uuid PRIMARY KEY, name text, tags set<text>);\nUPDATE shop.users SET tags = ? WHERE id = ?;",
    after: "CREATE TABLE shop.tagged_users (id uuid PRIMARY KEY, name text, tags frozen<set<text>>);\n\
            UPDATE shop.tagged_users SET tags = ? WHERE id = ?;",
    severity: "\
        Low, medium at most; info for INSERTs, most of which make a row that is new. Nothing for frozen \
        collections and for elements that are added or removed.",
    thresholds: &[],
    needs: "\
        The table's schema. It is inferred from writes: INSERT … JSON and collections that are bound as null \
        or left unset are not told apart.",
    source: "\
        Cassandra class `Lists.Setter` (and those of sets and maps), `setComplexDeletionTimeForOverwrite`; \
        Cassandra documentation, collections",
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::rules::testing::{amid, run, run_with, window, write};
    use cqlens_cql::plan::StatementKind;

    fn findings(cql: &str, times: u64) -> Vec<Finding> {
        let schema = Schema::from_cql(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.users (id int PRIMARY KEY, name text, tags set<text>, logins list<int>, fixed frozen<set<text>>);",
        )
        .unwrap();
        let kind = if cql.starts_with("INSERT") {
            StatementKind::Insert
        } else {
            StatementKind::Update
        };
        let pattern = write(cql, kind, &[], times);
        run_with(&CollectionOverwrite, &amid([pattern]), &schema).findings
    }

    fn severity(cql: &str, times: u64) -> Option<Severity> {
        findings(cql, times).first().map(|finding| finding.severity)
    }

    #[test]
    fn whole_collections_are_low_and_new_rows_info() {
        for cql in [
            "UPDATE shop.users SET tags = ? WHERE id = ?",
            "BEGIN BATCH UPDATE shop.users SET tags = ? WHERE id = ?; APPLY BATCH",
        ] {
            assert_eq!(severity(cql, 100), Some(Severity::Low), "{cql}");
        }
        let insert = "INSERT INTO shop.users (id, name, logins) VALUES (?, ?, ?)";
        assert_eq!(
            severity(insert, 360_000),
            Some(Severity::Info),
            "most rows are new"
        );
    }

    #[test]
    fn elements_frozen_ones_and_other_columns_are_fine() {
        for cql in [
            "UPDATE shop.users SET tags = tags + ? WHERE id = ?",
            "UPDATE shop.users SET fixed = ? WHERE id = ?",
            "INSERT INTO shop.users (id, name) VALUES (?, ?)",
            "DELETE tags FROM shop.users WHERE id = ?",
        ] {
            assert_eq!(severity(cql, 360_000), None, "{cql}");
        }
    }

    #[test]
    fn the_title_names_the_collections_and_the_evidence_counts_tombstones() {
        let findings = findings("INSERT INTO shop.users (id, tags, logins) VALUES (?, ?, ?)", 60);
        assert_eq!(
            findings[0].title,
            "Writes to `shop.users` replace the collections `tags`, `logins` as a whole, 1 a second"
        );
        assert_eq!(findings[0].evidence[1], ("tombstones_written", 120.into()));
    }

    #[test]
    fn without_a_schema_it_says_what_it_does_not_know() {
        let cql = "UPDATE shop.users SET tags = ? WHERE id = ?";
        let judgement = run(
            &CollectionOverwrite,
            &window([write(cql, StatementKind::Update, &[], 60)]),
        );
        assert_eq!((judgement.findings.len(), judgement.blind_spots.len()), (0, 1));
    }
}
