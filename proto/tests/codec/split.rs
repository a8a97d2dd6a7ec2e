//! However a connection's bytes are split into chunks, the cutter and the stream find the same envelopes.
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cqlens_proto::compress::{self, Compression};
use cqlens_proto::cutter::{Cutter, Framing, Negotiated, OpcodeCounts};
use cqlens_proto::envelope::{Direction, Envelope, Header, Opcode, StreamId, Version};
use cqlens_proto::message::{Dialect, Extras, Request, Startup};
use cqlens_proto::segment::{self, Encoding};
use cqlens_proto::stream::{EnvelopeStream, Gap, StreamItem};
use proptest::prelude::*;

/// The server's half of a connection: what it sends until it is set up, and after.
struct Server {
    negotiated: fn() -> Arc<Negotiated>,
    bytes: Vec<u8>,
    envelopes: Vec<Envelope>,
    /// Where an envelope or segment starts.
    boundaries: Vec<usize>,
}

fn with_compression(compression: Compression) -> Arc<Negotiated> {
    let negotiated = Negotiated::new();
    negotiated.set_compression(compression);
    Arc::new(negotiated)
}

fn negotiated_for(compression: Compression) -> fn() -> Arc<Negotiated> {
    match compression {
        Compression::None => || with_compression(Compression::None),
        Compression::Lz4 => || with_compression(Compression::Lz4),
        Compression::Snappy => || with_compression(Compression::Snappy),
    }
}

/// READY, then results of these lengths, each with a body of its own.
fn server(version: Version, compression: Compression, lengths: &[usize]) -> Server {
    let ready = Envelope {
        header: Header::response(version, StreamId(0), Opcode::READY),
        body: Bytes::new(),
    };
    let results = lengths.iter().zip(1_u8..).map(|(length, index)| Envelope {
        header: Header::response(version, StreamId(i16::from(index)), Opcode::RESULT),
        body: vec![index; *length].into(),
    });
    let results: Vec<Envelope> = results.collect();
    let mut bytes = BytesMut::new();
    ready.encode(&mut bytes).unwrap();
    let mut boundaries = vec![0];
    for result in &results {
        boundaries.push(bytes.len());
        if version == Version::V5 {
            let mut plain = BytesMut::new();
            result.encode(&mut plain).unwrap();
            boundaries.pop();
            for part in plain.chunks(segment::MAX_PAYLOAD) {
                boundaries.push(bytes.len());
                let is_whole = plain.len() <= segment::MAX_PAYLOAD;
                segment::encode(Encoding::of(compression), is_whole, part, &mut bytes).unwrap();
            }
        } else {
            compress::encode_compressed(result, compression, &mut bytes).unwrap();
        }
    }
    let envelopes = std::iter::once(ready).chain(results).collect();
    Server {
        negotiated: negotiated_for(compression),
        bytes: bytes.to_vec(),
        envelopes,
        boundaries,
    }
}

fn split<'a>(bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    let mut rest = bytes;
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            return chunks;
        }
        let (chunk, left) = rest.split_at((*size).min(rest.len()));
        chunks.push(chunk);
        rest = left;
    }
    chunks
}

fn read_all(stream: &mut EnvelopeStream) -> Vec<Envelope> {
    std::iter::from_fn(|| stream.next_item())
        .map(|item| match item {
            StreamItem::Envelope(envelope) => envelope,
            other => unreachable!("not an envelope: {other:?}"),
        })
        .collect()
}

/// Bodies and what ties them to requests; lengths and flags differ with compression.
fn told(envelopes: &[Envelope]) -> Vec<(i16, Opcode, &[u8])> {
    let tell = |envelope: &'_ Envelope| (envelope.header.stream_id.0, envelope.header.opcode);
    envelopes
        .iter()
        .map(|envelope| {
            let (stream, opcode) = tell(envelope);
            (stream, opcode, &envelope.body[..])
        })
        .collect()
}

fn cases() -> impl Strategy<Value = (Version, Compression, Vec<usize>, Vec<usize>)> {
    let version = proptest::sample::select(&[Version::V3, Version::V4, Version::V5, Version::DseV2][..]);
    let compression =
        proptest::sample::select(&[Compression::None, Compression::Lz4, Compression::Snappy][..]);
    let length = prop_oneof![20 => 0_usize..300, 1 => 100_000_usize..300_000];
    let size = prop_oneof![Just(1_usize), 1_usize..20, 1_usize..5000];
    (
        version,
        compression,
        proptest::collection::vec(length, 0..12),
        proptest::collection::vec(size, 1..8),
    )
}

proptest! {
    #![proptest_config(crate::support::cases(300))]

    #[test]
    fn the_stream_joins_the_same_envelopes((version, compression, lengths, sizes) in cases()) {
        let server = server(version, compression, &lengths);
        let mut stream = EnvelopeStream::new(Direction::Response, (server.negotiated)());
        let mut found = Vec::new();
        for chunk in split(&server.bytes, &sizes) {
            stream.feed(Bytes::copy_from_slice(chunk));
            found.extend(read_all(&mut stream));
        }
        prop_assert_eq!(told(&found), told(&server.envelopes));
    }

    #[test]
    fn the_cutter_finds_the_same_boundaries((version, compression, lengths, sizes) in cases()) {
        let server = server(version, compression, &lengths);
        let mut cutter = Cutter::new(Direction::Response, (server.negotiated)());
        let mut counts = OpcodeCounts::default();
        let mut segments = 0;
        let mut offset = 0;
        for chunk in split(&server.bytes, &sizes) {
            let cut = cutter.cut(chunk);
            let expected = server.boundaries.iter().copied().find(|boundary| *boundary >= offset);
            let expected = expected.filter(|boundary| *boundary < offset + chunk.len());
            prop_assert_eq!(cut.first_boundary.map(|within| offset + within), expected);
            prop_assert_eq!(cut.opaque, None);
            counts.merge(&cut.envelopes);
            segments += cut.segments as usize;
            offset += chunk.len();
        }
        let is_v5 = version == Version::V5;
        prop_assert_eq!(segments, if is_v5 { server.boundaries.len() - 1 } else { 0 });
        let is_hidden = is_v5 && compression == Compression::Lz4;
        prop_assert_eq!(counts.of(Opcode::RESULT) as usize, if is_hidden { 0 } else { lengths.len() });
    }

    /// A chunk is left out; the cutter's boundary in the next one is where the stream goes on.
    #[test]
    fn after_a_gap_the_stream_goes_on_with_whole_envelopes(
        (version, compression, lengths, sizes) in cases(), lost in 1_usize..20,
    ) {
        let server = server(version, compression, &lengths);
        let negotiated = (server.negotiated)();
        let mut cutter = Cutter::new(Direction::Response, negotiated.clone());
        let mut stream = EnvelopeStream::new(Direction::Response, (server.negotiated)());
        let mut found = Vec::new();
        let mut is_after_gap = false;
        for (index, chunk) in split(&server.bytes, &sizes).into_iter().enumerate() {
            let cut = cutter.cut(chunk);
            if index == lost {
                is_after_gap = true;
                continue;
            }
            let bytes = Bytes::copy_from_slice(chunk);
            if is_after_gap {
                let framing = cut.framing.unwrap_or(Framing::Envelopes);
                let gap = Gap { boundary: cut.first_boundary, framing, compression: negotiated.compression() };
                stream.feed_after_gap(bytes, gap);
                is_after_gap = cut.first_boundary.is_none();
            } else {
                stream.feed(bytes);
            }
            found.extend(read_all(&mut stream));
        }
        // What is found is whole and in order; nothing is made up.
        let told_by_server = told(&server.envelopes);
        let mut left = told_by_server.iter();
        for envelope in told(&found) {
            prop_assert!(left.any(|sent| *sent == envelope), "{envelope:?} was not sent");
        }
    }
}

#[test]
fn the_clients_half_switches_with_the_servers() {
    let negotiated = Arc::new(Negotiated::new());
    let mut client = EnvelopeStream::new(Direction::Request, negotiated.clone());
    let mut server = EnvelopeStream::new(Direction::Response, negotiated);
    let startup = Request::Startup(Startup {
        options: vec![("COMPRESSION", "lz4")],
    });
    let dialect = Dialect::new(Version::V5);
    let mut bytes = BytesMut::new();
    startup
        .to_envelope(dialect, StreamId(0), &Extras::default())
        .unwrap()
        .encode(&mut bytes)
        .unwrap();
    client.feed(bytes.freeze());
    assert_eq!(read_all(&mut client).len(), 1);
    server.feed(Bytes::from_static(&[0x85, 0, 0, 0, 2, 0, 0, 0, 0]));
    assert_eq!(read_all(&mut server).len(), 1);

    let mut plain = BytesMut::new();
    let options = Request::Options
        .to_envelope(dialect, StreamId(1), &Extras::default())
        .unwrap();
    options.encode(&mut plain).unwrap();
    let mut bytes = BytesMut::new();
    segment::encode(Encoding::Lz4, true, &plain, &mut bytes).unwrap();
    client.feed(bytes.freeze());
    assert_eq!(read_all(&mut client), [options]);
}
