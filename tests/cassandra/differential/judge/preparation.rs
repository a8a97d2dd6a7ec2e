//! PREPARE: acceptance, and what PREPARED says of markers and columns.

use cqlens_cql::ServerVersion;
use cqlens_cql::plan::StatementKind;
use cqlens_cql::schema::Schema;
use cqlens_cql::schema::Table;
use cqlens_cql::syntax::ast::{
    AssignmentOperation, Body, Comparand, Modification, Relation, Selection, Subject, Term, Update,
};
use cqlens_proto::message::ErrorCode;
use cqlens_proto::types::CqlType;

use super::super::ask::{Prepared, Refused};
use super::{Category, Plan, Statement, Verdict, Verdicts, refused_when_prepared, syntax};

/// The statement, where both read one.
pub(super) fn syntax<'t>(
    text: &'t str,
    prepared: &Result<Prepared, Refused>,
    server: ServerVersion,
    verdicts: &mut Verdicts,
) -> Option<Statement<'t>> {
    let theirs = prepared
        .as_ref()
        .err()
        .filter(|refused| refused.code == ErrorCode::SYNTAX_ERROR);
    let parsed = syntax::parse(text);
    let ours = match &parsed {
        Err(error) => Some(error.to_string()),
        Ok(statement) => statement
            .extension
            .filter(|extension| !extension.is_read_by(server))
            .map(|extension| format!("{extension:?}")),
    };
    let verdict = match (&ours, theirs) {
        (Some(_), Some(_)) | (None, None) => Verdict::Agreed,
        (Some(ours), None) => Verdict::Disagreed(format!("Cassandra reads it, cqlens says: {ours}")),
        (None, Some(theirs)) => {
            Verdict::Disagreed(format!("cqlens reads it, Cassandra says: {}", theirs.message))
        }
    };
    verdicts.add(Category::Syntax, verdict);
    parsed.ok().filter(|_| ours.is_none() && theirs.is_none())
}

pub(super) fn refusal(plan: &Plan, prepared: &Result<Prepared, Refused>, verdicts: &mut Verdicts) {
    let verdict = Verdict::of_refusal(refused_when_prepared(plan), prepared.as_ref().err());
    verdicts.add(Category::Preparation, verdict);
}

/// What PREPARED says beside the id.
pub(super) fn metadata(
    statement: &Statement<'_>,
    plan: &Plan,
    prepared: &Prepared,
    schema: &Schema,
    verdicts: &mut Verdicts,
) {
    let facts = plan.facts();
    let markers = &prepared.markers;
    verdicts.add(
        Category::MarkerCount,
        Verdict::of(&facts.bind_markers, &markers.columns.len()),
    );
    let table = facts.keyspace.as_deref().zip(facts.table.as_deref());
    marker_names(statement, prepared, verdicts);
    let is_dml = !matches!(facts.statement_kind(), StatementKind::Ddl | StatementKind::Other);
    if !is_dml {
        return;
    }
    let theirs = prepared.table.as_ref().or(markers.table.as_ref());
    // The one marker behind the USING of a batch is of no table; Cassandra calls it `[batch]`.
    let theirs = theirs.filter(|(keyspace, _)| keyspace != "[batch]");
    if let (Some(ours), Some((keyspace, name))) = (table, theirs) {
        verdicts.add(
            Category::Table,
            Verdict::of(&ours, &(keyspace.as_str(), name.as_str())),
        );
    }
    if let Some(facts) = &facts.schema {
        let ours = facts
            .partition_key_markers
            .as_ref()
            .filter(|_| facts.markers_of_one_table);
        let ours: Vec<u16> = ours
            .into_iter()
            .flatten()
            .map(|&index| u16::try_from(index).unwrap())
            .collect();
        verdicts.add(Category::KeyMarkers, Verdict::of(&ours, &markers.partition_key));
    }
    let Some(table) = table.and_then(|(keyspace, table)| schema.table(keyspace, table)) else {
        return;
    };
    marker_types(statement, table, prepared, schema, verdicts);
    if let Body::Select(select) = &statement.body
        && select.selection == Selection::All
        && !select.json
    {
        let ours: Vec<(String, CqlType)> = table
            .columns
            .iter()
            .map(|column| (column.name.clone(), type_of(schema, table, &column.name).unwrap()))
            .collect();
        let theirs = prepared
            .columns
            .iter()
            .map(|column| (column.name.clone(), column.column_type.clone()));
        verdicts.add(Category::Columns, Verdict::of(&ours, &theirs.collect()));
    }
}

/// Names that the text gives; a `?` is called after what it is a value for.
fn marker_names(statement: &Statement<'_>, prepared: &Prepared, verdicts: &mut Verdicts) {
    for (ours, (theirs, _)) in statement.bind_markers.iter().zip(&prepared.markers.columns) {
        if let Some(name) = &ours.name {
            verdicts.add(
                Category::MarkerNames,
                Verdict::of(&name.as_str(), &theirs.as_str()),
            );
        }
    }
}

/// Types of markers whose names tell what they are values for: `?`, which the server has named.
fn marker_types(
    statement: &Statement<'_>,
    table: &Table,
    prepared: &Prepared,
    schema: &Schema,
    verdicts: &mut Verdicts,
) {
    let markers = prepared.markers.columns.iter().zip(&statement.bind_markers);
    let subtracted = subtracted(statement);
    let tuples = tuples(statement);
    for ((name, theirs), marker) in markers.filter(|(_, marker)| marker.name.is_none()) {
        let inner = |prefix: &str| name.strip_prefix(prefix)?.strip_suffix(')');
        let ours = match name.as_str() {
            "[limit]" | "[per_partition_limit]" | "[ttl]" => Some(CqlType::Int),
            "[timestamp]" | "partition key token" => Some(CqlType::BigInt),
            _ => match inner("in(") {
                Some(column) => type_of(schema, table, column).map(|one| {
                    // A tuple of one column is called like the column.
                    let is_tuple = tuples.contains(&marker.index);
                    CqlType::list(if is_tuple { CqlType::Tuple(vec![one]) } else { one })
                }),
                // From a map its keys are subtracted.
                None => match type_of(schema, table, name) {
                    Some(CqlType::Map(entry)) if subtracted.contains(&marker.index) => {
                        Some(CqlType::set(entry.0.clone()))
                    }
                    whole => whole,
                },
            },
        };
        if let Some(ours) = ours {
            verdicts.add(Category::MarkerTypes, Verdict::of(&ours, theirs));
        }
    }
}

/// The markers of `(column, …) IN ?`.
fn tuples(statement: &Statement<'_>) -> Vec<usize> {
    let clause = match &statement.body {
        Body::Select(select) => &select.where_clause,
        Body::Update(update) => &update.where_clause,
        Body::Delete(delete) => &delete.where_clause,
        _ => return Vec::new(),
    };
    let marker = |relation: &Relation<'_>| match (&relation.subject, &relation.comparand) {
        (Subject::Columns(_), Comparand::Marker(marker)) => Some(marker.index),
        _ => None,
    };
    clause.relations.iter().filter_map(marker).collect()
}

/// The markers of `column = column - ?`.
fn subtracted(statement: &Statement<'_>) -> Vec<usize> {
    let updates: Vec<&Update<'_>> = match &statement.body {
        Body::Update(update) => vec![update],
        Body::Batch(batch) => batch
            .statements
            .iter()
            .filter_map(|modification| match modification {
                Modification::Update(update) => Some(update),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    };
    let assignments = updates.iter().flat_map(|update| &update.assignments);
    assignments
        .filter_map(|assignment| match &assignment.operation {
            AssignmentOperation::Subtract(Term::BindMarker(marker)) => Some(marker.index),
            _ => None,
        })
        .collect()
}

fn type_of(schema: &Schema, table: &Table, column: &str) -> Option<CqlType> {
    let keyspace = schema.keyspace(&table.keyspace)?;
    Some(keyspace.resolve(&table.column(column)?.data_type))
}
