//! Numbers of any size: varint and decimal.

use std::fmt;

use num_bigint::BigInt;

/// `unscaled · 10^−scale`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decimal {
    /// All digits.
    pub unscaled: BigInt,
    /// How many of them stand behind the point; negative: how many zeros follow.
    pub scale: i32,
}

/// Numbers with more bytes than this are shown in hexadecimal: to turn a number to decimal takes time that
/// grows with the square of its length, and the length is the sender's choice.
const MAX_SHOWN_BYTES: u64 = 1024;

/// Shows a varint in decimal digits.
pub(super) fn show_varint(number: &BigInt, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if number.bits() > MAX_SHOWN_BYTES * 8 {
        write!(out, "{number:#x}")
    } else {
        write!(out, "{number}")
    }
}

/// As Java's and Python's decimals are shown: plain, or scientific where that would need zeros that are not
/// there.
impl fmt::Display for Decimal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.unscaled.bits() > MAX_SHOWN_BYTES * 8 {
            return write!(out, "{:#x}E{}", self.unscaled, -i64::from(self.scale));
        }
        let digits = self.unscaled.magnitude().to_string();
        if self.unscaled.sign() == num_bigint::Sign::Minus {
            out.write_str("-")?;
        }
        let scale = i64::from(self.scale);
        let digit_count = i64::try_from(digits.len()).unwrap_or(i64::MAX);
        // The exponent of the first digit.
        let exponent = digit_count - 1 - scale;
        if scale < 0 || exponent < -6 {
            return show_scientific(&digits, exponent, out);
        }
        let behind_point = usize::try_from(scale).unwrap_or(0);
        match digits.len().checked_sub(behind_point) {
            Some(_) if behind_point == 0 => out.write_str(&digits),
            Some(before_point) if before_point > 0 => {
                write!(out, "{}.{}", &digits[..before_point], &digits[before_point..])
            }
            _ => write!(out, "0.{digits:0>behind_point$}"),
        }
    }
}

fn show_scientific(digits: &str, exponent: i64, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (first, others) = digits.split_at(1);
    let point = if others.is_empty() { "" } else { "." };
    write!(out, "{first}{point}{others}E{exponent:+}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(unscaled: i64, scale: i32) -> String {
        Decimal {
            unscaled: BigInt::from(unscaled),
            scale,
        }
        .to_string()
    }

    #[test]
    fn decimals_are_shown_as_java_shows_them() {
        // Pairs of BigDecimal.valueOf(unscaled, scale) and toString().
        assert_eq!(shown(123, 0), "123");
        assert_eq!(shown(-123, 1), "-12.3");
        assert_eq!(shown(123, 3), "0.123");
        assert_eq!(shown(-123, 5), "-0.00123");
        assert_eq!(shown(123, -1), "1.23E+3");
        assert_eq!(shown(123, 10), "1.23E-8");
        assert_eq!(shown(0, 2), "0.00");
        assert_eq!(shown(1, i32::MAX), "1E-2147483647");
        assert_eq!(shown(1, i32::MIN), "1E+2147483648");
    }

    #[test]
    fn an_enormous_number_is_not_turned_to_decimal() {
        let enormous = Decimal {
            unscaled: BigInt::from(1) << 8_000_000,
            scale: 0,
        };
        assert!(enormous.to_string().starts_with("0x1000"));
    }
}
