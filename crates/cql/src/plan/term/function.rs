//! The functions whose results are computed here: operators and casts among them.

use crate::murmur3;
use crate::syntax::ast::ArithmeticOperator;
use cqlens_proto::types::CqlType;

use super::fault::Fault;
use super::{arithmetic, cast, time};

/// The functions that are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::plan) enum Function {
    /// A value of the server's own: `now()`, `uuid()`, ...
    Generate,
    /// What the server's clock says, by name.
    Clock(&'static str),
    /// The bytes as they are: `int_as_blob`, `blob_as_int`.
    Reinterpret,
    ToDate,
    ToTimestamp,
    ToUnixTimestamp,
    MinTimeUuid,
    MaxTimeUuid,
    /// The token of a partition key.
    Token,
    Cast,
    Negate,
    Operate(ArithmeticOperator),
}

impl Function {
    /// The bytes of the result, of type `result`, for arguments that are not null; `None` for null.
    pub(super) fn apply(
        self,
        arguments: &[(&CqlType, &[u8])],
        result: &CqlType,
    ) -> Result<Option<Vec<u8>>, Fault> {
        match (self, arguments) {
            (Self::Token, components) => Ok(token(components)),
            // Functions take empty numbers and times for null.
            (_, arguments) if arguments.iter().any(|(_, bytes)| bytes.is_empty()) => Ok(None),
            (Self::Negate, [(cql_type, bytes)]) => arithmetic::negate(cql_type, bytes).map(Some),
            (Self::Operate(operator), [left, right]) => {
                arithmetic::operate(operator, *left, *right, result).map(Some)
            }
            (Self::Cast, [(cql_type, bytes)]) => cast::convert(cql_type, bytes, result).map(Some),
            (function, [(cql_type, bytes)]) => {
                Ok(time::millis(cql_type, bytes).and_then(|millis| function.of_millis(millis)))
            }
            _ => Err(Fault::NotFollowed),
        }
    }

    /// The result for a time in milliseconds since 1970; `None` if this is no function of times.
    fn of_millis(self, millis: i64) -> Option<Vec<u8>> {
        match self {
            Self::ToDate => Some(time::date(millis)),
            Self::ToTimestamp | Self::ToUnixTimestamp => Some(millis.to_be_bytes().to_vec()),
            Self::MinTimeUuid => Some(time::least_uuid(millis)),
            Self::MaxTimeUuid => Some(time::greatest_uuid(millis)),
            _ => None,
        }
    }
}

fn token(components: &[(&CqlType, &[u8])]) -> Option<Vec<u8>> {
    let token = match components {
        [(_, only)] => murmur3::token(only),
        several => {
            let mut key = Vec::new();
            if !several
                .iter()
                .all(|(_, component)| murmur3::push_component(&mut key, component))
            {
                return None;
            }
            murmur3::token(&key)
        }
    };
    Some(token.to_be_bytes().to_vec())
}
