//! `SELECT` as it is prepared and executed (`SelectStatement`, `Selectable`).

use super::modification::check_not_null;
use super::{Validated, function, refused};
use crate::ServerVersion;
use crate::schema::data_type::DataType;
use crate::schema::model::{Column, ColumnKind, Keyspace, Schema, Table};
use crate::syntax::ast::{
    Comparand, FunctionCall, MetadataFunction, Name, Relation, RelationOperator, Select, Selection, Term,
};

/// `sai_options.max_top_k` and its kin: as many rows a search for the nearest vectors returns.
const MOST_NEAREST: i64 = 1_000;

impl Schema {
    pub(super) fn validate_select(
        &self,
        select: &Select<'_>,
        current: Option<&str>,
        version: ServerVersion,
    ) -> Validated {
        let Some((keyspace, table)) = self.known_table(&select.table, current) else {
            return Ok(());
        };
        if let Selection::Selectors(selectors) = &select.selection {
            for selector in selectors {
                check_selector(&selector.term, table, keyspace, version)?;
            }
        }
        let mut relations = select.where_clause.relations.iter();
        relations.try_for_each(|relation| check_relation(relation, table))?;
        check_nearest(select)?;
        check_order(select, table)
    }
}

fn check_selector(term: &Term<'_>, table: &Table, keyspace: &Keyspace, version: ServerVersion) -> Validated {
    function::check(term, keyspace, version)?;
    match term {
        Term::Function(call) => return check_similarity(call, table),
        Term::Field { receiver, field, .. } => return check_field(receiver, field, table, keyspace),
        _ => {}
    }
    let Term::Metadata {
        function,
        column,
        span,
    } = term
    else {
        return Ok(());
    };
    let Term::Column(name) = &**column else {
        return Ok(());
    };
    let what = match function {
        MetadataFunction::WriteTime => "writetime",
        MetadataFunction::MaxWriteTime => "maxwritetime",
        MetadataFunction::Ttl => "ttl",
    };
    match table.column(name.as_str()) {
        Some(column) if column.is_primary_key() => Err(refused(
            *span,
            format!("Cannot use selection function {what} on PRIMARY KEY part {name}"),
        )),
        _ => Ok(()),
    }
}

/// Vectors are compared with vectors of as many dimensions.
fn check_similarity(call: &FunctionCall<'_>, table: &Table) -> Validated {
    let name = call.name.name.as_str().replace('_', "").to_ascii_lowercase();
    if !name.starts_with("similarity") {
        return Ok(());
    }
    let mut dimensions = Vec::new();
    for argument in &call.arguments {
        match argument {
            Term::List { items, .. } => dimensions.push(items.len()),
            Term::Column(name) => match table.column(name.as_str()).map(|column| &column.data_type) {
                Some(DataType::Vector(_, dimension)) => dimensions.push(*dimension as usize),
                Some(other) => {
                    return Err(refused(
                        name.span,
                        format!(
                            "Function system.{} requires a float vector argument, but found argument {name} of type {other}",
                            call.name.name
                        ),
                    ));
                }
                None => {}
            },
            _ => {}
        }
    }
    match dimensions.windows(2).all(|pair| pair[0] == pair[1]) {
        true => Ok(()),
        false => Err(refused(
            call.span,
            "All arguments must have the same vector dimensions",
        )),
    }
}

fn check_field(receiver: &Term<'_>, field: &Name<'_>, table: &Table, keyspace: &Keyspace) -> Validated {
    let Term::Column(name) = receiver else {
        return Ok(());
    };
    let Some(DataType::UserDefined(user_type)) = table
        .column(name.as_str())
        .map(|column| column.data_type.thawed())
    else {
        return Ok(());
    };
    match keyspace.types.get(user_type) {
        Some(known) if known.fields.iter().all(|(own, _)| own != field.as_str()) => Err(refused(
            field.span,
            format!("{name} of type {user_type} has no field {field}"),
        )),
        _ => Ok(()),
    }
}

/// Nothing equals null.
fn check_relation(relation: &Relation<'_>, table: &Table) -> Validated {
    let [name] = relation.subject.columns() else {
        return Ok(());
    };
    let Some(column) = table.column(name.as_str()) else {
        return Ok(());
    };
    match (relation.operator, &relation.comparand) {
        (
            RelationOperator::Equal | RelationOperator::Contains | RelationOperator::ContainsKey,
            Comparand::One(value),
        ) => match value {
            Term::Null(span) if !column.is_primary_key() => Err(refused(
                *span,
                format!("Unsupported null value for column {name}"),
            )),
            value if column.is_primary_key() => check_not_null(column, value),
            _ => Ok(()),
        },
        (RelationOperator::In, Comparand::List(values)) if column.is_primary_key() => {
            values.iter().try_for_each(|value| check_not_null(column, value))
        }
        _ => Ok(()),
    }
}

/// A search for the nearest vectors says how many.
fn check_nearest(select: &Select<'_>) -> Validated {
    let Some(order) = select.order_by.iter().find(|order| order.ann_of.is_some()) else {
        return Ok(());
    };
    let (place, limit) = match &select.limit {
        None => (order.span, "NO LIMIT"),
        Some(Term::Literal(literal)) if literal.text.parse().is_ok_and(|limit: i64| limit > MOST_NEAREST) => {
            (literal.span, literal.text)
        }
        Some(_) => return Ok(()),
    };
    Err(refused(
        place,
        format!(
            "Use of ANN OF in an ORDER BY clause requires a LIMIT that is not greater than {MOST_NEAREST}. LIMIT was {limit}"
        ),
    ))
}

/// Rows of several partitions are sorted by the coordinator, which has to have all of them.
fn check_order(select: &Select<'_>, table: &Table) -> Validated {
    let Some(order) = select.order_by.first().filter(|order| order.ann_of.is_none()) else {
        return Ok(());
    };
    let is_key = |column: &Column| column.kind == ColumnKind::PartitionKey;
    let lists_keys = |relation: &Relation<'_>| {
        let mut columns = relation.subject.columns().iter();
        let several = match &relation.comparand {
            Comparand::List(values) => values.len() > 1,
            _ => true,
        };
        let is_in = relation.operator == RelationOperator::In && several;
        is_in && columns.any(|name| table.column(name.as_str()).is_some_and(is_key))
    };
    match select.where_clause.relations.iter().any(lists_keys) {
        true => Err(refused(
            order.span,
            "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either remove the ORDER BY \
             or the IN and sort client side, or disable paging for this query",
        )),
        false => Ok(()),
    }
}
