//! What of a write Accord makes only when it has read, or has a timestamp (`ReferenceOperation`).

use crate::schema::{Column, DataType, Table};
use crate::syntax::ast::{Assignment, AssignmentOperation, Deletion, DeletionTarget, Modification};

/// Whether the server has to read what a write of a transaction changes (`Operation.requiresRead`): `c += 1`.
pub fn reads_itself(update: &Modification<'_>, table: &Table) -> bool {
    let column = |name: &str| table.column(name);
    match update {
        Modification::Insert(_) => false,
        Modification::Update(update) => update.assignments.iter().any(|assignment| {
            column(assignment.column.as_str()).is_some_and(|column| changes_stored(assignment, column))
        }),
        Modification::Delete(delete) => delete.deletions.iter().any(|deletion| {
            column(deletion.column.as_str()).is_some_and(|column| deletes_by_index(deletion, column))
        }),
    }
}

/// Whether an assignment makes no cell before Accord has read: of a reference, of what is stored, and of a list whose
/// elements have timestamps in their keys (`Operation.requiresTimestamp`).
pub(super) fn is_deferred(assignment: &Assignment<'_>, column: &Column) -> bool {
    let is_whole_list = matches!(column.data_type, DataType::List(_))
        && matches!(
            assignment.operation,
            AssignmentOperation::Set(_) | AssignmentOperation::Add(_) | AssignmentOperation::Prepend(_)
        );
    is_whole_list || assignment.value().as_reference().is_some() || changes_stored(assignment, column)
}

/// Whether a `DELETE` names an element of a list by its index.
pub(super) fn deletes_by_index(deletion: &Deletion<'_>, column: &Column) -> bool {
    matches!(deletion.target, DeletionTarget::Element(_)) && is_list(column)
}

fn changes_stored(assignment: &Assignment<'_>, column: &Column) -> bool {
    match &assignment.operation {
        AssignmentOperation::Add(_) | AssignmentOperation::Prepend(_) => !column.data_type.is_collection(),
        AssignmentOperation::Subtract(_) => !column.data_type.is_collection() || is_list(column),
        AssignmentOperation::SetElement { .. } => is_list(column),
        AssignmentOperation::Set(_) | AssignmentOperation::SetField { .. } => false,
    }
}

fn is_list(column: &Column) -> bool {
    matches!(column.data_type.thawed(), DataType::List(_))
}
