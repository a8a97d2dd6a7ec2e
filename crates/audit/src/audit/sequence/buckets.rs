//! Values of columns that may be buckets, as numbers that can be counted on.

use cqlens_cql::{schema::DataType, syntax::ast::NativeType};
use jiff::civil::Date;

use cqlens_window::BucketUnit;

/// A value that may be a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BucketValue {
    pub(super) unit: BucketUnit,
    pub(super) value: i64,
}

/// The bucket that a value of this type may be: a whole number, a date or time, or a short text. Texts and numbers that
/// read as dates are dates.
pub(super) fn bucket(data_type: &DataType, value: &[u8]) -> Option<BucketValue> {
    let DataType::Native(native) = data_type else {
        return None;
    };
    match native {
        NativeType::Tinyint | NativeType::Smallint | NativeType::Int | NativeType::Bigint => {
            Some(of_number(integer(value)?))
        }
        NativeType::Date => {
            let days = u32::from_be_bytes(value.try_into().ok()?);
            Some(BucketValue {
                unit: BucketUnit::Days,
                value: i64::from(days) - (1 << 31),
            })
        }
        NativeType::Timestamp => Some(BucketValue {
            unit: BucketUnit::Milliseconds,
            value: i64::from_be_bytes(value.try_into().ok()?),
        }),
        NativeType::Text | NativeType::Varchar | NativeType::Ascii => {
            of_text(std::str::from_utf8(value).ok()?)
        }
        _ => None,
    }
}

/// Longer texts are names, not buckets.
const LONGEST: usize = 12;

fn of_text(text: &str) -> Option<BucketValue> {
    if text.is_empty() || text.len() > LONGEST {
        return None;
    }
    let days = |date: Date| BucketValue {
        unit: BucketUnit::Days,
        value: days(date),
    };
    let parts: Vec<&str> = text.split(['-', '/', '.']).collect();
    match parts[..] {
        [year, month, day] if year.len() == 4 => date(year, month, day).map(days),
        [year, month] if year.len() == 4 => {
            let first = date(year, month, "1")?;
            Some(BucketValue {
                unit: BucketUnit::Months,
                value: months(first),
            })
        }
        _ => Some(text.parse().map_or_else(|_| of_letters(text), of_number)),
    }
}

/// A short text as it stands: it can be told from others, and nothing else.
fn of_letters(text: &str) -> BucketValue {
    let value = text.bytes().fold(0_i64, |value, byte| {
        value.wrapping_mul(257).wrapping_add(i64::from(byte))
    });
    BucketValue {
        unit: BucketUnit::Values,
        value,
    }
}

/// A number, or the date that it reads as: `20261123`, `202611`.
fn of_number(number: i64) -> BucketValue {
    let of_day = |number: i64| {
        let part = |part: i64| i8::try_from(part % 100).ok();
        let year = i16::try_from(number / 10_000).ok()?;
        Date::new(year, part(number / 100)?, part(number)?).ok()
    };
    let day = of_day(number).filter(|date| (1970..2100).contains(&date.year()));
    let month = of_day(number.saturating_mul(100).saturating_add(1))
        .filter(|date| (1970..2100).contains(&date.year()));
    match (day, month) {
        (Some(date), _) => BucketValue {
            unit: BucketUnit::Days,
            value: days(date),
        },
        (_, Some(date)) => BucketValue {
            unit: BucketUnit::Months,
            value: months(date),
        },
        _ => BucketValue {
            unit: BucketUnit::Numbers,
            value: number,
        },
    }
}

fn date(year: &str, month: &str, day: &str) -> Option<Date> {
    Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()
}

/// Since 1 January 1970.
fn days(date: Date) -> i64 {
    i64::from((date - Date::constant(1970, 1, 1)).get_days())
}

/// Since January of the year 0.
fn months(date: Date) -> i64 {
    i64::from(date.year()) * 12 + i64::from(date.month()) - 1
}

fn integer(value: &[u8]) -> Option<i64> {
    Some(match value.len() {
        1 => i64::from(i8::from_be_bytes(value.try_into().ok()?)),
        2 => i64::from(i16::from_be_bytes(value.try_into().ok()?)),
        4 => i64::from(i32::from_be_bytes(value.try_into().ok()?)),
        8 => i64::from_be_bytes(value.try_into().ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reads_as_a_date_is_one() {
        let day = Some(BucketValue {
            unit: BucketUnit::Days,
            value: 20_780,
        });
        let of = |native, value: &[u8]| bucket(&DataType::Native(native), value);
        assert_eq!(of(NativeType::Text, b"2026-11-23"), day);
        assert_eq!(of(NativeType::Text, b"20261123"), day);
        assert_eq!(of(NativeType::Int, &20_261_123_i32.to_be_bytes()), day);
        assert_eq!(of(NativeType::Date, &((1_u32 << 31) + 20_780).to_be_bytes()), day);
        let november = of(NativeType::Text, b"2026-11");
        assert_eq!(november, of(NativeType::Int, &202_611_i32.to_be_bytes()));
        assert_eq!(november.map(|bucket| bucket.unit), Some(BucketUnit::Months));
    }

    #[test]
    fn other_numbers_and_texts_are_what_they_are() {
        let of = |native, value: &[u8]| bucket(&DataType::Native(native), value);
        let number = |value| {
            Some(BucketValue {
                unit: BucketUnit::Numbers,
                value,
            })
        };
        assert_eq!(of(NativeType::Int, &7_i32.to_be_bytes()), number(7));
        assert_eq!(of(NativeType::Text, b"7"), number(7));
        assert_eq!(of(NativeType::Tinyint, &[0xff]), number(-1));
        for most in [i64::MAX, i64::MIN] {
            assert_eq!(of(NativeType::Bigint, &most.to_be_bytes()), number(most));
        }
        assert_eq!(
            of(NativeType::Text, b"eu").map(|bucket| bucket.unit),
            Some(BucketUnit::Values)
        );
        assert_eq!(of(NativeType::Text, b"a-name-that-is-long"), None);
        assert_eq!(of(NativeType::Uuid, &[0; 16]), None);
        assert_eq!(of(NativeType::Int, &[1, 2, 3]), None);
    }
}
