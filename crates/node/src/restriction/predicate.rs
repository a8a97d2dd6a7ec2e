//! How a relation compares its columns, and with what values.

use std::ops::RangeInclusive;

use bytes::Bytes;
use cqlens_proto::types::{CqlType, CqlValue};

/// A comparison with serialized values, one for each column of the relation.
#[derive(Debug, Clone)]
pub(super) enum Predicate {
    Equal(Vec<Bytes>),
    NotEqual(Vec<Bytes>),
    In(Vec<Vec<Bytes>>),
    Lower { values: Vec<Bytes>, inclusive: bool },
    Upper { values: Vec<Bytes>, inclusive: bool },
    Contains(Bytes),
    ContainsKey(Bytes),
    Element { key: Bytes, value: Bytes },
    NotNull,
    Token(RangeInclusive<i64>),
}

/// A serialized value as a CQL literal.
pub(crate) fn literal_text(cql_type: &CqlType, value: &[u8]) -> String {
    CqlValue::decode(cql_type, value).map_or_else(|_| "…".to_owned(), |value| format!("{value:#}"))
}

impl Predicate {
    /// The values as CQL literals; empty for comparisons without any.
    pub(super) fn text(&self, types: &[CqlType]) -> String {
        let tuple = |values: &Vec<Bytes>| {
            let shown: Vec<_> = values
                .iter()
                .zip(types)
                .map(|(value, cql_type)| literal_text(cql_type, value))
                .collect();
            if types.len() == 1 {
                shown.concat()
            } else {
                format!("({})", shown.join(", "))
            }
        };
        match self {
            Predicate::Equal(values)
            | Predicate::NotEqual(values)
            | Predicate::Lower { values, .. }
            | Predicate::Upper { values, .. } => tuple(values),
            Predicate::In(alternatives) => {
                format!(
                    "({})",
                    alternatives.iter().map(tuple).collect::<Vec<_>>().join(", ")
                )
            }
            Predicate::Contains(value) | Predicate::ContainsKey(value) => literal_text(&types[0], value),
            Predicate::Element { .. } | Predicate::NotNull | Predicate::Token(_) => String::new(),
        }
    }
}
