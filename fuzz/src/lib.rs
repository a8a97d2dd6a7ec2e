//! What the fuzz targets run: one function for each, from any bytes to what the property tests ask of such
//! input.
//!
//! Also taken in by `crates/cql/tests/golden_mutated.rs`, which drives the same functions without a fuzzer.
//! How the first bytes of an input choose version, opcode and the like is up to each function; [`seeds`]
//! makes inputs of recorded sessions that way.

#[path = "../../proto/tests/codec/support/exercise.rs"]
mod codec;
#[path = "../../proto/tests/golden/recording.rs"]
mod recording;
pub mod seeds;
#[path = "../../crates/cql/tests/cql/exercise.rs"]
mod text;

use bytes::{Bytes, BytesMut};
use cqlens_proto::compress::Compression;
use cqlens_proto::cursor::Cursor;
use cqlens_proto::envelope::{Direction, Envelope, Flags, Header, Opcode, StreamId, Version};
use cqlens_proto::segment::{self, Encoding};
use cqlens_proto::types::CqlType;

/// A target: its name, and what runs an input.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 10] = [
    ("envelope", envelope),
    ("segment", segment),
    ("split", split),
    ("request", request),
    ("response", response),
    ("value", value),
    ("cql", cql),
    ("template", template),
    ("shape", shape),
    ("work", work),
];

/// A direction of a connection: `connection [byte] · bytes`.
pub fn envelope(input: &[u8]) {
    let Some((&connection, bytes)) = input.split_first() else {
        return;
    };
    codec::wire(direction(connection), false, compression(connection), &[bytes]);
}

/// The same with segments: `connection [byte]`, then either bytes as they come or, since no fuzzer finds
/// checksums, payloads that are put into segments here: `(length [short] · payload)*`.
pub fn segment(input: &[u8]) {
    let Some((&connection, bytes)) = input.split_first() else {
        return;
    };
    let compression = if connection & 0x02 == 0 {
        Compression::None
    } else {
        Compression::Lz4
    };
    if connection & 0x10 != 0 {
        codec::wire(direction(connection), true, compression, &[bytes]);
    } else {
        let segments = segments(Encoding::of(compression), connection & 0x20 == 0, bytes);
        codec::wire(direction(connection), true, compression, &[&segments]);
    }
}

fn segments(encoding: Encoding, is_self_contained: bool, mut payloads: &[u8]) -> BytesMut {
    let mut out = BytesMut::new();
    while let Some((length, rest)) = payloads.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (payload, rest) = rest.split_at(length);
        segment::encode(encoding, is_self_contained, payload, &mut out)
            .expect("a short length fits a segment");
        payloads = rest;
    }
    out
}

/// A direction of a connection in chunks: `connection [byte] · chunk lengths [8 bytes] · bytes`.
pub fn split(input: &[u8]) {
    let Some((&connection, rest)) = input.split_first() else {
        return;
    };
    let Some((lengths, bytes)) = rest.split_first_chunk::<8>() else {
        return;
    };
    let lengths = lengths.map(usize::from);
    // Each byte is a chunk of its own once: long inputs would tell nothing more.
    let bytes = &bytes[..bytes.len().min(4096)];
    codec::split(
        direction(connection),
        connection & 0x10 != 0,
        compression(connection),
        bytes,
        &lengths,
    );
}

/// The body of a request: `version [byte] · flags [byte] · opcode [byte] · body`.
pub fn request(input: &[u8]) {
    body(Direction::Request, input);
}

/// The body of a response, laid out in the same way.
pub fn response(input: &[u8]) {
    body(Direction::Response, input);
}

fn body(direction: Direction, input: &[u8]) {
    let Some((&[version, flags, opcode], body)) = input.split_first_chunk() else {
        return;
    };
    let header = Header {
        direction,
        flags: Flags(flags),
        ..Header::request(Version::from_number(version), StreamId(1), Opcode(opcode))
    };
    codec::envelope(&Envelope {
        header,
        body: Bytes::copy_from_slice(body),
    });
}

/// A value: its type as in metadata, then its bytes.
pub fn value(input: &[u8]) {
    let mut cursor = Cursor::new(input);
    if let Ok(cql_type) = CqlType::decode(&mut cursor) {
        codec::value(&cql_type, cursor.rest());
    }
}

/// CQL text.
pub fn cql(input: &[u8]) {
    text::text(&String::from_utf8_lossy(input));
}

/// CQL text.
pub fn template(input: &[u8]) {
    text::template(&String::from_utf8_lossy(input));
}

/// CQL text.
pub fn shape(input: &[u8]) {
    text::shape(&String::from_utf8_lossy(input));
}

/// CQL text: steps are counted, not time.
pub fn work(input: &[u8]) {
    text::work(&String::from_utf8_lossy(input));
}

fn direction(connection: u8) -> Direction {
    if connection & 0x01 == 0 {
        Direction::Request
    } else {
        Direction::Response
    }
}

fn compression(connection: u8) -> Compression {
    match connection & 0x06 {
        0x02 => Compression::Lz4,
        0x04 => Compression::Snappy,
        _ => Compression::None,
    }
}
