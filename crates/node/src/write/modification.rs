//! INSERT, UPDATE and DELETE: from a statement to mutations, and from mutations to the store.
//!
//! Statements become mutations before anything is written: a batch is written whole or not at all.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_cql::syntax::ast::{
    Assignment, AssignmentOperation, Delete, Deletion, DeletionTarget, Insert, InsertSource, Modification,
    Name, Relation, Term, Update, Using,
};
use cqlens_proto::types::CqlType;

use super::mutation::{CellChange, Change, Mutation};
use crate::bind::{self, Bound};
use crate::execution::Execution;
use crate::failure::Failure;
use crate::layout::{Column, Layout};
use crate::operand::{element_types, field_type, operand_type};
use crate::restriction::{Restrictions, Source};
use crate::store::{Expiry, Liveness, Place, Timestamp};
use cqlens_cql::schema::ColumnKind;

/// The mutations of a statement: one for each partition and row, or stretch of rows, that it names.
///
/// # Errors
/// What Cassandra refuses, in its words, and what this node does not have.
pub(crate) fn mutations(
    modification: &Modification<'_>,
    layout: &Arc<Layout>,
    execution: &Execution<'_>,
) -> Result<Vec<Mutation>, Failure> {
    match modification {
        Modification::Insert(insert) => self::insert(insert, layout, execution),
        Modification::Update(update) => self::update(update, layout, execution),
        Modification::Delete(delete) => self::delete(delete, layout, execution),
    }
}

fn insert(
    insert: &Insert<'_>,
    layout: &Arc<Layout>,
    execution: &Execution<'_>,
) -> Result<Vec<Mutation>, Failure> {
    let InsertSource::Values { columns, values } = &insert.source else {
        return Err(Failure::invalid(
            "INSERT JSON is not supported by this stand-in node",
        ));
    };
    if layout.is_counter {
        return Err(Failure::invalid(
            "INSERT statements are not allowed on counter tables, use UPDATE instead",
        ));
    }
    if columns.len() != values.len() {
        return Err(Failure::invalid("Unmatched column names/values"));
    }
    let given = Given {
        columns,
        values,
        execution,
    };
    let key = given.key(layout.partition_key(), "partition")?;
    let writes_rows = columns.iter().any(|name| {
        layout
            .column(name.as_str())
            .is_ok_and(|column| column.kind == ColumnKind::Regular || column.is_clustering())
    });
    // Static columns alone need no clustering column.
    let place = match writes_rows || !layout.has_static() {
        true => Some(layout.place(given.key(layout.clustering(), "clustering")?)),
        false => None,
    };
    let times = Times::of(&insert.using, layout, execution)?;
    let mut cells = Vec::new();
    for (name, value) in columns.iter().zip(values) {
        let column = layout.column(name.as_str())?;
        if !column.is_primary_key() {
            let change = match bind::term(value, &column.cql_type, execution)? {
                Bound::NotSet => continue,
                Bound::Null => CellChange::Delete,
                Bound::Value(value) => put(column, value),
            };
            cells.push((column.index, change));
        }
    }
    let liveness = Some(Liveness {
        timestamp: times.timestamp,
        expiry: times.expiry,
    });
    let change = Change::Row {
        place,
        liveness,
        cells,
        expiry: times.expiry,
    };
    Ok(vec![Mutation {
        layout: Arc::clone(layout),
        key,
        change,
        timestamp: times.timestamp,
    }])
}

/// The columns and values of an INSERT.
struct Given<'a> {
    columns: &'a [Name<'a>],
    values: &'a [Term<'a>],
    execution: &'a Execution<'a>,
}

impl Given<'_> {
    /// The values of key columns, all of which must be there.
    fn key(&self, columns: &[Column], part: &str) -> Result<Vec<Bytes>, Failure> {
        let place = |column: &Column| self.columns.iter().position(|name| name.as_str() == column.name);
        let missing: Vec<_> = columns.iter().filter(|column| place(column).is_none()).collect();
        if !missing.is_empty() {
            return Err(missing_key(&missing, part));
        }
        let value = |column: &Column| {
            let place = place(column).unwrap_or(0);
            bind::term(&self.values[place], &column.cql_type, self.execution)?.required(&column.name)
        };
        let key: Vec<Bytes> = columns.iter().map(value).collect::<Result<_, _>>()?;
        match (&key[..], part) {
            ([only], "partition") if only.is_empty() => Err(Failure::invalid("Key may not be empty")),
            _ => Ok(key),
        }
    }
}

fn missing_key(columns: &[&Column], part: &str) -> Failure {
    let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
    let part = if part == "partition" {
        "partition key parts"
    } else {
        "clustering keys"
    };
    Failure::invalid(format!("Some {part} are missing: {}", names.join(", ")))
}

fn update(
    update: &Update<'_>,
    layout: &Arc<Layout>,
    execution: &Execution<'_>,
) -> Result<Vec<Mutation>, Failure> {
    let times = Times::of(&update.using, layout, execution)?;
    let mut cells = Vec::new();
    for assignment in &update.assignments {
        let column = layout.column(assignment.column.as_str())?;
        if column.is_primary_key() {
            return Err(Failure::invalid(format!(
                "PRIMARY KEY part {} found in SET part",
                column.name
            )));
        }
        if let Some(change) = self::assignment(assignment, column, execution)? {
            cells.push((column.index, change));
        }
    }
    let targets = Targets::of("UPDATE", &update.where_clause.relations, layout, execution)?;
    let places = targets.places(&cells, layout)?;
    let mut mutations = Vec::new();
    for key in &targets.keys {
        for place in &places {
            let change = Change::Row {
                place: place.clone(),
                liveness: None,
                cells: cells.clone(),
                expiry: times.expiry,
            };
            let layout = Arc::clone(layout);
            mutations.push(Mutation {
                layout,
                key: key.clone(),
                change,
                timestamp: times.timestamp,
            });
        }
    }
    Ok(mutations)
}

/// What an assignment does to its cell; nothing if its value is not set.
fn assignment(
    assignment: &Assignment<'_>,
    column: &Column,
    execution: &Execution<'_>,
) -> Result<Option<CellChange>, Failure> {
    let operation = &assignment.operation;
    let value = |term: &Term<'_>, cql_type: &CqlType| bind::term(term, cql_type, execution);
    let change = match operation {
        AssignmentOperation::Set(term) if column.cql_type != CqlType::Counter => {
            match value(term, &column.cql_type)? {
                Bound::NotSet => return Ok(None),
                Bound::Null => CellChange::Delete,
                Bound::Value(value) => put(column, value),
            }
        }
        AssignmentOperation::Set(_) => {
            return Err(Failure::invalid(format!(
                "Cannot set the value of counter column {} (counters can only be incremented/decremented, not set)",
                column.name
            )));
        }
        AssignmentOperation::Add(term)
        | AssignmentOperation::Subtract(term)
        | AssignmentOperation::Prepend(term) => {
            let operand = value(term, &operand_type(&column.cql_type, operation))?;
            let operand = match operand {
                Bound::NotSet => return Ok(None),
                bound => bound.required(&column.name)?,
            };
            match (operation, &column.cql_type) {
                (AssignmentOperation::Add(_), CqlType::Counter) => CellChange::Increment(long_of(&operand)),
                (AssignmentOperation::Subtract(_), CqlType::Counter) => {
                    CellChange::Increment(long_of(&operand).wrapping_neg())
                }
                _ if !column.is_multi_cell => {
                    return Err(Failure::invalid(format!(
                        "Invalid operation for frozen or simple column {}",
                        column.name
                    )));
                }
                (AssignmentOperation::Add(_), _) => CellChange::Append(operand),
                (AssignmentOperation::Prepend(_), _) => CellChange::Prepend(operand),
                _ => CellChange::Remove(operand),
            }
        }
        AssignmentOperation::SetElement { key, value: element } => {
            let (key_type, value_type) = element_types(&column.cql_type);
            let key = value(key, &key_type)?.required(&column.name)?;
            match value(element, &value_type)? {
                Bound::NotSet => return Ok(None),
                element => CellChange::PutElement(key, element.value()),
            }
        }
        AssignmentOperation::SetField { field, value: term } => {
            let value = value(term, &field_type(&column.cql_type, field.as_str()))?;
            CellChange::PutField(field.as_str().to_owned(), value.value())
        }
    };
    Ok(Some(change))
}

/// A whole value; an empty collection is none, as Cassandra stores it.
fn put(column: &Column, value: Bytes) -> CellChange {
    let is_empty_collection = column.is_multi_cell && matches!(value[..], [0, 0, 0, 0]);
    if is_empty_collection {
        CellChange::Delete
    } else {
        CellChange::Put(value)
    }
}

fn long_of(bytes: &[u8]) -> i64 {
    bytes.try_into().map_or(0, i64::from_be_bytes)
}

fn delete(
    delete: &Delete<'_>,
    layout: &Arc<Layout>,
    execution: &Execution<'_>,
) -> Result<Vec<Mutation>, Failure> {
    let timestamp = Times::of(&delete.using, layout, execution)?.timestamp;
    let mut cells = Vec::new();
    for deletion in &delete.deletions {
        let column = layout.column(deletion.column.as_str())?;
        if column.is_primary_key() {
            return Err(Failure::invalid(format!(
                "Invalid identifier {} for deletion (should not be a PRIMARY KEY part)",
                column.name
            )));
        }
        cells.push((column.index, self::deletion(deletion, column, execution)?));
    }
    let targets = Targets::of("DELETE", &delete.where_clause.relations, layout, execution)?;
    let changes = if cells.is_empty() {
        targets.deletions(layout)
    } else {
        let row = |place| Change::Row {
            place,
            liveness: None,
            cells: cells.clone(),
            expiry: None,
        };
        targets.places(&cells, layout)?.into_iter().map(row).collect()
    };
    let mutation = |key: &Vec<Bytes>, change: &Change| Mutation {
        layout: Arc::clone(layout),
        key: key.clone(),
        change: change.clone(),
        timestamp,
    };
    Ok(targets
        .keys
        .iter()
        .flat_map(|key| changes.iter().map(move |change| mutation(key, change)))
        .collect())
}

fn deletion(
    deletion: &Deletion<'_>,
    column: &Column,
    execution: &Execution<'_>,
) -> Result<CellChange, Failure> {
    match &deletion.target {
        DeletionTarget::Column => Ok(CellChange::Delete),
        DeletionTarget::Field(field) => Ok(CellChange::PutField(field.as_str().to_owned(), None)),
        DeletionTarget::Element(key) => match &column.cql_type {
            CqlType::Set(element) => {
                let element = bind::term(key, element, execution)?.required(&column.name)?;
                Ok(CellChange::Remove(bind::collection(1, [&element])?))
            }
            other => {
                let key = bind::term(key, &element_types(other).0, execution)?.required(&column.name)?;
                Ok(CellChange::PutElement(key, None))
            }
        },
    }
}

/// What the `WHERE` clause of an UPDATE or DELETE names.
struct Targets {
    /// UPDATE or DELETE.
    statement: &'static str,
    keys: Vec<Vec<Bytes>>,
    restrictions: Restrictions,
}

impl Targets {
    fn of(
        statement: &'static str,
        relations: &[Relation<'_>],
        layout: &Layout,
        execution: &Execution<'_>,
    ) -> Result<Targets, Failure> {
        let restrictions = Restrictions::of(relations, layout, execution)?;
        let Source::Keys(keys) = &restrictions.source else {
            let is_named = |column: &&Column| {
                relations.iter().any(|relation| {
                    relation
                        .subject
                        .columns()
                        .iter()
                        .any(|name| *name == *column.name)
                })
            };
            let missing: Vec<_> = layout
                .partition_key()
                .iter()
                .filter(|column| !is_named(column))
                .collect();
            return Err(match missing.is_empty() {
                true if restrictions.restricts_token() => Failure::invalid(format!(
                    "The token function cannot be used in WHERE clauses for {statement} statements"
                )),
                true => Failure::invalid(format!(
                    "Only EQ and IN relation are supported on the partition key (unless you use the token() function) \
                     for {statement} statements"
                )),
                false => missing_key(&missing, "partition"),
            });
        };
        let others = restrictions.other_columns(layout);
        if !others.is_empty() {
            let others = others.join(", ");
            return Err(Failure::invalid(format!(
                "Non PRIMARY KEY columns found in where clause: {others} "
            )));
        }
        restrictions.refuse_gap(layout)?;
        if !restrictions.filters.is_empty() {
            return Err(Failure::invalid(
                "These relations are not supported in a write by this stand-in node",
            ));
        }
        Ok(Targets {
            statement,
            keys: keys.clone(),
            restrictions,
        })
    }

    /// Where cells are written: in the rows that are named one by one, or in the partition alone.
    fn places(&self, cells: &[(usize, CellChange)], layout: &Layout) -> Result<Vec<Option<Place>>, Failure> {
        let is_static = |(index, _): &(usize, CellChange)| layout.columns[*index].kind == ColumnKind::Static;
        let names_rows = layout.clustering_len == 0 || self.restrictions.restricts_clustering;
        if !names_rows && !cells.is_empty() && cells.iter().all(is_static) {
            return Ok(vec![None]);
        }
        if let Some(rows) = self.restrictions.rows(layout) {
            return Ok(rows
                .into_iter()
                .map(|clustering| Some(layout.place(clustering)))
                .collect());
        }
        if self.statement == "DELETE" && self.restrictions.restricts_clustering {
            return Err(Failure::invalid(
                "Range deletions are not supported for specific columns",
            ));
        }
        let fixed = self.restrictions.fixed_clustering();
        let missing: Vec<_> = layout.clustering().iter().skip(fixed).collect();
        Err(missing_key(&missing, "clustering"))
    }

    /// The tombstones of a DELETE of whole rows: on rows, on stretches of rows, or on the partition.
    fn deletions(&self, layout: &Layout) -> Vec<Change> {
        if !self.restrictions.restricts_clustering {
            return vec![Change::DeletePartition];
        }
        match self.restrictions.rows(layout) {
            Some(rows) => rows
                .into_iter()
                .map(|row| Change::DeleteRow(layout.place(row)))
                .collect(),
            None => self
                .restrictions
                .stretches
                .iter()
                .cloned()
                .map(Change::DeleteStretch)
                .collect(),
        }
    }
}

/// When a write happens and when it ends.
struct Times {
    timestamp: Timestamp,
    expiry: Option<Expiry>,
}

impl Times {
    fn of(using: &Using<'_>, layout: &Layout, execution: &Execution<'_>) -> Result<Times, Failure> {
        let number = |term: &Option<Term<'_>>, cql_type: CqlType| -> Result<Option<Bytes>, Failure> {
            let Some(term) = term else { return Ok(None) };
            Ok(bind::term(term, &cql_type, execution)?.value())
        };
        let timestamp = number(&using.timestamp, CqlType::BigInt)?.map(|bytes| long_of(&bytes));
        let ttl = number(&using.ttl, CqlType::Int)?;
        let ttl = ttl
            .and_then(|bytes| bytes[..].try_into().ok())
            .map(i32::from_be_bytes);
        let expiry = match ttl.unwrap_or(layout.default_ttl) {
            0 => None,
            ttl @ 1.. => Some(Expiry {
                ttl,
                at: execution.now + i64::from(ttl),
            }),
            ttl => {
                return Err(Failure::invalid(format!(
                    "A TTL must be greater or equal to 0, but was {ttl}"
                )));
            }
        };
        Ok(Times {
            timestamp: timestamp.unwrap_or(execution.timestamp),
            expiry,
        })
    }
}
