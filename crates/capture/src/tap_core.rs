//! What the taps of live and of recorded traffic have in common.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::{
    cutter::{Cutter, Framing, OpcodeCounts},
    envelope::{Direction, Opcode},
};

use super::{Capture, Connection, Moment};

/// One direction of a connection: finds where envelopes begin, counts them, and makes captures of the bytes.
#[derive(Debug)]
pub(super) struct TapCore {
    pub(super) connection: Arc<Connection>,
    pub(super) direction: Direction,
    pub(super) cutter: Cutter,
    /// Envelopes that have begun.
    begun: u64,
    /// The same by opcode.
    opcodes: OpcodeCounts,
    /// Bytes are missing since the last boundary that was handed over.
    gap: bool,
}

impl TapCore {
    pub(super) fn new(connection: Arc<Connection>, direction: Direction) -> Self {
        let cutter = Cutter::new(direction, Arc::clone(&connection.negotiated));
        Self {
            connection,
            direction,
            cutter,
            begun: 0,
            opcodes: OpcodeCounts::default(),
            gap: false,
        }
    }

    /// Envelopes that have begun, outside compressed segments.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// Whether bytes are missing since the last boundary that was handed over.
    pub(super) fn has_gap(&self) -> bool {
        self.gap
    }

    /// A capture of `bytes`, before whose first `boundary` the envelopes `before` begin.
    #[inline]
    pub(super) fn capture(
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
            gap: 0,
            bytes,
            boundary,
            begun: self.begun + before.map_or(0, |before| before.total().into()),
            after_gap,
            request_gaps: self.connection.request_gaps(),
        }
    }

    /// Counts the envelopes that begin in a chunk. What was left out is counted before it can be missed: the
    /// audit compares with what it was given.
    pub(super) fn count(&mut self, envelopes: &OpcodeCounts) {
        let total = envelopes.total();
        if total > 0 {
            self.begun += u64::from(total);
            self.opcodes.merge(envelopes);
            if self.direction == Direction::Request {
                self.connection.count_requests(total);
            }
        }
    }

    /// The same for a chunk that is one envelope.
    #[inline]
    pub(super) fn count_one(&mut self, opcode: Opcode) {
        self.begun += 1;
        self.opcodes.add(opcode);
        if self.direction == Direction::Request {
            self.connection.count_requests(1);
        }
    }

    /// A boundary was handed over: the audit finds its place there.
    #[inline]
    pub(super) fn end_gap(&mut self) {
        self.gap = false;
    }

    /// Bytes are missing, with so many compressed segments among them.
    pub(super) fn begin_gap(&mut self, hidden_segments: u32) {
        self.gap = true;
        if self.direction == Direction::Request {
            self.connection.count_gap(hidden_segments);
        }
    }

    /// A boundary was found without knowing what came before it.
    pub(super) fn restart(&mut self) {
        self.cutter = Cutter::new(self.direction, Arc::clone(&self.connection.negotiated));
        self.gap = true;
    }
}

impl Drop for TapCore {
    fn drop(&mut self) {
        // The audit learns from this what was left out since the last capture.
        if self.direction == Direction::Request && self.connection.has_gaps() {
            self.connection
                .end_requests(self.opcodes, self.cutter.is_in_the_middle());
        }
    }
}
