#![allow(clippy::unwrap_used)]
use bytes::BytesMut;
use proptest::{collection::vec, prelude::*};

use super::*;
use crate::compress::encode_compressed;
use crate::envelope::{Flags, HEADER_LEN, StreamId, Version};
use crate::message::{Dialect, Extras, Request, Startup};

fn response(version: Version, stream: i16, body: &[u8]) -> Envelope {
    let header = Header::response(version, StreamId(stream), Opcode::RESULT);
    Envelope {
        header,
        body: Bytes::copy_from_slice(body),
    }
}

fn bytes_of(envelopes: &[Envelope]) -> Bytes {
    let mut out = BytesMut::new();
    envelopes
        .iter()
        .for_each(|envelope| envelope.encode(&mut out).unwrap());
    out.freeze()
}

fn server() -> (EnvelopeStream, Arc<Negotiated>) {
    let negotiated = Arc::new(Negotiated::new());
    (
        EnvelopeStream::new(Direction::Response, negotiated.clone()),
        negotiated,
    )
}

fn items(stream: &mut EnvelopeStream) -> Vec<StreamItem> {
    std::iter::from_fn(|| stream.next_item()).collect()
}

fn bodies(items: &[StreamItem]) -> Vec<&[u8]> {
    fn body(item: &StreamItem) -> Option<&[u8]> {
        if let StreamItem::Envelope(envelope) = item {
            Some(&envelope.body)
        } else {
            None
        }
    }
    items.iter().filter_map(body).collect()
}

#[test]
fn a_body_that_is_not_split_is_a_slice_of_its_chunk() {
    let (mut stream, _) = server();
    let chunk = bytes_of(&[response(Version::V4, 1, b"rows")]);
    stream.feed(chunk.clone());
    let Some(StreamItem::Envelope(envelope)) = stream.next_item() else {
        unreachable!()
    };
    assert_eq!(envelope.body.as_ptr(), chunk[9..].as_ptr());
}

/// What a stream yields of chunks of which each is taken as an envelope where that can be.
fn taken_where_it_can_be(stream: &mut EnvelopeStream, chunks: &[Bytes]) -> (Vec<StreamItem>, usize) {
    let (mut all, mut taken) = (Vec::new(), 0);
    for chunk in chunks {
        match stream.take_envelope(chunk.clone()) {
            Ok(envelope) => {
                all.push(StreamItem::Envelope(envelope));
                taken += 1;
            }
            Err(chunk) => {
                stream.feed(chunk);
                all.extend(items(stream));
            }
        }
    }
    (all, taken)
}

#[test]
fn a_chunk_is_taken_as_an_envelope_only_where_it_is_just_that() {
    let one = |body: &[u8]| bytes_of(&[response(Version::V4, 1, body)]);
    let (rows, long) = (one(b"rows"), one(&[1; 200]));
    let compressed = {
        let mut out = BytesMut::new();
        encode_compressed(&response(Version::V4, 2, &[7; 500]), Compression::Lz4, &mut out).unwrap();
        out.freeze()
    };
    let chunks = [
        rows.clone(),
        // Two of them; one in parts, of which the second is as long as an envelope and the third is one.
        [&rows[..], &rows[..]].concat().into(),
        [&rows[..9], &[][..]].concat().into(),
        Bytes::from_static(b"rows"),
        rows.slice(..3),
        [&rows[3..], &rows[..]].concat().into(),
        rows.clone(),
        // Beyond the limit, compressed, empty, and of the other direction.
        long,
        rows.clone(),
        compressed,
        one(b""),
        Bytes::from_static(b"\x04\x00\x00\x00\x05\x00\x00\x00\x00"),
        rows,
    ];
    let stream = || server().0.with_max_body(150);
    let (mut fed, mut other) = (stream(), stream());
    let expected: Vec<_> = chunks
        .iter()
        .flat_map(|chunk| {
            fed.feed(chunk.clone());
            items(&mut fed)
        })
        .collect();
    let (told, taken) = taken_where_it_can_be(&mut other, &chunks);
    assert_eq!(told, expected);
    assert_eq!(taken, 4, "not what is lost, compressed, too long or in parts");
    assert_eq!(bodies(&told).len(), 9);
}

#[test]
fn no_chunk_is_taken_for_an_envelope_where_there_are_segments() {
    let (mut stream, negotiated) = server();
    let ready = Header::response(Version::V5, StreamId(0), Opcode::READY);
    let ready = Envelope {
        header: ready,
        body: Bytes::new(),
    };
    assert!(stream.take_envelope(bytes_of(&[ready])).is_ok());
    assert_eq!(negotiated.framing(), Framing::Segments(Encoding::Plain));
    let envelopes = [response(Version::V5, 1, b"rows")];
    assert!(stream.take_envelope(bytes_of(&envelopes)).is_err());
    let (told, taken) = taken_where_it_can_be(&mut stream, &[segments(Encoding::Plain, &envelopes)]);
    assert_eq!((bodies(&told), taken), (vec![&b"rows"[..]], 0));
}

#[test]
fn a_compressed_body_is_decompressed_and_its_header_stays() {
    for compression in [Compression::Lz4, Compression::Snappy] {
        let (mut stream, negotiated) = server();
        negotiated.set_compression(compression);
        let mut out = BytesMut::new();
        encode_compressed(&response(Version::V4, 1, &[7; 500]), compression, &mut out).unwrap();
        stream.feed(out.freeze());
        let Some(StreamItem::Envelope(envelope)) = stream.next_item() else {
            unreachable!()
        };
        assert_eq!(&envelope.body[..], [7; 500]);
        assert!(envelope.header.flags.contains(Flags::COMPRESSED));
        assert!(envelope.header.body_len < 500);
    }
}

#[test]
fn a_long_body_is_skipped_and_the_next_envelope_is_read() {
    let (stream, _) = server();
    let mut stream = stream.with_max_body(100);
    let chunk = bytes_of(&[
        response(Version::V4, 1, &[0; 101]),
        response(Version::V4, 2, b"x"),
    ]);
    stream.feed(chunk.slice(..50));
    assert_eq!(items(&mut stream), []);
    stream.feed(chunk.slice(50..));
    let items = items(&mut stream);
    assert!(matches!(&items[0], StreamItem::Skipped { header, .. } if header.body_len == 101));
    assert_eq!(bodies(&items), [b"x"]);
}

#[test]
fn a_lost_stream_finds_its_place_after_a_gap() {
    let (mut stream, _) = server();
    stream.feed(Bytes::from_static(&[0x99; 20]));
    assert!(matches!(items(&mut stream)[..], [StreamItem::Lost(_)]));
    let chunk = bytes_of(&[response(Version::V4, 1, b"a"), response(Version::V4, 2, b"b")]);
    stream.feed(chunk.clone());
    assert_eq!(items(&mut stream), []);
    let gap = Gap {
        boundary: Some(10),
        framing: Framing::Envelopes,
        compression: Compression::None,
    };
    stream.feed_after_gap(chunk, gap);
    assert_eq!(bodies(&items(&mut stream)), [b"b"]);
}

#[test]
fn a_gap_without_a_boundary_waits_for_the_next() {
    let (mut stream, _) = server();
    let gap = Gap {
        boundary: None,
        framing: Framing::Envelopes,
        compression: Compression::None,
    };
    stream.feed_after_gap(bytes_of(&[response(Version::V4, 1, b"a")]), gap);
    assert_eq!(items(&mut stream), []);
    stream.feed_after_gap(
        bytes_of(&[response(Version::V4, 1, b"b")]),
        Gap {
            boundary: Some(0),
            ..gap
        },
    );
    assert_eq!(bodies(&items(&mut stream)), [b"b"]);
}

fn segments(encoding: Encoding, envelopes: &[Envelope]) -> Bytes {
    let mut out = BytesMut::new();
    for envelope in envelopes {
        segment::encode_envelopes(encoding, &bytes_of(std::slice::from_ref(envelope)), &mut out).unwrap();
    }
    out.freeze()
}

#[test]
fn ready_of_version_5_is_followed_by_segments() {
    let (mut stream, _) = server();
    let ready = Envelope {
        header: Header::response(Version::V5, StreamId(0), Opcode::READY),
        body: Bytes::new(),
    };
    let rest = segments(Encoding::Plain, &[response(Version::V5, 1, b"a")]);
    stream.feed([bytes_of(&[ready]), rest].concat().into());
    assert_eq!(bodies(&items(&mut stream)), [&b""[..], b"a"]);
}

#[test]
fn a_damaged_payload_costs_its_own_envelopes_only() {
    let (mut stream, negotiated) = server();
    negotiated.start_segments();
    let mut chunk = BytesMut::from(&segments(Encoding::Plain, &[response(Version::V5, 1, b"a")])[..]);
    let end = chunk.len();
    chunk.extend_from_slice(&segments(Encoding::Plain, &[response(Version::V5, 2, b"b")]));
    chunk[end - 1] ^= 1;
    stream.feed(chunk.freeze());
    let items = items(&mut stream);
    assert!(matches!(
        items[0],
        StreamItem::Damaged(DecodeError {
            what: "segment payload CRC32",
            ..
        })
    ));
    assert_eq!(bodies(&items), [b"b"]);
}

#[test]
fn after_a_gap_a_large_envelope_is_found_by_its_header() {
    let large = vec![5; 300_000];
    let envelopes = [response(Version::V5, 1, &large), response(Version::V5, 2, &large)];
    for encoding in [Encoding::Plain, Encoding::Lz4] {
        let (mut stream, _) = server();
        let chunk = segments(encoding, &envelopes);
        let first = SegmentHeader::decode(encoding, &chunk[..encoding.header_len()]).unwrap();
        let boundary = encoding.header_len() + first.payload_len + segment::TRAILER_LEN;
        let compression = if encoding == Encoding::Lz4 {
            Compression::Lz4
        } else {
            Compression::None
        };
        let gap = Gap {
            boundary: Some(boundary),
            framing: Framing::Segments(encoding),
            compression,
        };
        stream.feed_after_gap(chunk, gap);
        assert_eq!(bodies(&items(&mut stream)), [&large[..]]);
    }
}

#[test]
fn a_damaged_segment_header_loses_the_place() {
    let (mut stream, negotiated) = server();
    negotiated.start_segments();
    stream.feed(Bytes::from_static(&[1; 40]));
    let lost = items(&mut stream);
    assert!(matches!(
        lost[..],
        [StreamItem::Lost(DecodeError {
            what: "segment header CRC24",
            ..
        })]
    ));
}

#[test]
fn a_long_result_in_parts_is_the_same_envelope() {
    for lengths in [
        vec![20_000, 20_000],
        vec![100, 20_000, 1, 1, 17_000, 3],
        vec![1; 40_000],
    ] {
        let body: Vec<u8> = (0..40_000_u32).map(|number| number.to_le_bytes()[0]).collect();
        let long = response(Version::V4, 7, &body);
        let mut wire = BytesMut::new();
        long.encode(&mut wire).unwrap();
        let next = response(Version::V4, 8, b"short");
        next.encode(&mut wire).unwrap();
        let mut stream = EnvelopeStream::new(Direction::Response, Arc::new(Negotiated::new()))
            .with_long_results(16 * 1024);
        let mut wire = wire.freeze();
        let mut items = Vec::new();
        for length in lengths.into_iter().chain([usize::MAX]) {
            stream.feed(wire.split_to(length.min(wire.len())));
            items.extend(std::iter::from_fn(|| stream.next_item()));
        }
        let [StreamItem::Long(parts), StreamItem::Envelope(after)] = &items[..] else {
            unreachable!("{} items", items.len())
        };
        assert!(parts.join().body == long.body, "40,000 bytes, in order");
        assert_eq!(parts.body_len(), long.body.len());
        let head = parts.head().body;
        assert!(!head.is_empty() && long.body.starts_with(&head));
        assert_eq!(after.body, next.body);
    }
}

#[test]
fn a_body_that_is_let_go_of_is_skipped_and_the_next_envelope_is_there() {
    for opcode in [Opcode::RESULT, Opcode::ERROR] {
        let mut long = response(Version::V4, 7, &[1; 40_000]);
        long.header.opcode = opcode;
        let mut wire = BytesMut::new();
        long.encode(&mut wire).unwrap();
        response(Version::V4, 8, b"short").encode(&mut wire).unwrap();
        let mut stream = EnvelopeStream::new(Direction::Response, Arc::new(Negotiated::new()))
            .with_long_results(16 * 1024);
        let mut wire = wire.freeze();
        stream.feed(wire.split_to(30_000));
        assert_eq!(stream.next_item(), None);
        assert_eq!(stream.kept(), 30_000 - HEADER_LEN);
        stream.skip();
        assert_eq!(stream.kept(), 0);
        stream.feed(wire);
        assert!(
            matches!(stream.next_item(), Some(StreamItem::Skipped { header, .. }) if header.opcode == opcode)
        );
        assert!(matches!(stream.next_item(), Some(StreamItem::Envelope(next)) if &next.body[..] == b"short"));
    }
}

#[test]
fn of_an_envelope_with_a_gap_the_header_is_told_and_the_next_one_is_whole() {
    let wire = bytes_of(&[
        response(Version::V4, 1, &[7; 100]),
        response(Version::V4, 2, b"whole"),
    ]);
    for (from, to) in [(20, 60), (20, 109), (9, 109)] {
        let (mut stream, _) = server();
        stream.feed(wire.slice(..from));
        assert_eq!(stream.next_item(), None);
        stream.skip_gap(to - from);
        stream.feed(wire.slice(to..));
        let items = items(&mut stream);
        assert!(matches!(items[0], StreamItem::Skipped { header, .. } if header.stream_id == StreamId(1)));
        assert_eq!(bodies(&items), [b"whole"]);
    }
}

#[test]
fn compression_is_found_out_where_no_startup_was_seen() {
    for compression in [Compression::Lz4, Compression::Snappy] {
        let envelope = response(
            Version::V4,
            1,
            &[b"to be compressed".repeat(20), vec![1]].concat(),
        );
        let mut wire = BytesMut::new();
        encode_compressed(&envelope, compression, &mut wire).unwrap();
        let (mut stream, negotiated) = server();
        stream.feed(wire.freeze());
        assert_eq!(bodies(&items(&mut stream)), [&envelope.body[..]]);
        assert_eq!(negotiated.compression(), compression);
    }
}

#[test]
fn what_is_no_long_result_comes_whole() {
    let mut error = response(Version::V4, 1, &[0; 40_000]);
    error.header.opcode = Opcode::ERROR;
    let mut wire = BytesMut::new();
    error.encode(&mut wire).unwrap();
    let mut stream =
        EnvelopeStream::new(Direction::Response, Arc::new(Negotiated::new())).with_long_results(16 * 1024);
    let mut wire = wire.freeze();
    stream.feed(wire.split_to(30_000));
    assert_eq!(stream.next_item(), None);
    stream.feed(wire);
    assert!(
        matches!(stream.next_item(), Some(StreamItem::Envelope(envelope)) if envelope.body == error.body)
    );
}

fn error(stream: i16, code: u32) -> Envelope {
    Envelope {
        header: Header::response(Version::V5, StreamId(stream), Opcode::ERROR),
        body: [&code.to_be_bytes()[..], &[0, 30], &[b'x'; 30]].concat().into(),
    }
}

/// A segment that holds all of these.
fn segment_of(encoding: Encoding, envelopes: &[Envelope]) -> Bytes {
    let mut out = BytesMut::new();
    segment::encode(encoding, true, &bytes_of(envelopes), &mut out).unwrap();
    out.freeze()
}

fn server_of_segments() -> EnvelopeStream {
    let (stream, negotiated) = server();
    negotiated.start_segments();
    stream
}

/// What comes of bytes of which those of `gap` are missing.
fn read_with_gap(stream: &mut EnvelopeStream, wire: &Bytes, gap: std::ops::Range<usize>) -> Vec<StreamItem> {
    stream.feed(wire.slice(..gap.start));
    let mut all = items(stream);
    stream.skip_gap(gap.len());
    all.extend(items(stream));
    stream.feed(wire.slice(gap.end..));
    all.extend(items(stream));
    all
}

#[test]
fn of_a_segment_that_is_cut_off_an_error_is_told_with_its_code() {
    let cut = segment_of(
        Encoding::Plain,
        &[
            response(Version::V5, 1, b"before it"),
            error(2, 0x1200),
            response(Version::V5, 3, b"behind it"),
        ],
    );
    let next = segment_of(Encoding::Plain, &[response(Version::V5, 4, b"next")]);
    let wire = Bytes::from([&cut[..], &next[..]].concat());
    let code_ends = 6 + (9 + 9) + (9 + 4);
    let items = read_with_gap(&mut server_of_segments(), &wire, code_ends..cut.len());
    assert_eq!(bodies(&items), [&b"before it"[..], b"next"]);
    let told = items.iter().find_map(|item| match item {
        StreamItem::Skipped { header, begun, .. } => Some((header.opcode, header.stream_id, begun.clone())),
        _ => None,
    });
    let code = Bytes::from_static(&[0, 0, 0x12, 0]);
    assert_eq!(told, Some((Opcode::ERROR, StreamId(2), code)));
    let damaged = items
        .iter()
        .filter(|item| matches!(item, StreamItem::Damaged(_)))
        .count();
    assert_eq!(damaged, 1, "what is behind it cannot be told");
}

#[test]
fn a_gap_inside_one_body_costs_no_other_envelope_of_its_segment() {
    let envelopes = [
        response(Version::V5, 1, &[1; 50]),
        response(Version::V5, 2, &[2; 50]),
        response(Version::V5, 3, &[3; 50]),
    ];
    let wire = segment_of(Encoding::Plain, &envelopes);
    let second = 6 + 59 + 9;
    for gap in [second..second + 1, second + 20..second + 50, second..second + 50] {
        let items = read_with_gap(&mut server_of_segments(), &wire, gap);
        assert_eq!(bodies(&items), [&[1; 50][..], &[3; 50]]);
        assert_eq!(items.len(), 3);
        assert!(matches!(&items[1], StreamItem::Skipped { header, .. } if header.stream_id == StreamId(2)));
    }
    // The checksum alone, or a part of it: all envelopes are there, and nothing speaks against them.
    for gap in [wire.len() - 4..wire.len(), wire.len() - 2..wire.len() - 1] {
        let items = read_with_gap(&mut server_of_segments(), &wire, gap);
        assert_eq!(bodies(&items), [&[1; 50][..], &[2; 50], &[3; 50]]);
        assert_eq!(items.len(), 3);
    }
}

#[test]
fn an_envelope_in_several_segments_with_a_gap_is_skipped() {
    let large = response(Version::V5, 1, &vec![5; 300_000]);
    let wire = segments(Encoding::Plain, &[large, response(Version::V5, 2, b"next")]);
    for gap in [
        50..1_000,
        131_071 + 10 + 500..131_071 + 10 + 501,
        280_000..290_000,
    ] {
        let items = read_with_gap(&mut server_of_segments(), &wire, gap);
        assert_eq!(bodies(&items), [b"next"]);
        assert_eq!(items.len(), 2);
        assert!(matches!(&items[0], StreamItem::Skipped { header, .. } if header.body_len == 300_000));
    }
}

#[test]
fn what_is_no_envelope_is_not_read_out_of_a_segment_with_a_gap() {
    let changes: [fn(&mut Header); 6] = [
        |header| header.version = Version::V4,
        |header| header.direction = Direction::Request,
        |header| header.opcode = Opcode(0x77),
        |header| header.opcode = Opcode::QUERY,
        |header| header.flags = Flags(0x80),
        |header| header.stream_id = StreamId(-2),
    ];
    for change in changes {
        let mut no_envelope = response(Version::V5, 2, b"no envelope");
        change(&mut no_envelope.header);
        let envelopes = [
            response(Version::V5, 1, &[1; 50]),
            no_envelope,
            response(Version::V5, 3, b"behind it"),
        ];
        let wire = segment_of(Encoding::Plain, &envelopes);
        let items = read_with_gap(&mut server_of_segments(), &wire, 30..40);
        assert!(
            matches!(items[..], [StreamItem::Skipped { .. }, StreamItem::Damaged(_)]),
            "{items:?}"
        );
    }
    // A body that would end behind its segment.
    let mut long = response(Version::V5, 2, b"long").header.encode().to_vec();
    long[8] = 200;
    let mut wire = BytesMut::new();
    segment::encode(Encoding::Plain, true, &long, &mut wire).unwrap();
    let end = wire.len();
    wire.extend_from_slice(&segment_of(
        Encoding::Plain,
        &[response(Version::V5, 4, &[4; 300])],
    ));
    let items = read_with_gap(&mut server_of_segments(), &wire.freeze(), end - 4..end);
    assert!(matches!(items[0], StreamItem::Damaged(_)), "{items:?}");
    assert_eq!(bodies(&items), [&[4; 300][..]]);
    assert_eq!(items.len(), 2);
}

#[test]
fn of_a_compressed_segment_with_a_gap_nothing_is_told() {
    let cut = segment_of(Encoding::Lz4, &[response(Version::V5, 1, &[1; 400])]);
    let next = segment_of(Encoding::Lz4, &[response(Version::V5, 2, b"next")]);
    let (mut stream, negotiated) = server();
    negotiated.set_compression(Compression::Lz4);
    negotiated.start_segments();
    let wire = [&cut[..], &next[..]].concat().into();
    let items = read_with_gap(&mut stream, &wire, 20..cut.len());
    assert!(matches!(items[0], StreamItem::Damaged(_)));
    assert_eq!(bodies(&items), [b"next"]);
    assert_eq!(items.len(), 2);
}

proptest! {
    /// Whatever is missing inside a segment: every item was there, in its order, all that lies before the gap
    /// and the segments behind it included; wherever chunks end.
    #[test]
    fn a_gap_in_a_segment_invents_nothing(
        lengths in vec(0_usize..60, 1..6), from in any::<prop::sample::Index>(), to in any::<prop::sample::Index>(),
        size in 1_usize..80,
    ) {
        let of = |(stream, length): (i16, &usize)| response(Version::V5, stream, &vec![stream.to_le_bytes()[0]; *length]);
        let envelopes: Vec<_> = (1_i16..).zip(&lengths).map(of).collect();
        let cut = segment_of(Encoding::Plain, &envelopes);
        let last = response(Version::V5, 99, b"next segment");
        let wire = Bytes::from([&cut[..], &segment_of(Encoding::Plain, std::slice::from_ref(&last))].concat());
        let (from, to) = (6 + from.index(cut.len() - 6), 6 + to.index(cut.len() - 6));
        let gap = from.min(to)..from.max(to) + 1;

        let mut stream = server_of_segments();
        let mut told = Vec::new();
        let before = wire.slice(..gap.start);
        for chunk in before.chunks(size) {
            stream.feed(Bytes::copy_from_slice(chunk));
            told.extend(items(&mut stream));
        }
        stream.skip_gap(gap.len());
        told.extend(items(&mut stream));
        for chunk in wire.slice(gap.end..).chunks(size) {
            stream.feed(Bytes::copy_from_slice(chunk));
            told.extend(items(&mut stream));
        }

        let mut start = 6;
        let mut hidden = false;
        let mut expected = Vec::new();
        for envelope in &envelopes {
            let (body, end) = (start + 9, start + 9 + envelope.body.len());
            let is_whole = gap.end <= start || end <= gap.start;
            let has_header = gap.start >= body;
            match (hidden, is_whole, has_header) {
                (false, true, _) => expected.push((envelope.header.stream_id, true)),
                (false, false, true) => {
                    expected.push((envelope.header.stream_id, false));
                    hidden = gap.end > end && end < cut.len() - 4;
                }
                _ => hidden = true,
            }
            start = end;
        }
        expected.push((last.header.stream_id, true));
        let found: Vec<_> = told.iter().filter_map(|item| match item {
            StreamItem::Envelope(envelope) => Some((envelope.header.stream_id, true)),
            StreamItem::Skipped { header, .. } => Some((header.stream_id, false)),
            _ => None,
        }).collect();
        prop_assert_eq!(found, expected);
        for item in &told {
            if let StreamItem::Envelope(envelope) = item {
                let original = envelopes.iter().chain([&last]).find(|original| original.header.stream_id == envelope.header.stream_id);
                prop_assert_eq!(original.map(|original| &original.body), Some(&envelope.body));
            }
        }
        let damaged = told.iter().filter(|item| matches!(item, StreamItem::Damaged(_))).count();
        prop_assert_eq!(damaged, usize::from(hidden));
    }
}

/// Both directions of a connection whose STARTUP, of which the flags are `flags`, was accepted.
fn started(options: &[(&'static str, &'static str)], flags: Flags) -> (EnvelopeStream, EnvelopeStream) {
    let negotiated = Arc::new(Negotiated::new());
    let mut client = EnvelopeStream::new(Direction::Request, negotiated.clone()).with_heads(DEFAULT_MAX_BODY);
    let options = options.to_vec();
    let startup = Request::Startup(Startup { options });
    let dialect = Dialect::new(Version::V4);
    let mut startup = startup
        .to_envelope(dialect, StreamId(1), &Extras::default())
        .unwrap();
    startup.header.flags = flags;
    client.feed(bytes_of(std::slice::from_ref(&startup)));
    assert_eq!(bodies(&items(&mut client)), [&startup.body[..]]);
    let mut server = EnvelopeStream::new(Direction::Response, negotiated);
    let mut ready = response(Version::V4, 1, b"");
    ready.header.opcode = Opcode::READY;
    server.feed(bytes_of(&[ready]));
    assert_eq!(items(&mut server).len(), 1);
    (client, server)
}

#[test]
fn the_flag_for_compression_means_nothing_where_none_was_agreed_on() {
    for flags in [Flags::NONE, Flags::COMPRESSED] {
        let (mut client, mut server) = started(&[("CQL_VERSION", "3.0.0")], flags);
        let mut query = response(Version::V4, 2, b"\0\0\0\x01Q\0\x01\0");
        query.header.flags = Flags::COMPRESSED;
        server.feed(bytes_of(std::slice::from_ref(&query)));
        assert_eq!(bodies(&items(&mut server)), [&query.body[..]]);
        query.header.direction = Direction::Request;
        query.header.opcode = Opcode::QUERY;
        client.feed(bytes_of(std::slice::from_ref(&query)));
        assert_eq!(bodies(&items(&mut client)), [&query.body[..]]);
        query.body = vec![7; DEFAULT_MAX_BODY + 1].into();
        client.feed(bytes_of(std::slice::from_ref(&query)));
        let items = items(&mut client);
        let [StreamItem::Head(head)] = &items[..] else {
            unreachable!()
        };
        assert_eq!(head.body_len, query.body.len());
        assert!(query.body.starts_with(&head.envelope.body));
    }
}

#[test]
fn a_body_says_which_of_two_algorithms_the_server_takes() {
    let (_, mut server) = started(&[("COMPRESSION", "lz4"), ("compression", "snappy")], Flags::NONE);
    let envelope = response(Version::V4, 1, &b"to be compressed".repeat(20));
    for compression in [Compression::Lz4, Compression::Snappy, Compression::Lz4] {
        let mut wire = BytesMut::new();
        encode_compressed(&envelope, compression, &mut wire).unwrap();
        server.feed(wire.freeze());
        assert_eq!(bodies(&items(&mut server)), [&envelope.body[..]]);
    }
}
