//! Requests and digests that tests begin with.

use std::time::Duration;

use cqlens_proto::message::Consistency;

use crate::{
    digest::ResponseDigest,
    exchange::{Effect, Page, RecordedExchange, RecordedRequest, RecordedStatement},
};

/// A plain read of one statement.
pub(crate) fn request(cql: &str) -> RecordedRequest {
    RecordedRequest {
        statements: vec![RecordedStatement {
            cql: cql.into(),
            is_prepared: false,
            values: Vec::new(),
        }],
        batch: None,
        keyspace: None,
        consistency: Consistency::One,
        serial_consistency: None,
        timestamp: None,
        now_in_seconds: None,
        page_size: None,
        page: Page::First,
        effect: Effect::Read,
        is_ordered: true,
        pattern: None,
    }
}

/// A plain read with a response.
pub(crate) fn exchange(number: u64, cql: &str, response: ResponseDigest) -> RecordedExchange {
    RecordedExchange {
        number,
        connection: 1,
        actor: 1,
        at_us: 0,
        request: request(cql),
        latency: Some(Duration::from_millis(1)),
        response,
    }
}
