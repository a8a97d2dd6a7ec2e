//! One direction of a live connection: finds where envelopes begin and hands the bytes over.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::{
    cutter::{Cut, Framing},
    envelope::{Direction, Opcode},
    segment::Encoding,
};

use super::{Clock, Connection, Queue, tap_core::TapCore};

/// Stands beside a pump. What it does for a chunk is a walk over envelope headers and one push; it never
/// waits.
#[derive(Debug)]
pub struct Tap {
    core: TapCore,
    queue: Arc<Queue>,
    clock: Clock,
    /// An envelope has begun and not ended.
    in_the_middle: bool,
    /// The client is not logged in yet, as far as this direction shows it.
    awaits_login: bool,
}

impl Tap {
    /// A tap for the first byte of `direction` of `connection`.
    pub fn new(connection: Arc<Connection>, direction: Direction, queue: Arc<Queue>, clock: Clock) -> Self {
        Self {
            core: TapCore::new(connection, direction),
            queue,
            clock,
            in_the_middle: false,
            awaits_login: direction == Direction::Response,
        }
    }

    /// Accounts for `chunk`, which has just been read and not yet been sent on.
    pub fn offer(&mut self, chunk: &Bytes) {
        let core = &mut self.core;
        if core.connection.is_opaque() {
            core.connection.count(core.direction, 0, chunk.len());
            self.notice_login(|| true);
            return;
        }
        let cut = core.cutter.cut(chunk);
        self.notice_login(|| lets_in(&cut));
        let in_flight = self.in_flight_change(&cut);
        let core = &mut self.core;
        core.connection.count(core.direction, in_flight, chunk.len());
        if let Some(reason) = cut.opaque {
            // Envelopes before that position are still audited.
            core.connection.turn_opaque();
            self.queue.count_opaque(reason);
            tracing::debug!(client = %core.connection.client, ?reason, "connection cannot be audited, only forwarded");
        }
        let taken = self.queue.offer(chunk.len(), cut.prepares, || {
            let boundary = cut.first_boundary.zip(cut.framing);
            core.capture(
                chunk.clone(),
                boundary,
                Some(&cut.envelopes_before_boundary),
                self.clock.now(),
            )
        });
        core.count(&cut.envelopes);
        if !taken {
            self.leave_out(&cut, chunk.len());
        } else if cut.first_boundary.is_some() {
            core.end_gap();
        }
    }

    /// Counts a chunk that found no room.
    fn leave_out(&mut self, cut: &Cut, bytes: usize) {
        self.queue.count_dropped(bytes);
        if cut.prepares {
            self.core.connection.miss_prepare();
        }
        let is_hidden = matches!(cut.framing, Some(Framing::Segments(Encoding::Lz4)));
        self.core.begin_gap(if is_hidden { cut.segments } else { 0 });
    }

    fn notice_login(&mut self, lets_in: impl Fn() -> bool) {
        if self.awaits_login && lets_in() {
            self.awaits_login = false;
            self.core.connection.log_in();
        }
    }

    /// A request is in flight from the end of its header to the last byte of its answer.
    fn in_flight_change(&mut self, cut: &Cut) -> i64 {
        let envelopes = i64::from(cut.envelopes.total());
        match self.core.direction {
            Direction::Request => envelopes,
            Direction::Response => {
                let before = i64::from(self.in_the_middle);
                self.in_the_middle = self.core.cutter.is_in_the_middle();
                i64::from(cut.envelopes.of(Opcode::EVENT)) - envelopes + i64::from(self.in_the_middle)
                    - before
            }
        }
    }
}

/// Whether the node accepts the login with this chunk. Bytes of another protocol count as that: the client
/// has its answer.
fn lets_in(cut: &Cut) -> bool {
    let of = |opcode| cut.envelopes.of(opcode) > 0;
    let is_hidden = cut.segments > 0 && matches!(cut.framing, Some(Framing::Segments(Encoding::Lz4)));
    of(Opcode::READY) || of(Opcode::AUTH_SUCCESS) || is_hidden || cut.opaque.is_some()
}
