//! Lightweight transactions: the `IF` of a write, checked against the row that is there.

use bytes::Bytes;
use cqlens_cql::syntax::ast::{Comparand, If, Modification, Relation, RelationOperator, Subject};
use cqlens_proto::types::CqlType;

use super::mutation::Mutation;
use crate::answer::{ResultColumn, RowSet};
use crate::bind;
use crate::execution::Execution;
use crate::failure::Failure;
use crate::layout::{Column, Layout, RowView};
use crate::operand::{element_types, field_type};
use crate::store::{Partition, StoredTable, order};

/// The condition of a write.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Condition<'a> {
    /// `IF NOT EXISTS`
    NotExists,
    /// `IF EXISTS`
    Exists,
    /// `IF condition AND …`
    All(&'a [Relation<'a>]),
}

impl<'a> Condition<'a> {
    /// The condition of a statement, if it has one.
    pub(crate) fn of(modification: &'a Modification<'a>) -> Option<Condition<'a>> {
        let given = match modification {
            Modification::Insert(insert) => return insert.if_not_exists.then_some(Condition::NotExists),
            Modification::Update(update) => update.condition.as_ref()?,
            Modification::Delete(delete) => delete.condition.as_ref()?,
        };
        Some(match given {
            If::Exists => Condition::Exists,
            If::Conditions(conditions) => Condition::All(conditions),
        })
    }
}

/// What a condition found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConditionOutcome {
    /// The write happens.
    Applied,
    /// It does not; with the columns that the client is shown, if the row exists.
    Refused(Vec<(ResultColumn, Option<Bytes>)>),
}

/// Checks a condition against the row that a mutation is about.
///
/// # Errors
/// Columns that there are not, and comparisons that this node does not make.
pub(crate) fn check(
    condition: Condition<'_>,
    mutation: &Mutation,
    table: &StoredTable,
    execution: &Execution<'_>,
) -> Result<ConditionOutcome, Failure> {
    let layout = &*mutation.layout;
    let nothing = Partition::new(mutation.key.clone());
    let partition = table.partition(&mutation.partition()?).unwrap_or(&nothing);
    let now = execution.now;
    let place = mutation.place();
    let row = place
        .as_ref()
        .and_then(|place| partition.row(&place.position))
        .filter(|row| row.is_live(now));
    let exists = row.is_some() || (place.is_none() && partition.static_row.is_live(now));
    let view = RowView {
        layout,
        partition,
        row,
        now,
    };
    let shown = |columns: &mut dyn Iterator<Item = &Column>| -> Vec<(ResultColumn, Option<Bytes>)> {
        let columns = columns.filter(|_| exists);
        let named = |column: &Column| layout.result_column(&column.name, &column.cql_type);
        columns
            .map(|column| (named(column), view.value(column).cloned()))
            .collect()
    };
    let conditions = match condition {
        Condition::NotExists if exists => {
            return Ok(ConditionOutcome::Refused(shown(&mut layout.columns.iter())));
        }
        Condition::Exists if !exists => return Ok(ConditionOutcome::Refused(Vec::new())),
        Condition::NotExists | Condition::Exists => return Ok(ConditionOutcome::Applied),
        Condition::All(conditions) => conditions,
    };
    for relation in conditions {
        if !holds(relation, &view, execution)? {
            let names = |column: &&Column| {
                conditions.iter().any(|relation| {
                    relation
                        .subject
                        .columns()
                        .iter()
                        .any(|name| *name == *column.name)
                })
            };
            return Ok(ConditionOutcome::Refused(shown(
                &mut layout.columns.iter().filter(names),
            )));
        }
    }
    Ok(ConditionOutcome::Applied)
}

/// The row that answers a conditional write: `[applied]`, and what was found instead.
pub(crate) fn answer(verdicts: Vec<ConditionOutcome>, layout: &Layout) -> RowSet {
    let applied = ResultColumn {
        keyspace: layout.keyspace.clone(),
        table: layout.name.clone(),
        name: "[applied]".to_owned(),
        column_type: CqlType::Boolean,
    };
    let is_applied = verdicts
        .iter()
        .all(|verdict| *verdict == ConditionOutcome::Applied);
    let mut columns = vec![applied];
    let flag = Some(Bytes::copy_from_slice(&[u8::from(is_applied)]));
    let refused = verdicts.into_iter().find_map(|verdict| match verdict {
        ConditionOutcome::Refused(found) => Some(found),
        ConditionOutcome::Applied => None,
    });
    let mut row = vec![flag];
    for (column, value) in refused.unwrap_or_default() {
        columns.push(column);
        row.push(value);
    }
    RowSet::new(columns, vec![row])
}

fn holds(relation: &Relation<'_>, row: &RowView<'_>, execution: &Execution<'_>) -> Result<bool, Failure> {
    let (present, cql_type) = subject(&relation.subject, row, execution)?;
    let form = |value: &Bytes| order::of(&cql_type, value);
    let present = present.as_ref().map(form);
    let value = |term| -> Result<Option<Vec<u8>>, Failure> {
        Ok(bind::term(term, &cql_type, execution)?.value().as_ref().map(form))
    };
    let unsupported = || {
        let operator = relation.operator.as_str();
        Err(Failure::invalid(format!(
            "{operator} in IF is not supported by this stand-in node"
        )))
    };
    match (&relation.comparand, relation.operator) {
        (Comparand::One(term), RelationOperator::Equal) => Ok(present == value(term)?),
        (Comparand::One(term), RelationOperator::NotEqual) => Ok(present != value(term)?),
        (Comparand::One(term), operator) => {
            let (Some(present), Some(value)) = (present, value(term)?) else {
                return Ok(false);
            };
            match operator {
                RelationOperator::LessThan => Ok(present < value),
                RelationOperator::LessOrEqual => Ok(present <= value),
                RelationOperator::GreaterThan => Ok(present > value),
                RelationOperator::GreaterOrEqual => Ok(present >= value),
                _ => unsupported(),
            }
        }
        (Comparand::List(terms), RelationOperator::In) => {
            let values: Vec<_> = terms.iter().map(value).collect::<Result<_, _>>()?;
            Ok(values.contains(&present))
        }
        (Comparand::Marker(marker), RelationOperator::In) => {
            let list = bind::bound_list(marker, std::slice::from_ref(&cql_type), execution)?;
            let mut values = list
                .into_iter()
                .flatten()
                .map(|bound| bound.value().as_ref().map(form));
            Ok(values.any(|value| value == present))
        }
        _ => unsupported(),
    }
}

/// What a condition is about: its value in the row, and the type of it.
fn subject(
    subject: &Subject<'_>,
    row: &RowView<'_>,
    execution: &Execution<'_>,
) -> Result<(Option<Bytes>, CqlType), Failure> {
    let layout = row.layout;
    match subject {
        Subject::Column(name) => {
            let column = layout.column(name.as_str())?;
            if column.is_primary_key() {
                return Err(Failure::invalid(format!(
                    "PRIMARY KEY column '{}' cannot have IF conditions",
                    column.name
                )));
            }
            Ok((row.value(column).cloned(), column.cql_type.clone()))
        }
        Subject::Element(name, key) => {
            let column = layout.column(name.as_str())?;
            let (key_type, value_type) = element_types(&column.cql_type);
            let key = bind::term(key, &key_type, execution)?.required(&column.name)?;
            let collection = row.value(column).map_or(&[][..], |value| value);
            let element = match column.cql_type {
                CqlType::Map(_) => bind::map_entries(collection)
                    .into_iter()
                    .find(|(its, _)| *its == key)
                    .map(|(_, v)| v),
                _ => {
                    let index = key[..].try_into().map(i32::from_be_bytes).unwrap_or(-1);
                    let elements = bind::elements(collection).unwrap_or_default();
                    usize::try_from(index)
                        .ok()
                        .and_then(|index| elements.into_iter().nth(index)?.value())
                }
            };
            Ok((element, value_type))
        }
        Subject::Field(name, field) => {
            let column = layout.column(name.as_str())?;
            let CqlType::Udt(udt) = &column.cql_type else {
                return Err(Failure::invalid(format!(
                    "{} is not of a user-defined type",
                    column.name
                )));
            };
            let index = udt.fields.iter().position(|(name, _)| *name == field.as_str());
            let value = row.value(column).map_or(&[][..], |value| value);
            let fields = bind::components(value, udt.fields.len())?;
            let field_value = index.and_then(|index| fields.into_iter().nth(index)?.value());
            Ok((field_value, field_type(&column.cql_type, field.as_str())))
        }
        Subject::Columns(_) | Subject::Token(_) => Err(Failure::invalid(
            "Conditions are on single columns, elements or fields",
        )),
    }
}
