//! Recorded requests, and how a target is sent them.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_client::{Client, ClientOptions};
use cqlens_node::Node;
use cqlens_proto::message::Consistency;
use cqlens_rehearse::{
    digest::ResponseDigest,
    exchange::{
        Effect, Page, RecordedExchange, RecordedRequest, RecordedStatement, RecordedValue, ValueContent,
    },
    target::{Extent, Purpose, TargetRequest},
};

pub(crate) async fn client(node: &Node) -> Client {
    Client::connect(node.address(), &ClientOptions::default())
        .await
        .unwrap()
}

pub(crate) fn int(number: i32) -> RecordedValue {
    RecordedValue {
        name: None,
        content: ValueContent::Bytes(Bytes::copy_from_slice(&number.to_be_bytes())),
    }
}

pub(crate) fn prepared(cql: &str, values: Vec<RecordedValue>) -> RecordedStatement {
    RecordedStatement {
        cql: cql.into(),
        is_prepared: true,
        values,
    }
}

/// A read in keyspace `k`.
pub(crate) fn request(statement: RecordedStatement) -> RecordedRequest {
    RecordedRequest {
        statements: vec![statement],
        batch: None,
        keyspace: Some("k".into()),
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

pub(crate) fn exchange(number: u64, request: RecordedRequest, response: ResponseDigest) -> RecordedExchange {
    RecordedExchange {
        number,
        connection: 1,
        actor: 1,
        at_us: 1_000_000,
        request,
        latency: None,
        response,
    }
}

/// Asks for one page.
pub(crate) fn page(exchange: &Arc<RecordedExchange>) -> TargetRequest {
    TargetRequest {
        exchange: Arc::clone(exchange),
        extent: Extent::Page,
        purpose: Purpose::First,
    }
}
