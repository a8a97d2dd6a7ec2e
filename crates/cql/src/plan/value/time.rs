//! Dates and times as text: what `TimestampSerializer`, `SimpleDateSerializer` and `TimeSerializer` accept.
//!
//! A timestamp without a zone is taken as UTC: Cassandra takes its server's own time zone, which nobody
//! outside knows and which is UTC on nearly all servers. Zones by name are known only as far as they are
//! names of UTC.

const MILLIS_OF_DAY: i64 = 86_400_000;
const NANOS_OF_SECOND: i64 = 1_000_000_000;

/// Milliseconds since 1970 of `2011-02-03`, `2011-02-03 04:05[:06[.123]]` or with `T`, each with an offset or
/// none; or the number itself.
pub(super) fn timestamp(text: &str) -> Option<i64> {
    if is_integer(text) {
        return text.parse().ok();
    }
    let mut input = Input(text);
    let date = input.date()?;
    let (offset, of_day) = match input.0.chars().next() {
        Some(separator @ (' ' | 'T')) if input.0[1..].starts_with(|next: char| next.is_ascii_digit()) => {
            input.skip(separator);
            let of_day = input.time_of_day()?;
            (input.offset()?, of_day)
        }
        _ => (input.offset()?, 0),
    };
    let days = date.days(Clamp::LastDayOfMonth)?;
    let midnight = days.checked_mul(MILLIS_OF_DAY)?;
    let milliseconds = midnight.checked_add(of_day)?.checked_sub(offset)?;
    input.0.is_empty().then_some(milliseconds)
}

/// Days since 1970 of `2011-02-03`, or of the unsigned number of days that a `date` holds (epoch at 2^31).
pub(super) fn date(text: &str) -> Option<i64> {
    if is_integer(text) {
        let days: u32 = text.parse().ok()?;
        return Some(i64::from(days) - (1 << 31));
    }
    let mut input = Input(text);
    let date = input.date()?;
    let days = date.days(Clamp::No)?;
    let in_range = (-(1_i64 << 31)..1 << 31).contains(&days);
    (input.0.is_empty() && date.padded && in_range).then_some(days)
}

/// Nanoseconds since midnight of `04:05:06[.123456789]`, or the number itself.
pub(super) fn time(text: &str) -> Option<i64> {
    if is_integer(text) {
        let nanos: i64 = text.parse().ok()?;
        return (0..MILLIS_OF_DAY * 1_000_000).contains(&nanos).then_some(nanos);
    }
    let mut parts = text.trim().splitn(3, ':');
    let (hour, minute, second) = (parts.next()?, parts.next()?, parts.next()?);
    let (second, fraction) = match second.split_once('.') {
        Some((second, fraction)) => (second, nanos(fraction)?),
        None => (second, 0),
    };
    let below = |text: &str, limit: i64| {
        text.parse::<i64>()
            .ok()
            .filter(|number| (0..limit).contains(number))
    };
    let seconds = (below(hour, 24)? * 60 + below(minute, 60)?) * 60 + below(second, 60)?;
    Some(seconds * NANOS_OF_SECOND + fraction)
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Nanoseconds of up to nine digits behind a point.
fn nanos(fraction: &str) -> Option<i64> {
    let valid = (1..=9).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
    valid.then(|| format!("{fraction:0<9}").parse().ok())?
}

struct Date {
    year: i64,
    month: i64,
    day: i64,
    /// Written with four, two and two digits.
    padded: bool,
}

/// What becomes of the 31st of a shorter month.
#[derive(PartialEq, Eq)]
enum Clamp {
    /// It is no date (Java's strict resolver).
    No,
    /// It is the month's last day (Java's smart resolver).
    LastDayOfMonth,
}

impl Date {
    /// Days since 1970-01-01 in the proleptic Gregorian calendar.
    fn days(&self, clamp: Clamp) -> Option<i64> {
        let Self {
            year, month, mut day, ..
        } = *self;
        let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let length = match month {
            2 => 28 + i64::from(leap),
            4 | 6 | 9 | 11 => 30,
            1..=12 => 31,
            _ => return None,
        };
        if clamp == Clamp::LastDayOfMonth && (1..=31).contains(&day) {
            day = day.min(length);
        }
        if !(1..=length).contains(&day) || year.abs() > 999_999_999 {
            return None;
        }
        // Years that begin in March put the leap day last: 1461 days make four of them.
        let (year, month) = if month > 2 {
            (year, month - 3)
        } else {
            (year - 1, month + 9)
        };
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let of_year = (153 * month + 2) / 5 + day - 1;
        Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
    }
}

/// What is left of a text.
struct Input<'t>(&'t str);

impl Input<'_> {
    fn skip(&mut self, character: char) -> Option<()> {
        self.0 = self.0.strip_prefix(character)?;
        Some(())
    }

    /// A number, and of how many digits it is.
    fn number(&mut self) -> Option<(i64, usize)> {
        let length = self.0.bytes().take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.0.split_at(length);
        self.0 = rest;
        Some((digits.parse().ok()?, length))
    }

    fn date(&mut self) -> Option<Date> {
        let negative = self.skip('-').is_some();
        let (year, year_digits) = self.number()?;
        self.skip('-')?;
        let (month, month_digits) = self.number()?;
        self.skip('-')?;
        let (day, day_digits) = self.number()?;
        let padded = year_digits >= 4 && month_digits == 2 && day_digits == 2;
        Some(Date {
            year: if negative { -year } else { year },
            month,
            day,
            padded,
        })
    }

    /// Milliseconds since midnight.
    fn time_of_day(&mut self) -> Option<i64> {
        let (hour, _) = self.number()?;
        self.skip(':')?;
        let (minute, _) = self.number()?;
        let mut second = 0;
        let mut fraction = 0;
        if self.skip(':').is_some() {
            (second, _) = self.number()?;
            if self.skip('.').is_some() {
                let length = self.0.bytes().take_while(u8::is_ascii_digit).count();
                let (digits, rest) = self.0.split_at(length);
                fraction = nanos(digits)? / 1_000_000;
                self.0 = rest;
            }
        }
        let midnight = hour == 24 && minute == 0 && second == 0 && fraction == 0;
        let valid = (hour < 24 || midnight) && minute < 60 && second < 60;
        valid.then(|| ((hour * 60 + minute) * 60 + second) * 1000 + fraction)
    }

    /// An offset from UTC in milliseconds: nothing, `Z`, `UTC`, `+01`, `+0100` or `+01:00`, also behind a
    /// space.
    fn offset(&mut self) -> Option<i64> {
        let text = self.0.strip_prefix(' ').unwrap_or(self.0);
        let sign = match text.bytes().next() {
            None if self.0.is_empty() => return Some(0),
            Some(b'+') => 1,
            Some(b'-') => -1,
            _ if ["Z", "UTC", "GMT", "UT"]
                .iter()
                .any(|zone| text.eq_ignore_ascii_case(zone)) =>
            {
                self.0 = "";
                return Some(0);
            }
            _ => return None,
        };
        let digits = text[1..].replacen(':', "", usize::from(text.len() == 6));
        if !matches!(digits.len(), 2 | 4) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (hours, minutes) = digits.split_at(2);
        let (hours, minutes): (i64, i64) = (hours.parse().ok()?, minutes.parse().unwrap_or(0));
        self.0 = "";
        (hours <= 18 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_read_in_every_form_that_the_documentation_shows() {
        let expected = Some(1_296_705_900_000);
        for text in [
            "2011-02-03 04:05+0000",
            "2011-02-03 04:05:00+0000",
            "2011-02-03 04:05:00.000+0000",
            "2011-02-03T04:05Z",
            "2011-02-03T04:05:00.000Z",
            "2011-02-03T05:05:00+01:00",
            "2011-02-03 04:05 UTC",
            "2011-2-3 4:5",
            "1296705900000",
        ] {
            assert_eq!(timestamp(text), expected, "{text}");
        }
        assert_eq!(timestamp("2011-02-03"), Some(1_296_691_200_000));
        assert_eq!(timestamp("2011-02-03+0100"), Some(1_296_687_600_000));
        assert_eq!(timestamp("-1"), Some(-1));
        assert_eq!(timestamp("2011-02-31 00:00"), timestamp("2011-02-28"));
        assert_eq!(timestamp("2011-02-03 25:00"), None);
        assert_eq!(timestamp("2011-02-03 9223372036854775807:00"), None);
        let last = "292278994-08-17 07:12:55.807";
        assert_eq!(timestamp(last), Some(i64::MAX));
        assert_eq!(timestamp(&format!("{last}-01:00")), None);
        assert_eq!(timestamp("yesterday"), None);
        assert_eq!(timestamp("2011-02-03 é"), None);
    }

    #[test]
    fn a_date_counts_days_around_the_epoch() {
        assert_eq!(date("1970-01-01"), Some(0));
        assert_eq!(date("1969-12-31"), Some(-1));
        assert_eq!(date("2024-02-29"), Some(19_782));
        assert_eq!(date("2023-02-29"), None);
        assert_eq!(date("2024-2-29"), None);
        assert_eq!(date("2147483648"), Some(0));
        assert_eq!(date("-1"), None);
    }

    #[test]
    fn a_time_has_at_most_nine_digits_behind_the_point() {
        assert_eq!(time("08:12:54.123456789"), Some(29_574_123_456_789));
        assert_eq!(time("08:12:54.1"), Some(29_574_100_000_000));
        assert_eq!(time("08:12:54"), Some(29_574_000_000_000));
        assert_eq!(time("86400000000000"), None);
        assert_eq!(time("08:12"), None);
        assert_eq!(time("08:12:54."), None);
    }
}
