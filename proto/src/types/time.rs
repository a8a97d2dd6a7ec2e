//! Dates, times, timestamps and durations, as numbers of the wire and in readable form.

use std::fmt;

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const MILLIS_PER_DAY: i64 = 86_400_000;

/// A day: `1970-01-01` is 2^31.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(pub u32);

/// Nanoseconds since midnight, 0 to 86,399,999,999,999.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

/// Milliseconds since 1970-01-01 00:00 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// Months, days and nanoseconds, all of one sign; they do not convert into each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Duration {
    /// 12 make a year.
    pub months: i32,
    /// 7 make a week.
    pub days: i32,
    /// Of a day's part.
    pub nanoseconds: i64,
}

impl Time {
    /// The first number that is not a time any more.
    pub const END: i64 = 86_400 * NANOS_PER_SECOND;
}

/// `1970-01-01`.
impl fmt::Display for Date {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        show_day(i64::from(self.0) - (1 << 31), out)
    }
}

/// `13:30:54.234000000`.
impl fmt::Display for Time {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.div_euclid(NANOS_PER_SECOND);
        show_clock(seconds, out)?;
        write!(out, ".{:09}", self.0.rem_euclid(NANOS_PER_SECOND))
    }
}

/// `2015-05-03 13:30:54.234000+0000`.
impl fmt::Display for Timestamp {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        show_day(self.0.div_euclid(MILLIS_PER_DAY), out)?;
        out.write_str(" ")?;
        let millis = self.0.rem_euclid(MILLIS_PER_DAY);
        show_clock(millis / 1000, out)?;
        write!(out, ".{:03}000+0000", millis % 1000)
    }
}

/// `1y2mo3d4h5m6s7ms8us9ns`, units that are zero left out.
impl fmt::Display for Duration {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.months < 0 || self.days < 0 || self.nanoseconds < 0 {
            out.write_str("-")?;
        }
        let months = u64::from(self.months.unsigned_abs());
        let mut nanos = self.nanoseconds.unsigned_abs();
        let mut unit = |amount: u64, name: &str| {
            if amount == 0 {
                Ok(())
            } else {
                write!(out, "{amount}{name}")
            }
        };
        unit(months / 12, "y")?;
        unit(months % 12, "mo")?;
        unit(u64::from(self.days.unsigned_abs()), "d")?;
        const UNITS: [(u64, &str); 6] = [
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];
        for (size, name) in UNITS {
            unit(nanos / size, name)?;
            nanos %= size;
        }
        Ok(())
    }
}

fn show_clock(seconds: i64, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(
        out,
        "{:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

fn show_day(days: i64, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (year, month, day) = civil(days);
    let sign = if year < 0 { "-" } else { "" };
    write!(out, "{sign}{:04}-{month:02}-{day:02}", year.unsigned_abs())
}

/// Year, month and day of a number of days since 1970-01-01, in the proleptic Gregorian calendar.
///
/// Counted from the first of March of a year 0, so that the leap day is the last of its year.
fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / (DAYS_PER_ERA - 1)) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_around_leap_years_are_right() {
        assert_eq!(Date(1 << 31).to_string(), "1970-01-01");
        assert_eq!(Date((1 << 31) - 1).to_string(), "1969-12-31");
        assert_eq!(Date((1 << 31) + 11_016).to_string(), "2000-02-29");
        assert_eq!(Date((1 << 31) + 11_017).to_string(), "2000-03-01");
        // The examples of the specification.
        assert_eq!(Date(0).to_string(), "-5877641-06-23");
        assert_eq!(Date(u32::MAX).to_string(), "5881580-07-11");
    }

    #[test]
    fn times_are_shown_with_all_their_digits() {
        assert_eq!(Time(48_654_234_000_000).to_string(), "13:30:54.234000000");
        assert_eq!(
            Timestamp(1_430_659_854_234).to_string(),
            "2015-05-03 13:30:54.234000+0000"
        );
        assert_eq!(Timestamp(-1).to_string(), "1969-12-31 23:59:59.999000+0000");
    }

    #[test]
    fn durations_leave_out_what_is_zero() {
        let duration = Duration {
            months: 14,
            days: 3,
            nanoseconds: 3_600_000_000_009,
        };
        assert_eq!(duration.to_string(), "1y2mo3d1h9ns");
        let negative = Duration {
            months: 0,
            days: i32::MIN,
            nanoseconds: i64::MIN,
        };
        assert_eq!(negative.to_string(), "-2147483648d2562047h47m16s854ms775us808ns");
    }

    #[test]
    fn no_number_makes_a_time_panic() {
        for number in [i64::MIN, -1, 0, i64::MAX] {
            let _ = (Time(number).to_string(), Timestamp(number).to_string());
        }
    }
}
