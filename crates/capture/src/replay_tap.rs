//! One direction of a recorded connection: the [`Tap`](super::Tap) of traffic that nothing forwards.
//!
//! It waits for room instead of leaving anything out, its times are those of the record, and it copes with
//! bytes that the record lacks: inside a body they cost one envelope, elsewhere the position, which the
//! caller finds again. The envelope in which they begin is still known by its header.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::{
    compress::Compression,
    cutter::{Framing, Opaque, Skipped},
    envelope::Direction,
    segment::Encoding,
};

use super::{Capture, Connection, Moment, ReplayQueue, tap_core::TapCore};

/// Finds where envelopes begin in recorded bytes and hands them over.
#[derive(Debug)]
pub struct ReplayTap {
    core: TapCore,
    queue: Arc<ReplayQueue>,
    /// Segments that have begun.
    segments: u64,
}

/// The position at which bytes are no envelope or segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Desync {
    /// The bytes from there on.
    pub rest: Bytes,
    /// What is wrong with the next one.
    pub reason: Opaque,
}

impl ReplayTap {
    /// A tap for the first byte of `direction` of `connection`.
    pub fn new(connection: Arc<Connection>, direction: Direction, queue: Arc<ReplayQueue>) -> Self {
        Self {
            core: TapCore::new(connection, direction),
            queue,
            segments: 0,
        }
    }

    /// Another one for the same direction, which has read nothing: for what its bytes turn out to contain.
    #[must_use]
    pub fn afresh(&self) -> Self {
        let TapCore {
            connection,
            direction,
            ..
        } = &self.core;
        Self::new(Arc::clone(connection), *direction, Arc::clone(&self.queue))
    }

    /// Fast path of [`Self::offer`] for `bytes` that are one whole envelope, as those of most packets are:
    /// only then it takes a handle of them. False, and nothing has changed, where they are anything else. A
    /// part of the 12 % of [`Cutter::cut_whole`](cqlens_proto::cutter::Cutter::cut_whole).
    #[inline]
    pub fn offer_whole(&mut self, bytes: &[u8], share: impl FnOnce() -> Bytes, at: Moment) -> bool {
        let core = &mut self.core;
        let Some(opcode) = core.cutter.cut_whole(bytes) else {
            return false;
        };
        let boundary = Some((0, Framing::Envelopes));
        self.queue
            .offer(bytes.len(), || core.capture(share(), boundary, None, at));
        core.end_gap();
        core.count_one(opcode);
        true
    }

    /// Hands `bytes` over, which passed at `at`; waits where there is no room.
    ///
    /// # Errors
    /// The bytes that are no envelopes or segments. They are not handed over; the next call is
    /// [`Self::resume`].
    pub fn offer(&mut self, mut bytes: Bytes, at: Moment) -> Result<(), Desync> {
        let core = &mut self.core;
        let cut = core.cutter.cut(&bytes);
        let desync = cut.opaque.map(|reason| Desync {
            rest: bytes.split_off(cut.opaque_at),
            reason,
        });
        let boundary = cut
            .first_boundary
            .zip(cut.framing)
            .filter(|(at, _)| *at < bytes.len() || desync.is_none());
        if !bytes.is_empty() {
            let before = Some(&cut.envelopes_before_boundary);
            self.queue
                .offer(bytes.len(), || core.capture(bytes, boundary, before, at));
        }
        self.segments += u64::from(cut.segments);
        core.count(&cut.envelopes);
        if boundary.is_some() {
            core.end_gap();
        }
        let Some(desync) = desync else { return Ok(()) };
        core.begin_gap(0);
        Err(desync)
    }

    /// Says that `length` bytes, which passed at `at`, are missing, and returns where that was.
    pub fn skip(&mut self, length: usize, at: Moment) -> Skipped {
        let core = &mut self.core;
        let has_begun = core.cutter.is_in_the_middle();
        let skipped = core.cutter.skip(length);
        let hides = core.connection.negotiated.framing() == Framing::Segments(Encoding::Lz4);
        // The part of an envelope that has come says what it is, wherever the gap ends; the part of a
        // compressed segment says nothing.
        if skipped == Skipped::InBody || (has_begun && !hides && !core.has_gap()) {
            self.queue.offer(0, || Capture {
                gap: length,
                ..core.capture(Bytes::new(), None, None, at)
            });
        }
        match skipped {
            Skipped::InBody => {}
            Skipped::InSegment => core.begin_gap(u32::from(hides)),
            Skipped::Lost => core.begin_gap(0),
        }
        skipped
    }

    /// Goes on at a boundary after bytes that are missing or cannot be read.
    pub fn resume(&mut self, framing: Framing, compression: Compression) {
        let negotiated = &self.core.connection.negotiated;
        if compression != Compression::None {
            negotiated.set_compression(compression);
        }
        if framing != Framing::Envelopes {
            negotiated.start_segments();
        }
        // Before the first boundary nothing is missing that could be counted.
        if self.has_begun() {
            self.core.begin_gap(0);
        }
        self.core.restart();
    }

    /// Envelopes that have begun so far, outside compressed segments.
    pub fn begun(&self) -> u64 {
        self.core.begun()
    }

    /// Whether anything of the direction has been understood: envelopes, or segments around them.
    pub fn has_begun(&self) -> bool {
        self.begun() > 0 || self.segments > 0
    }

    /// Whether an envelope or segment has begun and its end has not come.
    pub fn is_in_the_middle(&self) -> bool {
        self.core.cutter.is_in_the_middle()
    }
}
