//! Constants of a statement as serialized values of the type that stands beside them.
//!
//! Takes the forms that statements are written in; exotic ones that Cassandra also knows (time zone names,
//! week-based durations) are refused, and so are varints and decimals of more than 38 digits.

use std::net::IpAddr;

use bytes::BytesMut;
use cqlens_cql::syntax::ast::{Literal, LiteralKind};
use cqlens_proto::cursor::Writer;
use cqlens_proto::types::{CqlType, Uuid};
use jiff::civil;

/// The bytes of a constant as a value of a type; `None` if it is not one.
pub(super) fn serialize(literal: &Literal<'_>, cql_type: &CqlType) -> Option<Vec<u8>> {
    let text = literal.decoded();
    match literal.kind {
        LiteralKind::String => string(&text, cql_type),
        LiteralKind::Integer => integer(&text, cql_type),
        LiteralKind::Float => float(&text, cql_type),
        LiteralKind::Boolean if *cql_type == CqlType::Boolean => {
            Some(vec![u8::from(text.eq_ignore_ascii_case("true"))])
        }
        LiteralKind::Uuid => uuid(&text, cql_type),
        LiteralKind::Hex if *cql_type == CqlType::Blob => hexadecimal(text.get(2..)?),
        LiteralKind::Duration if *cql_type == CqlType::Duration => duration(&text),
        _ => None,
    }
}

fn string(text: &str, cql_type: &CqlType) -> Option<Vec<u8>> {
    match cql_type {
        CqlType::Text => Some(text.as_bytes().to_vec()),
        CqlType::Ascii => text.is_ascii().then(|| text.as_bytes().to_vec()),
        CqlType::Inet => match text.parse().ok()? {
            IpAddr::V4(address) => Some(address.octets().to_vec()),
            IpAddr::V6(address) => Some(address.octets().to_vec()),
        },
        CqlType::Timestamp => timestamp(text).map(|millis| millis.to_be_bytes().to_vec()),
        CqlType::Date => {
            let days = text.parse::<civil::Date>().ok()?.since(EPOCH).ok()?.get_days();
            // Day 0 of the type is 2^31 days before 1970.
            Some(days.cast_unsigned().wrapping_add(1 << 31).to_be_bytes().to_vec())
        }
        CqlType::Time => {
            let since_midnight = text
                .parse::<civil::Time>()
                .ok()?
                .duration_since(civil::Time::midnight());
            Some(
                i64::try_from(since_midnight.as_nanos())
                    .ok()?
                    .to_be_bytes()
                    .to_vec(),
            )
        }
        _ => None,
    }
}

const EPOCH: civil::Date = civil::date(1970, 1, 1);

/// Milliseconds since 1970; without a zone the text is UTC.
fn timestamp(text: &str) -> Option<i64> {
    if let Ok(timestamp) = text.parse::<jiff::Timestamp>() {
        return Some(timestamp.as_millisecond());
    }
    let date_time: civil::DateTime = text.parse().ok()?;
    Some(
        date_time
            .to_zoned(jiff::tz::TimeZone::UTC)
            .ok()?
            .timestamp()
            .as_millisecond(),
    )
}

fn integer(text: &str, cql_type: &CqlType) -> Option<Vec<u8>> {
    match cql_type {
        CqlType::TinyInt => Some(text.parse::<i8>().ok()?.to_be_bytes().to_vec()),
        CqlType::SmallInt => Some(text.parse::<i16>().ok()?.to_be_bytes().to_vec()),
        CqlType::Int => Some(text.parse::<i32>().ok()?.to_be_bytes().to_vec()),
        CqlType::BigInt | CqlType::Counter | CqlType::Timestamp | CqlType::Time => {
            Some(text.parse::<i64>().ok()?.to_be_bytes().to_vec())
        }
        CqlType::Date => Some(text.parse::<u32>().ok()?.to_be_bytes().to_vec()),
        CqlType::Varint => Some(varint(text.parse().ok()?)),
        _ => float(text, cql_type),
    }
}

fn float(text: &str, cql_type: &CqlType) -> Option<Vec<u8>> {
    match cql_type {
        CqlType::Float => Some(text.parse::<f32>().ok()?.to_be_bytes().to_vec()),
        CqlType::Double => Some(text.parse::<f64>().ok()?.to_be_bytes().to_vec()),
        CqlType::Decimal => decimal(text),
        _ => None,
    }
}

/// An `[int]` scale and the unscaled number.
fn decimal(text: &str) -> Option<Vec<u8>> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let unscaled = format!("{whole}{fraction}").parse().ok()?;
    let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    Some([&scale.to_be_bytes()[..], &varint(unscaled)].concat())
}

/// Two's complement in as few bytes as possible.
fn varint(number: i128) -> Vec<u8> {
    let bytes = number.to_be_bytes();
    let says_nothing = |pair: &[u8]| {
        matches!(pair, [0, next] if next & 0x80 == 0) || matches!(pair, [0xff, next] if next & 0x80 != 0)
    };
    let start = bytes.windows(2).take_while(|pair| says_nothing(pair)).count();
    bytes[start..].to_vec()
}

fn uuid(text: &str, cql_type: &CqlType) -> Option<Vec<u8>> {
    let uuid = Uuid::parse(text)?;
    let fits = match cql_type {
        CqlType::Uuid => true,
        CqlType::TimeUuid => uuid.version() == 1,
        _ => false,
    };
    fits.then(|| uuid.0.to_vec())
}

fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = digits
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// The form `1y2mo3w4d5h6m7s8ms9us10ns`, as vints of months, days and nanoseconds.
fn duration(text: &str) -> Option<Vec<u8>> {
    const UNITS: [(&str, i64, i64, i64); 11] = [
        ("mo", 1, 0, 0),
        ("ms", 0, 0, 1_000_000),
        ("us", 0, 0, 1_000),
        ("µs", 0, 0, 1_000),
        ("ns", 0, 0, 1),
        ("y", 12, 0, 0),
        ("w", 0, 7, 0),
        ("d", 0, 1, 0),
        ("h", 0, 0, 3_600_000_000_000),
        ("m", 0, 0, 60_000_000_000),
        ("s", 0, 0, 1_000_000_000),
    ];
    let text = text.to_ascii_lowercase();
    let (sign, mut rest) = text
        .strip_prefix('-')
        .map_or((1, text.as_str()), |rest| (-1, rest));
    let (mut months, mut days, mut nanoseconds) = (0_i64, 0_i64, 0_i64);
    while !rest.is_empty() {
        let digits = rest.find(|digit: char| !digit.is_ascii_digit())?;
        let number = sign * rest[..digits].parse::<i64>().ok()?;
        let (unit, month, day, nanosecond) = UNITS
            .into_iter()
            .find(|(unit, ..)| rest[digits..].starts_with(unit))?;
        months = months.checked_add(number.checked_mul(month)?)?;
        days = days.checked_add(number.checked_mul(day)?)?;
        nanoseconds = nanoseconds.checked_add(number.checked_mul(nanosecond)?)?;
        rest = &rest[digits + unit.len()..];
    }
    let mut out = BytesMut::new();
    let mut writer = Writer::new(&mut out);
    [months, days, nanoseconds]
        .into_iter()
        .for_each(|part| writer.vint(part));
    Some(out.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cqlens_cql::syntax::Span;
    use cqlens_proto::types::CqlValue;

    fn shown(kind: LiteralKind, text: &str, cql_type: &CqlType) -> Option<String> {
        let bytes = serialize(
            &Literal {
                kind,
                text,
                span: Span::default(),
            },
            cql_type,
        )?;
        CqlValue::decode(cql_type, &bytes)
            .ok()
            .map(|value| value.to_string())
    }

    #[test]
    fn a_constant_means_what_its_column_says() {
        let shows = |kind, text, cql_type: CqlType| shown(kind, text, &cql_type).unwrap_or_default();
        assert_eq!(shows(LiteralKind::Integer, "-129", CqlType::Varint), "-129");
        assert_eq!(shows(LiteralKind::Integer, "300", CqlType::TinyInt), "");
        assert_eq!(shows(LiteralKind::Float, "1.50", CqlType::Decimal), "1.50");
        assert_eq!(shows(LiteralKind::Float, "12e3", CqlType::Decimal), "1.2E+4");
        assert_eq!(
            shows(LiteralKind::String, "'2024-02-29'", CqlType::Date),
            "2024-02-29"
        );
        assert_eq!(
            shows(LiteralKind::String, "'127.0.0.1'", CqlType::Inet),
            "127.0.0.1"
        );
        assert_eq!(shows(LiteralKind::String, "'x'", CqlType::Int), "");
        assert_eq!(shows(LiteralKind::Hex, "0xCAFE", CqlType::Blob), "0xcafe");
        assert_eq!(
            shows(LiteralKind::Duration, "1mo2d3h", CqlType::Duration),
            "1mo2d3h"
        );
    }

    #[test]
    fn a_timestamp_without_a_zone_is_utc() {
        let shows = |text| shown(LiteralKind::String, text, &CqlType::Timestamp).unwrap_or_default();
        assert_eq!(shows("'1970-01-02'"), "1970-01-02 00:00:00.000000+0000");
        assert_eq!(shows("'1970-01-02 03:04:05'"), "1970-01-02 03:04:05.000000+0000");
        assert_eq!(
            shows("'1970-01-02 03:04:05+0100'"),
            "1970-01-02 02:04:05.000000+0000"
        );
    }
}
