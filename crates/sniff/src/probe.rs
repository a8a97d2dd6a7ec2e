//! Detects traffic at other ports that looks like CQL, for operators who named the wrong port.

use std::collections::BTreeMap;

use bytes::Bytes;
use cqlens_proto::{
    envelope::{Direction, HEADER_LEN, Header, Opcode, Version},
    segment::{self, Encoding, SegmentHeader, TRAILER_LEN},
};

use super::packets::Segment;

/// Ports that are kept apart.
const MAX_PORTS: usize = 256;

/// Counts packets that are one whole envelope after another, or a whole segment of version 5.
#[derive(Debug, Default)]
pub(super) struct Probe {
    ports: BTreeMap<u16, u64>,
}

/// Packets at a port from which on it is reported; fewer may be chance.
const ENOUGH: u64 = 2;

impl Probe {
    /// Checks a segment of a connection that is not followed.
    pub(super) fn look(&mut self, segment: &Segment) {
        let Some(direction) = envelopes(segment).or_else(|| whole_segment(segment)) else {
            return;
        };
        let port = match direction {
            Direction::Request => segment.to.port(),
            Direction::Response => segment.from.port(),
        };
        if self.ports.len() < MAX_PORTS || self.ports.contains_key(&port) {
            *self.ports.entry(port).or_default() += 1;
        }
    }

    /// The ports, with how many packets look like CQL.
    pub(super) fn ports(&self) -> BTreeMap<u16, u64> {
        let enough = self.ports.iter().filter(|(_, packets)| **packets >= ENOUGH);
        enough.map(|(port, packets)| (*port, *packets)).collect()
    }
}

/// The direction of its envelopes, if its payload is one after the other, to its last byte.
fn envelopes(segment: &Segment) -> Option<Direction> {
    let length = segment.payload.len() + segment.cut;
    let mut direction = None;
    let mut at = 0;
    while at < length {
        let header = Header::decode_from(segment.payload.get(at..)?)?;
        let is_first = direction.is_none();
        if !is_plausible(&header) || !(is_first || direction == Some(header.direction)) {
            return None;
        }
        direction = Some(header.direction);
        at += HEADER_LEN + header.body_len as usize;
    }
    direction.filter(|_| at == length)
}

fn is_plausible(header: &Header) -> bool {
    let is_request = matches!(
        header.opcode,
        Opcode::STARTUP | Opcode::OPTIONS | Opcode::QUERY | Opcode::PREPARE | Opcode::EXECUTE | Opcode::BATCH
    );
    let is_response = matches!(
        header.opcode,
        Opcode::ERROR | Opcode::READY | Opcode::AUTHENTICATE | Opcode::SUPPORTED | Opcode::RESULT
    );
    let fits = match header.direction {
        Direction::Request => is_request,
        Direction::Response => is_response,
    };
    header.version.is_known() && fits && header.flags.0 & 0xe0 == 0 && header.stream_id.0 >= 0
}

/// The direction of what is in a segment whose checksums hold, if it is all of the payload.
fn whole_segment(segment: &Segment) -> Option<Direction> {
    [Encoding::Plain, Encoding::Lz4].into_iter().find_map(|encoding| {
        let bytes = &segment.payload;
        let start = encoding.header_len();
        let header = SegmentHeader::decode(encoding, bytes.get(..start)?).ok()?;
        let end = start + header.payload_len;
        if end + TRAILER_LEN != bytes.len() {
            return None;
        }
        let trailer = bytes.get(end..)?.first_chunk()?;
        let payload = Bytes::copy_from_slice(bytes.get(start..end)?);
        let payload = segment::open_payload(&header, payload, *trailer).ok()?;
        let first = *payload.first()?;
        let is_version = header.is_self_contained && Version::from_number(first).uses_segments();
        is_version.then(|| Direction::of_version_byte(first))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::testing::{Conversation, query, void};
    use bytes::BytesMut;

    const CQL: &str = "SELECT name FROM users WHERE id = 12345";

    fn ports(direction: Direction, payload: &[u8]) -> Vec<u16> {
        let mut talk = Conversation::new((5, 6));
        talk.server.set_port(9043);
        let mut probe = Probe::default();
        for _ in 0..ENOUGH {
            probe.look(&talk.send(direction, payload, payload.len())[0]);
        }
        probe.ports().into_keys().collect()
    }

    #[test]
    fn envelopes_and_segments_tell_the_port_of_the_server() {
        let (one, two) = (query(Version::V4, 1, CQL), query(Version::V4, 2, CQL));
        assert_eq!(ports(Direction::Request, &one), [9043]);
        assert_eq!(ports(Direction::Request, &[one.clone(), two].concat()), [9043]);
        assert_eq!(ports(Direction::Response, &void(Version::V4, 1)), [9043]);
        for encoding in [Encoding::Plain, Encoding::Lz4] {
            for (direction, envelope) in [
                (Direction::Request, query(Version::V5, 1, CQL)),
                (Direction::Response, void(Version::V5, 1)),
            ] {
                let mut wire = BytesMut::new();
                segment::encode_envelopes(encoding, &envelope, &mut wire).unwrap();
                assert_eq!(ports(direction, &wire), [9043], "{encoding:?}");
            }
        }
    }

    #[test]
    fn anything_else_tells_none() {
        let mut longer = query(Version::V4, 1, CQL);
        longer.push(0);
        for payload in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            &longer,
            &[0; 40],
            &[4, 0, 0, 1, 5],
        ] {
            assert!(ports(Direction::Request, payload).is_empty(), "{payload:?}");
        }
    }
}
