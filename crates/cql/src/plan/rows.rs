//! Restrictions of rows without a schema: which of them may leave a prepared statement without a row to
//! touch.
//!
//! Which columns are clustering ones is not known, and types are those that PREPARED gives to markers. That
//! is enough to say that an execution may touch nothing, not that it does.

use std::collections::BTreeMap;

use crate::syntax::Work;
use crate::syntax::ast::{Comparand, LiteralKind, Relation, RelationOperator, Subject, Term, Where};
use cqlens_proto::types::CqlType;

use super::clustering::{RowCheck, RowSlice};
use super::compile::{Compiler, Receiver};
use super::markers::Markers;
use super::restriction::Slice;
use super::term::{CompiledTerm, Marker};

/// What is to be checked; none if every execution names rows.
pub(super) fn check(clause: &Where<'_>, markers: &Markers, work: &Work) -> Option<RowCheck> {
    let is_empty = |relation: &Relation<'_>| {
        let is_in = relation.operator == RelationOperator::In;
        is_in && matches!(&relation.comparand, Comparand::List(terms) if terms.is_empty())
    };
    let lists = clause
        .relations
        .iter()
        .filter_map(|relation| list(relation, markers));
    let has_empty_list = clause.relations.iter().any(is_empty);
    RowCheck::guessed(has_empty_list, lists.collect(), slices(clause, markers, work))
}

/// The marker of an `IN ?`.
fn list(relation: &Relation<'_>, markers: &Markers) -> Option<Marker> {
    let (RelationOperator::In, Comparand::Marker(marker)) = (relation.operator, &relation.comparand) else {
        return None;
    };
    let (name, cql_type) = markers.columns.get(marker.index)?;
    Some(Marker {
        index: marker.index,
        name: name.as_str().into(),
        cql_type: cql_type.clone(),
    })
}

/// The slices that have two ends.
fn slices(clause: &Where<'_>, markers: &Markers, work: &Work) -> Vec<RowSlice> {
    let types = column_types(clause, markers);
    let ends: Vec<(Vec<&CqlType>, &str, Slice)> = clause
        .relations
        .iter()
        .filter_map(|relation| end(relation, &types, work))
        .collect();
    let mut slices = Vec::new();
    for (index, (types, column, one)) in ends.iter().enumerate() {
        for (other_types, other_column, other) in ends.iter().skip(index + 1) {
            // Each with each: of a clause that restricts a column thousands of times nothing is concluded.
            if !work.spend(1) {
                return Vec::new();
            }
            if column != other_column {
                continue;
            }
            let longer = if types.len() < other_types.len() {
                other_types
            } else {
                types
            };
            if let Ok(Slice {
                start: Some(start),
                end: Some(end),
                ..
            }) = one.clone().and(other.clone(), column)
            {
                slices.push(RowSlice {
                    types: longer.iter().map(|cql_type| (*cql_type).clone()).collect(),
                    is_descending: None,
                    start,
                    end,
                    excluded: Vec::new(),
                });
            }
        }
    }
    slices
}

/// An inequality: the types of its columns, the first of them, and the end of a slice that it is.
fn end<'c>(
    relation: &'c Relation<'_>,
    types: &'c BTreeMap<&str, CqlType>,
    work: &Work,
) -> Option<(Vec<&'c CqlType>, &'c str, Slice)> {
    let (
        RelationOperator::LessThan
        | RelationOperator::LessOrEqual
        | RelationOperator::GreaterThan
        | RelationOperator::GreaterOrEqual,
        Comparand::One(term),
    ) = (relation.operator, &relation.comparand)
    else {
        return None;
    };
    let columns = columns(relation);
    let types: Option<Vec<&CqlType>> = columns.iter().map(|column| types.get(column)).collect();
    let types = types?;
    let is_tuple = matches!(relation.subject, Subject::Columns(_));
    let term = if is_tuple {
        tuple(term, &columns, &types, work)
    } else {
        compiled(term, columns.first()?, types.first()?, work)
    };
    let slice = Slice::of(relation.operator, term?, is_tuple);
    Some((types, columns.first()?, slice))
}

/// What columns are compared with that are compared as a tuple.
fn tuple(term: &Term<'_>, columns: &[&str], types: &[&CqlType], work: &Work) -> Option<CompiledTerm> {
    let Term::Tuple { items, .. } = term else {
        let types = types.iter().map(|cql_type| (*cql_type).clone()).collect();
        return compiled(
            term,
            &format!("({})", columns.join(",")),
            &CqlType::Tuple(types),
            work,
        );
    };
    let components = columns.iter().zip(types).zip(items);
    let components = components.map(|((column, cql_type), item)| compiled(item, column, cql_type, work));
    let components: Option<Vec<CompiledTerm>> = components.collect();
    components.map(|components| CompiledTerm::Tuple(components).folded())
}

fn compiled(term: &Term<'_>, name: &str, cql_type: &CqlType, work: &Work) -> Option<CompiledTerm> {
    let compiler = Compiler {
        keyspace: None,
        partition_key: &[],
        token_type: &CqlType::BigInt,
        work,
        constants: None,
    };
    compiler.term(term, Receiver { name, cql_type }).ok()
}

/// The types of the columns: those of the markers that they are compared with, else what a constant looks
/// like.
fn column_types<'c>(clause: &'c Where<'_>, markers: &Markers) -> BTreeMap<&'c str, CqlType> {
    let mut types = BTreeMap::new();
    let of_marker = |term: &Term<'_>| match term {
        Term::BindMarker(marker) => markers
            .columns
            .get(marker.index)
            .map(|(_, cql_type)| cql_type.clone()),
        _ => None,
    };
    for type_of in [&guessed as &dyn Fn(&Term<'_>) -> Option<CqlType>, &of_marker] {
        for relation in &clause.relations {
            let known = columns(relation).into_iter().zip(term_types(relation, type_of));
            types.extend(known.filter_map(|(column, found)| Some((column, found?))));
        }
    }
    types
}

/// What a relation says of the type of each of its columns.
fn term_types(
    relation: &Relation<'_>,
    type_of: &dyn Fn(&Term<'_>) -> Option<CqlType>,
) -> Vec<Option<CqlType>> {
    let Comparand::One(term) = &relation.comparand else {
        return Vec::new();
    };
    match (&relation.subject, term) {
        (Subject::Column(_), _) => vec![type_of(term)],
        (_, Term::Tuple { items, .. }) => items.iter().map(type_of).collect(),
        (_, term) => match type_of(term) {
            Some(CqlType::Tuple(types)) => types.into_iter().map(Some).collect(),
            _ => Vec::new(),
        },
    }
}

/// A type with the order of what a constant looks like. A date looks like text, and is mostly ordered like
/// text; where that is wrong, an execution is said to be unknown that is not.
fn guessed(term: &Term<'_>) -> Option<CqlType> {
    match term {
        Term::Literal(literal) => match literal.kind {
            LiteralKind::Integer => Some(CqlType::Varint),
            LiteralKind::Float => Some(CqlType::Decimal),
            LiteralKind::String => Some(CqlType::Text),
            _ => None,
        },
        Term::TypeHint { term, .. } => guessed(term),
        _ => None,
    }
}

/// The columns that are compared; none if that is not a value of each of them.
fn columns<'c>(relation: &'c Relation<'_>) -> Vec<&'c str> {
    match &relation.subject {
        Subject::Column(name) => vec![name.as_str()],
        Subject::Columns(names) => names.iter().map(|name| name.as_str()).collect(),
        Subject::Token(_) | Subject::Element(..) | Subject::Field(..) => Vec::new(),
    }
}
