//! `USING TIMESTAMP` and `USING TTL`: when a write happens, and when its cells expire.

use bytes::Bytes;
use cqlens_cql::syntax::ast::{Term, Using};
use cqlens_proto::types::CqlType;

use super::assignment::long_of;
use crate::bind;
use crate::execution::Execution;
use crate::failure::Failure;
use crate::layout::Layout;
use crate::store::{Expiry, Timestamp};

/// When a write happens and when it ends.
pub(super) struct Times {
    pub(super) timestamp: Timestamp,
    pub(super) expiry: Option<Expiry>,
}

impl Times {
    /// Reads `USING TIMESTAMP … AND TTL …`; the table and the request give what it leaves out.
    ///
    /// # Errors
    /// Negative times to live.
    pub(super) fn of(
        using: &Using<'_>,
        layout: &Layout,
        execution: &Execution<'_>,
    ) -> Result<Times, Failure> {
        let number = |term: &Option<Term<'_>>, cql_type: CqlType| -> Result<Option<Bytes>, Failure> {
            let Some(term) = term else { return Ok(None) };
            Ok(bind::term(term, &cql_type, execution)?.value())
        };
        let timestamp = number(&using.timestamp, CqlType::BigInt)?.map(|bytes| long_of(&bytes));
        let ttl = number(&using.ttl, CqlType::Int)?;
        let ttl = ttl
            .and_then(|bytes| bytes[..].try_into().ok())
            .map(i32::from_be_bytes);
        let expiry = match ttl.unwrap_or(layout.default_ttl) {
            0 => None,
            ttl @ 1.. => Some(Expiry {
                ttl,
                at: execution.now + i64::from(ttl),
            }),
            ttl => {
                return Err(Failure::invalid(format!(
                    "A TTL must be greater or equal to 0, but was {ttl}"
                )));
            }
        };
        Ok(Times {
            timestamp: timestamp.unwrap_or(execution.timestamp),
            expiry,
        })
    }
}
