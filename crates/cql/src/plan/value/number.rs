//! Numbers of any size: `varint` and `decimal`, as Java's `BigInteger` and `BigDecimal` have them.

use std::cmp::Ordering;

use num_bigint::{BigInt, BigUint};

use super::pack::split_int;

/// To make a number of `n` digits takes about `n²` divided by this steps: 19 digits fit a word, and each word
/// is multiplied by all words before it.
pub(in crate::plan) const DIGITS_SQUARED_PER_STEP: u64 = 1_000;

/// An integer of any size.
pub(in crate::plan) type Integer = BigInt;

/// An unscaled integer and the number of its digits behind the point; `1.0` and `1.00` are two of equal
/// value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::plan) struct Decimal {
    /// All digits.
    pub(in crate::plan) unscaled: Integer,
    /// How many of them stand behind the point; negative for zeros in front of it.
    pub(in crate::plan) scale: i32,
}

impl Decimal {
    /// Reads the serialized form: the scale as an int, then the unscaled varint.
    pub(in crate::plan) fn read(bytes: &[u8]) -> Self {
        let (scale, unscaled) = split_int(bytes).unwrap_or_default();
        Self {
            unscaled: BigInt::from_signed_bytes_be(unscaled),
            scale,
        }
    }

    /// Reads digits with a point and an exponent, as `new BigDecimal(String)` does.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().ok()?;
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let unscaled = format!("{whole}{fraction}").parse().ok()?;
        let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        Some(Self { unscaled, scale })
    }

    /// The serialized form.
    pub(in crate::plan) fn to_bytes(&self) -> Vec<u8> {
        [&self.scale.to_be_bytes()[..], &self.unscaled.to_signed_bytes_be()].concat()
    }

    /// Compares values: the scale makes no difference.
    pub(super) fn cmp_value(&self, other: &Self) -> Ordering {
        let signs = self.unscaled.sign().cmp(&other.unscaled.sign());
        if signs.is_ne() || self.unscaled.sign() == num_bigint::Sign::NoSign {
            return signs;
        }
        let negative = self.unscaled.sign() == num_bigint::Sign::Minus;
        let order = self.cmp_magnitude(other);
        if negative { order.reverse() } else { order }
    }

    /// Compares what is not zero, whatever its sign.
    fn cmp_magnitude(&self, other: &Self) -> Ordering {
        let (low, high) = self.log10();
        let (other_low, other_high) = other.log10();
        if high < other_low {
            return Ordering::Less;
        }
        if other_high < low {
            return Ordering::Greater;
        }
        // Of about the same size: so the scales differ by no more than there are digits.
        let (mine, theirs) = (self.unscaled.magnitude(), other.unscaled.magnitude());
        let difference = i64::from(other.scale) - i64::from(self.scale);
        let factor = BigUint::from(10_u32).pow(u32::try_from(difference.unsigned_abs()).unwrap_or(u32::MAX));
        if difference >= 0 {
            (mine * factor).cmp(theirs)
        } else {
            mine.cmp(&(theirs * factor))
        }
    }

    /// Two numbers between which the power of ten lies, from the number of bits: digits are not worked out,
    /// since that takes time that grows with their square.
    #[allow(clippy::cast_precision_loss, reason = "no value has 2^52 bits")]
    fn log10(&self) -> (f64, f64) {
        let bits = self.unscaled.bits() as f64;
        let log = |bits: f64| bits * std::f64::consts::LOG10_2 - f64::from(self.scale);
        (log(bits - 1.0) - 1.0, log(bits) + 1.0)
    }
}

/// The shortest two's complement bytes of the same number.
pub(super) fn minimal(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    while let [first @ (0x00 | 0xff), second, ..] = rest {
        if first >> 7 != second >> 7 {
            break;
        }
        rest = &rest[1..];
    }
    rest
}

/// Compares two's complement numbers of any length.
pub(super) fn compare(left: &[u8], right: &[u8]) -> Ordering {
    let (left, right) = (minimal(left), minimal(right));
    let negative = |bytes: &[u8]| bytes.first().is_some_and(|first| first >> 7 == 1);
    match (negative(left), negative(right)) {
        (false, false) => left.len().cmp(&right.len()).then_with(|| left.cmp(right)),
        (true, true) => right.len().cmp(&left.len()).then_with(|| left.cmp(right)),
        (left, right) => right.cmp(&left),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn digits_points_and_exponents_are_kept_as_java_keeps_them() {
        let parse = |text: &str| {
            let decimal = Decimal::parse(text).unwrap();
            (decimal.unscaled.to_string(), decimal.scale)
        };
        assert_eq!(parse("1.50"), ("150".into(), 2));
        assert_eq!(parse("-1e10"), ("-1".into(), -10));
        assert_eq!(parse("1.5E3"), ("15".into(), -2));
        assert_eq!(Decimal::parse("1.50").unwrap().to_bytes(), [0, 0, 0, 2, 0, 150]);
    }

    #[test]
    fn decimals_of_all_scales_have_an_order() {
        let order = |left: &str, right: &str| {
            Decimal::parse(left)
                .unwrap()
                .cmp_value(&Decimal::parse(right).unwrap())
        };
        assert_eq!(order("1.0", "1.00"), Ordering::Equal);
        assert_eq!(order("0", "0.000"), Ordering::Equal);
        assert_eq!(order("-2", "1"), Ordering::Less);
        assert_eq!(order("1e100000", "9e99999"), Ordering::Greater);
        assert_eq!(order("-10", "-9"), Ordering::Less);
        assert_eq!(order("123", "1229e-1"), Ordering::Greater);
        assert_eq!(order("123", "1230e-1"), Ordering::Equal);
        assert_eq!(order("-1.000", "-1"), Ordering::Equal);
        assert_eq!(order("1e2147483647", "1e-2147483647"), Ordering::Greater);
        assert_eq!(order("99", "1e2"), Ordering::Less);
        let one = format!("1{}", "0".repeat(2_000));
        assert_eq!(order(&one, "1e2000"), Ordering::Equal);
        assert_eq!(order(&one, "1.0000000001e2000"), Ordering::Less);
    }

    #[test]
    fn padding_makes_no_other_number() {
        assert_eq!(minimal(&[0, 0, 1]), [1]);
        assert_eq!(minimal(&[0xff, 0xff, 0x80]), [0x80]);
        assert_eq!(minimal(&[0, 0x80]), [0, 0x80]);
        assert_eq!(minimal(&[0]), [0]);
    }

    #[test]
    fn two_s_complement_numbers_of_all_lengths_have_an_order() {
        let numbers = [-70_000_i64, -129, -128, -1, 0, 1, 127, 128, 255, 256, 70_000];
        for left in numbers {
            for right in numbers {
                let (left_bytes, right_bytes) = (left.to_be_bytes(), right.to_be_bytes());
                assert_eq!(
                    compare(&left_bytes, minimal(&right_bytes)),
                    left.cmp(&right),
                    "{left} {right}"
                );
            }
        }
    }
}
