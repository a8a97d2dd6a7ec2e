//! Finds the place again where bytes are missing, or where a capture begins in mid-connection.
//!
//! A place counts as found where what follows cannot be anything else: a segment of version 5 whose two checksums hold (56 bits), or
//! an envelope whose header is one that its direction can have, and whose body decodes to its last byte, with all that follows it: each
//! the same way, up to where a packet ends that is not full. Nine bytes alone are never enough: a bound `int` of 5 before an empty value looks like
//! OPTIONS. Nor is one envelope after another: a bound value may hold whole envelopes (somebody keeps requests in a table), and then
//! something else follows.
//!
//! What cannot be told: bytes that are joined inside such a value, of which an envelope ends where such a packet does (the value
//! ends its request, and the client sends neither page size nor time), or that goes on like that for [`ENOUGH_BYTES`]; and the same with
//! whole segments.

use bytes::Bytes;
use cqlens_proto::{
    compress::{Compression, decompress_body},
    cutter::Framing,
    envelope::{Direction, Envelope, Flags, HEADER_LEN, Header, Opcode, Version},
    message::{BatchQuery, Extensions, Request, Response},
    segment::{self, Encoding, SegmentHeader, TRAILER_LEN},
};

use cqlens_audit::{capture::Moment, memory::Part};

/// Bytes that are kept while the place is looked for: the largest segment, and most envelopes. A place after a longer envelope is
/// found when that has passed.
const MAX_KEPT: usize = 512 << 10;

/// Places that may be right and wait for more bytes.
const MAX_CANDIDATES: usize = 64;

/// Bodies that are believed where nothing else is known of a connection: Cassandra's own limit is 16 MiB by default.
const MAX_BODY: u32 = 64 << 20;

/// What is known of a connection from its other bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// The version of its envelopes.
    pub(super) version: Option<Version>,
    /// How its segments are encoded, where there are segments.
    pub(super) encoding: Option<Encoding>,
}

/// A place that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// How bytes are framed from there on.
    pub(super) framing: Framing,
    /// What the connection has agreed on, as far as it shows.
    pub(super) compression: Compression,
    /// The version of its envelopes; none where segments hide it.
    pub(super) version: Option<Version>,
}

/// What was found, with the bytes that were kept.
#[derive(Debug)]
pub(super) struct Found {
    /// Where it is.
    pub(super) place: Place,
    /// Bytes before it, which nobody can read.
    pub(super) lost: usize,
    /// From there on.
    pub(super) pieces: Vec<(Bytes, Moment)>,
}

/// Looks for a place in contiguous bytes.
#[derive(Debug)]
pub(super) struct Search {
    kept: Vec<u8>,
    /// What all searches keep.
    memory: Part,
    /// What it has taken of that.
    taken: usize,
    /// Where pieces begin in `kept`, and when they were captured.
    pieces: Vec<(usize, Moment)>,
    /// All before it was looked at.
    looked: usize,
    candidates: Vec<Candidate>,
    /// Bytes of the largest packet.
    largest: usize,
    /// Whether the latest packet may be the last one of what its sender has written at once.
    ends_a_write: bool,
}

/// A packet of fewer bytes is not full, whatever the network.
const NOT_FULL: usize = 1_000;

/// A place that may be right, and what follows it.
#[derive(Debug)]
struct Candidate {
    start: usize,
    chain: Chain,
}

impl Candidate {
    fn end(&self) -> usize {
        self.start + self.chain.length
    }
}

/// Envelopes, one after the other, that were looked at so far.
#[derive(Debug, Clone, Copy)]
struct Chain {
    /// Bytes of them.
    length: usize,
    /// Those that cannot be anything else.
    telling: u32,
    version: Option<Version>,
    compression: Compression,
}

/// How long a chain that ends within no packet must be to be believed all the same: longer than most values.
const ENOUGH_BYTES: usize = 128 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    No,
    Maybe,
    /// For so long that it is believed where nothing before it may be right.
    Long(Place),
    Yes(Place),
}

impl Drop for Search {
    fn drop(&mut self) {
        self.memory.give_back(self.taken);
    }
}

impl Search {
    /// Looks for a place from now on; what all searches together keep fits into `memory`.
    pub(super) fn within(memory: Part) -> Self {
        Self {
            kept: Vec::new(),
            memory,
            taken: 0,
            pieces: Vec::new(),
            looked: 0,
            candidates: Vec::new(),
            largest: 0,
            ends_a_write: false,
        }
    }

    /// The same with as much memory as one search needs.
    #[cfg(test)]
    fn alone() -> Self {
        Self::within(Part::new("test", 2 * MAX_KEPT))
    }

    /// Takes as much memory as it uses; gives up all that it keeps where there is no more. How much was given up.
    fn make_room_for(&mut self, bytes: usize) -> usize {
        let kept = self.kept.len();
        if self.memory.has_room_for(bytes) {
            return 0;
        }
        self.memory.count_evicted(1);
        *self = Self::within(self.memory.clone());
        kept
    }

    /// Counts what it keeps.
    fn count(&mut self) {
        let kept = self.kept.capacity();
        self.memory.take(kept);
        self.memory.give_back(std::mem::replace(&mut self.taken, kept));
    }

    /// Bytes that are kept.
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Adds bytes; says how many of the oldest were given up, and what was found.
    pub(super) fn add(
        &mut self,
        direction: Direction,
        known: Known,
        bytes: &[u8],
        at: Moment,
    ) -> (usize, Option<Found>) {
        let given_up = self.make_room_for(bytes.len());
        self.largest = self.largest.max(bytes.len());
        self.ends_a_write = bytes.len() < self.largest.max(NOT_FULL);
        self.pieces.push((self.kept.len(), at));
        self.kept.extend_from_slice(bytes);
        let found = self.look(direction, known);
        if let Some((offset, place)) = found {
            let found = Found {
                place,
                lost: offset,
                pieces: self.pieces_from(offset),
            };
            *self = Self::within(self.memory.clone());
            return (given_up, Some(found));
        }
        let forgotten = self.forget_oldest();
        self.count();
        (given_up + forgotten, None)
    }

    fn look(&mut self, direction: Direction, known: Known) -> Option<(usize, Place)> {
        let mut candidates = std::mem::take(&mut self.candidates);
        let mut found = None;
        let mut is_first = true;
        candidates.retain_mut(|candidate| {
            if found.is_some() {
                return false;
            }
            match self.judge(candidate, direction, known) {
                Verdict::Yes(place) => found = Some((candidate.start, place)),
                Verdict::Long(place) if is_first => found = Some((candidate.start, place)),
                Verdict::Long(_) | Verdict::Maybe => {
                    is_first = false;
                    return true;
                }
                Verdict::No => {}
            }
            false
        });
        self.candidates = candidates;
        while found.is_none() && self.looked < self.kept.len() {
            if let Some(end) = self.chained_to(self.looked) {
                self.looked = end + 1;
                continue;
            }
            let mut candidate = Candidate {
                start: self.looked,
                chain: Chain::new(known.version),
            };
            match self.judge(&mut candidate, direction, known) {
                Verdict::Yes(place) => found = Some((candidate.start, place)),
                Verdict::Long(place) if self.candidates.is_empty() => found = Some((candidate.start, place)),
                Verdict::Maybe if self.kept.len() - candidate.start < segment::MAX_HEADER_LEN + 1 => {
                    // Too few bytes to say anything: they are looked at again.
                    break;
                }
                Verdict::Long(_) | Verdict::Maybe => {
                    if self.candidates.len() == MAX_CANDIDATES {
                        self.candidates.remove(0);
                    }
                    self.candidates.push(candidate);
                    self.looked += 1;
                }
                Verdict::No => self.looked += 1,
            }
        }
        found
    }

    /// The end of the chain that has `offset` in it: an envelope of it is no place of its own.
    fn chained_to(&self, offset: usize) -> Option<usize> {
        let mut chains = self
            .candidates
            .iter()
            .filter(|candidate| candidate.chain.length > 0);
        let chain = chains.find(|candidate| (candidate.start..=candidate.end()).contains(&offset));
        chain.map(Candidate::end)
    }

    fn judge(&self, candidate: &mut Candidate, direction: Direction, known: Known) -> Verdict {
        let bytes = self.kept.get(candidate.start..).unwrap_or_default();
        let mut best = Verdict::No;
        let by_version = known.version.map(Version::uses_segments);
        if by_version != Some(false) && candidate.chain.length == 0 {
            for encoding in [Encoding::Plain, Encoding::Lz4] {
                if known.encoding.is_none_or(|known| known == encoding) {
                    best = best.or(judge_segment(bytes, encoding));
                }
            }
        }
        // Once segments were seen there is nothing without them.
        if known.encoding.is_none() {
            best = best.or(candidate.chain.follow(bytes, direction, self.ends_a_write));
        }
        best
    }

    fn pieces_from(&self, offset: usize) -> Vec<(Bytes, Moment)> {
        let kept = Bytes::copy_from_slice(&self.kept);
        let ends = self.pieces.iter().skip(1).map(|(start, _)| *start);
        let ends = ends.chain([kept.len()]);
        let pieces = self.pieces.iter().zip(ends);
        pieces
            .filter(|(_, end)| *end > offset)
            .map(|((start, at), end)| (kept.slice(offset.max(*start)..end), *at))
            .collect()
    }

    fn forget_oldest(&mut self) -> usize {
        if self.kept.len() <= MAX_KEPT {
            return 0;
        }
        let forgotten = self.kept.len() - MAX_KEPT / 2;
        self.kept.drain(..forgotten);
        let last_gone = self.pieces.iter().rposition(|(start, _)| *start <= forgotten);
        self.pieces.drain(..last_gone.unwrap_or(0));
        for (start, _) in &mut self.pieces {
            *start = start.saturating_sub(forgotten);
        }
        self.looked = self.looked.saturating_sub(forgotten);
        self.candidates.retain(|candidate| candidate.start >= forgotten);
        for candidate in &mut self.candidates {
            candidate.start -= forgotten;
        }
        forgotten
    }
}

impl Verdict {
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes(_) | Self::Long(_), _) | (Self::Maybe, Self::No | Self::Maybe) => self,
            _ => other,
        }
    }
}

fn judge_segment(bytes: &[u8], encoding: Encoding) -> Verdict {
    let Some(header) = bytes.get(..encoding.header_len()) else {
        return Verdict::Maybe;
    };
    // Bits that nothing uses.
    let unused = match encoding {
        Encoding::Plain => header.get(2).map_or(0, |byte| byte & 0xfc),
        Encoding::Lz4 => header.get(4).map_or(0, |byte| byte & 0xf8),
    };
    if unused != 0 {
        return Verdict::No;
    }
    let Ok(header) = SegmentHeader::decode(encoding, header) else {
        return Verdict::No;
    };
    if header.payload_len == 0 {
        return Verdict::No;
    }
    let start = encoding.header_len();
    let end = start + header.payload_len;
    let trailer = bytes.get(end..end + TRAILER_LEN).and_then(<[u8]>::first_chunk);
    let (Some(payload), Some(trailer)) = (bytes.get(start..end), trailer) else {
        return Verdict::Maybe;
    };
    let payload = Bytes::copy_from_slice(payload);
    match segment::open_payload(&header, payload, *trailer) {
        Ok(_) => Verdict::Yes(Place {
            framing: Framing::Segments(encoding),
            compression: match encoding {
                Encoding::Plain => Compression::None,
                Encoding::Lz4 => Compression::Lz4,
            },
            version: None,
        }),
        Err(_) => Verdict::No,
    }
}

impl Chain {
    fn new(version: Option<Version>) -> Self {
        Self {
            length: 0,
            telling: 0,
            version,
            compression: Compression::None,
        }
    }

    /// Goes on where it ended, in the bytes from its beginning to the end of the last packet.
    fn follow(&mut self, bytes: &[u8], direction: Direction, ends_a_write: bool) -> Verdict {
        loop {
            let rest = bytes.get(self.length..).unwrap_or_default();
            if rest.is_empty() {
                return match self.telling > 0 && ends_a_write {
                    true => Verdict::Yes(self.place()),
                    false => self.so_far(),
                };
            }
            let Some(header) = Header::decode_from(rest) else {
                return match begins_header(rest, direction, self.version) {
                    true => self.so_far(),
                    false => Verdict::No,
                };
            };
            if !is_plausible(&header, direction, self.version) {
                return Verdict::No;
            }
            let end = HEADER_LEN + header.body_len as usize;
            let Some(body) = rest.get(HEADER_LEN..end) else {
                return self.so_far();
            };
            let Some((is_telling, used)) = tells(&header, body) else {
                return Verdict::No;
            };
            self.version = Some(header.version);
            self.telling += u32::from(is_telling);
            if used != Compression::None {
                self.compression = used;
            }
            self.length += end;
            // In version 5 only the envelopes before the segments stand alone, and what comes after the last of them is a segment.
            if header.version.uses_segments() && rest.len() > end {
                return Verdict::No;
            }
        }
    }

    fn so_far(&self) -> Verdict {
        match self.telling > 0 && self.length >= ENOUGH_BYTES {
            true => Verdict::Long(self.place()),
            false => Verdict::Maybe,
        }
    }

    fn place(&self) -> Place {
        Place {
            framing: Framing::Envelopes,
            compression: self.compression,
            version: self.version,
        }
    }
}

fn begins_header(bytes: &[u8], direction: Direction, version: Option<Version>) -> bool {
    let Some(first) = bytes.first() else { return true };
    let stated = Version::from_number(*first);
    stated.is_known()
        && Direction::of_version_byte(*first) == direction
        && version.is_none_or(|version| version == stated)
}

/// Whether it can be the header of an envelope of that direction.
fn is_plausible(header: &Header, direction: Direction, version: Option<Version>) -> bool {
    header.is_specified()
        && version.is_none_or(|version| version == header.version)
        && header.direction == direction
        && header.body_len <= MAX_BODY
        && (!header.version.uses_segments() || BEFORE_SEGMENTS.contains(&header.opcode))
}

/// In version 5, what is said before there are segments.
const BEFORE_SEGMENTS: [Opcode; 6] = [
    Opcode::STARTUP,
    Opcode::OPTIONS,
    Opcode::READY,
    Opcode::AUTHENTICATE,
    Opcode::SUPPORTED,
    Opcode::ERROR,
];

/// Whether the body is one of what the header says, and says enough to be nothing else; with its compression. None if it is not.
fn tells(header: &Header, body: &[u8]) -> Option<(bool, Compression)> {
    let (body, compression) = if header.flags.contains(Flags::COMPRESSED) && !header.version.uses_segments() {
        [Compression::Lz4, Compression::Snappy]
            .into_iter()
            .find_map(|compression| {
                let body = decompress_body(compression, body, MAX_BODY as usize).ok()?;
                Some((body, compression))
            })?
    } else {
        (Bytes::copy_from_slice(body), Compression::None)
    };
    let envelope = Envelope {
        header: *header,
        body,
    };
    let is_telling = match header.direction {
        Direction::Request => request_tells(&envelope)?,
        Direction::Response => response_tells(&envelope)?,
    };
    Some((is_telling, compression))
}

/// None where it is no request. Bodies that are empty, or have hardly any form, tell nothing.
fn request_tells(envelope: &Envelope) -> Option<bool> {
    let decoded = Request::decode(envelope, Extensions::NONE).ok()?;
    match decoded.message {
        Request::Options => envelope.body.is_empty().then_some(false),
        Request::AuthResponse(_) => Some(false),
        Request::Startup(startup) => startup.get("CQL_VERSION").map(|_| true),
        Request::Register(register) => {
            let names = ["SCHEMA_CHANGE", "TOPOLOGY_CHANGE", "STATUS_CHANGE"];
            let known = register.event_types.iter().any(|name| names.contains(name));
            known.then_some(true)
        }
        Request::Query(query) => is_cql(query.query).then_some(true),
        Request::Prepare(prepare) => is_cql(prepare.query).then_some(true),
        Request::Execute(execute) => is_id(execute.id.0).then_some(true),
        Request::Batch(batch) => {
            let fits = batch.statements.iter().all(|statement| match statement.query {
                BatchQuery::Text(text) => is_cql(text),
                BatchQuery::Prepared(id) => is_id(id.0),
            });
            fits.then_some(!batch.statements.is_empty())
        }
        _ => None,
    }
}

/// None where it is no response.
fn response_tells(envelope: &Envelope) -> Option<bool> {
    let decoded = Response::decode(envelope, Extensions::NONE).ok()?;
    match decoded.message {
        Response::Ready => envelope.body.is_empty().then_some(false),
        Response::Error(error) => {
            let is_text = !error.message.is_empty() && !error.message.contains(char::is_control);
            Some(is_text)
        }
        Response::Result(_) | Response::Event(_) => Some(true),
        Response::Supported(_) => {
            let text = b"CQL_VERSION";
            let found = envelope.body.windows(text.len()).any(|window| window == text);
            found.then_some(true)
        }
        _ => Some(false),
    }
}

/// An MD5 of the statement, in all servers.
fn is_id(id: &[u8]) -> bool {
    id.len() == 16
}

fn is_cql(text: &str) -> bool {
    text.trim_start()
        .chars()
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, '-' | '/' | '('))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use bytes::BytesMut;
    use cqlens_proto::{
        compress::encode_compressed,
        envelope::StreamId,
        message::{Consistency, Dialect, Extras, Query, QueryParameters},
    };
    use proptest::{collection::vec, prelude::*};

    const AT: Moment = Moment::from_unix_nanoseconds(0);

    fn query(version: Version, stream: i16, cql: &str, compression: Compression) -> Vec<u8> {
        let envelope = Request::Query(Query {
            query: cql,
            parameters: QueryParameters::new(Consistency::One),
        })
        .to_envelope(Dialect::new(version), StreamId(stream), &Extras::default())
        .unwrap();
        let mut out = BytesMut::new();
        encode_compressed(&envelope, compression, &mut out).unwrap();
        out.to_vec()
    }

    fn find(bytes: &[u8], direction: Direction, known: Known) -> Option<(usize, Place)> {
        let (_, found) = Search::alone().add(direction, known, bytes, AT);
        found.map(|found| (found.lost, found.place))
    }

    #[test]
    fn the_next_envelope_is_found_from_any_byte_of_the_one_before() {
        let cql = "SELECT name FROM users WHERE id = 12345";
        for compression in [Compression::None, Compression::Lz4, Compression::Snappy] {
            let one = query(Version::V4, 1, cql, compression);
            let two = query(Version::V4, 2, &cql.repeat(3), compression);
            let bytes = [one.clone(), two].concat();
            for from in 1..one.len() {
                let (lost, place) = find(&bytes[from..], Direction::Request, Known::default()).unwrap();
                assert_eq!((from, lost), (from, one.len() - from));
                assert_eq!(place.framing, Framing::Envelopes);
                assert_eq!(place.version, Some(Version::V4));
            }
        }
    }

    #[test]
    fn the_next_segment_is_found_with_its_encoding() {
        for encoding in [Encoding::Plain, Encoding::Lz4] {
            let payload = query(
                Version::V5,
                1,
                "SELECT * FROM a.b WHERE id = 1",
                Compression::None,
            );
            let mut one = BytesMut::new();
            segment::encode_envelopes(encoding, &payload.repeat(4), &mut one).unwrap();
            let bytes = [&one[..], &one[..]].concat();
            for from in 1..one.len() {
                let (lost, place) = find(&bytes[from..], Direction::Request, Known::default()).unwrap();
                assert_eq!(lost, one.len() - from);
                assert_eq!(place.framing, Framing::Segments(encoding));
            }
        }
    }

    #[test]
    fn a_place_is_found_wherever_pieces_end() {
        let one = query(
            Version::V4,
            1,
            "SELECT name FROM users WHERE id = 12345",
            Compression::None,
        );
        let bytes = [&one[20..], &one[..], &one[..]].concat();
        for size in 1..bytes.len() {
            let mut search = Search::alone();
            let mut found = None;
            let mut seen = 0;
            for piece in bytes.chunks(size) {
                seen += piece.len();
                found = search.add(Direction::Request, Known::default(), piece, AT).1;
                if found.is_some() {
                    break;
                }
            }
            let found = found.unwrap();
            assert_eq!(found.lost, one.len() - 20, "pieces of {size}");
            let pieces: Vec<u8> = found
                .pieces
                .iter()
                .flat_map(|(bytes, _)| bytes.to_vec())
                .collect();
            assert_eq!(pieces, bytes[found.lost..seen]);
        }
    }

    #[test]
    fn a_bound_int_before_an_empty_value_is_no_options() {
        let values = [0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 0];
        assert_eq!(find(&values, Direction::Request, Known::default()), None);
        assert_eq!(
            find(&values.repeat(20), Direction::Request, Known::default()),
            None
        );
    }

    /// A write of a value that holds whole requests, as somebody has who keeps them in a table.
    fn of_requests(count: i16) -> Vec<u8> {
        let inner: Vec<u8> = (0..count)
            .flat_map(|stream| query(Version::V4, stream, "DROP TABLE kept.requests", Compression::None))
            .collect();
        let mut body = vec![0, 16];
        body.extend([7; 16]);
        // ONE; values, page size, time.
        body.extend([0, 1, 0x25, 0, 1]);
        body.extend(u32::try_from(inner.len()).unwrap().to_be_bytes());
        body.extend(inner);
        body.extend([0, 0, 0x13, 0x88, 0, 6, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc]);
        let mut envelope = vec![4, 0, 0, 9, 0x0a];
        envelope.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
        envelope.extend(body);
        envelope
    }

    #[test]
    fn requests_inside_a_value_are_none() {
        let next = query(
            Version::V4,
            2,
            "SELECT name FROM users WHERE id = 1",
            Compression::None,
        );
        for (count, size) in [(3, 10_000), (40, 1_448), (200, 1_448), (200, 4_000)] {
            let one = of_requests(count);
            let bytes = [one.clone(), next.clone()].concat();
            for from in (1..one.len()).step_by(one.len() / 25 + 1) {
                let mut search = Search::alone();
                // Where packets end, but for the last one of a request, is not where a request ends inside.
                let (first, last) = bytes[from..].split_at(one.len() - from);
                let pieces = first.chunks(size).chain([last]);
                let found = pieces
                    .filter_map(|piece| search.add(Direction::Request, Known::default(), piece, AT).1)
                    .next();
                let found = found.unwrap();
                assert_eq!(
                    found.lost,
                    one.len() - from,
                    "{count} in pieces of {size}, from {from}"
                );
            }
        }
    }

    #[test]
    fn a_stream_whose_requests_end_within_packets_is_found_all_the_same() {
        let one = query(
            Version::V4,
            1,
            "SELECT name FROM users WHERE id = 1",
            Compression::None,
        );
        let bytes = one.repeat(ENOUGH_BYTES / one.len() + 40);
        let mut search = Search::alone();
        let mut found = None;
        let mut pieces = bytes[20..].chunks(1_447);
        while found.is_none() {
            found = search
                .add(Direction::Request, Known::default(), pieces.next().unwrap(), AT)
                .1;
        }
        assert_eq!(found.unwrap().lost, one.len() - 20);
    }

    #[test]
    fn what_is_kept_is_bounded_and_what_is_given_up_is_counted() {
        let mut search = Search::alone();
        let (mut forgotten, piece) = (0, vec![0xfe; 10_000]);
        for _ in 0..1_000 {
            forgotten += search.add(Direction::Response, Known::default(), &piece, AT).0;
            assert!(search.kept() <= MAX_KEPT);
        }
        assert_eq!(forgotten + search.kept(), 10_000_000);
        let one = query(
            Version::V4,
            1,
            "SELECT name FROM users WHERE id = 12345",
            Compression::None,
        );
        let (_, found) = search.add(Direction::Request, Known::default(), &one, AT);
        let found = found.unwrap();
        assert_eq!(found.pieces, [(Bytes::from(one), AT)]);
    }

    proptest! {
        #[test]
        fn random_bytes_are_no_place(bytes in vec(any::<u8>(), 0..1_500)) {
            for direction in [Direction::Request, Direction::Response] {
                prop_assert_eq!(find(&bytes, direction, Known::default()), None);
            }
        }

        /// Bytes as bodies have them: small numbers and lengths.
        #[test]
        fn numbers_and_lengths_are_no_place(
            words in vec(prop_oneof![0_u32..20, Just(0x8400_0000), Just(u32::MAX), any::<u32>()], 0..400),
        ) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            for from in 0..4.min(bytes.len()) {
                prop_assert_eq!(find(&bytes[from..], Direction::Request, Known::default()), None);
            }
        }
    }

    #[test]
    fn all_searches_together_keep_to_their_memory() {
        let memory = Part::new("test", 1 << 20);
        let known = Known::default();
        let mut searches: Vec<_> = (0..100).map(|_| Search::within(memory.clone())).collect();
        // A place is never found in this.
        let packet = [0xff; 1_400];
        let mut lost = 0;
        for _ in 0..100 {
            for search in &mut searches {
                lost += search.add(Direction::Request, known, &packet, AT).0;
                // What the vectors have grown to at the most.
                assert!(memory.used() <= 2 * memory.limit(), "{}", memory.used());
            }
        }
        let kept: usize = searches.iter().map(Search::kept).sum();
        assert_eq!(lost + kept, 100 * 100 * packet.len());
        assert!(memory.evicted() > 0);
        drop(searches);
        assert_eq!(memory.used(), 0);
    }
}
