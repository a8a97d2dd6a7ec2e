//! The places in a sequence of envelopes and in one of segments, moved on by whatever bytes there are.

use crate::envelope::{Direction, HEADER_LEN, Header, MAX_BODY_LEN, Version};
use crate::partial::Partial;
use crate::segment::{Encoding, MAX_HEADER_LEN, SegmentHeader, TRAILER_LEN};

/// Why a direction of a connection cannot be cut.
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

/// A place in a sequence of envelopes.
#[derive(Debug, Default)]
pub(super) struct EnvelopeWalk {
    header: Partial<HEADER_LEN>,
    body_left: usize,
}

/// What bytes of an envelope were passed, and how many.
pub(super) enum Passed {
    /// The rest of a header, which is `header_len` bytes, and what follows of its body.
    Header {
        header: Header,
        header_len: usize,
        length: usize,
    },
    /// More bytes of a body.
    Body(usize),
    /// A part of a header.
    Part(usize),
}

impl Passed {
    pub(super) fn length(&self) -> usize {
        match self {
            Passed::Header { length, .. } | Passed::Body(length) | Passed::Part(length) => *length,
        }
    }
}

impl EnvelopeWalk {
    pub(super) fn is_at_boundary(&self) -> bool {
        self.body_left == 0 && self.header.is_empty()
    }

    pub(super) fn is_inside_header(&self) -> bool {
        !self.header.is_empty()
    }

    pub(super) fn is_inside_body(&self) -> bool {
        self.body_left > 0
    }

    /// Not where it has lost its place.
    pub(super) fn is_in_the_middle(&self) -> bool {
        !self.is_at_boundary() && self.body_left != usize::MAX
    }

    /// Passes over everything until it is replaced.
    pub(super) fn give_up(&mut self) {
        self.body_left = usize::MAX;
    }

    /// Moves on over bytes that nobody has; false, and nothing changes, where that leads beyond the body.
    pub(super) fn skip(&mut self, length: usize) -> bool {
        let is_inside = length <= self.body_left && self.body_left != usize::MAX;
        if is_inside {
            self.body_left -= length;
        }
        is_inside
    }

    /// Passes over at least one byte of `rest`, which is not empty.
    #[inline]
    pub(super) fn pass(&mut self, direction: Direction, rest: &[u8]) -> Result<Passed, Opaque> {
        if self.body_left > 0 {
            let length = self.body_left.min(rest.len());
            self.body_left -= length;
            return Ok(Passed::Body(length));
        }
        if self.header.is_empty() {
            check_first_byte(rest[0], direction)?;
        }
        let (header_len, header) = self.header.fill(HEADER_LEN, rest);
        let Some(bytes) = header else {
            return Ok(Passed::Part(header_len));
        };
        let header = Header::decode(&bytes);
        if header.body_len > MAX_BODY_LEN {
            return Err(Opaque::Length(header.body_len));
        }
        let body_len = header.body_len as usize;
        let body_here = body_len.min(rest.len() - header_len);
        self.body_left = body_len - body_here;
        Ok(Passed::Header {
            header,
            header_len,
            length: header_len + body_here,
        })
    }
}

/// Tells from the first byte of an envelope what else it may be.
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

/// A place in a sequence of segments.
#[derive(Debug, Default)]
pub(super) struct SegmentWalk {
    header: Partial<MAX_HEADER_LEN>,
    payload_left: usize,
    trailer_left: usize,
}

/// What bytes of a segment were passed, and how many.
pub(super) enum PassedSegment {
    /// The rest of a header.
    Header(SegmentHeader, usize),
    /// Bytes of a payload.
    Payload(usize),
    /// A part of a header or trailer.
    Part(usize),
}

impl SegmentWalk {
    pub(super) fn is_at_boundary(&self) -> bool {
        self.payload_left == 0 && self.trailer_left == 0 && self.header.is_empty()
    }

    pub(super) fn is_inside_header(&self) -> bool {
        !self.header.is_empty()
    }

    /// Bytes of the payload that have not passed yet.
    pub(super) fn payload_left(&self) -> usize {
        self.payload_left
    }

    /// Moves on over bytes that nobody has; false, and nothing changes, where that leads beyond the segment.
    pub(super) fn skip(&mut self, length: usize) -> bool {
        let is_inside = length <= self.payload_left + self.trailer_left;
        if is_inside {
            let of_payload = length.min(self.payload_left);
            self.payload_left -= of_payload;
            self.trailer_left -= length - of_payload;
        }
        is_inside
    }

    /// Passes over at least one byte of `rest`, which is not empty.
    #[inline]
    pub(super) fn pass(&mut self, encoding: Encoding, rest: &[u8]) -> Result<PassedSegment, Opaque> {
        if self.payload_left > 0 {
            let length = self.payload_left.min(rest.len());
            self.payload_left -= length;
            return Ok(PassedSegment::Payload(length));
        }
        if self.trailer_left > 0 {
            let length = self.trailer_left.min(rest.len());
            self.trailer_left -= length;
            return Ok(PassedSegment::Part(length));
        }
        let header_len = encoding.header_len();
        let (length, header) = self.header.fill(header_len, rest);
        let Some(bytes) = header else {
            return Ok(PassedSegment::Part(length));
        };
        let header =
            SegmentHeader::decode(encoding, &bytes[..header_len]).map_err(|_| Opaque::SegmentHeader)?;
        self.payload_left = header.payload_len;
        self.trailer_left = TRAILER_LEN;
        Ok(PassedSegment::Header(header, length))
    }
}
