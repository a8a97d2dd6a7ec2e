//! What is inside a value: the elements of a collection, the fields of a tuple or of a user-defined type.
//!
//! As version 3 and later have them on the wire; version 2 counts elements otherwise, and is not looked into.

use std::ops::ControlFlow;

use cqlens_proto::types::{CqlType, Elements};

/// What a value holds that a program may go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Inside {
    /// Nothing but itself.
    Nothing,
    /// `<n [int]>` elements of a list or set.
    Elements(Box<Inside>),
    /// `<n [int]>` keys, each with its value.
    Entries(Box<(Inside, Inside)>),
    /// The fields of a tuple or a user-defined type, those at the end may be missing.
    Fields(Box<[Inside]>),
}

/// Whether there is room for more.
pub(super) type More = ControlFlow<()>;

impl Inside {
    /// What values of a type hold. As deep as the type, whose depth the decoder limits.
    pub(super) fn of(cql_type: &CqlType) -> Self {
        match cql_type {
            CqlType::List(element) | CqlType::Set(element) => Self::Elements(Box::new(Self::of(element))),
            CqlType::Map(entry) => Self::Entries(Box::new((Self::of(&entry.0), Self::of(&entry.1)))),
            CqlType::Tuple(fields) => Self::Fields(fields.iter().map(Self::of).collect()),
            CqlType::Udt(udt) => Self::Fields(udt.fields.iter().map(|(_, field)| Self::of(field)).collect()),
            _ => Self::Nothing,
        }
    }

    /// Visits all that `value` holds, the innermost only, until there is no room for more or the bytes end.
    pub(super) fn visit(&self, value: &[u8], visit: &mut dyn FnMut(&[u8]) -> More) -> More {
        match self {
            Self::Nothing => More::Continue(()),
            Self::Elements(element) => {
                let elements = Elements::of_list(value).into_iter().flatten();
                elements
                    .map_while(Result::ok)
                    .flatten()
                    .try_for_each(|value| element.visit_part(value, visit))
            }
            Self::Entries(entry) => {
                let parts = Elements::of_map(value).into_iter().flatten();
                let sides = [&entry.0, &entry.1].into_iter().cycle();
                parts
                    .map_while(Result::ok)
                    .zip(sides)
                    .filter_map(|(part, side)| Some((part?, side)))
                    .try_for_each(|(part, side)| side.visit_part(part, visit))
            }
            Self::Fields(fields) => {
                let mut rest = value;
                let values = std::iter::from_fn(|| field(&mut rest));
                values
                    .zip(fields)
                    .filter_map(|(value, field)| Some((value?, field)))
                    .try_for_each(|(value, field)| field.visit_part(value, visit))
            }
        }
    }

    fn visit_part(&self, part: &[u8], visit: &mut dyn FnMut(&[u8]) -> More) -> More {
        match self {
            Self::Nothing => visit(part),
            _ => self.visit(part, visit),
        }
    }
}

/// The next `[bytes]`, which may be null; none at the end.
fn field<'v>(rest: &mut &'v [u8]) -> Option<Option<&'v [u8]>> {
    let (length, after) = rest.split_first_chunk()?;
    let length = i32::from_be_bytes(*length);
    let Ok(length) = usize::try_from(length) else {
        *rest = after;
        return Some(None);
    };
    let (field, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(Some(field))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(cql_type: &CqlType, value: &[u8], most: usize) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let _ = Inside::of(cql_type).visit(value, &mut |part| {
            all.push(part.to_vec());
            match all.len() < most {
                true => More::Continue(()),
                false => More::Break(()),
            }
        });
        all
    }

    /// `<n><length><part>*`, or without the number.
    fn parts(count: Option<i32>, parts: &[&[u8]]) -> Vec<u8> {
        let mut bytes = count.map_or_else(Vec::new, |count| count.to_be_bytes().to_vec());
        for part in parts {
            bytes.extend(u32::try_from(part.len()).unwrap_or(0).to_be_bytes());
            bytes.extend(*part);
        }
        bytes
    }

    #[test]
    fn elements_keys_values_and_fields_are_visited() {
        let list = CqlType::list(CqlType::Text);
        assert_eq!(
            visited(&list, &parts(Some(2), &[b"ab", b"cd"]), 9),
            [b"ab", b"cd"]
        );
        let map = CqlType::Map(Box::new((CqlType::Text, list.clone())));
        let entry = parts(Some(1), &[b"key", &parts(Some(1), &[b"ab"])]);
        assert_eq!(visited(&map, &entry, 9), [&b"key"[..], b"ab"]);
        let tuple = CqlType::Tuple(vec![CqlType::Int, CqlType::Text, CqlType::Int]);
        let mut fields = parts(None, &[&[0, 0, 0, 7]]);
        fields.extend((-1_i32).to_be_bytes());
        assert_eq!(
            visited(&tuple, &fields, 9),
            [[0, 0, 0, 7]],
            "a null, and one that is missing"
        );
        assert_eq!(visited(&CqlType::Text, b"ab", 9), Vec::<Vec<u8>>::new());
    }

    #[test]
    fn no_more_are_visited_than_there_is_room_for() {
        let list = CqlType::list(CqlType::Text);
        let many = parts(Some(3), &[b"ab", b"cd", b"ef"]);
        assert_eq!(visited(&list, &many, 2), [b"ab", b"cd"]);
    }

    #[test]
    fn damaged_values_end_early() {
        let list = CqlType::list(CqlType::Text);
        let whole = parts(Some(2), &[b"ab", b"cd"]);
        assert_eq!(visited(&list, &whole[..whole.len() - 1], 9), [b"ab"]);
        assert!(visited(&list, &[0x7f, 0xff, 0xff, 0xff], 9).is_empty());
        assert!(visited(&list, b"", 9).is_empty());
        let tuple = CqlType::Tuple(vec![CqlType::Text, CqlType::Text]);
        assert!(visited(&tuple, &[0, 0, 0, 9, 1], 9).is_empty());
    }
}
