//! One direction of a live connection: finds where envelopes begin and hands the bytes over.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::{
    cutter::{Cut, Framing},
    envelope::{Direction, Opcode},
    segment::Encoding,
};

use super::{Clock, Connection, Moment, Queue, forwarding::TIMED_PART, tap_core::TapCore};

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
    /// Chunks until one is timed.
    until_timed: u32,
    /// When the current chunk was read, if it is timed.
    read_at: Option<Moment>,
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
            until_timed: 0,
            read_at: None,
        }
    }

    /// Accounts for `chunk`, which has just been read and not yet been sent on.
    pub fn offer(&mut self, chunk: &Bytes) {
        self.count_forwarded(chunk.len());
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
            tracing::debug!(connection = core.connection.id.0, client = %core.connection.client, ?reason, "connection cannot be audited, only forwarded");
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

    /// Notes that the last chunk was sent on.
    #[inline]
    pub fn sent(&mut self) {
        if let Some(read_at) = self.read_at.take() {
            let within = self.clock.now().since(read_at);
            self.queue.forwarding().time(self.core.direction, within);
        }
    }

    fn count_forwarded(&mut self, bytes: usize) {
        self.queue.forwarding().count(self.core.direction, bytes);
        if self.until_timed == 0 {
            self.until_timed = TIMED_PART;
            self.read_at = Some(self.clock.now());
        }
        self.until_timed -= 1;
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{ConnectionId, QueueLimits};

    #[test]
    fn every_byte_is_counted_and_some_chunks_are_timed() {
        let client = "10.0.0.1:40000".parse().unwrap();
        let connection = Arc::new(Connection::new(ConnectionId(1), client));
        let queue = Arc::new(Queue::new(QueueLimits::default()));
        let mut tap = Tap::new(
            Arc::clone(&connection),
            Direction::Request,
            Arc::clone(&queue),
            Clock::start(),
        );
        // Opaque from the first byte on: such chunks count as well.
        for _ in 0..=TIMED_PART {
            tap.offer(&Bytes::from_static(b"GET / HTTP/1.1\r\n"));
            tap.sent();
            // A chunk is timed once.
            tap.sent();
        }
        assert!(connection.is_opaque());
        let forwarded = queue.forwarding().of(Direction::Request);
        assert_eq!(forwarded.bytes, 16 * u64::from(TIMED_PART + 1));
        assert_eq!(forwarded.times.iter().sum::<u64>(), 2);
        assert_eq!(queue.forwarding().of(Direction::Response).bytes, 0);
    }
}
