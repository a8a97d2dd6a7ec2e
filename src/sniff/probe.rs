//! Whether traffic at other ports looks like CQL: for those who named the wrong one.

use std::collections::BTreeMap;

use cqlens_proto::envelope::{Direction, HEADER_LEN, Header, Opcode};

use super::link::Segment;

/// Ports that are kept apart.
const MAX_PORTS: usize = 256;

/// Counts packets that are one whole envelope after another.
#[derive(Debug, Default)]
pub(super) struct Probe {
    ports: BTreeMap<u16, u64>,
}

/// Packets at a port that are said to be CQL; fewer may be chance.
const ENOUGH: u64 = 2;

impl Probe {
    /// Looks at a segment of a connection that is not followed.
    pub(super) fn look(&mut self, segment: &Segment) {
        let Some(direction) = is_envelope(segment) else {
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

/// Whether its payload begins with the header of an envelope that ends with it, or goes on in the next one.
fn is_envelope(segment: &Segment) -> Option<Direction> {
    let header = Header::decode_from(&segment.payload)?;
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
    let length = segment.payload.len() + segment.cut;
    let is_whole = HEADER_LEN + header.body_len as usize == length;
    (header.version.is_known() && fits && header.flags.0 & 0xe0 == 0 && header.stream_id.0 >= 0 && is_whole)
        .then_some(header.direction)
}
