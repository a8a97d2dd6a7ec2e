//! `SELECT` and its clauses.

use super::{Name, Property, QualifiedName, Term, Using, Where};
use crate::syntax::Span;

/// `SELECT … FROM …`.
#[derive(Debug, Clone, PartialEq)]
pub struct Select<'text> {
    /// `SELECT JSON`.
    pub json: bool,
    /// `SELECT DISTINCT`.
    pub distinct: bool,
    /// What is selected.
    pub selection: Selection<'text>,
    /// The table or view that is read.
    pub table: QualifiedName<'text>,
    /// `WHERE`.
    pub where_clause: Where<'text>,
    /// `GROUP BY`: columns, or since Cassandra 5.0 functions of them.
    pub group_by: Vec<Term<'text>>,
    /// `ORDER BY`.
    pub order_by: Vec<Ordering<'text>>,
    /// `PER PARTITION LIMIT`: an integer literal or a bind marker.
    pub per_partition_limit: Option<Term<'text>>,
    /// `LIMIT`: an integer literal or a bind marker.
    pub limit: Option<Term<'text>>,
    /// `ALLOW FILTERING`.
    pub allow_filtering: bool,
    /// `WITH`: `included_indexes` and `excluded_indexes` (Cassandra 6.0).
    pub options: Vec<Property<'text>>,
    /// `BYPASS CACHE` (ScyllaDB).
    pub bypass_cache: bool,
    /// `USING TIMEOUT` (ScyllaDB).
    pub using: Using<'text>,
}

/// What a `SELECT` asks for.
#[derive(Debug, Clone, PartialEq)]
pub enum Selection<'text> {
    /// `*`
    All,
    /// Columns and expressions.
    Selectors(Vec<Selector<'text>>),
}

/// One column of the result.
#[derive(Debug, Clone, PartialEq)]
pub struct Selector<'text> {
    /// How it is computed.
    pub term: Term<'text>,
    /// `AS alias`.
    pub alias: Option<Name<'text>>,
}

/// One column of `ORDER BY`.
#[derive(Debug, Clone, PartialEq)]
pub struct Ordering<'text> {
    /// The column.
    pub column: Name<'text>,
    /// `ANN OF vector`: by distance from that vector instead of by value.
    pub ann_of: Option<Term<'text>>,
    /// `ASC` (also where nothing is said) or `DESC`.
    pub direction: Direction,
    /// From the column to the direction.
    pub span: Span,
}

/// A direction of ordering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Direction {
    /// `ASC`
    #[default]
    Ascending,
    /// `DESC`
    Descending,
}
