//! `INSERT`, `UPDATE`, `DELETE` and the batch of them.

use super::{Name, QualifiedName, Relation, Term, Using, Where};
use crate::syntax::Span;

/// `INSERT INTO …`.
#[derive(Debug, Clone, PartialEq)]
pub struct Insert<'text> {
    /// The table that is written.
    pub table: QualifiedName<'text>,
    /// Columns and values, or one JSON document.
    pub source: InsertSource<'text>,
    /// `IF NOT EXISTS`.
    pub if_not_exists: bool,
    /// `USING`.
    pub using: Using<'text>,
}

/// Where the values of an `INSERT` come from.
#[derive(Debug, Clone, PartialEq)]
pub enum InsertSource<'text> {
    /// `(columns) VALUES (values)`; that both are of one length is not checked here, nor by Cassandra's
    /// grammar.
    Values {
        /// The columns, in the order of the text.
        columns: Vec<Name<'text>>,
        /// Their values, in the order of the text.
        values: Vec<Term<'text>>,
    },
    /// `JSON value`.
    Json {
        /// A string literal or a bind marker.
        value: Term<'text>,
        /// What becomes of columns that the document does not name.
        default: JsonDefault,
    },
}

/// What an `INSERT … JSON` does to columns that the document does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum JsonDefault {
    /// `DEFAULT NULL`, also where nothing is said: they are deleted.
    #[default]
    Null,
    /// `DEFAULT UNSET`: they stay.
    Unset,
}

/// `UPDATE … SET … WHERE …`.
#[derive(Debug, Clone, PartialEq)]
pub struct Update<'text> {
    /// The table that is written.
    pub table: QualifiedName<'text>,
    /// `USING`.
    pub using: Using<'text>,
    /// `SET`; never empty.
    pub assignments: Vec<Assignment<'text>>,
    /// `WHERE`.
    pub where_clause: Where<'text>,
    /// `IF`.
    pub condition: Option<If<'text>>,
}

/// One assignment of `SET`.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment<'text> {
    /// The column that changes.
    pub column: Name<'text>,
    /// How it changes.
    pub operation: AssignmentOperation<'text>,
    /// From the column to the end of the operation.
    pub span: Span,
}

impl<'text> Assignment<'text> {
    /// What is assigned, added or taken away.
    pub fn value(&self) -> &Term<'text> {
        match &self.operation {
            AssignmentOperation::Set(value)
            | AssignmentOperation::Add(value)
            | AssignmentOperation::Subtract(value)
            | AssignmentOperation::Prepend(value)
            | AssignmentOperation::SetElement { value, .. }
            | AssignmentOperation::SetField { value, .. } => value,
        }
    }
}

/// What an assignment does to its column `c`.
#[derive(Debug, Clone, PartialEq)]
pub enum AssignmentOperation<'text> {
    /// `c = term`.
    Set(Term<'text>),
    /// `c = c + term` or `c += term`: a counter's increment, a list's append, a union.
    Add(Term<'text>),
    /// `c = c - term` or `c -= term`.
    Subtract(Term<'text>),
    /// `c = term + c`: a list's prepend.
    Prepend(Term<'text>),
    /// `c[key] = value`.
    SetElement {
        /// Map key or list index.
        key: Term<'text>,
        /// Its new value.
        value: Term<'text>,
    },
    /// `c.field = value`.
    SetField {
        /// The field of a user-defined type.
        field: Name<'text>,
        /// Its new value.
        value: Term<'text>,
    },
}

/// `DELETE … FROM … WHERE …`.
#[derive(Debug, Clone, PartialEq)]
pub struct Delete<'text> {
    /// What is deleted of each row; nothing said: the whole row (or all rows of the partition).
    pub deletions: Vec<Deletion<'text>>,
    /// The table that is written.
    pub table: QualifiedName<'text>,
    /// `USING`.
    pub using: Using<'text>,
    /// `WHERE`.
    pub where_clause: Where<'text>,
    /// `IF`.
    pub condition: Option<If<'text>>,
}

/// A column, or a part of one, that a `DELETE` names.
#[derive(Debug, Clone, PartialEq)]
pub struct Deletion<'text> {
    /// The column.
    pub column: Name<'text>,
    /// All of it, or which part.
    pub target: DeletionTarget<'text>,
}

/// The part of a column that is deleted.
#[derive(Debug, Clone, PartialEq)]
pub enum DeletionTarget<'text> {
    /// `c`
    Column,
    /// `c[key]`
    Element(Term<'text>),
    /// `c.field`
    Field(Name<'text>),
}

/// The `IF` of an `UPDATE` or `DELETE`; an `INSERT` has [`Insert::if_not_exists`].
#[derive(Debug, Clone, PartialEq)]
pub enum If<'text> {
    /// `IF EXISTS`
    Exists,
    /// `IF condition AND …`; never empty.
    Conditions(Vec<Relation<'text>>),
}

/// `BEGIN … BATCH … APPLY BATCH`.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch<'text> {
    /// Logged (where nothing is said), unlogged or counter.
    pub kind: BatchKind,
    /// `USING` of the batch as a whole.
    pub using: Using<'text>,
    /// The statements; may be empty.
    pub statements: Vec<Modification<'text>>,
}

/// The kinds of batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum BatchKind {
    /// Written to the batch log first.
    #[default]
    Logged,
    /// `UNLOGGED`
    Unlogged,
    /// `COUNTER`
    Counter,
}

/// A statement of a batch.
#[derive(Debug, Clone, PartialEq)]
pub enum Modification<'text> {
    /// `INSERT`
    Insert(Insert<'text>),
    /// `UPDATE`
    Update(Update<'text>),
    /// `DELETE`
    Delete(Delete<'text>),
}

impl<'text> Modification<'text> {
    /// The table that is written.
    #[must_use]
    pub const fn table(&self) -> &QualifiedName<'text> {
        match self {
            Self::Insert(insert) => &insert.table,
            Self::Update(update) => &update.table,
            Self::Delete(delete) => &delete.table,
        }
    }
}
