//! Relations: the parts of `WHERE` and `IF`.

use super::{BindMarker, Name, QualifiedName, Term};
use crate::syntax::Span;

/// A `WHERE` clause; empty where the statement has none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Where<'text> {
    /// The relations, all joined by `AND`; brackets around a relation are dropped.
    pub relations: Vec<Relation<'text>>,
    /// `expr(index, value)`, also joined by `AND`.
    pub custom_index_expressions: Vec<CustomIndexExpression<'text>>,
}

/// One relation of a `WHERE` clause or one condition of an `IF` clause.
#[derive(Debug, Clone, PartialEq)]
pub struct Relation<'text> {
    /// What is compared.
    pub subject: Subject<'text>,
    /// How.
    pub operator: RelationOperator,
    /// With what.
    pub comparand: Comparand<'text>,
    /// From the subject to the end of the comparand.
    pub span: Span,
}

/// The left side of a relation.
#[derive(Debug, Clone, PartialEq)]
pub enum Subject<'text> {
    /// `column`.
    Column(Name<'text>),
    /// `(column, …)`; may hold a single column.
    Columns(Vec<Name<'text>>),
    /// `token(column, …)`.
    Token(Vec<Name<'text>>),
    /// `column[key]`: a map's or list's element.
    Element(Name<'text>, Box<Term<'text>>),
    /// `column.field` (only in `IF`).
    Field(Name<'text>, Name<'text>),
}

impl<'text> Subject<'text> {
    /// The columns that the subject names, in the order of the text.
    #[must_use]
    pub fn columns(&self) -> &[Name<'text>] {
        match self {
            Self::Column(column) | Self::Element(column, _) | Self::Field(column, _) => {
                std::slice::from_ref(column)
            }
            Self::Columns(columns) | Self::Token(columns) => columns,
        }
    }
}

/// The right side of a relation; which form goes with which operator is said there.
#[derive(Debug, Clone, PartialEq)]
pub enum Comparand<'text> {
    /// Nothing: `IS NOT NULL`.
    None,
    /// One value: all comparisons, `LIKE`, `CONTAINS`, `CONTAINS KEY` and their opposites. For several columns a tuple or a
    /// marker.
    One(Term<'text>),
    /// Both ends: `BETWEEN`.
    Range(Box<(Term<'text>, Term<'text>)>),
    /// `IN (…)` and `NOT IN (…)`: the listed terms, none for `IN ()`. For several columns each is a tuple or
    /// a marker.
    List(Vec<Term<'text>>),
    /// `IN ?` and `NOT IN ?`: one marker is bound to the whole list.
    Marker(BindMarker<'text>),
}

/// How a relation compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RelationOperator {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    LessThan,
    /// `<=`
    LessOrEqual,
    /// `>`
    GreaterThan,
    /// `>=`
    GreaterOrEqual,
    /// `IN`
    In,
    /// `NOT IN` (Cassandra 6.0)
    NotIn,
    /// `BETWEEN … AND …` (Cassandra 6.0)
    Between,
    /// `LIKE`
    Like,
    /// `CONTAINS`
    Contains,
    /// `CONTAINS KEY`
    ContainsKey,
    /// `NOT CONTAINS` (Cassandra 6.0)
    NotContains,
    /// `NOT CONTAINS KEY` (Cassandra 6.0)
    NotContainsKey,
    /// `IS NULL` (only in transactions)
    IsNull,
    /// `IS NOT NULL`
    IsNotNull,
}

impl RelationOperator {
    /// The operator in CQL, in upper case.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::LessThan => "<",
            Self::LessOrEqual => "<=",
            Self::GreaterThan => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "IN",
            Self::NotIn => "NOT IN",
            Self::Between => "BETWEEN",
            Self::Like => "LIKE",
            Self::Contains => "CONTAINS",
            Self::ContainsKey => "CONTAINS KEY",
            Self::NotContains => "NOT CONTAINS",
            Self::NotContainsKey => "NOT CONTAINS KEY",
            Self::IsNull => "IS NULL",
            Self::IsNotNull => "IS NOT NULL",
        }
    }
}

/// `expr(index, value)`: a query in an index's own language.
#[derive(Debug, Clone, PartialEq)]
pub struct CustomIndexExpression<'text> {
    /// The index that is asked.
    pub index: QualifiedName<'text>,
    /// What it is asked.
    pub value: Term<'text>,
    /// Brackets included.
    pub span: Span,
}
