//! Collections that are written as a whole: each time a tombstone goes before the new elements.

use cqlens_cql::syntax::ast::{AssignmentOperation, InsertSource, Modification};

use crate::{
    About, Cause, Context, EvidenceValue, Finding, Findings, KnownFrom, Rule, Severity, Threshold,
    figures::{definition, often, share, table, user_writes},
    severity::Impact,
    statement::{modifications, table_of},
};
use cqlens_cql::{
    plan::{Flag, StatementKind},
    schema::{DataType, Schema, quote},
};
use cqlens_window::{Pattern, PatternId, number};

pub(crate) struct CollectionOverwrite;

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
                    let makes_rows = pattern.head.kind == StatementKind::Insert
                        && overwritten_share(pattern, context) < found.threshold(&ABOUT, &OVERWRITTEN_SHARE);
                    let impact = if makes_rows {
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
            let text = format!("the tables of {writes} are not known, so neither are their collections");
            found.blind(&ABOUT, text);
        }
    }
}

/// The part of the INSERTs into the table that hit a row which is there already, as far as that is certain.
fn overwritten_share(pattern: &Pattern, context: &Context<'_>) -> f64 {
    let traffic = table_of(pattern).and_then(|name| context.window.tables.get(&name));
    traffic.map_or(0.0, |traffic| {
        share(traffic.inserted.overwrites(), traffic.inserted.inserts)
    })
}

/// Statements that change elements in place of the collection; nothing where the table is not known.
fn by_element(pattern: &Pattern, columns: &[String], schema: &Schema) -> Vec<String> {
    let Some(table) = definition(pattern, schema) else {
        return Vec::new();
    };
    // What changes an element has no condition.
    if pattern.is(Flag::Lwt) {
        return Vec::new();
    }
    let name = format!("{}.{}", quote(&table.keyspace), quote(&table.name));
    let key = table.columns.iter().filter(|column| column.is_primary_key());
    let key: Vec<_> = key.map(|column| format!("{} = ?", quote(&column.name))).collect();
    let change = |column: &str, sign: char| {
        let column = quote(column);
        format!(
            "UPDATE {name} SET {column} = {column} {sign} ? WHERE {};",
            key.join(" AND ")
        )
    };
    let of_column = |column: &String| match table.column(column).map(|column| &column.data_type) {
        Some(DataType::Set(_) | DataType::Map(..)) => vec![change(column, '+'), change(column, '-')],
        // An append to a list that is sent twice is there twice, and to remove an element the list is read first.
        _ => Vec::new(),
    };
    let changes: Vec<_> = columns.iter().flat_map(of_column).collect();
    match changes.is_empty() {
        true => Vec::new(),
        false => vec![format!(
            "-- add new elements, remove old ones\n{}",
            changes.join("\n")
        )],
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
    let changes = match pattern.head.kind {
        // The elements of a new row are not known before.
        StatementKind::Insert => Vec::new(),
        _ => by_element(pattern, columns, context.schema),
    };
    let finding = Finding::on(&ABOUT, severity, (id, pattern), context).title(title);
    let finding = match changes.is_empty() {
        true => finding
            .advice(WITHOUT_ELEMENTS)
            .fix_in_short("Freeze the collection"),
        false => finding.suggest(changes),
    };
    finding
        .first("known_from", EvidenceValue::KnownFrom(vec![KnownFrom::Writes]))
        .first("tombstones_written", tombstones)
        .first("collection_columns", EvidenceValue::Names(columns.to_vec()))
}

const OVERWRITTEN_SHARE: Threshold = Threshold {
    name: "overwritten_share",
    unit: "of the INSERTs",
    default: 0.5,
    origin: "cqlens default: most of them replace a row, and the tombstone deletes existing elements",
};

/// Where single elements cannot be changed instead.
const WITHOUT_ELEMENTS: &str = "\
    Declare the collection `frozen<…>` if it is always written as a whole: a new column, since the type of a \
    column cannot be changed. Leave it out of writes that do not set it; an empty collection is written as a \
    tombstone, too.";

const ABOUT: About = About {
    id: "collection-overwrite",
    group: "tombstones",
    summary: "A write replaces a whole collection, which leaves a tombstone each time.",
    why: "The elements of a list, set or map are separate cells. To replace them, Cassandra does not check \
        which exist: it writes a range tombstone over the old elements and then the new elements. This also \
        happens in an INSERT of a row that did not exist. Every read of the row scans these tombstones until \
        they are compacted away, and because of them Cassandra cannot serve the row from a single SSTable.",
    fix: "Add and remove elements (`tags = tags + ?`) as the collection changes, use `frozen<…>` if it is \
        always written as a whole, or leave the column out of INSERTs that do not set it.",
    fix_in_short: "Change single elements",
    before: "CREATE TABLE shop.users (id uuid PRIMARY KEY, name text, tags set<text>);\nUPDATE shop.users SET tags = ? WHERE id = ?;",
    after: "CREATE TABLE shop.tagged_users (id uuid PRIMARY KEY, name text, tags frozen<set<text>>);\n\
            UPDATE shop.tagged_users SET tags = ? WHERE id = ?;",
    severity: "\
        Low, medium at most; info for INSERTs, most of which create a new row, unless `overwritten_share` of \
        those into the table overwrite an existing row. Nothing for frozen collections and for elements that \
        are added or removed.",
    severities: &[Severity::Info, Severity::Low, Severity::Medium],
    thresholds: &[OVERWRITTEN_SHARE],
    needs: "The table's schema. Inferred from writes: collections in INSERT … JSON and collections that are \
        bound as null or left unset cannot be distinguished.",
    source: "\
        Cassandra class `Lists.Setter` (and those of sets and maps), `setComplexDeletionTimeForOverwrite`; \
        Cassandra documentation, collections",
    cause: Some(Cause::COLLECTIONS),
    quantity: None,
    rewrite: None,
};

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{amid, run, run_with, window, write};
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
    fn inserts_that_replace_rows_leave_as_many_tombstones_as_updates() {
        let schema = Schema::from_cql(
            "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
             CREATE TABLE shop.users (id int PRIMARY KEY, tags set<text>);",
        )
        .unwrap();
        let found = |rows: u64| {
            let insert = "INSERT INTO shop.users (id, tags) VALUES (?, ?)";
            let mut window = amid([write(insert, StatementKind::Insert, &[], 100)]);
            let name = cqlens_cql::schema::TableName {
                keyspace: "shop".to_owned(),
                table: "users".to_owned(),
            };
            window.count_table(&name, |table| {
                table.inserted.inserts = 100;
                (0..rows).for_each(|row| table.inserted.rows.insert(row));
            });
            run_with(&CollectionOverwrite, &window, &schema)
                .findings
                .remove(0)
        };
        assert_eq!(found(50).severity, Severity::Low);
        assert_eq!(found(51).severity, Severity::Info);
        assert_eq!(found(50).suggested_cql, Vec::<String>::new());
        assert_eq!(found(50).advice, WITHOUT_ELEMENTS);
    }

    #[test]
    fn elements_of_sets_are_changed_in_place_and_those_of_lists_are_not() {
        let cql = |column: &str| {
            let update = format!("UPDATE shop.users SET {column} = ? WHERE id = ?");
            findings(&update, 100).remove(0).suggested_cql
        };
        assert_eq!(
            cql("tags"),
            [
                "-- add new elements, remove old ones\nUPDATE shop.users SET tags = tags + ? WHERE id = \
                 ?;\nUPDATE shop.users SET tags = tags - ? WHERE id = ?;"
            ]
        );
        assert_eq!(
            cql("logins"),
            Vec::<String>::new(),
            "an append that is sent twice is there twice"
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
        let columns = EvidenceValue::Names(vec!["tags".to_owned(), "logins".to_owned()]);
        let expected = [
            ("collection_columns", columns),
            ("tombstones_written", 120.into()),
        ];
        assert_eq!(findings[0].evidence[..2], expected);
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
