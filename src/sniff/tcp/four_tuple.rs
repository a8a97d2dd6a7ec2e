//! The two ends of a TCP connection.

use std::net::SocketAddr;

use cqlens_proto::envelope::Direction;

use crate::sniff::packets::Segment;

/// The addresses and ports by which a connection is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FourTuple {
    /// Where the client connected from.
    pub(super) client: SocketAddr,
    /// Where it connected to.
    pub(super) server: SocketAddr,
}

impl FourTuple {
    /// That of the connection to which `segment` belongs, if it travels in `direction`.
    #[inline]
    pub(super) fn new(segment: &Segment, direction: Direction) -> Self {
        let (client, server) = match direction {
            Direction::Request => (segment.from, segment.to),
            Direction::Response => (segment.to, segment.from),
        };
        Self { client, server }
    }
}
