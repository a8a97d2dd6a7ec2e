//! The two ends of a TCP connection.

use std::{
    hash::{Hash, Hasher},
    net::{IpAddr, SocketAddr},
};

use cqlens_proto::envelope::Direction;

/// The addresses and ports by which a connection is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FourTuple {
    /// Where the client connected from.
    pub(super) client: SocketAddr,
    /// Where it connected to.
    pub(super) server: SocketAddr,
}

impl FourTuple {
    /// That of the connection of a segment that travels in `direction`.
    #[inline]
    pub(super) fn new(from: SocketAddr, to: SocketAddr, direction: Direction) -> Self {
        match direction {
            Direction::Request => Self {
                client: from,
                server: to,
            },
            Direction::Response => Self {
                client: to,
                server: from,
            },
        }
    }
}

/// Hashes the client's end only: it is unique to nearly every connection, and each packet pays for the hash.
impl Hash for FourTuple {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let port = u64::from(self.client.port());
        match self.client.ip() {
            IpAddr::V4(ip) => state.write_u64(u64::from(ip.to_bits()) << 16 | port),
            IpAddr::V6(ip) => {
                state.write_u128(ip.to_bits());
                state.write_u64(port);
            }
        }
    }
}
