//! Constraints of columns (`CHECK`, Cassandra 6.0), as definitions say them: `system_schema` does not.

use std::fmt;

use super::quote::quote;
use crate::syntax::ast::{Check, CheckFunction, Literal, LiteralKind, RelationOperator, Term};

/// What every value that is written to a column has to be; no constraint lets null pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constraint {
    /// `NOT NULL`
    NotNull,
    /// `JSON`
    Json,
    /// `LENGTH() < 5`
    Function {
        /// What is computed of the value.
        function: CheckFunction,
        /// A comparison.
        operator: RelationOperator,
        /// What the result is compared with, as CQL writes it.
        value: String,
    },
    /// `column < 5`
    Value {
        /// A comparison.
        operator: RelationOperator,
        /// What the value is compared with, as CQL writes it.
        value: String,
    },
}

impl Constraint {
    /// The constraint that a definition says.
    pub(super) fn of(check: &Check<'_>) -> Self {
        match check {
            Check::NotNull { .. } => Self::NotNull,
            Check::Json { .. } => Self::Json,
            Check::Function {
                function,
                operator,
                value,
                ..
            } => Self::Function {
                function: *function,
                operator: *operator,
                value: text_of(value),
            },
            Check::Value { operator, value, .. } => Self::Value {
                operator: *operator,
                value: text_of(value),
            },
        }
    }

    /// The value that it compares with, without quotes.
    pub(crate) fn decoded(value: &str) -> String {
        let inner = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        inner.map_or_else(|| value.to_owned(), |inner| inner.replace("''", "'"))
    }

    /// The constraint on a column of that name, as CQL writes it.
    pub fn on<'c>(&'c self, column: &'c str) -> impl fmt::Display + 'c {
        Printed {
            constraint: self,
            column,
        }
    }

    /// Bytes that it takes up beside itself.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::NotNull | Self::Json => 0,
            Self::Function { value, .. } | Self::Value { value, .. } => value.len(),
        }
    }
}

fn text_of(value: &Term<'_>) -> String {
    let Term::Literal(literal) = value else {
        // Nothing that is no constant can be compared with; the server refuses the definition.
        return "NULL".to_owned();
    };
    match literal {
        // `$$…$$` would need its own quoting.
        Literal {
            kind: LiteralKind::String,
            ..
        } => format!("'{}'", literal.decoded().replace('\'', "''")),
        Literal { text, .. } => (*text).to_owned(),
    }
}

struct Printed<'c> {
    constraint: &'c Constraint,
    column: &'c str,
}

impl fmt::Display for Printed<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.constraint {
            Constraint::NotNull => out.write_str("NOT NULL"),
            Constraint::Json => out.write_str("JSON"),
            Constraint::Function {
                function,
                operator,
                value,
            } => write!(out, "{}() {} {value}", function.as_str(), operator.as_str()),
            Constraint::Value { operator, value } => {
                write!(out, "{} {} {value}", quote(self.column), operator.as_str())
            }
        }
    }
}
