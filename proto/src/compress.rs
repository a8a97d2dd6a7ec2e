//! Body compression: LZ4 and Snappy as versions 3 and 4 use them, LZ4 blocks as the segments of version 5 do.
//!
//! An announced size is checked against a limit before anything is allocated: 10 bytes of Snappy can claim 4
//! GiB.

mod head;

use bytes::{BufMut, Bytes, BytesMut};

pub(crate) use self::head::LZ4_EXPANSION;
pub use self::head::{DecompressedHead, decompress_head};
use crate::envelope::{Envelope, Flags, HEADER_LEN, Header, MAX_BODY_LEN, body_len};
use crate::error::{DecodeError, DecodeErrorKind, EncodeError};

/// What STARTUP's `COMPRESSION` agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Compression {
    /// Nothing is compressed.
    #[default]
    None,
    /// `lz4`, all versions.
    Lz4,
    /// `snappy`, versions 3 and 4.
    Snappy,
}

impl Compression {
    /// The algorithm that STARTUP names, in any case; unknown names are `None`, since the server will refuse
    /// them.
    pub fn from_name(name: &str) -> Compression {
        if name.eq_ignore_ascii_case("lz4") {
            Compression::Lz4
        } else if name.eq_ignore_ascii_case("snappy") {
            Compression::Snappy
        } else {
            Compression::None
        }
    }

    /// The name for STARTUP, `None` where nothing is compressed.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Compression::None => None,
            Compression::Lz4 => Some("lz4"),
            Compression::Snappy => Some("snappy"),
        }
    }
}

/// Decompresses the body of an envelope of version 3 or 4; at most `limit` bytes come out.
///
/// LZ4: an `[int]`, big-endian, of the uncompressed length, then one block. Snappy: one raw block.
///
/// # Errors
/// Damaged bytes, an announced length over `limit`, or no algorithm.
pub fn decompress_body(compression: Compression, body: &[u8], limit: usize) -> Result<Bytes, DecodeError> {
    match compression {
        Compression::None => Err(error(DecodeErrorKind::UnknownCompression)),
        Compression::Lz4 => {
            let Some((length, block)) = body.split_first_chunk() else {
                return Err(error(DecodeErrorKind::Truncated));
            };
            decompress_lz4_block(block, u32::from_be_bytes(*length) as usize, limit).map(Bytes::from)
        }
        Compression::Snappy => {
            let announced =
                snap::raw::decompress_len(body).map_err(|_| error(DecodeErrorKind::Decompression))?;
            check_announced(announced, limit)?;
            let decompressed = snap::raw::Decoder::new().decompress_vec(body);
            decompressed
                .map(Bytes::from)
                .map_err(|_| error(DecodeErrorKind::Decompression))
        }
    }
}

/// Decompresses one LZ4 block of exactly `announced` bytes, at most `limit`.
///
/// # Errors
/// Damaged bytes, another length than announced, or more than `limit`.
pub fn decompress_lz4_block(block: &[u8], announced: usize, limit: usize) -> Result<Vec<u8>, DecodeError> {
    check_announced(announced, limit)?;
    if announced == 0 {
        return Ok(Vec::new());
    }
    // A small block that announces much gets no memory.
    if announced > block.len().saturating_mul(LZ4_EXPANSION) {
        return Err(error(DecodeErrorKind::Decompression));
    }
    let mut out = vec![0; announced];
    match lz4_flex::block::decompress_into(block, &mut out) {
        Ok(length) if length == announced => Ok(out),
        _ => Err(error(DecodeErrorKind::Decompression)),
    }
}

/// Appends `body` as versions 3 and 4 compress it; with [`Compression::None`], as it is.
///
/// # Errors
/// If the body is longer than a header can say.
pub fn compress_body(compression: Compression, body: &[u8], out: &mut BytesMut) -> Result<(), EncodeError> {
    match compression {
        Compression::None => out.put_slice(body),
        Compression::Lz4 => {
            out.put_u32(body_len(body.len())?);
            compress_lz4_block(body, out);
        }
        Compression::Snappy => {
            let compressed = snap::raw::Encoder::new()
                .compress_vec(body)
                .map_err(|_| EncodeError::Compression)?;
            out.put_slice(&compressed);
        }
    }
    Ok(())
}

/// Appends `bytes` as one LZ4 block, without a length.
pub fn compress_lz4_block(bytes: &[u8], out: &mut BytesMut) {
    out.put_slice(&lz4_flex::block::compress(bytes));
}

/// Appends an envelope with its body compressed and the flag that says so (versions 3, 4 and DSE); with
/// [`Compression::None`] it is [`Envelope::encode`].
///
/// # Errors
/// If the body is longer than a header can say.
pub fn encode_compressed(
    envelope: &Envelope,
    compression: Compression,
    out: &mut BytesMut,
) -> Result<(), EncodeError> {
    if compression == Compression::None {
        return envelope.encode(out);
    }
    let mut body = BytesMut::new();
    compress_body(compression, &envelope.body, &mut body)?;
    let header = Header {
        body_len: body_len(body.len())?,
        flags: envelope.header.flags.with(Flags::COMPRESSED),
        ..envelope.header
    };
    out.reserve(HEADER_LEN + body.len());
    out.put_slice(&header.encode());
    out.put_slice(&body);
    Ok(())
}

fn check_announced(announced: usize, limit: usize) -> Result<(), DecodeError> {
    let limit = limit.min(MAX_BODY_LEN as usize);
    if announced <= limit {
        Ok(())
    } else {
        Err(error(DecodeErrorKind::TooLarge { announced, limit }))
    }
}

fn error(kind: DecodeErrorKind) -> DecodeError {
    DecodeError {
        what: "compressed body",
        offset: 0,
        kind,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_length_before_an_lz4_block_is_big_endian() {
        let mut out = BytesMut::new();
        compress_body(Compression::Lz4, &[7; 300], &mut out).unwrap();
        assert_eq!(&out[..4], &[0, 0, 1, 44]);
    }

    #[test]
    fn a_small_body_cannot_claim_a_gigabyte() {
        let lz4 = [0x3f, 0xff, 0xff, 0xff, 0x10, b'a'];
        let error = decompress_body(Compression::Lz4, &lz4, 1 << 20).unwrap_err();
        assert!(matches!(
            error.kind,
            DecodeErrorKind::TooLarge {
                announced: 0x3fff_ffff,
                ..
            }
        ));
        let snappy = [0xff, 0xff, 0xff, 0xff, 0x0f, 0x00];
        let error = decompress_body(Compression::Snappy, &snappy, 1 << 20).unwrap_err();
        assert!(matches!(error.kind, DecodeErrorKind::TooLarge { .. }));
    }

    #[test]
    fn an_empty_compressed_body_of_length_zero_is_empty() {
        let mut out = BytesMut::new();
        compress_body(Compression::Lz4, &[], &mut out).unwrap();
        assert_eq!(decompress_body(Compression::Lz4, &out, 10).unwrap(), Bytes::new());
        // Cassandra sends the length alone for an empty body in some versions.
        assert_eq!(
            decompress_body(Compression::Lz4, &[0, 0, 0, 0], 10).unwrap(),
            Bytes::new()
        );
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(body in proptest::collection::vec(0_u8..4, 0..2000)) {
            for compression in [Compression::Lz4, Compression::Snappy] {
                let mut out = BytesMut::new();
                compress_body(compression, &body, &mut out).unwrap();
                prop_assert_eq!(&decompress_body(compression, &out, 2000).unwrap()[..], &body[..]);
            }
        }

        #[test]
        fn no_bytes_make_decompression_panic(body: Vec<u8>) {
            let _ = decompress_body(Compression::Lz4, &body, 1 << 16);
            let _ = decompress_body(Compression::Snappy, &body, 1 << 16);
        }
    }
}
