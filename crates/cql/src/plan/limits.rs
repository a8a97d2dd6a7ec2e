//! The limits of a read.

use cqlens_proto::message::Values;

use super::term::{CompiledTerm, Datum, Fault};

/// What an execution does, beside its partitions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadLimits {
    /// Rows of the whole read; none if there is no limit.
    pub limit: Option<i32>,
    /// Rows of each partition; none if there is no limit.
    pub per_partition_limit: Option<i32>,
}
/// A limit that was written, evaluated: rows, or no limit where it is not set.
pub(super) fn evaluate(
    term: Option<&CompiledTerm>,
    values: Option<&Values<'_>>,
) -> Result<Option<i32>, Fault> {
    let Some(term) = term else { return Ok(None) };
    match term.evaluate(values)? {
        Datum::NotSet => Ok(None),
        Datum::Null => Err(Fault::invalid("Invalid null value of limit")),
        Datum::Bytes(bytes) => match bytes.as_ref().try_into().map(i32::from_be_bytes) {
            // The greatest int is how Cassandra itself says that there is no limit.
            Ok(i32::MAX) => Ok(None),
            Ok(limit @ 1..) => Ok(Some(limit)),
            Ok(_) => Err(Fault::invalid("LIMIT must be strictly positive")),
            Err(_) => Err(Fault::invalid("Invalid limit value")),
        },
    }
}
