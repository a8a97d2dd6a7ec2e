//! What is said of single columns, or of tuples of columns (`Restriction`, `RestrictionSet`).

use crate::syntax::ast::RelationOperator;

use cqlens_proto::message::Values;

use super::refusal::Refusal;
use super::term::{CompiledTerm, Datum, Marker};
use crate::footprint::Reason;
use crate::schema::{Column, ColumnKind, Table};

/// What is said of one column, or of several that are compared as a tuple.
#[derive(Debug, Clone)]
pub(super) struct Restriction<'s> {
    /// The columns in the order of the relation; more than one only for clustering columns.
    pub(super) columns: Vec<&'s Column>,
    /// Written as a tuple, `(c) = (1)`, or merged with such a relation.
    pub(super) is_multi_column: bool,
    pub(super) test: Test,
    /// What `LIKE` and `NOT CONTAINS` compare with.
    pub(super) filters: Vec<FilterValue>,
}

/// A value that rows are filtered by, and that must be there.
#[derive(Debug, Clone)]
pub(super) struct FilterValue {
    pub(super) column: Box<str>,
    pub(super) term: CompiledTerm,
    pub(super) is_pattern: bool,
}

impl FilterValue {
    /// Refuses null, and an empty pattern (`LikePattern.parse`).
    pub(super) fn check(&self, values: Option<&Values<'_>>) -> Result<(), Refusal> {
        let what = match self.term.evaluate(values) {
            Ok(Datum::Null) => "null",
            Ok(Datum::NotSet) => "unset",
            Ok(Datum::Bytes(pattern)) if self.is_pattern && !pattern.iter().any(|byte| *byte != b'%') => {
                let message = "LIKE value can't be empty.";
                return Err(Refusal::bind(Reason::InvalidStatement, message));
            }
            _ => return Ok(()),
        };
        let message = format!("Invalid {what} value for column {}", self.column);
        Err(Refusal::bind(Reason::InvalidStatement, message))
    }
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

/// Inequalities: at most one for each end, and any number of values that are left out.
#[derive(Debug, Clone, Default)]
pub(super) struct Slice {
    pub(super) start: Option<Bound>,
    pub(super) end: Option<Bound>,
    /// `!=` and `NOT IN`.
    pub(super) excluded: Vec<Excluded>,
}

/// Values that are left out of a slice.
#[derive(Debug, Clone)]
pub(super) struct Excluded {
    pub(super) choices: Choices,
    /// Compared with a tuple of columns, not with one column.
    pub(super) is_tuple: bool,
}

/// One end of a slice.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    pub(super) term: CompiledTerm,
    pub(super) inclusive: bool,
    /// Compares a tuple of columns, not one column.
    pub(super) is_tuple: bool,
}

/// How many `CONTAINS`, `CONTAINS KEY` and `column[key] = value` a column is restricted by, and how many opposites of them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Contains {
    pub(super) values: usize,
    pub(super) keys: usize,
    pub(super) entries: usize,
    pub(super) opposites: usize,
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
                end: bound,
                ..Self::default()
            },
            _ => Self {
                start: bound,
                ..Self::default()
            },
        }
    }

    /// `BETWEEN start AND end`.
    pub(super) fn between(start: CompiledTerm, end: CompiledTerm, is_tuple: bool) -> Self {
        let bound = |term| {
            Some(Bound {
                term,
                inclusive: true,
                is_tuple,
            })
        };
        Self {
            start: bound(start),
            end: bound(end),
            excluded: Vec::new(),
        }
    }

    /// All but these.
    pub(super) fn without(choices: Choices, is_tuple: bool) -> Self {
        Self {
            excluded: vec![Excluded { choices, is_tuple }],
            ..Self::default()
        }
    }

    /// Whether it has an end.
    pub(super) fn is_bounded(&self) -> bool {
        self.start.is_some() || self.end.is_some()
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
                excluded: [self.excluded, other.excluded].concat(),
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
            (Test::Like, _) | (Test::Slice(_), Test::Like) => more_than_one("a LIKE"),
            (Test::IsNotNull, _) => more_than_one("an IS NOT NULL"),
            (Test::Ann, _) => more_than_one("an ANN ordering"),
            (Test::Contains(mine), Test::Contains(theirs)) => Ok(Self {
                columns: self.columns,
                is_multi_column: false,
                filters: [self.filters, other.filters].concat(),
                test: Test::Contains(Contains {
                    values: mine.values + theirs.values,
                    keys: mine.keys + theirs.keys,
                    entries: mine.entries + theirs.entries,
                    opposites: mine.opposites + theirs.opposites,
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
                    filters: Vec::new(),
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
