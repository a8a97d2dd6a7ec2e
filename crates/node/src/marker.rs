//! What the bind markers of a statement stand for: their names, their types, and which of them are the
//! partition key.

use cqlens_cql::syntax::ast::{
    AssignmentOperation, BindMarker, Body, Comparand, Deletion, DeletionTarget, If, Insert, InsertSource,
    Modification, Relation, RelationOperator, Returning, Select, Selection, Statement, Subject, Term,
    Transaction, Using,
};
use cqlens_proto::types::CqlType;

use super::answer::ResultColumn;
use super::database::Database;
use super::failure::Failure;
use super::function;
use super::layout::{Column, Layout};
use super::operand::{compared_type, element_types, field_type, operand_type};
use super::transaction;

/// The markers of a statement.
#[derive(Debug, Clone, Default)]
pub(super) struct Markers {
    /// In their order.
    pub(super) columns: Vec<ResultColumn>,
    /// For each partition key column the marker that is its value; empty if not each has one.
    pub(super) partition_key_indices: Vec<u16>,
}

/// Finds out what the markers of a statement stand for.
///
/// # Errors
/// Tables and columns that there are not.
pub(super) fn of(
    statement: &Statement<'_>,
    database: &mut Database,
    keyspace: Option<&str>,
) -> Result<Markers, Failure> {
    if statement.bind_markers.is_empty() {
        return Ok(Markers::default());
    }
    let mut found = vec![None; statement.bind_markers.len()];
    let mut layouts = Vec::new();
    match &statement.body {
        Body::Select(select) => {
            let layout = database.layout(&select.table, keyspace)?;
            Collector::new(&layout, &mut found).select(select)?;
            layouts.push(layout);
        }
        Body::Insert(insert) => {
            let layout = database.layout(&insert.table, keyspace)?;
            Collector::new(&layout, &mut found).insert(insert)?;
            layouts.push(layout);
        }
        Body::Update(update) => {
            let layout = database.layout(&update.table, keyspace)?;
            Collector::new(&layout, &mut found).modification(&Modification::Update(update.clone()))?;
            layouts.push(layout);
        }
        Body::Delete(delete) => {
            let layout = database.layout(&delete.table, keyspace)?;
            Collector::new(&layout, &mut found).modification(&Modification::Delete(delete.clone()))?;
            layouts.push(layout);
        }
        Body::Batch(batch) => {
            for modification in &batch.statements {
                let layout = database.layout(modification.table(), keyspace)?;
                let mut collector = Collector::new(&layout, &mut found);
                collector.using(&batch.using);
                collector.modification(modification)?;
                layouts.push(layout);
            }
        }
        Body::Transaction(transaction) => {
            of_transaction(transaction, database, keyspace, &mut found)?;
        }
        _ => {
            return Err(Failure::invalid(
                "Bind variables are not allowed in this statement",
            ));
        }
    }
    layouts.dedup();
    let partition_key_indices = match layouts.as_slice() {
        [layout] => partition_key_indices(layout, &found),
        _ => Vec::new(),
    };
    let unknown = || Failure::invalid("This stand-in node does not know the type of a bind marker");
    let columns = found
        .into_iter()
        .map(|marker| marker.map(|marker| marker.column).ok_or_else(unknown));
    Ok(Markers {
        columns: columns.collect::<Result<_, _>>()?,
        partition_key_indices,
    })
}

fn of_transaction(
    transaction: &Transaction<'_>,
    database: &mut Database,
    keyspace: Option<&str>,
    found: &mut [Option<Marker>],
) -> Result<(), Failure> {
    let returned = match &transaction.returning {
        Some(Returning::Select(select)) => Some(&**select),
        _ => None,
    };
    for select in transaction.lets.iter().map(|read| &read.select).chain(returned) {
        let layout = database.layout(&select.table, keyspace)?;
        Collector::new(&layout, found).select(select)?;
    }
    for condition in &transaction.conditions {
        let Some(value) = &condition.value else { continue };
        let (layout, index) = transaction::referred(&condition.reference, transaction, database, keyspace)?;
        let column = &layout.columns[index];
        Collector::new(&layout, found).term(value, &column.name, &column.cql_type);
    }
    for update in &transaction.updates {
        let layout = database.layout(update.table(), keyspace)?;
        Collector::new(&layout, found).modification(update)?;
    }
    Ok(())
}

#[derive(Debug, Clone)]
struct Marker {
    column: ResultColumn,
    /// The partition key column whose whole value it is.
    key_of: Option<usize>,
}

fn partition_key_indices(layout: &Layout, found: &[Option<Marker>]) -> Vec<u16> {
    let marker_of = |column: &Column| {
        let is_its = |marker: &Option<Marker>| {
            marker
                .as_ref()
                .is_some_and(|marker| marker.key_of == Some(column.index))
        };
        found
            .iter()
            .position(is_its)
            .and_then(|index| u16::try_from(index).ok())
    };
    layout
        .partition_key()
        .iter()
        .map(marker_of)
        .collect::<Option<_>>()
        .unwrap_or_default()
}

struct Collector<'a> {
    layout: &'a Layout,
    found: &'a mut [Option<Marker>],
}

impl<'a> Collector<'a> {
    fn new(layout: &'a Layout, found: &'a mut [Option<Marker>]) -> Self {
        Collector { layout, found }
    }

    fn select(&mut self, select: &Select<'_>) -> Result<(), Failure> {
        if let Selection::Selectors(selectors) = &select.selection {
            for selector in selectors {
                self.term(&selector.term, "[selection]", &CqlType::Text);
            }
        }
        select
            .where_clause
            .relations
            .iter()
            .try_for_each(|relation| self.relation(relation))?;
        self.optional(
            select.per_partition_limit.as_ref(),
            "[per_partition_limit]",
            &CqlType::Int,
        );
        self.optional(select.limit.as_ref(), "[limit]", &CqlType::Int);
        Ok(())
    }

    fn modification(&mut self, modification: &Modification<'_>) -> Result<(), Failure> {
        match modification {
            Modification::Insert(insert) => self.insert(insert),
            Modification::Update(update) => {
                self.using(&update.using);
                for assignment in &update.assignments {
                    let column = self.layout.column(assignment.column.as_str())?;
                    self.assignment(column, &assignment.operation);
                }
                self.conditions(&update.where_clause.relations, update.condition.as_ref())
            }
            Modification::Delete(delete) => {
                self.using(&delete.using);
                delete
                    .deletions
                    .iter()
                    .try_for_each(|deletion| self.deletion(deletion))?;
                self.conditions(&delete.where_clause.relations, delete.condition.as_ref())
            }
        }
    }

    fn insert(&mut self, insert: &Insert<'_>) -> Result<(), Failure> {
        match &insert.source {
            InsertSource::Values { columns, values } => {
                for (name, value) in columns.iter().zip(values) {
                    let column = self.layout.column(name.as_str())?;
                    self.whole(value, column);
                }
            }
            InsertSource::Json { value, .. } => self.term(value, "[json]", &CqlType::Text),
        }
        self.using(&insert.using);
        Ok(())
    }

    fn using(&mut self, using: &Using<'_>) {
        self.optional(using.timestamp.as_ref(), "[timestamp]", &CqlType::BigInt);
        self.optional(using.ttl.as_ref(), "[ttl]", &CqlType::Int);
    }

    fn conditions(&mut self, relations: &[Relation<'_>], condition: Option<&If<'_>>) -> Result<(), Failure> {
        relations
            .iter()
            .try_for_each(|relation| self.relation(relation))?;
        match condition {
            Some(If::Conditions(conditions)) => {
                conditions.iter().try_for_each(|relation| self.relation(relation))
            }
            Some(If::Exists) | None => Ok(()),
        }
    }

    fn assignment(&mut self, column: &Column, operation: &AssignmentOperation<'_>) {
        let name = &column.name;
        match operation {
            AssignmentOperation::Set(value) => self.term(value, name, &column.cql_type),
            AssignmentOperation::Add(value)
            | AssignmentOperation::Subtract(value)
            | AssignmentOperation::Prepend(value) => {
                let cql_type = operand_type(&column.cql_type, operation);
                self.term(value, name, &cql_type);
            }
            AssignmentOperation::SetElement { key, value } => {
                let (key_type, value_type) = element_types(&column.cql_type);
                self.term(key, &format!("key({name})"), &key_type);
                self.term(value, &format!("value({name})"), &value_type);
            }
            AssignmentOperation::SetField { field, value } => {
                let cql_type = field_type(&column.cql_type, field.as_str());
                self.term(value, field.as_str(), &cql_type);
            }
        }
    }

    fn deletion(&mut self, deletion: &Deletion<'_>) -> Result<(), Failure> {
        let column = self.layout.column(deletion.column.as_str())?;
        if let DeletionTarget::Element(key) = &deletion.target {
            let key_type = match &column.cql_type {
                CqlType::Set(element) => (**element).clone(),
                other => element_types(other).0,
            };
            self.term(key, &format!("key({})", column.name), &key_type);
        }
        Ok(())
    }

    fn relation(&mut self, relation: &Relation<'_>) -> Result<(), Failure> {
        let (name, cql_type) = match &relation.subject {
            Subject::Column(name) => {
                let column = self.layout.column(name.as_str())?;
                if let (RelationOperator::Equal, Comparand::One(value)) =
                    (relation.operator, &relation.comparand)
                {
                    self.whole(value, column);
                    return Ok(());
                }
                (
                    column.name.clone(),
                    compared_type(&column.cql_type, relation.operator),
                )
            }
            Subject::Columns(names) => {
                let columns = names.iter().map(|name| self.layout.column(name.as_str()));
                let columns: Vec<&Column> = columns.collect::<Result<_, _>>()?;
                let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
                let types = columns.iter().map(|column| column.cql_type.clone()).collect();
                (format!("({})", names.join(",")), CqlType::Tuple(types))
            }
            Subject::Token(_) => ("partition key token".to_owned(), CqlType::BigInt),
            Subject::Element(name, key) => {
                let column = self.layout.column(name.as_str())?;
                let (key_type, value_type) = element_types(&column.cql_type);
                self.term(key, &format!("key({name})"), &key_type);
                (format!("value({name})"), value_type)
            }
            Subject::Field(name, field) => {
                let column = self.layout.column(name.as_str())?;
                (
                    field.as_str().to_owned(),
                    field_type(&column.cql_type, field.as_str()),
                )
            }
        };
        match &relation.comparand {
            Comparand::None => {}
            Comparand::One(value) => self.term(value, &name, &cql_type),
            Comparand::Range(ends) => {
                self.term(&ends.0, &name, &cql_type);
                self.term(&ends.1, &name, &cql_type);
            }
            Comparand::List(values) => values.iter().for_each(|value| self.term(value, &name, &cql_type)),
            Comparand::Marker(marker) => {
                self.marker(marker, &format!("in({name})"), &CqlType::list(cql_type))
            }
        }
        Ok(())
    }

    /// A value of the whole column: with `=` or in an INSERT it may be a part of the partition key.
    fn whole(&mut self, value: &Term<'_>, column: &Column) {
        self.term(value, &column.name, &column.cql_type);
        if let (Term::BindMarker(marker), true) = (value, column.is_partition_key())
            && let Some(Some(found)) = self.found.get_mut(marker.index)
        {
            found.key_of = Some(column.index);
        }
    }

    fn optional(&mut self, term: Option<&Term<'_>>, name: &str, cql_type: &CqlType) {
        if let Some(term) = term {
            self.term(term, name, cql_type);
        }
    }

    fn term(&mut self, term: &Term<'_>, name: &str, cql_type: &CqlType) {
        match (term, cql_type) {
            (Term::BindMarker(marker), _) => self.marker(marker, name, cql_type),
            (Term::TypeHint { term, .. }, _) => self.term(term, name, cql_type),
            (Term::Function(call), _) => {
                for argument in &call.arguments {
                    self.term(
                        argument,
                        &format!("arg0({})", call.name.name),
                        &function::argument_type(call),
                    );
                }
            }
            (Term::List { items, .. }, CqlType::List(element) | CqlType::Vector(element, _))
            | (Term::Set { items, .. }, CqlType::Set(element)) => {
                items
                    .iter()
                    .for_each(|item| self.term(item, &format!("value({name})"), element));
            }
            (Term::Map { entries, .. }, CqlType::Map(types)) => {
                for (key, value) in entries {
                    self.term(key, &format!("key({name})"), &types.0);
                    self.term(value, &format!("value({name})"), &types.1);
                }
            }
            (Term::Tuple { items, .. }, CqlType::Tuple(types)) => {
                for (index, (item, its_type)) in items.iter().zip(types).enumerate() {
                    self.term(item, &format!("{name}[{index}]"), its_type);
                }
            }
            (Term::UserType { fields, .. }, CqlType::Udt(_)) => {
                for (field, value) in fields {
                    self.term(
                        value,
                        &format!("{name}.{field}"),
                        &field_type(cql_type, field.as_str()),
                    );
                }
            }
            _ => {}
        }
    }

    fn marker(&mut self, marker: &BindMarker<'_>, name: &str, cql_type: &CqlType) {
        let name = marker.name.as_ref().map_or(name, |name| name.as_str());
        if let Some(place) = self.found.get_mut(marker.index) {
            *place = Some(Marker {
                column: self.layout.result_column(name, cql_type),
                key_of: None,
            });
        }
    }
}
