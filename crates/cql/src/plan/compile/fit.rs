//! Which types a value fits: of terms Cassandra asks how well, of types whether one's bytes pass for the
//! other's.

use crate::plan::value;
use crate::syntax::ast;
use cqlens_proto::types::CqlType;

/// How well a term fits a type: Cassandra's `AssignmentTestable.TestResult`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::plan) enum Fit {
    Not,
    Weakly,
    Exactly,
}

impl Fit {
    /// How well a value of type `given` fits a receiver of type `receiver`.
    pub(super) fn of_type(given: &CqlType, receiver: &CqlType) -> Self {
        if given == receiver {
            Self::Exactly
        } else if accepts(receiver, given) {
            Self::Weakly
        } else {
            Self::Not
        }
    }

    /// How well a constant fits: exactly only the type that Cassandra would guess for it.
    pub(super) fn of_literal(literal: &ast::Literal<'_>, cql_type: &CqlType) -> Self {
        let preferred = match literal.kind {
            ast::LiteralKind::String if literal.decoded().is_ascii() => Some(CqlType::Ascii),
            ast::LiteralKind::String => Some(CqlType::Text),
            ast::LiteralKind::Integer if literal.text.parse::<i32>().is_ok() => Some(CqlType::Int),
            ast::LiteralKind::Integer if literal.text.parse::<i64>().is_ok() => Some(CqlType::BigInt),
            ast::LiteralKind::Integer => Some(CqlType::Varint),
            ast::LiteralKind::Float => Some(CqlType::Double),
            ast::LiteralKind::Boolean => Some(CqlType::Boolean),
            ast::LiteralKind::Duration => Some(CqlType::Duration),
            ast::LiteralKind::Uuid => {
                let is_time_based = literal.text.as_bytes().get(14) == Some(&b'1');
                Some(if is_time_based {
                    CqlType::TimeUuid
                } else {
                    CqlType::Uuid
                })
            }
            ast::LiteralKind::Hex => Some(CqlType::TinyInt),
            ast::LiteralKind::Nested => None,
        };
        if preferred.as_ref() == Some(cql_type) {
            Self::Exactly
        } else if value::accepts(cql_type, literal.kind) {
            Self::Weakly
        } else {
            Self::Not
        }
    }
}

/// Whether bytes of `other` are taken for bytes of `cql_type`: Cassandra's `isValueCompatibleWith`.
pub(in crate::plan) fn accepts(cql_type: &CqlType, other: &CqlType) -> bool {
    use CqlType::{Ascii, BigInt, Blob, Date, Int, Text, Time, TimeUuid, Timestamp, Uuid, Varint};
    match (cql_type, other) {
        (Blob, _)
        | (Text, Ascii)
        | (BigInt, Timestamp)
        | (Timestamp | Time, BigInt)
        | (Date, Int)
        | (Varint, Int | BigInt | Timestamp)
        | (Uuid, TimeUuid) => true,
        (CqlType::List(mine), CqlType::List(theirs)) | (CqlType::Set(mine), CqlType::Set(theirs)) => {
            accepts(mine, theirs)
        }
        (CqlType::Map(mine), CqlType::Map(theirs)) => mine.0 == theirs.0 && accepts(&mine.1, &theirs.1),
        (CqlType::Tuple(mine), CqlType::Tuple(theirs)) => {
            mine.len() >= theirs.len()
                && mine
                    .iter()
                    .zip(theirs)
                    .all(|(mine, theirs)| accepts(mine, theirs))
        }
        (mine, theirs) => mine == theirs,
    }
}
