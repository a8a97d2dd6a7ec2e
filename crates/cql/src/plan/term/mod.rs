//! Terms of a known type, compiled once from the text and evaluated for each execution to the bytes of a
//! value.

mod arithmetic;
mod cast;
mod fault;
mod function;
mod time;

use std::borrow::Cow;

use cqlens_proto::message::{Value, Values};
use cqlens_proto::types::CqlType;

use super::value;

pub(super) use fault::Fault;
pub(super) use function::Function;

/// A term that stands for a value of a type.
#[derive(Debug, Clone)]
pub(super) enum CompiledTerm {
    /// These bytes.
    Constant(Box<[u8]>),
    /// `NULL`.
    Null,
    /// What is bound to a marker.
    Marker(Marker),
    /// A tuple's or user-defined type's components, of which at least one is bound or computed.
    Tuple(Vec<CompiledTerm>),
    /// A collection or vector with at least one element that is computed.
    Collection(CqlType, Vec<CompiledTerm>),
    /// A function of terms.
    Call(Box<Call>),
    /// What only the server knows.
    Unknown(Fault),
}

/// A place for a bound value of a type.
#[derive(Debug, Clone)]
pub(super) struct Marker {
    pub(super) index: usize,
    /// The name to look for among named values: the marker's own, else that of its receiver.
    pub(super) name: Box<str>,
    pub(super) cql_type: CqlType,
}

/// What a term was evaluated to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Datum<'v> {
    Bytes(Cow<'v, [u8]>),
    Null,
    NotSet,
}

/// A function with its arguments.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) function: Function,
    pub(super) arguments: Vec<(CqlType, CompiledTerm)>,
    pub(super) result: CqlType,
}

impl CompiledTerm {
    /// The value of the term; `values` are none where the statement was only prepared.
    pub(super) fn evaluate<'v>(&'v self, values: Option<&Values<'v>>) -> Result<Datum<'v>, Fault> {
        match self {
            Self::Constant(bytes) => Ok(Datum::Bytes(Cow::Borrowed(bytes))),
            Self::Null => Ok(Datum::Null),
            Self::Marker(marker) => marker.evaluate(values),
            Self::Tuple(components) => {
                let mut bytes = Vec::new();
                for component in components {
                    match component.evaluate(values)? {
                        Datum::Bytes(value) => value::push_element(&mut bytes, Some(&value)),
                        Datum::Null => value::push_element(&mut bytes, None),
                        Datum::NotSet => return Err(Fault::invalid("Invalid unset value for tuple field")),
                    }
                }
                Ok(Datum::Bytes(Cow::Owned(bytes)))
            }
            Self::Collection(cql_type, items) => {
                let mut elements = Vec::with_capacity(items.len());
                for item in items {
                    let Datum::Bytes(value) = item.evaluate(values)? else {
                        return Err(Fault::invalid("null is not supported inside collections"));
                    };
                    elements.push(value.into_owned());
                }
                Ok(Datum::Bytes(Cow::Owned(pack(cql_type, elements))))
            }
            Self::Call(call) => call.evaluate(values),
            Self::Unknown(fault) => Err(fault.clone()),
        }
    }

    /// Whether nothing has to be bound, so that it can be evaluated now.
    fn is_static(&self) -> bool {
        match self {
            Self::Constant(_) | Self::Null | Self::Unknown(_) => true,
            Self::Marker(_) => false,
            Self::Tuple(items) | Self::Collection(_, items) => items.iter().all(Self::is_static),
            Self::Call(call) => call.arguments.iter().all(|(_, term)| term.is_static()),
        }
    }

    /// Evaluates what can be evaluated now.
    pub(super) fn folded(self) -> Self {
        if !self.is_static() {
            return self;
        }
        match self.evaluate(None) {
            Ok(Datum::Bytes(bytes)) => Self::Constant(bytes.into_owned().into_boxed_slice()),
            Ok(Datum::Null) => Self::Null,
            Ok(Datum::NotSet) => self,
            Err(fault) => Self::Unknown(fault),
        }
    }
}

impl Marker {
    /// What is bound to the marker, as it came.
    pub(super) fn bound<'v>(&self, values: Option<&Values<'v>>) -> Result<Value<'v>, Fault> {
        let values = values.ok_or(Fault::Unbound)?;
        let value = if values.is_named() {
            values.named(&self.name)
        } else {
            values.nth(self.index)
        };
        // A value that is missing was never bound: the server answers with an error.
        value.ok_or_else(|| Fault::undecodable("fewer values than bind markers"))
    }

    /// What is bound to the marker, as Cassandra takes it over.
    pub(super) fn evaluate<'v>(&self, values: Option<&Values<'v>>) -> Result<Datum<'v>, Fault> {
        match self.bound(values)? {
            Value::Null => Ok(Datum::Null),
            Value::NotSet => Ok(Datum::NotSet),
            Value::Bytes(bytes) => self.taken_over(bytes).map(Datum::Bytes),
        }
    }

    fn taken_over<'v>(&self, bytes: &'v [u8]) -> Result<Cow<'v, [u8]>, Fault> {
        let invalid = || Fault::undecodable(format!("invalid value of type {}", self.cql_type));
        if !value::is_valid(&self.cql_type, bytes) {
            return Err(invalid());
        }
        match &self.cql_type {
            CqlType::List(_) | CqlType::Set(_) | CqlType::Map(_) => {
                value::repacked(&self.cql_type, bytes).ok_or_else(invalid)
            }
            _ => Ok(Cow::Borrowed(bytes)),
        }
    }
}

impl Call {
    /// The function's value.
    pub(super) fn evaluate<'v>(&'v self, values: Option<&Values<'v>>) -> Result<Datum<'v>, Fault> {
        match self.function {
            Function::Generate => return Err(Fault::Generated(None)),
            Function::Clock(name) => return Err(Fault::Generated(Some(name))),
            _ => {}
        }
        let mut arguments: Vec<Cow<'v, [u8]>> = Vec::with_capacity(self.arguments.len());
        let mut any_null = false;
        for (_, term) in &self.arguments {
            match term.evaluate(values)? {
                Datum::Bytes(bytes) => arguments.push(bytes),
                Datum::Null => any_null = true,
                Datum::NotSet => {
                    return Err(Fault::invalid(
                        "Invalid unset value for argument in call to function",
                    ));
                }
            }
        }
        if any_null {
            return Ok(Datum::Null);
        }
        if let [only] = arguments.as_slice()
            && self.function == Function::Reinterpret
        {
            let valid = value::is_valid(&self.result, only);
            return valid
                .then(|| Datum::Bytes(only.clone()))
                .ok_or_else(|| Fault::invalid("a blob is not a value of the type that it is taken for"));
        }
        let types = self.arguments.iter().map(|(cql_type, _)| cql_type);
        let typed: Vec<(&CqlType, &[u8])> = types.zip(arguments.iter().map(AsRef::as_ref)).collect();
        let result = self.function.apply(&typed, &self.result)?;
        Ok(result.map_or(Datum::Null, |bytes| Datum::Bytes(Cow::Owned(bytes))))
    }
}

fn pack(cql_type: &CqlType, elements: Vec<Vec<u8>>) -> Vec<u8> {
    match cql_type {
        CqlType::Set(element) => {
            let elements = value::sorted_set(element, elements);
            value::pack(elements.iter().map(AsRef::as_ref), elements.len())
        }
        CqlType::Map(entry) => {
            let mut elements = elements.into_iter();
            let pairs = std::iter::from_fn(|| Some((elements.next()?, elements.next()?))).collect();
            let pairs = value::sorted_map(&entry.0, pairs);
            value::pack(
                pairs
                    .iter()
                    .flat_map(|(key, value)| [key.as_ref(), value.as_ref()]),
                pairs.len(),
            )
        }
        CqlType::Vector(element, _) => value::pack_vector(element, elements.iter().map(AsRef::as_ref)),
        _ => value::pack(elements.iter().map(AsRef::as_ref), elements.len()),
    }
}
