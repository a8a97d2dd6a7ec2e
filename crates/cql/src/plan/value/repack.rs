//! The bytes that Cassandra keeps of a value that it takes apart and packs again.

use std::borrow::Cow;

use cqlens_proto::types::CqlType;

use super::compare::compare;
use super::number;
use super::pack::{elements, pack};

/// The bytes that Cassandra keeps of a valid value that it deserializes and packs again, as it does with the
/// elements of bound collections and of `IN ?`; `None` for an empty value of a type that has no empty values.
pub(in crate::plan) fn repacked<'b>(cql_type: &CqlType, bytes: &'b [u8]) -> Option<Cow<'b, [u8]>> {
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
pub(in crate::plan) fn sorted_set<T: AsRef<[u8]>>(element: &CqlType, mut items: Vec<T>) -> Vec<T> {
    items.sort_by(|left, right| compare(element, left.as_ref(), right.as_ref()));
    items.dedup_by(|next, kept| compare(element, kept.as_ref(), next.as_ref()).is_eq());
    items
}

/// Sorts and folds the entries of a map; of equal keys the first stays, with the last value.
pub(in crate::plan) fn sorted_map<T: AsRef<[u8]>>(key: &CqlType, mut entries: Vec<(T, T)>) -> Vec<(T, T)> {
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
    fn a_mapped_address_is_an_ipv4_address() {
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127, 0, 0, 1];
        assert_eq!(*repacked(&CqlType::Inet, &mapped).unwrap(), [127, 0, 0, 1]);
    }
}
