//! What the two directions of one connection know together: which answers are waited for that name nodes.
//!
//! Both directions are one task, so the lock is never waited for; it is there because tasks must be able to move to their thread.

use std::{
    collections::hash_map::Entry,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use cqlens_proto::{
    cutter::Negotiated,
    envelope::{Header, Opcode, StreamId},
    message::Extensions,
};
use rustc_hash::FxHashMap;

use super::{addresses::Pairing, counts::Counters, reading::Reading, room::Taken, walk::MAX_HELD};

/// What an answer is looked at for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expected {
    /// Rows of nodes.
    Rows(Arc<Reading>),
    /// It may have rows of nodes: of a statement that was prepared elsewhere, or a text that was not understood.
    Unclear {
        /// What an EXECUTE named.
        id: Option<Box<[u8]>>,
    },
    /// PREPARED of a statement that reads nodes.
    PreparedReader(Arc<Reading>),
    /// PREPARED of a statement that reads none.
    PreparedHarmless,
    /// PREPARED of a text that was not understood.
    PreparedUnclear,
    /// SUPPORTED.
    Supported,
    /// EVENT.
    Event,
}

impl Expected {
    /// Whether nodes are named for sure.
    fn is_about_nodes(&self) -> bool {
        match self {
            Self::Rows(_) | Self::Supported | Self::Event => true,
            Self::Unclear { .. }
            | Self::PreparedReader(_)
            | Self::PreparedHarmless
            | Self::PreparedUnclear => false,
        }
    }
}

/// An answer that is looked at.
#[derive(Debug)]
pub(super) struct Attention {
    pub(super) expected: Expected,
    /// Room to hold it; none where it is too long, or there is too little: then it is only known that something came.
    pub(super) room: Option<Taken>,
}

/// Answers that are to be looked at on one connection; from the next one on, all are. Drivers send 1,024 to 2,048 requests at a time.
const MAX_EXPECTED: usize = 4_096;

/// One connection, as both of its directions see it.
#[derive(Debug)]
pub(in crate::proxy) struct Shared {
    pub(super) pairing: Pairing,
    pub(super) negotiated: Arc<Negotiated>,
    expectations: Mutex<Expectations>,
}

#[derive(Debug, Default)]
struct Expectations {
    streams: FxHashMap<StreamId, Expected>,
    /// Events may come.
    registered: bool,
    /// Some requests were not seen, or too many to remember: any answer may have rows of nodes.
    blind: bool,
    extensions: Extensions,
    names_by_peer: bool,
}

impl Shared {
    pub(in crate::proxy) fn new(pairing: Pairing) -> Self {
        Self {
            pairing,
            negotiated: Arc::new(Negotiated::new()),
            expectations: Mutex::default(),
        }
    }

    /// The answer on a stream is to be looked at.
    pub(super) fn expect(&self, stream: StreamId, expected: Expected) {
        let mut expectations = self.expectations();
        if expectations.streams.len() >= MAX_EXPECTED {
            expectations.blind = true;
        }
        let is_full = expectations.blind;
        match expectations.streams.entry(stream) {
            Entry::Occupied(mut entry) => drop(entry.insert(expected)),
            Entry::Vacant(entry) if !is_full => drop(entry.insert(expected)),
            Entry::Vacant(_) => {}
        }
    }

    /// The answer on a stream names no nodes.
    pub(super) fn expect_nothing(&self, stream: StreamId) {
        let mut expectations = self.expectations();
        if !expectations.streams.is_empty() {
            expectations.streams.remove(&stream);
        }
    }

    pub(super) fn expect_events(&self) {
        self.expectations().registered = true;
    }

    /// Requests can no longer be followed.
    pub(super) fn turn_blind(&self) {
        self.expectations().blind = true;
    }

    /// `names_by_peer`: see [`Sight`](super::rows::Sight).
    pub(super) fn agree_on(&self, extensions: Extensions, names_by_peer: bool) {
        let mut expectations = self.expectations();
        expectations.extensions = extensions;
        expectations.names_by_peer = names_by_peer;
    }

    pub(super) fn names_by_peer(&self) -> bool {
        self.expectations().names_by_peer
    }

    pub(super) fn extensions(&self) -> Extensions {
        self.expectations().extensions
    }

    /// Whether no answer that is under way is of interest.
    pub(super) fn is_quiet(&self) -> bool {
        let expectations = self.expectations();
        expectations.streams.is_empty() && !expectations.registered && !expectations.blind
    }

    /// What a response is to be looked at for; none if it may pass.
    pub(super) fn attention(&self, header: &Header) -> Option<Attention> {
        let expected = self.expected(header)?;
        let length = header.body_len as usize;
        let addresses = &self.pairing.addresses;
        let room = match length > MAX_HELD {
            true => None,
            false => addresses.room().take(length),
        };
        if room.is_some() || expected.is_about_nodes() {
            return Some(Attention { expected, room });
        }
        // What is too long is more likely the application's than about nodes. What there is no room for may be either.
        if length <= MAX_HELD && matches!(expected, Expected::Unclear { .. }) {
            Counters::add(&addresses.counters().may_have_leaked, 1);
        }
        None
    }

    fn expected(&self, header: &Header) -> Option<Expected> {
        match header.opcode {
            Opcode::EVENT => return Some(Expected::Event),
            Opcode::SUPPORTED => {
                self.expect_nothing(header.stream_id);
                return Some(Expected::Supported);
            }
            Opcode::READY | Opcode::AUTHENTICATE if header.version.uses_segments() => {
                self.negotiated.start_segments();
            }
            _ => {}
        }
        let mut expectations = self.expectations();
        // DSE may answer one request with many pages.
        let expected = if header.version.is_dse() {
            expectations.streams.get(&header.stream_id).cloned()
        } else {
            expectations.streams.remove(&header.stream_id)
        };
        if header.opcode != Opcode::RESULT {
            return None;
        }
        let unseen = expectations.blind.then_some(Expected::Unclear { id: None });
        expected.or(unseen)
    }

    fn expectations(&self) -> MutexGuard<'_, Expectations> {
        // Nothing that holds the lock can panic.
        self.expectations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
