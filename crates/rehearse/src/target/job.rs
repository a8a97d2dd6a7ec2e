//! A request on its way.

use std::time::Duration;

use bytes::Bytes;

use super::{Ask, Extent, Purpose};
use crate::{
    digest::{ResponseDigest, RowsDigester},
    exchange::{RecordedExchange, ValueContent},
};

/// A request on its way through queues and connections.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) ask: Ask,
    /// Where its page begins, as this cluster has said.
    pub(super) paging_state: Option<Bytes>,
    /// How often a node had forgotten its statement.
    pub(super) unprepared: u8,
    /// The pages before, where all are asked for.
    pub(super) pages: Option<Box<PagesBefore>>,
}

/// The pages of a whole result that have come.
#[derive(Debug)]
pub(super) struct PagesBefore {
    pub(super) digester: RowsDigester,
    pub(super) latency: Duration,
    pub(super) count: u32,
}

impl Job {
    pub(super) fn new(ask: Ask) -> Self {
        Self {
            ask,
            paging_state: None,
            unprepared: 0,
            pages: None,
        }
    }

    /// Whether a later request may ask for the page after this one.
    pub(super) fn expects_page(&self) -> bool {
        let has_more = matches!(&self.ask.exchange.response, ResponseDigest::Rows(rows) if rows.has_more);
        has_more && self.ask.purpose == Purpose::First && self.ask.extent == Extent::Page
    }
}

/// Bytes of a request's values.
pub(crate) fn weight(exchange: &RecordedExchange) -> usize {
    let values = exchange
        .request
        .statements
        .iter()
        .flat_map(|statement| &statement.values);
    let bytes = values.map(|value| match &value.content {
        ValueContent::Bytes(bytes) => bytes.len(),
        _ => 0,
    });
    bytes.sum()
}
