//! One relation of a `WHERE` clause against a table: which columns it is about, and its values.

use std::ops::RangeInclusive;

use bytes::Bytes;
use cqlens_cql::syntax::ast::{Comparand, Relation, RelationOperator, Subject, Term};
use cqlens_proto::types::CqlType;

use super::filter::Filter;
use super::predicate::Predicate;
use crate::bind;
use crate::execution::Execution;
use crate::failure::Failure;
use crate::layout::{Column, Layout};
use crate::operand::{compared_type, element_types};
use crate::store::{PartitionId, Stretch, stretch};

/// A relation, with `BETWEEN` of Cassandra 6.0 as the two that it stands for.
pub(super) fn without_between<'a>(relation: &Relation<'a>) -> Vec<Relation<'a>> {
    let (RelationOperator::Between, Comparand::Range(ends)) = (relation.operator, &relation.comparand) else {
        return vec![relation.clone()];
    };
    let end = |operator, value: &Term<'a>| Relation {
        operator,
        comparand: Comparand::One(value.clone()),
        ..relation.clone()
    };
    vec![
        end(RelationOperator::GreaterOrEqual, &ends.0),
        end(RelationOperator::LessOrEqual, &ends.1),
    ]
}

/// One relation, its values evaluated.
#[derive(Debug, Clone)]
pub(super) struct Restricted {
    /// Places in the layout.
    pub(super) columns: Vec<usize>,
    /// How the columns are compared, and with what.
    pub(super) predicate: Predicate,
    /// The relation as CQL, with its values.
    pub(super) text: String,
}

impl Restricted {
    /// Evaluates a relation.
    ///
    /// # Errors
    /// Columns that there are not, values that are none of their type, relations that this node does not
    /// know.
    pub(super) fn of(
        relation: &Relation<'_>,
        layout: &Layout,
        execution: &Execution<'_>,
    ) -> Result<Restricted, Failure> {
        match &relation.subject {
            Subject::Token(names) => Restricted::token(names.len(), relation, layout, execution),
            Subject::Column(name) => {
                let column = layout.column(name.as_str())?;
                let types = [compared_type(&column.cql_type, relation.operator)];
                Restricted::on(vec![column.index], &types, relation, layout, execution)
            }
            Subject::Columns(names) => {
                let columns = names.iter().map(|name| layout.column(name.as_str()));
                let columns: Vec<&Column> = columns.collect::<Result<_, _>>()?;
                if let Some(column) = columns.iter().find(|column| !column.is_clustering()) {
                    return Err(Failure::invalid(format!(
                        "Multi-column relations can only be applied to clustering columns but was applied to: {}",
                        column.name
                    )));
                }
                let types: Vec<CqlType> = columns.iter().map(|column| column.cql_type.clone()).collect();
                let indexes = columns.iter().map(|column| column.index).collect();
                Restricted::on(indexes, &types, relation, layout, execution)
            }
            Subject::Element(name, key) => {
                let column = layout.column(name.as_str())?;
                let (key_type, value_type) = element_types(&column.cql_type);
                let Comparand::One(value) = &relation.comparand else {
                    return Err(unsupported(relation));
                };
                let key = bind::term(key, &key_type, execution)?.required(&column.name)?;
                let value = bind::term(value, &value_type, execution)?.required(&column.name)?;
                let predicate = Predicate::Element { key, value };
                Ok(Restricted {
                    columns: vec![column.index],
                    predicate,
                    text: relation_text(relation, layout, "…"),
                })
            }
            Subject::Field(..) => Err(unsupported(relation)),
        }
    }

    fn on(
        columns: Vec<usize>,
        types: &[CqlType],
        relation: &Relation<'_>,
        layout: &Layout,
        execution: &Execution<'_>,
    ) -> Result<Restricted, Failure> {
        let name = layout.columns[columns[0]].name.as_str();
        let one = |value: &Term<'_>| -> Result<Vec<Bytes>, Failure> {
            match types {
                [only] => Ok(vec![bind::term(value, only, execution)?.required(name)?]),
                _ => {
                    let values = bind::tuple_values(value, types, execution)?;
                    values.into_iter().map(|value| value.required(name)).collect()
                }
            }
        };
        let only = |mut values: Vec<Bytes>| values.pop().unwrap_or_default();
        let predicate = match (relation.operator, &relation.comparand) {
            (RelationOperator::Equal, Comparand::One(value)) => Predicate::Equal(one(value)?),
            (RelationOperator::NotEqual, Comparand::One(value)) => Predicate::NotEqual(one(value)?),
            (RelationOperator::GreaterThan, Comparand::One(value)) => Predicate::Lower {
                values: one(value)?,
                inclusive: false,
            },
            (RelationOperator::GreaterOrEqual, Comparand::One(value)) => Predicate::Lower {
                values: one(value)?,
                inclusive: true,
            },
            (RelationOperator::LessThan, Comparand::One(value)) => Predicate::Upper {
                values: one(value)?,
                inclusive: false,
            },
            (RelationOperator::LessOrEqual, Comparand::One(value)) => Predicate::Upper {
                values: one(value)?,
                inclusive: true,
            },
            (RelationOperator::In, Comparand::List(values)) => {
                Predicate::In(values.iter().map(one).collect::<Result<_, _>>()?)
            }
            (RelationOperator::In, Comparand::Marker(marker)) => {
                let list = bind::bound_list(marker, types, execution)?;
                let bound = |values: Vec<bind::Bound>| -> Result<Vec<Bytes>, Failure> {
                    values.into_iter().map(|value| value.required(name)).collect()
                };
                Predicate::In(list.into_iter().map(bound).collect::<Result<_, _>>()?)
            }
            (RelationOperator::Contains, Comparand::One(value)) => Predicate::Contains(only(one(value)?)),
            (RelationOperator::ContainsKey, Comparand::One(value)) => {
                Predicate::ContainsKey(only(one(value)?))
            }
            (RelationOperator::IsNotNull, Comparand::None) => Predicate::NotNull,
            _ => return Err(unsupported(relation)),
        };
        let text = relation_text(relation, layout, &predicate.text(types));
        Ok(Restricted {
            columns,
            predicate,
            text,
        })
    }

    fn token(
        named: usize,
        relation: &Relation<'_>,
        layout: &Layout,
        execution: &Execution<'_>,
    ) -> Result<Restricted, Failure> {
        if named != layout.partition_key_len {
            return Err(Failure::invalid(
                "The token() function must be applied to all partition key components or none of them",
            ));
        }
        let Comparand::One(value) = &relation.comparand else {
            return Err(unsupported(relation));
        };
        let token = token_value(value, layout, execution)?;
        let above = |token: i64| token.checked_add(1).map_or(NO_TOKEN, |first| first..=i64::MAX);
        let below = |token: i64| token.checked_sub(1).map_or(NO_TOKEN, |last| i64::MIN..=last);
        let range = match relation.operator {
            RelationOperator::Equal => token..=token,
            RelationOperator::GreaterThan => above(token),
            RelationOperator::GreaterOrEqual => token..=i64::MAX,
            RelationOperator::LessThan => below(token),
            RelationOperator::LessOrEqual => i64::MIN..=token,
            _ => return Err(unsupported(relation)),
        };
        let text = relation_text(relation, layout, &token.to_string());
        Ok(Restricted {
            columns: vec![0],
            predicate: Predicate::Token(range),
            text,
        })
    }

    /// The values that the column may have, where equality or IN names them.
    pub(super) fn single_values(&self, column: usize) -> Option<Vec<Bytes>> {
        let first = |values: &Vec<Bytes>| values[0].clone();
        match &self.predicate {
            _ if self.columns != [column] => None,
            Predicate::Equal(values) => Some(values.clone()),
            Predicate::In(alternatives) => Some(alternatives.iter().map(first).collect()),
            _ => None,
        }
    }

    /// Whether it bounds its columns on one side.
    pub(super) fn is_slice(&self) -> bool {
        matches!(self.predicate, Predicate::Lower { .. } | Predicate::Upper { .. })
    }

    /// Whether its columns are consecutive from a column on.
    pub(super) fn begins_at(&self, column: usize) -> bool {
        matches!(
            self.predicate,
            Predicate::Equal(_) | Predicate::In(_) | Predicate::Lower { .. } | Predicate::Upper { .. }
        ) && self
            .columns
            .iter()
            .enumerate()
            .all(|(index, its)| *its == column + index)
    }

    /// Whether all its columns are stored in the same direction, so that a slice of them is one stretch.
    pub(super) fn is_in_one_direction(&self, layout: &Layout) -> bool {
        let mut directions = self
            .columns
            .iter()
            .map(|column| layout.columns[*column].is_descending());
        let first = directions.next();
        directions.all(|direction| Some(direction) == first)
    }

    fn position(&self, values: &[Bytes], layout: &Layout) -> Vec<u8> {
        let mut position = Vec::new();
        for (column, value) in self.columns.iter().zip(values) {
            layout.columns[*column].push_position(&mut position, value);
        }
        position
    }

    /// A slice as a stretch behind equal columns.
    pub(super) fn stretch(&self, prefix: &[u8], layout: &Layout) -> Stretch {
        let (values, inclusive, is_lower) = match &self.predicate {
            Predicate::Lower { values, inclusive } => (values, *inclusive, true),
            Predicate::Upper { values, inclusive } => (values, *inclusive, false),
            _ => return Stretch::of_prefix(prefix.to_vec()),
        };
        let position = [prefix, &self.position(values, layout)].concat();
        let behind = stretch::after_prefix(&position);
        let is_descending = layout.columns[self.columns[0]].is_descending();
        if is_lower != is_descending {
            let from = if inclusive { Some(position) } else { behind };
            // Nothing is behind the last position that there can be.
            from.map_or(
                Stretch {
                    from: Vec::new(),
                    to: Some(Vec::new()),
                },
                |from| Stretch { from, to: None },
            )
        } else {
            let to = if inclusive { behind } else { Some(position) };
            Stretch { from: Vec::new(), to }
        }
    }

    /// The relation as something that each row has to pass.
    pub(super) fn filter(&self) -> Filter {
        Filter {
            columns: self.columns.clone(),
            predicate: self.predicate.clone(),
        }
    }
}

#[allow(clippy::reversed_empty_ranges)]
const NO_TOKEN: RangeInclusive<i64> = 1..=0;

fn token_value(value: &Term<'_>, layout: &Layout, execution: &Execution<'_>) -> Result<i64, Failure> {
    if let Term::Function(call) = value
        && call.name.name.as_str() == "token"
    {
        let columns = layout.partition_key();
        let key = columns.iter().zip(&call.arguments).map(|(column, argument)| {
            bind::term(argument, &column.cql_type, execution)?.required(&column.name)
        });
        let key: Vec<Bytes> = key.collect::<Result<_, _>>()?;
        let id = PartitionId::of(&key).ok_or_else(|| Failure::invalid("Partition key is too long"))?;
        return Ok(id.token);
    }
    let bytes = bind::term(value, &CqlType::BigInt, execution)?.required("partition key token")?;
    let token = bytes[..].try_into().map(i64::from_be_bytes);
    token.map_err(|_| Failure::invalid("Invalid token"))
}

fn unsupported(relation: &Relation<'_>) -> Failure {
    Failure::invalid(format!(
        "{} is not supported here by this stand-in node",
        relation.operator.as_str()
    ))
}

fn relation_text(relation: &Relation<'_>, layout: &Layout, value: &str) -> String {
    let names: Vec<&str> = relation
        .subject
        .columns()
        .iter()
        .map(|name| name.as_str())
        .collect();
    let subject = match &relation.subject {
        Subject::Token(_) => {
            let key: Vec<_> = layout
                .partition_key()
                .iter()
                .map(|column| column.name.as_str())
                .collect();
            format!("token({})", key.join(", "))
        }
        Subject::Columns(_) => format!("({})", names.join(", ")),
        _ => names.concat(),
    };
    format!("{subject} {} {value}", relation.operator.as_str())
}
