//! Values to bytes (v5 §6): the mirror image of [`super::decode`].

use std::net::IpAddr;

use bytes::BytesMut;

use super::{CqlType, CqlValue};
use crate::cursor::Writer;
use crate::error::EncodeError;

impl CqlValue {
    /// The bytes of the value as a value of a type; `None` for null.
    ///
    /// # Errors
    /// A value of another type, text that is not ASCII as ascii, collections longer than an `[int]` can say.
    pub fn to_bytes(&self, cql_type: &CqlType) -> Result<Option<Vec<u8>>, EncodeError> {
        if *self == CqlValue::Null {
            return Ok(None);
        }
        let mut out = BytesMut::new();
        self.encode(cql_type, &mut out)?;
        Ok(Some(out.to_vec()))
    }

    /// Appends the bytes of the value as a value of a type; null has none.
    ///
    /// # Errors
    /// As [`to_bytes`](Self::to_bytes).
    pub fn encode(&self, cql_type: &CqlType, out: &mut BytesMut) -> Result<(), EncodeError> {
        let writer = &mut Writer::new(out);
        match (cql_type, self) {
            (_, CqlValue::Null | CqlValue::Empty) => {}
            (CqlType::Ascii, CqlValue::Ascii(text)) if text.is_ascii() => writer.raw(text.as_bytes()),
            (CqlType::Text, CqlValue::Text(text)) => writer.raw(text.as_bytes()),
            (CqlType::BigInt, CqlValue::BigInt(number)) | (CqlType::Counter, CqlValue::Counter(number)) => {
                writer.long(*number);
            }
            (CqlType::Blob, CqlValue::Blob(bytes))
            | (CqlType::Custom(_) | CqlType::Unknown(_), CqlValue::Custom(bytes)) => writer.raw(bytes),
            (CqlType::Boolean, CqlValue::Boolean(boolean)) => writer.byte(u8::from(*boolean)),
            (CqlType::Decimal, CqlValue::Decimal(decimal)) => {
                writer.int(decimal.scale);
                writer.raw(&decimal.unscaled.to_signed_bytes_be());
            }
            (CqlType::Varint, CqlValue::Varint(number)) => writer.raw(&number.to_signed_bytes_be()),
            (CqlType::Double, CqlValue::Double(number)) => writer.raw(&number.to_be_bytes()),
            (CqlType::Float, CqlValue::Float(number)) => writer.raw(&number.to_be_bytes()),
            (CqlType::Int, CqlValue::Int(number)) => writer.int(*number),
            (CqlType::SmallInt, CqlValue::SmallInt(number)) => writer.raw(&number.to_be_bytes()),
            (CqlType::TinyInt, CqlValue::TinyInt(number)) => writer.raw(&number.to_be_bytes()),
            (CqlType::Timestamp, CqlValue::Timestamp(timestamp)) => writer.long(timestamp.0),
            (CqlType::Date, CqlValue::Date(date)) => writer.raw(&date.0.to_be_bytes()),
            (CqlType::Time, CqlValue::Time(time)) => writer.long(time.0),
            (CqlType::Uuid, CqlValue::Uuid(uuid)) | (CqlType::TimeUuid, CqlValue::TimeUuid(uuid)) => {
                writer.raw(&uuid.0);
            }
            (CqlType::Inet, CqlValue::Inet(IpAddr::V4(address))) => writer.raw(&address.octets()),
            (CqlType::Inet, CqlValue::Inet(IpAddr::V6(address))) => writer.raw(&address.octets()),
            (CqlType::Duration, CqlValue::Duration(duration)) => {
                writer.vint(duration.months.into());
                writer.vint(duration.days.into());
                writer.vint(duration.nanoseconds);
            }
            _ => return self.encode_compound(cql_type, writer),
        }
        Ok(())
    }

    fn encode_compound(&self, cql_type: &CqlType, writer: &mut Writer<'_>) -> Result<(), EncodeError> {
        match (cql_type, self) {
            (CqlType::List(element), CqlValue::List(values))
            | (CqlType::Set(element), CqlValue::Set(values)) => {
                writer.int_count("elements", values.len())?;
                values
                    .iter()
                    .try_for_each(|value| write_element(writer, element, value))
            }
            (CqlType::Map(types), CqlValue::Map(entries)) => {
                writer.int_count("entries", entries.len())?;
                entries.iter().try_for_each(|(key, value)| {
                    write_element(writer, &types.0, key)?;
                    write_element(writer, &types.1, value)
                })
            }
            (CqlType::Tuple(types), CqlValue::Tuple(values)) if values.len() <= types.len() => {
                let mut pairs = types.iter().zip(values);
                pairs.try_for_each(|(its_type, value)| write_element(writer, its_type, value))
            }
            (CqlType::Udt(udt), CqlValue::Udt(fields)) => {
                udt.fields.iter().try_for_each(|(name, its_type)| {
                    let value = fields.iter().find(|(its_name, _)| its_name == name);
                    write_element(
                        writer,
                        its_type,
                        value.map_or(&CqlValue::Null, |(_, value)| value),
                    )
                })
            }
            (CqlType::Vector(element, dimensions), CqlValue::Vector(values))
                if u32::try_from(values.len()).is_ok_and(|length| length == *dimensions) =>
            {
                write_vector(writer, element, values)
            }
            _ => Err(EncodeError::TypeMismatch {
                what: cql_type.name(),
            }),
        }
    }
}

/// `[bytes]`.
fn write_element(writer: &mut Writer<'_>, cql_type: &CqlType, value: &CqlValue) -> Result<(), EncodeError> {
    writer.bytes("element", value.to_bytes(cql_type)?.as_deref())
}

fn write_vector(writer: &mut Writer<'_>, element: &CqlType, values: &[CqlValue]) -> Result<(), EncodeError> {
    let fixed_len = element.fixed_len();
    for value in values {
        let bytes = value.to_bytes(element)?.unwrap_or_default();
        match fixed_len {
            Some(length) if bytes.len() != length => {
                return Err(EncodeError::TypeMismatch { what: element.name() });
            }
            Some(_) => {}
            None => writer.unsigned_vint(bytes.len() as u64),
        }
        writer.raw(&bytes);
    }
    Ok(())
}
