//! The specification's §3 notations as parsers: `[int]`, `[string]`, `[value]` and so on, big-endian.
//!
//! Each is a nom parser over `&[u8]`. Fields that the message bodies name are read through
//! [`Cursor`](crate::cursor::Cursor), which adds the name and the offset to an error. Nothing here allocates:
//! lists and maps are views ([`crate::cursor`]) that were walked once and are iterated later.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nom::error::{ErrorKind, ParseError};

use crate::error::DecodeErrorKind;

/// What a notation parser gives: the rest and the value.
pub type Parsed<'a, T> = nom::IResult<&'a [u8], T, Malformed<'a>>;

/// Where and why a notation does not parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed<'a> {
    /// The input from the point of the error on.
    pub rest: &'a [u8],
    /// What is wrong there.
    pub kind: DecodeErrorKind,
}

impl<'a> ParseError<&'a [u8]> for Malformed<'a> {
    fn from_error_kind(rest: &'a [u8], _: ErrorKind) -> Self {
        Malformed {
            rest,
            kind: DecodeErrorKind::Truncated,
        }
    }

    fn append(_: &'a [u8], _: ErrorKind, other: Self) -> Self {
        other
    }
}

/// A parser's failure at `rest`.
#[inline]
pub fn malformed<T>(rest: &[u8], kind: DecodeErrorKind) -> Parsed<'_, T> {
    Err(nom::Err::Error(Malformed { rest, kind }))
}

/// `[byte]`: 8 bits, unsigned.
#[inline]
pub fn byte(input: &[u8]) -> Parsed<'_, u8> {
    fixed(input).map(|(rest, [byte])| (rest, byte))
}

/// `[short]`: 16 bits, unsigned.
#[inline]
pub fn short(input: &[u8]) -> Parsed<'_, u16> {
    fixed(input).map(|(rest, bytes)| (rest, u16::from_be_bytes(bytes)))
}

/// `[int]`: 32 bits, signed.
#[inline]
pub fn int(input: &[u8]) -> Parsed<'_, i32> {
    fixed(input).map(|(rest, bytes)| (rest, i32::from_be_bytes(bytes)))
}

/// The bits of an `[int]` that holds flags.
#[inline]
pub fn int_flags(input: &[u8]) -> Parsed<'_, u32> {
    fixed(input).map(|(rest, bytes)| (rest, u32::from_be_bytes(bytes)))
}

/// `[long]`: 64 bits, signed.
#[inline]
pub fn long(input: &[u8]) -> Parsed<'_, i64> {
    fixed(input).map(|(rest, bytes)| (rest, i64::from_be_bytes(bytes)))
}

/// An `[int]` that counts or measures and therefore may not be negative.
#[inline]
pub fn count(input: &[u8]) -> Parsed<'_, usize> {
    let (rest, count) = int(input)?;
    match usize::try_from(count) {
        Ok(count) => Ok((rest, count)),
        Err(_) => malformed(input, DecodeErrorKind::NegativeLength(count)),
    }
}

/// Exactly `length` bytes.
#[inline]
pub fn raw(input: &[u8], length: usize) -> Parsed<'_, &[u8]> {
    match input.split_at_checked(length) {
        Some((taken, rest)) => Ok((rest, taken)),
        None => malformed(input, DecodeErrorKind::Truncated),
    }
}

/// `[uuid]`: 16 bytes.
#[inline]
pub fn uuid(input: &[u8]) -> Parsed<'_, [u8; 16]> {
    fixed(input)
}

/// As many bytes as the result has. (nom's own number parsers read any kind of input byte by byte.)
#[inline]
fn fixed<const LENGTH: usize>(input: &[u8]) -> Parsed<'_, [u8; LENGTH]> {
    match input.split_first_chunk() {
        Some((bytes, rest)) => Ok((rest, *bytes)),
        None => malformed(input, DecodeErrorKind::Truncated),
    }
}

/// `[string]`: a `[short]` n and n bytes of UTF-8.
#[inline]
pub fn string(input: &[u8]) -> Parsed<'_, &str> {
    let (start, length) = short(input)?;
    utf8(start, usize::from(length))
}

/// `[long string]`: an `[int]` n and n bytes of UTF-8.
#[inline]
pub fn long_string(input: &[u8]) -> Parsed<'_, &str> {
    let (start, length) = count(input)?;
    utf8(start, length)
}

#[inline]
fn utf8(input: &[u8], length: usize) -> Parsed<'_, &str> {
    let (rest, bytes) = raw(input, length)?;
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok((rest, text)),
        Err(_) => malformed(input, DecodeErrorKind::NotText),
    }
}

/// `[bytes]`: an `[int]` n and n bytes; `None` (null) if n is negative.
#[inline]
pub fn bytes(input: &[u8]) -> Parsed<'_, Option<&[u8]>> {
    let (rest, length) = int(input)?;
    match usize::try_from(length) {
        Ok(length) => raw(rest, length).map(|(rest, bytes)| (rest, Some(bytes))),
        Err(_) => Ok((rest, None)),
    }
}

/// `[short bytes]`: a `[short]` n and n bytes.
#[inline]
pub fn short_bytes(input: &[u8]) -> Parsed<'_, &[u8]> {
    let (rest, length) = short(input)?;
    raw(rest, usize::from(length))
}

/// `[inetaddr]`: a `[byte]` size, 4 or 16, and the address.
pub fn inet_address(input: &[u8]) -> Parsed<'_, IpAddr> {
    let (rest, size) = byte(input)?;
    let (rest, address) = raw(rest, usize::from(size))?;
    match address_of(address) {
        Some(address) => Ok((rest, address)),
        None => malformed(input, DecodeErrorKind::Invalid(i64::from(size))),
    }
}

/// An address from its 4 or 16 bytes.
pub(crate) fn address_of(bytes: &[u8]) -> Option<IpAddr> {
    if let Ok(v4) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(v4).into());
    }
    <[u8; 16]>::try_from(bytes)
        .ok()
        .map(|v6| Ipv6Addr::from(v6).into())
}

/// `[inet]`: an `[inetaddr]` and an `[int]` port; the port is kept as sent.
pub fn inet(input: &[u8]) -> Parsed<'_, (IpAddr, i32)> {
    let (rest, address) = inet_address(input)?;
    let (rest, port) = int(rest)?;
    Ok((rest, (address, port)))
}

/// `[unsigned vint]`: as many extra bytes as the first byte has leading one bits.
pub fn unsigned_vint(input: &[u8]) -> Parsed<'_, u64> {
    let (rest, first) = byte(input)?;
    let extra = first.leading_ones();
    // With eight extra bytes nothing of the first byte is left.
    let mut value = u64::from(first) & (0xff_u64 >> extra);
    let Some((tail, rest)) = rest.split_at_checked(usize::try_from(extra).unwrap_or(8)) else {
        return malformed(input, DecodeErrorKind::Truncated);
    };
    for byte in tail {
        value = value << 8 | u64::from(*byte);
    }
    Ok((rest, value))
}

/// `[vint]`: an `[unsigned vint]` in zig-zag order (0, −1, 1, −2, …).
pub fn vint(input: &[u8]) -> Parsed<'_, i64> {
    let (rest, value) = unsigned_vint(input)?;
    Ok((rest, (value >> 1).cast_signed() ^ -(value & 1).cast_signed()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_specifications_vint_example_is_read() {
        // v5 §3: 256 000 is [110]00011 11101000 00000000.
        assert_eq!(
            unsigned_vint(&[0b1100_0011, 0b1110_1000, 0]).unwrap(),
            (&[][..], 256_000)
        );
    }

    #[test]
    fn vints_fold_positive_and_negative_numbers() {
        let read = |bytes: &[u8]| vint(bytes).unwrap().1;
        assert_eq!([read(&[0]), read(&[1]), read(&[2]), read(&[3])], [0, -1, 1, -2]);
        assert_eq!(read(&[0xff; 9]), i64::MIN);
    }

    #[test]
    fn a_null_and_an_empty_bytes_differ() {
        assert_eq!(bytes(&[0xff, 0xff, 0xff, 0xff]).unwrap().1, None);
        assert_eq!(bytes(&[0, 0, 0, 0]).unwrap().1, Some(&[][..]));
    }

    #[test]
    fn an_address_of_five_bytes_is_refused() {
        let nom::Err::Error(error) = inet_address(&[5, 1, 2, 3, 4, 5]).unwrap_err() else {
            unreachable!()
        };
        assert_eq!(error.kind, DecodeErrorKind::Invalid(5));
    }

    #[test]
    fn a_string_shorter_than_its_length_is_truncated() {
        let nom::Err::Error(error) = string(&[0, 3, b'a', b'b']).unwrap_err() else {
            unreachable!()
        };
        assert_eq!(error.kind, DecodeErrorKind::Truncated);
    }
}
