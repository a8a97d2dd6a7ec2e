//! Constraints of columns (Cassandra 6.0): which writes violate them (`ColumnConstraint.evaluate`).

use cqlens_proto::message::Values;
use cqlens_proto::types::CqlType;
use regex::{Regex, RegexBuilder};

use super::compile::Receiver;
use super::refusal::Refusal;
use super::restriction::Test;
use super::restrictions::Restrictions;
use super::target::Target;
use super::term::{CompiledTerm, Datum};
use super::value;
use crate::footprint::Reason;
use crate::schema::{Column, Constraint};
use crate::syntax::Span;
use crate::syntax::ast::{CheckFunction, Literal, LiteralKind, RelationOperator, Term};

/// A value that is written to a column with constraints.
#[derive(Debug, Clone)]
pub(super) struct CheckedValue {
    column: Box<str>,
    cql_type: CqlType,
    term: CompiledTerm,
    tests: Vec<ConstraintTest>,
}

#[derive(Debug, Clone)]
struct ConstraintTest {
    /// As CQL writes it.
    text: Box<str>,
    kind: TestKind,
}

#[derive(Debug, Clone)]
enum TestKind {
    /// Everything passes that is not null.
    NotNull,
    Json,
    Length(RelationOperator, u64),
    OctetLength(RelationOperator, u64),
    Regexp(bool, Regex),
    Value(RelationOperator, Box<[u8]>),
}

/// How much a regular expression of a schema may take up when compiled.
const REGEX_BYTES: usize = 1 << 20;

impl Target<'_> {
    /// The values of a write that its columns constrain: of those that `written` says, and of the key.
    pub(super) fn checked_values<'w, 't: 'w>(
        &self,
        written: impl Iterator<Item = (&'w str, &'w Term<'t>)>,
        restrictions: &Restrictions<'_>,
    ) -> Vec<CheckedValue> {
        if self
            .table
            .columns
            .iter()
            .all(|column| column.constraints.is_empty())
        {
            return Vec::new();
        }
        let written = written.filter_map(|(name, term)| {
            let column = self
                .table
                .column(name)
                .filter(|column| !column.is_primary_key())?;
            let cql_type = self.keyspace.resolve(&column.data_type);
            let receiver = Receiver {
                name,
                cql_type: &cql_type,
            };
            let term = self.compiler().term(term, receiver).ok()?;
            self.checked_value(column, term)
        });
        let keys = restrictions
            .partition
            .iter()
            .flatten()
            .chain(&restrictions.clustering);
        let keys = keys.filter_map(
            |restriction| match (&restriction.test, restriction.columns.as_slice()) {
                (Test::Equal(term), [column]) if !restriction.is_multi_column => {
                    self.checked_value(column, term.clone())
                }
                _ => None,
            },
        );
        written.chain(keys).collect()
    }

    fn checked_value(&self, column: &Column, term: CompiledTerm) -> Option<CheckedValue> {
        let cql_type = self.keyspace.resolve(&column.data_type);
        let tests: Vec<_> = column
            .constraints
            .iter()
            .filter_map(|constraint| {
                Some(ConstraintTest {
                    text: constraint.on(&column.name).to_string().into(),
                    kind: self.test(constraint, &cql_type)?,
                })
            })
            .collect();
        (!tests.is_empty()).then(|| CheckedValue {
            column: column.name.as_str().into(),
            cql_type,
            term,
            tests,
        })
    }

    fn test(&self, constraint: &Constraint, cql_type: &CqlType) -> Option<TestKind> {
        Some(match constraint {
            Constraint::NotNull => TestKind::NotNull,
            Constraint::Json => TestKind::Json,
            Constraint::Function {
                function: CheckFunction::Regexp,
                operator,
                value,
            } => {
                let whole = format!(r"\A(?:{})\z", Constraint::decoded(value));
                let regex = RegexBuilder::new(&whole).size_limit(REGEX_BYTES).build().ok()?;
                TestKind::Regexp(*operator == RelationOperator::Equal, regex)
            }
            Constraint::Function {
                function,
                operator,
                value,
            } => {
                let length = Constraint::decoded(value).parse().ok()?;
                match function {
                    CheckFunction::OctetLength => TestKind::OctetLength(*operator, length),
                    _ => TestKind::Length(*operator, length),
                }
            }
            Constraint::Value { operator, value } => {
                let kind = match value.as_bytes() {
                    [b'\'', ..] => LiteralKind::String,
                    text if text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => LiteralKind::Float,
                    _ => LiteralKind::Integer,
                };
                let literal = Term::Literal(Literal {
                    kind,
                    text: value,
                    span: Span::default(),
                });
                let receiver = Receiver {
                    name: "constraint",
                    cql_type,
                };
                match self.compiler().term(&literal, receiver).ok()? {
                    CompiledTerm::Constant(bytes) => TestKind::Value(*operator, bytes),
                    _ => return None,
                }
            }
        })
    }

    /// Refuses a write that leaves out a column which must not be null.
    pub(super) fn check_required<'w>(
        &self,
        written: impl Iterator<Item = &'w str> + Clone,
    ) -> Result<(), Refusal> {
        let is_required = |column: &&Column| {
            let must_be_set = column.constraints.contains(&Constraint::NotNull);
            must_be_set && !written.clone().any(|name| name == column.name)
        };
        match self.table.columns.iter().find(is_required) {
            Some(column) => Err(Refusal::new(format!(
                "Column '{}' has to be specified as part of this query.",
                column.name
            ))),
            None => Ok(()),
        }
    }
}

impl CheckedValue {
    /// Refuses a value that violates a constraint; what the server computes passes.
    pub(super) fn check(&self, values: Option<&Values<'_>>) -> Result<(), Refusal> {
        match self.term.evaluate(values) {
            Ok(Datum::Null) => Err(violated(format!(
                "Column value does not satisfy value constraint for column '{}' as it is null.",
                self.column
            ))),
            Ok(Datum::Bytes(bytes)) => self.check_bytes(&bytes),
            Ok(Datum::NotSet) | Err(_) => Ok(()),
        }
    }

    fn check_bytes(&self, bytes: &[u8]) -> Result<(), Refusal> {
        let may_be_empty = matches!(self.cql_type, CqlType::Text | CqlType::Ascii | CqlType::Blob);
        if bytes.is_empty() && !may_be_empty {
            return Err(violated(format!(
                "Column value does not satisfy value constraint for column '{}' as it is empty.",
                self.column
            )));
        }
        let failed = self
            .tests
            .iter()
            .find(|test| !test.kind.holds(bytes, &self.cql_type));
        match failed {
            Some(test) => Err(violated(format!(
                "Column value does not satisfy value constraint for column '{}'. It should be {}",
                self.column, test.text
            ))),
            None => Ok(()),
        }
    }
}

/// The refusal of a document that sets a column to null which has constraints: none lets null pass.
pub(super) fn null_of(column: &str) -> Refusal {
    violated(format!(
        "Column value does not satisfy value constraint for column '{column}' as it is null."
    ))
}

fn violated(message: String) -> Refusal {
    Refusal::bind(Reason::InvalidStatement, message)
}

impl TestKind {
    fn holds(&self, bytes: &[u8], cql_type: &CqlType) -> bool {
        let text = || std::str::from_utf8(bytes).unwrap_or_default();
        match self {
            Self::NotNull => true,
            Self::Json => serde_json::from_slice::<serde::de::IgnoredAny>(bytes).is_ok(),
            Self::Length(operator, length) => {
                // As Java counts: characters beyond the first 65,536 are two.
                let found = match cql_type {
                    CqlType::Blob => bytes.len(),
                    _ => text().encode_utf16().count(),
                };
                compares(*operator, (found as u64).cmp(length))
            }
            Self::OctetLength(operator, length) => compares(*operator, (bytes.len() as u64).cmp(length)),
            Self::Regexp(matches, regex) => regex.is_match(text()) == *matches,
            Self::Value(operator, value) => compares(*operator, value::compare(cql_type, bytes, value)),
        }
    }
}

fn compares(operator: RelationOperator, order: std::cmp::Ordering) -> bool {
    match operator {
        RelationOperator::Equal => order.is_eq(),
        RelationOperator::NotEqual => order.is_ne(),
        RelationOperator::LessThan => order.is_lt(),
        RelationOperator::LessOrEqual => order.is_le(),
        RelationOperator::GreaterThan => order.is_gt(),
        RelationOperator::GreaterOrEqual => order.is_ge(),
        _ => true,
    }
}
