//! Walks over envelopes and over segments as their bytes pass, however they are cut into chunks.
//!
//! The only place that knows where a header ends, how long a body, a payload and a trailer are, and what else
//! may arrive on a port where the protocol is spoken. A walk keeps a few counters and the bytes of an
//! unfinished header, never a body: what becomes of the bytes is up to its users. [`cutter`](crate::cutter)
//! counts envelopes in the data path, [`stream`](crate::stream) joins their bodies, and the proxy's rewriting
//! of addresses holds some of them back.
//!
//! Where segments are in use, a connection has two walks: one over the segments, and one over the envelopes
//! in their payloads, which may have to be checked and decompressed in between.

mod partial;

use self::partial::Partial;
use crate::envelope::{Direction, HEADER_LEN, Header, MAX_BODY_LEN, Version};
use crate::error::DecodeError;
use crate::segment::{Encoding, MAX_HEADER_LEN, SegmentHeader, TRAILER_LEN};

/// Why a direction of a connection cannot be walked over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Opaque {
    /// The bytes of a TLS handshake or record.
    Tls,
    /// Text, such as an HTTP request or answer.
    Text,
    /// A version whose header is not the one that is known: 1, 2, or garbage.
    Version(u8),
    /// A request from the server or a response from the client.
    Direction,
    /// A body of more than 256 MB.
    Length(u32),
    /// A segment header whose checksum does not match.
    SegmentHeader,
}

/// The position in a sequence of envelopes.
#[derive(Debug, Default)]
pub struct EnvelopeWalk {
    header: Partial<HEADER_LEN>,
    body_left: usize,
}

/// The bytes that [`EnvelopeWalk::next`] has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnvelopeStep {
    /// So many bytes of a header that is not whole yet.
    HeaderPart(usize),
    /// The rest of a header, and what follows of its body.
    Header {
        /// The header.
        header: Header,
        /// How many of the bytes belong to the header: fewer than nine where it began in an earlier chunk.
        header_len: usize,
        /// How many bytes were passed, those of the body included.
        length: usize,
    },
    /// So many more bytes of a body.
    Body(usize),
}

impl EnvelopeStep {
    /// How many bytes were passed; at least one.
    #[inline]
    pub fn length(&self) -> usize {
        match self {
            Self::Header { length, .. } | Self::Body(length) | Self::HeaderPart(length) => *length,
        }
    }
}

impl EnvelopeWalk {
    /// Whether the next byte is the first of an envelope.
    #[inline]
    pub fn is_at_boundary(&self) -> bool {
        self.body_left == 0 && self.header.is_empty()
    }

    /// Whether a header has begun and not ended.
    pub fn is_inside_header(&self) -> bool {
        !self.header.is_empty()
    }

    /// Bytes of the current body that have not passed yet.
    pub fn body_left(&self) -> usize {
        self.body_left
    }

    /// Passes over bytes at the start of `rest`, which is not empty: at most to the end of an envelope.
    ///
    /// # Errors
    /// Bytes that are no envelope of `direction`. Nothing has passed then, if `rest` has the whole header.
    #[inline]
    pub fn next(&mut self, direction: Direction, rest: &[u8]) -> Result<EnvelopeStep, Opaque> {
        if self.body_left > 0 {
            let length = self.body_left.min(rest.len());
            self.body_left -= length;
            return Ok(EnvelopeStep::Body(length));
        }
        if self.header.is_empty() {
            check_first_byte(rest[0], direction)?;
        }
        let (header_len, header) = self.header.fill(HEADER_LEN, rest);
        let Some(bytes) = header else {
            return Ok(EnvelopeStep::HeaderPart(header_len));
        };
        let header = Header::decode(&bytes);
        if header.body_len > MAX_BODY_LEN {
            return Err(Opaque::Length(header.body_len));
        }
        let body_len = header.body_len as usize;
        let body_here = body_len.min(rest.len() - header_len);
        self.body_left = body_len - body_here;
        Ok(EnvelopeStep::Header {
            header,
            header_len,
            length: header_len + body_here,
        })
    }

    /// Skips `length` missing bytes, up to the end of the current body, and returns how many lie beyond it. A
    /// header with missing bytes is discarded.
    pub fn skip(&mut self, length: usize) -> usize {
        self.header = Partial::default();
        let of_body = length.min(self.body_left);
        self.body_left -= of_body;
        length - of_body
    }

    /// Takes the next `length` bytes for an envelope whose header only the caller understands.
    pub fn expect_foreign(&mut self, length: usize) {
        self.body_left = length;
    }

    /// Enters a segment. A self-contained one begins with an envelope, whatever came before; true if that
    /// leaves an envelope unfinished.
    pub fn enter(&mut self, segment: &SegmentHeader) -> bool {
        let is_cut_off = segment.is_self_contained && !self.is_at_boundary();
        if segment.is_self_contained {
            *self = Self::default();
        }
        is_cut_off
    }
}

/// Whether a header can be one of `direction` at all.
#[inline]
pub(crate) fn is_possible(header: &Header, direction: Direction) -> bool {
    header.version.is_known() && header.direction == direction && header.body_len <= MAX_BODY_LEN
}

/// Says what the first byte of an envelope is, if not that.
#[inline]
fn check_first_byte(byte: u8, direction: Direction) -> Result<(), Opaque> {
    const TLS_ALERT: u8 = 0x15;
    const TLS_HANDSHAKE: u8 = 0x16;
    let version = Version::from_number(byte);
    if version.is_known() && Direction::of_version_byte(byte) == direction {
        return Ok(());
    }
    Err(match byte {
        TLS_ALERT | TLS_HANDSHAKE => Opaque::Tls,
        // HTTP begins with a method or with its name. No letter but A and B is a version.
        b'A'..=b'Z' | b'a'..=b'z' => Opaque::Text,
        _ if version.is_known() => Opaque::Direction,
        _ => Opaque::Version(version.number()),
    })
}

/// The position in a sequence of segments.
#[derive(Debug, Default)]
pub struct SegmentWalk {
    header: Partial<MAX_HEADER_LEN>,
    payload_left: usize,
    trailer_left: usize,
}

/// The bytes that [`SegmentWalk::next`] has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentStep {
    /// So many bytes of a header that is not whole yet.
    HeaderPart(usize),
    /// The rest of a header, in so many bytes.
    Header(SegmentHeader, usize),
    /// So many bytes of a payload.
    Payload(usize),
    /// So many bytes of the payload's checksum.
    Trailer(usize),
}

impl SegmentStep {
    /// How many bytes were passed; at least one.
    #[inline]
    pub fn length(&self) -> usize {
        match self {
            Self::HeaderPart(length)
            | Self::Header(_, length)
            | Self::Payload(length)
            | Self::Trailer(length) => *length,
        }
    }
}

impl SegmentWalk {
    /// Whether the next byte is the first of a segment.
    #[inline]
    pub fn is_at_boundary(&self) -> bool {
        self.payload_left == 0 && self.trailer_left == 0 && self.header.is_empty()
    }

    /// Whether a header has begun and not ended.
    pub fn is_inside_header(&self) -> bool {
        !self.header.is_empty()
    }

    /// Bytes of the current payload that have not passed yet.
    pub fn payload_left(&self) -> usize {
        self.payload_left
    }

    /// Bytes of the current payload and its checksum that have not passed yet.
    pub fn left(&self) -> usize {
        self.payload_left + self.trailer_left
    }

    /// Passes over bytes at the start of `rest`, which is not empty: at most to the end of a header, payload
    /// or trailer.
    ///
    /// # Errors
    /// A header whose checksum does not match.
    #[inline]
    pub fn next(&mut self, encoding: Encoding, rest: &[u8]) -> Result<SegmentStep, DecodeError> {
        if self.payload_left > 0 {
            let length = self.payload_left.min(rest.len());
            self.payload_left -= length;
            return Ok(SegmentStep::Payload(length));
        }
        if self.trailer_left > 0 {
            let length = self.trailer_left.min(rest.len());
            self.trailer_left -= length;
            return Ok(SegmentStep::Trailer(length));
        }
        let header_len = encoding.header_len();
        let (length, header) = self.header.fill(header_len, rest);
        let Some(bytes) = header else {
            return Ok(SegmentStep::HeaderPart(length));
        };
        let header = SegmentHeader::decode(encoding, &bytes[..header_len])?;
        self.payload_left = header.payload_len;
        self.trailer_left = TRAILER_LEN;
        Ok(SegmentStep::Header(header, length))
    }

    /// Skips `length` bytes, up to the end of the current segment.
    pub fn skip(&mut self, length: usize) {
        let of_payload = length.min(self.payload_left);
        self.payload_left -= of_payload;
        self.trailer_left = self.trailer_left.saturating_sub(length - of_payload);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::{Bytes, BytesMut};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::envelope::{Envelope, Opcode, StreamId};
    use crate::segment;

    fn wire(lengths: &[usize]) -> Bytes {
        let mut wire = BytesMut::new();
        for (stream, length) in (0_i16..).zip(lengths) {
            let header = Header::response(Version::V5, StreamId(stream), Opcode::RESULT);
            let body = vec![stream.to_le_bytes()[0]; *length].into();
            Envelope { header, body }.encode(&mut wire).unwrap();
        }
        wire.freeze()
    }

    /// Stream ids and body lengths of the envelopes in `chunks`.
    fn envelopes<'c>(chunks: impl Iterator<Item = &'c [u8]>) -> Vec<(i16, usize)> {
        let mut walk = EnvelopeWalk::default();
        let mut envelopes = Vec::new();
        for mut rest in chunks {
            while !rest.is_empty() {
                let step = walk.next(Direction::Response, rest).unwrap();
                if let EnvelopeStep::Header { header, .. } = step {
                    envelopes.push((header.stream_id.0, header.body_len as usize));
                }
                rest = &rest[step.length()..];
            }
        }
        assert!(walk.is_at_boundary());
        envelopes
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(lengths in vec(0_usize..60, 1..8), size in 1_usize..80, payload in 1_usize..200) {
            let wire = wire(&lengths);
            let expected: Vec<_> = (0_i16..).zip(lengths).collect();
            prop_assert_eq!(&envelopes(wire.chunks(size)), &expected);

            let mut segments = BytesMut::new();
            for part in wire.chunks(payload) {
                segment::encode(Encoding::Plain, false, part, &mut segments).unwrap();
            }
            let mut walk = SegmentWalk::default();
            let mut payloads = Vec::new();
            for mut rest in segments.chunks(size) {
                while !rest.is_empty() {
                    let step = walk.next(Encoding::Plain, rest).unwrap();
                    if let SegmentStep::Payload(length) = step {
                        payloads.push(&rest[..length]);
                    }
                    rest = &rest[step.length()..];
                }
            }
            prop_assert!(walk.is_at_boundary());
            prop_assert_eq!(envelopes(payloads.into_iter()), expected);
        }
    }

    #[test]
    fn a_gap_ends_with_the_body_at_the_latest() {
        let wire = wire(&[20]);
        let mut walk = EnvelopeWalk::default();
        walk.next(Direction::Response, &wire[..14]).unwrap();
        assert_eq!((walk.skip(10), walk.body_left()), (0, 5));
        assert_eq!(walk.skip(10), 5);
        assert!(walk.is_at_boundary());
    }

    #[test]
    fn bytes_that_are_no_envelope_do_not_pass() {
        for (bytes, opaque) in [
            (&b"\x16\x03\x01\0\0\0\0\0\0"[..], Opaque::Tls),
            (b"GET / HTTP/1.1", Opaque::Text),
            (b"\x81\0\0\x08\0\0\0\0\0", Opaque::Version(1)),
            (b"\x04\0\0\0\x07\0\0\0\0", Opaque::Direction),
            (b"\x84\0\0\0\x08\x7f\xff\xff\xff", Opaque::Length(0x7fff_ffff)),
        ] {
            let mut walk = EnvelopeWalk::default();
            for _ in 0..2 {
                assert_eq!(walk.next(Direction::Response, bytes), Err(opaque));
                assert!(walk.is_at_boundary());
            }
        }
    }
}
