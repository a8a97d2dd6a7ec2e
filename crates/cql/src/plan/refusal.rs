//! Statements that Cassandra refuses, as far as that can be said here.

use std::borrow::Cow;
use std::fmt;

use crate::syntax::Span;

use crate::footprint::Reason;

/// Why Cassandra would refuse a statement that parses.
///
/// Not every refusal is foreseen: what is not refused here may still be refused by the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// When it would.
    pub stage: Stage,
    /// What it would say, in essence.
    pub message: Cow<'static, str>,
    /// What of the statement is at fault, where that is one place.
    pub span: Option<Span>,
    /// The reason for which the execution's partitions are unknown.
    pub reason: Reason,
    /// What the schema lacks, where that is why.
    pub absent: Option<Absent>,
}

/// A name of a statement that the schema does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Absent {
    /// The keyspace.
    Keyspace,
    /// The table, in a keyspace that there is.
    Table,
    /// A column of a table that there is: the one at the place of the refusal.
    Column,
}

/// When a statement is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    /// When it is prepared: the statement and the schema alone decide.
    Prepare,
    /// When it is executed: a bound value decides.
    Bind,
    /// When it is validated before execution: the kind of statement decides.
    Validate,
}

impl Stage {
    /// The stage in JSON: `prepare`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prepare => "prepare",
            Self::Bind => "bind",
            Self::Validate => "validate",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

impl Refusal {
    /// A refusal when prepared, without a place.
    pub(super) fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            stage: Stage::Prepare,
            message: message.into(),
            span: None,
            reason: Reason::InvalidStatement,
            absent: None,
        }
    }

    /// A column that its table does not have.
    pub(super) fn no_column(name: impl fmt::Display, table: &str, span: Span) -> Self {
        let message = format!("Undefined column name {name} in table {table}");
        Self {
            absent: Some(Absent::Column),
            ..Self::at(message, span)
        }
    }

    /// The same at a place.
    pub(super) fn at(message: impl Into<Cow<'static, str>>, span: Span) -> Self {
        Self {
            span: Some(span),
            ..Self::new(message)
        }
    }

    /// A refusal when executed.
    pub(super) fn bind(reason: Reason, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            stage: Stage::Bind,
            reason,
            ..Self::new(message)
        }
    }

    /// A refusal when validated.
    pub(super) fn validate(message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            stage: Stage::Validate,
            ..Self::new(message)
        }
    }
}
