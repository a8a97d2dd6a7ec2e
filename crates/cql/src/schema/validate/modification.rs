//! `INSERT`, `UPDATE` and `DELETE` as they are prepared and bound: what their terms may be (`Operation`, `Attributes`,
//! `ModificationStatement`).

use super::{MAX_TTL, Validated, function, refused};
use crate::ServerVersion;
use crate::schema::data_type::DataType;
use crate::schema::model::{Column, ColumnKind, Keyspace, Schema, Table};
use crate::syntax::ast::{
    Assignment, AssignmentOperation, Comparand, Delete, Deletion, DeletionTarget, If, Insert, InsertSource,
    Name, QualifiedName, Relation, RelationOperator, Term, Update, Using,
};

impl Schema {
    pub(super) fn validate_insert(
        &self,
        insert: &Insert<'_>,
        current: Option<&str>,
        version: ServerVersion,
    ) -> Validated {
        let Some(written) = self.written(&insert.table, current) else {
            return Ok(());
        };
        check_using(&insert.using)?;
        match &insert.source {
            InsertSource::Values { columns, values } => columns
                .iter()
                .zip(values)
                .try_for_each(|(column, value)| written.check_inserted(column, value, version)),
            InsertSource::Json { .. } => Ok(()),
        }
    }

    pub(super) fn validate_update(
        &self,
        update: &Update<'_>,
        current: Option<&str>,
        version: ServerVersion,
    ) -> Validated {
        let Some(written) = self.written(&update.table, current) else {
            return Ok(());
        };
        check_using(&update.using)?;
        for assignment in &update.assignments {
            function::check(assignment.value(), written.keyspace, version)?;
            written.check_assignment(assignment)?;
        }
        written.check_where(
            &update.where_clause.relations,
            update.condition.as_ref(),
            "updates",
        )
    }

    pub(super) fn validate_delete(&self, delete: &Delete<'_>, current: Option<&str>) -> Validated {
        let Some(written) = self.written(&delete.table, current) else {
            return Ok(());
        };
        let mut deletions = delete.deletions.iter();
        deletions.try_for_each(|deletion| written.check_deletion(deletion))?;
        written.check_where(
            &delete.where_clause.relations,
            delete.condition.as_ref(),
            "deletions",
        )
    }

    fn written(&self, name: &QualifiedName<'_>, current: Option<&str>) -> Option<Written<'_>> {
        let (keyspace, table) = self.known_table(name, current)?;
        Some(Written { table, keyspace })
    }
}

/// `Attributes.getTimeToLive`
fn check_using(using: &Using<'_>) -> Validated {
    let Some(term) = &using.ttl else {
        return Ok(());
    };
    let message = match number(term) {
        Some(ttl) if ttl < 0 => format!("A TTL must be greater or equal to 0, but was {ttl}"),
        Some(ttl) if ttl > i64::from(MAX_TTL) => {
            format!("ttl is too large. requested ({ttl}) maximum ({MAX_TTL})")
        }
        _ => return Ok(()),
    };
    Err(refused(term.span(), message))
}

fn number(term: &Term<'_>) -> Option<i64> {
    match term {
        Term::Literal(literal) => literal.text.parse().ok(),
        Term::Negation { term, .. } => number(term).map(|number| -number),
        _ => None,
    }
}

/// A table that is written, and the keyspace that it is in.
struct Written<'s> {
    table: &'s Table,
    keyspace: &'s Keyspace,
}

impl Written<'_> {
    fn check_inserted(&self, name: &Name<'_>, value: &Term<'_>, version: ServerVersion) -> Validated {
        function::check(value, self.keyspace, version)?;
        match self.table.column(name.as_str()) {
            Some(column) if column.is_primary_key() => check_not_null(column, value),
            _ => Ok(()),
        }
    }

    fn check_assignment(&self, assignment: &Assignment<'_>) -> Validated {
        let Some(column) = self.table.column(assignment.column.as_str()) else {
            return Ok(());
        };
        let (name, place) = (&column.name, assignment.span);
        match &assignment.operation {
            AssignmentOperation::Set(_) => Ok(()),
            AssignmentOperation::SetElement { .. } => {
                let what = match &column.data_type {
                    DataType::List(_) | DataType::Map(..) => return Ok(()),
                    DataType::Set(_) => "set",
                    frozen if frozen.is_collection() => "frozen collection",
                    _ => "non collection",
                };
                Err(refused(
                    place,
                    format!("Invalid operation for {what} column {name}"),
                ))
            }
            AssignmentOperation::SetField { field, .. } => {
                self.check_field(column, field, "Invalid operation for")
            }
            AssignmentOperation::Add(value) | AssignmentOperation::Subtract(value) => {
                let adds = matches!(assignment.operation, AssignmentOperation::Add(_));
                check_operand(column, value, adds)
            }
            AssignmentOperation::Prepend(value) => match &column.data_type {
                DataType::List(_) => check_operand(column, value, true),
                data_type if data_type.is_counter() => Ok(()),
                _ => Err(refused(
                    place,
                    format!("Invalid operation for non list column {name}"),
                )),
            },
        }
    }

    fn check_deletion(&self, deletion: &Deletion<'_>) -> Validated {
        let Some(column) = self.table.column(deletion.column.as_str()) else {
            return Ok(());
        };
        let (name, place) = (&deletion.column, deletion.column.span);
        match &deletion.target {
            DeletionTarget::Column => Ok(()),
            DeletionTarget::Element(_) => {
                let what = match &column.data_type {
                    DataType::List(_) | DataType::Map(..) | DataType::Set(_) => return Ok(()),
                    frozen if frozen.is_collection() => "frozen collection",
                    _ => "non collection",
                };
                Err(refused(
                    place,
                    format!("Invalid deletion operation for {what} column {name}"),
                ))
            }
            DeletionTarget::Field(field) => self.check_field(column, field, "Invalid deletion operation for"),
        }
    }

    fn check_field(&self, column: &Column, field: &Name<'_>, what: &str) -> Validated {
        let name = &column.name;
        let message = match &column.data_type {
            DataType::UserDefined(user_type) => match self.keyspace.types.get(user_type) {
                Some(known) if known.fields.iter().all(|(own, _)| own != field.as_str()) => {
                    format!("UDT column {name} does not have a field named {field}")
                }
                _ => return Ok(()),
            },
            frozen if matches!(frozen.thawed(), DataType::UserDefined(_)) => {
                format!("{what} frozen UDT column {name}")
            }
            _ => format!("{what} non-UDT column {name}"),
        };
        Err(refused(field.span, message))
    }

    fn check_where(&self, relations: &[Relation<'_>], condition: Option<&If<'_>>, what: &str) -> Validated {
        for relation in relations {
            let [name] = relation.subject.columns() else {
                continue;
            };
            let Some(column) = self
                .table
                .column(name.as_str())
                .filter(|column| column.is_primary_key())
            else {
                continue;
            };
            let lists = match (&relation.operator, &relation.comparand) {
                (RelationOperator::In, Comparand::List(values)) => {
                    values
                        .iter()
                        .try_for_each(|value| check_not_null(column, value))?;
                    values.len() > 1
                }
                (RelationOperator::In, _) => true,
                (RelationOperator::Equal, Comparand::One(value)) => {
                    check_not_null(column, value)?;
                    false
                }
                _ => false,
            };
            let key = match column.kind {
                ColumnKind::PartitionKey => "partition key is",
                _ => "clustering key columns is",
            };
            if lists && condition.is_some() {
                return Err(refused(
                    relation.span,
                    format!("IN on the {key} not supported with conditional {what}"),
                ));
            }
        }
        Ok(())
    }
}

/// No row is without a key.
pub(super) fn check_not_null(column: &Column, value: &Term<'_>) -> Validated {
    match value {
        Term::Null(span) => Err(refused(
            *span,
            format!("Invalid null value in condition for column {}", column.name),
        )),
        _ => Ok(()),
    }
}

/// What is added to a collection, or taken from it, is one: of the same kind, or the keys of a map.
fn check_operand(column: &Column, value: &Term<'_>, adds: bool) -> Validated {
    let name = &column.name;
    let is_empty_set = matches!(value, Term::Map { entries, .. } if entries.is_empty());
    let (fits, what): (bool, _) = match (&column.data_type, value) {
        // Others are values of their time.
        (
            _,
            Term::BindMarker(_)
            | Term::Null(_)
            | Term::Function(_)
            | Term::TypeHint { .. }
            | Term::Reference(_),
        ) => {
            return Ok(());
        }
        (DataType::List(_), value) => (matches!(value, Term::List { .. }), "a list"),
        (DataType::Set(_), value) => (matches!(value, Term::Set { .. }) || is_empty_set, "a set"),
        (DataType::Map(..), value) if adds => (matches!(value, Term::Map { .. }), "a map"),
        (DataType::Map(..), value) => (matches!(value, Term::Set { .. }) || is_empty_set, "a set"),
        _ => return Ok(()),
    };
    match fits {
        true => Ok(()),
        false => Err(refused(
            value.span(),
            format!("What is added to or taken from {name} has to be {what}"),
        )),
    }
}
