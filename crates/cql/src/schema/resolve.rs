//! From the types of columns as defined to the types of their values.

use std::cell::Cell;

use crate::syntax::ast::NativeType;
use cqlens_proto::types::{CqlType, UdtType};

use super::data_type::DataType;
use super::model::Keyspace;

impl Keyspace {
    /// The type of a column's values: user-defined types with their fields, `frozen` gone.
    ///
    /// A user-defined type that the keyspace does not have, or that contains itself, is custom.
    pub fn resolve(&self, data_type: &DataType) -> CqlType {
        self.resolve_within(data_type, MAX_TYPE_DEPTH, &Cell::new(MAX_TYPE_PARTS))
    }

    fn resolve_within(&self, data_type: &DataType, depth: usize, parts: &Cell<usize>) -> CqlType {
        let (Some(depth), Some(rest)) = (depth.checked_sub(1), parts.get().checked_sub(1)) else {
            return CqlType::Custom("too large a type".into());
        };
        parts.set(rest);
        let inner = |data_type: &DataType| self.resolve_within(data_type, depth, parts);
        match data_type {
            DataType::Native(native) => native_type(*native),
            DataType::List(element) => CqlType::list(inner(element)),
            DataType::Set(element) => CqlType::set(inner(element)),
            DataType::Map(key, value) => CqlType::map(inner(key), inner(value)),
            DataType::Tuple(components) => CqlType::Tuple(components.iter().map(inner).collect()),
            DataType::Vector(element, dimension) => CqlType::Vector(Box::new(inner(element)), *dimension),
            DataType::Frozen(frozen) => inner(frozen),
            DataType::UserDefined(name) => match self.types.get(name) {
                Some(user_type) => CqlType::Udt(Box::new(UdtType {
                    keyspace: self.name.clone(),
                    name: name.clone(),
                    fields: user_type
                        .fields
                        .iter()
                        .map(|(name, field)| (name.clone(), inner(field)))
                        .collect(),
                })),
                None => CqlType::Custom(name.as_str().into()),
            },
            DataType::Custom(class) => CqlType::from_class_name(class),
        }
    }
}

/// No server accepts types nested so deeply.
const MAX_TYPE_DEPTH: usize = 32;

/// Types of types of types: a few definitions can name more parts than there is memory.
const MAX_TYPE_PARTS: usize = 10_000;

fn native_type(native: NativeType) -> CqlType {
    match native {
        NativeType::Ascii => CqlType::Ascii,
        NativeType::Bigint => CqlType::BigInt,
        NativeType::Blob => CqlType::Blob,
        NativeType::Boolean => CqlType::Boolean,
        NativeType::Counter => CqlType::Counter,
        NativeType::Date => CqlType::Date,
        NativeType::Decimal => CqlType::Decimal,
        NativeType::Double => CqlType::Double,
        NativeType::Duration => CqlType::Duration,
        NativeType::Float => CqlType::Float,
        NativeType::Inet => CqlType::Inet,
        NativeType::Int => CqlType::Int,
        NativeType::Smallint => CqlType::SmallInt,
        NativeType::Text | NativeType::Varchar => CqlType::Text,
        NativeType::Time => CqlType::Time,
        NativeType::Timestamp => CqlType::Timestamp,
        NativeType::Timeuuid => CqlType::TimeUuid,
        NativeType::Tinyint => CqlType::TinyInt,
        NativeType::Uuid => CqlType::Uuid,
        NativeType::Varint => CqlType::Varint,
    }
}
