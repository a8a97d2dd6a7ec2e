//! One connection, as the audit follows it: requests find their responses.

pub(crate) mod budget;
pub(crate) mod event;
pub(crate) mod gaps;
pub(crate) mod in_flight;
#[cfg(test)]
mod keyspaces;
pub(crate) mod session;
pub(crate) mod side;

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::{
    cutter::Negotiated,
    envelope::{Direction, Envelope, Header, Opcode, StreamId},
    message::{Extensions, QueryResult, Response},
    stream::{EnvelopeHead, StreamItem},
};

use crate::audit::connection::{
    budget::Budget,
    event::{ConnectionEvent, MissingRequests, RawExchange, ReceivedResponse, detach},
    gaps::{EarlyResponses, RequestCounts},
    in_flight::{InFlight, PendingRequest},
    session::{ClientAddresses, Session},
    side::Side,
};
use cqlens_capture::{Capture, Connection, Moment};

/// What is known of a connection.
///
/// Bounded: at most one request for each of the protocol's 32,768 stream ids and one envelope being joined in
/// each direction, as long as the auditor has room for them.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    connection: Arc<Connection>,
    requests: Side,
    responses: Side,
    waiting: InFlight,
    counts: RequestCounts,
    /// Chunks of requests that were left out before the last chunk.
    request_gaps: u64,
    early: EarlyResponses,
    /// What was left out since nothing was in flight.
    ambiguity: Ambiguity,
    session: Session,
}

/// What speaks against taking an answer for that of the request in flight with its stream id: with both, the
/// id may belong to a request that was left out.
#[derive(Debug, Default)]
struct Ambiguity {
    requests_missing: bool,
    answers_missing: bool,
}

impl ConnectionState {
    /// A connection of which nothing has been seen.
    pub(crate) fn new(connection: Arc<Connection>, budget: Budget, shown: ClientAddresses) -> Self {
        // Not the data path's: it is ahead of the audit.
        let negotiated = Arc::new(Negotiated::new());
        let side = |direction| Side::new(direction, &negotiated, &budget);
        Self {
            requests: side(Direction::Request),
            responses: side(Direction::Response),
            waiting: InFlight::new(budget),
            counts: RequestCounts::default(),
            request_gaps: 0,
            early: EarlyResponses::default(),
            ambiguity: Ambiguity::default(),
            session: Session::new(&connection, shown),
            connection,
        }
    }

    /// The same connection without anything that may be half-done: it goes on at the next boundary of each
    /// direction. Requests that waited for their responses are forgotten; the caller knows how many.
    pub(crate) fn afresh(self) -> Self {
        let mut fresh = Self {
            counts: self.counts,
            request_gaps: self.request_gaps,
            session: self.session,
            ..Self::new(self.connection, self.waiting.budget(), ClientAddresses::default())
        };
        fresh.session.has_started();
        fresh.requests.lost = true;
        fresh.responses.lost = true;
        fresh
    }

    /// Requests that have been handed on, are in flight, or are known to be missing.
    pub(crate) fn known(&self) -> u64 {
        self.counts.known()
    }

    /// Requests that wait for their responses.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the data path is done with the connection.
    pub(crate) fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    /// Lets go of the buffers of the data path: a request that waits for long would keep one that is many
    /// times its size.
    pub(crate) fn detach(&mut self) {
        for waiting in self.waiting.not_detached() {
            detach(&mut waiting.request);
            waiting.is_detached = true;
        }
    }

    /// Takes the next chunk and says what became whole with it.
    #[inline]
    pub(crate) fn take(&mut self, mut capture: Capture, mut each: impl FnMut(&mut Session, ConnectionEvent)) {
        self.give_up_ambiguous(&capture, &mut each);
        match self.side(capture.direction).take_envelope(&mut capture) {
            Some(envelope) => self.envelope(capture.direction, envelope, capture.at, capture.at, &mut each),
            None => self.take_any(capture, &mut each),
        }
    }

    /// Takes a chunk of any kind.
    fn take_any(&mut self, capture: Capture, each: &mut impl FnMut(&mut Session, ConnectionEvent)) {
        let (direction, at) = (capture.direction, capture.at);
        if self.misses_some(&capture) {
            self.session.has_started();
        }
        let side = self.side(direction);
        side.lost |= capture.after_gap.is_some();
        if side.lost {
            side.begun = None;
            if direction == Direction::Request {
                let hidden = self.connection.hidden_segments();
                let missing = self
                    .counts
                    .miss(capture.begun, capture.after_gap.as_deref(), hidden);
                self.hand_on_missing(missing, each);
            }
        }
        self.side(direction).feed(capture);
        loop {
            while let Some((envelope, begun)) = self.side(direction).next_whole(at) {
                self.envelope(direction, envelope, at, begun, each);
            }
            match self.side(direction).next(at) {
                Some((item, begun)) => self.item(direction, item, at, begun, each),
                None => return,
            }
        }
    }

    /// Whether something may have been left out before a chunk. Where a request could not be read and the node has refused it, the
    /// next one has a place of its own, and nothing is missing.
    fn misses_some(&self, capture: &Capture) -> bool {
        let may_be_refused = capture.direction == Direction::Request && capture.request_gaps == 0;
        let is_counted = may_be_refused && !self.connection.is_recorded();
        capture.gap > 0 || (capture.after_gap.is_some() && !is_counted)
    }

    /// Takes an item of a chunk that came at `at`, whose first byte came at `begun`. Rare, so out of line:
    /// envelopes that lie whole in their chunk are taken before.
    #[inline(never)]
    fn item(
        &mut self,
        direction: Direction,
        item: StreamItem,
        at: Moment,
        begun: Moment,
        each: &mut impl FnMut(&mut Session, ConnectionEvent),
    ) {
        match (direction, item) {
            (_, StreamItem::Envelope(envelope)) => {
                self.envelope(direction, envelope, at, begun, each);
            }
            (Direction::Response, StreamItem::Long(long)) => {
                self.response(ReceivedResponse::Long(long), begun, each);
            }
            (Direction::Request, StreamItem::Head(head)) => {
                let EnvelopeHead { envelope, body_len } = *head;
                self.request(envelope, body_len, at, each);
            }
            (Direction::Response, StreamItem::Head(head)) => {
                self.response(ReceivedResponse::Head(head), begun, each);
            }
            // The data path has counted the connection as opaque.
            (_, StreamItem::Lost(_)) => {}
            (Direction::Request, StreamItem::Skipped { header, .. }) => {
                self.counts.arrived(header.opcode);
                self.early.expect(1);
                each(&mut self.session, ConnectionEvent::UndecodedRequest);
            }
            // Only results are long.
            (Direction::Request, StreamItem::Damaged(_) | StreamItem::Long(_)) => {
                self.counts.arrived_without_opcode();
                self.early.expect(1);
                each(&mut self.session, ConnectionEvent::UndecodedRequest);
            }
            (
                Direction::Response,
                StreamItem::Skipped {
                    header, begun: body, ..
                },
            ) => {
                self.cut_response(header, body, begun, each);
            }
            (Direction::Response, StreamItem::Damaged(_)) => {
                self.waiting.forget_stand_ins();
                each(&mut self.session, ConnectionEvent::LostResponse);
            }
        }
    }

    #[inline]
    fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Request => &mut self.requests,
            Direction::Response => &mut self.responses,
        }
    }

    /// Takes an envelope that began and ended then.
    #[inline(always)]
    fn envelope(
        &mut self,
        direction: Direction,
        envelope: Envelope,
        at: Moment,
        begun: Moment,
        each: &mut impl FnMut(&mut Session, ConnectionEvent),
    ) {
        match direction {
            Direction::Request => {
                let body_len = envelope.body.len();
                self.request(envelope, body_len, at, each);
            }
            Direction::Response => self.response(ReceivedResponse::Whole(envelope), begun, each),
        }
    }

    /// Where an answer was left out its stream id may be in use again, by a request that was left out too:
    /// its answer must not be taken for the other's. So requests in flight are given up where both were left
    /// out.
    fn give_up_ambiguous(&mut self, capture: &Capture, each: &mut impl FnMut(&mut Session, ConnectionEvent)) {
        let is_answer_missing = capture.direction == Direction::Response && capture.after_gap.is_some();
        if capture.request_gaps == self.request_gaps && !is_answer_missing {
            return;
        }
        self.ambiguity.requests_missing |= capture.request_gaps != self.request_gaps;
        self.ambiguity.answers_missing |= is_answer_missing;
        self.request_gaps = capture.request_gaps;
        self.waiting.forget_stand_ins();
        if self.waiting.is_empty() {
            self.ambiguity = Ambiguity::default();
        }
        if !(self.ambiguity.requests_missing && self.ambiguity.answers_missing) {
            return;
        }
        self.ambiguity = Ambiguity::default();
        // Answers to PREPARE are kept when others are not.
        let keeps_prepares = !self.connection.misses_prepares();
        let is_ambiguous =
            |waiting: &PendingRequest| !(keeps_prepares && waiting.request.header.opcode == Opcode::PREPARE);
        for waiting in self.waiting.take(is_ambiguous) {
            self.early.expect(waiting.responses().into());
            self.unanswered(Some(waiting), false, each);
        }
    }

    /// What was left out at the end of the connection.
    pub(crate) fn missing_at_end(&mut self) -> MissingRequests {
        let is_whole = !self.connection.has_gaps() && !self.requests.lost;
        // Without gaps, what is missing is a request that the client never finished.
        if is_whole || self.connection.is_opaque() {
            return MissingRequests::default();
        }
        let connection = &self.connection;
        if connection.ends_unfinished()
            && let Some(opcode) = self.requests.unfinished()
        {
            self.counts.arrived(opcode);
        }
        let hidden = connection.hidden_segments();
        self.counts
            .miss(connection.requests(), connection.requests_by_opcode(), hidden)
    }

    /// Gives up the requests that never got a response; `missing` were left out at the end.
    pub(crate) fn end(
        mut self,
        missing: MissingRequests,
        mut each: impl FnMut(&mut Session, ConnectionEvent),
    ) {
        self.hand_on_missing(missing, &mut each);
        let missing = self.early.len();
        if missing > 0 {
            each(
                &mut self.session,
                ConnectionEvent::MissingRequests(MissingRequests::requests(missing)),
            );
        }
        for waiting in self.waiting.take(|_| true) {
            self.unanswered(Some(waiting), true, &mut each);
        }
    }

    fn hand_on_missing(
        &mut self,
        missing: MissingRequests,
        each: &mut impl FnMut(&mut Session, ConnectionEvent),
    ) {
        self.early.are_missing(missing.requests);
        if missing.requests > 0 || missing.opcodes.total() > 0 {
            each(&mut self.session, ConnectionEvent::MissingRequests(missing));
        }
    }

    /// Takes a request, or the head of one, whose body has `body_len` bytes.
    ///
    /// Inlined, as [`response`](Self::response) is: each call would copy the envelope, in other pieces than it was
    /// written in just before, and the processor would wait for those writes.
    #[inline(always)]
    fn request(
        &mut self,
        envelope: Envelope,
        body_len: usize,
        at: Moment,
        each: &mut impl FnMut(&mut Session, ConnectionEvent),
    ) {
        let Envelope { header, body } = envelope;
        self.counts.arrived(header.opcode);
        if header.opcode == Opcode::STARTUP {
            // A reference to the envelope itself would keep it in memory, to be copied from there.
            let body = Bytes::copy_from_slice(&body);
            self.session.start(&Envelope { header, body });
        }
        if self.session.is_layout_open(&header) {
            let body = Bytes::copy_from_slice(&body);
            self.session.decide_layout(&Envelope { header, body }, body_len);
        }
        let stream_id = header.stream_id;
        let waiting = PendingRequest {
            request: Envelope { header, body },
            request_len: body_len,
            at,
            keyspace_changes: self.session.keyspace_changes(),
            is_detached: false,
            responses_owed: 0,
        };
        if self.has_been_answered(stream_id, at, each) {
            return self.unanswered(Some(waiting), false, each);
        }
        let before = match self.waiting.has_room_for(&waiting) {
            true => self.waiting.insert(waiting),
            false => {
                self.unanswered(Some(waiting), false, each);
                self.waiting.remove(stream_id)
            }
        };
        if let Some(before) = before {
            self.stream_id_again(before, at, each);
        }
    }

    /// A stream id comes again while the request `before` waits for its response. Where something was left out, that
    /// may be the response. Where nothing was, a client has two requests in flight with one id: a response to either would be taken
    /// for that of the other, and what PREPARE and DDL are answered with holds for all clients. So neither gets one.
    #[cold]
    fn stream_id_again(
        &mut self,
        before: PendingRequest,
        at: Moment,
        each: &mut impl FnMut(&mut Session, ConnectionEvent),
    ) {
        let (header, responses) = (before.request.header, before.responses());
        self.unanswered(Some(before), false, each);
        let misses_some =
            self.connection.is_recorded() || self.connection.has_gaps() || self.ambiguity.answers_missing;
        if misses_some {
            return;
        }
        let last = self.waiting.remove(header.stream_id);
        self.unanswered(last, false, each);
        let responses = responses.saturating_add(1);
        self.waiting
            .insert(PendingRequest::stand_in(header, at, responses));
    }

    /// A response to one of several requests with one stream id.
    #[cold]
    fn response_to_any(
        &mut self,
        stand_in: PendingRequest,
        each: &mut impl FnMut(&mut Session, ConnectionEvent),
    ) {
        let left = stand_in.responses() - 1;
        if left > 0 {
            self.waiting.insert(PendingRequest {
                responses_owed: left,
                ..stand_in
            });
        }
        each(&mut self.session, ConnectionEvent::LostResponse);
    }

    #[inline(always)]
    fn response(
        &mut self,
        response: ReceivedResponse,
        begun: Moment,
        each: &mut impl FnMut(&mut Session, ConnectionEvent),
    ) {
        let header = response.header();
        if header.opcode == Opcode::EVENT {
            return;
        }
        if !self.session.is_started {
            let shows_started = match &response {
                ReceivedResponse::Whole(envelope) => shows_started(header, &envelope.body),
                ReceivedResponse::Head(head) => shows_started(header, &head.envelope.body),
                ReceivedResponse::Long(_) => true,
            };
            self.before_start(*header, shows_started);
        }
        let waiting = self.waiting.remove(header.stream_id);
        if let ReceivedResponse::Whole(envelope) = &response {
            if envelope.header.opcode == Opcode::SUPPORTED {
                self.session.supported(envelope);
            }
            if self.session.is_layout_open(header) {
                self.session.decide_layout(envelope, envelope.body.len());
            }
        }
        match waiting {
            Some(waiting) if waiting.is_stand_in() => self.response_to_any(waiting, each),
            Some(waiting) => self.answered(waiting, response, begun, each),
            None if is_later_page(&response, self.session.extensions) => {}
            None => {
                self.without_request(header.stream_id, begun, each);
                each(&mut self.session, ConnectionEvent::LostResponse);
            }
        }
    }

    /// Takes the header of a response that comes before the session is started, or starts it.
    #[cold]
    fn before_start(&mut self, header: Header, shows_started: bool) {
        self.session.answer(&header);
        if shows_started {
            self.session.has_started();
        }
    }

    /// Takes a response of which only the header and the beginning of the body are there. That it is an error
    /// says more than that there was an answer.
    fn cut_response(
        &mut self,
        header: Header,
        body: Bytes,
        begun: Moment,
        each: &mut impl FnMut(&mut Session, ConnectionEvent),
    ) {
        if !self.session.is_started {
            self.before_start(header, shows_started(&header, &body));
        }
        let waiting = self.waiting.remove(header.stream_id);
        if waiting.is_none() && header.opcode != Opcode::EVENT {
            self.without_request(header.stream_id, begun, each);
        }
        match waiting {
            Some(waiting) if waiting.is_stand_in() => return self.response_to_any(waiting, each),
            Some(waiting) if header.opcode == Opcode::ERROR => {
                let response = ReceivedResponse::Head(Box::new(EnvelopeHead {
                    envelope: Envelope { header, body },
                    body_len: header.body_len as usize,
                }));
                self.answered(waiting, response, begun, each);
            }
            waiting => self.unanswered(waiting, false, each),
        }
        each(&mut self.session, ConnectionEvent::LostResponse);
    }

    /// Takes a response without a request in flight. It shows that there was one: where a record has gaps
    /// nothing else may.
    fn without_request(
        &mut self,
        stream_id: StreamId,
        answered_at: Moment,
        each: &mut impl FnMut(&mut Session, ConnectionEvent),
    ) {
        let may_be_early = self.connection.is_recorded() && self.connection.has_gaps();
        if self.early.came(stream_id, answered_at, may_be_early) {
            each(
                &mut self.session,
                ConnectionEvent::MissingRequests(MissingRequests::requests(1)),
            );
        }
    }

    /// Whether the response to a request of `at` has come before it.
    fn has_been_answered(
        &mut self,
        stream_id: StreamId,
        at: Moment,
        each: &mut impl FnMut(&mut Session, ConnectionEvent),
    ) -> bool {
        for _ in 0..self.early.give_up_before(at) {
            each(
                &mut self.session,
                ConnectionEvent::MissingRequests(MissingRequests::requests(1)),
            );
        }
        self.early.take(stream_id)
    }

    #[inline(always)]
    fn answered(
        &mut self,
        waiting: PendingRequest,
        response: ReceivedResponse,
        begun: Moment,
        each: &mut impl FnMut(&mut Session, ConnectionEvent),
    ) {
        let begun = self.connection.is_timed().then_some(begun);
        let raw = RawExchange {
            request: waiting.request,
            request_len: waiting.request_len,
            requested_at: waiting.at,
            response: Some((response, begun)),
            keyspace_changes: waiting.keyspace_changes,
            cut_off: false,
        };
        each(&mut self.session, ConnectionEvent::Exchange(raw));
    }

    #[inline]
    fn unanswered(
        &mut self,
        waiting: Option<PendingRequest>,
        cut_off: bool,
        each: &mut impl FnMut(&mut Session, ConnectionEvent),
    ) {
        if let Some(waiting) = waiting.filter(|waiting| !waiting.is_stand_in()) {
            each(
                &mut self.session,
                ConnectionEvent::Exchange(RawExchange {
                    request: waiting.request,
                    request_len: waiting.request_len,
                    requested_at: waiting.at,
                    response: None,
                    keyspace_changes: waiting.keyspace_changes,
                    cut_off,
                }),
            );
        }
    }
}

/// Whether this is one of DSE's continuous pages, which come without a request of their own once the first
/// one has answered it.
#[cold]
fn is_later_page(response: &ReceivedResponse, extensions: Extensions) -> bool {
    let begun;
    let decoded = match response {
        ReceivedResponse::Whole(envelope) => Response::decode(envelope, extensions),
        ReceivedResponse::Head(head) => Response::decode_head(&head.envelope, head.body_len, extensions),
        ReceivedResponse::Long(long) => {
            begun = long.head();
            Response::decode(&begun, extensions)
        }
    };
    let Ok(Response::Result(QueryResult::Rows(rows))) = decoded.map(|decoded| decoded.message) else {
        return false;
    };
    rows.metadata.continuous_page.is_some_and(|page| page.number > 1)
}

/// Whether a server answers so only on a connection whose STARTUP is complete, or completes it so.
fn shows_started(header: &Header, body: &[u8]) -> bool {
    match header.opcode {
        Opcode::READY | Opcode::AUTH_SUCCESS | Opcode::RESULT => true,
        // Before, there are protocol errors, server errors and bad credentials; nothing is compressed, and
        // there are no warnings.
        Opcode::ERROR => header.flags.0 != 0 || !matches!(body.first_chunk(), Some([0, 0, 0..0x10, _])),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
