//! Exchanges that the catalog cannot explain yet.
//!
//! A statement that the server has executed names a table that exists. Where the schema does not have it, the schema
//! is behind: another client has just created the table, or the control connection has not read it yet. The same goes
//! for prepared ids that are still being looked up. Such exchanges wait a moment, and are counted once they are
//! understood, or when the moment is over as what they are: unknown.

use std::{collections::VecDeque, time::Duration};

use super::{
    Count,
    exchange::{Exchange, Outcome},
    pair::Pair,
    session::Session,
};
use crate::{capture::Moment, window::Reason};

/// How long an exchange waits: a control connection that is at work has read the schema by then.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// How often what waits is looked at again.
const EVERY: Duration = Duration::from_millis(100);

/// Exchanges that may wait; one more is counted as unknown.
const MAX_EXCHANGES: usize = 4_096;

/// Bytes of their requests and responses.
const MAX_BYTES: usize = 8 << 20;

/// One auditor's exchanges that wait.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    looked: Option<Moment>,
}

/// An exchange that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    /// What its connection had set when it came.
    pub(super) session: Session,
    /// The request and its response.
    pub(super) pair: Pair,
    /// Since when it waits.
    since: Moment,
}

impl Waiting {
    /// Whether its time is over.
    pub(super) fn is_due(&self, now: Moment) -> bool {
        now.since(self.since) >= PATIENCE
    }

    fn bytes(&self) -> usize {
        let response = self.pair.response.as_ref();
        self.pair.request.body.len() + response.map_or(0, |(response, _)| response.body_len())
    }
}

/// Whether a later look may find out more of an exchange than this one did.
pub(super) fn may_become_clear(exchange: &Exchange<'_>) -> bool {
    // Its partitions are known, and nothing of what a schema says of the table.
    let without_schema = exchange.execution.as_ref().is_some_and(|execution| {
        execution.footprint.count == Count::Scan && execution.analysis.lacks_schema()
    });
    let answered = matches!(exchange.outcome, Outcome::Done | Outcome::Rows { .. });
    let reason = exchange
        .execution
        .as_ref()
        .and_then(|execution| execution.footprint.reason());
    // A server has no reason to accept an invalid statement: then our schema is old.
    let behind = matches!(
        reason,
        Some(
            Reason::PreparedIdUnknown
                | Reason::TableUnknown
                | Reason::SchemaUnknown
                | Reason::InvalidStatement
        )
    );
    answered && (behind || without_schema)
}

impl Deferred {
    /// Keeps an exchange for later, if there is room.
    ///
    /// # Errors
    /// The exchange, where there is none.
    pub(super) fn push(&mut self, session: &Session, pair: Pair, now: Moment) -> Result<(), Pair> {
        let mut waiting = Waiting {
            session: session.clone(),
            pair,
            since: now,
        };
        let bytes = self.bytes + waiting.bytes();
        if self.waiting.len() >= MAX_EXCHANGES || bytes > MAX_BYTES {
            return Err(waiting.pair);
        }
        self.bytes = bytes;
        waiting.pair.detach();
        self.waiting.push_back(waiting);
        Ok(())
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// All that waits, a few times a second; what is still not clear goes back with [`Deferred::keep`].
    pub(super) fn take(&mut self, now: Moment) -> VecDeque<Waiting> {
        if self.looked.is_some_and(|looked| now.since(looked) < EVERY) {
            return VecDeque::new();
        }
        self.looked = Some(now);
        self.bytes = 0;
        std::mem::take(&mut self.waiting)
    }

    /// Keeps an exchange that has been looked at again.
    pub(super) fn keep(&mut self, waiting: Waiting) {
        self.bytes += waiting.bytes();
        self.waiting.push_back(waiting);
    }
}
