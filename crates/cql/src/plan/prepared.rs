//! Plans without a schema: what a PREPARED result says of its markers is all there is.

use std::sync::Arc;

use crate::syntax::Work;
use crate::syntax::ast::{Body, Comparand, Modification, RelationOperator, Statement, Subject, Where};

use super::clustering::RowCheck;
use super::keys::{Choice, KeyColumn, KeyPlan};
use super::markers::Markers;
use super::rows;
use super::shape::{Plan, ReadPlan, Reads, Shape, WritePlan, Writes};
use super::target::direct_marker;
use super::term::{CompiledTerm, Marker};
use super::text_facts::{TextFacts, kept};
use crate::{footprint::Reason, schema::TableName};

impl Plan {
    /// Plans a prepared statement of which no schema tells the table, from the markers that the server
    /// described.
    ///
    /// Known are the executions whose partition key is bound as a whole, marker by marker, in a statement on
    /// one table. `IN` on the key, keys that are partly written in the text, batches, and reads without the
    /// key have no such markers, and version 3 has none at all: [`Reason::SchemaUnknown`]. So has an
    /// execution whose other restrictions no row may fit, an empty `IN` or an impossible slice: Cassandra
    /// touches nothing if they are of clustering columns. Some are counted by their text, whatever the key: a
    /// write of one row is one partition, and a read without `WHERE` is a scan.
    pub fn without_schema(statement: &Statement<'_>, keyspace: Option<&str>, markers: &Markers) -> Self {
        let work = Work::of_len(statement.span.len());
        let text = TextFacts {
            statement,
            keyspace,
            work: &work,
            constants: None,
        };
        let (facts, clause) = match &statement.body {
            Body::Select(select) => (text.of_select(select), Some(&select.where_clause)),
            Body::Insert(insert) => (
                text.facts_of_modification(&Modification::Insert(insert.clone())),
                None,
            ),
            Body::Update(update) => (
                text.facts_of_modification(&Modification::Update(update.clone())),
                Some(&update.where_clause),
            ),
            Body::Delete(delete) => (
                text.facts_of_modification(&Modification::Delete(delete.clone())),
                Some(&delete.where_clause),
            ),
            Body::Batch(_) | Body::Transaction(_) => {
                return Self::unknown(text.of_other(), Vec::new(), Reason::SchemaUnknown, None);
            }
            _ => return Self::unknown(text.of_other(), Vec::new(), Reason::NotApplicable, None),
        };
        let table = markers.table.as_ref().map(|(keyspace, table)| {
            Arc::new(TableName {
                keyspace: kept(keyspace),
                table: kept(table),
            })
        });
        // A statement without markers of a table has its name in the text.
        let named = facts.keyspace.clone().zip(facts.table.clone());
        let named = named.map(|(keyspace, table)| Arc::new(TableName { keyspace, table }));
        let tables: Vec<_> = table
            .clone()
            .or(named)
            .map(|table| (table, 1))
            .into_iter()
            .collect();
        let plan = table.and_then(|table| key_plan(table, markers, clause));
        let Some(keys) = plan else {
            return match by_text(&statement.body) {
                Some(shape) => Self { facts, tables, shape },
                None => Self::unknown(facts, tables, Reason::SchemaUnknown, None),
            };
        };
        let row_check = clause.and_then(|clause| rows::check(clause, markers, &work));
        if work.is_exhausted() {
            return Self::too_complex(facts, tables);
        }
        let shape = match &statement.body {
            Body::Select(_) => Shape::Read(ReadPlan {
                reads: Reads::Keys { keys, row_check },
                limit: None,
                per_partition_limit: None,
                refusal: None,
                filters: Vec::new(),
                cells: None,
            }),
            _ => Shape::Write(write_plan(Writes::Keys(keys), row_check)),
        };
        Self { facts, tables, shape }
    }

    /// Whether the server binds other markers to the partition key, where both say marker by marker which
    /// those are, or counts others altogether.
    pub fn disagrees_with(&self, markers: &Markers) -> bool {
        if markers.columns.is_empty() {
            return false;
        }
        if self.facts.bind_markers != markers.columns.len() {
            return true;
        }
        let keys = match &self.shape {
            Shape::Read(ReadPlan {
                reads: Reads::Keys { keys, .. },
                ..
            })
            | Shape::Write(WritePlan {
                writes: Writes::Keys(keys),
                ..
            }) => keys,
            _ => return false,
        };
        let index = |column: &KeyColumn| match &column.choice {
            Choice::One(CompiledTerm::Marker(marker)) => Some(marker.index),
            _ => None,
        };
        let planned: Option<Vec<_>> = keys.columns.iter().map(index).collect();
        let told = markers.partition_key.iter().map(|&index| usize::from(index));
        !markers.partition_key.is_empty() && planned.is_some_and(|planned| !told.eq(planned))
    }
}

fn write_plan(writes: Writes, row_check: Option<RowCheck>) -> WritePlan {
    WritePlan {
        writes,
        row_check,
        checks: Vec::new(),
        conditional_in: None,
        deletes_columns_of_range: false,
        refusal: None,
        cells: None,
        set_cells: None,
    }
}

/// What the text alone says of a statement that the server has accepted: it takes no write without the
/// partition key.
fn by_text(body: &Body<'_>) -> Option<Shape> {
    let one = || Shape::Write(write_plan(Writes::Unnamed, None));
    match body {
        Body::Insert(_) => Some(one()),
        Body::Update(update) => has_only_equal(&update.where_clause).then(one),
        Body::Delete(delete) => has_only_equal(&delete.where_clause).then(one),
        Body::Select(select) if select.where_clause == Where::default() => Some(Shape::Read(ReadPlan {
            reads: Reads::Range {
                token: None,
                by_index: false,
                row_check: None,
            },
            limit: None,
            per_partition_limit: None,
            refusal: None,
            filters: Vec::new(),
            cells: None,
        })),
        _ => None,
    }
}

fn has_only_equal(clause: &Where<'_>) -> bool {
    clause.relations.iter().all(|relation| {
        matches!(relation.subject, Subject::Column(_)) && relation.operator == RelationOperator::Equal
    })
}

/// The key that the server's indices name, unless it is not one key after all.
fn key_plan(table: Arc<TableName>, markers: &Markers, clause: Option<&Where<'_>>) -> Option<KeyPlan> {
    if markers.partition_key.is_empty() || clause.is_some_and(|clause| !names_one_key(clause, markers)) {
        return None;
    }
    let column = |&index: &u16| {
        let (name, cql_type) = markers.columns.get(usize::from(index))?;
        let marker = Marker {
            index: usize::from(index),
            name: name.as_str().into(),
            cql_type: cql_type.clone(),
        };
        Some(KeyColumn {
            cql_type: cql_type.clone(),
            choice: Choice::One(CompiledTerm::Marker(marker)),
        })
    };
    let columns: Option<Vec<_>> = markers.partition_key.iter().map(column).collect();
    Some(KeyPlan {
        table,
        columns: columns?,
        token: None,
    })
}

/// Whether each of the key's markers is compared by `=`: the server names markers of `IN (?, ?)` and of
/// slices too.
fn names_one_key(clause: &Where<'_>, markers: &Markers) -> bool {
    let is_equal = |index: &u16| {
        clause.relations.iter().any(|relation| {
            let value = match (&relation.subject, relation.operator, &relation.comparand) {
                (Subject::Column(_), RelationOperator::Equal, Comparand::One(term)) => Some(term),
                (Subject::Column(_), RelationOperator::In, Comparand::List(terms)) if terms.len() == 1 => {
                    terms.first()
                }
                _ => None,
            };
            let marker = value.and_then(direct_marker);
            marker.is_some_and(|marker| marker.index == usize::from(*index))
        })
    };
    let on_token = clause
        .relations
        .iter()
        .any(|relation| matches!(relation.subject, Subject::Token(_)));
    !on_token && markers.partition_key.iter().all(is_equal)
}
