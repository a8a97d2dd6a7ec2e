//! Bytes to values (v5 §6).

use super::elements::Elements;
use super::number::Decimal;
use super::time::{Date, Duration, Time, Timestamp};
use super::uuid::Uuid;
use super::{BigInt, CqlType, CqlValue, UdtType};
use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeErrorKind, MAX_DEPTH};
use crate::notation;

impl CqlValue {
    /// Decodes a value of a type. Takes memory for up to some 40 times the bytes (a vector of booleans), so
    /// that it is the caller who bounds it.
    ///
    /// # Errors
    /// Bytes of another length than the type has, text that is not valid, numbers out of their range.
    pub fn decode(cql_type: &CqlType, bytes: &[u8]) -> Result<CqlValue, DecodeError> {
        decode(cql_type, bytes, MAX_DEPTH)
    }

    /// Decodes a cell or an element, which may be null.
    ///
    /// # Errors
    /// As [`decode`](Self::decode).
    pub fn decode_nullable(cql_type: &CqlType, bytes: Option<&[u8]>) -> Result<CqlValue, DecodeError> {
        decode_nullable(cql_type, bytes, MAX_DEPTH)
    }
}

fn decode_nullable(cql_type: &CqlType, bytes: Option<&[u8]>, depth: usize) -> Result<CqlValue, DecodeError> {
    bytes.map_or(Ok(CqlValue::Null), |bytes| decode(cql_type, bytes, depth))
}

/// Decodes a value that may contain `depth` more levels.
fn decode(cql_type: &CqlType, bytes: &[u8], depth: usize) -> Result<CqlValue, DecodeError> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(error(cql_type.name(), DecodeErrorKind::TooDeep));
    };
    let may_be_empty = matches!(
        cql_type,
        CqlType::Ascii | CqlType::Text | CqlType::Blob | CqlType::Custom(_) | CqlType::Unknown(_)
    );
    if bytes.is_empty() && !may_be_empty {
        return Ok(CqlValue::Empty);
    }
    Ok(match cql_type {
        CqlType::Ascii => CqlValue::Ascii(ascii(bytes)?),
        CqlType::BigInt => CqlValue::BigInt(i64::from_be_bytes(fixed("bigint", bytes)?)),
        CqlType::Blob => CqlValue::Blob(bytes.to_vec()),
        CqlType::Boolean => CqlValue::Boolean(fixed::<1>("boolean", bytes)? != [0]),
        CqlType::Counter => CqlValue::Counter(i64::from_be_bytes(fixed("counter", bytes)?)),
        CqlType::Decimal => CqlValue::Decimal(decimal(bytes)?),
        CqlType::Double => CqlValue::Double(f64::from_be_bytes(fixed("double", bytes)?)),
        CqlType::Float => CqlValue::Float(f32::from_be_bytes(fixed("float", bytes)?)),
        CqlType::Int => CqlValue::Int(i32::from_be_bytes(fixed("int", bytes)?)),
        CqlType::Timestamp => CqlValue::Timestamp(Timestamp(i64::from_be_bytes(fixed("timestamp", bytes)?))),
        CqlType::Uuid => CqlValue::Uuid(Uuid(fixed("uuid", bytes)?)),
        CqlType::Text => CqlValue::Text(text(bytes)?),
        CqlType::Varint => CqlValue::Varint(BigInt::from_signed_bytes_be(bytes)),
        CqlType::TimeUuid => CqlValue::TimeUuid(Uuid(fixed("timeuuid", bytes)?)),
        CqlType::Inet => CqlValue::Inet(
            notation::address_of(bytes)
                .ok_or_else(|| error("inet", DecodeErrorKind::WrongLength(bytes.len())))?,
        ),
        CqlType::Date => CqlValue::Date(Date(u32::from_be_bytes(fixed("date", bytes)?))),
        CqlType::Time => CqlValue::Time(time(bytes)?),
        CqlType::SmallInt => CqlValue::SmallInt(i16::from_be_bytes(fixed("smallint", bytes)?)),
        CqlType::TinyInt => CqlValue::TinyInt(i8::from_be_bytes(fixed("tinyint", bytes)?)),
        CqlType::Duration => CqlValue::Duration(duration(bytes)?),
        CqlType::List(element) => CqlValue::List(elements(element, bytes, depth)?),
        CqlType::Set(element) => CqlValue::Set(elements(element, bytes, depth)?),
        CqlType::Map(entry) => CqlValue::Map(map(&entry.0, &entry.1, bytes, depth)?),
        CqlType::Tuple(types) => CqlValue::Tuple(tuple(types, bytes, depth)?),
        CqlType::Udt(udt) => CqlValue::Udt(user_type(udt, bytes, depth)?),
        CqlType::Vector(element, dimensions) => CqlValue::Vector(vector(element, *dimensions, bytes, depth)?),
        CqlType::Custom(_) | CqlType::Unknown(_) => CqlValue::Custom(bytes.to_vec()),
    })
}

fn fixed<const LENGTH: usize>(what: &'static str, bytes: &[u8]) -> Result<[u8; LENGTH], DecodeError> {
    bytes
        .try_into()
        .map_err(|_| error(what, DecodeErrorKind::WrongLength(bytes.len())))
}

fn text(bytes: &[u8]) -> Result<String, DecodeError> {
    std::str::from_utf8(bytes)
        .map(str::to_owned)
        .map_err(|at| DecodeError {
            what: "text",
            offset: at.valid_up_to(),
            kind: DecodeErrorKind::NotText,
        })
}

fn ascii(bytes: &[u8]) -> Result<String, DecodeError> {
    match bytes.iter().position(|byte| !byte.is_ascii()) {
        None => text(bytes),
        Some(offset) => Err(DecodeError {
            what: "ascii",
            offset,
            kind: DecodeErrorKind::NotText,
        }),
    }
}

/// `<scale [int]><unscaled varint>`.
fn decimal(bytes: &[u8]) -> Result<Decimal, DecodeError> {
    match bytes.split_first_chunk() {
        Some((scale, unscaled)) if !unscaled.is_empty() => Ok(Decimal {
            unscaled: BigInt::from_signed_bytes_be(unscaled),
            scale: i32::from_be_bytes(*scale),
        }),
        _ => Err(error("decimal", DecodeErrorKind::WrongLength(bytes.len()))),
    }
}

fn time(bytes: &[u8]) -> Result<Time, DecodeError> {
    let nanoseconds = i64::from_be_bytes(fixed("time", bytes)?);
    if (0..Time::END).contains(&nanoseconds) {
        Ok(Time(nanoseconds))
    } else {
        Err(error("time", DecodeErrorKind::OutOfRange))
    }
}

/// `<months [vint]><days [vint]><nanoseconds [vint]>`.
fn duration(bytes: &[u8]) -> Result<Duration, DecodeError> {
    let mut cursor = Cursor::new(bytes);
    let months = cursor.read("months", notation::vint)?;
    let days = cursor.read("days", notation::vint)?;
    let nanoseconds = cursor.read("nanoseconds", notation::vint)?;
    expect_end("duration", cursor.rest(), bytes)?;
    let int = |number: i64| i32::try_from(number).map_err(|_| error("duration", DecodeErrorKind::OutOfRange));
    Ok(Duration {
        months: int(months)?,
        days: int(days)?,
        nanoseconds,
    })
}

fn elements(element: &CqlType, bytes: &[u8], depth: usize) -> Result<Vec<CqlValue>, DecodeError> {
    let mut raw = Elements::of_list(bytes)?;
    let values = raw
        .by_ref()
        .map(|bytes| decode_nullable(element, bytes?, depth))
        .collect::<Result<Vec<_>, _>>()?;
    expect_end("list", raw.rest(), bytes)?;
    Ok(values)
}

fn map(
    key: &CqlType,
    value: &CqlType,
    bytes: &[u8],
    depth: usize,
) -> Result<Vec<(CqlValue, CqlValue)>, DecodeError> {
    let mut raw = Elements::of_map(bytes)?;
    let mut entries = Vec::new();
    while let (Some(key_bytes), Some(value_bytes)) = (raw.next(), raw.next()) {
        let key = decode_nullable(key, key_bytes?, depth)?;
        entries.push((key, decode_nullable(value, value_bytes?, depth)?));
    }
    expect_end("map", raw.rest(), bytes)?;
    Ok(entries)
}

/// One `[bytes]` for each element; missing ones at the end are null.
fn tuple(types: &[CqlType], bytes: &[u8], depth: usize) -> Result<Vec<CqlValue>, DecodeError> {
    let mut cursor = Cursor::new(bytes);
    let values = types
        .iter()
        .map(|cql_type| field(&mut cursor, cql_type, depth))
        .collect::<Result<_, _>>()?;
    expect_end("tuple", cursor.rest(), bytes)?;
    Ok(values)
}

/// As a tuple. More fields than the type has are ignored: another client may have added them since.
fn user_type(udt: &UdtType, bytes: &[u8], depth: usize) -> Result<Vec<(String, CqlValue)>, DecodeError> {
    let mut cursor = Cursor::new(bytes);
    udt.fields
        .iter()
        .map(|(name, cql_type)| Ok((name.clone(), field(&mut cursor, cql_type, depth)?)))
        .collect()
}

fn field(cursor: &mut Cursor<'_>, cql_type: &CqlType, depth: usize) -> Result<CqlValue, DecodeError> {
    if cursor.rest().is_empty() {
        return Ok(CqlValue::Null);
    }
    decode_nullable(cql_type, cursor.read("field", notation::bytes)?, depth)
}

/// Elements without a length if all values of their type have the same, else each behind an `[unsigned
/// vint]`.
fn vector(
    element: &CqlType,
    dimensions: u32,
    bytes: &[u8],
    depth: usize,
) -> Result<Vec<CqlValue>, DecodeError> {
    let fixed_len = element.fixed_len();
    let mut cursor = Cursor::new(bytes);
    let mut values = Vec::new();
    for _ in 0..dimensions {
        let length = match fixed_len {
            Some(length) => length,
            None => usize::try_from(cursor.read("length of an element", notation::unsigned_vint)?)
                .unwrap_or(usize::MAX),
        };
        values.push(decode(element, cursor.take("element", length)?, depth)?);
    }
    expect_end("vector", cursor.rest(), bytes)?;
    Ok(values)
}

impl CqlType {
    /// The length that every value of the type has inside a vector (Cassandra:
    /// `AbstractType.valueLengthIfFixed`, which leaves out date, time, smallint and tinyint).
    pub(super) fn fixed_len(&self) -> Option<usize> {
        match self {
            CqlType::Boolean => Some(1),
            CqlType::Int | CqlType::Float => Some(4),
            CqlType::BigInt | CqlType::Double | CqlType::Timestamp => Some(8),
            CqlType::Uuid | CqlType::TimeUuid => Some(16),
            CqlType::Vector(element, dimensions) => element
                .fixed_len()?
                .checked_mul(usize::try_from(*dimensions).ok()?),
            _ => None,
        }
    }
}

fn expect_end(what: &'static str, rest: &[u8], all: &[u8]) -> Result<(), DecodeError> {
    if rest.is_empty() {
        Ok(())
    } else {
        Err(error(what, DecodeErrorKind::WrongLength(all.len())))
    }
}

fn error(what: &'static str, kind: DecodeErrorKind) -> DecodeError {
    DecodeError {
        what,
        offset: 0,
        kind,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn decoded(cql_type: &CqlType, bytes: &[u8]) -> CqlValue {
        CqlValue::decode(cql_type, bytes).unwrap()
    }

    #[test]
    fn the_specifications_varints_are_read() {
        let examples: [(&[u8], i32); 8] = [
            (&[0], 0),
            (&[1], 1),
            (&[0x7f], 127),
            (&[0, 0x80], 128),
            (&[0, 0x81], 129),
            (&[0xff], -1),
            (&[0x80], -128),
            (&[0xff, 0x7f], -129),
        ];
        for (bytes, number) in examples {
            assert_eq!(decoded(&CqlType::Varint, bytes), CqlValue::Varint(number.into()));
        }
    }

    #[test]
    fn a_wrong_length_is_an_error_and_no_bytes_are_empty() {
        let error = CqlValue::decode(&CqlType::Int, &[1, 2, 3]).unwrap_err();
        assert_eq!((error.what, error.kind), ("int", DecodeErrorKind::WrongLength(3)));
        assert_eq!(decoded(&CqlType::Int, &[]), CqlValue::Empty);
        assert_eq!(decoded(&CqlType::Text, &[]), CqlValue::Text(String::new()));
    }

    #[test]
    fn a_vector_of_floats_has_no_lengths_and_one_of_smallints_has() {
        let floats = CqlType::Vector(Box::new(CqlType::Float), 2);
        let bytes = [0x3f, 0x80, 0, 0, 0x40, 0, 0, 0];
        assert_eq!(
            decoded(&floats, &bytes),
            CqlValue::Vector(vec![CqlValue::Float(1.0), CqlValue::Float(2.0)])
        );
        let smallints = CqlType::Vector(Box::new(CqlType::SmallInt), 2);
        let bytes = [2, 0, 1, 2, 0, 2];
        assert_eq!(
            decoded(&smallints, &bytes),
            CqlValue::Vector(vec![CqlValue::SmallInt(1), CqlValue::SmallInt(2)])
        );
        assert!(CqlValue::decode(&smallints, &bytes[..3]).is_err());
    }

    #[test]
    fn a_user_type_may_have_fewer_fields_than_its_type() {
        let fields = vec![("a".to_owned(), CqlType::Int), ("b".to_owned(), CqlType::Text)];
        let udt = CqlType::Udt(Box::new(UdtType {
            keyspace: "k".into(),
            name: "t".into(),
            fields,
        }));
        let value = decoded(&udt, &[0, 0, 0, 4, 0, 0, 0, 9]);
        assert_eq!(
            value,
            CqlValue::Udt(vec![("a".into(), CqlValue::Int(9)), ("b".into(), CqlValue::Null)])
        );
    }

    #[test]
    fn bytes_behind_a_list_are_an_error() {
        assert!(CqlValue::decode(&CqlType::list(CqlType::Int), &[0, 0, 0, 0, 9]).is_err());
    }

    #[test]
    fn a_time_after_the_end_of_the_day_is_refused() {
        assert!(CqlValue::decode(&CqlType::Time, &Time::END.to_be_bytes()).is_err());
    }
}
