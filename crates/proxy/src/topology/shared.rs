//! What the two directions of one connection share: the pending responses that may name nodes.
//!
//! Both directions are one task, so the lock is never contended; it is there because a task must be `Send`.

use std::{
    collections::hash_map::Entry,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cqlens_proto::{
    cutter::{Handshake, Negotiated},
    envelope::{Header, Opcode, StreamId},
    message::Extensions,
};
use rustc_hash::FxHashMap;

use super::{
    addresses::Pairing,
    counts::Counters,
    hold_budget::MAX_HELD,
    pending::{HoldRequest, PendingResponse},
};

/// Pending responses that are remembered on one connection; with more, all responses are examined. Drivers
/// send 1,024 to 2,048 requests at a time.
const MAX_PENDING: usize = 4_096;

/// One connection, as both of its directions see it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) pairing: Pairing,
    pub(super) negotiated: Arc<Negotiated>,
    pending_responses: Mutex<PendingResponses>,
}

#[derive(Debug, Default)]
struct PendingResponses {
    streams: FxHashMap<StreamId, PendingResponse>,
    /// Events may come.
    registered: bool,
    /// Some requests could not be read, or were too many to remember: any response may have rows of nodes.
    blind: bool,
    /// What the STARTUPs say that the node may have accepted.
    agreements: Handshake<Agreement>,
}

/// What a STARTUP says of a client.
#[derive(Debug, Clone, Copy)]
pub(super) struct Agreement {
    /// That it opts in to.
    pub(super) extensions: Extensions,
    /// See [`AddressView`](super::rows::AddressView).
    pub(super) names_by_peer: bool,
}

impl Shared {
    pub(crate) fn new(pairing: Pairing) -> Self {
        Self {
            pairing,
            negotiated: Arc::new(Negotiated::new()),
            pending_responses: Mutex::default(),
        }
    }

    /// Examines the response on a stream.
    pub(super) fn expect(&self, stream: StreamId, pending: PendingResponse) {
        let mut state = self.pending_responses();
        if state.streams.len() >= MAX_PENDING {
            state.blind = true;
        }
        let is_full = state.blind;
        match state.streams.entry(stream) {
            Entry::Occupied(mut entry) => drop(entry.insert(pending)),
            Entry::Vacant(entry) if !is_full => drop(entry.insert(pending)),
            Entry::Vacant(_) => {}
        }
    }

    /// The response on a stream names no nodes.
    pub(super) fn expect_nothing(&self, stream: StreamId) {
        let mut state = self.pending_responses();
        if !state.streams.is_empty() {
            state.streams.remove(&stream);
        }
    }

    pub(super) fn expect_events(&self) {
        self.pending_responses().registered = true;
    }

    /// Requests can no longer be followed.
    pub(super) fn turn_blind(&self) {
        self.pending_responses().blind = true;
    }

    /// The client has sent a STARTUP; the node goes by the one that it accepts, whatever comes after it.
    pub(super) fn propose(&self, startup: &Header, agreement: Agreement) {
        self.pending_responses().agreements.propose(startup, agreement);
    }

    pub(super) fn names_by_peer(&self) -> bool {
        self.agreement().is_some_and(|agreement| agreement.names_by_peer)
    }

    pub(super) fn extensions(&self) -> Extensions {
        self.agreement()
            .map_or(Extensions::NONE, |agreement| agreement.extensions)
    }

    fn agreement(&self) -> Option<Agreement> {
        self.pending_responses().agreements.in_force().copied()
    }

    /// Whether no pending response may name nodes.
    pub(super) fn is_quiet(&self) -> bool {
        let state = self.pending_responses();
        state.streams.is_empty() && !state.registered && !state.blind
    }

    /// How a response is to be held; none if it may pass.
    pub(super) fn hold_request(&self, header: &Header) -> Option<HoldRequest> {
        let pending = self.pending(header)?;
        let length = header.body_len as usize;
        let addresses = &self.pairing.addresses;
        let budget = match length > MAX_HELD {
            true => None,
            false => addresses.hold_budget().take(length),
        };
        if budget.is_some() || pending.is_about_nodes() {
            return Some(HoldRequest { pending, budget });
        }
        // A response that is too long is more likely the application's than about nodes. One beyond the
        // budget may be either.
        if length <= MAX_HELD && matches!(pending, PendingResponse::Undetermined { .. }) {
            Counters::add(&addresses.counters().may_have_leaked, 1);
        }
        None
    }

    fn pending(&self, header: &Header) -> Option<PendingResponse> {
        match header.opcode {
            Opcode::EVENT => return Some(PendingResponse::Event),
            Opcode::SUPPORTED => {
                self.expect_nothing(header.stream_id);
                return Some(PendingResponse::Supported);
            }
            Opcode::READY | Opcode::AUTHENTICATE | Opcode::ERROR => {
                self.negotiated.learn_from_response(header);
                self.pending_responses().agreements.answer(header);
            }
            _ => {}
        }
        let mut state = self.pending_responses();
        // DSE may answer one request with many pages.
        let pending = if header.version.is_dse() {
            state.streams.get(&header.stream_id).cloned()
        } else {
            state.streams.remove(&header.stream_id)
        };
        if header.opcode != Opcode::RESULT {
            return None;
        }
        let unseen = state.blind.then_some(PendingResponse::Undetermined { id: None });
        pending.or(unseen)
    }

    fn pending_responses(&self) -> MutexGuard<'_, PendingResponses> {
        // Nothing that holds the lock can panic.
        self.pending_responses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
