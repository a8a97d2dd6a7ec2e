//! The two ends of a TCP connection, packed: they are copied, hashed and compared for each packet, and a
//! `SocketAddr` has room for an IPv6 address.

use std::{
    hash::{Hash, Hasher},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use cqlens_proto::envelope::Direction;

/// The addresses and ports by which a connection is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FourTuple {
    /// The addresses, then the ports; the client's in the upper half of each.
    V4(u64, u32),
    /// The client's address, the server's address, and the ports as above.
    V6(u128, u128, u32),
}

impl FourTuple {
    /// That of the connection of a segment that travels in `direction`.
    pub(super) fn new(from: SocketAddr, to: SocketAddr, direction: Direction) -> Self {
        let (client, server) = match direction {
            Direction::Request => (from, to),
            Direction::Response => (to, from),
        };
        let ports = u32::from(client.port()) << 16 | u32::from(server.port());
        let bits = |ip: IpAddr| match ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        match (client.ip(), server.ip()) {
            (IpAddr::V4(client), IpAddr::V4(server)) => Self::V4(
                u64::from(client.to_bits()) << 32 | u64::from(server.to_bits()),
                ports,
            ),
            (client, server) => Self::V6(bits(client), bits(server), ports),
        }
    }

    /// With client and server exchanged.
    #[inline]
    pub(super) fn reversed(self) -> Self {
        match self {
            Self::V4(addresses, ports) => Self::V4(addresses.rotate_left(32), ports.rotate_left(16)),
            Self::V6(client, server, ports) => Self::V6(server, client, ports.rotate_left(16)),
        }
    }

    /// The ports of client and server.
    #[inline]
    pub(super) fn ports(&self) -> (u16, u16) {
        let (Self::V4(_, ports) | Self::V6(_, _, ports)) = self;
        let [a, b, c, d] = ports.to_be_bytes();
        (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
    }

    /// Whether both lead to the same server.
    #[inline]
    pub(super) fn has_server_of(self, other: Self) -> bool {
        let is_same_port = self.ports().1 == other.ports().1;
        is_same_port
            && match (self, other) {
                (Self::V4(one, _), Self::V4(other, _)) => one << 32 == other << 32,
                (Self::V6(_, one, _), Self::V6(_, other, _)) => one == other,
                _ => false,
            }
    }

    /// Client and server.
    pub(crate) fn sockets(&self) -> (SocketAddr, SocketAddr) {
        let (client, server): (IpAddr, IpAddr) = match *self {
            Self::V4(addresses, _) => {
                let [a, b, c, d, e, f, g, h] = addresses.to_be_bytes();
                (Ipv4Addr::new(a, b, c, d).into(), Ipv4Addr::new(e, f, g, h).into())
            }
            Self::V6(client, server, _) => (
                Ipv6Addr::from_bits(client).into(),
                Ipv6Addr::from_bits(server).into(),
            ),
        };
        let ports = self.ports();
        (SocketAddr::new(client, ports.0), SocketAddr::new(server, ports.1))
    }
}

/// Hashes the client's end only: it is unique to nearly every connection, and each packet pays for the hash.
impl Hash for FourTuple {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        match *self {
            Self::V4(addresses, ports) => {
                state.write_u64((addresses >> 32) << 16 | u64::from(ports >> 16));
            }
            Self::V6(client, _, ports) => {
                state.write_u128(client);
                state.write_u64(u64::from(ports >> 16));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn both_ends_come_back_in_their_order() {
        for (from, to) in [
            ("10.0.0.1:40000", "10.0.0.2:9042"),
            ("[::1]:1", "[fd00::2]:65535"),
        ] {
            let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            let request = FourTuple::new(from, to, Direction::Request);
            assert_eq!(request.sockets(), (from, to));
            assert_eq!(request.ports(), (from.port(), to.port()));
            let response = FourTuple::new(from, to, Direction::Response);
            assert_eq!(response.sockets(), (to, from));
            assert_eq!((request.reversed(), response.reversed()), (response, request));
        }
    }
}
