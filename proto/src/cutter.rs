//! Finds where envelopes and segments begin, from header lengths alone: the data path's view of a connection.
//!
//! A cutter keeps a few counters per direction. It never buffers an envelope and never looks into a body, with one
//! exception: STARTUP, which names the compression. What cannot be cut is *opaque*: the cutter says so once, with the
//! reason, and says nothing more about the connection.

mod negotiated;
mod walk;

use std::sync::Arc;

pub use self::negotiated::{Framing, Negotiated};
pub use self::walk::Opaque;
use self::walk::{EnvelopeWalk, Passed, PassedSegment, SegmentWalk};
use crate::envelope::{Direction, Envelope, Header, Opcode};
use crate::segment::Encoding;

/// What a chunk holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cut {
    /// Offset in the chunk at which the first envelope (or segment) starts, if one does.
    pub first_boundary: Option<usize>,
    /// How the bytes are framed at that boundary.
    pub framing: Option<Framing>,
    /// Envelopes whose header ends in this chunk before that boundary, by opcode; all of them if there is none.
    pub envelopes_before_boundary: OpcodeCounts,
    /// Segments that start in this chunk; 0 where there are no segments.
    pub segments: u32,
    /// Envelopes whose header ends in this chunk, by opcode. Empty where segments are compressed.
    pub envelopes: OpcodeCounts,
    /// Whether a part of a PREPARE or of the answer to one is in this chunk, or of a header that may be one's. What is inside
    /// compressed segments cannot be told.
    pub prepares: bool,
    /// Set in the chunk in which the direction turned opaque.
    pub opaque: Option<Opaque>,
    /// Bytes of that chunk before the place where it did.
    pub opaque_at: usize,
}

/// How many envelopes there were of each opcode. Counts begin anew at 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpcodeCounts {
    counts: [u32; OpcodeCounts::KNOWN],
    other: u32,
    /// Of all, asked for more often than they are counted.
    total: u32,
}

impl OpcodeCounts {
    const KNOWN: usize = 17;

    /// Counts one envelope.
    #[inline]
    pub fn add(&mut self, opcode: Opcode) {
        match self.counts.get_mut(usize::from(opcode.0)) {
            Some(count) => *count = count.wrapping_add(1),
            None => self.other = self.other.wrapping_add(1),
        }
        self.total = self.total.wrapping_add(1);
    }

    /// Adds another chunk's counts.
    pub fn merge(&mut self, other: &OpcodeCounts) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.wrapping_add(more);
        }
        self.other = self.other.wrapping_add(other.other);
        self.total = self.total.wrapping_add(other.total);
    }

    /// What has been counted here and not in `known`, which is behind by less than 2^31 of any opcode.
    #[must_use]
    pub fn beyond(&self, known: &OpcodeCounts) -> OpcodeCounts {
        // Of an opcode of which `known` has more there is nothing beyond.
        let beyond = |ours: u32, known: u32| match ours.wrapping_sub(known) {
            more @ ..0x8000_0000 => more,
            _ => 0,
        };
        let mut left = OpcodeCounts {
            counts: self.counts,
            other: beyond(self.other, known.other),
            total: 0,
        };
        for (count, known) in left.counts.iter_mut().zip(known.counts) {
            *count = beyond(*count, known);
        }
        left.total = left.counts.iter().sum::<u32>() + left.other;
        left
    }

    /// Every opcode of the specification with its count; all others together are under 255.
    pub fn iter(&self) -> impl Iterator<Item = (Opcode, u32)> + '_ {
        let known = (0..)
            .zip(self.counts)
            .map(|(number, count)| (Opcode(number), count));
        known.chain([(Opcode(u8::MAX), self.other)])
    }

    /// Envelopes of one opcode of the specification; for any other opcode, of all others together.
    pub fn of(&self, opcode: Opcode) -> u32 {
        self.counts
            .get(usize::from(opcode.0))
            .copied()
            .unwrap_or(self.other)
    }

    /// All envelopes.
    pub fn total(&self) -> u32 {
        self.total
    }
}

/// Where missing bytes were.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skipped {
    /// In the body of one envelope: all others are whole.
    InBody,
    /// In one segment, which cannot be read now: the place among segments is known.
    InSegment,
    /// Anywhere: the cutter does not know its place any more.
    Lost,
}

/// Follows one direction of one connection.
#[derive(Debug)]
pub struct Cutter {
    direction: Direction,
    negotiated: Arc<Negotiated>,
    /// How the envelope or segment that is passing is framed; looked up anew at each boundary.
    framing: Framing,
    envelope: EnvelopeWalk,
    segment: SegmentWalk,
    /// The body of a STARTUP as it passes.
    startup: Option<StartupCopy>,
    /// The envelope that is passing (with segments: one that began in the segment) is a PREPARE or the answer to one.
    prepare: bool,
    is_opaque: bool,
}

/// STARTUP bodies longer than this are not looked into. Drivers send a few hundred bytes; ScyllaDB's describe
/// themselves in up to 32 KiB.
const MAX_STARTUP_LEN: u32 = 64 * 1024;

#[derive(Debug)]
struct StartupCopy {
    header: Header,
    body: Vec<u8>,
}

impl Cutter {
    /// A cutter at the first byte of a connection; both directions share `negotiated`.
    pub fn new(direction: Direction, negotiated: Arc<Negotiated>) -> Self {
        Cutter {
            direction,
            negotiated,
            framing: Framing::Envelopes,
            envelope: EnvelopeWalk::default(),
            segment: SegmentWalk::default(),
            startup: None,
            prepare: false,
            is_opaque: false,
        }
    }

    /// Accounts for the next bytes. Must run before they are sent on, so that the other direction knows in time what
    /// they negotiate. O(number of envelopes and segments); allocates for STARTUP only.
    pub fn cut(&mut self, chunk: &[u8]) -> Cut {
        let mut cut = Cut {
            prepares: self.prepare && !self.is_at_boundary(),
            ..Cut::default()
        };
        let mut rest = chunk;
        while !rest.is_empty() && !self.is_opaque {
            if self.is_at_boundary() {
                self.framing = self.negotiated.framing();
                if cut.first_boundary.is_none() {
                    cut.envelopes_before_boundary = cut.envelopes;
                    cut.first_boundary = Some(chunk.len() - rest.len());
                    cut.framing = Some(self.framing);
                }
            }
            let passed = match self.framing {
                Framing::Envelopes => self.pass_envelope(rest, &mut cut),
                Framing::Segments(encoding) => self.pass_segment(encoding, rest, &mut cut),
            };
            match passed {
                Ok(length) => rest = rest.get(length..).unwrap_or_default(),
                Err(reason) => {
                    self.is_opaque = true;
                    self.startup = None;
                    cut.opaque = Some(reason);
                    cut.opaque_at = chunk.len() - rest.len();
                }
            }
        }
        if cut.first_boundary.is_none() {
            cut.envelopes_before_boundary = cut.envelopes;
        }
        cut.prepares |= self.is_inside_header();
        cut
    }

    /// Moves on over `length` bytes that have passed and that nobody has: the reader of a capture meets such holes.
    pub fn skip(&mut self, length: usize) -> Skipped {
        if self.is_opaque {
            return Skipped::Lost;
        }
        match self.framing {
            Framing::Envelopes if self.envelope.skip(length) => {
                self.startup = None;
                Skipped::InBody
            }
            Framing::Segments(_) if self.segment.skip(length) => {
                // What the rest of it holds is not known.
                self.envelope.give_up();
                Skipped::InSegment
            }
            _ => Skipped::Lost,
        }
    }

    /// Whether bytes have passed that tell nothing yet of what follows them.
    fn is_inside_header(&self) -> bool {
        match self.framing {
            Framing::Envelopes => self.envelope.is_inside_header(),
            Framing::Segments(Encoding::Plain) => {
                self.segment.is_inside_header()
                    || (self.segment.is_inside_payload() && !self.envelope.is_inside_body())
            }
            Framing::Segments(Encoding::Lz4) => false,
        }
    }

    /// True once the direction turned opaque.
    pub fn is_opaque(&self) -> bool {
        self.is_opaque
    }

    /// True in the middle of an envelope or segment whose end has not passed yet, as far as that can be told: not once the
    /// direction is opaque, and not between the compressed segments of one envelope.
    pub fn is_in_the_middle(&self) -> bool {
        !self.is_opaque && (self.envelope.is_in_the_middle() || !self.is_at_boundary())
    }

    fn is_at_boundary(&self) -> bool {
        match self.framing {
            Framing::Envelopes => self.envelope.is_at_boundary(),
            Framing::Segments(_) => self.segment.is_at_boundary(),
        }
    }

    /// Passes over bytes of one envelope: at most to its end.
    fn pass_envelope(&mut self, rest: &[u8], cut: &mut Cut) -> Result<usize, Opaque> {
        match self.envelope.pass(self.direction, rest)? {
            Passed::Header {
                header,
                header_len,
                length,
            } => {
                cut.envelopes.add(header.opcode);
                self.prepare = self.is_of_prepare(&header);
                cut.prepares |= self.prepare;
                self.notice(header, &rest[header_len..length]);
                Ok(length)
            }
            Passed::Body(length) => {
                if self.startup.is_some() {
                    self.copy_startup(&rest[..length]);
                }
                Ok(length)
            }
            Passed::Part(length) => Ok(length),
        }
    }

    /// Whether it is a PREPARE, or the answer to one; from then on its answer is expected, or no longer.
    #[inline]
    fn is_of_prepare(&self, header: &Header) -> bool {
        match self.direction {
            Direction::Request => {
                let is_prepare = header.opcode == Opcode::PREPARE;
                if is_prepare {
                    self.negotiated.expect_prepared(header.stream_id);
                }
                is_prepare
            }
            Direction::Response => {
                self.negotiated.expects_prepared() && self.negotiated.answers_prepare(header.stream_id)
            }
        }
    }

    /// Learns what an envelope says about the framing; `body` is what of its body is there already.
    #[inline]
    fn notice(&mut self, header: Header, body: &[u8]) {
        if self.direction == Direction::Response {
            self.negotiated.learn_from_response(&header);
        } else if header.opcode == Opcode::STARTUP && header.body_len <= MAX_STARTUP_LEN {
            self.startup = Some(StartupCopy {
                header,
                body: Vec::new(),
            });
            self.copy_startup(body);
        }
    }

    fn copy_startup(&mut self, part: &[u8]) {
        let Some(mut startup) = self.startup.take() else {
            return;
        };
        startup.body.extend_from_slice(part);
        if startup.body.len() < startup.header.body_len as usize {
            self.startup = Some(startup);
            return;
        }
        let envelope = Envelope {
            header: startup.header,
            body: startup.body.into(),
        };
        self.negotiated.learn_from_startup(&envelope);
    }

    /// Passes over bytes of one segment: at most to its end.
    fn pass_segment(&mut self, encoding: Encoding, rest: &[u8], cut: &mut Cut) -> Result<usize, Opaque> {
        match self.segment.pass(encoding, rest)? {
            PassedSegment::Header(header, length) => {
                cut.segments += 1;
                if header.is_self_contained {
                    self.envelope = EnvelopeWalk::default();
                    self.prepare = false;
                }
                Ok(length)
            }
            PassedSegment::Payload(length) => {
                if encoding == Encoding::Plain {
                    self.count_envelopes(&rest[..length], cut);
                }
                Ok(length)
            }
            PassedSegment::Part(length) => Ok(length),
        }
    }

    /// Counts the envelopes in a part of a payload. Garbage there does not cost the place on the wire: counting goes on
    /// with the next segment that is self-contained.
    fn count_envelopes(&mut self, mut payload: &[u8], cut: &mut Cut) {
        while !payload.is_empty() {
            let Ok(passed) = self.envelope.pass(self.direction, payload) else {
                self.envelope.give_up();
                return;
            };
            if let Passed::Header { header, .. } = passed {
                cut.envelopes.add(header.opcode);
                // The segment can only be read as a whole.
                self.prepare |= self.is_of_prepare(&header);
                cut.prepares |= self.prepare;
            }
            payload = payload.get(passed.length()..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::{Bytes, BytesMut};

    use super::*;
    use crate::compress::Compression;
    use crate::envelope::{MAX_BODY_LEN, StreamId, Version};
    use crate::segment;

    fn envelope(version: Version, direction: Direction, opcode: Opcode, body: &[u8]) -> Vec<u8> {
        let mut header = Header::request(version, StreamId(1), opcode);
        header.direction = direction;
        let mut out = BytesMut::new();
        Envelope {
            header,
            body: Bytes::copy_from_slice(body),
        }
        .encode(&mut out)
        .unwrap();
        out.to_vec()
    }

    fn request(opcode: Opcode, body: &[u8]) -> Vec<u8> {
        envelope(Version::V4, Direction::Request, opcode, body)
    }

    fn startup(version: Version, compression: &str) -> Vec<u8> {
        let mut body = vec![0, 1, 0, 11];
        body.extend_from_slice(b"COMPRESSION\0");
        body.push(u8::try_from(compression.len()).unwrap());
        body.extend_from_slice(compression.as_bytes());
        envelope(version, Direction::Request, Opcode::STARTUP, &body)
    }

    fn client() -> (Cutter, Arc<Negotiated>) {
        let negotiated = Arc::new(Negotiated::new());
        (Cutter::new(Direction::Request, negotiated.clone()), negotiated)
    }

    #[test]
    fn envelopes_are_counted_where_their_header_ends() {
        let (mut cutter, _) = client();
        let bytes = [request(Opcode::QUERY, &[0; 100]), request(Opcode::OPTIONS, &[])].concat();
        let first = cutter.cut(&bytes[..50]);
        assert_eq!(
            (first.first_boundary, first.envelopes.of(Opcode::QUERY)),
            (Some(0), 1)
        );
        let second = cutter.cut(&bytes[50..112]);
        assert_eq!((second.first_boundary, second.envelopes.total()), (Some(59), 0));
        let third = cutter.cut(&bytes[112..]);
        assert_eq!(
            (third.first_boundary, third.envelopes.of(Opcode::OPTIONS)),
            (None, 1)
        );
    }

    #[test]
    fn the_middle_of_an_envelope_lasts_until_its_last_byte() {
        let mut bytes = request(Opcode::QUERY, b"SELECT");
        let last = bytes.pop().unwrap();
        let (mut cutter, _) = client();
        assert!(!cutter.is_in_the_middle());
        for byte in &bytes {
            cutter.cut(&[*byte]);
            assert!(cutter.is_in_the_middle());
        }
        cutter.cut(&[last]);
        assert!(!cutter.is_in_the_middle());
        cutter.cut(b"GET / HTTP/1.1");
        assert!(cutter.is_opaque() && !cutter.is_in_the_middle());
    }

    #[test]
    fn one_byte_at_a_time_gives_the_same_envelopes() {
        let (mut cutter, _) = client();
        let bytes = [request(Opcode::QUERY, &[0; 9]), request(Opcode::BATCH, &[1; 3])].concat();
        let mut boundaries = Vec::new();
        let mut counts = OpcodeCounts::default();
        for (offset, byte) in bytes.iter().enumerate() {
            let cut = cutter.cut(&[*byte]);
            boundaries.extend(cut.first_boundary.map(|within| offset + within));
            counts.merge(&cut.envelopes);
        }
        assert_eq!(boundaries, [0, 18]);
        assert_eq!(
            (counts.of(Opcode::QUERY), counts.of(Opcode::BATCH), counts.total()),
            (1, 1, 2)
        );
    }

    #[test]
    fn ready_of_version_5_starts_segments_in_both_directions() {
        let (mut client, negotiated) = client();
        let mut server = Cutter::new(Direction::Response, negotiated.clone());
        client.cut(&startup(Version::V5, "lz4"));
        assert_eq!(negotiated.compression(), Compression::Lz4);
        let mut bytes = BytesMut::from(&envelope(Version::V5, Direction::Response, Opcode::READY, &[])[..]);
        segment::encode(Encoding::Lz4, true, &[0; 200], &mut bytes).unwrap();
        let cut = server.cut(&bytes);
        assert_eq!(
            (cut.first_boundary, cut.envelopes.of(Opcode::READY), cut.segments),
            (Some(0), 1, 1)
        );
        assert_eq!(negotiated.framing(), Framing::Segments(Encoding::Lz4));

        let query = envelope(Version::V5, Direction::Request, Opcode::QUERY, b"q");
        let mut bytes = BytesMut::new();
        segment::encode(Encoding::Lz4, true, &query, &mut bytes).unwrap();
        let cut = client.cut(&bytes);
        assert_eq!(
            (cut.framing, cut.segments),
            (Some(Framing::Segments(Encoding::Lz4)), 1)
        );
        assert!(!client.is_opaque());
    }

    #[test]
    fn envelopes_in_plain_segments_are_counted_even_if_split() {
        let (mut client, negotiated) = client();
        negotiated.start_segments();
        let query = envelope(Version::V5, Direction::Request, Opcode::QUERY, &vec![0; 200_000]);
        let two = [
            query,
            envelope(Version::V5, Direction::Request, Opcode::EXECUTE, b""),
        ];
        let mut bytes = BytesMut::new();
        segment::encode_envelopes(Encoding::Plain, &two[0], &mut bytes).unwrap();
        segment::encode_envelopes(Encoding::Plain, &two[1], &mut bytes).unwrap();
        let mut counts = OpcodeCounts::default();
        let mut segments = 0;
        for part in bytes.chunks(1000) {
            let cut = client.cut(part);
            counts.merge(&cut.envelopes);
            segments += cut.segments;
        }
        assert_eq!(
            (
                counts.of(Opcode::QUERY),
                counts.of(Opcode::EXECUTE),
                counts.total()
            ),
            (1, 1, 2)
        );
        assert_eq!(segments, 3);
    }

    #[test]
    fn what_is_not_the_protocol_is_opaque_with_its_reason() {
        let reason = |bytes: &[u8]| client().0.cut(bytes).opaque;
        assert_eq!(reason(&[0x16, 0x03, 0x01]), Some(Opaque::Tls));
        assert_eq!(reason(b"GET / HTTP/1.1\r\n"), Some(Opaque::Text));
        assert_eq!(reason(&[0x02, 0, 0, 5, 0, 0, 0, 0]), Some(Opaque::Version(2)));
        assert_eq!(reason(&[0x84, 0, 0, 0, 2, 0, 0, 0, 0]), Some(Opaque::Direction));
        assert_eq!(
            reason(&[4, 0, 0, 0, 7, 0x7f, 0xff, 0xff, 0xff]),
            Some(Opaque::Length(0x7fff_ffff))
        );
        let (mut cutter, negotiated) = client();
        negotiated.start_segments();
        assert_eq!(cutter.cut(&[0; 6]).opaque, Some(Opaque::SegmentHeader));
        assert_eq!(cutter.cut(&request(Opcode::QUERY, b"")), Cut::default());
    }

    #[test]
    fn a_hole_in_a_body_costs_no_place() {
        let (mut cutter, _) = client();
        let bytes = [request(Opcode::QUERY, &[0; 100]), request(Opcode::BATCH, &[1; 3])].concat();
        cutter.cut(&bytes[..50]);
        assert_eq!(cutter.skip(20), Skipped::InBody);
        let cut = cutter.cut(&bytes[70..]);
        assert_eq!(
            (cut.first_boundary, cut.envelopes.of(Opcode::BATCH)),
            (Some(39), 1)
        );
        cutter.cut(&bytes[..50]);
        assert_eq!(cutter.skip(60), Skipped::Lost, "one byte into the next header");
        assert_eq!(cutter.skip(59), Skipped::InBody);
        assert_eq!(cutter.cut(&bytes[109..]).first_boundary, Some(0));
        assert_eq!(cutter.skip(1), Skipped::Lost, "a header");
    }

    #[test]
    fn a_hole_in_a_segment_costs_no_place_among_segments() {
        let (mut client, negotiated) = client();
        negotiated.start_segments();
        let of = |opcode| envelope(Version::V5, Direction::Request, opcode, &[0; 100]);
        let mut bytes = BytesMut::new();
        let payload = [of(Opcode::PREPARE), of(Opcode::QUERY)].concat();
        segment::encode_envelopes(Encoding::Plain, &payload, &mut bytes).unwrap();
        let first = bytes.len();
        segment::encode_envelopes(Encoding::Plain, &of(Opcode::BATCH), &mut bytes).unwrap();
        client.cut(&bytes[..50]);
        assert_eq!(client.skip(80), Skipped::InSegment);
        let cut = client.cut(&bytes[130..]);
        assert_eq!(
            (cut.first_boundary, cut.envelopes.of(Opcode::BATCH)),
            (Some(first - 130), 1)
        );
        assert_eq!(cut.envelopes.total(), 1);
    }

    /// Bytes of one direction; both share what is negotiated.
    fn prepares(cutter: &mut Cutter, parts: &[&[u8]]) -> Vec<bool> {
        parts.iter().map(|part| cutter.cut(part).prepares).collect()
    }

    #[test]
    fn chunks_of_a_prepare_and_of_its_answer_are_told() {
        let (mut client, negotiated) = client();
        let mut server = Cutter::new(Direction::Response, negotiated);
        let (query, prepare) = (
            request(Opcode::QUERY, &[0; 50]),
            request(Opcode::PREPARE, &[0; 50]),
        );
        let answer = |stream| {
            let header = Header::response(Version::V4, StreamId(stream), Opcode::RESULT);
            let mut out = BytesMut::new();
            let body = Bytes::from_static(&[0; 50]);
            Envelope { header, body }.encode(&mut out).unwrap();
            out.to_vec()
        };
        assert_eq!(prepares(&mut server, &[&answer(1)]), [false]);
        // In parts: a part of a header may be a PREPARE's.
        let parts = [
            &query[..20],
            &query[20..],
            &prepare[..4],
            &prepare[4..30],
            &prepare[30..],
            &query,
        ];
        assert_eq!(
            prepares(&mut client, &parts),
            [false, false, true, true, true, false]
        );
        let (other, answer) = (answer(2), answer(1));
        let parts = [&other[..], &answer[..20], &answer[20..], &answer[..]];
        assert_eq!(prepares(&mut server, &parts), [false, true, true, false]);
    }

    #[test]
    fn chunks_of_a_segment_with_a_prepare_are_told() {
        let (mut client, negotiated) = client();
        negotiated.start_segments();
        let of = |opcode| envelope(Version::V5, Direction::Request, opcode, &[0; 100]);
        let mut with = BytesMut::new();
        let payload = [of(Opcode::PREPARE), of(Opcode::QUERY)].concat();
        segment::encode_envelopes(Encoding::Plain, &payload, &mut with).unwrap();
        let mut without = BytesMut::new();
        segment::encode_envelopes(Encoding::Plain, &of(Opcode::QUERY), &mut without).unwrap();
        let parts = [
            &without[..],
            &with[..3],
            &with[3..150],
            &with[150..],
            &without[..50],
            &without[50..],
        ];
        assert_eq!(
            prepares(&mut client, &parts),
            [false, true, true, true, false, false]
        );
    }

    #[test]
    fn what_is_beyond_is_the_difference_over_the_turn_of_the_counter() {
        let counts = |executes, others| OpcodeCounts {
            counts: std::array::from_fn(|opcode| {
                if opcode == usize::from(Opcode::EXECUTE.0) {
                    executes
                } else {
                    0
                }
            }),
            other: others,
            total: 0,
        };
        let beyond = counts(3, 7).beyond(&counts(u32::MAX - 1, 9));
        assert_eq!((beyond.of(Opcode::EXECUTE), beyond.total()), (5, 5));
    }

    #[test]
    fn negotiation_from_version_66_down_is_cut_as_usual() {
        let (mut client, negotiated) = client();
        let mut server = Cutter::new(Direction::Response, negotiated.clone());
        client.cut(&startup(Version::DseV2, "snappy"));
        let refused = envelope(Version::V5, Direction::Response, Opcode::ERROR, b"no");
        assert_eq!(server.cut(&refused).envelopes.of(Opcode::ERROR), 1);
        client.cut(&startup(Version::V4, "lz4"));
        server.cut(&envelope(Version::V4, Direction::Response, Opcode::READY, &[]));
        assert_eq!(negotiated.framing(), Framing::Envelopes);
        assert_eq!(negotiated.compression(), Compression::Lz4);
    }

    #[test]
    fn a_startup_that_claims_megabytes_is_not_kept() {
        let (mut cutter, _) = client();
        let header = Header {
            body_len: MAX_BODY_LEN,
            ..Header::request(Version::V4, StreamId(0), Opcode::STARTUP)
        };
        cutter.cut(&header.encode());
        cutter.cut(&[0; 100_000]);
        assert!(cutter.startup.is_none());
    }
}
