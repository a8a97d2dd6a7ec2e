//! The order of values: Cassandra's comparators, which also say which values are one.

use std::cmp::Ordering;

use cqlens_proto::types::CqlType;

use super::number::{self, Decimal};
use super::pack::{components, elements, vector_elements};

/// Compares two valid values of a type; empty values come first.
pub(in crate::plan) fn compare(cql_type: &CqlType, left: &[u8], right: &[u8]) -> Ordering {
    match cql_type {
        // These compare by bytes, empty or not.
        CqlType::Text | CqlType::Ascii | CqlType::Blob | CqlType::Inet | CqlType::Date | CqlType::Time => {
            left.cmp(right)
        }
        CqlType::Custom(_) | CqlType::Unknown(_) | CqlType::Duration => left.cmp(right),
        _ if left.is_empty() || right.is_empty() => right.is_empty().cmp(&left.is_empty()),
        CqlType::Int => signed::<4>(left, right),
        CqlType::BigInt | CqlType::Counter | CqlType::Timestamp => signed::<8>(left, right),
        CqlType::SmallInt => signed::<2>(left, right),
        CqlType::TinyInt => signed::<1>(left, right),
        CqlType::Boolean => (left[0] != 0).cmp(&(right[0] != 0)),
        CqlType::Float => java_order(float(left), float(right)),
        CqlType::Double => java_order(double(left), double(right)),
        CqlType::Varint => number::compare(left, right),
        CqlType::Decimal => Decimal::read(left).cmp_value(&Decimal::read(right)),
        CqlType::Uuid => uuid(left, right),
        CqlType::TimeUuid => time_uuid(left, right),
        CqlType::List(element) | CqlType::Set(element) => lists(element, left, right),
        CqlType::Map(entry) => maps(&entry.0, &entry.1, left, right),
        CqlType::Tuple(types) => tuples(&types.iter().collect::<Vec<_>>(), left, right),
        CqlType::Udt(udt) => tuples(
            &udt.fields.iter().map(|(_, field)| field).collect::<Vec<_>>(),
            left,
            right,
        ),
        CqlType::Vector(element, dimension) => {
            let left = vector_elements(element, *dimension, left).unwrap_or_default();
            let right = vector_elements(element, *dimension, right).unwrap_or_default();
            let pairs = left.iter().zip(&right);
            first_difference(pairs.map(|(left, right)| compare(element, left, right)))
        }
        _ => left.cmp(right),
    }
}

fn first_difference(orders: impl IntoIterator<Item = Ordering>) -> Ordering {
    orders
        .into_iter()
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Big-endian two's complement numbers of `N` bytes.
fn signed<const N: usize>(left: &[u8], right: &[u8]) -> Ordering {
    let flip = |bytes: &[u8]| bytes.first().map(|first| first ^ 0x80);
    flip(left).cmp(&flip(right)).then_with(|| left.cmp(right))
}

fn float(bytes: &[u8]) -> f64 {
    bytes
        .first_chunk()
        .map_or(0.0, |bytes| f64::from(f32::from_be_bytes(*bytes)))
}

fn double(bytes: &[u8]) -> f64 {
    bytes
        .first_chunk()
        .map_or(0.0, |bytes| f64::from_be_bytes(*bytes))
}

/// `Double.compare`: −0.0 before 0.0, all NaNs are one and the greatest.
fn java_order(left: f64, right: f64) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (false, false) => left.total_cmp(&right),
        (left, right) => left.cmp(&right),
    }
}

fn uuid(left: &[u8], right: &[u8]) -> Ordering {
    let version = |bytes: &[u8]| bytes.get(6).map_or(0, |byte| byte >> 4);
    version(left).cmp(&version(right)).then_with(|| {
        if version(left) == 1 {
            timestamp_bytes(left)
                .cmp(&timestamp_bytes(right))
                .then_with(|| left[8..].cmp(&right[8..]))
        } else {
            left.cmp(right)
        }
    })
}

fn time_uuid(left: &[u8], right: &[u8]) -> Ordering {
    // The clock sequence and node compare as signed bytes, other than in a uuid: CASSANDRA-8730.
    let signed = |bytes: &[u8]| {
        bytes
            .iter()
            .skip(8)
            .map(|byte| byte.cast_signed())
            .collect::<Vec<i8>>()
    };
    timestamp_bytes(left)
        .cmp(&timestamp_bytes(right))
        .then_with(|| signed(left).cmp(&signed(right)))
}

/// The 60 bits of time of a version 1 UUID, the most significant byte first.
fn timestamp_bytes(bytes: &[u8]) -> Option<[u8; 8]> {
    let bytes: &[u8; 8] = bytes.first_chunk()?;
    let [low0, low1, low2, low3, mid0, mid1, high0, high1] = *bytes;
    Some([high0 & 0x0f, high1, mid0, mid1, low0, low1, low2, low3])
}

fn lists(element: &CqlType, left: &[u8], right: &[u8]) -> Ordering {
    let left = elements(left, 1).unwrap_or_default();
    let right = elements(right, 1).unwrap_or_default();
    let pairs = left.iter().zip(&right);
    first_difference(
        pairs.map(|(left, right)| compare(element, left.unwrap_or_default(), right.unwrap_or_default())),
    )
    .then(left.len().cmp(&right.len()))
}

fn maps(key: &CqlType, value: &CqlType, left: &[u8], right: &[u8]) -> Ordering {
    let left = elements(left, 2).unwrap_or_default();
    let right = elements(right, 2).unwrap_or_default();
    let types = [key, value].into_iter().cycle();
    let pairs = left.iter().zip(&right).zip(types);
    first_difference(pairs.map(|((left, right), cql_type)| {
        compare(cql_type, left.unwrap_or_default(), right.unwrap_or_default())
    }))
    .then(left.len().cmp(&right.len()))
}

/// Components that are missing at the end count as null.
fn tuples(types: &[&CqlType], left: &[u8], right: &[u8]) -> Ordering {
    let left = components(left, types.len()).unwrap_or_default();
    let right = components(right, types.len()).unwrap_or_default();
    let component =
        |values: &[Option<&'_ [u8]>], index: usize| values.get(index).copied().flatten().map(<[u8]>::to_vec);
    first_difference(types.iter().enumerate().map(|(index, cql_type)| {
        match (component(&left, index), component(&right, index)) {
            (Some(left), Some(right)) => compare(cql_type, &left, &right),
            (left, right) => left.is_some().cmp(&right.is_some()),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_and_minus_zero_are_two_and_all_nans_are_one() {
        let double = |value: f64| value.to_be_bytes();
        assert_ne!(
            compare(&CqlType::Double, &double(0.0), &double(-0.0)),
            Ordering::Equal
        );
        assert_eq!(
            compare(&CqlType::Double, &double(f64::NAN), &double(-f64::NAN)),
            Ordering::Equal
        );
    }

    #[test]
    fn numbers_compare_by_value() {
        assert_eq!(compare(&CqlType::Varint, &[1], &[0, 0, 1]), Ordering::Equal);
        assert_eq!(compare(&CqlType::Varint, &[0xff], &[1]), Ordering::Less);
        assert_eq!(compare(&CqlType::Int, &[0xff; 4], &[0, 0, 0, 1]), Ordering::Less);
        let (one, also_one) = ([0, 0, 0, 1, 10], [0, 0, 0, 2, 100]);
        assert_eq!(compare(&CqlType::Decimal, &one, &also_one), Ordering::Equal);
    }

    #[test]
    fn a_missing_component_is_null() {
        let tuple = CqlType::Tuple(vec![CqlType::Int, CqlType::Text]);
        let short = [0, 0, 0, 4, 0, 0, 0, 1];
        let long = [&short[..], &[0xff; 4]].concat();
        assert_eq!(compare(&tuple, &short, &long), Ordering::Equal);
        assert_eq!(
            compare(&tuple, &short, &[&short[..], &[0; 4]].concat()),
            Ordering::Less
        );
    }
}
