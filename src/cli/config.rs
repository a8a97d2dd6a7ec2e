//! Values of settings that are more than a number or a name.

use std::{net::SocketAddr, time::Duration};

use jiff::{SignedDuration, Span, SpanRelativeTo, Timestamp, Zoned, civil, tz::TimeZone};

/// Reads a duration: `60s`, `1m 30s`, `500ms`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let duration: SignedDuration = text
        .parse()
        .map_err(|_| "a duration such as 500ms, 60s or 1h30m".to_owned())?;
    Duration::try_from(duration).map_err(|_| "a duration that is not negative".to_owned())
}

/// Reads a duration above zero.
pub(super) fn positive_duration(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("a duration above zero".to_owned()),
        duration => Ok(duration),
    }
}

/// A duration, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OrOff(pub(super) Option<Duration>);

/// Reads a duration, or `off` (and what comes to the same: `0`).
pub(super) fn duration_or_off(text: &str) -> Result<OrOff, String> {
    match text {
        "off" | "0" => Ok(OrOff(None)),
        _ => match duration(text) {
            Ok(Duration::ZERO) => Ok(OrOff(None)),
            Ok(duration) => Ok(OrOff(Some(duration))),
            Err(expected) => Err(format!("{expected}, or off")),
        },
    }
}

/// Reads an age, in days and weeks too (`30d`, `12h`), or `off`.
pub(super) fn age_or_off(text: &str) -> Result<OrOff, String> {
    if text == "off" {
        return Ok(OrOff(None));
    }
    let span: Option<Span> = text.parse().ok();
    let age = span.and_then(|span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok());
    let age = age.and_then(|age| Duration::try_from(age).ok());
    age.filter(|age| !age.is_zero())
        .map(|age| OrOff(Some(age)))
        .ok_or_else(|| "a duration such as 30d, 2w or 12h, or off".to_owned())
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size(pub(super) u64);

/// Reads a number of bytes above zero, with its unit: `512KiB`, `256MiB`, `300MB`, `1000000B`.
pub(super) fn size(text: &str) -> Result<Size, String> {
    const UNITS: [(&str, u64); 8] = [
        ("B", 1),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ];
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = UNITS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()));
    let number: Option<u64> = number.parse().ok();
    number
        .zip(unit)
        .and_then(|(number, (_, bytes))| number.checked_mul(*bytes))
        .filter(|bytes| *bytes > 0)
        .map(Size)
        .ok_or_else(|| "a size with its unit, such as 256MiB or 1GiB".to_owned())
}

/// A number of bytes, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SizeOrOff(pub(super) Option<Size>);

/// Reads a number of bytes, or `off`.
pub(super) fn size_or_off(text: &str) -> Result<SizeOrOff, String> {
    if text == "off" {
        return Ok(SizeOrOff(None));
    }
    size(text)
        .map(|size| SizeOrOff(Some(size)))
        .map_err(|expected| format!("{expected}, or off"))
}

/// Reads `NAME=VALUE`; `form` shows what it looks like, with an example.
pub(super) fn assignment<'t>(text: &'t str, form: &str) -> Result<(&'t str, &'t str), String> {
    let (name, value) = text.split_once('=').ok_or_else(|| form.to_owned())?;
    Ok((name.trim(), value.trim()))
}

/// Reads an address and port to listen at.
pub(super) fn listen_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("{text:?} is not the address and port to listen at"))
}

/// Reads `host:port`; the port is 9042 where it is left out.
pub(super) fn host_and_port(text: &str) -> Result<String, String> {
    let wrong = || "host:port, such as 10.0.0.1:9042".to_owned();
    if let Ok(address) = text.parse::<std::net::IpAddr>() {
        return Ok(SocketAddr::new(address, 9042).to_string());
    }
    let Some((host, port)) = text.rsplit_once(':') else {
        return if text.is_empty() {
            Err(wrong())
        } else {
            Ok(format!("{text}:9042"))
        };
    };
    if host.is_empty() || port.parse::<u16>().is_err() {
        return Err(wrong());
    }
    Ok(text.to_owned())
}

/// Reads a number of traced reads a second.
pub(super) fn traces_per_second(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= MOST_TRACES_PER_SECOND => Ok(rate),
        _ => Err(format!(
            "a number of reads a second, above 0 and up to {MOST_TRACES_PER_SECOND}"
        )),
    }
}

/// Reads a part of a whole in per cent, nothing and everything included.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number: Option<f64> = text.parse().ok();
    number
        .filter(|percent| (0.0..=100.0).contains(percent))
        .ok_or_else(|| "a number from 0 to 100".to_owned())
}

/// A trace costs the cluster some tens of writes.
const MOST_TRACES_PER_SECOND: f64 = 100.0;

/// A time as an operator types it: RFC 3339, a date or date and time in UTC, or a span
/// before now (`7d`, `36 hours`).
pub(super) fn time(text: &str) -> Result<Timestamp, String> {
    time_before(text, &Zoned::now())
}

fn time_before(text: &str, now: &Zoned) -> Result<Timestamp, String> {
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time);
    }
    if let Ok(time) = text.parse::<civil::DateTime>() {
        let zoned = time.to_zoned(TimeZone::UTC);
        return zoned
            .map(|zoned| zoned.timestamp())
            .map_err(|error| error.to_string());
    }
    let span = text.parse::<Span>().map_err(|_| {
        "not a time: write 2026-11-14, 2026-11-14T06:00:00Z, or a span before now such as 7d or 36h"
            .to_owned()
    })?;
    let then = now.checked_sub(span.abs()).map_err(|error| error.to_string())?;
    Ok(then.timestamp())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn times_may_be_dates_or_spans_before_now() {
        let now: Zoned = "2026-11-21T06:00:00Z[UTC]".parse().unwrap();
        let time = |text| time_before(text, &now).map(|time| time.to_string());
        assert_eq!(time("2026-11-14").unwrap(), "2026-11-14T00:00:00Z");
        assert_eq!(time("2026-11-14T06:30").unwrap(), "2026-11-14T06:30:00Z");
        assert_eq!(time("2026-11-14T06:00Z").unwrap(), "2026-11-14T06:00:00Z");
        assert_eq!(time("2026-11-14T06:30:00+02:00").unwrap(), "2026-11-14T04:30:00Z");
        assert_eq!(time("7d").unwrap(), "2026-11-14T06:00:00Z");
        assert_eq!(time("36 hours").unwrap(), "2026-11-19T18:00:00Z");
        assert!(time("yesterday").unwrap_err().starts_with("not a time"));
        assert!(time("99999999999d").is_err());
    }

    #[test]
    fn a_rate_is_above_zero_and_bounded() {
        assert_eq!(traces_per_second("0.1"), Ok(0.1));
        for text in ["0", "-1", "101", "NaN", "many"] {
            assert!(traces_per_second(text).is_err(), "{text}");
        }
    }

    #[test]
    fn parts_are_in_per_cent() {
        assert_eq!(percent("0"), Ok(0.0));
        assert_eq!(percent("2.5"), Ok(2.5));
        assert_eq!(percent("100"), Ok(100.0));
        for text in ["-1", "101", "NaN", "3%", ""] {
            assert!(percent(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_have_units() {
        assert_eq!(duration("60s"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(positive_duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "60", "-5s", "soon"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(positive_duration("0s").is_err());
        for off in ["off", "0", "0s"] {
            assert_eq!(duration_or_off(off), Ok(OrOff(None)), "{off}");
        }
        assert_eq!(duration_or_off("60s"), Ok(OrOff(Some(Duration::from_secs(60)))));
        assert!(duration_or_off("never").is_err());
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("256MiB"), Ok(Size(256 << 20)));
        assert_eq!(size("1 gib"), Ok(Size(1 << 30)));
        assert_eq!(size("300MB"), Ok(Size(300_000_000)));
        for wrong in [
            "",
            "256",
            "MiB",
            "-1MiB",
            "1.5GiB",
            "99999999999TiB",
            "99999999999999999999B",
            "99999999999GiB",
        ] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_port_may_be_left_out() {
        assert_eq!(host_and_port("db"), Ok("db:9042".to_owned()));
        assert_eq!(host_and_port("10.0.0.1"), Ok("10.0.0.1:9042".to_owned()));
        assert_eq!(host_and_port("::1"), Ok("[::1]:9042".to_owned()));
        assert_eq!(host_and_port("[::1]:9043"), Ok("[::1]:9043".to_owned()));
        for wrong in ["", ":9042", "db:", "db:port", "db:99999"] {
            assert!(host_and_port(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ages_may_be_days_and_sizes_have_units() {
        let day = Duration::from_secs(86_400);
        assert_eq!(age_or_off("30d"), Ok(OrOff(Some(30 * day))));
        assert_eq!(age_or_off("1w 12h"), Ok(OrOff(Some(7 * day + day / 2))));
        assert_eq!(age_or_off("off"), Ok(OrOff(None)));
        for wrong in ["", "30", "0s", "-1d", "1 month", "soon"] {
            assert!(age_or_off(wrong).is_err(), "{wrong}");
        }
        assert_eq!(size_or_off("512MiB"), Ok(SizeOrOff(Some(Size(512 << 20)))));
        assert_eq!(size_or_off("1 GB"), Ok(SizeOrOff(Some(Size(1_000_000_000)))));
        assert_eq!(size_or_off("off"), Ok(SizeOrOff(None)));
        for wrong in ["", "512", "0B", "-1MiB", "MiB", "99999999999TiB", "1.5GiB"] {
            assert!(size_or_off(wrong).is_err(), "{wrong}");
        }
    }
}
