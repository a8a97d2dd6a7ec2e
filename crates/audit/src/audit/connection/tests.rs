#![allow(clippy::unwrap_used)]
use super::*;
use crate::audit::connection::side::HEAD;
use bytes::{BufMut, BytesMut};
use cqlens_capture::{Clock, ConnectionId, Queue, QueueLimits, Tap};
use cqlens_proto::{
    compress::{Compression, encode_compressed},
    envelope::{Flags, StreamId, Version},
    message::{Consistency, Dialect, Extras, Query, QueryParameters, Request, Startup},
    segment::{self, Encoding},
};
use proptest::{collection::vec, prelude::*};

fn budget(bytes: usize) -> Budget {
    Budget::of(cqlens_capture::memory::Part::new("test", bytes))
}

/// One connection from the data path's tap to the audit's state.
struct Line {
    queue: Arc<Queue>,
    requests: Tap,
    responses: Tap,
    state: ConnectionState,
    seen: Seen,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    answered: u64,
    unanswered: u64,
    undecoded: u64,
    dropped: u64,
    lost_responses: u64,
}

impl Seen {
    fn note(&mut self, found: &ConnectionEvent) {
        match found {
            ConnectionEvent::Exchange(RawExchange {
                response: Some(_), ..
            }) => self.answered += 1,
            ConnectionEvent::Exchange(_) => self.unanswered += 1,
            ConnectionEvent::UndecodedRequest => self.undecoded += 1,
            ConnectionEvent::MissingRequests(missing) => self.dropped += missing.requests,
            ConnectionEvent::LostResponse => self.lost_responses += 1,
        }
    }
}

impl Line {
    fn with_room_for(captures: usize) -> Self {
        let queue = Arc::new(Queue::new(QueueLimits {
            bytes: captures * (size_of::<Capture>() + 200),
        }));
        let connection = Arc::new(Connection::new(ConnectionId(0), "127.0.0.1:5".parse().unwrap()));
        let tap = |direction| {
            Tap::new(
                Arc::clone(&connection),
                direction,
                Arc::clone(&queue),
                Clock::start(),
            )
        };
        let (requests, responses) = (tap(Direction::Request), tap(Direction::Response));
        let state = ConnectionState::new(Arc::clone(&connection), budget(128 << 20), ClientAddresses::Full);
        Self {
            requests,
            responses,
            queue,
            state,
            seen: Seen::default(),
        }
    }

    fn audit(&mut self) {
        while let Some(capture) = self.queue.pop() {
            self.state.take(capture, |_, found| self.seen.note(&found));
        }
    }

    fn finish(mut self) -> Seen {
        self.audit();
        let mut seen = self.seen;
        let missing = self.state.missing_at_end();
        self.state.end(missing, |_, found| seen.note(&found));
        seen
    }
}

fn query(version: Version, stream: i16, cql: &str) -> BytesMut {
    let query = Query {
        query: cql,
        parameters: QueryParameters::new(Consistency::One),
    };
    let dialect = Dialect::new(version);
    let envelope = Request::Query(query)
        .to_envelope(dialect, StreamId(stream), &Extras::default())
        .unwrap();
    let mut bytes = BytesMut::new();
    envelope.encode(&mut bytes).unwrap();
    bytes
}

fn ready(version: Version, stream: i16) -> BytesMut {
    let header = Header::response(version, StreamId(stream), Opcode::READY);
    let mut bytes = BytesMut::new();
    Envelope {
        header,
        body: Bytes::new(),
    }
    .encode(&mut bytes)
    .unwrap();
    bytes
}

/// A page of DSE's continuous paging: no columns, no rows.
fn continuous_page(stream: i16, number: u8) -> BytesMut {
    let rows = [[0, 0, 0, 2], [0x40, 0, 0, 4], [0; 4], [0, 0, 0, number], [0; 4]].concat();
    let envelope = Envelope {
        header: Header::response(Version::DseV2, StreamId(stream), Opcode::RESULT),
        body: rows.into(),
    };
    let mut bytes = BytesMut::new();
    envelope.encode(&mut bytes).unwrap();
    bytes
}

#[test]
fn continuous_pages_answer_one_request_and_none_is_lost() {
    let mut line = Line::with_room_for(1_000);
    line.requests
        .offer(&query(Version::DseV2, 1, "SELECT * FROM t").freeze());
    for number in 1..=3 {
        line.responses.offer(&continuous_page(1, number).freeze());
    }
    // No request asked for these: the first one counts as lost.
    for number in 1..=2 {
        line.responses.offer(&continuous_page(2, number).freeze());
    }
    let seen = Seen {
        answered: 1,
        lost_responses: 1,
        ..Seen::default()
    };
    assert_eq!(line.finish(), seen);
}

#[test]
fn a_response_that_there_is_no_room_for_costs_its_own_exchange_only() {
    let mut line = Line::with_room_for(1_000);
    line.state = ConnectionState::new(
        Arc::clone(&line.state.connection),
        budget(50_000),
        ClientAddresses::Full,
    );
    for stream in [1, 2] {
        line.requests
            .offer(&query(Version::V4, stream, "SELECT k FROM s.t").freeze());
    }
    let mut wire = BytesMut::new();
    Envelope {
        header: Header::response(Version::V4, StreamId(1), Opcode::RESULT),
        body: Bytes::from(vec![0; 60_000]),
    }
    .encode(&mut wire)
    .unwrap();
    wire.extend_from_slice(&ready(Version::V4, 2));
    // More than half of what may be kept comes before the rest.
    for part in wire.freeze().chunks(30_000) {
        line.responses.offer(&Bytes::copy_from_slice(part));
    }
    let seen = line.finish();
    assert_eq!((seen.answered, seen.unanswered, seen.lost_responses), (1, 1, 1));
}

#[test]
fn a_response_finds_its_request_whatever_the_order() {
    let mut line = Line::with_room_for(100);
    for stream in [1, 2, 3] {
        line.requests
            .offer(&query(Version::V4, stream, "SELECT k FROM s.t").freeze());
    }
    for stream in [3, 1] {
        line.responses.offer(&ready(Version::V4, stream).freeze());
    }
    let seen = line.finish();
    assert_eq!(
        seen,
        Seen {
            answered: 2,
            unanswered: 1,
            ..Seen::default()
        }
    );
}

#[test]
fn no_response_is_taken_for_that_of_another_request_with_the_same_stream_id() {
    let mut line = Line::with_room_for(1_000);
    let request = |line: &mut Line| {
        line.requests
            .offer(&query(Version::V4, 5, "SELECT k FROM s.t").freeze());
    };
    let response = |line: &mut Line| line.responses.offer(&ready(Version::V4, 5).freeze());
    request(&mut line);
    request(&mut line);
    response(&mut line);
    // Two are in flight again: the next response may belong to either.
    request(&mut line);
    response(&mut line);
    response(&mut line);
    // All have been answered: the next one has the id for itself.
    request(&mut line);
    response(&mut line);
    let seen = line.finish();
    assert_eq!(
        seen,
        Seen {
            answered: 1,
            unanswered: 3,
            lost_responses: 3,
            ..Seen::default()
        }
    );
}

#[test]
fn the_answer_to_a_request_that_was_left_out_is_nobody_elses() {
    let mut line = Line::with_room_for(1);
    line.requests
        .offer(&query(Version::V4, 1, &"a".repeat(100)).freeze());
    // Left out: its answer, and the next request with its stream id.
    line.responses.offer(&ready(Version::V4, 1).freeze());
    line.requests
        .offer(&query(Version::V4, 1, &"b".repeat(100)).freeze());
    line.audit();
    line.responses.offer(&ready(Version::V4, 1).freeze());
    let expected = Seen {
        unanswered: 1,
        dropped: 1,
        lost_responses: 1,
        ..Seen::default()
    };
    assert_eq!(line.finish(), expected);
}

#[test]
fn the_place_is_found_again_after_a_gap_inside_a_long_envelope() {
    let mut line = Line::with_room_for(1);
    let mut wire = query(Version::V4, 1, &"x".repeat(300));
    wire.extend_from_slice(&query(Version::V4, 2, "SELECT k FROM s.t"));
    line.requests.offer(&wire.split_to(100).freeze());
    // Left out; what comes next is the inside of the same envelope still.
    line.requests.offer(&wire.split_to(100).freeze());
    line.audit();
    line.requests.offer(&wire.split_to(100).freeze());
    line.audit();
    line.requests.offer(&wire.freeze());
    line.audit();
    line.requests
        .offer(&query(Version::V4, 3, "SELECT k FROM s.t").freeze());
    let expected = Seen {
        unanswered: 2,
        dropped: 1,
        ..Seen::default()
    };
    assert_eq!(line.finish(), expected);
}

#[test]
fn what_goes_on_afresh_finds_its_place_and_counts_what_it_missed() {
    let mut line = Line::with_room_for(100);
    let select = || query(Version::V4, 1, "SELECT k FROM s.t");
    line.requests.offer(&select().freeze());
    let mut two = query(Version::V4, 2, "SELECT k FROM s.t");
    two.extend_from_slice(&query(Version::V4, 3, "SELECT k FROM s.t"));
    line.requests.offer(&two.split_to(20).freeze());
    line.audit();
    let known = line.state.known();
    assert_eq!((known, line.state.waiting()), (1, 1));
    line.state = line.state.afresh();
    // The rest of one request, and another.
    line.requests.offer(&two.freeze());
    line.audit();
    assert_eq!(line.seen.dropped, 1, "of the second request only a part is there");
    assert_eq!((line.state.known(), line.state.waiting()), (3, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Requests in any split; the audit looks now and then, and has room for few chunks.
    #[test]
    fn what_is_left_out_is_counted_and_nothing_is_invented(
        lengths in vec(0usize..300, 1..60), cuts in vec(1usize..200, 1..120), looks in vec(any::<bool>(), 120), room in 1usize..6,
    ) {
        let mut line = Line::with_room_for(room);
        let mut wire = BytesMut::new();
        for (stream, length) in (0i16..).zip(&lengths) {
            wire.extend_from_slice(&query(Version::V4, stream, &"x".repeat(*length)));
        }
        for (cut, look) in cuts.iter().cycle().zip(looks.iter().cycle()) {
            if wire.is_empty() {
                break;
            }
            line.requests.offer(&wire.split_to((*cut).min(wire.len())).freeze());
            if *look {
                line.audit();
            }
        }
        let seen = line.finish();
        prop_assert_eq!(seen.answered + seen.undecoded, 0);
        prop_assert_eq!(seen.unanswered + seen.dropped, lengths.len() as u64);
    }

    /// The same in version 5 segments: what is in plain segments is counted one by one.
    #[test]
    fn what_is_left_out_of_segments_is_counted(
        count in 1i16..60, cuts in vec(1usize..200, 1..120), looks in vec(any::<bool>(), 120), room in 2usize..6,
    ) {
        let mut line = Line::with_room_for(room);
        let mut startup = BytesMut::new();
        let options = Startup { options: vec![("CQL_VERSION", "3.0.0")] };
        Request::Startup(options)
            .to_envelope(Dialect::new(Version::V5), StreamId(0), &Extras::default()).unwrap()
            .encode(&mut startup).unwrap();
        line.requests.offer(&startup.freeze());
        line.responses.offer(&ready(Version::V5, 0).freeze());
        line.audit();
        let mut wire = BytesMut::new();
        for stream in 0..count {
            segment::encode_envelopes(Encoding::Plain, &query(Version::V5, stream, "SELECT k FROM s.t"), &mut wire).unwrap();
        }
        for (cut, look) in cuts.iter().cycle().zip(looks.iter().cycle()) {
            if wire.is_empty() {
                break;
            }
            line.requests.offer(&wire.split_to((*cut).min(wire.len())).freeze());
            if *look {
                line.audit();
            }
        }
        let seen = line.finish();
        prop_assert_eq!((seen.answered, seen.undecoded), (1, 0));
        prop_assert_eq!(seen.unanswered + seen.dropped, u64::try_from(count).unwrap());
    }
}

#[test]
fn of_bodies_that_are_too_long_no_more_is_kept_than_a_head() {
    let length = 100 << 20;
    for (compression, room) in [
        (Flags::NONE, 2 * HEAD),
        (Flags::COMPRESSED, 2 * (HEAD + length / 255)),
    ] {
        let mut line = Line::with_room_for(1_000_000);
        line.requests
            .offer(&query(Version::V4, 1, "SELECT k FROM s.t").freeze());
        line.audit();
        let header = Header {
            flags: compression,
            body_len: u32::try_from(length).unwrap(),
            ..Header::response(Version::V4, StreamId(1), Opcode::RESULT)
        };
        // An LZ4 block of literals alone, as long as it says.
        let mut body = BytesMut::new();
        if compression == Flags::COMPRESSED {
            body.put_u32(u32::try_from(length).unwrap());
            body.put_u8(0xf0);
            body.put_bytes(255, length / 255);
        }
        let chunk = Bytes::from(vec![0; 64 << 10]);
        let taken = allocation_counter::measure(|| {
            line.responses.offer(&Bytes::copy_from_slice(&header.encode()));
            let mut left = length;
            for part in body.chunks(64 << 10) {
                line.responses.offer(&Bytes::copy_from_slice(part));
                left -= part.len();
                line.audit();
            }
            while left > 0 {
                let part = chunk.slice(..left.min(chunk.len()));
                left -= part.len();
                line.responses.offer(&part);
                line.audit();
            }
        });
        assert_eq!((line.seen.answered, line.seen.lost_responses), (1, 0));
        // What is kept grows by doubling, and the queue has room for what waits.
        let limit = 2 * room + (1 << 20);
        assert!(
            taken.bytes_max <= limit as u64,
            "{} bytes of {limit}",
            taken.bytes_max
        );
    }
}

fn wire(envelope: &Envelope) -> Bytes {
    let mut bytes = BytesMut::new();
    envelope.encode(&mut bytes).unwrap();
    bytes.freeze()
}

fn startup(stream: i16, application: &'static str, compression: &'static str) -> Bytes {
    let options = vec![("APPLICATION_NAME", application), ("COMPRESSION", compression)];
    let startup = Request::Startup(Startup { options });
    let dialect = Dialect::new(Version::V4);
    wire(
        &startup
            .to_envelope(dialect, StreamId(stream), &Extras::default())
            .unwrap(),
    )
}

fn answer(stream: i16, opcode: Opcode, body: &'static [u8]) -> Bytes {
    let header = Header::response(Version::V4, StreamId(stream), opcode);
    let body = Bytes::from_static(body);
    wire(&Envelope { header, body })
}

/// A code and an empty text.
const PROTOCOL_ERROR: &[u8] = &[0, 0, 0, 10, 0, 0];

#[test]
fn a_client_is_who_it_was_when_the_server_accepted_it() {
    for is_early in [false, true] {
        for accepts in [Opcode::READY, Opcode::AUTHENTICATE] {
            let mut line = Line::with_room_for(1_000);
            line.requests.offer(&startup(1, "first", "lz4"));
            if is_early {
                line.requests.offer(&startup(2, "second", "snappy"));
            }
            line.responses.offer(&answer(1, accepts, &[0, 0]));
            if !is_early {
                line.requests.offer(&startup(2, "second", "snappy"));
            }
            line.responses.offer(&answer(2, Opcode::ERROR, PROTOCOL_ERROR));
            line.audit();
            assert_eq!(&*line.state.session.client, "first 127.0.0.1");
            // What is compressed as the server accepted it is read, both ways.
            let query = Request::Query(Query {
                query: "SELECT k FROM s.t",
                parameters: QueryParameters::new(Consistency::One),
            });
            let mut compressed = BytesMut::new();
            let query = query.to_envelope(Dialect::new(Version::V4), StreamId(3), &Extras::default());
            encode_compressed(&query.unwrap(), Compression::Lz4, &mut compressed).unwrap();
            line.requests.offer(&compressed.freeze());
            line.responses.offer(&answer(3, Opcode::RESULT, &[0, 0, 0, 1]));
            line.audit();
            assert_eq!((line.seen.answered, line.seen.undecoded), (3, 0));
        }
    }
}

#[test]
fn a_client_is_who_it_says_after_a_refusal() {
    for is_early in [false, true] {
        let mut line = Line::with_room_for(1_000);
        line.requests.offer(&startup(1, "first", "zip"));
        if !is_early {
            line.responses.offer(&answer(1, Opcode::ERROR, PROTOCOL_ERROR));
            line.audit();
            assert!(line.state.session.is_only_claimed());
            assert_eq!(&*line.state.session.client, "first 127.0.0.1", "who was refused");
        }
        line.requests.offer(&startup(2, "second", "lz4"));
        if is_early {
            line.responses.offer(&answer(1, Opcode::ERROR, PROTOCOL_ERROR));
        }
        line.responses.offer(&answer(2, Opcode::READY, &[]));
        line.audit();
        assert_eq!(&*line.state.session.client, "second 127.0.0.1");
        assert!(!line.state.session.is_only_claimed());
    }
}
