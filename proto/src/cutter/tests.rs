#![allow(clippy::unwrap_used)]
use bytes::{Bytes, BytesMut};

use super::*;
use crate::compress::Compression;
use crate::envelope::{Envelope, MAX_BODY_LEN, StreamId, Version};
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

#[test]
fn the_middle_of_an_envelope_in_compressed_segments_lasts_until_its_last_segment() {
    let (mut client, negotiated) = client();
    negotiated.set_compression(Compression::Lz4);
    negotiated.start_segments();
    let mut pass = |is_self_contained, length| {
        let mut bytes = BytesMut::new();
        segment::encode(Encoding::Lz4, is_self_contained, &vec![0; length], &mut bytes).unwrap();
        client.cut(&bytes[..bytes.len() - 1]);
        assert!(client.is_in_the_middle(), "of the segment");
        client.cut(&bytes[bytes.len() - 1..]);
        client.is_in_the_middle()
    };
    // Two envelopes, one after the other; short payloads are not compressed.
    for length in [100_000, 3] {
        assert!(pass(false, length));
        assert!(pass(false, length));
        assert!(!pass(false, length - 1));
    }
    // A last part as long as the others ends only when the next envelope begins.
    assert!(pass(false, 100) && pass(false, 100));
    assert!(!pass(true, 100));
}

#[test]
fn a_hole_in_a_body_inside_a_segment_costs_no_other_envelope_of_it() {
    let of = |opcode| envelope(Version::V5, Direction::Request, opcode, &[0; 100]);
    let payload = [of(Opcode::PREPARE), of(Opcode::QUERY)].concat();
    let opened = |encoding| {
        let (client, negotiated) = client();
        negotiated.set_compression(match encoding {
            Encoding::Plain => Compression::None,
            Encoding::Lz4 => Compression::Lz4,
        });
        negotiated.start_segments();
        let mut bytes = BytesMut::new();
        segment::encode(encoding, true, &payload, &mut bytes).unwrap();
        (client, bytes.freeze())
    };
    let end_of_first = Encoding::Plain.header_len() + 9 + 100;
    for (from, to) in [(15, 16), (15, end_of_first), (100, end_of_first)] {
        let (mut client, bytes) = opened(Encoding::Plain);
        client.cut(&bytes[..from]);
        assert_eq!(client.skip(to - from), Skipped::InBody);
        assert_eq!(client.cut(&bytes[to..]).envelopes.of(Opcode::QUERY), 1);
        assert!(!client.is_in_the_middle());
    }
    // The end of the last body, with all or a part of the checksum, or that alone.
    let (_, bytes) = opened(Encoding::Plain);
    for (from, to) in [
        (200, bytes.len()),
        (200, bytes.len() - 1),
        (bytes.len() - 3, bytes.len()),
    ] {
        let (mut client, bytes) = opened(Encoding::Plain);
        client.cut(&bytes[..from]);
        assert_eq!(client.skip(to - from), Skipped::InBody);
        client.cut(&bytes[to..]);
        assert!(!client.is_in_the_middle());
    }
    let (mut client, bytes) = opened(Encoding::Lz4);
    client.cut(&bytes[..bytes.len() - 4]);
    assert_eq!(client.skip(4), Skipped::InSegment, "nobody knows what is inside");
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
fn a_startup_is_read_whatever_its_length_and_not_kept() {
    let (mut cutter, negotiated) = client();
    let options = |key: &str, value: &str| {
        let texts = [key, value].map(|text| {
            let length = u16::try_from(text.len()).unwrap().to_be_bytes();
            [&length[..], text.as_bytes()].concat()
        });
        texts.concat()
    };
    let mut body = vec![0, 201];
    for _ in 0..200 {
        body.extend(options("X", &"x".repeat(60_000)));
    }
    body.extend(options("COMPRESSION", "lz4"));
    let startup = request(Opcode::STARTUP, &body);
    let taken = allocation_counter::measure(|| {
        for part in startup.chunks(1_400) {
            assert_eq!(negotiated.compression(), Compression::None);
            cutter.cut(part);
        }
    });
    assert!(taken.bytes_max < 4_096, "{} bytes", taken.bytes_max);
    assert_eq!(negotiated.compression(), Compression::Lz4);
    assert!(cutter.startup.is_none());
    let header = Header {
        body_len: MAX_BODY_LEN,
        ..Header::request(Version::V4, StreamId(0), Opcode::STARTUP)
    };
    cutter.cut(&header.encode());
    cutter.cut(&[0; 100_000]);
    assert!(cutter.is_in_the_middle());
}

#[test]
fn only_the_startup_that_the_server_accepts_counts() {
    for accepts in [Opcode::READY, Opcode::AUTHENTICATE] {
        for is_early in [false, true] {
            let (mut client, negotiated) = client();
            let mut server = Cutter::new(Direction::Response, negotiated.clone());
            let mut answer = |opcode| {
                server.cut(&envelope(Version::V4, Direction::Response, opcode, &[]));
            };
            client.cut(&startup(Version::V4, "lz4"));
            if is_early {
                client.cut(&startup(Version::V4, "snappy"));
            }
            answer(accepts);
            if !is_early {
                client.cut(&startup(Version::V4, "snappy"));
            }
            answer(Opcode::ERROR);
            answer(Opcode::READY);
            assert_eq!(negotiated.compression(), Compression::Lz4);
        }
    }
}

#[test]
fn an_option_in_lower_case_compresses_the_segments_of_version_5() {
    let (mut client, negotiated) = client();
    let mut server = Cutter::new(Direction::Response, negotiated.clone());
    let mut bytes = startup(Version::V5, "lz4");
    bytes[HEADER_LEN + 4..HEADER_LEN + 15].make_ascii_lowercase();
    client.cut(&bytes);
    server.cut(&envelope(Version::V5, Direction::Response, Opcode::READY, &[]));
    assert_eq!(negotiated.framing(), Framing::Segments(Encoding::Lz4));
}

/// A cutter that has passed `before` and, where the other direction matters, knows of a PREPARE.
fn after(direction: Direction, before: &[u8], expects_prepared: bool) -> Cutter {
    let negotiated = Arc::new(Negotiated::new());
    if expects_prepared {
        negotiated.expect_prepared(StreamId(1));
    }
    let mut cutter = Cutter::new(direction, negotiated);
    cutter.cut(before);
    cutter
}

#[test]
fn a_whole_envelope_is_cut_as_any_chunk_is_or_not_at_all() {
    let mut whole = OpcodeCounts::default();
    let versions = [3, 4, 5, 6, 65, 66, 7].map(Version::from_number);
    let chunks = versions.into_iter().flat_map(|version| {
        (0..20).flat_map(move |opcode| {
            [Direction::Request, Direction::Response].map(|to| envelope(version, to, Opcode(opcode), b"body"))
        })
    });
    for chunk in chunks {
        let mut longer = chunk.clone();
        longer.push(4);
        let parts = [
            &chunk[..],
            &longer,
            &chunk.repeat(2),
            &chunk[..chunk.len() - 1],
            &chunk[..8],
            &[],
        ];
        for direction in [Direction::Request, Direction::Response] {
            let other = envelope(Version::V4, direction, Opcode::EVENT, b"other");
            for (before, expects_prepared) in [(0, false), (0, true), (5, false), (11, true), (14, false)] {
                for part in parts {
                    let mut one = after(direction, &other[..before], expects_prepared);
                    let mut any = after(direction, &other[..before], expects_prepared);
                    let cut = match one.cut_whole(part) {
                        None => one.cut(part),
                        Some(opcode) => {
                            whole.add(opcode);
                            let mut cut = Cut {
                                first_boundary: Some(0),
                                framing: Some(Framing::Envelopes),
                                ..Cut::default()
                            };
                            cut.envelopes.add(opcode);
                            cut
                        }
                    };
                    assert_eq!(cut, any.cut(part), "{direction:?}: {part:?}");
                    assert_eq!(format!("{one:?}"), format!("{any:?}"), "{direction:?}: {part:?}");
                }
            }
        }
    }
    // Six known versions; at the beginning and behind an envelope, and requests also where an answer to a
    // PREPARE is expected.
    assert_eq!((whole.of(Opcode::EXECUTE), whole.of(Opcode::RESULT)), (30, 30));
    assert_eq!((whole.of(Opcode::STARTUP), whole.of(Opcode::PREPARE)), (12, 12));
}
