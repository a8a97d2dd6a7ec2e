//! The envelope: a 9-byte header and a body, the same in all versions (the v3 and v4 specifications call it
//! frame).
//!
//! ```text
//!  0        1       2       4        5                9
//!  +--------+-------+-------+--------+----------------+------ … ----+
//!  | version| flags | stream| opcode | length (int)   | body        |
//!  +--------+-------+-------+--------+----------------+------ … ----+
//! ```
//! The top bit of the version byte is the direction. Versions, opcodes and flags that are not known are
//! values. What is in a body is the business of [`crate::message`]; how envelopes travel in version 5, of
//! [`crate::segment`].

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use crate::error::EncodeError;

/// Length of an envelope header, in bytes.
pub const HEADER_LEN: usize = 9;

/// The longest body that is believed: the specification's 256 MB (v5 §2.5). A header that announces more is
/// garbage, or an attack.
pub const MAX_BODY_LEN: u32 = 256 * 1024 * 1024;

/// A protocol version, without the direction bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// Cassandra 2.1.
    V3,
    /// Cassandra 2.2 and 3.
    V4,
    /// Cassandra 4 and 5: envelopes travel in segments.
    V5,
    /// Announced by Cassandra 4 and later for tests; like version 5 here.
    V6Beta,
    /// DSE 5.1, number 65.
    DseV1,
    /// DSE 6, number 66.
    DseV2,
    /// Any other number, 0 to 127.
    Other(u8),
}

impl Version {
    /// The version with a number, which is the version byte without its top bit.
    #[inline]
    pub const fn from_number(number: u8) -> Self {
        match number & 0x7f {
            3 => Version::V3,
            4 => Version::V4,
            5 => Version::V5,
            6 => Version::V6Beta,
            65 => Version::DseV1,
            66 => Version::DseV2,
            other => Version::Other(other),
        }
    }

    /// The number on the wire.
    #[inline]
    pub const fn number(self) -> u8 {
        match self {
            Version::V3 => 3,
            Version::V4 => 4,
            Version::V5 => 5,
            Version::V6Beta => 6,
            Version::DseV1 => 65,
            Version::DseV2 => 66,
            Version::Other(number) => number,
        }
    }

    /// True for the versions whose envelopes have the 9-byte header that is described here.
    #[inline]
    pub const fn is_known(self) -> bool {
        !matches!(self, Version::Other(_))
    }

    /// True where envelopes travel in segments once the connection is set up (v5 §2).
    #[inline]
    pub const fn uses_segments(self) -> bool {
        matches!(self, Version::V5 | Version::V6Beta)
    }

    /// True from version 4 on: "not set" values, warnings, custom payloads, partition key indices, failure
    /// errors.
    #[inline]
    pub(crate) const fn is_at_least_v4(self) -> bool {
        !matches!(self, Version::V3 | Version::Other(0..=3))
    }

    /// True where query flags are an `[int]` and failures carry a reason per replica: version 5 and DSE.
    #[inline]
    pub(crate) const fn is_at_least_v5(self) -> bool {
        self.is_at_least_v4() && !matches!(self, Version::V4)
    }

    /// True where PREPARE has flags, requests may name a keyspace and prepared statements have a result
    /// metadata id.
    #[inline]
    pub(crate) const fn has_result_metadata_id(self) -> bool {
        self.is_at_least_v5() && !matches!(self, Version::DseV1)
    }

    /// True for what version 5 has and DSE does not: `now_in_seconds`, the contentions of a CAS write
    /// timeout.
    #[inline]
    pub(crate) const fn is_apache_v5(self) -> bool {
        self.is_at_least_v5() && !self.is_dse()
    }

    /// True for the versions of DSE.
    #[inline]
    pub const fn is_dse(self) -> bool {
        matches!(self, Version::DseV1 | Version::DseV2)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Version::V6Beta => out.write_str("v6-beta"),
            Version::DseV1 => out.write_str("dse-v1"),
            Version::DseV2 => out.write_str("dse-v2"),
            other => write!(out, "v{}", other.number()),
        }
    }
}

/// Which way an envelope goes: the top bit of the version byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the client to the server.
    Request,
    /// From the server to the client, events included.
    Response,
}

impl Direction {
    /// The direction that a version byte states.
    #[inline]
    pub const fn of_version_byte(byte: u8) -> Self {
        if byte & 0x80 == 0 {
            Direction::Request
        } else {
            Direction::Response
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Direction::Request => 0,
            Direction::Response => 0x80,
        }
    }
}

/// What an envelope is, one byte (v5 §2.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opcode(pub u8);

#[allow(missing_docs)] // The names are the specification's.
impl Opcode {
    pub const ERROR: Opcode = Opcode(0x00);
    pub const STARTUP: Opcode = Opcode(0x01);
    pub const READY: Opcode = Opcode(0x02);
    pub const AUTHENTICATE: Opcode = Opcode(0x03);
    pub const OPTIONS: Opcode = Opcode(0x05);
    pub const SUPPORTED: Opcode = Opcode(0x06);
    pub const QUERY: Opcode = Opcode(0x07);
    pub const RESULT: Opcode = Opcode(0x08);
    pub const PREPARE: Opcode = Opcode(0x09);
    pub const EXECUTE: Opcode = Opcode(0x0a);
    pub const REGISTER: Opcode = Opcode(0x0b);
    pub const EVENT: Opcode = Opcode(0x0c);
    pub const BATCH: Opcode = Opcode(0x0d);
    pub const AUTH_CHALLENGE: Opcode = Opcode(0x0e);
    pub const AUTH_RESPONSE: Opcode = Opcode(0x0f);
    pub const AUTH_SUCCESS: Opcode = Opcode(0x10);
    /// DSE's REVISE_REQUEST, called CANCEL in its version 1: steers the continuous pages of another stream.
    pub const DSE_REVISE: Opcode = Opcode(0xff);

    /// The specification's name, if it has one.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Opcode::ERROR => "ERROR",
            Opcode::STARTUP => "STARTUP",
            Opcode::READY => "READY",
            Opcode::AUTHENTICATE => "AUTHENTICATE",
            Opcode::OPTIONS => "OPTIONS",
            Opcode::SUPPORTED => "SUPPORTED",
            Opcode::QUERY => "QUERY",
            Opcode::RESULT => "RESULT",
            Opcode::PREPARE => "PREPARE",
            Opcode::EXECUTE => "EXECUTE",
            Opcode::REGISTER => "REGISTER",
            Opcode::EVENT => "EVENT",
            Opcode::BATCH => "BATCH",
            Opcode::AUTH_CHALLENGE => "AUTH_CHALLENGE",
            Opcode::AUTH_RESPONSE => "AUTH_RESPONSE",
            Opcode::AUTH_SUCCESS => "AUTH_SUCCESS",
            Opcode::DSE_REVISE => "REVISE_REQUEST",
            _ => return None,
        })
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => out.write_str(name),
            None => write!(out, "opcode {:#04x}", self.0),
        }
    }
}

/// Ties a response to its request; negative ids are the server's own, −1 for events (v5 §2.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub i16);

impl StreamId {
    /// The stream of events.
    pub const EVENT: StreamId = StreamId(-1);
}

/// Header flags (v5 §2.2); unknown bits are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// No flag.
    pub const NONE: Flags = Flags(0);
    /// The body is compressed; without meaning in version 5, where segments are.
    pub const COMPRESSED: Flags = Flags(0x01);
    /// A request asks for tracing; a response carries the tracing id.
    pub const TRACING: Flags = Flags(0x02);
    /// A custom payload is present.
    pub const CUSTOM_PAYLOAD: Flags = Flags(0x04);
    /// A response carries warnings.
    pub const WARNING: Flags = Flags(0x08);
    /// The client opts in to a beta version.
    pub const USE_BETA: Flags = Flags(0x10);

    /// True if all bits of `other` are set.
    #[inline]
    pub const fn contains(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of bits.
    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// The bits that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }
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

/// The 9 bytes before a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Protocol version, as the sender states it.
    pub version: Version,
    /// Request or response.
    pub direction: Direction,
    /// Flags, unknown bits included.
    pub flags: Flags,
    /// The stream that ties request and response.
    pub stream_id: StreamId,
    /// What the body is.
    pub opcode: Opcode,
    /// Length of the body in bytes, as it stands on the wire (compressed, if it is); garbage may claim up to
    /// 4 GiB.
    pub body_len: u32,
}

impl Header {
    /// Whether versions 3 to 5 of the specification have it: an opcode and flags that its direction sends,
    /// and a stream id that goes with them. For bytes that nothing else speaks for.
    pub fn is_specified(&self) -> bool {
        let (flag, has_opcode) = match self.direction {
            Direction::Request => (Flags::USE_BETA, REQUESTS.contains(&self.opcode)),
            Direction::Response => (Flags::WARNING, RESPONSES.contains(&self.opcode)),
        };
        let flags = flag
            .with(Flags::COMPRESSED)
            .with(Flags::TRACING)
            .with(Flags::CUSTOM_PAYLOAD);
        let has_stream = match self.opcode {
            Opcode::EVENT => self.stream_id == StreamId::EVENT,
            _ => self.stream_id.0 >= 0,
        };
        self.version.is_known() && self.flags.without(flags) == Flags::NONE && has_opcode && has_stream
    }

    /// The header of a request, without flags; the length is filled in when an envelope is encoded.
    pub const fn request(version: Version, stream_id: StreamId, opcode: Opcode) -> Header {
        Header {
            version,
            direction: Direction::Request,
            flags: Flags::NONE,
            stream_id,
            opcode,
            body_len: 0,
        }
    }

    /// The header of a response, without flags; the length is filled in when an envelope is encoded.
    pub const fn response(version: Version, stream_id: StreamId, opcode: Opcode) -> Header {
        Header {
            version,
            direction: Direction::Response,
            flags: Flags::NONE,
            stream_id,
            opcode,
            body_len: 0,
        }
    }

    /// Reads a header; any nine bytes are one. `body_len` is not checked here.
    #[inline]
    pub const fn decode(bytes: &[u8; HEADER_LEN]) -> Header {
        let [version, flags, stream_high, stream_low, opcode, l0, l1, l2, l3] = *bytes;
        Header {
            version: Version::from_number(version),
            direction: Direction::of_version_byte(version),
            flags: Flags(flags),
            stream_id: StreamId(i16::from_be_bytes([stream_high, stream_low])),
            opcode: Opcode(opcode),
            body_len: u32::from_be_bytes([l0, l1, l2, l3]),
        }
    }

    /// Reads a header from the start of `bytes`; `None` if there are fewer than nine.
    #[inline]
    pub fn decode_from(bytes: &[u8]) -> Option<Header> {
        bytes.first_chunk().map(Header::decode)
    }

    /// The nine bytes.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let [stream_high, stream_low] = self.stream_id.0.to_be_bytes();
        let [l0, l1, l2, l3] = self.body_len.to_be_bytes();
        let version = self.version.number() | self.direction.bit();
        [
            version,
            self.flags.0,
            stream_high,
            stream_low,
            self.opcode.0,
            l0,
            l1,
            l2,
            l3,
        ]
    }
}

/// A header with its whole body; bodies are shared, not copied.
///
/// As [`EnvelopeStream`](crate::stream::EnvelopeStream) yields it, the body is decompressed, the flag
/// [`Flags::COMPRESSED`] still says what the wire had, and `header.body_len` is the length on the wire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Envelope {
    /// The header as it was on the wire.
    pub header: Header,
    /// The body, decompressed.
    pub body: Bytes,
}

impl Envelope {
    /// Appends header and body uncompressed, with the length of the body as it is.
    ///
    /// # Errors
    /// If the body is longer than [`MAX_BODY_LEN`].
    pub fn encode(&self, out: &mut BytesMut) -> Result<(), EncodeError> {
        let header = Header {
            body_len: body_len(self.body.len())?,
            flags: self.header.flags.without(Flags::COMPRESSED),
            ..self.header
        };
        out.reserve(HEADER_LEN + self.body.len());
        out.put_slice(&header.encode());
        out.put_slice(&self.body);
        Ok(())
    }
}

/// A body's length as the header states it.
pub(crate) fn body_len(length: usize) -> Result<u32, EncodeError> {
    let too_long = EncodeError::TooLong {
        what: "body",
        length,
        limit: MAX_BODY_LEN as usize,
    };
    u32::try_from(length)
        .ok()
        .filter(|length| *length <= MAX_BODY_LEN)
        .ok_or(too_long)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_event_header_is_read_field_by_field() {
        let header = Header::decode(&[0x84, 0x08, 0xff, 0xff, 0x0c, 0, 0, 1, 0]);
        assert_eq!(header.version, Version::V4);
        assert_eq!(header.direction, Direction::Response);
        assert!(header.flags.contains(Flags::WARNING));
        assert_eq!(header.stream_id, StreamId::EVENT);
        assert_eq!(header.opcode, Opcode::EVENT);
        assert_eq!(header.body_len, 256);
    }

    #[test]
    fn an_envelope_states_the_length_of_its_body() {
        let header = Header::decode(&[4, 1, 0, 7, 7, 0, 0, 0, 0]);
        let envelope = Envelope {
            header,
            body: Bytes::from_static(b"body"),
        };
        let mut out = BytesMut::new();
        envelope.encode(&mut out).unwrap();
        assert_eq!(&out[..], b"\x04\x00\x00\x07\x07\x00\x00\x00\x04body");
    }

    proptest! {
        #[test]
        fn any_nine_bytes_are_a_header_and_come_back(bytes: [u8; 9]) {
            prop_assert_eq!(Header::decode(&bytes).encode(), bytes);
        }
    }
}
