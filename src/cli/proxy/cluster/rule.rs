//! Rules that give each node a listen address of its own.

use std::{fmt, net::SocketAddr, str::FromStr};

/// What `--listen` says: one address, or a rule that has one for each node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli::proxy) enum Listen {
    /// One address for everything.
    One(SocketAddr),
    /// `127.0.1.{n}:9042`: the same port at addresses that differ in a number.
    Addresses {
        /// What stands before and after `{n}` in the address.
        around: (String, String),
        port: u16,
    },
    /// `127.0.0.1:9042-9049`, or `127.0.0.1:9042+` as far as ports go: one address, one port after the other.
    Ports {
        /// The address with the first port.
        first: SocketAddr,
        last: u16,
    },
}

/// The number in `{n}` begins with 1 and ends where the last octet of an address is a broadcast address.
const MOST_ADDRESSES: u32 = 254;

const PLACE: &str = "{n}";

impl Listen {
    /// The address with a number; the first is 1. None where the rule has not so many.
    pub(in crate::cli::proxy) fn nth(&self, number: u32) -> Option<SocketAddr> {
        if number == 0 || number > self.capacity() {
            return None;
        }
        match self {
            Self::One(address) => Some(*address),
            Self::Addresses { around, port } => with_number(around, number, *port),
            Self::Ports { first, .. } => {
                let port = u32::from(first.port()) + number - 1;
                Some(SocketAddr::new(first.ip(), u16::try_from(port).ok()?))
            }
        }
    }

    /// How many addresses it has.
    pub(in crate::cli::proxy) fn capacity(&self) -> u32 {
        match self {
            Self::One(_) => 1,
            Self::Addresses { .. } => MOST_ADDRESSES,
            Self::Ports { first, last } => u32::from(*last) - u32::from(first.port()) + 1,
        }
    }

    /// Whether this is one of its addresses.
    pub(in crate::cli::proxy) fn has(&self, address: SocketAddr) -> bool {
        (1..=self.capacity()).any(|number| self.nth(number) == Some(address))
    }

    /// Whether one of its addresses cannot be bound beside `address`.
    pub(in crate::cli::proxy) fn overlaps(&self, address: SocketAddr) -> bool {
        let mut own = (1..=self.capacity()).filter_map(|number| self.nth(number));
        own.any(|own| overlap(own, address))
    }
}

/// Whether both cannot be bound; free ports (0) always can.
pub(in crate::cli::proxy) fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let any = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && (one.ip() == other.ip() || any)
}

fn with_number((before, after): &(String, String), number: u32, port: u16) -> Option<SocketAddr> {
    let address = format!("{before}{number}{after}").parse().ok()?;
    Some(SocketAddr::new(address, port))
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self::One(address));
        }
        let wrong = || {
            "an address such as 127.0.0.1:9142; with a cluster, one for each node: 127.0.1.{n}:9042, 127.0.0.1:9042-9049 or \
             127.0.0.1:9042+"
                .to_owned()
        };
        let (address, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        if address.contains(PLACE) {
            return addresses(address, port).ok_or_else(wrong);
        }
        let (first, last) = match port.split_once('-') {
            Some((first, last)) => (first, last.parse().map_err(|_| wrong())?),
            None => (port.strip_suffix('+').ok_or_else(wrong)?, u16::MAX),
        };
        let first: SocketAddr = format!("{address}:{first}").parse().map_err(|_| wrong())?;
        if first.port() == 0 || last < first.port() {
            return Err(format!(
                "ports that go up, above 0; {}-{last} do not",
                first.port()
            ));
        }
        Ok(Self::Ports { first, last })
    }
}

fn addresses(address: &str, port: &str) -> Option<Listen> {
    // Addresses of version 6 stand in brackets.
    let address = address
        .strip_prefix('[')
        .and_then(|address| address.strip_suffix(']'))
        .unwrap_or(address);
    let (before, after) = address.split_once(PLACE)?;
    let around = (before.to_owned(), after.to_owned());
    let port = port.parse().ok().filter(|port| *port != 0)?;
    let fits = (1..=MOST_ADDRESSES).all(|number| with_number(&around, number, port).is_some());
    fits.then_some(Listen::Addresses { around, port })
}

impl fmt::Display for Listen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(address) => address.fmt(out),
            Self::Addresses {
                around: (before, after),
                port,
            } if before.contains(':') || after.contains(':') => {
                write!(out, "[{before}{PLACE}{after}]:{port}")
            }
            Self::Addresses {
                around: (before, after),
                port,
            } => write!(out, "{before}{PLACE}{after}:{port}"),
            Self::Ports {
                first,
                last: u16::MAX,
            } => write!(out, "{first}+"),
            Self::Ports { first, last } => write!(out, "{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn rule(text: &str) -> Listen {
        text.parse().unwrap()
    }

    fn address(text: &str) -> Option<SocketAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn numbers_make_addresses_or_ports() {
        let hosts = rule("127.0.1.{n}:9042");
        assert_eq!(hosts.nth(1), address("127.0.1.1:9042"));
        assert_eq!(hosts.nth(254), address("127.0.1.254:9042"));
        assert_eq!((hosts.nth(0), hosts.nth(255)), (None, None));
        assert_eq!(rule("10.0.{n}.7:9042").nth(3), address("10.0.3.7:9042"));
        assert_eq!(rule("[fd00::{n}]:9042").nth(10), address("[fd00::10]:9042"));
        let ports = rule("127.0.0.1:9042-9044");
        assert_eq!((ports.nth(3), ports.nth(4)), (address("127.0.0.1:9044"), None));
        assert_eq!(rule("[::1]:65534+").capacity(), 2);
        assert!(
            ports.overlaps("127.0.0.1:9043".parse().unwrap())
                && ports.overlaps("0.0.0.0:9043".parse().unwrap())
                && !ports.overlaps("127.0.0.2:9043".parse().unwrap())
        );
    }

    #[test]
    fn rules_are_written_as_they_are_read() {
        for text in [
            "127.0.0.1:9142",
            "127.0.1.{n}:9042",
            "[fd00::{n}]:9042",
            "127.0.0.1:9042-9044",
            "[::1]:9042+",
        ] {
            assert_eq!(rule(text).to_string(), text);
        }
    }

    #[test]
    fn what_makes_no_addresses_is_refused() {
        for wrong in [
            "",
            "127.0.0.1",
            "localhost:9042",
            "127.0.0.{n}",
            "127.0.0.{n}:0",
            "127.0.0.{n}:x",
            "127.0.{n}.{n}:9042",
            "127.0.0.5{n}:9042",
            "127.0.0.1:9044-9042",
            "127.0.0.1:0-5",
            "127.0.0.1:9042-99999",
            "127.0.0.1:9042++",
        ] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong}");
        }
    }
}
