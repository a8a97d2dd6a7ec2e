//! Applies the notations to a body, one field a line in wire order, and writes them in the same manner.
//!
//! [`Cursor`] adds to a notation's error which field was being read and where. [`Writer`] is its mirror
//! image; it refuses what a length field cannot say instead of truncating it.

use std::net::IpAddr;

use bytes::{BufMut, BytesMut};

use crate::error::{DecodeError, DecodeErrorKind, EncodeError};
use crate::notation::Parsed;

/// A position in a body.
///
/// All reading is inlined, so that a cursor stays in registers.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    body: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Starts at the first byte of `body`.
    #[inline(always)]
    pub fn new(body: &'a [u8]) -> Self {
        Cursor { body, rest: body }
    }

    /// Reads the field `what` with `notation` and moves behind it.
    ///
    /// # Errors
    /// What the notation refuses, with the field's name and the offset in the body.
    #[inline(always)]
    pub fn read<T>(
        &mut self,
        what: &'static str,
        notation: impl FnOnce(&'a [u8]) -> Parsed<'a, T>,
    ) -> Result<T, DecodeError> {
        match notation(self.rest) {
            Ok((rest, value)) => {
                self.rest = rest;
                Ok(value)
            }
            Err(nom::Err::Error(at) | nom::Err::Failure(at)) => {
                Err(error_at(what, self.body.len(), at.rest.len(), at.kind))
            }
            // The parsers are the "complete" ones; a body is always whole.
            Err(nom::Err::Incomplete(_)) => Err(self.error(what, DecodeErrorKind::Truncated)),
        }
    }

    /// Reads the field `what` if `present`, as flags say.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[inline(always)]
    pub fn read_if<T>(
        &mut self,
        present: bool,
        what: &'static str,
        notation: impl FnOnce(&'a [u8]) -> Parsed<'a, T>,
    ) -> Result<Option<T>, DecodeError> {
        if present {
            self.read(what, notation).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Moves behind `length` bytes and gives them.
    ///
    /// # Errors
    /// If fewer are left.
    #[inline(always)]
    pub fn take(&mut self, what: &'static str, length: usize) -> Result<&'a [u8], DecodeError> {
        let Some((taken, rest)) = self.rest.split_at_checked(length) else {
            return Err(self.error(what, DecodeErrorKind::Truncated));
        };
        self.rest = rest;
        Ok(taken)
    }

    /// Offset of the next byte from the start of the body.
    #[inline]
    pub fn offset(&self) -> usize {
        self.body.len() - self.rest.len()
    }

    /// What has not been read yet.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The bytes between an earlier [`offset`](Self::offset) and here.
    #[inline]
    pub fn since(&self, offset: usize) -> &'a [u8] {
        self.body.get(offset..self.offset()).unwrap_or_default()
    }

    /// An error about the field at the current position.
    #[inline]
    pub fn error(&self, what: &'static str, kind: DecodeErrorKind) -> DecodeError {
        error_at(what, self.body.len(), self.rest.len(), kind)
    }
}

/// The error at the position where `rest` bytes of a body are left. It takes lengths, so that the cursor
/// stays in registers.
#[cold]
#[inline(never)]
fn error_at(what: &'static str, body: usize, rest: usize, kind: DecodeErrorKind) -> DecodeError {
    DecodeError {
        what,
        // What a parser has left is always the end of the body.
        offset: body.saturating_sub(rest),
        kind,
    }
}

/// Appends notations to a buffer.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut BytesMut,
}

impl<'a> Writer<'a> {
    /// Appends to `out`.
    pub fn new(out: &'a mut BytesMut) -> Self {
        Writer { out }
    }

    /// `[byte]`.
    pub fn byte(&mut self, value: u8) {
        self.out.put_u8(value);
    }

    /// `[short]`.
    pub fn short(&mut self, value: u16) {
        self.out.put_u16(value);
    }

    /// `[int]`.
    pub fn int(&mut self, value: i32) {
        self.out.put_i32(value);
    }

    /// An `[int]` of flags.
    pub fn int_flags(&mut self, value: u32) {
        self.out.put_u32(value);
    }

    /// `[long]`.
    pub fn long(&mut self, value: i64) {
        self.out.put_i64(value);
    }

    /// Bytes without a length.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.put_slice(bytes);
    }

    /// A `[short]` that counts.
    ///
    /// # Errors
    /// If `count` does not fit.
    pub fn short_count(&mut self, what: &'static str, count: usize) -> Result<(), EncodeError> {
        let limit = usize::from(u16::MAX);
        let short = u16::try_from(count).map_err(|_| EncodeError::TooLong {
            what,
            length: count,
            limit,
        })?;
        self.short(short);
        Ok(())
    }

    /// An `[int]` that counts.
    ///
    /// # Errors
    /// If `count` does not fit.
    pub fn int_count(&mut self, what: &'static str, count: usize) -> Result<(), EncodeError> {
        let limit = i32::MAX.unsigned_abs() as usize;
        let int = i32::try_from(count).map_err(|_| EncodeError::TooLong {
            what,
            length: count,
            limit,
        })?;
        self.int(int);
        Ok(())
    }

    /// `[string]`.
    ///
    /// # Errors
    /// If it is longer than 65,535 bytes.
    pub fn string(&mut self, what: &'static str, text: &str) -> Result<(), EncodeError> {
        self.short_bytes(what, text.as_bytes())
    }

    /// `[long string]`.
    ///
    /// # Errors
    /// If it is longer than an `[int]` can say.
    pub fn long_string(&mut self, what: &'static str, text: &str) -> Result<(), EncodeError> {
        self.bytes(what, Some(text.as_bytes()))
    }

    /// `[short bytes]`.
    ///
    /// # Errors
    /// If they are more than 65,535.
    pub fn short_bytes(&mut self, what: &'static str, bytes: &[u8]) -> Result<(), EncodeError> {
        self.short_count(what, bytes.len())?;
        self.raw(bytes);
        Ok(())
    }

    /// `[bytes]`, −1 for null.
    ///
    /// # Errors
    /// If they are more than an `[int]` can say.
    pub fn bytes(&mut self, what: &'static str, bytes: Option<&[u8]>) -> Result<(), EncodeError> {
        let Some(bytes) = bytes else {
            self.int(-1);
            return Ok(());
        };
        self.int_count(what, bytes.len())?;
        self.raw(bytes);
        Ok(())
    }

    /// `[inetaddr]`.
    pub fn inet_address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => {
                self.byte(4);
                self.raw(&address.octets());
            }
            IpAddr::V6(address) => {
                self.byte(16);
                self.raw(&address.octets());
            }
        }
    }

    /// `[inet]`.
    pub fn inet(&mut self, address: IpAddr, port: i32) {
        self.inet_address(address);
        self.int(port);
    }

    /// `[unsigned vint]`.
    pub fn unsigned_vint(&mut self, value: u64) {
        let significant_bits = 64 - (value | 1).leading_zeros();
        // Each extra byte gives seven more bits, until the ninth byte gives eight.
        let extra = ((significant_bits - 1) / 7).min(8);
        let bytes = value.to_be_bytes();
        if extra == 8 {
            self.byte(0xff);
            return self.raw(&bytes);
        }
        let length = extra as usize + 1;
        let start = self.out.len();
        self.raw(&bytes[8 - length..]);
        // The leading ones of the first byte count the extra bytes.
        self.out[start] |= !(0xff_u8.checked_shr(extra).unwrap_or(0));
    }

    /// `[vint]`.
    pub fn vint(&mut self, value: i64) {
        self.unsigned_vint((value << 1 ^ value >> 63).cast_unsigned());
    }

    /// The buffer behind the writer.
    pub fn buffer(&mut self) -> &mut BytesMut {
        self.out
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::notation;
    use proptest::prelude::*;

    #[test]
    fn an_error_names_the_field_and_its_place() {
        let mut cursor = Cursor::new(&[0, 1, b'a', 0, 9, b'b']);
        assert_eq!(cursor.read("keyspace", notation::string), Ok("a"));
        let error = cursor.read("table", notation::string).unwrap_err();
        assert_eq!(
            error,
            DecodeError {
                what: "table",
                offset: 5,
                kind: DecodeErrorKind::Truncated
            }
        );
        assert_eq!(
            error.to_string(),
            "cannot read table at byte 5: the bytes end early"
        );
    }

    #[test]
    fn a_string_that_no_short_can_measure_is_refused() {
        let mut out = BytesMut::new();
        let error = Writer::new(&mut out)
            .string("name", &"x".repeat(70_000))
            .unwrap_err();
        assert_eq!(
            error,
            EncodeError::TooLong {
                what: "name",
                length: 70_000,
                limit: 65_535
            }
        );
    }

    proptest! {
        #[test]
        fn every_vint_is_read_back(value: i64, shift in 0_u32..64) {
            let value = value >> shift;
            let mut out = BytesMut::new();
            Writer::new(&mut out).vint(value);
            prop_assert_eq!(notation::vint(&out).unwrap(), (&[][..], value));
        }
    }
}
