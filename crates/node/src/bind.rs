//! Terms to serialized values: literals by the type of their column, markers by what is bound to them.

use bytes::{Bytes, BytesMut};
use cqlens_cql::syntax::ast::{BindMarker, FunctionCall, Term};
use cqlens_proto::cursor::{Cursor, Writer};
use cqlens_proto::error::EncodeError;
use cqlens_proto::message::Value;
use cqlens_proto::notation;
use cqlens_proto::types::{CqlType, CqlValue};

use super::execution::Execution;
use super::failure::Failure;
use super::function;
use super::literal;
use super::store::order;

/// What a term is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bound {
    /// A serialized value of the type that was asked for.
    Value(Bytes),
    /// Null.
    Null,
    /// A marker whose value is not set.
    NotSet,
}

impl Bound {
    /// The value, for a place where nothing else may stand.
    ///
    /// # Errors
    /// Cassandra's texts for null and unset values.
    pub(super) fn required(self, what: &str) -> Result<Bytes, Failure> {
        match self {
            Bound::Value(value) => Ok(value),
            Bound::Null => Err(Failure::invalid(format!(
                "Invalid null value in condition for column {what}"
            ))),
            Bound::NotSet => Err(Failure::invalid(format!("Invalid unset value for column {what}"))),
        }
    }

    /// The value; null and unset are none.
    pub(super) fn value(self) -> Option<Bytes> {
        match self {
            Bound::Value(value) => Some(value),
            Bound::Null | Bound::NotSet => None,
        }
    }
}

/// What a term is worth as a value of `cql_type`.
///
/// # Errors
/// Literals and bound values that are none of that type, and expressions that this node does not compute.
pub(super) fn term(term: &Term<'_>, cql_type: &CqlType, execution: &Execution<'_>) -> Result<Bound, Failure> {
    match term {
        Term::Null(_) => Ok(Bound::Null),
        Term::BindMarker(marker) => match execution.bindings.value(marker) {
            Value::Null => Ok(Bound::Null),
            Value::NotSet => Ok(Bound::NotSet),
            Value::Bytes(bytes) => checked(bytes, cql_type).map(Bound::Value),
        },
        Term::Literal(literal) => {
            let value = literal::serialize(literal, cql_type);
            value
                .map(|bytes| Bound::Value(bytes.into()))
                .ok_or_else(|| wrong_type(cql_type))
        }
        Term::TypeHint { term: inner, .. } => self::term(inner, cql_type, execution),
        Term::Function(call) => self::call(call, cql_type, execution).map(Bound::Value),
        Term::List { items, .. } => list(items, cql_type, execution),
        Term::Set { items, .. } => set(items, cql_type, execution),
        Term::Map { entries, .. } => map(entries, cql_type, execution),
        Term::Tuple { items, .. } => tuple(items, cql_type, execution),
        Term::UserType { fields, .. } => {
            let CqlType::Udt(udt) = cql_type else {
                return Err(wrong_type(cql_type));
            };
            let components = udt.fields.iter().map(|(name, field_type)| {
                let given = fields.iter().find(|(given, _)| given == name.as_str());
                given.map_or(Ok(Bound::Null), |(_, value)| {
                    self::term(value, field_type, execution)
                })
            });
            components_of(components).map(Bound::Value)
        }
        Term::Reference(reference) => {
            let (_, value) = execution.named_rows.value(reference)?;
            Ok(value.map_or(Bound::Null, Bound::Value))
        }
        _ => Err(Failure::invalid(
            "This stand-in node does not compute expressions",
        )),
    }
}

/// The result of a function without columns, as a value of `expected`.
///
/// # Errors
/// Functions that this node does not have, and arguments that they do not take.
pub(super) fn call(
    call: &FunctionCall<'_>,
    expected: &CqlType,
    execution: &Execution<'_>,
) -> Result<Bytes, Failure> {
    let argument = |argument: &Term<'_>| {
        term(argument, &function::argument_type(call), execution)?.required("function argument")
    };
    function::scalar(call, expected, execution.clock_micros, argument)
}

/// The terms of a tuple against the columns of a multi-column relation, or what a marker binds to them.
///
/// # Errors
/// Another number of values than types, or values that are none of their type.
pub(super) fn tuple_values(
    value: &Term<'_>,
    types: &[CqlType],
    execution: &Execution<'_>,
) -> Result<Vec<Bound>, Failure> {
    match value {
        Term::Tuple { items, .. } if items.len() == types.len() => items
            .iter()
            .zip(types)
            .map(|(item, cql_type)| term(item, cql_type, execution))
            .collect(),
        Term::BindMarker(_) => {
            let bound = term(value, &CqlType::Tuple(types.to_vec()), execution)?.required("tuple")?;
            components(&bound, types.len())
        }
        _ => Err(Failure::invalid(format!(
            "Expected {} elements in value tuple",
            types.len()
        ))),
    }
}

/// The elements of a serialized list.
///
/// # Errors
/// Bytes that are no list.
pub(super) fn elements(list: &[u8]) -> Result<Vec<Bound>, Failure> {
    let mut cursor = Cursor::new(list);
    let count = cursor
        .read("elements", notation::count)
        .map_err(|_| malformed())?;
    // Collected one by one: a count alone gets no memory.
    (0..count).map(|_| element(&mut cursor)).collect()
}

/// The components of a serialized tuple, null where it ends early.
///
/// # Errors
/// Bytes that are no tuple.
pub(super) fn components(tuple: &[u8], count: usize) -> Result<Vec<Bound>, Failure> {
    let mut cursor = Cursor::new(tuple);
    let mut component = |_| {
        if cursor.rest().is_empty() {
            Ok(Bound::Null)
        } else {
            element(&mut cursor)
        }
    };
    (0..count).map(&mut component).collect()
}

/// The keys and values of a serialized map.
///
/// # Errors
/// Bytes that are no map.
fn entries(map: &[u8]) -> Result<Vec<(Bytes, Bytes)>, Failure> {
    let mut cursor = Cursor::new(map);
    let count = cursor.read("entries", notation::count).map_err(|_| malformed())?;
    let mut half = || element(&mut cursor)?.required("map entry");
    (0..count).map(|_| Ok((half()?, half()?))).collect()
}

/// The keys and values of a serialized map; none where the bytes are no map.
pub(super) fn map_entries(map: &[u8]) -> Vec<(Bytes, Bytes)> {
    entries(map).unwrap_or_default()
}

/// What is bound to the marker of `IN ?`: for each element the values of the columns that it is about.
///
/// # Errors
/// Null, unset, and bytes that are no such list.
pub(super) fn bound_list(
    marker: &BindMarker<'_>,
    types: &[CqlType],
    execution: &Execution<'_>,
) -> Result<Vec<Vec<Bound>>, Failure> {
    let Value::Bytes(bytes) = execution.bindings.value(marker) else {
        return Err(Failure::invalid("Invalid null value for IN restriction"));
    };
    let [only] = types else {
        let tuples = elements(bytes)?.into_iter();
        return tuples
            .map(|tuple| components(&tuple.required("tuple")?, types.len()))
            .collect();
    };
    checked(bytes, &CqlType::list(only.clone()))?;
    Ok(elements(bytes)?
        .into_iter()
        .map(|element| vec![element])
        .collect())
}

/// Serializes the elements of a list or set, or keys and values of a map in turns.
///
/// # Errors
/// More or longer elements than the wire can say.
pub(super) fn collection<'v>(
    count: usize,
    values: impl IntoIterator<Item = &'v Bytes>,
) -> Result<Bytes, Failure> {
    let mut out = BytesMut::new();
    let mut writer = Writer::new(&mut out);
    let written = writer.int_count("elements", count).and_then(|()| {
        values
            .into_iter()
            .try_for_each(|value| writer.bytes("element", Some(value)))
    });
    written.map_err(too_long)?;
    Ok(out.freeze())
}

/// A set of values: sorted, each once.
///
/// # Errors
/// As [`collection`].
pub(super) fn set_of(mut values: Vec<Bytes>, element: &CqlType) -> Result<Bytes, Failure> {
    values.sort_by_cached_key(|value| order::of(element, value));
    values.dedup_by_key(|value| order::of(element, value));
    collection(values.len(), &values)
}

/// A map of entries: sorted by key, of equal keys the last one.
///
/// # Errors
/// As [`collection`].
pub(super) fn map_of(mut entries: Vec<(Bytes, Bytes)>, key: &CqlType) -> Result<Bytes, Failure> {
    entries.reverse();
    entries.sort_by_cached_key(|entry| order::of(key, &entry.0));
    entries.dedup_by_key(|entry| order::of(key, &entry.0));
    collection(
        entries.len(),
        entries.iter().flat_map(|(key, value)| [key, value]),
    )
}

fn list(items: &[Term<'_>], cql_type: &CqlType, execution: &Execution<'_>) -> Result<Bound, Failure> {
    match cql_type {
        CqlType::List(element) => {
            let values = required(items, element, execution)?;
            collection(values.len(), &values).map(Bound::Value)
        }
        CqlType::Vector(element, dimensions) => {
            let values = required(items, element, execution)?;
            if values.len() != *dimensions as usize {
                return Err(wrong_type(cql_type));
            }
            Ok(Bound::Value(values.concat().into()))
        }
        _ => Err(wrong_type(cql_type)),
    }
}

fn set(items: &[Term<'_>], cql_type: &CqlType, execution: &Execution<'_>) -> Result<Bound, Failure> {
    match cql_type {
        CqlType::Set(element) => set_of(required(items, element, execution)?, element).map(Bound::Value),
        CqlType::Map(_) if items.is_empty() => collection(0, []).map(Bound::Value),
        _ => Err(wrong_type(cql_type)),
    }
}

fn map(
    entries: &[(Term<'_>, Term<'_>)],
    cql_type: &CqlType,
    execution: &Execution<'_>,
) -> Result<Bound, Failure> {
    let CqlType::Map(types) = cql_type else {
        return Err(wrong_type(cql_type));
    };
    let mut values = Vec::with_capacity(entries.len());
    for (key, value) in entries {
        let key = term(key, &types.0, execution)?.required("map key")?;
        values.push((key, term(value, &types.1, execution)?.required("map value")?));
    }
    map_of(values, &types.0).map(Bound::Value)
}

fn tuple(items: &[Term<'_>], cql_type: &CqlType, execution: &Execution<'_>) -> Result<Bound, Failure> {
    match cql_type {
        CqlType::Tuple(types) if items.len() <= types.len() => {
            let values = items.iter().zip(types);
            components_of(values.map(|(item, its_type)| term(item, its_type, execution))).map(Bound::Value)
        }
        // In brackets alone.
        _ => match items {
            [only] => term(only, cql_type, execution),
            _ => Err(wrong_type(cql_type)),
        },
    }
}

/// Serializes the components of a tuple or user-defined type.
///
/// # Errors
/// The first error among the components, and components that are too long.
pub(super) fn components_of(values: impl Iterator<Item = Result<Bound, Failure>>) -> Result<Bytes, Failure> {
    let mut out = BytesMut::new();
    for value in values {
        let value = value?.value();
        Writer::new(&mut out)
            .bytes("component", value.as_deref())
            .map_err(too_long)?;
    }
    Ok(out.freeze())
}

fn required(items: &[Term<'_>], element: &CqlType, execution: &Execution<'_>) -> Result<Vec<Bytes>, Failure> {
    items
        .iter()
        .map(|item| term(item, element, execution)?.required("collection element"))
        .collect()
}

fn element(cursor: &mut Cursor<'_>) -> Result<Bound, Failure> {
    let bytes = cursor.read("element", notation::bytes).map_err(|_| malformed())?;
    Ok(bytes.map_or(Bound::Null, |bytes| Bound::Value(Bytes::copy_from_slice(bytes))))
}

fn checked(bytes: &[u8], cql_type: &CqlType) -> Result<Bytes, Failure> {
    if !bytes.is_empty() && CqlValue::decode(cql_type, bytes).is_err() {
        return Err(wrong_type(cql_type));
    }
    Ok(Bytes::copy_from_slice(bytes))
}

fn wrong_type(cql_type: &CqlType) -> Failure {
    Failure::invalid(format!("Invalid value for type {cql_type}"))
}

fn malformed() -> Failure {
    Failure::invalid("Not enough bytes to read a collection or tuple")
}

fn too_long(error: EncodeError) -> Failure {
    Failure::invalid(error.to_string())
}
