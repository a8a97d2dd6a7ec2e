//! One direction of a live connection: finds where envelopes begin and hands the bytes over.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::{
    cutter::{Cut, Framing, Opaque},
    envelope::{Direction, Opcode},
    segment::Encoding,
};

use super::{
    Clock, Connection, Moment, Queue, connection::Cutting, forwarding::TIMED_PART, tap_core::TapCore,
};

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
    /// Why requests are not cut, if that is not counted yet: the node may refuse what could not be cut.
    uncounted: Option<Opaque>,
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
            uncounted: None,
        }
    }

    /// Accounts for `chunk`, which has just been read and not yet been sent on.
    pub fn offer(&mut self, chunk: &Bytes) {
        self.count_forwarded(chunk.len());
        let cutting = self.core.connection.cutting();
        if cutting != Cutting::GoesOn && !self.is_cut_again(cutting, chunk.len()) {
            return;
        }
        let core = &mut self.core;
        let cut = core.cutter.cut(chunk);
        self.notice_login(|| lets_in(&cut));
        let in_flight = self.in_flight_change(&cut);
        let core = &mut self.core;
        core.connection.count(core.direction, in_flight, chunk.len());
        if let Some(reason) = cut.opaque {
            // Envelopes before that position are still audited.
            self.stop_cutting(reason);
        }
        if cutting == Cutting::AwaitsRefusal && self.is_refusal(&cut) {
            return;
        }
        let core = &mut self.core;
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

    /// Whether the next chunk of `bytes` is cut, although not all of the connection could be.
    #[cold]
    fn is_cut_again(&mut self, cutting: Cutting, bytes: usize) -> bool {
        let core = &mut self.core;
        match (core.direction, cutting) {
            (_, Cutting::GoesOn) => true,
            (Direction::Response, Cutting::AwaitsRefusal | Cutting::Refused) => true,
            (Direction::Request, Cutting::Refused) => {
                core.connection.cut_as(Cutting::GoesOn);
                core.restart();
                self.uncounted = None;
                true
            }
            (Direction::Request, Cutting::AwaitsRefusal) => {
                core.connection.count(core.direction, 0, bytes);
                // The node may skip these bytes or read them, by when they reach it.
                core.begin_gap(0);
                self.count_opaque();
                false
            }
            (_, Cutting::Ended) => {
                core.connection.count(core.direction, 0, bytes);
                self.notice_login(|| true);
                self.count_opaque();
                false
            }
        }
    }

    /// Notes that what comes is no envelope. Cassandra refuses requests that it cannot read, skips what it has received of
    /// them, and reads on: so a client could hide all that follows. What the node sends is not for the client to choose.
    #[cold]
    fn stop_cutting(&mut self, reason: Opaque) {
        let core = &self.core;
        let before = core.connection.cutting();
        let may_be_refused = matches!(reason, Opaque::Version(_) | Opaque::Text | Opaque::Tls);
        match core.direction {
            Direction::Request if may_be_refused => {
                // The refusal is the response to it.
                core.connection.count(core.direction, 1, 0);
                core.connection.cut_as(Cutting::AwaitsRefusal);
                self.uncounted = Some(reason);
            }
            // The other direction counts it, with its own reason.
            Direction::Response if before != Cutting::GoesOn => core.connection.cut_as(Cutting::Ended),
            _ => {
                core.connection.cut_as(Cutting::Ended);
                self.uncounted = Some(reason);
                self.count_opaque();
            }
        }
    }

    fn count_opaque(&mut self) {
        if let Some(reason) = self.uncounted.take() {
            let connection = &self.core.connection;
            self.queue.count_opaque(reason);
            tracing::debug!(connection = connection.id.0, client = %connection.client, ?reason, "connection cannot be audited, only forwarded");
        }
    }

    /// Whether a chunk of responses is an error alone, which refuses what could not be cut: the audit knows of no request for
    /// it. One among other responses is for the audit to tell.
    #[cold]
    fn is_refusal(&self, cut: &Cut) -> bool {
        let core = &self.core;
        if core.direction == Direction::Request || cut.envelopes.of(Opcode::ERROR) == 0 {
            return false;
        }
        if core.connection.cutting() == Cutting::AwaitsRefusal {
            core.connection.cut_as(Cutting::Refused);
        }
        cut.first_boundary == Some(0) && cut.envelopes.total() == 1 && !core.cutter.is_in_the_middle()
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

impl Drop for Tap {
    fn drop(&mut self) {
        // The node has not refused it, or the client has said no more.
        self.count_opaque();
    }
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
        assert_eq!(connection.cutting(), Cutting::AwaitsRefusal);
        let forwarded = queue.forwarding().of(Direction::Request);
        assert_eq!(forwarded.bytes, 16 * u64::from(TIMED_PART + 1));
        assert_eq!(forwarded.times.iter().sum::<u64>(), 2);
        assert_eq!(queue.forwarding().of(Direction::Response).bytes, 0);
    }

    /// The two taps of a connection, and what they hand over.
    struct Pair {
        connection: Arc<Connection>,
        queue: Arc<Queue>,
        client: Tap,
        node: Tap,
    }

    fn pair() -> Pair {
        let client = "10.0.0.1:40000".parse().unwrap();
        let connection = Arc::new(Connection::new(ConnectionId(1), client));
        let queue = Arc::new(Queue::new(QueueLimits::default()));
        let tap = |direction| {
            Tap::new(
                Arc::clone(&connection),
                direction,
                Arc::clone(&queue),
                Clock::start(),
            )
        };
        let (client, node) = (tap(Direction::Request), tap(Direction::Response));
        Pair {
            connection,
            queue,
            client,
            node,
        }
    }

    impl Pair {
        /// How many captures a chunk of the client, or of the node, becomes.
        fn offer(&mut self, of_client: bool, chunk: &'static [u8]) -> usize {
            let tap = if of_client {
                &mut self.client
            } else {
                &mut self.node
            };
            tap.offer(&Bytes::from_static(chunk));
            self.queue.take(10, |_| ())
        }

        fn opaque(&self) -> Vec<(&'static str, u64)> {
            self.queue.take_dropped().opaque.into_iter().collect()
        }
    }

    const OPTIONS: &[u8] = b"\x04\0\0\x01\x05\0\0\0\0";
    const OPTIONS_OF_7: &[u8] = b"\x07\0\0\x01\x05\0\0\0\0";
    const REFUSAL: &[u8] = b"\x85\0\0\x01\0\0\0\0\x04\0\0\0\x0a";
    const SUPPORTED: &[u8] = b"\x84\0\0\x01\x06\0\0\0\x02\0\0";

    #[test]
    fn requests_are_cut_again_once_the_node_has_refused_what_could_not_be() {
        for unreadable in [OPTIONS_OF_7, b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\0\0"] {
            let mut pair = pair();
            for _ in 0..2 {
                assert_eq!(pair.offer(true, unreadable), 1);
                assert!(pair.connection.has_request_in_flight());
                assert_eq!(
                    pair.offer(false, REFUSAL),
                    0,
                    "the audit knows of no request for it"
                );
                assert!(!pair.connection.has_request_in_flight());
                assert_eq!((pair.offer(true, OPTIONS), pair.offer(false, SUPPORTED)), (1, 1));
            }
            assert_eq!(
                (pair.connection.requests(), pair.connection.has_gaps()),
                (2, false)
            );
            assert_eq!(pair.opaque(), []);
        }
    }

    #[test]
    fn what_comes_before_the_refusal_is_counted_as_unread_and_what_follows_it_is_cut() {
        let mut pair = pair();
        pair.offer(true, OPTIONS_OF_7);
        assert_eq!(pair.offer(true, OPTIONS), 0);
        assert_eq!(pair.opaque(), [("unknown-version", 1)]);
        pair.offer(false, REFUSAL);
        assert_eq!((pair.offer(true, OPTIONS), pair.offer(false, SUPPORTED)), (1, 1));
        assert!(pair.connection.has_gaps());
        assert_eq!(pair.opaque(), []);
    }

    #[test]
    fn what_the_node_does_not_refuse_as_such_is_opaque_and_counted_once() {
        let endings: [&[(bool, &'static [u8])]; 5] = [
            // Nothing follows.
            &[],
            &[(false, REFUSAL)],
            // TLS that passes through, or a version that only the node knows.
            &[(false, b"\x16\x03\x03\0\0"), (true, OPTIONS)],
            &[(false, b"\x87\0\0\x01\x06\0\0\0\0"), (true, OPTIONS_OF_7)],
            // What follows the refusal is no envelope of a client.
            &[(false, REFUSAL), (true, SUPPORTED), (true, OPTIONS)],
        ];
        for ending in endings {
            let mut pair = pair();
            pair.offer(true, OPTIONS_OF_7);
            ending.iter().for_each(|&(of_client, chunk)| {
                pair.offer(of_client, chunk);
            });
            let queue = Arc::clone(&pair.queue);
            drop(pair);
            let counted = queue.take_dropped().opaque;
            assert_eq!(counted.values().sum::<u64>(), 1, "{counted:?} after {ending:?}");
        }
    }
}
