//! Finds the place again where bytes are missing, or where a capture begins in mid-connection.
//!
//! A place counts as found where what follows cannot be anything else: a segment of version 5 whose two checksums hold (56 bits), or
//! an envelope whose header is one that its direction can have, whose body decodes to its last byte, and that is followed by another
//! such header, or ends where the bytes end. Nine bytes alone are never enough: a bound `int` of 5 before an empty value looks like
//! OPTIONS.

use bytes::Bytes;
use cqlens_proto::{
    compress::{Compression, decompress_body},
    cutter::Framing,
    envelope::{Direction, Envelope, Flags, HEADER_LEN, Header, Opcode, StreamId, Version},
    message::{Extensions, Request, Response},
    segment::{self, Encoding, SegmentHeader, TRAILER_LEN},
};

use crate::capture::Moment;

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
#[derive(Debug, Default)]
pub(super) struct Search {
    kept: Vec<u8>,
    /// Where pieces begin in `kept`, and when they were captured.
    pieces: Vec<(usize, Moment)>,
    /// All before it was looked at.
    looked: usize,
    candidates: Vec<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    No,
    Maybe,
    Yes(Place),
}

impl Search {
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
        self.pieces.push((self.kept.len(), at));
        self.kept.extend_from_slice(bytes);
        let found = self.look(direction, known);
        if let Some((offset, place)) = found {
            let found = Found {
                place,
                lost: offset,
                pieces: self.pieces_from(offset),
            };
            *self = Self::default();
            return (0, Some(found));
        }
        (self.forget_oldest(), None)
    }

    fn look(&mut self, direction: Direction, known: Known) -> Option<(usize, Place)> {
        let mut candidates = std::mem::take(&mut self.candidates);
        let mut found = None;
        candidates.retain(|offset| match self.judge(*offset, direction, known) {
            Verdict::Yes(place) => {
                found.get_or_insert((*offset, place));
                false
            }
            Verdict::Maybe => true,
            Verdict::No => false,
        });
        self.candidates = candidates;
        while found.is_none() && self.looked < self.kept.len() {
            let offset = self.looked;
            match self.judge(offset, direction, known) {
                Verdict::Yes(place) => found = Some((offset, place)),
                Verdict::Maybe if self.kept.len() - offset < segment::MAX_HEADER_LEN + 1 => {
                    // Too few bytes to say anything: they are looked at again.
                    break;
                }
                Verdict::Maybe => {
                    if self.candidates.len() == MAX_CANDIDATES {
                        self.candidates.remove(0);
                    }
                    self.candidates.push(offset);
                    self.looked += 1;
                }
                Verdict::No => self.looked += 1,
            }
        }
        found
    }

    fn judge(&self, offset: usize, direction: Direction, known: Known) -> Verdict {
        let bytes = self.kept.get(offset..).unwrap_or_default();
        let mut best = Verdict::No;
        let by_version = known.version.map(Version::uses_segments);
        if by_version != Some(false) {
            for encoding in [Encoding::Plain, Encoding::Lz4] {
                if known.encoding.is_none_or(|known| known == encoding) {
                    best = best.or(judge_segment(bytes, encoding));
                }
            }
        }
        // Once segments were seen there is nothing without them.
        if known.encoding.is_none() {
            best = best.or(judge_envelopes(bytes, direction, known.version));
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
        self.candidates.retain(|offset| *offset >= forgotten);
        for offset in &mut self.candidates {
            *offset -= forgotten;
        }
        forgotten
    }
}

impl Verdict {
    fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes(_), _) | (Self::Maybe, Self::No | Self::Maybe) => self,
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

/// Follows a chain of envelopes.
fn judge_envelopes(bytes: &[u8], direction: Direction, version: Option<Version>) -> Verdict {
    let mut version = version;
    let mut compression = Compression::None;
    let mut rest = bytes;
    // Envelopes that cannot be anything else.
    let mut telling = 0;
    loop {
        let here = |telling: u32, version| match telling {
            0 => Verdict::Maybe,
            _ => Verdict::Yes(Place {
                framing: Framing::Envelopes,
                compression,
                version,
            }),
        };
        if rest.is_empty() {
            return if bytes.is_empty() {
                Verdict::Maybe
            } else {
                here(telling, version)
            };
        }
        let Some(header) = Header::decode_from(rest) else {
            return match begins_header(rest, direction, version) {
                true => Verdict::Maybe,
                false => Verdict::No,
            };
        };
        if !is_plausible(&header, direction, version) {
            return Verdict::No;
        }
        if telling > 0 {
            return here(telling, version);
        }
        version = Some(header.version);
        let end = HEADER_LEN + header.body_len as usize;
        let Some(body) = rest.get(HEADER_LEN..end) else {
            return Verdict::Maybe;
        };
        match tells(&header, body) {
            Some((is_telling, used)) => {
                telling += u32::from(is_telling);
                if used != Compression::None {
                    compression = used;
                }
            }
            None => return Verdict::No,
        }
        rest = rest.get(end..).unwrap_or_default();
        // In version 5 only the envelopes before the segments stand alone, and what comes after the last of them is a segment.
        if header.version.uses_segments() && !rest.is_empty() {
            return Verdict::No;
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
    let (flags, opcodes) = match direction {
        Direction::Request => (
            Flags::COMPRESSED.with(Flags::TRACING).with(Flags::CUSTOM_PAYLOAD).with(Flags::USE_BETA),
            &REQUESTS[..],
        ),
        Direction::Response => (
            Flags::COMPRESSED.with(Flags::TRACING).with(Flags::CUSTOM_PAYLOAD).with(Flags::WARNING),
            &RESPONSES[..],
        ),
    };
    let is_event = header.opcode == Opcode::EVENT;
    let stream_fits = if is_event {
        header.stream_id == StreamId::EVENT
    } else {
        header.stream_id.0 >= 0
    };
    header.version.is_known()
        && version.is_none_or(|version| version == header.version)
        && header.direction == direction
        && header.flags.without(flags) == Flags::NONE
        && stream_fits
        && opcodes.contains(&header.opcode)
        && header.body_len <= MAX_BODY
        && (!header.version.uses_segments() || BEFORE_SEGMENTS.contains(&header.opcode))
}

const REQUESTS: [Opcode; 8] = [
    Opcode::STARTUP,
    Opcode::OPTIONS,
    Opcode::QUERY,
    Opcode::PREPARE,
    Opcode::EXECUTE,
    Opcode::REGISTER,
    Opcode::BATCH,
    Opcode::AUTH_RESPONSE,
];

const RESPONSES: [Opcode; 8] = [
    Opcode::ERROR,
    Opcode::READY,
    Opcode::AUTHENTICATE,
    Opcode::SUPPORTED,
    Opcode::RESULT,
    Opcode::EVENT,
    Opcode::AUTH_CHALLENGE,
    Opcode::AUTH_SUCCESS,
];

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
    let is_empty = body.is_empty();
    let envelope = Envelope {
        header: *header,
        body,
    };
    let decodes = match header.direction {
        Direction::Request => request_tells(&envelope),
        Direction::Response => Response::decode(&envelope, Extensions::NONE).is_ok(),
    };
    decodes.then_some((!is_empty, compression))
}

fn request_tells(envelope: &Envelope) -> bool {
    let Ok(decoded) = Request::decode(envelope, Extensions::NONE) else {
        return false;
    };
    match decoded.message {
        Request::Query(query) => is_cql(query.query),
        Request::Prepare(prepare) => is_cql(prepare.query),
        // An MD5 of the statement, in all servers.
        Request::Execute(execute) => execute.id.0.len() == 16,
        _ => true,
    }
}

fn is_cql(text: &str) -> bool {
    text.trim_start()
        .chars()
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, '-' | '/' | '('))
}
