//! What is said of single columns, or of tuples of columns (`Restriction`, `RestrictionSet`).

use crate::syntax::ast::RelationOperator;

use super::refusal::Refusal;
use super::term::{CompiledTerm, Marker};
use crate::schema::{Column, ColumnKind, Table};

/// What is said of one column, or of several that are compared as a tuple.
#[derive(Debug, Clone)]
pub(super) struct Restriction<'s> {
    /// The columns in the order of the relation; more than one only for clustering columns.
    pub(super) columns: Vec<&'s Column>,
    /// Written as a tuple, `(c) = (1)`, or merged with such a relation.
    pub(super) is_multi_column: bool,
    pub(super) test: Test,
}

/// How columns are restricted.
#[derive(Debug, Clone)]
pub(super) enum Test {
    Equal(CompiledTerm),
    In(Choices),
    Slice(Slice),
    Contains(Contains),
    Like,
    IsNotNull,
    Ann,
}

/// What an `IN` lists.
#[derive(Debug, Clone)]
pub(super) enum Choices {
    Listed(Vec<CompiledTerm>),
    /// `IN ?`: the marker is bound to a list.
    Bound(Marker),
}

/// An inequality or two.
#[derive(Debug, Clone, Default)]
pub(super) struct Slice {
    pub(super) start: Option<Bound>,
    pub(super) end: Option<Bound>,
}

/// One end of a slice.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    pub(super) term: CompiledTerm,
    pub(super) inclusive: bool,
    /// Compares a tuple of columns, not one column.
    pub(super) is_tuple: bool,
}

/// How many `CONTAINS`, `CONTAINS KEY` and `column[key] = value` a column is restricted by.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Contains {
    pub(super) values: usize,
    pub(super) keys: usize,
    pub(super) entries: usize,
}

impl Restriction<'_> {
    pub(super) fn is_in(&self) -> bool {
        matches!(self.test, Test::In(_))
    }

    pub(super) fn is_slice(&self) -> bool {
        matches!(self.test, Test::Slice(_))
    }

    pub(super) fn is_contains(&self) -> bool {
        matches!(self.test, Test::Contains(_))
    }

    pub(super) fn is_equality(&self) -> bool {
        matches!(self.test, Test::Equal(_) | Test::In(_))
    }
}

impl Slice {
    /// One end, of one column or of a tuple.
    pub(super) fn of(operator: RelationOperator, term: CompiledTerm, is_tuple: bool) -> Self {
        let inclusive = matches!(
            operator,
            RelationOperator::LessOrEqual | RelationOperator::GreaterOrEqual
        );
        let bound = Some(Bound {
            term,
            inclusive,
            is_tuple,
        });
        match operator {
            RelationOperator::LessThan | RelationOperator::LessOrEqual => Self {
                start: None,
                end: bound,
            },
            _ => Self {
                start: bound,
                end: None,
            },
        }
    }

    /// Both slices; refused if both have the same end.
    pub(super) fn and(self, other: Self, column: &str) -> Result<Self, Refusal> {
        let both = |end: &str| {
            Err(Refusal::new(format!(
                "More than one restriction was found for the {end} bound on {column}"
            )))
        };
        match (&self, &other) {
            (Self { start: Some(_), .. }, Self { start: Some(_), .. }) => both("start"),
            (Self { end: Some(_), .. }, Self { end: Some(_), .. }) => both("end"),
            _ => Ok(Self {
                start: self.start.or(other.start),
                end: self.end.or(other.end),
            }),
        }
    }
}

impl<'s> Restriction<'s> {
    /// Both restrictions, which share a column: `SingleRestriction.mergeWith`.
    pub(super) fn and(self, other: Self) -> Result<Self, Refusal> {
        let names: Vec<&str> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let names = names.join(", ");
        let refuse = |message: String| Err(Refusal::new(message));
        let more_than_one = |what: &str| {
            refuse(format!(
                "{names} cannot be restricted by more than one relation if it includes {what}"
            ))
        };
        match (self.test, other.test) {
            (Test::Equal(_), _) => more_than_one("an Equal"),
            (Test::In(_), _) => more_than_one("a IN"),
            (Test::Like, _) => more_than_one("a LIKE"),
            (Test::IsNotNull, _) => more_than_one("an IS NOT NULL"),
            (Test::Ann, _) => more_than_one("an ANN ordering"),
            (Test::Contains(mine), Test::Contains(theirs)) => Ok(Self {
                columns: self.columns,
                is_multi_column: false,
                test: Test::Contains(Contains {
                    values: mine.values + theirs.values,
                    keys: mine.keys + theirs.keys,
                    entries: mine.entries + theirs.entries,
                }),
            }),
            (Test::Contains(_), _) => refuse(format!(
                "Collection column {names} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality"
            )),
            (Test::Slice(mine), Test::Slice(theirs)) => {
                if self.columns[0].name != other.columns[0].name {
                    return refuse(format!(
                        "Column \"{names}\" cannot be restricted by two inequalities not starting with the same column"
                    ));
                }
                let columns = if self.columns.len() >= other.columns.len() {
                    self.columns
                } else {
                    other.columns
                };
                Ok(Self {
                    test: Test::Slice(mine.and(theirs, &names)?),
                    is_multi_column: self.is_multi_column || other.is_multi_column,
                    columns,
                })
            }
            (Test::Slice(_), _) => refuse(format!(
                "Column \"{names}\" cannot be restricted by both an equality and an inequality relation"
            )),
        }
    }

    /// The positions of the columns among the table's clustering columns.
    pub(super) fn positions(&self, table: &Table) -> (usize, usize) {
        let clustering = table.clustering();
        let position = |column: &&Column| clustering.iter().position(|other| other.name == column.name);
        let first = self.columns.first().and_then(position).unwrap_or(0);
        (first, first + self.columns.len() - 1)
    }

    pub(super) fn kind(&self) -> ColumnKind {
        self.columns
            .first()
            .map_or(ColumnKind::Regular, |column| column.kind)
    }
}
