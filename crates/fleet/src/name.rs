//! What a window is called wherever it is kept.

use std::{fmt, str::FromStr};

use super::left_out::Notes;
use jiff::{Timestamp, civil::Date, tz::TimeZone};

/// When a window began, and who saw it: `20261121T060000000Z-proxy-a.cqlens.json.gz`, as its file is called.
///
/// Two windows of the same name are the same window.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct WindowName {
    start: Timestamp,
    source: String,
}

/// How names end: JSON, compressed with gzip.
const ENDING: &str = ".cqlens.json.gz";

/// What is not the name of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a window: a time such as 20261121T060000000Z, a hyphen, a source, {ENDING}")]
pub struct NameError;

impl WindowName {
    /// Of a window that began then; `source` has letters, digits and hyphens.
    ///
    /// # Errors
    /// A source that has others, has none, or has more than 200.
    pub fn new(start: Timestamp, source: &str) -> Result<Self, NameError> {
        if !Self::is_source(source) {
            return Err(NameError);
        }
        Ok(Self {
            start,
            source: source.to_owned(),
        })
    }

    /// Whether a source can be called so.
    pub(crate) fn is_source(source: &str) -> bool {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
        !source.is_empty() && source.len() <= 200 && source.chars().all(fits)
    }

    /// The window that is called so in the folder of a day and source. One that belongs into another folder, or has a window's
    /// ending and no window's name, is left out and noted; what else is there is left alone.
    pub(crate) fn of_folder(name: &str, day: Date, source: &str, notes: &Notes) -> Option<Self> {
        if name.starts_with('.') || !name.ends_with(ENDING) {
            return None;
        }
        let window: Option<Self> = name.parse().ok();
        let window = window.filter(|window| window.day() == day && window.source() == source);
        if window.is_none() {
            notes.add(&format!("{day}/{source}/{name}"));
        }
        window
    }

    /// When the window began, to the millisecond.
    pub fn start(&self) -> Timestamp {
        self.start
    }

    /// The day on which it began, in UTC.
    pub fn day(&self) -> Date {
        self.start.to_zoned(TimeZone::UTC).date()
    }

    /// Who saw it.
    pub fn source(&self) -> &str {
        &self.source
    }
}

impl fmt::Display for WindowName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stamp = self.start.strftime("%Y%m%dT%H%M%S");
        let milliseconds = self.start.subsec_millisecond();
        write!(f, "{stamp}{milliseconds:03}Z-{}{ENDING}", self.source)
    }
}

impl FromStr for WindowName {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let stem = name.strip_suffix(ENDING).ok_or(NameError)?;
        let (stamp, source) = stem.split_once('-').ok_or(NameError)?;
        let (seconds, milliseconds) = stamp
            .strip_suffix('Z')
            .and_then(|digits| digits.split_at_checked(15))
            .ok_or(NameError)?;
        let seconds =
            jiff::civil::DateTime::strptime("%Y%m%dT%H%M%S", seconds).map_err(|_invalid| NameError)?;
        let is_whole = milliseconds.len() == 3 && milliseconds.bytes().all(|byte| byte.is_ascii_digit());
        let milliseconds: i64 = milliseconds.parse().map_err(|_invalid| NameError)?;
        let start = TimeZone::UTC
            .to_timestamp(seconds)
            .and_then(|start| start.checked_add(jiff::SignedDuration::from_millis(milliseconds)))
            .map_err(|_invalid| NameError)?;
        match is_whole {
            true => Self::new(start, source),
            false => Err(NameError),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_name_is_written_as_it_was_read() {
        let text = "20261121T060000007Z-proxy-a-9042.cqlens.json.gz";
        let name: WindowName = text.parse().unwrap();
        assert_eq!(name.start(), "2026-11-21T06:00:00.007Z".parse().unwrap());
        assert_eq!(name.day().to_string(), "2026-11-21");
        assert_eq!(name.source(), "proxy-a-9042");
        assert_eq!(name.to_string(), text);
        assert_eq!(WindowName::new(name.start(), name.source()).unwrap(), name);
    }

    #[test]
    fn other_files_are_no_windows() {
        for text in [
            "",
            "hash.key",
            ".cqlens-tmp",
            "20261121T060000007Z-.cqlens.json.gz",
            "20261121T060000007Z.cqlens.json.gz",
            "20261121T060000007Z-a.cqlens.json",
            "20261321T060000007Z-a.cqlens.json.gz",
            "20261121T060000+07Z-a.cqlens.json.gz",
            "20261121T06000007Z-a.cqlens.json.gz",
            "20261121T060000007Z-a/../b.cqlens.json.gz",
            "20261121T060000007Z-ä.cqlens.json.gz",
        ] {
            assert_eq!(text.parse::<WindowName>(), Err(NameError), "{text}");
        }
    }
}
