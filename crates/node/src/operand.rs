//! The types of operands: what stands beside a column in a relation, an assignment or a deletion.

use cqlens_cql::syntax::ast::{AssignmentOperation, RelationOperator};
use cqlens_proto::types::CqlType;

/// The type on the right of a relation on a column.
pub(super) fn compared_type(column: &CqlType, operator: RelationOperator) -> CqlType {
    match (operator, column) {
        (RelationOperator::Contains, CqlType::List(element) | CqlType::Set(element)) => (**element).clone(),
        (RelationOperator::Contains, CqlType::Map(types)) => types.1.clone(),
        (RelationOperator::ContainsKey, CqlType::Map(types)) => types.0.clone(),
        _ => column.clone(),
    }
}

/// What is added to or taken from a column: of a map, keys are taken away.
pub(super) fn operand_type(column: &CqlType, operation: &AssignmentOperation<'_>) -> CqlType {
    match (operation, column) {
        (AssignmentOperation::Subtract(_), CqlType::Map(types)) => CqlType::set(types.0.clone()),
        (_, CqlType::Counter) => CqlType::BigInt,
        _ => column.clone(),
    }
}

/// Key and value of one element of a map or list.
pub(super) fn element_types(column: &CqlType) -> (CqlType, CqlType) {
    match column {
        CqlType::Map(types) => (types.0.clone(), types.1.clone()),
        CqlType::List(element) => (CqlType::Int, (**element).clone()),
        other => (other.clone(), other.clone()),
    }
}

/// The type of a field of a user-defined type.
pub(super) fn field_type(column: &CqlType, field: &str) -> CqlType {
    match column {
        CqlType::Udt(udt) => {
            let found = udt.fields.iter().find(|(name, _)| name == field);
            found.map_or(CqlType::Blob, |(_, field_type)| field_type.clone())
        }
        _ => CqlType::Blob,
    }
}
