//! Why a definition could not be taken over.

use crate::syntax::{ParseError, Span};

/// A definition that could not be taken over, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct SchemaError {
    /// What is wrong.
    pub kind: SchemaErrorKind,
    /// The statement, or the name that is wrong, in the text that was read.
    pub span: Span,
}

/// What is wrong with a script: a statement of two bytes may be a mistake, so only the first ones are kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaErrors {
    /// The first of them, [`SchemaErrors::MOST`] at most.
    pub first: Vec<SchemaError>,
    /// How many there are.
    pub count: usize,
}

impl SchemaErrors {
    /// As many are kept.
    pub const MOST: usize = 100;

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn add(&mut self, error: SchemaError) {
        self.count += 1;
        if self.first.len() < Self::MOST {
            self.first.push(error);
        }
    }
}

/// What is wrong with a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaErrorKind {
    /// The text is not CQL.
    #[error("{}", .0.sentence())]
    Syntax(ParseError),
    /// Neither the name nor a `USE` before it says which keyspace.
    #[error("no keyspace is named or in use")]
    NoKeyspace,
    /// There is no such keyspace.
    #[error("keyspace {0} does not exist")]
    KeyspaceUnknown(String),
    /// There is no such table or view.
    #[error("table {0} does not exist")]
    TableUnknown(String),
    /// There is no such column.
    #[error("column {0} does not exist")]
    ColumnUnknown(String),
    /// There is no such type.
    #[error("type {0} does not exist")]
    TypeUnknown(String),
    /// There is no such function.
    #[error("Unknown function '{0}'")]
    FunctionUnknown(String),
    /// There is no such index.
    #[error("index {0} does not exist")]
    IndexUnknown(String),
    /// There is one of that name already.
    #[error("{0} already exists")]
    AlreadyExists(String),
    /// A table or view without a partition key.
    #[error("no primary key is defined")]
    NoPrimaryKey,
    /// A materialized view where a table is to stand.
    #[error("{0} is a materialized view")]
    IsView(String),
    /// The server's own.
    #[error("{0} is a table of the server")]
    OfTheServer(String),
    /// A table of one keyspace cannot be like one of another whose types are not the same.
    #[error("the types of {0} are not those of the keyspace")]
    TypesDiffer(String),
    /// A constraint that its column cannot have.
    #[error("column {0} cannot have that constraint")]
    ConstraintUnfit(String),
    /// Counters cannot be in transactions.
    #[error("{0}: a table cannot have both counters and transactions")]
    CountersInTransactions(String),
    /// A property that tables or keyspaces do not have.
    #[error("Unknown property '{0}'")]
    PropertyUnknown(String),
    /// What the server does not do, in its words.
    #[error("{0}")]
    Refused(String),
    /// The statement defines nothing.
    #[error("{0} is no definition")]
    NotADefinition(&'static str),
    /// A type in a row of `system_schema` that is not understood.
    #[error("type {0} is not understood")]
    TypeNotUnderstood(String),
}
