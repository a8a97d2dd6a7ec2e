//! One direction of a connection that was recorded: the tap's counterpart where nothing is in the path.
//!
//! It waits for room instead of leaving anything out, its times are those of the record, and it copes with bytes that the record
//! lacks: inside a body they cost one envelope, elsewhere the place, which the caller finds again. The envelope in which they begin is told
//! by its header all the same.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::{
    compress::Compression,
    cutter::{Cut, Cutter, Framing, Opaque, OpcodeCounts, Skipped},
    envelope::Direction,
    segment::Encoding,
};

use super::{Capture, Connection, Moment, Queue};

/// Finds where envelopes begin in recorded bytes and hands them over.
#[derive(Debug)]
pub struct Feed {
    connection: Arc<Connection>,
    direction: Direction,
    cutter: Cutter,
    queue: Arc<Queue>,
    /// Envelopes that have begun, as far as they are there.
    opcodes: OpcodeCounts,
    begun: u64,
    /// Segments that have begun.
    segments: u64,
    /// Since the last boundary that was handed over something is missing.
    gap: bool,
}

/// The place at which bytes are not what they should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stray {
    /// The bytes from there on.
    pub rest: Bytes,
    /// What is wrong with the next one.
    pub reason: Opaque,
}

impl Feed {
    /// A feed for the first byte of `direction` of `connection`.
    pub fn new(connection: Arc<Connection>, direction: Direction, queue: Arc<Queue>) -> Self {
        let cutter = Cutter::new(direction, Arc::clone(&connection.negotiated));
        Self {
            connection,
            direction,
            cutter,
            queue,
            opcodes: OpcodeCounts::default(),
            begun: 0,
            segments: 0,
            gap: false,
        }
    }

    /// Hands `bytes` over, which passed at `at`, if they are one whole envelope, as those of most packets are: the same as [`Feed::offer`], in
    /// fewer steps, and with a handle of them only then. False, and nothing has changed, where they are anything else.
    #[inline]
    pub fn offer_whole(&mut self, bytes: &[u8], share: impl FnOnce() -> Bytes, at: Moment) -> bool {
        let Some(opcode) = self.cutter.cut_whole(bytes) else {
            return false;
        };
        let boundary = Some((0, Framing::Envelopes));
        self.queue.wait_and_offer(self.connection.id, bytes.len(), || {
            self.capture(share(), boundary, None, at)
        });
        self.gap = false;
        self.begun += 1;
        self.opcodes.add(opcode);
        if self.direction == Direction::Request {
            self.connection.count_requests(1);
        }
        true
    }

    /// Hands `bytes` over, which passed at `at`; waits where there is no room.
    ///
    /// # Errors
    /// The bytes that are no envelopes or segments. They are not handed over; the next call is [`Feed::resume`].
    pub fn offer(&mut self, mut bytes: Bytes, at: Moment) -> Result<(), Stray> {
        let cut = self.cutter.cut(&bytes);
        let stray = cut.opaque.map(|reason| Stray {
            rest: bytes.split_off(cut.opaque_at),
            reason,
        });
        let boundary = cut
            .first_boundary
            .zip(cut.framing)
            .filter(|(at, _)| *at < bytes.len() || stray.is_none());
        if !bytes.is_empty() {
            self.queue.wait_and_offer(self.connection.id, bytes.len(), || {
                self.capture(bytes, boundary, Some(&cut.envelopes_before_boundary), at)
            });
        }
        self.count(&cut);
        self.gap &= boundary.is_none();
        match stray {
            Some(stray) => {
                self.lose(0);
                Err(stray)
            }
            None => Ok(()),
        }
    }

    /// Says that `length` bytes, which passed at `at`, are missing, and where that was.
    pub fn skip(&mut self, length: usize, at: Moment) -> Skipped {
        let has_begun = self.cutter.is_in_the_middle();
        let skipped = self.cutter.skip(length);
        let hides = self.cutter_framing() == Framing::Segments(Encoding::Lz4);
        // What has come of an envelope tells what it was, wherever the hole ends; of a compressed segment it tells nothing.
        if skipped == Skipped::InBody || (has_begun && !hides && !self.gap) {
            self.queue.wait_and_offer(self.connection.id, 0, || Capture {
                hole: length,
                ..self.capture(Bytes::new(), None, None, at)
            });
        }
        match skipped {
            Skipped::InBody => {}
            Skipped::InSegment => self.lose(u32::from(hides)),
            Skipped::Lost => self.lose(0),
        }
        skipped
    }

    /// Goes on at a boundary after bytes that are missing or that nobody understands.
    pub fn resume(&mut self, framing: Framing, compression: Compression) {
        let negotiated = &self.connection.negotiated;
        if compression != Compression::None {
            negotiated.set_compression(compression);
        }
        if framing != Framing::Envelopes {
            negotiated.start_segments();
        }
        self.cutter = Cutter::new(self.direction, Arc::clone(negotiated));
        // Before the first boundary nothing is missing that could be counted.
        if self.has_begun() {
            self.lose(0);
        }
        self.gap = true;
    }

    /// Envelopes that have begun so far, as far as they can be told apart.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Whether anything of the direction has been understood: envelopes, or segments around them.
    pub fn has_begun(&self) -> bool {
        self.begun > 0 || self.segments > 0
    }

    /// Whether an envelope or segment has begun and its end has not come.
    pub fn is_in_the_middle(&self) -> bool {
        self.cutter.is_in_the_middle()
    }

    fn cutter_framing(&self) -> Framing {
        self.connection.negotiated.framing()
    }

    fn lose(&mut self, hidden_segments: u32) {
        self.gap = true;
        if self.direction == Direction::Request {
            self.connection.count_gap(hidden_segments);
        }
    }

    /// What is handed over of `bytes`: with envelopes that begin in them `before` the boundary, if there are any.
    #[inline]
    fn capture(
        &self,
        bytes: Bytes,
        boundary: Option<(usize, Framing)>,
        before: Option<&OpcodeCounts>,
        at: Moment,
    ) -> Capture {
        let after_gap = self.gap.then(|| {
            let mut opcodes = Box::new(self.opcodes);
            if let Some(before) = before {
                opcodes.merge(before);
            }
            opcodes
        });
        Capture {
            connection: Arc::clone(&self.connection),
            direction: self.direction,
            at,
            hole: 0,
            bytes,
            boundary,
            begun: self.begun + before.map_or(0, |before| before.total().into()),
            after_gap,
            request_gaps: self.connection.request_gaps(),
        }
    }

    fn count(&mut self, cut: &Cut) {
        self.segments += u64::from(cut.segments);
        let total = cut.envelopes.total();
        if total > 0 {
            self.begun += u64::from(total);
            self.opcodes.merge(&cut.envelopes);
            if self.direction == Direction::Request {
                self.connection.count_requests(total);
            }
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        if self.direction == Direction::Request && self.connection.has_gaps() {
            self.connection.end_requests(self.opcodes);
        }
    }
}
