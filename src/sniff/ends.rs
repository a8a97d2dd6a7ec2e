//! Both ends of a connection, in as few words as hold them: they are read, hashed and compared for every packet.

use std::{
    hash::{Hash, Hasher},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// Two ends, in an order that whoever has them knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ends {
    /// Addresses and ports, the first one in the upper half.
    V4(u64, u32),
    /// The same.
    V6([u128; 2], u32),
}

impl Ends {
    /// Those of two sockets.
    pub(super) fn new(first: SocketAddr, second: SocketAddr) -> Self {
        let ports = u32::from(first.port()) << 16 | u32::from(second.port());
        if let (IpAddr::V4(first), IpAddr::V4(second)) = (first.ip(), second.ip()) {
            return Self::V4(
                u64::from(first.to_bits()) << 32 | u64::from(second.to_bits()),
                ports,
            );
        }
        let word = |end: SocketAddr| match end.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        Self::V6([word(first), word(second)], ports)
    }

    /// The same, the other one first.
    #[inline]
    pub(super) fn swapped(self) -> Self {
        match self {
            Self::V4(addresses, ports) => Self::V4(addresses.rotate_left(32), ports.rotate_left(16)),
            Self::V6([first, second], ports) => Self::V6([second, first], ports.rotate_left(16)),
        }
    }

    /// The ports.
    #[inline]
    pub(super) fn ports(&self) -> (u16, u16) {
        let (Self::V4(_, ports) | Self::V6(_, ports)) = self;
        let [a, b, c, d] = ports.to_be_bytes();
        (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
    }

    /// The sockets.
    pub(super) fn sockets(&self) -> (SocketAddr, SocketAddr) {
        let (first, second): (IpAddr, IpAddr) = match *self {
            Self::V4(addresses, _) => {
                let [a, b, c, d, e, f, g, h] = addresses.to_be_bytes();
                (Ipv4Addr::new(a, b, c, d).into(), Ipv4Addr::new(e, f, g, h).into())
            }
            Self::V6([first, second], _) => (
                Ipv6Addr::from_bits(first).into(),
                Ipv6Addr::from_bits(second).into(),
            ),
        };
        let ports = self.ports();
        (SocketAddr::new(first, ports.0), SocketAddr::new(second, ports.1))
    }
}

impl Hash for Ends {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::V4(addresses, ports) => {
                state.write_u64(*addresses);
                state.write_u32(*ports);
            }
            Self::V6(addresses, ports) => {
                state.write_u128(addresses[0]);
                state.write_u128(addresses[1]);
                state.write_u32(*ports);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ends_keep_what_they_are_of_and_their_order() {
        for (first, second) in [
            ("10.0.0.1:40000", "10.0.0.2:9042"),
            ("[::1]:1", "[fd00::2]:65535"),
        ] {
            let sockets: (SocketAddr, SocketAddr) = (first.parse().unwrap(), second.parse().unwrap());
            let ends = Ends::new(sockets.0, sockets.1);
            assert_eq!(ends.sockets(), sockets);
            assert_eq!(ends.ports(), (sockets.0.port(), sockets.1.port()));
            assert_eq!(ends.swapped(), Ends::new(sockets.1, sockets.0));
            assert_ne!(ends.swapped(), ends);
        }
    }
}
