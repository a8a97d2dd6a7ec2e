//! No bytes make the codec panic, loop or take memory that they do not pay for.
use crate::support::messages::{dialect, request, request_extras, response, response_extras};
use crate::support::values::cql_type;
use crate::support::{exercise, version};
use bytes::Bytes;
use cqlens_proto::compress::Compression;
use cqlens_proto::envelope::{Direction, Envelope, Flags, Header, Opcode, StreamId, Version};
use cqlens_proto::segment::{self, Encoding};
use cqlens_proto::types::CqlType;
use proptest::prelude::*;

fn header(version: Version, is_response: bool, opcode: u8, flags: u8) -> Header {
    let header = Header {
        flags: Flags(flags),
        ..Header::request(version, StreamId(1), Opcode(opcode))
    };
    match is_response {
        true => Header {
            direction: Direction::Response,
            ..header
        },
        false => header,
    }
}

fn direction() -> impl Strategy<Value = Direction> {
    proptest::sample::select(&[Direction::Request, Direction::Response][..])
}

fn compression() -> impl Strategy<Value = Compression> {
    proptest::sample::select(&[Compression::None, Compression::Lz4, Compression::Snappy][..])
}

/// A valid body with some bytes changed and its end cut off: gets further than random bytes.
fn damage(envelope: &Envelope, changes: &[(usize, u8)], cut_off: usize) -> Envelope {
    let mut body = envelope.body.to_vec();
    for (place, byte) in changes {
        let length = body.len().max(1);
        if let Some(changed) = body.get_mut(place % length) {
            *changed = *byte;
        }
    }
    body.truncate(body.len().saturating_sub(cut_off % 4));
    Envelope {
        header: envelope.header,
        body: Bytes::from(body),
    }
}

fn changes() -> impl Strategy<Value = Vec<(usize, u8)>> {
    let byte = prop_oneof![any::<u8>(), Just(0xff), Just(0x00), Just(0x7f)];
    proptest::collection::vec((any::<usize>(), byte), 0..6)
}

proptest! {
    #![proptest_config(crate::support::cases(1000))]

    #[test]
    fn any_body_of_any_opcode(
        version in version(), is_response: bool, opcode in 0_u8..20, flags: u8, body: Vec<u8>
    ) {
        let header = header(version, is_response, opcode, flags);
        exercise::envelope(&Envelope { header, body: body.into() });
    }

    #[test]
    fn damaged_requests(
        (dialect, request) in dialect().prop_flat_map(|dialect| (Just(dialect), request(dialect))),
        extras in request_extras(), changes in changes(), cut_off: usize,
    ) {
        let envelope = request.to_envelope(dialect, StreamId(1), &extras).unwrap();
        exercise::envelope(&damage(&envelope, &changes, cut_off));
    }

    #[test]
    fn damaged_responses(
        (dialect, response) in dialect().prop_flat_map(|dialect| (Just(dialect), response(dialect))),
        extras in response_extras(), changes in changes(), cut_off: usize,
    ) {
        let envelope = response.to_envelope(dialect, StreamId(1), &extras).unwrap();
        exercise::envelope(&damage(&envelope, &changes, cut_off));
    }

    #[test]
    fn any_bytes_on_the_wire(
        direction in direction(), has_segments: bool, compression in compression(), chunks: Vec<Vec<u8>>
    ) {
        let chunks: Vec<&[u8]> = chunks.iter().map(|chunk| &chunk[..]).collect();
        exercise::wire(direction, has_segments, compression, &chunks);
    }

    #[test]
    fn any_payload_in_a_segment(
        direction in direction(), is_self_contained: bool, is_lz4: bool, payloads: Vec<Vec<u8>>
    ) {
        let (encoding, compression) =
            if is_lz4 { (Encoding::Lz4, Compression::Lz4) } else { (Encoding::Plain, Compression::None) };
        let mut bytes = bytes::BytesMut::new();
        for mut payload in payloads {
            // Most begin like an envelope, or nothing would be read behind the first byte.
            let start = if direction == Direction::Request { [5, 0, 0, 1, 7, 0] } else { [0x85, 0, 0, 1, 8, 0] };
            payload.splice(0..0, start);
            segment::encode(encoding, is_self_contained, &payload, &mut bytes).unwrap();
        }
        exercise::wire(direction, true, compression, &[&bytes[..]]);
    }

    #[test]
    fn any_bytes_as_a_value_of_any_type(cql_type in cql_type(), bytes: Vec<u8>) {
        exercise::value(&cql_type, &bytes);
    }

    #[test]
    fn any_text_as_a_class_name(name in "[A-Za-z0-9(),.: ]{0,40}", unicode: String) {
        let _ = (CqlType::from_class_name(&name), CqlType::from_class_name(&unicode));
    }
}
