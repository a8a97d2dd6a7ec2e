//! One connection, as the audit follows it: chunks become envelopes, requests find their responses.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use cqlens_proto::{
    cutter::{Framing, Negotiated, OpcodeCounts},
    envelope::{Direction, Envelope, Header, Opcode, StreamId},
    message::{Extensions, QueryResult, Response},
    stream::{EnvelopeHead, EnvelopeStream, Gap, StreamItem},
};

use super::{
    budget::{Budget, Share},
    in_flight::{InFlight, Waiting},
    pair::{Found, Missing, Pair, Received, detach},
    session::{ClientAddresses, Session},
};
use crate::capture::{Capture, Connection, Moment};

/// Results that are longer than this, and in parts, are put together only where their rows are looked at.
const LONG: usize = 16 << 10;

/// How much is kept of bodies that are too long to be kept as a whole: metadata and warnings of a result are rarely longer, nor is what
/// stands before the values of a request.
const HEAD: usize = 64 << 10;

/// What is known of a connection.
///
/// Bounded: at most one request for each of the protocol's 32,768 stream ids and one envelope being joined in each direction, as long
/// as the auditor has room for them.
#[derive(Debug)]
pub(super) struct ConnectionState {
    connection: Arc<Connection>,
    requests: Side,
    responses: Side,
    waiting: InFlight,
    /// Requests that came or are known to be missing: what began before a gap and is not among them was left out.
    accounted: u64,
    /// The same by opcode, as far as it is known.
    opcodes: OpcodeCounts,
    /// Requests of `accounted` that are not in `opcodes`, though they would be if more were known of them.
    unnamed: u64,
    /// Compressed segments that are known to be missing.
    hidden_segments: u64,
    /// Chunks of requests that were left out before what came last.
    request_gaps: u64,
    /// Requests that were not understood, or are counted as missing, and whose answers may still come.
    unheard: u64,
    /// Answers to requests that have not come, of a record that has gaps: the request is missing, or is being looked for.
    foretold: VecDeque<Foretold>,
    /// Since nothing waited, requests were left out, or answers.
    doubts: Doubts,
    session: Session,
}

/// An answer whose request has not come.
#[derive(Debug)]
struct Foretold {
    stream_id: StreamId,
    answered_at: Moment,
}

/// Answers beyond are taken for those of missing requests at once.
const MAX_FORETOLD: usize = 4_096;

/// What speaks against taking an answer for that of the request that waits with its stream id.
#[derive(Debug, Default)]
struct Doubts {
    requests_missing: bool,
    answers_missing: bool,
}

/// One direction.
#[derive(Debug)]
struct Side {
    stream: EnvelopeStream,
    /// What the envelope that is being joined takes up.
    kept: Share,
    /// When the first byte of the envelope that is being joined came.
    begun: Option<Moment>,
    /// Something before the next chunk is missing: the place is found again at its boundary, or at that of a later one.
    lost: bool,
}

impl ConnectionState {
    /// A connection of which nothing has been seen.
    pub(super) fn new(connection: Arc<Connection>, budget: Budget, shown: ClientAddresses) -> Self {
        // Not the data path's: it is ahead of the audit.
        let negotiated = Arc::new(Negotiated::new());
        let side = |direction| Side {
            stream: EnvelopeStream::new(direction, Arc::clone(&negotiated))
                .with_long_results(LONG)
                .with_heads(HEAD),
            kept: Share::of(budget.clone()),
            begun: None,
            lost: false,
        };
        Self {
            requests: side(Direction::Request),
            responses: side(Direction::Response),
            waiting: InFlight::new(budget),
            accounted: 0,
            opcodes: OpcodeCounts::default(),
            unnamed: 0,
            hidden_segments: 0,
            request_gaps: 0,
            unheard: 0,
            foretold: VecDeque::new(),
            doubts: Doubts::default(),
            session: Session::new(&connection, shown),
            connection,
        }
    }

    /// The same connection without anything that may be half-done: it goes on at the next boundary of each direction.
    /// Requests that waited for their responses are forgotten; the caller knows how many.
    pub(super) fn afresh(self) -> Self {
        let mut fresh = Self {
            accounted: self.accounted,
            opcodes: self.opcodes,
            unnamed: self.unnamed,
            hidden_segments: self.hidden_segments,
            request_gaps: self.request_gaps,
            session: self.session,
            ..Self::new(self.connection, self.waiting.budget(), ClientAddresses::default())
        };
        fresh.session.is_started = true;
        fresh.requests.lost = true;
        fresh.responses.lost = true;
        fresh
    }

    /// Requests that have been handed on, wait, or are known to be missing.
    pub(super) fn known(&self) -> u64 {
        self.accounted + self.hidden_segments
    }

    /// Requests that wait for their responses.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether the data path is done with the connection.
    pub(super) fn is_closed(&self) -> bool {
        self.connection.is_closed()
    }

    /// Lets go of the buffers of the data path: a request that waits for long would keep one that is many times its size.
    pub(super) fn detach(&mut self) {
        for waiting in self.waiting.not_detached() {
            detach(&mut waiting.request);
            waiting.is_detached = true;
        }
    }

    /// Takes the next chunk and says what became whole with it.
    #[inline]
    pub(super) fn take(&mut self, mut capture: Capture, mut each: impl FnMut(&mut Session, Found)) {
        self.doubt(&capture, &mut each);
        match self.side(capture.direction).take_envelope(&mut capture) {
            Some(envelope) => self.envelope(capture.direction, envelope, capture.at, capture.at, &mut each),
            None => self.take_any(capture, &mut each),
        }
    }

    /// Takes a chunk of any kind.
    fn take_any(&mut self, capture: Capture, each: &mut impl FnMut(&mut Session, Found)) {
        let (direction, at) = (capture.direction, capture.at);
        self.session.is_started |= capture.after_gap.is_some() || capture.gap > 0;
        let side = self.side(direction);
        side.lost |= capture.after_gap.is_some();
        if side.lost {
            side.begun = None;
            if direction == Direction::Request {
                let missing = self.miss(capture.begun, capture.after_gap.as_deref());
                self.tell_missing(missing, each);
            }
        }
        self.side(direction).feed(capture);
        while let Some((item, begun)) = self.side(direction).next(at) {
            match (direction, item) {
                (_, StreamItem::Envelope(envelope)) => {
                    self.envelope(direction, envelope, at, begun, each);
                }
                (Direction::Response, StreamItem::Long(long)) => {
                    self.response(Received::Long(long), begun, each);
                }
                (Direction::Request, StreamItem::Head(head)) => {
                    let EnvelopeHead { envelope, body_len } = *head;
                    self.request(envelope, body_len, at, each);
                }
                (Direction::Response, StreamItem::Head(head)) => {
                    self.response(Received::Head(head), begun, each);
                }
                // The data path has counted the connection as opaque.
                (_, StreamItem::Lost(_)) => {}
                (Direction::Request, StreamItem::Skipped { header, .. }) => {
                    self.arrived(header.opcode);
                    self.unheard += 1;
                    each(&mut self.session, Found::UndecodedRequest);
                }
                // Only results are long.
                (Direction::Request, StreamItem::Damaged(_) | StreamItem::Long(_)) => {
                    self.accounted += 1;
                    self.unnamed += 1;
                    self.unheard += 1;
                    each(&mut self.session, Found::UndecodedRequest);
                }
                (
                    Direction::Response,
                    StreamItem::Skipped {
                        header, begun: body, ..
                    },
                ) => {
                    self.cut_response(header, body, begun, each);
                }
                (Direction::Response, StreamItem::Damaged(_)) => each(&mut self.session, Found::LostResponse),
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
    #[inline]
    fn envelope(
        &mut self,
        direction: Direction,
        envelope: Envelope,
        at: Moment,
        begun: Moment,
        each: &mut impl FnMut(&mut Session, Found),
    ) {
        match direction {
            Direction::Request => {
                let body_len = envelope.body.len();
                self.request(envelope, body_len, at, each);
            }
            Direction::Response => self.response(Received::Whole(envelope), begun, each),
        }
    }

    /// Where an answer was left out its stream id may be in use again, by a request that was left out too: its answer must
    /// not be taken for the other's.
    fn doubt(&mut self, capture: &Capture, each: &mut impl FnMut(&mut Session, Found)) {
        let is_answer_missing = capture.direction == Direction::Response && capture.after_gap.is_some();
        if capture.request_gaps == self.request_gaps && !is_answer_missing {
            return;
        }
        self.doubts.requests_missing |= capture.request_gaps != self.request_gaps;
        self.doubts.answers_missing |= is_answer_missing;
        self.request_gaps = capture.request_gaps;
        if self.waiting.is_empty() {
            self.doubts = Doubts::default();
        }
        if !(self.doubts.requests_missing && self.doubts.answers_missing) {
            return;
        }
        self.doubts = Doubts::default();
        // Answers to PREPARE are kept when others are not.
        let keeps_prepares = !self.connection.misses_prepares();
        let is_doubtful = |request: &Envelope| !(keeps_prepares && request.header.opcode == Opcode::PREPARE);
        for waiting in self.waiting.take(is_doubtful) {
            self.unheard += 1;
            self.unanswered(Some(waiting), false, each);
        }
    }

    /// What was left out at the end of the connection.
    pub(super) fn missing_at_end(&mut self) -> Missing {
        let is_whole = !self.connection.has_gaps() && !self.requests.lost;
        // Without gaps, what is missing is a request that the client never finished.
        if is_whole || self.connection.is_opaque() {
            return Missing::default();
        }
        let connection = Arc::clone(&self.connection);
        self.miss(connection.requests(), connection.requests_by_opcode())
    }

    /// Gives up the requests that never got a response; `missing` were left out at the end.
    pub(super) fn end(mut self, missing: Missing, mut each: impl FnMut(&mut Session, Found)) {
        self.tell_missing(missing, &mut each);
        let foretold = self.foretold.len() as u64;
        if foretold > 0 {
            each(&mut self.session, Found::Dropped(Missing::requests(foretold)));
        }
        for waiting in self.waiting.take(|_| true) {
            self.unanswered(Some(waiting), true, &mut each);
        }
    }

    /// Of the requests that have begun, those that have not come are missing.
    fn miss(&mut self, begun: u64, opcodes: Option<&OpcodeCounts>) -> Missing {
        let hidden = self.connection.hidden_segments();
        let hidden_here = hidden - self.hidden_segments;
        self.hidden_segments = hidden;
        let Some(opcodes) = opcodes else {
            let requests = begun.saturating_sub(self.accounted);
            self.accounted += requests;
            self.unnamed += requests;
            return Missing {
                requests: requests + hidden_here,
                opcodes: OpcodeCounts::default(),
            };
        };
        let opcodes = opcodes.beyond(&self.opcodes);
        self.opcodes.merge(&opcodes);
        let named = u64::from(opcodes.total());
        let known_before = named.min(self.unnamed);
        self.unnamed = 0;
        self.accounted += named - known_before;
        Missing {
            requests: named - known_before + hidden_here,
            opcodes,
        }
    }

    fn tell_missing(&mut self, missing: Missing, each: &mut impl FnMut(&mut Session, Found)) {
        // Of some the answers have come already.
        let requests = usize::try_from(missing.requests).unwrap_or(usize::MAX);
        let foretold = self.foretold.len().min(requests);
        self.foretold.drain(..foretold);
        self.unheard += missing.requests - foretold as u64;
        if missing.requests > 0 || missing.opcodes.total() > 0 {
            each(&mut self.session, Found::Dropped(missing));
        }
    }

    fn arrived(&mut self, opcode: Opcode) {
        self.accounted += 1;
        self.opcodes.add(opcode);
    }

    /// Takes a request, or the head of one, whose body has `body_len` bytes.
    fn request(
        &mut self,
        envelope: Envelope,
        body_len: usize,
        at: Moment,
        each: &mut impl FnMut(&mut Session, Found),
    ) {
        self.arrived(envelope.header.opcode);
        if envelope.header.opcode == Opcode::STARTUP {
            self.session.start(&envelope, &self.connection);
        }
        let stream_id = envelope.header.stream_id;
        let waiting = Waiting {
            request: envelope,
            request_len: body_len,
            at,
            keyspace_changes: self.session.keyspace_changes(),
            is_detached: false,
        };
        if self.has_been_answered(stream_id, at, each) {
            return self.unanswered(Some(waiting), false, each);
        }
        // A stream id that comes again belonged to a request whose response was lost.
        let before = match self.waiting.has_room_for(&waiting) {
            true => self.waiting.insert(waiting),
            false => {
                self.unanswered(Some(waiting), false, each);
                self.waiting.remove(stream_id)
            }
        };
        self.unanswered(before, false, each);
    }

    fn response(&mut self, response: Received, begun: Moment, each: &mut impl FnMut(&mut Session, Found)) {
        let header = response.header();
        if header.opcode == Opcode::EVENT {
            return;
        }
        if !self.session.is_started {
            self.session.is_started = match &response {
                Received::Whole(envelope) => shows_started(header, &envelope.body),
                Received::Head(head) => shows_started(header, &head.envelope.body),
                Received::Long(_) => true,
            };
        }
        let waiting = self.waiting.remove(header.stream_id);
        if let Received::Whole(envelope) = &response
            && envelope.header.opcode == Opcode::SUPPORTED
        {
            self.session.supported(envelope);
        }
        match waiting {
            Some(waiting) => self.answered(waiting, response, begun, each),
            None if is_later_page(&response, self.session.extensions) => {}
            None => {
                self.unasked(header.stream_id, begun, each);
                each(&mut self.session, Found::LostResponse);
            }
        }
    }

    /// Takes a response of which only the header and the beginning of the body are there. That it is an error says more than that there was
    /// an answer.
    fn cut_response(
        &mut self,
        header: Header,
        body: Bytes,
        begun: Moment,
        each: &mut impl FnMut(&mut Session, Found),
    ) {
        self.session.is_started = self.session.is_started || shows_started(&header, &body);
        let waiting = self.waiting.remove(header.stream_id);
        if waiting.is_none() && header.opcode != Opcode::EVENT {
            self.unasked(header.stream_id, begun, each);
        }
        match waiting {
            Some(waiting) if header.opcode == Opcode::ERROR => {
                let response = Received::Head(Box::new(EnvelopeHead {
                    envelope: Envelope { header, body },
                    body_len: header.body_len as usize,
                }));
                self.answered(waiting, response, begun, each);
            }
            waiting => self.unanswered(waiting, false, each),
        }
        each(&mut self.session, Found::LostResponse);
    }

    /// An answer shows that there was a request: where a record has gaps nothing else may.
    fn unasked(
        &mut self,
        stream_id: StreamId,
        answered_at: Moment,
        each: &mut impl FnMut(&mut Session, Found),
    ) {
        if self.unheard > 0 {
            self.unheard -= 1;
        } else if self.connection.is_recorded() && self.connection.has_gaps() {
            if self.foretold.len() >= MAX_FORETOLD {
                self.foretold.pop_front();
                each(&mut self.session, Found::Dropped(Missing::requests(1)));
            }
            self.foretold.push_back(Foretold {
                stream_id,
                answered_at,
            });
        }
    }

    /// Whether the answer to a request of `at` has come before it: after a gap, requests are held back until their place is sure. What
    /// was answered before `at` and has not come by now never comes.
    fn has_been_answered(
        &mut self,
        stream_id: StreamId,
        at: Moment,
        each: &mut impl FnMut(&mut Session, Found),
    ) -> bool {
        if self.foretold.is_empty() {
            return false;
        }
        while self
            .foretold
            .pop_front_if(|foretold| foretold.answered_at <= at)
            .is_some()
        {
            each(&mut self.session, Found::Dropped(Missing::requests(1)));
        }
        let place = self
            .foretold
            .iter()
            .position(|foretold| foretold.stream_id == stream_id);
        place.is_some_and(|place| self.foretold.remove(place).is_some())
    }

    fn answered(
        &mut self,
        waiting: Waiting,
        response: Received,
        begun: Moment,
        each: &mut impl FnMut(&mut Session, Found),
    ) {
        let begun = self.connection.is_timed().then_some(begun);
        let pair = Pair {
            request: waiting.request,
            request_len: waiting.request_len,
            requested_at: waiting.at,
            response: Some((response, begun)),
            keyspace_changes: waiting.keyspace_changes,
            cut_off: false,
        };
        each(&mut self.session, Found::Pair(pair));
    }

    fn unanswered(
        &mut self,
        waiting: Option<Waiting>,
        cut_off: bool,
        each: &mut impl FnMut(&mut Session, Found),
    ) {
        if let Some(waiting) = waiting {
            each(
                &mut self.session,
                Found::Pair(Pair {
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

/// Whether this is one of DSE's continuous pages, which come without being asked for once the first one has answered the request.
#[cold]
fn is_later_page(response: &Received, extensions: Extensions) -> bool {
    let begun;
    let decoded = match response {
        Received::Whole(envelope) => Response::decode(envelope, extensions),
        Received::Head(head) => Response::decode_head(&head.envelope, head.body_len, extensions),
        Received::Long(long) => {
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
        // Before, there are protocol errors, server errors and bad credentials; nothing is compressed, and there are no warnings.
        Opcode::ERROR => header.flags.0 != 0 || !matches!(body.first_chunk(), Some([0, 0, 0..0x10, _])),
        _ => false,
    }
}

impl Side {
    /// The envelope that a chunk is, where it is just one: what most are, and what needs no feeding.
    #[inline]
    fn take_envelope(&mut self, capture: &mut Capture) -> Option<Envelope> {
        let goes_on = !self.lost && capture.after_gap.is_none() && capture.gap == 0;
        if !goes_on || capture.boundary != Some((0, Framing::Envelopes)) {
            return None;
        }
        let taken = self.stream.take_envelope(std::mem::take(&mut capture.bytes));
        taken.map_err(|chunk| capture.bytes = chunk).ok()
    }

    fn feed(&mut self, capture: Capture) {
        let compression = capture.connection.negotiated.compression();
        if self.lost {
            self.lost = capture.boundary.is_none();
            let (boundary, framing) = match capture.boundary {
                Some((offset, framing)) => (Some(offset), framing),
                None => (None, Framing::Envelopes),
            };
            self.stream.feed_after_gap(
                capture.bytes,
                Gap {
                    boundary,
                    framing,
                    compression,
                },
            );
            return;
        }
        if capture.gap > 0 {
            self.stream.skip_gap(capture.gap);
        }
        if let Some((_, framing @ Framing::Segments(_))) = capture.boundary {
            // The other direction's chunk that said so may have been left out.
            self.stream.learn(framing, compression);
        }
        self.stream.feed(capture.bytes);
    }

    /// The next item of the chunk that came at `at`, with the time at which its first byte came.
    fn next(&mut self, at: Moment) -> Option<(StreamItem, Moment)> {
        match self.stream.next_item() {
            Some(item) => Some((item, self.begun.take().unwrap_or(at))),
            None => {
                if self.begun.is_none() && self.stream.is_joining() {
                    self.begun = Some(at);
                }
                if !self.kept.change_to(self.stream.kept()) {
                    self.stream.skip();
                }
                None
            }
        }
    }
}

#[cfg(test)]
mod tests;
