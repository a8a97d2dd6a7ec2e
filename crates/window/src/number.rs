//! Numbers as people read them: rounded to what they are worth, with their unit.
//!
//! A leaf that titles of findings, reports and the terminal share. It never rounds something up to everything
//! or down to nothing: a share of 99.97 % is `>99.9 %`, not `100 %`.

/// A count: exact with separators below ten million, else `12.3 M` or `4.5 G`.
pub fn count(value: u64) -> String {
    if value < 10_000_000 {
        exact(value)
    } else {
        scaled(value as f64)
    }
}

/// A count with separators: `18,402,113`.
pub fn exact(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A measured number: the two or three digits that mean something (`1.9`, `61`, `27.1 k`, `0.042`).
///
/// Whole numbers stay whole: a mean of exactly one is `1`, one of 1.004 is `1.0`.
pub fn decimal(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "–".to_owned()
    } else if size >= 10_000.0 {
        scaled(value)
    } else if value.fract() == 0.0 || size >= 9.95 {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", exact(whole(size.round())))
    } else if size >= 0.995 {
        format!("{value:.1}")
    } else if size >= 0.1 {
        format!("{value:.2}")
    } else if size >= 0.001 {
        format!("{value:.3}")
    } else {
        "<0.001".to_owned()
    }
}

/// How often something happens, with the unit in which it is easily imagined: `350 a second`, `4.2 an hour`.
pub fn rate(per_second: f64) -> String {
    if per_second >= 0.995 {
        format!("{} a second", decimal(per_second))
    } else if per_second * 60.0 >= 0.995 {
        format!("{} a minute", decimal(per_second * 60.0))
    } else if per_second * 3_600.0 >= 0.995 {
        format!("{} an hour", decimal(per_second * 3_600.0))
    } else {
        format!("{} a day", decimal(per_second * 86_400.0))
    }
}

/// How often something happened in so many seconds: a rate, or the number itself where it is too small for one, or
/// the time too short (`once in 7 s`, `4 times in 1 h`, `3,000 times in 20 s`).
pub fn frequency(times: u64, in_seconds: f64) -> String {
    match times {
        0 => "never".to_owned(),
        1 => format!("once in {}", seconds(in_seconds)),
        _ => match per_second(times, in_seconds) {
            Some(per_second) => rate(per_second),
            None => format!("{} times in {}", count(times), seconds(in_seconds)),
        },
    }
}

/// The rate of what happened so often in so many seconds; none of a handful, or of less than a minute. What this is
/// none of, no title calls a rate, and no severity counts as one: [`load`].
pub fn per_second(times: u64, in_seconds: f64) -> Option<f64> {
    (in_seconds >= SHORTEST_FOR_A_RATE)
        .then(|| load(times, in_seconds))
        .flatten()
}

/// The load that this makes, each second: its rate ([`per_second`]), and what was seen for less than a minute as
/// if there had been nothing else in that minute. None of a handful, or of no time.
pub fn load(times: u64, in_seconds: f64) -> Option<f64> {
    let is_load = times >= FEWEST_FOR_A_RATE && in_seconds > 0.0;
    is_load.then(|| times as f64 / in_seconds.max(SHORTEST_FOR_A_RATE))
}

/// Fewer may have come together by chance.
const FEWEST_FOR_A_RATE: u64 = 10;

/// A shorter observation is a moment, of which nobody knows what comes before and after it. In seconds.
pub const SHORTEST_FOR_A_RATE: f64 = 60.0;

/// A share between 0 and 1, in per cent: `94.2 %`, `49 %`, `<0.1 %`, `>99.9 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if !percent.is_finite() {
        "–".to_owned()
    } else if percent <= 0.0 {
        "0 %".to_owned()
    } else if percent < 0.1 {
        "<0.1 %".to_owned()
    } else if percent >= 100.0 {
        "100 %".to_owned()
    } else if percent > 99.9 {
        ">99.9 %".to_owned()
    } else if (9.95..90.0).contains(&percent) {
        format!("{percent:.0} %")
    } else {
        format!("{percent:.1} %")
    }
}

/// `part` of `whole` in per cent; `–` of nothing.
pub fn share(part: u64, whole: u64) -> String {
    percent(part as f64 / whole as f64)
}

/// A duration in microseconds: `850 µs`, `1.2 ms`, `38 ms`, `2.4 s`, `3.1 min`.
pub fn micros(value: u64) -> String {
    let value = value as f64;
    match value {
        ..999.5 => format!("{value:.0} µs"),
        ..999_500.0 => format!("{} ms", two_digits(value / 1e3)),
        ..59_950_000.0 => format!("{} s", two_digits(value / 1e6)),
        _ => format!("{} min", two_digits(value / 6e7)),
    }
}

/// A size in bytes: `512 B`, `1.2 KiB`, `14 MiB`.
pub fn bytes(value: u64) -> String {
    let mut size = value as f64;
    if size < 1_024.0 {
        return format!("{value} B");
    }
    for unit in ["KiB", "MiB", "GiB", "TiB"] {
        size /= 1_024.0;
        if size < 1_023.5 {
            return format!("{} {unit}", two_digits(size));
        }
    }
    format!("{} PiB", two_digits(size / 1_024.0))
}

/// A time of observation in seconds: `42 s`, `20 min`, `3 h 20 min`, `7 days`.
pub fn seconds(value: f64) -> String {
    if !value.is_finite() || value < 0.0 {
        return "–".to_owned();
    }
    if value < 9.95 && value.fract() != 0.0 {
        return format!("{value:.1} s");
    }
    let total = whole(value.round());
    let (days, hours, minutes, seconds) = (total / 86_400, total / 3_600 % 24, total / 60 % 60, total % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, _) => pair(minutes, "min", seconds, "s"),
        (0, ..) => pair(hours, "h", minutes, "min"),
        (1, ..) => pair(1, "day", hours, "h"),
        _ => pair(days, "days", hours, "h"),
    }
}

/// `3 reads`, `1 read`: the count and the noun in the right number.
pub fn plural(value: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(value), if value == 1 { one } else { many })
}

/// A small number as a sentence writes it: `one` to `twelve`, then digits.
pub fn word(value: u64) -> String {
    const WORDS: [&str; 13] = [
        "no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven",
        "twelve",
    ];
    let small = usize::try_from(value).ok().and_then(|at| WORDS.get(at));
    small.map_or_else(|| count(value), |word| (*word).to_owned())
}

fn pair(large: u64, large_unit: &str, small: u64, small_unit: &str) -> String {
    match small {
        0 => format!("{large} {large_unit}"),
        _ => format!("{large} {large_unit} {small} {small_unit}"),
    }
}

fn scaled(value: f64) -> String {
    let mut size = value;
    for unit in ["k", "M", "G", "T"] {
        size /= 1e3;
        if size.abs() < 999.5 {
            return format!("{} {unit}", three_digits(size));
        }
    }
    format!("{value:.1e}")
}

fn two_digits(value: f64) -> String {
    if value < 9.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

fn three_digits(value: f64) -> String {
    if value.abs() < 99.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

/// The nearest whole number of an estimate; 0 of what is below it.
pub fn rounded(value: f64) -> u64 {
    whole(value.round().max(0.0))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "callers pass whole numbers that are not negative; `as` saturates"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_as_long_as_they_can_be_read() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(18_402), "18,402");
        assert_eq!(count(9_123_456), "9,123,456");
        assert_eq!(count(91_234_567), "91.2 M");
        assert_eq!(count(999_960_000), "1.0 G");
        assert_eq!(exact(18_402_113), "18,402,113");
        assert_eq!(count(u64::MAX), "1.8e19");
    }

    #[test]
    fn measured_numbers_keep_the_digits_that_mean_something() {
        let shown = [1.0, 1.004, 1.94, 61.3, 340.7, 27_100.0, 0.5, 0.042, 0.000_01, 0.0].map(decimal);
        assert_eq!(
            shown,
            [
                "1", "1.0", "1.9", "61", "341", "27.1 k", "0.50", "0.042", "<0.001", "0"
            ]
        );
        assert_eq!(decimal(f64::NAN), "–");
        assert_eq!(decimal(f64::INFINITY), "–");
    }

    #[test]
    fn a_share_is_rounded_neither_to_everything_nor_to_nothing() {
        let shown = [0.0, 0.000_4, 0.041, 0.494, 0.942, 0.9997, 1.0, f64::NAN].map(percent);
        assert_eq!(
            shown,
            [
                "0 %", "<0.1 %", "4.1 %", "49 %", "94.2 %", ">99.9 %", "100 %", "–"
            ]
        );
        assert_eq!(share(1, 0), "–");
        assert_eq!(share(0, 0), "–");
    }

    #[test]
    fn rates_have_a_unit_that_can_be_imagined() {
        let shown = [350.0, 1.0, 0.5, 0.01, 0.000_1].map(rate);
        assert_eq!(
            shown,
            [
                "350 a second",
                "1 a second",
                "30 a minute",
                "36 an hour",
                "8.6 a day"
            ]
        );
    }

    #[test]
    fn a_handful_is_no_rate() {
        assert_eq!(frequency(1, 7.0), "once in 7 s");
        assert_eq!(frequency(4, 3_600.0), "4 times in 1 h");
        assert_eq!(frequency(9, 3_600.0), "9 times in 1 h");
        assert_eq!(frequency(10, 3_600.0), "10 an hour");
    }

    #[test]
    fn a_moment_has_no_rate_and_makes_the_load_of_a_minute() {
        assert_eq!(frequency(60, 1.0), "60 times in 1 s");
        assert_eq!(frequency(12_000, 59.0), "12,000 times in 59 s");
        assert_eq!(frequency(60, 60.0), "1 a second");
        assert_eq!(per_second(60, 59.9), None);
        assert_eq!((load(60, 1.0), load(60, 120.0)), (Some(1.0), Some(0.5)));
        assert_eq!((load(9, 1.0), load(60, 0.0)), (None, None));
    }

    #[test]
    fn durations_and_sizes_change_their_unit_before_they_get_long() {
        let durations = [0, 850, 1_234, 38_400, 999_600, 2_400_000, 186_000_000].map(micros);
        assert_eq!(
            durations,
            ["0 µs", "850 µs", "1.2 ms", "38 ms", "1.0 s", "2.4 s", "3.1 min"]
        );
        let sizes = [0, 1_023, 1_024, 14_300, 1_300_000, u64::MAX].map(bytes);
        assert_eq!(
            sizes,
            ["0 B", "1023 B", "1.0 KiB", "14 KiB", "1.2 MiB", "16384 PiB"]
        );
    }

    #[test]
    fn times_of_observation_have_two_units_at_most() {
        let shown = [
            0.0, 0.25, 42.0, 60.0, 125.0, 12_000.0, 86_400.0, 604_800.0, 612_000.0,
        ]
        .map(seconds);
        assert_eq!(
            shown,
            [
                "0 s",
                "0.2 s",
                "42 s",
                "1 min",
                "2 min 5 s",
                "3 h 20 min",
                "1 day",
                "7 days",
                "7 days 2 h"
            ]
        );
    }

    #[test]
    fn nouns_and_number_words_follow_their_count() {
        assert_eq!(plural(1, "read", "reads"), "1 read");
        assert_eq!(plural(0, "read", "reads"), "0 reads");
        assert_eq!(word(3), "three");
        assert_eq!(word(13), "13");
    }
}
