//! A request on its way.

use std::{sync::Arc, time::Duration};

use super::{Extent, Purpose, TargetRequest, pages::PagingState};
use crate::digest::{ResponseDigest, RowsDigester};

/// A request on its way through queues and connections.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) request: TargetRequest,
    /// Where its page begins, as this cluster has said.
    pub(super) paging_state: Option<Arc<PagingState>>,
    /// UNPREPARED responses so far.
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
    pub(super) fn new(request: TargetRequest) -> Self {
        Self {
            request,
            paging_state: None,
            unprepared: 0,
            pages: None,
        }
    }

    /// Whether a later request may ask for the page after this one.
    pub(super) fn expects_page(&self) -> bool {
        let has_more = matches!(&self.request.exchange.response, ResponseDigest::Rows(rows) if rows.has_more);
        has_more && self.request.purpose == Purpose::First && self.request.extent == Extent::Page
    }
}
