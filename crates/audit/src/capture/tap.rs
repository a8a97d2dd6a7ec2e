//! One direction of a connection: finds where envelopes begin and hands the bytes over.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::{
    cutter::{Cut, Cutter, Framing, OpcodeCounts},
    envelope::{Direction, Opcode},
    segment::Encoding,
};

use super::{Capture, Clock, Connection, Queue};

/// Stands beside a pump. What it does for a chunk is a walk over envelope headers and one push; it never waits.
#[derive(Debug)]
pub struct Tap {
    connection: Arc<Connection>,
    direction: Direction,
    cutter: Cutter,
    queue: Arc<Queue>,
    clock: Clock,
    /// Envelopes that have begun.
    begun: u64,
    /// The same by opcode.
    opcodes: OpcodeCounts,
    /// Since the last boundary that was handed over something was left out.
    gap: bool,
    /// An envelope has begun and not ended.
    in_the_middle: bool,
    /// The node has not let the client in yet, as far as this direction can tell.
    awaits_login: bool,
}

impl Tap {
    /// A tap for the first byte of `direction` of `connection`.
    pub fn new(connection: Arc<Connection>, direction: Direction, queue: Arc<Queue>, clock: Clock) -> Self {
        let cutter = Cutter::new(direction, Arc::clone(&connection.negotiated));
        Self {
            connection,
            direction,
            cutter,
            queue,
            clock,
            begun: 0,
            opcodes: OpcodeCounts::default(),
            gap: false,
            in_the_middle: false,
            awaits_login: direction == Direction::Response,
        }
    }

    /// Accounts for `chunk`, which has just been read and not yet been sent on.
    pub fn offer(&mut self, chunk: &Bytes) {
        if self.connection.is_opaque() {
            self.connection.count(self.direction, 0, chunk.len());
            self.notice_login(|| true);
            return;
        }
        let cut = self.cutter.cut(chunk);
        self.notice_login(|| lets_in(&cut));
        let in_flight = self.in_flight_change(&cut);
        self.connection.count(self.direction, in_flight, chunk.len());
        if let Some(reason) = cut.opaque {
            // What can be told apart before that place is still audited.
            self.connection.turn_opaque();
            self.queue.count_opaque(reason);
            tracing::debug!(client = %self.connection.client, ?reason, "connection cannot be audited, only forwarded");
        }
        let keeps = cut.prepares;
        let taken = self.queue.offer(self.connection.id, chunk.len(), keeps, || {
            self.capture(chunk, &cut)
        });
        self.count(&cut, taken, chunk.len());
        // The audit finds its place at the next boundary.
        self.gap = !taken || (self.gap && cut.first_boundary.is_none());
    }

    fn notice_login(&mut self, lets_in: impl Fn() -> bool) {
        if self.awaits_login && lets_in() {
            self.awaits_login = false;
            self.connection.log_in();
        }
    }

    fn capture(&self, chunk: &Bytes, cut: &Cut) -> Capture {
        let after_gap = self.gap.then(|| {
            let mut opcodes = Box::new(self.opcodes);
            opcodes.merge(&cut.envelopes_before_boundary);
            opcodes
        });
        Capture {
            connection: Arc::clone(&self.connection),
            direction: self.direction,
            at: self.clock.now(),
            hole: 0,
            bytes: chunk.clone(),
            boundary: cut.first_boundary.zip(cut.framing),
            begun: self.begun + u64::from(cut.envelopes_before_boundary.total()),
            after_gap,
            request_gaps: self.connection.request_gaps(),
        }
    }

    /// What was left out is counted before it can be missed: the audit compares with what it was given.
    fn count(&mut self, cut: &Cut, taken: bool, bytes: usize) {
        let total = cut.envelopes.total();
        if total > 0 {
            self.begun += u64::from(total);
            self.opcodes.merge(&cut.envelopes);
            if self.direction == Direction::Request {
                self.connection.count_requests(total);
            }
        }
        if taken {
            return;
        }
        self.queue.count_dropped(bytes);
        if cut.prepares {
            self.connection.miss_prepare();
        }
        if self.direction == Direction::Request {
            let hidden = matches!(cut.framing, Some(Framing::Segments(Encoding::Lz4)));
            self.connection.count_gap(if hidden { cut.segments } else { 0 });
        }
    }

    /// A request is in flight from the end of its header to the last byte of its answer.
    fn in_flight_change(&mut self, cut: &Cut) -> i64 {
        let envelopes = i64::from(cut.envelopes.total());
        match self.direction {
            Direction::Request => envelopes,
            Direction::Response => {
                let before = i64::from(self.in_the_middle);
                self.in_the_middle = self.cutter.is_in_the_middle();
                i64::from(cut.envelopes.of(Opcode::EVENT)) - envelopes + i64::from(self.in_the_middle)
                    - before
            }
        }
    }
}

/// Whether the node lets its client in with what it sends. What is not the protocol is as good: the client has its answer.
fn lets_in(cut: &Cut) -> bool {
    let of = |opcode| cut.envelopes.of(opcode) > 0;
    let is_hidden = cut.segments > 0 && matches!(cut.framing, Some(Framing::Segments(Encoding::Lz4)));
    of(Opcode::READY) || of(Opcode::AUTH_SUCCESS) || is_hidden || cut.opaque.is_some()
}

impl Drop for Tap {
    fn drop(&mut self) {
        // What was left out since the last capture is known to nobody else.
        if self.direction == Direction::Request && self.connection.has_gaps() {
            self.connection.end_requests(self.opcodes);
        }
    }
}
