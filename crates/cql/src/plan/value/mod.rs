//! Serialized values, judged and compared as Cassandra's types do (`AbstractType.validate`, `compare`, `decompose`).
//!
//! Planning works on bytes: a key is bytes, and so is every bound value. What a type adds is which bytes are its
//! values, which of them are equal, and which bytes Cassandra keeps of a value that it takes apart and packs again.

mod compare;
mod number;
mod parse;
mod time;

use std::borrow::Cow;

use cqlens_proto::types::CqlType;

pub(super) use compare::compare;
pub(super) use number::{DIGITS_SQUARED_PER_STEP, Decimal, Integer};
pub(super) use parse::{accepts, days_of_date, is_host_name, parse};

/// The elements of a serialized collection, or the keys and values of a map in turn; `None` for a null element.
///
/// Fails if the bytes are not `count` elements: the count is only believed as far as there are bytes.
pub(super) fn elements(bytes: &[u8], per_entry: usize) -> Option<Vec<Option<&[u8]>>> {
    let (count, mut rest) = split_int(bytes)?;
    let count = usize::try_from(count).ok()?.checked_mul(per_entry)?;
    let mut elements = Vec::with_capacity(count.min(rest.len() / 4));
    for _ in 0..count {
        let (length, after) = split_int(rest)?;
        match usize::try_from(length) {
            Err(_) => {
                elements.push(None);
                rest = after;
            }
            Ok(length) => {
                elements.push(Some(after.get(..length)?));
                rest = &after[length..];
            }
        }
    }
    rest.is_empty().then_some(elements)
}

/// Packs the elements of a collection; `entries` is their number, for maps half of `elements`.
pub(super) fn pack<'e>(elements: impl IntoIterator<Item = &'e [u8]>, entries: usize) -> Vec<u8> {
    let mut bytes = int(entries).to_vec();
    for element in elements {
        push_element(&mut bytes, Some(element));
    }
    bytes
}

/// The components of a serialized tuple or user-defined type: at most `size`, fewer where it ends early.
pub(super) fn components(bytes: &[u8], size: usize) -> Option<Vec<Option<&[u8]>>> {
    let mut rest = bytes;
    let mut components = Vec::with_capacity(size);
    while !rest.is_empty() {
        if components.len() == size {
            return None;
        }
        let (length, after) = split_int(rest)?;
        let length = usize::try_from(length).ok();
        components.push(match length {
            Some(length) => Some(after.get(..length)?),
            None => None,
        });
        rest = &after[length.unwrap_or(0)..];
    }
    Some(components)
}

/// Appends one component of a tuple or element of a collection: its length and bytes, or −1 for null.
pub(super) fn push_element(bytes: &mut Vec<u8>, element: Option<&[u8]>) {
    match element {
        Some(element) => {
            bytes.extend_from_slice(&int(element.len()));
            bytes.extend_from_slice(element);
        }
        None => bytes.extend_from_slice(&(-1_i32).to_be_bytes()),
    }
}

/// The elements of a serialized vector.
pub(super) fn vector_elements<'b>(
    element: &CqlType,
    dimension: u32,
    bytes: &'b [u8],
) -> Option<Vec<&'b [u8]>> {
    let mut rest = bytes;
    let mut elements = Vec::new();
    for _ in 0..dimension {
        let length = match fixed_length(element) {
            Some(length) => length,
            None => {
                let (length, after) = split_vint(rest)?;
                rest = after;
                usize::try_from(length).ok()?
            }
        };
        elements.push(rest.get(..length)?);
        rest = &rest[length..];
    }
    rest.is_empty().then_some(elements)
}

/// Packs the elements of a vector.
pub(super) fn pack_vector<'e>(element: &CqlType, elements: impl IntoIterator<Item = &'e [u8]>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for item in elements {
        if fixed_length(element).is_none() {
            push_vint(&mut bytes, item.len() as u64);
        }
        bytes.extend_from_slice(item);
    }
    bytes
}

/// The length of every value of a type that has one: `AbstractType.valueLengthIfFixed`.
fn fixed_length(cql_type: &CqlType) -> Option<usize> {
    match cql_type {
        CqlType::Boolean => Some(1),
        CqlType::Int | CqlType::Float => Some(4),
        CqlType::BigInt | CqlType::Double | CqlType::Timestamp => Some(8),
        CqlType::Uuid | CqlType::TimeUuid => Some(16),
        CqlType::Vector(element, dimension) => {
            fixed_length(element)?.checked_mul(usize::try_from(*dimension).ok()?)
        }
        _ => None,
    }
}

/// Whether the bytes are a value of the type.
#[inline(always)]
pub(super) fn is_valid(cql_type: &CqlType, bytes: &[u8]) -> bool {
    let length = bytes.len();
    match cql_type {
        CqlType::Ascii => bytes.is_ascii(),
        // Most text is ASCII, which is seen much sooner.
        CqlType::Text => bytes.is_ascii() || std::str::from_utf8(bytes).is_ok(),
        CqlType::Int | CqlType::Float => matches!(length, 0 | 4),
        CqlType::BigInt | CqlType::Counter | CqlType::Double | CqlType::Timestamp => matches!(length, 0 | 8),
        CqlType::SmallInt => length == 2,
        CqlType::TinyInt => length == 1,
        CqlType::Boolean => length <= 1,
        CqlType::Date => length == 4,
        CqlType::Time => length == 8,
        CqlType::Decimal => length == 0 || length >= 4,
        CqlType::Inet => matches!(length, 0 | 4 | 16),
        CqlType::Uuid => matches!(length, 0 | 16),
        CqlType::TimeUuid => length == 0 || (length == 16 && bytes[6] >> 4 == 1),
        CqlType::Duration => length >= 3,
        nested => has_valid_elements(nested, bytes),
    }
}

/// Apart from [`is_valid`], which is asked about every key and needs no stack for this.
#[inline(never)]
fn has_valid_elements(cql_type: &CqlType, bytes: &[u8]) -> bool {
    let all_valid = |elements: Option<Vec<Option<&[u8]>>>, element: &CqlType| {
        elements.is_some_and(|elements| {
            elements
                .iter()
                .all(|item| item.is_some_and(|item| is_valid(element, item)))
        })
    };
    match cql_type {
        CqlType::List(element) | CqlType::Set(element) => all_valid(elements(bytes, 1), element),
        CqlType::Map(entry) => elements(bytes, 2).is_some_and(|items| {
            items.chunks(2).all(|pair| {
                pair[0].is_some_and(|key| is_valid(&entry.0, key))
                    && pair[1].is_some_and(|value| is_valid(&entry.1, value))
            })
        }),
        CqlType::Tuple(types) => are_valid(types.iter(), components(bytes, types.len())),
        CqlType::Udt(udt) => are_valid(
            udt.fields.iter().map(|(_, field)| field),
            components(bytes, udt.fields.len()),
        ),
        CqlType::Vector(element, dimension) => vector_elements(element, *dimension, bytes)
            .is_some_and(|items| items.iter().all(|item| is_valid(element, item))),
        // Any bytes are a blob or varint, and types that only the server knows are left to it.
        _ => true,
    }
}

fn are_valid<'t>(types: impl Iterator<Item = &'t CqlType>, values: Option<Vec<Option<&[u8]>>>) -> bool {
    values.is_some_and(|values| {
        types
            .zip(values)
            .all(|(cql_type, value)| value.is_none_or(|value| is_valid(cql_type, value)))
    })
}

/// The bytes that Cassandra keeps of a valid value that it deserializes and packs again, as it does with the elements
/// of bound collections and of `IN ?`; `None` for an empty value of a type that has no empty values.
pub(super) fn repacked<'b>(cql_type: &CqlType, bytes: &'b [u8]) -> Option<Cow<'b, [u8]>> {
    let natives_that_may_be_empty = matches!(cql_type, CqlType::Text | CqlType::Ascii | CqlType::Blob);
    if bytes.is_empty() && !natives_that_may_be_empty {
        return matches!(cql_type, CqlType::Tuple(_) | CqlType::Udt(_)).then_some(Cow::Borrowed(bytes));
    }
    Some(match cql_type {
        CqlType::Boolean => Cow::Owned(vec![u8::from(bytes[0] != 0)]),
        CqlType::Varint => Cow::Borrowed(number::minimal(bytes)),
        CqlType::Decimal => {
            let (scale, unscaled) = bytes.split_at(4);
            Cow::Owned([scale, number::minimal(unscaled)].concat())
        }
        // Java has no IPv4-mapped IPv6 addresses: it makes them IPv4.
        CqlType::Inet if bytes.len() == 16 && is_mapped_v4(bytes) => Cow::Borrowed(&bytes[12..]),
        CqlType::List(_) | CqlType::Set(_) | CqlType::Map(_) => {
            Cow::Owned(repacked_collection(cql_type, bytes)?)
        }
        _ => Cow::Borrowed(bytes),
    })
}

/// A bound collection, taken apart and packed again: sets and maps sorted, duplicates gone.
fn repacked_collection(cql_type: &CqlType, bytes: &[u8]) -> Option<Vec<u8>> {
    match cql_type {
        CqlType::List(element) => {
            let items = elements(bytes, 1)?;
            let items: Option<Vec<_>> = items.into_iter().map(|item| repacked(element, item?)).collect();
            let items = items?;
            Some(pack(items.iter().map(AsRef::as_ref), items.len()))
        }
        CqlType::Set(element) => {
            let items = elements(bytes, 1)?;
            let items: Option<Vec<_>> = items
                .into_iter()
                .map(|item| Some(repacked_member(element, item?)))
                .collect();
            let items = sorted_set(element, items?);
            Some(pack(items.iter().map(AsRef::as_ref), items.len()))
        }
        CqlType::Map(entry) => {
            let items = elements(bytes, 2)?;
            let member =
                |cql_type, item: Option<&[u8]>| item.map(|item| repacked_member(cql_type, item).into_owned());
            let pairs: Option<Vec<_>> = items
                .chunks(2)
                .map(|pair| Some((member(&entry.0, pair[0])?, member(&entry.1, pair[1])?)))
                .collect();
            let pairs = sorted_map(&entry.0, pairs?);
            Some(pack(
                pairs
                    .iter()
                    .flat_map(|(key, value)| [key.as_ref(), value.as_ref()]),
                pairs.len(),
            ))
        }
        _ => None,
    }
}

/// A member of a set or map; other than in a list, an empty one stays what it is.
fn repacked_member<'b>(cql_type: &CqlType, bytes: &'b [u8]) -> Cow<'b, [u8]> {
    repacked(cql_type, bytes).unwrap_or(Cow::Borrowed(bytes))
}

/// Sorts and folds the elements of a set; of equal elements the first stays.
pub(super) fn sorted_set<T: AsRef<[u8]>>(element: &CqlType, mut items: Vec<T>) -> Vec<T> {
    items.sort_by(|left, right| compare(element, left.as_ref(), right.as_ref()));
    items.dedup_by(|next, kept| compare(element, kept.as_ref(), next.as_ref()).is_eq());
    items
}

/// Sorts and folds the entries of a map; of equal keys the first stays, with the last value.
pub(super) fn sorted_map<T: AsRef<[u8]>>(key: &CqlType, mut entries: Vec<(T, T)>) -> Vec<(T, T)> {
    entries.sort_by(|left, right| compare(key, left.0.as_ref(), right.0.as_ref()));
    entries.dedup_by(|next, kept| {
        let same = compare(key, kept.0.as_ref(), next.0.as_ref()).is_eq();
        if same {
            std::mem::swap(&mut kept.1, &mut next.1);
        }
        same
    });
    entries
}

fn is_mapped_v4(bytes: &[u8]) -> bool {
    bytes[..10].iter().all(|&byte| byte == 0) && bytes[10..12] == [0xff, 0xff]
}

/// The leading big-endian int of the bytes, and what follows it.
fn split_int(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<4>()?;
    Some((i32::from_be_bytes(*first), rest))
}

fn int(length: usize) -> [u8; 4] {
    // No value of 2 GiB gets here: statements and bodies are smaller.
    i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes()
}

/// An unsigned vint, as vectors of variable-length elements have it: leading ones of the first byte count the others.
fn split_vint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    let extra = first.leading_ones() as usize;
    let (more, rest) = (rest.get(..extra)?, &rest[extra..]);
    let kept = if extra >= 7 {
        0
    } else {
        u64::from(first & (0x7f >> extra))
    };
    Some((
        more.iter()
            .fold(kept, |value, &byte| (value << 8) | u64::from(byte)),
        rest,
    ))
}

fn push_vint(bytes: &mut Vec<u8>, value: u64) {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    let extra = if bits > 56 { 8 } else { (bits - 1) / 7 };
    let full = value.to_be_bytes();
    if extra == 8 {
        bytes.push(0xff);
        bytes.extend_from_slice(&full);
        return;
    }
    let start = bytes.len();
    bytes.extend_from_slice(&full[7 - extra..]);
    bytes[start] |= !(0xff_u8 >> extra);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_set_is_sorted_and_folded_when_it_is_packed_again() {
        let set = CqlType::set(CqlType::Varint);
        let bound = pack([&[2_u8][..], &[0, 1], &[1]], 3);
        assert_eq!(repacked(&set, &bound).unwrap(), pack([&[1_u8][..], &[2]], 2));
    }

    #[test]
    fn a_count_that_lies_is_no_collection() {
        assert_eq!(elements(&[0x7f, 0xff, 0xff, 0xff], 2), None);
        assert_eq!(elements(&[0, 0, 0, 1, 0, 0, 0, 9, 1], 1), None);
        assert_eq!(elements(&[0, 0, 0, 0], 1), Some(vec![]));
    }

    #[test]
    fn a_mapped_address_is_an_ipv4_address() {
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1];
        assert_eq!(*repacked(&CqlType::Inet, &mapped).unwrap(), [127, 0, 0, 1]);
    }

    #[test]
    fn lengths_of_vector_elements_survive_a_round_trip() {
        for length in [0_u64, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            push_vint(&mut bytes, length);
            bytes.push(7);
            assert_eq!(split_vint(&bytes), Some((length, &[7][..])), "{length}");
        }
    }

    #[test]
    fn a_tuple_may_end_early_but_not_late() {
        let tuple = CqlType::Tuple(vec![CqlType::Int, CqlType::Text]);
        assert!(is_valid(&tuple, &[0, 0, 0, 4, 0, 0, 0, 1]));
        assert!(is_valid(&tuple, &[]));
        assert!(!is_valid(&tuple, &[0xff; 12]));
    }
}
