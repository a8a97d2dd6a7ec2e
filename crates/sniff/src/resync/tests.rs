#![allow(clippy::unwrap_used)]
use super::{chain::ENOUGH_BYTES, *};
use bytes::BytesMut;
use cqlens_proto::{
    compress::encode_compressed,
    envelope::StreamId,
    message::{Consistency, Dialect, Extras, Query, QueryParameters, Request},
};
use proptest::{collection::vec, prelude::*};

const AT: Moment = Moment::from_unix_nanoseconds(0);

fn query(version: Version, stream: i16, cql: &str, compression: Compression) -> Vec<u8> {
    let envelope = Request::Query(Query {
        query: cql,
        parameters: QueryParameters::new(Consistency::One),
    })
    .to_envelope(Dialect::new(version), StreamId(stream), &Extras::default())
    .unwrap();
    let mut out = BytesMut::new();
    encode_compressed(&envelope, compression, &mut out).unwrap();
    out.to_vec()
}

fn find(bytes: &[u8], direction: Direction, known: KnownFraming) -> Option<(usize, SyncPoint)> {
    let (_, found) = Resync::alone().add(direction, known, bytes, AT);
    found.map(|found| (found.lost, found.point))
}

#[test]
fn the_next_envelope_is_found_from_any_byte_of_the_one_before() {
    let cql = "SELECT name FROM users WHERE id = 12345";
    for compression in [Compression::None, Compression::Lz4, Compression::Snappy] {
        let one = query(Version::V4, 1, cql, compression);
        let two = query(Version::V4, 2, &cql.repeat(3), compression);
        let bytes = [one.clone(), two].concat();
        for from in 1..one.len() {
            let (lost, point) = find(&bytes[from..], Direction::Request, KnownFraming::default()).unwrap();
            assert_eq!((from, lost), (from, one.len() - from));
            assert_eq!(point.framing, Framing::Envelopes);
            assert_eq!(point.version, Some(Version::V4));
        }
    }
}

#[test]
fn the_next_segment_is_found_with_its_encoding() {
    for encoding in [Encoding::Plain, Encoding::Lz4] {
        let payload = query(
            Version::V5,
            1,
            "SELECT * FROM a.b WHERE id = 1",
            Compression::None,
        );
        let mut one = BytesMut::new();
        segment::encode_envelopes(encoding, &payload.repeat(4), &mut one).unwrap();
        let bytes = [&one[..], &one[..]].concat();
        for from in 1..one.len() {
            let (lost, point) = find(&bytes[from..], Direction::Request, KnownFraming::default()).unwrap();
            assert_eq!(lost, one.len() - from);
            assert_eq!(point.framing, Framing::Segments(encoding));
        }
    }
}

#[test]
fn a_place_is_found_wherever_pieces_end() {
    let one = query(
        Version::V4,
        1,
        "SELECT name FROM users WHERE id = 12345",
        Compression::None,
    );
    let bytes = [&one[20..], &one[..], &one[..]].concat();
    for size in 1..bytes.len() {
        let mut resync = Resync::alone();
        let mut found = None;
        let mut seen = 0;
        for piece in bytes.chunks(size) {
            seen += piece.len();
            found = resync
                .add(Direction::Request, KnownFraming::default(), piece, AT)
                .1;
            if found.is_some() {
                break;
            }
        }
        let found = found.unwrap();
        assert_eq!(found.lost, one.len() - 20, "pieces of {size}");
        let pieces: Vec<u8> = found
            .pieces
            .iter()
            .flat_map(|(bytes, _)| bytes.to_vec())
            .collect();
        assert_eq!(pieces, bytes[found.lost..seen]);
    }
}

#[test]
fn a_bound_int_before_an_empty_value_is_no_options() {
    let values = [0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 0];
    assert_eq!(find(&values, Direction::Request, KnownFraming::default()), None);
    assert_eq!(
        find(&values.repeat(20), Direction::Request, KnownFraming::default()),
        None
    );
}

/// A write of a value that contains whole requests, as of an application that stores them in a table.
fn of_requests(count: i16) -> Vec<u8> {
    let inner: Vec<u8> = (0..count)
        .flat_map(|stream| query(Version::V4, stream, "DROP TABLE kept.requests", Compression::None))
        .collect();
    let mut body = vec![0, 16];
    body.extend([7; 16]);
    // ONE; values, page size, time.
    body.extend([0, 1, 0x25, 0, 1]);
    body.extend(u32::try_from(inner.len()).unwrap().to_be_bytes());
    body.extend(inner);
    body.extend([0, 0, 0x13, 0x88, 0, 6, 0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc]);
    let mut envelope = vec![4, 0, 0, 9, 0x0a];
    envelope.extend(u32::try_from(body.len()).unwrap().to_be_bytes());
    envelope.extend(body);
    envelope
}

#[test]
fn requests_inside_a_value_are_none() {
    let next = query(
        Version::V4,
        2,
        "SELECT name FROM users WHERE id = 1",
        Compression::None,
    );
    for (count, size) in [(3, 10_000), (40, 1_448), (200, 1_448), (200, 4_000)] {
        let one = of_requests(count);
        let bytes = [one.clone(), next.clone()].concat();
        for from in (1..one.len()).step_by(one.len() / 25 + 1) {
            let mut resync = Resync::alone();
            // Where packets end, but for the last one of a request, is not where a request ends inside.
            let (first, last) = bytes[from..].split_at(one.len() - from);
            let pieces = first.chunks(size).chain([last]);
            let found = pieces
                .filter_map(|piece| {
                    resync
                        .add(Direction::Request, KnownFraming::default(), piece, AT)
                        .1
                })
                .next();
            let found = found.unwrap();
            assert_eq!(
                found.lost,
                one.len() - from,
                "{count} in pieces of {size}, from {from}"
            );
        }
    }
}

#[test]
fn a_stream_whose_requests_end_within_packets_is_found_all_the_same() {
    let one = query(
        Version::V4,
        1,
        "SELECT name FROM users WHERE id = 1",
        Compression::None,
    );
    let bytes = one.repeat(ENOUGH_BYTES / one.len() + 40);
    let mut resync = Resync::alone();
    let mut found = None;
    let mut pieces = bytes[20..].chunks(1_447);
    while found.is_none() {
        found = resync
            .add(
                Direction::Request,
                KnownFraming::default(),
                pieces.next().unwrap(),
                AT,
            )
            .1;
    }
    assert_eq!(found.unwrap().lost, one.len() - 20);
}

#[test]
fn what_is_kept_is_bounded_and_what_is_given_up_is_counted() {
    let mut resync = Resync::alone();
    let (mut forgotten, piece) = (0, vec![0xfe; 10_000]);
    for _ in 0..1_000 {
        forgotten += resync
            .add(Direction::Response, KnownFraming::default(), &piece, AT)
            .0;
        assert!(resync.kept() <= MAX_KEPT);
    }
    assert_eq!(forgotten + resync.kept(), 10_000_000);
    let one = query(
        Version::V4,
        1,
        "SELECT name FROM users WHERE id = 12345",
        Compression::None,
    );
    let (_, found) = resync.add(Direction::Request, KnownFraming::default(), &one, AT);
    let found = found.unwrap();
    assert_eq!(found.pieces, [(Bytes::from(one), AT)]);
}

proptest! {
    #[test]
    fn random_bytes_are_no_place(bytes in vec(any::<u8>(), 0..1_500)) {
        for direction in [Direction::Request, Direction::Response] {
            prop_assert_eq!(find(&bytes, direction, KnownFraming::default()), None);
        }
    }

    /// Bytes as bodies have them: small numbers and lengths.
    #[test]
    fn numbers_and_lengths_are_no_place(
        words in vec(prop_oneof![0_u32..20, Just(0x8400_0000), Just(u32::MAX), any::<u32>()], 0..400),
    ) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        for from in 0..4.min(bytes.len()) {
            prop_assert_eq!(find(&bytes[from..], Direction::Request, KnownFraming::default()), None);
        }
    }
}

#[test]
fn all_searches_together_keep_to_their_memory() {
    let memory = Part::new("test", 1 << 20);
    let known = KnownFraming::default();
    let mut resyncs: Vec<_> = (0..100).map(|_| Resync::within(memory.clone())).collect();
    // A place is never found in this.
    let packet = [0xff; 1_400];
    let mut lost = 0;
    for _ in 0..100 {
        for resync in &mut resyncs {
            lost += resync.add(Direction::Request, known, &packet, AT).0;
            assert!(memory.used() <= memory.limit(), "{}", memory.used());
        }
    }
    let kept: usize = resyncs.iter().map(Resync::kept).sum();
    assert_eq!(lost + kept, 100 * 100 * packet.len());
    assert!(memory.evicted() > 0);
    drop(resyncs);
    assert_eq!(memory.used(), 0);
}

#[test]
fn packets_of_one_byte_are_charged_for_the_memory_they_take() {
    let memory = Part::new("test", 1 << 20);
    let mut resync = Resync::within(memory.clone());
    let mut lost = 0;
    for _ in 0..MAX_KEPT {
        lost += resync
            .add(Direction::Request, KnownFraming::default(), &[0xff], AT)
            .0;
        assert!(resync.held_bytes() <= memory.limit());
        assert_eq!(memory.used(), resync.held_bytes());
    }
    assert_eq!(lost + resync.kept(), MAX_KEPT);
    assert!(memory.evicted() > 0);
}
