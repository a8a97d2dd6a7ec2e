//! A TCP connection: each direction in order, and both in order with each other.
//!
//! A response must not reach the audit before its request. A segment's acknowledgment says what its sender
//! had received, so its bytes wait until the other direction has delivered that much, or the capture is found
//! to lack it.

mod encrypted;
mod gaps;
mod held;
mod late;
mod sources;

use std::sync::Arc;

use sources::Sources;

use bytes::Bytes;
use cqlens_proto::{
    cutter::{Framing, Opaque},
    envelope::Direction,
};

use super::{
    super::{
        direction::{DirectionParser, GiveUp},
        files::Packet,
        losses::Losses,
        packets::{Headers, Segment},
        resync::KnownFraming,
        tls::{KeyLog, TlsSession},
    },
    beginning::Beginning,
    clocks::{Clocks, Patience},
    four_tuple::FourTuple,
    half::{Acknowledged, HalfConnection, WINDOW},
    reassembler::{Payload, Reassembler, distance},
};
use cqlens_capture::{Connection, ConnectionId, Moment, ReplayQueue, memory};

/// A TCP connection between a client and a node.
#[derive(Debug)]
pub(super) struct TcpConnection {
    connection: Arc<Connection>,
    client: HalfConnection,
    server: HalfConnection,
    known: KnownFraming,
    keys: KeyLog,
    /// Its handshake, if it begins like one of TLS, and its records once they are decrypted.
    tls: Option<Box<TlsSession>>,
    /// Whether parsers get what TLS contains.
    is_decrypted: bool,
    /// The time of its first segment.
    pub(super) begun: Moment,
    /// The time of its last segment.
    pub(super) last: Moment,
    /// Where its segments come from, if that is more than one place.
    sources: Option<Box<Sources>>,
    /// Whether the capture has its first byte.
    pub(super) has_start: bool,
    /// Whether no request has been delivered yet.
    is_silent: bool,
    /// Whether what is said first is held, since it may be said on another connection too.
    may_be_inner: bool,
    /// What was said first, until it is clear which connection this is.
    pub(super) beginning: Option<Box<Beginning>>,
    state: State,
    /// Where its direction is reset, once a reset was captured and bytes before it were not.
    reset: Option<(Direction, u32)>,
    /// None as long as all directions seem to have one.
    clocks: Option<Box<Clocks>>,
    /// What is added to the times of responses, in nanoseconds: see [`Clocks::shift`].
    shift: i64,
    patience: Arc<Patience>,
    /// Whether it is open, both directions are captured, and nothing is buffered: then in-order segments need
    /// no reassembly.
    is_in_order: bool,
    /// The same for acknowledgments alone, before the first request.
    is_in_order_but_silent: bool,
}

/// How long a closed connection is remembered, for late segments.
pub(super) const TIME_WAIT: std::time::Duration = std::time::Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Not parsed: not CQL, or encrypted.
    Opaque,
    /// Not parsed: behind a relay, before which it is parsed.
    Relayed,
    /// Closed; late segments still belong to it.
    Closed,
}

impl TcpConnection {
    /// A connection whose first captured segment is `segment`. It is decrypted if its secrets are in `keys`, and waits as long as
    /// has paid off in other connections of the capture.
    pub(super) fn new(
        connection: Arc<Connection>,
        segment: &Segment,
        queue: &Arc<ReplayQueue>,
        searching: &memory::Part,
        keys: &KeyLog,
        patience: &Arc<Patience>,
        losses: &mut Losses,
    ) -> Self {
        let from_start = segment.syn;
        losses.begun_before += u64::from(!from_start);
        let half = |direction| HalfConnection {
            reassembler: Reassembler::default(),
            parser: Some(DirectionParser::new(
                &connection,
                direction,
                queue,
                searching,
                from_start,
            )),
            syn: None,
            sent_until: None,
            out_of_window: None,
            is_seen: false,
            is_absent: false,
        };
        Self {
            client: half(Direction::Request),
            server: half(Direction::Response),
            connection,
            known: KnownFraming::default(),
            keys: keys.clone(),
            tls: None,
            is_decrypted: false,
            begun: segment.at,
            last: segment.at,
            sources: None,
            has_start: from_start,
            is_silent: true,
            may_be_inner: false,
            beginning: None,
            state: State::Open,
            reset: None,
            clocks: None,
            shift: 0,
            patience: Arc::clone(patience),
            is_in_order: false,
            is_in_order_but_silent: false,
        }
    }

    /// Whether `segment` belongs to a later connection between the same ports.
    pub(super) fn is_replaced_by(&self, segment: &Segment, direction: Direction) -> bool {
        if self.is_closed() && segment.at.since(self.last) >= TIME_WAIT {
            return true;
        }
        let own = match direction {
            Direction::Request => &self.client,
            Direction::Response => &self.server,
        };
        if !segment.syn {
            // The gap in the capture is larger than any window, perhaps of hours.
            let away = own
                .reassembler
                .next()
                .map_or(0, |next| distance(next, segment.sequence));
            let carries = !segment.payload.is_empty() && !segment.rst;
            return carries && !self.is_closed() && away.unsigned_abs() > WINDOW.unsigned_abs();
        }
        if let Some(syn) = own.syn {
            return syn != segment.sequence;
        }
        match (direction, segment.acknowledgment, self.client.syn) {
            (Direction::Response, Some(acknowledgment), Some(syn)) => syn.wrapping_add(1) != acknowledgment,
            // A SYN may be retransmitted before anything else was captured.
            _ => self.state == State::Closed || own.is_seen,
        }
    }

    /// Whether both sides have sent FIN.
    fn is_ending(&self) -> bool {
        self.client.reassembler.end().is_some() && self.server.reassembler.end().is_some()
    }

    /// Whether bytes are buffered, or the end is waited for.
    pub(super) fn is_waiting(&self) -> bool {
        let something_waits =
            self.client.reassembler.since().is_some() || self.server.reassembler.since().is_some();
        something_waits || (self.state == State::Open && (self.is_ending() || self.reset.is_some()))
    }

    /// Its id; ids count up.
    pub(super) fn id(&self) -> ConnectionId {
        self.connection.id
    }

    /// Buffered bytes of both directions.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.client.reassembler.buffered_bytes() + self.server.reassembler.buffered_bytes()
    }

    /// Notes that the capture has no times for it.
    pub(super) fn lack_times(&self) {
        self.connection.lack_times();
    }

    /// Whether it is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether a plain segment is the next of its direction, has acknowledged only delivered bytes, and finds
    /// nothing buffered.
    #[inline]
    pub(super) fn continues_with(&self, headers: &Headers, direction: Direction) -> bool {
        let (own, other) = match direction {
            Direction::Request => (&self.client, &self.server),
            Direction::Response => (&self.server, &self.client),
        };
        let is_answered = |next| (1 - WINDOW..=0).contains(&distance(next, headers.acknowledgment));
        let is_in_order = self.is_in_order
            || (self.is_in_order_but_silent && headers.payload.is_empty() && headers.cut == 0);
        is_in_order
            && own.reassembler.next() == Some(headers.sequence)
            && other.reassembler.next().is_some_and(is_answered)
    }

    /// The short cut of [`TcpConnection::take`] for a segment for which [`TcpConnection::continues_with`]
    /// holds.
    #[inline]
    pub(super) fn take_in_order(
        &mut self,
        headers: &Headers,
        packet: &Packet<'_>,
        direction: Direction,
        losses: &mut Losses,
    ) {
        self.last = self.last.max(packet.at);
        let bytes = packet.bytes.get(headers.payload.clone()).unwrap_or_default();
        let length = bytes.len() + headers.cut;
        if length == 0 {
            return;
        }
        let share = || packet.share(headers.payload.clone());
        let at = self.corrected(packet.at, direction);
        let (own, _) = self.halves(direction);
        own.reassembler.pass(length);
        if headers.cut == 0
            && let Some(parser) = &mut own.parser
            && parser.take_whole(bytes, share, at)
        {
            losses.seen_bytes += length as u64;
        } else {
            self.deliver(direction, share(), headers.cut, packet.at, losses);
        }
    }

    /// Updates whether in-order segments need reassembly.
    fn update_in_order(&mut self) {
        let is_plain = self.state == State::Open && !self.is_decrypted && self.reset.is_none();
        let is_plain = is_plain && self.beginning.is_none() && self.sources.is_none();
        let is_quiet = is_plain && self.client.is_quiet() && self.server.is_quiet();
        self.is_in_order = is_quiet && !self.is_silent;
        self.is_in_order_but_silent = is_quiet && self.is_silent;
    }

    /// Takes any segment that travels in `direction`, captured between the ends of `from`.
    pub(super) fn take(
        &mut self,
        segment: Segment,
        from: FourTuple,
        direction: Direction,
        losses: &mut Losses,
    ) {
        self.reassemble(segment, from, direction, losses);
        self.update_in_order();
    }

    /// Delivers the bytes of a segment, or buffers them.
    fn reassemble(&mut self, segment: Segment, from: FourTuple, direction: Direction, losses: &mut Losses) {
        self.last = self.last.max(segment.at);
        if self.state == State::Closed {
            self.count_late(&segment, direction, losses);
        }
        if self.state != State::Open || (segment.rst && !self.believes_reset(&segment, direction)) {
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
        // What a reset carries is a text for people (RFC 9293 §3.5.3).
        let length = match segment.rst {
            true => 0,
            false => u32::try_from(payload.len() + cut).unwrap_or(u32::MAX),
        };
        let acknowledgment =
            acknowledgment.filter(|number| self.believes(opposite(direction), *number, losses));
        let has_start = self.has_start;
        let (own, other) = self.halves(direction);
        if segment.syn {
            own.syn.get_or_insert(sequence);
            first = sequence.wrapping_add(1);
        }
        own.is_seen = true;
        own.is_absent = false;
        own.reassembler.begin(first);
        if !has_start && !segment.rst {
            let too_late = own.reassembler.go_back(first, payload.len()) as u64;
            losses.seen_bytes += too_late;
            losses.unplaced_bytes += too_late;
        }
        // Whether a reset tells what was sent, only its end shows.
        if !segment.rst {
            own.note_sent_until(first);
        }
        let mut is_far_behind = false;
        if let Some(acknowledgment) = acknowledgment {
            other.reassembler.begin(acknowledgment);
            is_far_behind = other.note_sent_until(acknowledgment);
        }
        if segment.fin {
            let end = first.wrapping_add(length);
            own.reassembler.finish(end);
            own.note_sent_until(end);
        }
        if other.is_absent || is_far_behind {
            self.skip_until(opposite(direction), acknowledgment, at, losses);
        }
        let cut = match &mut self.sources {
            Some(sources) => sources.cut_off(from, cut),
            None => cut,
        };
        if length > 0 {
            self.note_clocks(direction, first..first.wrapping_add(length), at, losses);
            let part = Payload {
                sequence: first,
                bytes: payload,
                cut,
                at,
                acknowledgment,
            };
            let (own, other) = self.halves(direction);
            let may_pass = other.reassembler.has_delivered(acknowledgment);
            if let Some(part) = own.reassembler.take(part, may_pass) {
                self.deliver(direction, part.bytes, part.cut, part.at, losses);
            }
        }
        if self.is_waiting() {
            self.deliver_buffered(losses);
            self.give_up_due(at, losses);
        }
        let both_have_ended = self.client.reassembler.is_finished() && self.server.reassembler.is_finished();
        if both_have_ended {
            self.reset = None;
        }
        if self.is_reset_by(segment.rst, direction, first, length) || both_have_ended {
            self.close(losses);
        }
    }

    /// Whether an acknowledgment of `direction` is believed. Where it shows that an uncaptured direction has
    /// moved on by more than a window, the bytes in between are not counted: sequence numbers may have
    /// wrapped around since.
    fn believes(&mut self, direction: Direction, number: u32, losses: &mut Losses) -> bool {
        let (own, _) = self.halves(direction);
        match own.locate(number) {
            Acknowledged::InWindow => true,
            Acknowledged::OutOfWindow => false,
            Acknowledged::Advanced => {
                self.flush(losses);
                let (own, _) = self.halves(direction);
                own.reassembler = Reassembler::default();
                own.sent_until = None;
                true
            }
        }
    }

    #[inline]
    fn halves(&mut self, direction: Direction) -> (&mut HalfConnection, &mut HalfConnection) {
        match direction {
            Direction::Request => (&mut self.client, &mut self.server),
            Direction::Response => (&mut self.server, &mut self.client),
        }
    }

    /// Hands `bytes`, which are in order, to the parser, and skips `cut` bytes that the snap length cut off
    /// behind them. What TLS contains goes there instead once it can be decrypted.
    fn deliver(&mut self, direction: Direction, bytes: Bytes, cut: usize, at: Moment, losses: &mut Losses) {
        if let Some(bytes) = self.hold(direction, bytes, cut, at, losses) {
            self.hand_on(direction, bytes, cut, at, losses);
        }
    }

    fn hand_on(&mut self, direction: Direction, bytes: Bytes, cut: usize, at: Moment, losses: &mut Losses) {
        let at = self.corrected(at, direction);
        let decrypted = self.follow_tls(direction, &bytes, cut);
        losses.seen_bytes += bytes.len() as u64;
        losses.cut_bytes += cut as u64;
        if !self.is_decrypted {
            self.parse(direction, bytes, cut, at, losses);
        }
        if self.is_decrypted {
            self.parse_decrypted(direction, decrypted, at, losses);
        }
    }

    fn parse(&mut self, direction: Direction, bytes: Bytes, cut: usize, at: Moment, losses: &mut Losses) {
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
        let Some(parser) = &mut half.parser else { return };
        let mut taken = Ok(());
        if !bytes.is_empty() {
            taken = parser.take(bytes, at, known, losses);
        }
        if cut > 0 {
            parser.skip(cut, at, losses);
        }
        match taken {
            Err(give_up) => self.turn_opaque(give_up, losses),
            Ok(()) => self.turn_opaque_if_both_are(losses),
        }
    }

    /// What each direction looks like, if not like CQL.
    fn looks(&self) -> [Option<Opaque>; 2] {
        [&self.client, &self.server].map(|half| half.parser.as_ref().and_then(DirectionParser::looks_like))
    }

    fn turn_opaque_if_both_are(&mut self, losses: &mut Losses) {
        if let [Some(reason), Some(_)] = self.looks() {
            self.turn_opaque(GiveUp::Opaque(reason), losses);
        }
    }

    /// At the end of the connection, when no CQL has been found behind the first bytes.
    fn turn_opaque_if_one_is(&mut self, losses: &mut Losses) {
        if let [Some(reason), _] | [_, Some(reason)] = self.looks() {
            self.turn_opaque(GiveUp::Opaque(reason), losses);
        }
    }

    fn turn_opaque(&mut self, give_up: GiveUp, losses: &mut Losses) {
        if give_up == GiveUp::Opaque(Opaque::Tls) && self.begin_decrypting() {
            return;
        }
        self.state = State::Opaque;
        let reason = match give_up {
            GiveUp::Opaque(reason) => cqlens_capture::opaque_name(reason),
            GiveUp::NoSyncPoint => "no-place",
        };
        *losses.opaque.entry(reason).or_default() += 1;
        if reason == "tls"
            && let Some(server) = self.connection.upstream()
        {
            self.note_tls(losses.tls_servers.entry(server).or_default());
        }
        self.drop_parsers(losses);
    }

    /// Closes it: delivers what is buffered and gives up what is missing.
    pub(super) fn close(&mut self, losses: &mut Losses) {
        if self.state == State::Closed {
            return;
        }
        self.end_by_reset();
        self.flush(losses);
        self.release(losses);
        if self.state == State::Open {
            self.skip_missing_ends(losses);
            self.turn_opaque_if_one_is(losses);
        }
        losses.one_way += u64::from(self.client.is_seen != self.server.is_seen);
        let places = [&self.client, &self.server].map(|half| half.reassembler.next());
        self.drop_parsers(losses);
        self.state = State::Closed;
        for (half, place) in [&mut self.client, &mut self.server].into_iter().zip(places) {
            half.reassembler = Reassembler::at(place);
        }
    }

    fn drop_parsers(&mut self, losses: &mut Losses) {
        self.beginning = None;
        self.end_tls(losses);
        self.is_in_order = false;
        self.is_in_order_but_silent = false;
        let parsers = [&self.client, &self.server].map(|half| half.parser.as_ref());
        let is_understood = parsers.into_iter().flatten().any(DirectionParser::is_understood);
        losses.understood += u64::from(is_understood);
        for half in [&mut self.client, &mut self.server] {
            // A parser reports its number of requests when it is dropped: before the connection is closed.
            if let Some(mut parser) = half.parser.take() {
                parser.forget(losses);
            }
            half.reassembler = Reassembler::default();
        }
        self.connection.close(self.last);
    }
}

fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Request => Direction::Response,
        Direction::Response => Direction::Request,
    }
}
