//! A value as lines of hexadecimal digits, up to 1,024 bytes of it.
//!
//! `<offset, 8 digits>{ XX}*8 { XX}*8 <the same as text>`: bytes before the first and behind the last are blank. A line
//! of dots stands for lines that are the same as the one before.

/// Bytes of a line.
const WIDTH: usize = 16;
const OFFSET_LEN: usize = 8;

/// A line of digits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HexLine {
    /// Of its first byte; a multiple of 16.
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

impl HexLine {
    /// Reads a line; none if it is no such line.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        let offset = std::str::from_utf8(line.get(..OFFSET_LEN)?).ok()?;
        let offset = u64::from_str_radix(offset, 16).ok()?;
        let mut bytes = Vec::with_capacity(WIDTH);
        for place in 0..WIDTH {
            let at = OFFSET_LEN + 3 * place + usize::from(place >= WIDTH / 2);
            match line.get(at..at + 3)? {
                b"   " => {}
                [b' ', high, low] => bytes.push(digit(*high)? << 4 | digit(*low)?),
                _ => return None,
            }
        }
        Some(Self { offset, bytes })
    }
}

fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'A'..=b'F' => Some(letter - b'A' + 10),
        _ => None,
    }
}

/// A value whose lines are being read.
#[derive(Debug, Default)]
pub(super) struct HexValue {
    pub(super) bytes: Vec<u8>,
    /// Of the last line.
    offset: u64,
    last: Vec<u8>,
    repeats: bool,
}

/// What is printed of a value at most.
const MOST_BYTES: usize = 1_024;

impl HexValue {
    /// Whether a line goes on with it: otherwise it is the first one of the next value.
    pub(super) fn goes_on(&self, line: &HexLine) -> bool {
        self.last.is_empty() || line.offset > self.offset
    }

    /// The next lines are the same.
    pub(super) fn repeat(&mut self) {
        self.repeats = true;
    }

    /// Adds a line; whether it fits.
    pub(super) fn add(&mut self, line: HexLine) -> bool {
        let width = WIDTH as u64;
        let next = self.offset + width;
        if !self.last.is_empty() {
            let missing = line.offset.saturating_sub(next) / width;
            let is_whole = missing == 0 || (self.repeats && self.last.len() == WIDTH);
            if !is_whole || missing * width > MOST_BYTES as u64 {
                return false;
            }
            for _ in 0..missing {
                self.bytes.extend_from_slice(&self.last);
            }
        }
        self.repeats = false;
        self.offset = line.offset;
        self.bytes.extend_from_slice(&line.bytes);
        self.last = line.bytes;
        self.bytes.len() <= MOST_BYTES
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const FULL: &[u8] = b"00000000 61 62 63 64 65 66 67 68  69 6A 6B 6C 6D 6E 6F 70 abcdefgh ijklmnop";

    #[test]
    fn lines_have_their_bytes_at_fixed_places() {
        let full = HexLine::read(FULL).unwrap();
        assert_eq!((full.offset, &*full.bytes), (0, &b"abcdefghijklmnop"[..]));
        let part = HexLine::read(
            "00000010          FF 00                                   \u{b7}\u{b7}".as_bytes(),
        );
        let part = part.unwrap();
        assert_eq!((part.offset, &*part.bytes), (16, &[0xff, 0][..]));
        for other in [
            &b""[..],
            b"-----",
            b"null",
            b"... truncated",
            b"00000000 zz",
            &FULL[..40],
        ] {
            assert_eq!(HexLine::read(other), None);
        }
    }

    #[test]
    fn lines_that_are_left_out_are_those_before() {
        let mut value = HexValue::default();
        let line = |offset| HexLine {
            offset,
            ..HexLine::read(FULL).unwrap()
        };
        assert!(value.add(line(0)));
        value.repeat();
        assert!(value.add(line(48)));
        assert_eq!(value.bytes, b"abcdefghijklmnop".repeat(4));
        let mut gap = HexValue::default();
        assert!(gap.add(line(0)) && !gap.add(line(48)));
        let mut endless = HexValue::default();
        assert!(endless.add(line(0)));
        endless.repeat();
        assert!(!endless.add(line(1 << 30)));
    }
}
