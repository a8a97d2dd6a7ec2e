//! UUIDs: 16 bytes, shown in the usual five groups.

use std::fmt;

/// A UUID of any version, in network order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// The version field, 1 for a timeuuid.
    pub const fn version(self) -> u8 {
        self.0[6] >> 4
    }

    /// The time of a version 1 UUID, in milliseconds since 1970 (rounded down).
    pub fn unix_millis(self) -> Option<i64> {
        // Between the UUID epoch, 1582-10-15, and 1970, in 100 ns.
        const EPOCH_OFFSET: i64 = 0x01b2_1dd2_1381_4000;
        if self.version() != 1 {
            return None;
        }
        let [t0, t1, t2, t3, t4, t5, t6, t7, ..] = self.0;
        let ticks = i64::from_be_bytes([t6 & 0x0f, t7, t4, t5, t0, t1, t2, t3]);
        Some((ticks - EPOCH_OFFSET).div_euclid(10_000))
    }

    /// Reads 32 hexadecimal digits in groups of 8, 4, 4, 4 and 12.
    pub fn parse(text: &str) -> Option<Uuid> {
        let bytes = text.as_bytes();
        if bytes.len() != 36 || [8, 13, 18, 23].iter().any(|dash| bytes[*dash] != b'-') {
            return None;
        }
        let mut digits = bytes
            .iter()
            .filter(|byte| **byte != b'-')
            .map(|byte| char::from(*byte).to_digit(16));
        let mut uuid = [0; 16];
        for byte in &mut uuid {
            let (high, low) = (digits.next()??, digits.next()??);
            *byte = u8::try_from(high << 4 | low).ok()?;
        }
        digits.next().is_none().then_some(Uuid(uuid))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                out.write_str("-")?;
            }
            write!(out, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const TEXT: &str = "50554d6e-29bb-11e5-b345-feff819cdc9f";

    #[test]
    fn a_uuid_is_read_and_shown() {
        assert_eq!(Uuid::parse(TEXT).unwrap().to_string(), TEXT);
        for wrong in [
            "",
            "50554d6e-29bb-11e5-b345-feff819cdc9",
            "50554d6e-29bb-11e5-b345-feff819cdc9g",
            "50554d6ee29bb-11e5-b345-feff819cdc-f",
        ] {
            assert_eq!(Uuid::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_timeuuid_knows_its_time() {
        // 2015-07-14 00:00:18.805 UTC.
        assert_eq!(Uuid::parse(TEXT).unwrap().unix_millis(), Some(1_436_832_018_805));
        assert_eq!(Uuid([0xff; 16]).unix_millis(), None);
    }
}
