//! Which bytes are values of a type (`AbstractType.validate`).

use cqlens_proto::types::CqlType;

use super::pack::{components, elements, vector_elements};

/// Whether the bytes are a value of the type.
#[inline(always)]
pub(in crate::plan) fn is_valid(cql_type: &CqlType, bytes: &[u8]) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_may_end_early_but_not_late() {
        let tuple = CqlType::Tuple(vec![CqlType::Int, CqlType::Text]);
        assert!(is_valid(&tuple, &[0, 0, 0, 4, 0, 0, 0, 1]));
        assert!(is_valid(&tuple, &[]));
        assert!(!is_valid(&tuple, &[0xff; 12]));
    }
}
