//! The segment of version 5: a checksummed wrapper around one or more envelopes, or around a part of a large
//! one.
//!
//! ```text
//! plain:  [ length 17 bits | self-contained 1 bit | 0… ] 3 bytes, CRC24 3 bytes, payload, CRC32 4 bytes
//! LZ4:    [ compressed length 17 | uncompressed length 17 | self-contained 1 | 0… ] 5 bytes, CRC24 3, payload, CRC32 4
//! ```
//! Integers are little-endian here, unlike everywhere else (v5 §2.2). With LZ4 an uncompressed length of 0
//! means that the payload is stored as it is. The CRC32 covers the payload as sent.

use bytes::{BufMut, Bytes, BytesMut};

use crate::compress::{self, Compression};
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};

/// The longest payload: what 17 bits hold.
pub const MAX_PAYLOAD: usize = (1 << 17) - 1;

/// Length of the CRC32 after the payload, in bytes.
pub const TRAILER_LEN: usize = 4;

/// The longest header, in bytes (LZ4).
pub const MAX_HEADER_LEN: usize = 8;

const PAYLOAD_BITS: u64 = MAX_PAYLOAD as u64;

/// How segments of a connection are encoded; Snappy does not exist here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// 6-byte header, payload as it is.
    Plain,
    /// 8-byte header, payload compressed if that makes it smaller.
    Lz4,
}

impl Encoding {
    /// The encoding that a negotiated compression leads to.
    pub const fn of(compression: Compression) -> Encoding {
        match compression {
            Compression::Lz4 => Encoding::Lz4,
            Compression::None | Compression::Snappy => Encoding::Plain,
        }
    }

    /// Length of the header with its CRC24, in bytes.
    #[inline]
    pub const fn header_len(self) -> usize {
        match self {
            Encoding::Plain => 6,
            Encoding::Lz4 => 8,
        }
    }
}

/// A segment header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Bytes of payload on the wire, without the CRC32.
    pub payload_len: usize,
    /// Length of the payload after decompression; `None` if it is not compressed.
    pub uncompressed_len: Option<usize>,
    /// True if the payload is whole envelopes; false if it is a part of one.
    pub is_self_contained: bool,
}

impl SegmentHeader {
    /// Reads a header of `encoding.header_len()` bytes and checks its CRC24.
    ///
    /// # Errors
    /// A checksum that does not match, or another number of bytes.
    #[inline]
    pub fn decode(encoding: Encoding, bytes: &[u8]) -> Result<SegmentHeader, DecodeError> {
        let crc_at = encoding.header_len() - 3;
        if bytes.len() != encoding.header_len() {
            return Err(error("segment header", DecodeErrorKind::Truncated));
        }
        let fields = little_endian(&bytes[..crc_at]);
        let found = little_endian(&bytes[crc_at..]);
        let expected = crc24(&bytes[..crc_at]);
        if found != u64::from(expected) {
            let found = u32::try_from(found).unwrap_or(u32::MAX);
            return Err(error(
                "segment header CRC24",
                DecodeErrorKind::Checksum { found, expected },
            ));
        }
        Ok(SegmentHeader::from_fields(encoding, fields))
    }

    fn from_fields(encoding: Encoding, fields: u64) -> SegmentHeader {
        let payload_len = seventeen_bits(fields);
        match encoding {
            Encoding::Plain => SegmentHeader {
                payload_len,
                uncompressed_len: None,
                is_self_contained: fields >> 17 & 1 == 1,
            },
            Encoding::Lz4 => SegmentHeader {
                payload_len,
                uncompressed_len: Some(seventeen_bits(fields >> 17)).filter(|length| *length != 0),
                is_self_contained: fields >> 34 & 1 == 1,
            },
        }
    }

    /// Appends the header and its CRC24.
    pub fn encode(&self, encoding: Encoding, out: &mut BytesMut) {
        let self_contained = u64::from(self.is_self_contained);
        let payload_len = self.payload_len as u64 & PAYLOAD_BITS;
        let fields = match encoding {
            Encoding::Plain => payload_len | self_contained << 17,
            Encoding::Lz4 => {
                let uncompressed_len = self.uncompressed_len.unwrap_or(0) as u64 & PAYLOAD_BITS;
                payload_len | uncompressed_len << 17 | self_contained << 34
            }
        };
        let bytes = fields.to_le_bytes();
        let fields = &bytes[..encoding.header_len() - 3];
        out.put_slice(fields);
        out.put_slice(&crc24(fields).to_le_bytes()[..3]);
    }
}

/// Checks a payload's CRC32 and gives the payload uncompressed; shared, not copied, where it was not
/// compressed.
///
/// # Errors
/// A checksum that does not match, or damaged LZ4 bytes.
pub fn open_payload(header: &SegmentHeader, payload: Bytes, trailer: [u8; 4]) -> Result<Bytes, DecodeError> {
    let found = u32::from_le_bytes(trailer);
    let expected = crc32(&payload);
    if found != expected {
        return Err(error(
            "segment payload CRC32",
            DecodeErrorKind::Checksum { found, expected },
        ));
    }
    match header.uncompressed_len {
        None => Ok(payload),
        Some(length) => compress::decompress_lz4_block(&payload, length, MAX_PAYLOAD).map(Bytes::from),
    }
}

/// Appends `payload` as one segment.
///
/// # Errors
/// If it is longer than [`MAX_PAYLOAD`].
pub fn encode(
    encoding: Encoding,
    is_self_contained: bool,
    payload: &[u8],
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    if payload.len() > MAX_PAYLOAD {
        let length = payload.len();
        return Err(EncodeError::TooLong {
            what: "segment payload",
            length,
            limit: MAX_PAYLOAD,
        });
    }
    let mut compressed = BytesMut::new();
    if encoding == Encoding::Lz4 {
        compress::compress_lz4_block(payload, &mut compressed);
    }
    let is_smaller = encoding == Encoding::Lz4 && compressed.len() < payload.len();
    let sent = if is_smaller { &compressed[..] } else { payload };
    let header = SegmentHeader {
        payload_len: sent.len(),
        uncompressed_len: is_smaller.then_some(payload.len()),
        is_self_contained,
    };
    header.encode(encoding, out);
    out.put_slice(sent);
    out.put_u32_le(crc32(sent));
    Ok(())
}

/// Appends encoded envelopes as segments: one self-contained segment if they fit, else each part as a segment
/// of its own that is not self-contained (then `envelopes` must be one envelope).
///
/// # Errors
/// None in practice: the parts are cut to size.
pub fn encode_envelopes(encoding: Encoding, envelopes: &[u8], out: &mut BytesMut) -> Result<(), EncodeError> {
    if envelopes.len() <= MAX_PAYLOAD {
        return encode(encoding, true, envelopes, out);
    }
    for part in envelopes.chunks(MAX_PAYLOAD) {
        encode(encoding, false, part, out)?;
    }
    Ok(())
}

/// The header checksum: Koopman's CRC-24 with the specification's initial value, over the bytes in wire
/// order.
#[inline]
pub fn crc24(bytes: &[u8]) -> u32 {
    let mut crc: u32 = 0x0087_5060;
    for byte in bytes {
        let [_, top, ..] = crc.to_be_bytes();
        crc = crc << 8 & 0x00ff_ffff ^ CRC24_TABLE[usize::from(top ^ byte)];
    }
    crc
}

const CRC24_TABLE: [u32; 256] = crc24_table();

const fn crc24_table() -> [u32; 256] {
    const POLYNOMIAL: u32 = 0x0197_4f0b;
    let mut table = [0; 256];
    let mut index: u32 = 0;
    while index < 256 {
        let mut crc = index << 16;
        let mut bit = 0;
        while bit < 8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= POLYNOMIAL;
            }
            bit += 1;
        }
        table[index as usize] = crc;
        index += 1;
    }
    table
}

/// The payload checksum: CRC-32 that starts with four fixed bytes, which the specification's text leaves out
/// (Cassandra: `org.apache.cassandra.net.Crc`).
pub fn crc32(payload: &[u8]) -> u32 {
    const INITIAL_BYTES: [u8; 4] = [0xfa, 0x2d, 0x55, 0xca];
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&INITIAL_BYTES);
    hasher.update(payload);
    hasher.finalize()
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[allow(clippy::cast_possible_truncation)] // 17 bits.
fn seventeen_bits(fields: u64) -> usize {
    (fields & PAYLOAD_BITS) as usize
}

fn error(what: &'static str, kind: DecodeErrorKind) -> DecodeError {
    DecodeError {
        what,
        offset: 0,
        kind,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn decode_whole(encoding: Encoding, bytes: &[u8]) -> (SegmentHeader, Result<Bytes, DecodeError>) {
        let (header, rest) = bytes.split_at(encoding.header_len());
        let header = SegmentHeader::decode(encoding, header).unwrap();
        let (payload, trailer) = rest.split_at(header.payload_len);
        let payload = open_payload(
            &header,
            Bytes::copy_from_slice(payload),
            trailer.try_into().unwrap(),
        );
        (header, payload)
    }

    #[test]
    fn the_header_checksum_is_cassandras() {
        // Computed by other implementations of the same checksum.
        assert_eq!(crc24(&131_077_u64.to_le_bytes()[..3]), 10_131_737);
        assert_eq!(crc24(&17_181_442_053_u64.to_le_bytes()[..5]), 3_672_222);
    }

    #[test]
    fn a_flipped_bit_in_the_header_is_found() {
        let mut out = BytesMut::new();
        encode(Encoding::Plain, true, b"payload", &mut out).unwrap();
        out[0] ^= 1;
        let error = SegmentHeader::decode(Encoding::Plain, &out[..6]).unwrap_err();
        assert!(matches!(error.kind, DecodeErrorKind::Checksum { .. }));
    }

    #[test]
    fn a_flipped_bit_in_the_payload_is_found() {
        let mut out = BytesMut::new();
        encode(Encoding::Plain, true, b"payload", &mut out).unwrap();
        out[7] ^= 1;
        let error = decode_whole(Encoding::Plain, &out).1.unwrap_err();
        assert_eq!(error.what, "segment payload CRC32");
    }

    #[test]
    fn a_payload_that_does_not_shrink_is_stored() {
        let mut out = BytesMut::new();
        encode(Encoding::Lz4, true, b"ab", &mut out).unwrap();
        let (header, payload) = decode_whole(Encoding::Lz4, &out);
        assert_eq!(header.uncompressed_len, None);
        assert_eq!(&payload.unwrap()[..], b"ab");
    }

    #[test]
    fn a_large_envelope_is_split_into_segments_that_are_not_self_contained() {
        let mut out = BytesMut::new();
        encode_envelopes(Encoding::Plain, &vec![1; MAX_PAYLOAD + 1], &mut out).unwrap();
        let first = SegmentHeader::decode(Encoding::Plain, &out[..6]).unwrap();
        assert_eq!((first.payload_len, first.is_self_contained), (MAX_PAYLOAD, false));
        let second = SegmentHeader::decode(Encoding::Plain, &out[6 + MAX_PAYLOAD + 4..][..6]).unwrap();
        assert_eq!((second.payload_len, second.is_self_contained), (1, false));
    }

    proptest! {
        #[test]
        fn what_was_wrapped_comes_back(
            payload in proptest::collection::vec(0_u8..3, 0..3000), is_self_contained: bool
        ) {
            for encoding in [Encoding::Plain, Encoding::Lz4] {
                let mut out = BytesMut::new();
                encode(encoding, is_self_contained, &payload, &mut out).unwrap();
                let (header, opened) = decode_whole(encoding, &out);
                prop_assert_eq!(header.is_self_contained, is_self_contained);
                prop_assert_eq!(&opened.unwrap()[..], &payload[..]);
            }
        }
    }
}
