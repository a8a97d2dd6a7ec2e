//! The beginning of a compressed body, without the rest of it: LZ4 and Snappy blocks are read from front to
//! back, and need nothing but what they have already given. The crates that decompress whole bodies refuse
//! blocks that end early.

use bytes::Bytes;

use super::{Compression, check_announced, error};
use crate::error::{DecodeError, DecodeErrorKind};

/// The first bytes of a compressed body, uncompressed, and its whole length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecompressedHead {
    /// The first bytes, uncompressed.
    pub bytes: Bytes,
    /// Length of the whole body in bytes, uncompressed, as its sender announced it.
    pub body_len: usize,
}

/// Decompresses the first `length` bytes at most of a body of version 3 or 4, of which `begun` is the
/// beginning and which has `wire_len` bytes on the wire.
///
/// # Errors
/// An announced length that so many bytes cannot have, or over
/// [`MAX_BODY_LEN`](crate::envelope::MAX_BODY_LEN); copies from before the beginning; no algorithm.
pub fn decompress_head(
    compression: Compression,
    begun: &[u8],
    wire_len: usize,
    length: usize,
) -> Result<DecompressedHead, DecodeError> {
    let (body_len, block, most) = match compression {
        Compression::None => return Err(error(DecodeErrorKind::UnknownCompression)),
        Compression::Lz4 => {
            let Some((announced, block)) = begun.split_first_chunk() else {
                return Err(error(DecodeErrorKind::Truncated));
            };
            (u32::from_be_bytes(*announced) as usize, block, LZ4_EXPANSION)
        }
        Compression::Snappy => {
            let damaged = |_| error(DecodeErrorKind::Decompression);
            let announced = snap::raw::decompress_len(begun).map_err(damaged)?;
            let varint_len = begun.iter().take_while(|byte| **byte >= 0x80).count() + 1;
            (
                announced,
                begun.get(varint_len..).unwrap_or_default(),
                SNAPPY_EXPANSION,
            )
        }
    };
    check_announced(body_len, usize::MAX)?;
    if body_len > wire_len.saturating_mul(most) {
        return Err(error(DecodeErrorKind::Decompression));
    }
    let mut out = Output {
        bytes: Vec::new(),
        length: length.min(body_len),
    };
    let read = match compression {
        Compression::Lz4 => read_lz4(&mut Input(block), &mut out),
        _ => read_snappy(&mut Input(block), &mut out),
    };
    match read {
        Err(Stop::Damaged) => Err(error(DecodeErrorKind::Decompression)),
        Ok(()) | Err(Stop::End) => Ok(DecompressedHead {
            bytes: out.bytes.into(),
            body_len,
        }),
    }
}

/// How many bytes a byte of a block can become: a length of LZ4 grows by 255 with each, a copy of 64 bytes
/// takes three of Snappy's.
pub(crate) const LZ4_EXPANSION: usize = 255;
const SNAPPY_EXPANSION: usize = 22;

/// Why reading stops before the block is read.
enum Stop {
    /// There is no more input, or no more is wanted.
    End,
    Damaged,
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Result<usize, Stop> {
        self.little_endian(1)
    }

    fn little_endian(&mut self, width: usize) -> Result<usize, Stop> {
        let (bytes, rest) = self.0.split_at_checked(width).ok_or(Stop::End)?;
        self.0 = rest;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// As many bytes as there are, at most `length`.
    fn up_to(&mut self, length: usize) -> &'a [u8] {
        let (bytes, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}

struct Output {
    bytes: Vec<u8>,
    /// No more are wanted.
    length: usize,
}

impl Output {
    fn room(&self) -> usize {
        self.length - self.bytes.len()
    }

    /// The next `length` bytes of `input` as they are.
    fn literals(&mut self, input: &mut Input<'_>, length: usize) -> Result<(), Stop> {
        let literals = input.up_to(length.min(self.room()));
        self.bytes.extend_from_slice(literals);
        if literals.len() < length {
            Err(Stop::End)
        } else {
            Ok(())
        }
    }

    /// `length` bytes once more, from `offset` bytes back; they may reach into what they become.
    fn copy(&mut self, offset: usize, length: usize) -> Result<(), Stop> {
        let from = self.bytes.len().checked_sub(offset).filter(|_| offset > 0);
        let from = from.ok_or(Stop::Damaged)?;
        let copied = length.min(self.room());
        for at in from..from + copied {
            let byte = self.bytes[at];
            self.bytes.push(byte);
        }
        if copied < length { Err(Stop::End) } else { Ok(()) }
    }
}

/// Sequences of `<token><literals><offset><match>`: see the LZ4 block format.
fn read_lz4(input: &mut Input<'_>, out: &mut Output) -> Result<(), Stop> {
    while out.room() > 0 {
        let token = input.byte()?;
        let literals = lz4_length(input, token >> 4)?;
        out.literals(input, literals)?;
        let offset = input.little_endian(2)?;
        let length = lz4_length(input, token & 15)?;
        out.copy(offset, length.saturating_add(4))?;
    }
    Ok(())
}

/// A length of four bits, which goes on in bytes up to the first that is not 255.
fn lz4_length(input: &mut Input<'_>, begun: usize) -> Result<usize, Stop> {
    let mut length = begun;
    let mut goes_on = begun == 15;
    while goes_on {
        let byte = input.byte()?;
        length += byte;
        goes_on = byte == 255;
    }
    Ok(length)
}

/// Elements of `<tag><literals or offset>`: see Snappy's format description.
fn read_snappy(input: &mut Input<'_>, out: &mut Output) -> Result<(), Stop> {
    while out.room() > 0 {
        let tag = input.byte()?;
        let high = tag >> 2;
        match tag & 3 {
            0 => {
                let length = match high {
                    0..60 => high,
                    _ => input.little_endian(high - 59)?,
                };
                out.literals(input, length + 1)?;
            }
            1 => {
                let offset = (tag >> 5) << 8 | input.byte()?;
                out.copy(offset, (high & 7) + 4)?;
            }
            2 => {
                let offset = input.little_endian(2)?;
                out.copy(offset, high + 1)?;
            }
            _ => {
                let offset = input.little_endian(4)?;
                out.copy(offset, high + 1)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::compress::compress_body;
    use bytes::BytesMut;
    use proptest::{collection::vec, prelude::*};

    fn compressed(compression: Compression, body: &[u8]) -> BytesMut {
        let mut out = BytesMut::new();
        compress_body(compression, body, &mut out).unwrap();
        out
    }

    #[test]
    fn a_run_of_literals_that_is_cut_off_is_read_as_far_as_it_is_there() {
        let body: Vec<u8> = (0..4_000_u32)
            .flat_map(|number| number.wrapping_mul(0x9e37_79b9).to_le_bytes())
            .collect();
        for compression in [Compression::Lz4, Compression::Snappy] {
            let wire = compressed(compression, &body);
            let head = decompress_head(compression, &wire[..1_000], wire.len(), 4_000).unwrap();
            assert!((900..1_000).contains(&head.bytes.len()), "{}", head.bytes.len());
            assert!(body.starts_with(&head.bytes));
            assert_eq!(head.body_len, body.len());
        }
    }

    #[test]
    fn a_few_bytes_cannot_claim_megabytes_nor_many_more_than_a_header_can_say() {
        let claims = [
            (Compression::Lz4, &[1, 64, 0, 0, 0x10, b'a'][..]),
            (Compression::Snappy, &[0x80, 0x80, 0x80, 0x0a, 0, b'a'][..]),
        ];
        for (compression, wire) in claims {
            let of = |wire_len| decompress_head(compression, wire, wire_len, 100);
            assert_eq!(of(6).unwrap_err().kind, DecodeErrorKind::Decompression);
            let head = of(1 << 20).unwrap();
            assert_eq!((&head.bytes[..], head.body_len), (&b"a"[..], 20 << 20));
        }
        let error = decompress_head(Compression::Lz4, &[0x10, 0, 0, 1, 0], 1 << 27, 100).unwrap_err();
        assert!(matches!(error.kind, DecodeErrorKind::TooLarge { .. }));
    }

    proptest! {
        #[test]
        fn a_head_is_the_beginning_of_what_was_compressed(
            body in prop_oneof![vec(0_u8..4, 0..3_000), vec(any::<u8>(), 0..3_000)],
            repeated in 1_usize..4,
            come in 0.0..=1.0_f64,
            length in 0_usize..4_000,
        ) {
            let body = body.repeat(repeated);
            for compression in [Compression::Lz4, Compression::Snappy] {
                let wire = compressed(compression, &body);
                let whole = decompress_head(compression, &wire, wire.len(), length).unwrap();
                prop_assert_eq!(&whole.bytes[..], &body[..length.min(body.len())]);
                prop_assert_eq!(whole.body_len, body.len());
                #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
                let come = (wire.len() as f64 * come) as usize;
                if let Ok(part) = decompress_head(compression, &wire[..come], wire.len(), length) {
                    prop_assert!(whole.bytes.starts_with(&part.bytes));
                }
            }
        }

        #[test]
        fn no_bytes_make_it_panic_or_give_more_than_was_asked_for(wire: Vec<u8>, length in 0_usize..1_000) {
            for compression in [Compression::Lz4, Compression::Snappy] {
                if let Ok(head) = decompress_head(compression, &wire, 1 << 24, length) {
                    prop_assert!(head.bytes.len() <= length);
                }
            }
        }
    }
}
