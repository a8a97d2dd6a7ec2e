//! Collections, tuples and vectors, taken apart and packed.

use cqlens_proto::types::CqlType;

/// The elements of a serialized collection, or the keys and values of a map in turn; `None` for a null
/// element.
///
/// Fails if the bytes are not `count` elements: the count is only believed as far as there are bytes.
pub(in crate::plan) fn elements(bytes: &[u8], per_entry: usize) -> Option<Vec<Option<&[u8]>>> {
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
pub(in crate::plan) fn pack<'e>(elements: impl IntoIterator<Item = &'e [u8]>, entries: usize) -> Vec<u8> {
    let mut bytes = int(entries).to_vec();
    for element in elements {
        push_element(&mut bytes, Some(element));
    }
    bytes
}

/// The components of a serialized tuple or user-defined type: at most `size`, fewer where it ends early.
pub(in crate::plan) fn components(bytes: &[u8], size: usize) -> Option<Vec<Option<&[u8]>>> {
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
pub(in crate::plan) fn push_element(bytes: &mut Vec<u8>, element: Option<&[u8]>) {
    match element {
        Some(element) => {
            bytes.extend_from_slice(&int(element.len()));
            bytes.extend_from_slice(element);
        }
        None => bytes.extend_from_slice(&(-1_i32).to_be_bytes()),
    }
}

/// The elements of a serialized vector.
pub(in crate::plan) fn vector_elements<'b>(
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
pub(in crate::plan) fn pack_vector<'e>(
    element: &CqlType,
    elements: impl IntoIterator<Item = &'e [u8]>,
) -> Vec<u8> {
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

/// The leading big-endian int of the bytes, and what follows it.
pub(super) fn split_int(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<4>()?;
    Some((i32::from_be_bytes(*first), rest))
}

pub(super) fn int(length: usize) -> [u8; 4] {
    // No value of 2 GiB gets here: statements and bodies are smaller.
    i32::try_from(length).unwrap_or(i32::MAX).to_be_bytes()
}

/// An unsigned vint, as vectors of variable-length elements have it: leading ones of the first byte count the
/// others.
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
    use super::*;

    #[test]
    fn a_count_that_lies_is_no_collection() {
        assert_eq!(elements(&[0x7f, 0xff, 0xff, 0xff], 2), None);
        assert_eq!(elements(&[0, 0, 0, 1, 0, 0, 0, 9, 1], 1), None);
        assert_eq!(elements(&[0, 0, 0, 0], 1), Some(vec![]));
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
}
