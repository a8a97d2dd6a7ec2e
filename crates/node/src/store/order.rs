//! Order-preserving forms: values as bytes that compare, byte by byte, as Cassandra's types compare.
//!
//! With them a clustering key is one byte string, a slice is a range of byte strings, and descending order is
//! the complement of all bytes. The form of a value is no prefix of another value's form. Values are
//! compared, never read back: rows keep their serialized values beside it. Types without an order in
//! Cassandra (durations, custom types) are compared by their bytes.

use cqlens_proto::cursor::Cursor;
use cqlens_proto::notation;
use cqlens_proto::types::CqlType;

/// Appends the form of a serialized value.
pub(crate) fn push(out: &mut Vec<u8>, cql_type: &CqlType, value: &[u8]) {
    match cql_type {
        CqlType::TinyInt => push_fixed::<1>(out, value, flip_sign),
        CqlType::SmallInt => push_fixed::<2>(out, value, flip_sign),
        CqlType::Int => push_fixed::<4>(out, value, flip_sign),
        CqlType::BigInt | CqlType::Counter | CqlType::Timestamp | CqlType::Time => {
            push_fixed::<8>(out, value, flip_sign);
        }
        CqlType::Boolean => push_fixed::<1>(out, value, |byte| byte),
        CqlType::Date => push_fixed::<4>(out, value, |bytes| bytes),
        CqlType::Float => push_fixed::<4>(out, value, float),
        CqlType::Double => push_fixed::<8>(out, value, float),
        CqlType::TimeUuid => push_fixed::<16>(out, value, time_uuid),
        CqlType::Uuid => push_fixed::<17>(out, &versioned_uuid(value), |bytes| bytes),
        CqlType::Varint => push_varint(out, value),
        CqlType::List(element) | CqlType::Set(element) => push_elements(out, value, &[element]),
        CqlType::Map(entry) => push_elements(out, value, &[&entry.0, &entry.1]),
        CqlType::Tuple(components) => push_components(out, value, components.iter()),
        CqlType::Udt(udt) => push_components(out, value, udt.fields.iter().map(|(_, field)| field)),
        _ => push_escaped(out, value),
    }
}

/// Appends the form of a value in descending order.
pub(crate) fn push_descending(out: &mut Vec<u8>, cql_type: &CqlType, value: &[u8]) {
    let start = out.len();
    push(out, cql_type, value);
    for byte in &mut out[start..] {
        *byte = !*byte;
    }
}

/// The form of one value alone.
pub(crate) fn of(cql_type: &CqlType, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out, cql_type, value);
    out
}

const OTHER_LENGTH: u8 = 1;
const RIGHT_LENGTH: u8 = 2;

/// Values of one length; any other length (the empty value) comes before them.
fn push_fixed<const LENGTH: usize>(out: &mut Vec<u8>, value: &[u8], form: fn([u8; LENGTH]) -> [u8; LENGTH]) {
    match <[u8; LENGTH]>::try_from(value) {
        Ok(value) => {
            out.push(RIGHT_LENGTH);
            out.extend_from_slice(&form(value));
        }
        Err(_) => {
            out.push(OTHER_LENGTH);
            push_escaped(out, value);
        }
    }
}

/// Bytes of any length: a zero byte is followed by 0xFF, the end is two zero bytes.
fn push_escaped(out: &mut Vec<u8>, value: &[u8]) {
    for byte in value {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 0]);
}

fn flip_sign<const LENGTH: usize>(mut bytes: [u8; LENGTH]) -> [u8; LENGTH] {
    bytes[0] ^= 0x80;
    bytes
}

/// IEEE 754: positive numbers by their bits, negative ones by the complement (`Double.compare`, NaN last).
fn float<const LENGTH: usize>(bytes: [u8; LENGTH]) -> [u8; LENGTH] {
    if bytes[0] & 0x80 == 0 {
        flip_sign(bytes)
    } else {
        bytes.map(|byte| !byte)
    }
}

/// By time, then by the other half as signed bytes (Cassandra: `TimeUUIDType.compareCustom`).
fn time_uuid(uuid: [u8; 16]) -> [u8; 16] {
    let [t0, t1, t2, t3, t4, t5, t6, t7, rest @ ..] = uuid;
    let mut form = [0; 16];
    form[..8].copy_from_slice(&[t6 & 0x0f, t7, t4, t5, t0, t1, t2, t3]);
    form[8..].copy_from_slice(&rest.map(|byte| byte ^ 0x80));
    form
}

/// By version, version 1 by time, all others by their bytes (Cassandra: `UUIDType.compareCustom`).
fn versioned_uuid(value: &[u8]) -> Vec<u8> {
    let Ok(uuid) = <[u8; 16]>::try_from(value) else {
        return value.to_vec();
    };
    let version = uuid[6] >> 4;
    let form = if version == 1 { time_uuid(uuid) } else { uuid };
    [&[version], &form[..]].concat()
}

/// Sign and length, then the bytes of the two's complement without those that say nothing.
fn push_varint(out: &mut Vec<u8>, value: &[u8]) {
    let Some(first) = value.first() else {
        return out.push(OTHER_LENGTH);
    };
    let is_negative = first & 0x80 != 0;
    let filler = if is_negative { 0xff } else { 0 };
    let start = value
        .iter()
        .position(|byte| *byte != filler)
        .unwrap_or(value.len());
    let digits = &value[start..];
    let length = u32::try_from(digits.len()).unwrap_or(u32::MAX);
    out.push(RIGHT_LENGTH);
    out.push(u8::from(!is_negative));
    out.extend_from_slice(&if is_negative { !length } else { length }.to_be_bytes());
    out.extend_from_slice(digits);
}

const NO_MORE: u8 = 0;
const NULL: u8 = 1;
const ONE_MORE: u8 = 2;

/// A collection: each element's form behind a one, a zero at the end, so that shorter ones come first.
fn push_elements(out: &mut Vec<u8>, value: &[u8], element_types: &[&CqlType]) {
    let mut cursor = Cursor::new(value);
    let count = cursor.read("elements", notation::count).unwrap_or(0);
    for _ in 0..count {
        for element_type in element_types {
            let Ok(element) = cursor.read("element", notation::bytes) else {
                return out.push(NO_MORE);
            };
            push_component(out, element_type, element);
        }
    }
    out.push(NO_MORE);
}

/// A tuple or user-defined type, which may end early.
fn push_components<'a>(out: &mut Vec<u8>, value: &[u8], types: impl Iterator<Item = &'a CqlType>) {
    let mut cursor = Cursor::new(value);
    for component_type in types {
        let Ok(component) = cursor.read("component", notation::bytes) else {
            break;
        };
        push_component(out, component_type, component);
    }
    out.push(NO_MORE);
}

fn push_component(out: &mut Vec<u8>, cql_type: &CqlType, component: Option<&[u8]>) {
    match component {
        None => out.push(NULL),
        Some(component) => {
            out.push(ONE_MORE);
            push(out, cql_type, component);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn is_sorted<V: AsRef<[u8]>>(cql_type: &CqlType, values: impl IntoIterator<Item = V>) -> bool {
        let forms: Vec<_> = values
            .into_iter()
            .map(|value| of(cql_type, value.as_ref()))
            .collect();
        forms.iter().is_sorted_by(|left, right| left < right)
    }

    #[test]
    fn numbers_are_in_their_order() {
        let numbers = [i32::MIN, -70_000, -1, 0, 1, 255, 256, i32::MAX];
        assert!(is_sorted(&CqlType::Int, numbers.map(i32::to_be_bytes)));
        let numbers = [
            f64::NEG_INFINITY,
            -1.5,
            -0.0,
            0.0,
            1e-300,
            2.0,
            f64::INFINITY,
            f64::NAN,
        ];
        assert!(is_sorted(&CqlType::Double, numbers.map(f64::to_be_bytes)));
    }

    #[test]
    fn texts_are_in_the_order_of_their_bytes_zero_bytes_included() {
        assert!(is_sorted(
            &CqlType::Text,
            ["", "\0", "\0\0", "\0a", "a", "a\0", "aa", "b", "ä"]
        ));
    }

    #[test]
    fn varints_of_different_lengths_are_in_their_order() {
        let values: [&[u8]; 7] = [
            &[0x80, 0],
            &[0xff, 0x7f],
            &[0x80],
            &[0xff],
            &[0],
            &[0x7f],
            &[0, 0x80],
        ];
        assert!(is_sorted(&CqlType::Varint, values));
        assert_eq!(of(&CqlType::Varint, &[0, 0, 5]), of(&CqlType::Varint, &[5]));
    }

    #[test]
    fn timeuuids_are_in_the_order_of_their_time() {
        let uuid = |time_low: u8, time_high: u8| {
            let mut uuid = [0; 16];
            (uuid[3], uuid[7], uuid[6]) = (time_low, time_high, 0x10);
            uuid
        };
        let values = [uuid(1, 0), uuid(2, 0), uuid(0, 1), uuid(9, 1)];
        assert!(is_sorted(&CqlType::TimeUuid, values));
        assert!(is_sorted(&CqlType::Uuid, values));
    }

    #[test]
    fn a_shorter_list_comes_before_a_longer_one_that_starts_with_it() {
        let list = |items: &[i32]| {
            let mut bytes = i32::try_from(items.len()).unwrap().to_be_bytes().to_vec();
            for item in items {
                bytes.extend_from_slice(&4_i32.to_be_bytes());
                bytes.extend_from_slice(&item.to_be_bytes());
            }
            bytes
        };
        let values = [list(&[]), list(&[1]), list(&[1, -5]), list(&[1, 2]), list(&[2])];
        assert!(is_sorted(&CqlType::list(CqlType::Int), values));
    }

    #[test]
    fn descending_order_is_the_reverse() {
        let descending = |text: &str| {
            let mut out = Vec::new();
            push_descending(&mut out, &CqlType::Text, text.as_bytes());
            out
        };
        assert!(descending("b") < descending("ab"));
        assert!(descending("ab") < descending("a"));
    }
}
