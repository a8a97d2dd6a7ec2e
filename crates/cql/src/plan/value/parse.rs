//! Constants to bytes: which constants a type accepts and what they serialize to (`Constants.Literal`,
//! `AbstractType.fromString`).

use crate::syntax::ast::{Literal, LiteralKind};
use cqlens_proto::types::CqlType;

use super::number::{Decimal, Integer};
use super::time;

/// The bytes of a constant as a value of a type; `None` if the type does not accept it.
pub(in crate::plan) fn parse(cql_type: &CqlType, literal: &Literal<'_>) -> Option<Vec<u8>> {
    if !accepts(cql_type, literal.kind) {
        return None;
    }
    let text = literal.decoded();
    let text = text.as_ref();
    if literal.kind == LiteralKind::Hex && !matches!(cql_type, CqlType::Tuple(_)) {
        return hex(text.get(2..)?);
    }
    from_text(cql_type, text)
}

/// The bytes of a text as a value of a type: `AbstractType.fromString`.
fn from_text(cql_type: &CqlType, text: &str) -> Option<Vec<u8>> {
    match cql_type {
        CqlType::Text => Some(text.as_bytes().to_vec()),
        CqlType::Ascii => text.is_ascii().then(|| text.as_bytes().to_vec()),
        CqlType::BigInt | CqlType::Counter => Some(text.parse::<i64>().ok()?.to_be_bytes().to_vec()),
        CqlType::Int => Some(text.parse::<i32>().ok()?.to_be_bytes().to_vec()),
        CqlType::SmallInt => Some(text.parse::<i16>().ok()?.to_be_bytes().to_vec()),
        CqlType::TinyInt => Some(text.parse::<i8>().ok()?.to_be_bytes().to_vec()),
        CqlType::Varint => Some(text.parse::<Integer>().ok()?.to_signed_bytes_be()),
        CqlType::Decimal => Some(Decimal::parse(text)?.to_bytes()),
        CqlType::Float => Some(float::<f32>(text, f32::NAN)?.to_be_bytes().to_vec()),
        CqlType::Double => Some(float::<f64>(text, f64::NAN)?.to_be_bytes().to_vec()),
        CqlType::Boolean => Some(vec![u8::from(text.eq_ignore_ascii_case("true"))]),
        CqlType::Uuid => uuid(text),
        CqlType::TimeUuid => uuid(text).filter(|bytes| bytes[6] >> 4 == 1),
        CqlType::Inet => inet(text),
        CqlType::Date => Some(days_of_date(time::date(text)?)),
        CqlType::Time => Some(time::time(text)?.to_be_bytes().to_vec()),
        CqlType::Timestamp if text.is_empty() => Some(Vec::new()),
        CqlType::Timestamp => Some(time::timestamp(text)?.to_be_bytes().to_vec()),
        CqlType::Tuple(types) => tuple(types, text),
        _ => None,
    }
}

/// The components of a tuple as text, `1:abc`: `@` is null, and a colon or an at of a component has a backslash
/// before it. The last ones may be missing (`TupleType.fromString`).
fn tuple(types: &[CqlType], text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut types = types.iter();
    for component in components(text) {
        let cql_type = types.next()?;
        if component == "@" {
            bytes.extend((-1_i32).to_be_bytes());
            continue;
        }
        let value = from_text(cql_type, &component.replace("\\:", ":").replace("\\@", "@"))?;
        bytes.extend(i32::try_from(value.len()).ok()?.to_be_bytes());
        bytes.extend(value);
    }
    Some(bytes)
}

/// What stands between colons that have no backslash before them.
fn components(text: &str) -> Vec<&str> {
    let mut components = Vec::new();
    let (mut start, mut before) = (0, ' ');
    for (at, letter) in text.char_indices() {
        if letter == ':' && before != '\\' {
            components.push(&text[start..at]);
            start = at + 1;
        }
        before = letter;
    }
    components.push(&text[start..]);
    components
}

/// The bytes of a `date`: days since 1970, shifted so that the epoch is in the middle of an unsigned int.
pub(in crate::plan) fn days_of_date(days: i64) -> Vec<u8> {
    let shifted = u32::try_from(days + (1 << 31)).unwrap_or(if days < 0 { 0 } else { u32::MAX });
    shifted.to_be_bytes().to_vec()
}

/// Whether a type accepts constants of a kind, whatever they say: `Constants.Literal.testAssignment`.
pub(in crate::plan) fn accepts(cql_type: &CqlType, kind: LiteralKind) -> bool {
    use CqlType::{
        Ascii, BigInt, Blob, Boolean, Counter, Date, Decimal, Double, Duration, Float, Inet, Int, SmallInt,
        Text, Time, TimeUuid, Timestamp, TinyInt, Tuple, Uuid, Varint,
    };
    match kind {
        // What is neither native nor a collection is read from its text, whatever kind of constant that is.
        _ if matches!(cql_type, Tuple(_)) => true,
        LiteralKind::String => matches!(cql_type, Ascii | Text | Inet | Date | Time | Timestamp),
        LiteralKind::Integer => matches!(
            cql_type,
            BigInt
                | Counter
                | Date
                | Decimal
                | Double
                | Duration
                | Float
                | Int
                | SmallInt
                | Time
                | Timestamp
                | TinyInt
                | Varint
        ),
        LiteralKind::Float => matches!(cql_type, Decimal | Double | Float),
        LiteralKind::Boolean => matches!(cql_type, Boolean),
        LiteralKind::Duration => matches!(cql_type, Duration),
        LiteralKind::Uuid => matches!(cql_type, Uuid | TimeUuid),
        // A blob is taken for a tinyint: `HEX.getPreferedTypeFor` answers `ByteType`, which is one.
        LiteralKind::Hex => matches!(cql_type, Blob | TinyInt),
        LiteralKind::Nested => false,
    }
}

/// A number, or `NaN` and `Infinity` in any case; Java has one NaN, whatever its sign.
fn float<F: std::str::FromStr>(text: &str, nan: F) -> Option<F> {
    if text.to_ascii_lowercase().ends_with("nan") {
        Some(nan)
    } else {
        text.parse().ok()
    }
}

fn hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

fn uuid(text: &str) -> Option<Vec<u8>> {
    hex(&text.replace('-', "")).filter(|bytes| bytes.len() == 16)
}

/// An address as `InetAddress.getByName` reads it, without asking a name server: IPv4-mapped IPv6 becomes
/// IPv4.
fn inet(text: &str) -> Option<Vec<u8>> {
    use std::net::{IpAddr, Ipv6Addr};
    if text.is_empty() {
        return Some(Vec::new());
    }
    let text = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    match text.parse() {
        Ok(IpAddr::V4(address)) => Some(address.octets().to_vec()),
        Ok(IpAddr::V6(address)) => Some(match address.to_ipv4_mapped() {
            Some(address) => address.octets().to_vec(),
            None => Ipv6Addr::octets(&address).to_vec(),
        }),
        Err(_) => short_ipv4(text),
    }
}

/// `1.2.3` is 1.2.0.3: the last of fewer than four parts fills the remaining bytes.
fn short_ipv4(text: &str) -> Option<Vec<u8>> {
    let parts: Vec<&str> = text.split('.').collect();
    let (last, first) = parts.split_last()?;
    let is_number =
        |part: &&str| !part.is_empty() && part.len() < 15 && part.bytes().all(|byte| byte.is_ascii_digit());
    if first.len() > 3 || !parts.iter().all(is_number) {
        return None;
    }
    let mut bytes: Vec<u8> = first
        .iter()
        .map(|part| part.parse().ok())
        .collect::<Option<_>>()?;
    let rest = 4 - bytes.len();
    let last: u64 = last.parse().ok()?;
    let filling = last.to_be_bytes();
    let (above, filling) = filling.split_at(filling.len() - rest);
    bytes.extend_from_slice(filling);
    above.iter().all(|&byte| byte == 0).then_some(bytes)
}

/// Whether a string is no address but may be a host's name, which the server would look up.
pub(in crate::plan) fn is_host_name(literal: &Literal<'_>) -> bool {
    let text = literal.decoded();
    let may_stand =
        |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-' | '_');
    let is_address = inet(&text).is_some();
    !is_address && text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.chars().all(may_stand)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::Span;

    fn bytes(cql_type: &CqlType, kind: LiteralKind, text: &str) -> Option<Vec<u8>> {
        parse(
            cql_type,
            &Literal {
                kind,
                text,
                span: Span::default(),
            },
        )
    }

    #[test]
    fn a_tuple_is_read_from_its_text() {
        let tuple = CqlType::Tuple(vec![CqlType::Int, CqlType::Text]);
        let read = |text| bytes(&tuple, LiteralKind::String, text);
        let one = [0, 0, 0, 4, 0, 0, 0, 1];
        assert_eq!(read("'1:a'"), Some([&one[..], &[0, 0, 0, 1, b'a']].concat()));
        assert_eq!(
            read(r"'1:a\:b\@'"),
            Some([&one[..], &[0, 0, 0, 4, b'a', b':', b'b', b'@']].concat())
        );
        assert_eq!(read("'1:@'"), Some([&one[..], &[0xff; 4]].concat()));
        assert_eq!(read("'1'"), Some(one.to_vec()));
        assert_eq!(read("'x:a'"), None);
        assert_eq!(read("'1:a:b'"), None);
    }

    #[test]
    fn every_constant_is_what_its_column_makes_of_it() {
        use LiteralKind::{Float, Hex, Integer, String, Uuid};
        for (cql_type, kind, text, expected) in [
            (CqlType::Int, Integer, "-1", Some(&[0xff; 4][..])),
            (CqlType::Int, Integer, "2147483648", None),
            (CqlType::Int, String, "'1'", None),
            (CqlType::Varint, Integer, "-129", Some(&[0xff, 0x7f])),
            (CqlType::Varint, Integer, "128", Some(&[0, 0x80])),
            (CqlType::Text, String, "'O''Brien'", Some(b"O'Brien")),
            (CqlType::Ascii, String, "'é'", None),
            (CqlType::Blob, Hex, "0Xcafe", Some(&[0xca, 0xfe])),
            (CqlType::Blob, Hex, "0xcaf", None),
            (CqlType::TinyInt, Hex, "0x01", Some(&[1])),
            (
                CqlType::Double,
                Float,
                "-NaN",
                Some(&[0x7f, 0xf8, 0, 0, 0, 0, 0, 0]),
            ),
            (CqlType::Float, Integer, "1", Some(&[0x3f, 0x80, 0, 0])),
            (CqlType::Date, String, "'1970-01-01'", Some(&[0x80, 0, 0, 0])),
            (CqlType::Inet, String, "'::ffff:127.0.0.1'", Some(&[127, 0, 0, 1])),
            (
                CqlType::TimeUuid,
                Uuid,
                "123e4567-e89b-42d3-a456-426655440000",
                None,
            ),
        ] {
            assert_eq!(
                bytes(&cql_type, kind, text).as_deref(),
                expected,
                "{text} as {cql_type}"
            );
        }
    }
}
