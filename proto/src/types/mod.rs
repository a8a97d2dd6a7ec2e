//! CQL types and values: what the bytes of a cell, a bound value or a key mean.
//!
//! [`CqlType`] is read from a column specification or from a class name; with it [`CqlValue::decode`] turns
//! bytes into a typed value, which is shown as cqlsh shows it and encoded again. Nothing here knows messages.

mod class_name;
mod decode;
mod display;
mod elements;
mod encode;
mod number;
mod time;
mod uuid;
mod value;

pub use elements::Elements;
pub use num_bigint::BigInt;
pub use number::Decimal;
pub use time::{Date, Duration, Time, Timestamp};
pub use uuid::Uuid;
pub use value::CqlValue;

use std::fmt;

use crate::cursor::{Cursor, Writer};
use crate::error::{DecodeError, DecodeErrorKind, EncodeError, MAX_DEPTH};
use crate::notation;

/// A type of CQL, as the wire describes it: nothing here is frozen or not.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs)] // The names are CQL's.
pub enum CqlType {
    Ascii,
    BigInt,
    Blob,
    Boolean,
    Counter,
    Decimal,
    Double,
    Float,
    Int,
    Timestamp,
    Uuid,
    /// Also called varchar.
    Text,
    Varint,
    TimeUuid,
    Inet,
    Date,
    Time,
    SmallInt,
    TinyInt,
    Duration,
    List(Box<CqlType>),
    Set(Box<CqlType>),
    /// Key and value.
    Map(Box<(CqlType, CqlType)>),
    Tuple(Vec<CqlType>),
    Udt(Box<UdtType>),
    /// A fixed number of elements; Cassandra 5. On the wire it is a custom type.
    Vector(Box<CqlType>, u32),
    /// A Java class that is not one of the above.
    Custom(Box<str>),
    /// A type id that the specification does not have.
    Unknown(u16),
}

/// A user-defined type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UdtType {
    /// Where it is defined.
    pub keyspace: String,
    /// Its name.
    pub name: String,
    /// Names and types of the fields, in order.
    pub fields: Vec<(String, CqlType)>,
}

/// Type ids of the wire without a parameter, and their types.
static NATIVE: [(u16, CqlType); 20] = [
    (0x01, CqlType::Ascii),
    (0x02, CqlType::BigInt),
    (0x03, CqlType::Blob),
    (0x04, CqlType::Boolean),
    (0x05, CqlType::Counter),
    (0x06, CqlType::Decimal),
    (0x07, CqlType::Double),
    (0x08, CqlType::Float),
    (0x09, CqlType::Int),
    (0x0b, CqlType::Timestamp),
    (0x0c, CqlType::Uuid),
    (0x0d, CqlType::Text),
    (0x0e, CqlType::Varint),
    (0x0f, CqlType::TimeUuid),
    (0x10, CqlType::Inet),
    (0x11, CqlType::Date),
    (0x12, CqlType::Time),
    (0x13, CqlType::SmallInt),
    (0x14, CqlType::TinyInt),
    (0x15, CqlType::Duration),
];

/// Type ids of the wire that are followed by something.
mod id {
    pub(super) const CUSTOM: u16 = 0x00;
    pub(super) const LIST: u16 = 0x20;
    pub(super) const MAP: u16 = 0x21;
    pub(super) const SET: u16 = 0x22;
    pub(super) const UDT: u16 = 0x30;
    pub(super) const TUPLE: u16 = 0x31;
}

impl CqlType {
    /// A list of elements.
    pub fn list(element: CqlType) -> CqlType {
        CqlType::List(Box::new(element))
    }

    /// A set of elements.
    pub fn set(element: CqlType) -> CqlType {
        CqlType::Set(Box::new(element))
    }

    /// A map from keys to values.
    pub fn map(key: CqlType, value: CqlType) -> CqlType {
        CqlType::Map(Box::new((key, value)))
    }

    /// The type that a Java class name stands for, such as
    /// `org.apache.cassandra.db.marshal.ListType(…UTF8Type)`; names that are not known are
    /// [`CqlType::Custom`].
    pub fn from_class_name(name: &str) -> CqlType {
        class_name::parse(name).unwrap_or_else(|| CqlType::Custom(name.into()))
    }

    /// The native type with a CQL name, such as `int`, `varchar` or `timeuuid`, in any case.
    pub fn native_from_name(name: &str) -> Option<CqlType> {
        if name.eq_ignore_ascii_case("varchar") {
            return Some(CqlType::Text);
        }
        NATIVE
            .iter()
            .map(|(_, native)| native)
            .find(|native| name.eq_ignore_ascii_case(native.name()))
            .cloned()
    }

    /// The CQL name; of a type with parameters, the name without them.
    pub fn name(&self) -> &'static str {
        match self {
            CqlType::Ascii => "ascii",
            CqlType::BigInt => "bigint",
            CqlType::Blob => "blob",
            CqlType::Boolean => "boolean",
            CqlType::Counter => "counter",
            CqlType::Decimal => "decimal",
            CqlType::Double => "double",
            CqlType::Float => "float",
            CqlType::Int => "int",
            CqlType::Timestamp => "timestamp",
            CqlType::Uuid => "uuid",
            CqlType::Text => "text",
            CqlType::Varint => "varint",
            CqlType::TimeUuid => "timeuuid",
            CqlType::Inet => "inet",
            CqlType::Date => "date",
            CqlType::Time => "time",
            CqlType::SmallInt => "smallint",
            CqlType::TinyInt => "tinyint",
            CqlType::Duration => "duration",
            CqlType::List(_) => "list",
            CqlType::Set(_) => "set",
            CqlType::Map(_) => "map",
            CqlType::Tuple(_) => "tuple",
            CqlType::Udt(_) => "udt",
            CqlType::Vector(..) => "vector",
            CqlType::Custom(_) => "custom",
            CqlType::Unknown(_) => "unknown",
        }
    }

    /// Reads an `[option]` (v5 §4.2.5.2).
    ///
    /// # Errors
    /// Bytes that end early, names that are not UTF-8, types nested deeper than [`MAX_DEPTH`].
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<CqlType, DecodeError> {
        decode_option(cursor, MAX_DEPTH)
    }

    /// Moves behind an `[option]` without building the type.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn skip(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
        skip_option(cursor, MAX_DEPTH)
    }

    /// Appends an `[option]`.
    ///
    /// # Errors
    /// Names and counts that the wire cannot say.
    pub fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        match self {
            CqlType::List(element) => {
                writer.short(id::LIST);
                element.encode(writer)
            }
            CqlType::Set(element) => {
                writer.short(id::SET);
                element.encode(writer)
            }
            CqlType::Map(entry) => {
                writer.short(id::MAP);
                entry.0.encode(writer)?;
                entry.1.encode(writer)
            }
            CqlType::Tuple(elements) => {
                writer.short(id::TUPLE);
                writer.short_count("tuple elements", elements.len())?;
                elements.iter().try_for_each(|element| element.encode(writer))
            }
            CqlType::Udt(udt) => {
                writer.short(id::UDT);
                udt.encode(writer)
            }
            CqlType::Vector(..) => {
                writer.short(id::CUSTOM);
                writer.string("class name", &class_name::of(self))
            }
            CqlType::Custom(name) => {
                writer.short(id::CUSTOM);
                writer.string("class name", name)
            }
            CqlType::Unknown(id) => {
                writer.short(*id);
                Ok(())
            }
            native => {
                let (id, _) = NATIVE
                    .iter()
                    .find(|(_, its_type)| its_type == native)
                    .ok_or(EncodeError::TypeMismatch { what: "native" })?;
                writer.short(*id);
                Ok(())
            }
        }
    }
}

/// Reads an `[option]` that may contain `depth` more levels.
fn decode_option(cursor: &mut Cursor<'_>, depth: usize) -> Result<CqlType, DecodeError> {
    let type_id = read_id(cursor, depth)?;
    let depth = depth.saturating_sub(1);
    Ok(match type_id {
        id::CUSTOM => CqlType::from_class_name(cursor.read("class name", notation::string)?),
        id::LIST => CqlType::list(decode_option(cursor, depth)?),
        id::SET => CqlType::set(decode_option(cursor, depth)?),
        id::MAP => CqlType::map(decode_option(cursor, depth)?, decode_option(cursor, depth)?),
        id::TUPLE => {
            let count = cursor.read("number of tuple elements", notation::short)?;
            CqlType::Tuple(
                (0..count)
                    .map(|_| decode_option(cursor, depth))
                    .collect::<Result<_, _>>()?,
            )
        }
        id::UDT => CqlType::Udt(Box::new(UdtType::decode(cursor, depth)?)),
        // Servers of old drivers call text 0x0A.
        0x0a => CqlType::Text,
        other => match NATIVE.iter().find(|(id, _)| *id == other) {
            Some((_, native)) => native.clone(),
            None => CqlType::Unknown(other),
        },
    })
}

fn skip_option(cursor: &mut Cursor<'_>, depth: usize) -> Result<(), DecodeError> {
    let type_id = read_id(cursor, depth)?;
    let depth = depth.saturating_sub(1);
    match type_id {
        id::CUSTOM => cursor.read("class name", notation::string).map(drop),
        id::LIST | id::SET => skip_option(cursor, depth),
        id::MAP => {
            skip_option(cursor, depth)?;
            skip_option(cursor, depth)
        }
        id::TUPLE => {
            let count = cursor.read("number of tuple elements", notation::short)?;
            (0..count).try_for_each(|_| skip_option(cursor, depth))
        }
        id::UDT => {
            cursor.read("keyspace of a type", notation::string)?;
            cursor.read("name of a type", notation::string)?;
            let count = cursor.read("number of fields", notation::short)?;
            (0..count).try_for_each(|_| {
                cursor.read("name of a field", notation::string)?;
                skip_option(cursor, depth)
            })
        }
        _ => Ok(()),
    }
}

#[inline]
fn read_id(cursor: &mut Cursor<'_>, depth: usize) -> Result<u16, DecodeError> {
    if depth == 0 {
        return Err(cursor.error("type", DecodeErrorKind::TooDeep));
    }
    cursor.read("type id", notation::short)
}

impl UdtType {
    fn decode(cursor: &mut Cursor<'_>, depth: usize) -> Result<UdtType, DecodeError> {
        let keyspace = cursor.read("keyspace of a type", notation::string)?.to_owned();
        let name = cursor.read("name of a type", notation::string)?.to_owned();
        let count = cursor.read("number of fields", notation::short)?;
        let mut field = |_| {
            let name = cursor.read("name of a field", notation::string)?.to_owned();
            Ok((name, decode_option(cursor, depth)?))
        };
        let fields = (0..count).map(&mut field).collect::<Result<_, _>>()?;
        Ok(UdtType {
            keyspace,
            name,
            fields,
        })
    }

    fn encode(&self, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        writer.string("keyspace of a type", &self.keyspace)?;
        writer.string("name of a type", &self.name)?;
        writer.short_count("fields", self.fields.len())?;
        for (name, field_type) in &self.fields {
            writer.string("name of a field", name)?;
            field_type.encode(writer)?;
        }
        Ok(())
    }
}

/// The CQL form, such as `map<text, list<int>>`.
impl fmt::Display for CqlType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CqlType::List(element) => write!(out, "list<{element}>"),
            CqlType::Set(element) => write!(out, "set<{element}>"),
            CqlType::Map(entry) => write!(out, "map<{}, {}>", entry.0, entry.1),
            CqlType::Tuple(elements) => {
                out.write_str("tuple<")?;
                for (index, element) in elements.iter().enumerate() {
                    write!(out, "{}{element}", if index == 0 { "" } else { ", " })?;
                }
                out.write_str(">")
            }
            CqlType::Udt(udt) => write!(out, "{}.{}", udt.keyspace, udt.name),
            CqlType::Vector(element, dimensions) => write!(out, "vector<{element}, {dimensions}>"),
            CqlType::Custom(name) => write!(out, "'{name}'"),
            CqlType::Unknown(id) => write!(out, "unknown type {id:#06x}"),
            native => out.write_str(native.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use bytes::BytesMut;

    #[test]
    fn a_nested_type_is_read_and_named_as_in_cql() {
        let bytes = [0, 0x21, 0, 0x0d, 0, 0x20, 0, 0x31, 0, 2, 0, 0x09, 0, 0x02];
        let cql_type = CqlType::decode(&mut Cursor::new(&bytes)).unwrap();
        assert_eq!(cql_type.to_string(), "map<text, list<tuple<int, bigint>>>");
        let mut cursor = Cursor::new(&bytes);
        CqlType::skip(&mut cursor).unwrap();
        assert!(cursor.rest().is_empty());
        let mut out = BytesMut::new();
        cql_type.encode(&mut Writer::new(&mut out)).unwrap();
        assert_eq!(&out[..], bytes);
    }

    #[test]
    fn a_vector_comes_as_a_class_name() {
        let name =
            "org.apache.cassandra.db.marshal.VectorType(org.apache.cassandra.db.marshal.FloatType , 3)";
        let vector = CqlType::from_class_name(name);
        assert_eq!(vector, CqlType::Vector(Box::new(CqlType::Float), 3));
        let mut out = BytesMut::new();
        vector.encode(&mut Writer::new(&mut out)).unwrap();
        assert_eq!(&out[4..], name.as_bytes());
        assert_eq!(CqlType::decode(&mut Cursor::new(&out)).unwrap(), vector);
    }

    #[test]
    fn lists_of_lists_without_end_are_refused() {
        let bytes = [0, 0x20].repeat(10_000);
        let error = CqlType::decode(&mut Cursor::new(&bytes)).unwrap_err();
        assert_eq!(error.kind, DecodeErrorKind::TooDeep);
        assert_eq!(
            CqlType::skip(&mut Cursor::new(&bytes)).unwrap_err().kind,
            DecodeErrorKind::TooDeep
        );
    }

    #[test]
    fn native_types_are_found_by_name() {
        assert_eq!(CqlType::native_from_name("VarChar"), Some(CqlType::Text));
        assert_eq!(CqlType::native_from_name("timeuuid"), Some(CqlType::TimeUuid));
        assert_eq!(CqlType::native_from_name("list"), None);
    }
}
