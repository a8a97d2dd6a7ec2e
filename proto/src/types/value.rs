//! A typed value.

use std::net::IpAddr;

use num_bigint::BigInt;

use super::number::Decimal;
use super::time::{Date, Duration, Time, Timestamp};
use super::uuid::Uuid;

/// A value of some [`CqlType`](super::CqlType).
///
/// Decoded with [`decode`](Self::decode), encoded with [`encode`](Self::encode), shown as cqlsh shows it
/// (with `{:#}` as a CQL literal).
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)] // The names are CQL's.
pub enum CqlValue {
    /// No value.
    Null,
    /// A value of no bytes of a type that is not text: not null, a relic that every server still accepts.
    Empty,
    Ascii(String),
    BigInt(i64),
    Blob(Vec<u8>),
    Boolean(bool),
    Counter(i64),
    Decimal(Decimal),
    Double(f64),
    Float(f32),
    Int(i32),
    Timestamp(Timestamp),
    Uuid(Uuid),
    Text(String),
    Varint(BigInt),
    TimeUuid(Uuid),
    Inet(IpAddr),
    Date(Date),
    Time(Time),
    SmallInt(i16),
    TinyInt(i8),
    Duration(Duration),
    List(Vec<CqlValue>),
    Set(Vec<CqlValue>),
    /// Keys and values in the order of the wire.
    Map(Vec<(CqlValue, CqlValue)>),
    Tuple(Vec<CqlValue>),
    /// Fields and values in the order of the type.
    Udt(Vec<(String, CqlValue)>),
    Vector(Vec<CqlValue>),
    /// The bytes of a value of a custom or unknown type.
    Custom(Vec<u8>),
}
