//! What real drivers and a real Cassandra say to each other is cut, joined, decoded, and encoded to the same
//! bytes. `golden/README.md` says how the sessions were recorded.
#[path = "../../../../proto/tests/golden/recording.rs"]
mod recording;
#[path = "../../../../proto/tests/golden/summary.rs"]
mod summary;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use cqlens_proto::compress::{Compression, compress_body, decompress_body};
use cqlens_proto::cutter::{Cutter, Framing, Negotiated, OpcodeCounts};
use cqlens_proto::envelope::{Direction, Envelope, Flags, Version};
use cqlens_proto::message::{Dialect, Extensions, QueryResult, Request, Response, Rows};
use cqlens_proto::segment::{self, Encoding, SegmentHeader};
use cqlens_proto::types::CqlValue;
use recording::{Chunk, Recording, recordings};

#[test]
fn the_recordings_say_what_they_said() {
    for recording in recordings() {
        let settings = insta::Settings::clone_current();
        settings.bind(|| {
            insta::with_settings!({
                snapshot_path => recording::folder(),
                prepend_module_to_snapshot => false,
                omit_expression => true,
            }, {
                insta::assert_snapshot!(recording.name.clone(), summary::of(&recording));
            });
        });
    }
}

/// All drivers, versions and compressions: a recording that is lost is missed here, not only not tested.
#[test]
fn no_recording_is_missing() {
    let names: Vec<String> = recordings().into_iter().map(|recording| recording.name).collect();
    for driver in ["python", "gocql", "java"] {
        for spoken in [
            "v3-none",
            "v3-lz4",
            "v3-snappy",
            "v4-none",
            "v4-lz4",
            "v4-snappy",
            "v5-none",
            "v5-lz4",
        ] {
            assert!(names.contains(&format!("{driver}-{spoken}")), "{driver} {spoken}");
        }
        assert!(names.contains(&format!("{driver}-negotiated-none")), "{driver}");
    }
    for compression in ["none", "lz4", "snappy"] {
        assert!(
            names.contains(&format!("scylla-rust-v4-{compression}")),
            "{compression}"
        );
    }
}

#[test]
fn cutters_count_what_streams_join() {
    for recording in recordings() {
        let mut cut = OpcodeCounts::default();
        let mut joined = OpcodeCounts::default();
        recording
            .envelopes()
            .iter()
            .for_each(|envelope| joined.add(envelope.header.opcode));
        for connection in recording.connections() {
            cut.merge(&cut_all(&recording, &connection));
        }
        if recording.name.contains("v5-lz4") {
            // Nobody looks into compressed segments in the data path: what is counted comes before them.
            assert!(cut.total() < joined.total(), "{}", recording.name);
        } else {
            assert_eq!(cut, joined, "{}", recording.name);
        }
    }
}

fn cut_all(recording: &Recording, connection: &[&Chunk]) -> OpcodeCounts {
    let negotiated = Arc::new(Negotiated::new());
    let mut requests = Cutter::new(Direction::Request, negotiated.clone());
    let mut responses = Cutter::new(Direction::Response, negotiated);
    let mut counts = OpcodeCounts::default();
    for chunk in connection {
        let cutter = match chunk.direction {
            Direction::Request => &mut requests,
            Direction::Response => &mut responses,
        };
        let cut = cutter.cut(&chunk.bytes);
        assert_eq!(cut.opaque, None, "{}", recording.name);
        counts.merge(&cut.envelopes);
    }
    counts
}

/// One exception is known: Cassandra 5.0 tells a client of version 3 about a changed function as a change of
/// the keyspace, and writes an empty name behind it, which the specification does not have. Like all that
/// follows a message, it is passed over.
#[test]
fn every_message_is_encoded_to_the_bytes_that_it_was() {
    let mut exceptions = 0;
    for recording in recordings() {
        for envelope in recording.envelopes() {
            let again = encode_again(&envelope);
            let rest = envelope.body.strip_prefix(&again.body[..]);
            let is_exception = rest == Some(&[0, 0]) && is_changed_keyspace_of_version_3(&envelope);
            assert!(
                rest == Some(&[]) || is_exception,
                "{}: {envelope:?} {again:?}",
                recording.name
            );
            exceptions += usize::from(is_exception);
            let flags = envelope.header.flags.without(Flags::COMPRESSED);
            assert_eq!(
                again.header.flags, flags,
                "{}: {:?}",
                recording.name, envelope.header
            );
        }
    }
    assert_ne!(exceptions, 0, "the exception is none any more");
}

/// As a response to the client that changed it, and as an event.
fn is_changed_keyspace_of_version_3(envelope: &Envelope) -> bool {
    let change = b"UPDATED\0\x08KEYSPACE";
    envelope.header.version == Version::V3 && envelope.body.windows(change.len()).any(|part| part == change)
}

fn encode_again(envelope: &Envelope) -> Envelope {
    let header = &envelope.header;
    let dialect = Dialect::new(header.version);
    let encoded = match header.direction {
        Direction::Request => {
            let decoded = Request::decode(envelope, Extensions::NONE).unwrap();
            assert!(!matches!(decoded.message, Request::Unknown { .. }), "{header:?}");
            decoded
                .message
                .to_envelope(dialect, header.stream_id, &decoded.extras)
        }
        Direction::Response => {
            let decoded = Response::decode(envelope, Extensions::NONE).unwrap();
            assert!(!matches!(decoded.message, Response::Unknown { .. }), "{header:?}");
            decoded
                .message
                .to_envelope(dialect, header.stream_id, &decoded.extras)
        }
    };
    encoded.unwrap()
}

#[test]
fn every_value_is_encoded_to_the_bytes_that_it_was() {
    let mut cells = 0;
    for recording in recordings() {
        for envelope in recording.envelopes() {
            if envelope.header.direction == Direction::Request {
                continue;
            }
            let decoded = Response::decode(&envelope, Extensions::NONE).unwrap();
            if let Response::Result(QueryResult::Rows(rows)) = decoded.message {
                cells += check_cells(&recording.name, &rows);
            }
        }
    }
    assert!(cells > 10_000, "{cells}");
}

/// Rows without their metadata (the driver knows it from PREPARE) are passed over.
fn check_cells(name: &str, rows: &Rows<'_>) -> usize {
    let Some(columns) = rows.metadata.columns else {
        return 0;
    };
    let mut cells = 0;
    for row in rows.iter() {
        for (column, cell) in columns.iter().zip(row.unwrap()) {
            let value = CqlValue::decode_nullable(&column.column_type, cell).unwrap();
            let again = value.to_bytes(&column.column_type).unwrap();
            assert_eq!(
                again.as_deref(),
                cell,
                "{name}: {} {}",
                column.name,
                column.column_type
            );
            cells += 1;
        }
    }
    cells
}

#[test]
fn compressed_bodies_and_segments_come_back_from_our_own_compression() {
    for recording in recordings() {
        let compression = compression_of(&recording);
        for envelope in recording
            .envelopes()
            .iter()
            .filter(|_| compression != Compression::None)
        {
            let mut compressed = BytesMut::new();
            compress_body(compression, &envelope.body, &mut compressed).unwrap();
            let back = decompress_body(compression, &compressed, envelope.body.len()).unwrap();
            assert_eq!(back, envelope.body, "{}", recording.name);
        }
    }
}

fn compression_of(recording: &Recording) -> Compression {
    let names = ["lz4", "snappy"].into_iter();
    names
        .filter(|name| recording.name.contains(name))
        .map(Compression::from_name)
        .next()
        .unwrap_or(Compression::None)
}

/// Uncompressed segments are the same bytes again. Of compressed ones this is not asked: two LZ4 compressors
/// need not agree, and gocql compresses where it does not help.
#[test]
fn segments_are_encoded_to_the_bytes_that_they_were() {
    let mut segments = 0;
    for recording in recordings()
        .iter()
        .filter(|recording| recording.name.contains("v5-none"))
    {
        for connection in recording.connections() {
            segments += check_segments(&connection);
        }
    }
    assert!(segments > 100, "{segments}");
}

fn check_segments(connection: &[&Chunk]) -> usize {
    let mut segments = 0;
    for direction in [Direction::Request, Direction::Response] {
        let mut bytes = after_set_up(connection, direction);
        while !bytes.is_empty() {
            let header_len = Encoding::Plain.header_len();
            let header = SegmentHeader::decode(Encoding::Plain, &bytes[..header_len]).unwrap();
            let segment = bytes.split_to(header_len + header.payload_len + segment::TRAILER_LEN);
            let payload = &segment[header_len..header_len + header.payload_len];
            let mut again = BytesMut::new();
            segment::encode(Encoding::Plain, header.is_self_contained, payload, &mut again).unwrap();
            assert_eq!(again, segment);
            segments += 1;
        }
    }
    segments
}

/// What a direction sends from the first segment on.
fn after_set_up(connection: &[&Chunk], wanted: Direction) -> Bytes {
    let negotiated = Arc::new(Negotiated::new());
    let mut requests = Cutter::new(Direction::Request, negotiated.clone());
    let mut responses = Cutter::new(Direction::Response, negotiated);
    let mut bytes = BytesMut::new();
    for chunk in connection {
        let cutter = match chunk.direction {
            Direction::Request => &mut requests,
            Direction::Response => &mut responses,
        };
        let cut = cutter.cut(&chunk.bytes);
        if chunk.direction != wanted {
            continue;
        }
        if !bytes.is_empty() || matches!(cut.framing, Some(Framing::Segments(_))) {
            bytes.extend_from_slice(&chunk.bytes);
        }
    }
    bytes.freeze()
}
