//! What assignments and deletions of columns do to their cells.

use bytes::Bytes;
use cqlens_cql::syntax::ast::{Assignment, AssignmentOperation, Deletion, DeletionTarget, Term};
use cqlens_proto::types::CqlType;

use super::mutation::CellChange;
use crate::bind::{self, Bound};
use crate::execution::Execution;
use crate::failure::Failure;
use crate::layout::Column;
use crate::operand::{element_types, field_type, operand_type};

/// What an assignment does to its cell; nothing if its value is not set.
///
/// # Errors
/// Operations that the type of the column does not have.
pub(super) fn assignment(
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
            // A transaction reads what it adds to.
            let adds_up = column.cql_type == CqlType::Counter
                || (execution.is_in_transaction && is_whole_number(&column.cql_type));
            match operation {
                AssignmentOperation::Add(_) if adds_up => CellChange::Increment(long_of(&operand)),
                AssignmentOperation::Subtract(_) if adds_up => {
                    CellChange::Increment(long_of(&operand).wrapping_neg())
                }
                _ if !column.is_multi_cell => {
                    return Err(Failure::invalid(format!(
                        "Invalid operation for frozen or simple column {}",
                        column.name
                    )));
                }
                AssignmentOperation::Add(_) => CellChange::Append(operand),
                AssignmentOperation::Prepend(_) => CellChange::Prepend(operand),
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
pub(super) fn put(column: &Column, value: Bytes) -> CellChange {
    let is_empty_collection = column.is_multi_cell && matches!(value[..], [0, 0, 0, 0]);
    if is_empty_collection {
        CellChange::Delete
    } else {
        CellChange::Put(value)
    }
}

/// A serialized whole number of at most eight bytes, a counter or a timestamp: big-endian, in two's complement.
pub(super) fn long_of(bytes: &[u8]) -> i64 {
    let sign = bytes
        .first()
        .map_or(0, |first| i64::from(first.cast_signed() >> 7));
    bytes
        .iter()
        .fold(sign, |number, byte| number << 8 | i64::from(*byte))
}

/// What a deletion of a column, or of a part of one, does to its cell.
///
/// # Errors
/// Values that are none of their type.
pub(super) fn deletion(
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

/// What a transaction adds to: whole numbers are all that this node computes.
fn is_whole_number(cql_type: &CqlType) -> bool {
    [CqlType::TinyInt, CqlType::SmallInt, CqlType::Int, CqlType::BigInt].contains(cql_type)
}
