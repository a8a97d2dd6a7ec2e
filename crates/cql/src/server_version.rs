//! The versions of Cassandra whose language differs: what one of them reads, another one refuses.

use std::fmt;
use std::str::FromStr;

/// A major version of Cassandra, in the order of their release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum ServerVersion {
    /// 4.0
    V4_0,
    /// 4.1
    V4_1,
    /// 5.0: the version that is meant where nothing says another.
    #[default]
    V5_0,
    /// 6.0 (an alpha version at the time of writing)
    V6_0,
}

impl ServerVersion {
    /// All of them, the oldest first.
    pub const ALL: [Self; 4] = [Self::V4_0, Self::V4_1, Self::V5_0, Self::V6_0];

    /// Its number: `5.0`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V4_0 => "4.0",
            Self::V4_1 => "4.1",
            Self::V5_0 => "5.0",
            Self::V6_0 => "6.0",
        }
    }

    /// The version whose language a release has, such as `5.0.9` or `6.0-alpha2`: the newest that is not newer than the
    /// release. 4.0 for all before; 6.0 for 5.1, as which it was developed. None for what is no version.
    #[must_use]
    pub fn of_release(release: &str) -> Option<Self> {
        let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
        let major: u32 = numbers.next()?.parse().ok()?;
        let minor: u32 = numbers.next().and_then(|minor| minor.parse().ok()).unwrap_or(0);
        Some(match (major, minor) {
            (0..=3, _) | (4, 0) => Self::V4_0,
            (4, _) => Self::V4_1,
            (5, 0) => Self::V5_0,
            _ => Self::V6_0,
        })
    }
}

impl fmt::Display for ServerVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for ServerVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = Self::ALL.into_iter().find(|version| version.as_str() == text);
        known.ok_or_else(|| format!("{text} is none of the versions 4.0, 4.1, 5.0 and 6.0"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_has_the_language_of_its_version() {
        let of = ServerVersion::of_release;
        assert_eq!(of("4.0.19"), Some(ServerVersion::V4_0));
        assert_eq!(of("3.11.4"), Some(ServerVersion::V4_0));
        assert_eq!(of("4.1.10"), Some(ServerVersion::V4_1));
        assert_eq!(of("5.0.9"), Some(ServerVersion::V5_0));
        assert_eq!(of("6.0-alpha2"), Some(ServerVersion::V6_0));
        assert_eq!(of("5.1-SNAPSHOT"), Some(ServerVersion::V6_0));
        assert_eq!(of("7.0"), Some(ServerVersion::V6_0));
        assert_eq!(of("unknown"), None);
    }

    #[test]
    fn a_version_is_read_as_it_is_written() {
        for version in ServerVersion::ALL {
            assert_eq!(version.to_string().parse(), Ok(version));
        }
        assert!("5.0.9".parse::<ServerVersion>().is_err());
    }
}
