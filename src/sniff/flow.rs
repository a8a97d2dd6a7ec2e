//! Connections: which side is the server, both directions in order, and in order with each other.
//!
//! A response must not come to the audit before its request. Each segment says what its sender had received, so what it answers is
//! known: its bytes wait until the other direction has told that much, or has been found to lack it.

use std::sync::Arc;

use cqlens_proto::{cutter::Framing, envelope::Direction};

use super::{
    link::Segment,
    losses::Losses,
    resync::Known,
    side::{Hopeless, Side},
    tcp::{Order, Part, distance},
};
use crate::capture::{Connection, Moment, Queue};

/// A connection.
#[derive(Debug)]
pub(super) struct Flow {
    connection: Arc<Connection>,
    client: Half,
    server: Half,
    known: Known,
    /// Number of the client's SYN, if it is in the capture.
    syn: Option<u32>,
    /// When its last segment was captured.
    pub(super) last: Moment,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Its bytes are not looked into.
    Opaque,
    /// It has ended; segments that come late belong to it all the same.
    Closed,
}

#[derive(Debug)]
struct Half {
    order: Order,
    side: Option<Side>,
    /// Whether anything was captured of it.
    is_seen: bool,
}

/// How long bytes wait that the other side has acknowledged: they have arrived, and are in the capture a little later or not at all.
const ACKNOWLEDGED: std::time::Duration = std::time::Duration::from_millis(20);

/// How long bytes wait that nobody has acknowledged: they are sent again.
const SENT_AGAIN: std::time::Duration = std::time::Duration::from_secs(3);

impl Flow {
    /// The connection of which `segment` is the first one that was captured.
    pub(super) fn new(
        connection: Arc<Connection>,
        segment: &Segment,
        queue: &Arc<Queue>,
        losses: &mut Losses,
    ) -> Self {
        let from_start = segment.syn;
        losses.begun_before += u64::from(!from_start);
        let half = |direction| Half {
            order: Order::default(),
            side: Some(Side::new(&connection, direction, queue, from_start)),
            is_seen: false,
        };
        Self {
            client: half(Direction::Request),
            server: half(Direction::Response),
            connection,
            known: Known::default(),
            syn: None,
            last: segment.at,
            state: State::Open,
        }
    }

    /// Whether `segment` of the client opens another connection between the same ports.
    pub(super) fn is_followed_by(&self, segment: &Segment) -> bool {
        segment.syn
            && segment.acknowledgment.is_none()
            && match self.syn {
                Some(syn) => syn != segment.sequence,
                // It may be sent again before anything else was captured.
                None => self.state == State::Closed || self.client.is_seen,
            }
    }

    /// Whether anything waits for bytes that may still come.
    pub(super) fn is_waiting(&self) -> bool {
        self.client.order.since().is_some() || self.server.order.since().is_some()
    }

    /// Bytes that wait.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.client.order.waiting_bytes() + self.server.order.waiting_bytes()
    }

    /// Whether it has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Takes a segment of one of its directions.
    pub(super) fn take(&mut self, segment: Segment, direction: Direction, losses: &mut Losses) {
        self.last = self.last.max(segment.at);
        if self.state != State::Open {
            return;
        }
        let Segment {
            at,
            sequence,
            acknowledgment,
            payload,
            cut,
            ..
        } = segment;
        let mut first = sequence;
        if segment.syn {
            if direction == Direction::Request {
                self.syn.get_or_insert(sequence);
            }
            first = sequence.wrapping_add(1);
        }
        let length = u32::try_from(payload.len() + cut).unwrap_or(u32::MAX);
        let (own, other) = self.halves(direction);
        own.is_seen = true;
        own.order.begin(first);
        if let Some(acknowledgment) = acknowledgment {
            other.order.begin(acknowledgment);
        }
        if segment.fin {
            own.order.finish(first.wrapping_add(length));
        }
        if length > 0 {
            let part = Part {
                sequence: first,
                bytes: payload,
                cut,
                at,
                acknowledgment,
            };
            let may_pass = other.order.has_told(acknowledgment) || !other.is_seen;
            if let Some(part) = own.order.take(part, may_pass) {
                self.tell(direction, part, losses);
            }
        }
        if self.is_waiting() {
            self.tell_waiting(losses);
            self.give_up(at, losses);
        }
        let both_have_ended = self.client.order.is_finished() && self.server.order.is_finished();
        if segment.rst || both_have_ended {
            self.close(losses);
        }
    }

    fn halves(&mut self, direction: Direction) -> (&mut Half, &mut Half) {
        match direction {
            Direction::Request => (&mut self.client, &mut self.server),
            Direction::Response => (&mut self.server, &mut self.client),
        }
    }

    /// Hands on bytes that are in order.
    fn tell(&mut self, direction: Direction, part: Part, losses: &mut Losses) {
        let known = &mut self.known;
        if known.encoding.is_none()
            && let Framing::Segments(encoding) = self.connection.negotiated.framing()
        {
            known.encoding = Some(encoding);
        }
        let half = match direction {
            Direction::Request => &mut self.client,
            Direction::Response => &mut self.server,
        };
        let Some(side) = &mut half.side else { return };
        let mut taken = Ok(());
        if !part.bytes.is_empty() {
            taken = side.take(&part.bytes, part.at, known, losses);
        }
        if part.cut > 0 {
            losses.cut_bytes += part.cut as u64;
            side.skip(part.cut, part.at, losses);
        }
        if let Err(hopeless) = taken {
            self.turn_opaque(hopeless, losses);
        }
    }

    fn turn_opaque(&mut self, hopeless: Hopeless, losses: &mut Losses) {
        self.state = State::Opaque;
        self.drop_sides(losses);
        let reason = match hopeless {
            Hopeless::Opaque(reason) => crate::capture::opaque_name(reason),
            Hopeless::NoPlace => "no-place",
        };
        *losses.opaque.entry(reason).or_default() += 1;
        if reason == "tls"
            && let Some(server) = self.connection.upstream()
        {
            losses.tls_servers.insert(server);
        }
    }

    /// Hands on what need not wait any longer.
    fn tell_waiting(&mut self, losses: &mut Losses) {
        loop {
            let mut has_told = false;
            for direction in [Direction::Request, Direction::Response] {
                let (own, other) = self.halves(direction);
                let is_one_way = !other.is_seen;
                let popped = own
                    .order
                    .pop(|acknowledgment| is_one_way || other.order.has_told(acknowledgment));
                if let Some(part) = popped {
                    self.tell(direction, part, losses);
                    has_told = true;
                }
            }
            if !has_told {
                return;
            }
        }
    }

    /// Gives up bytes that have been waited for long enough at `now`.
    pub(super) fn give_up(&mut self, now: Moment, losses: &mut Losses) {
        while self.state == State::Open {
            let mut progress = false;
            for direction in [Direction::Request, Direction::Response] {
                progress |= self.give_up_in(direction, Some(now), losses);
            }
            if !progress {
                return;
            }
            self.tell_waiting(losses);
        }
    }

    /// Gives up the next missing bytes that something in `direction` waits for, if the time has come (at the end it has).
    fn give_up_in(&mut self, direction: Direction, now: Option<Moment>, losses: &mut Losses) -> bool {
        let (own, other) = self.halves(direction);
        let (Some(since), Some(first)) = (own.order.since(), own.order.first_waiting()) else {
            return false;
        };
        let waited = now.map_or(SENT_AGAIN, |now| now.since(since));
        let is_due = |patience| waited >= patience || own.order.is_full();
        let next = own.order.next().unwrap_or(first);
        if distance(next, first) > 0 {
            let is_acknowledged = other
                .order
                .first_acknowledgment()
                .is_some_and(|has| distance(has, first) <= 0);
            let patience = if is_acknowledged { ACKNOWLEDGED } else { SENT_AGAIN };
            if !is_due(patience) {
                return false;
            }
            let Some((length, at)) = own.order.give_up() else {
                return false;
            };
            self.miss(direction, length, at, losses);
            return true;
        }
        // It waits for the other direction, which its sender has received.
        let Some(acknowledgment) = own.order.first_acknowledgment() else {
            return false;
        };
        if !is_due(ACKNOWLEDGED) {
            return false;
        }
        // Of what lies before the first bytes that wait there.
        let to = match other.order.first_waiting() {
            Some(first) if distance(first, acknowledgment) > 0 => first,
            _ => acknowledgment,
        };
        let Some(length) = other.order.advance_to(to) else {
            return false;
        };
        let at = since;
        self.miss(opposite(direction), length, at, losses);
        true
    }

    fn miss(&mut self, direction: Direction, length: usize, at: Moment, losses: &mut Losses) {
        losses.lost_bytes += length as u64;
        let (own, _) = self.halves(direction);
        if let Some(side) = &mut own.side {
            side.skip(length, at, losses);
        }
    }

    /// Ends it: what waits is told, what is missing before it is given up.
    pub(super) fn close(&mut self, losses: &mut Losses) {
        if self.state == State::Closed {
            return;
        }
        self.flush(losses);
        losses.one_way += u64::from(self.client.is_seen != self.server.is_seen);
        self.drop_sides(losses);
        self.state = State::Closed;
    }

    /// Tells all that waits.
    fn flush(&mut self, losses: &mut Losses) {
        while self.state == State::Open && self.is_waiting() {
            self.tell_waiting(losses);
            let [requests, responses] = [Direction::Request, Direction::Response]
                .map(|direction| self.give_up_in(direction, None, losses));
            if !requests && !responses {
                return;
            }
        }
    }

    fn drop_sides(&mut self, losses: &mut Losses) {
        for half in [&mut self.client, &mut self.server] {
            // A side says how many requests there were when it ends: before the connection is closed.
            if let Some(mut side) = half.side.take() {
                side.forget(losses);
            }
            half.order = Order::default();
        }
        self.connection.close();
    }
}

fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Request => Direction::Response,
        Direction::Response => Direction::Request,
    }
}
