//! Which connections are one and the same, captured before and after the translation of an address (NAT).
//!
//! A translation leaves the payload, the sequence numbers of both directions and at least one of the ports as they
//! are (RFC 3022 §2.2). Each connection is known by the addresses under which it was captured first: where one capture
//! has both sides, that is the side of the client. Its other copies are further sources of the same bytes.

use std::{collections::VecDeque, time::Duration};

use cqlens_capture::Moment;
use cqlens_proto::envelope::Direction;
use foldhash::{HashMap, HashMapExt};

use super::{FourTuple, MAX_CONNECTIONS, connection::TcpConnection};
use crate::packets::Segment;

/// The copies of connections.
#[derive(Debug)]
pub(super) struct Copies {
    /// Under which addresses the connection of a copy is followed.
    of: HashMap<FourTuple, FourTuple>,
    /// Connections that have just begun, by the initial sequence number of the client.
    begun: HashMap<u32, FourTuple>,
    /// The same in the order of time, to forget them.
    by_time: VecDeque<(Moment, u32)>,
}

/// How far apart the clocks of two captures may be for a copy to be found by its SYN.
const APART: Duration = Duration::from_secs(3);

/// The same where initial sequence numbers tell less: what a translation on the same machine takes at most.
const CLOSE: Duration = Duration::from_millis(1);

/// Programs that make up packets number them from 0 or a round number on, in each connection: below this, numbers
/// alone tell no connections apart.
const MADE_UP: u32 = 1 << 16;

/// Connections that have just begun and are remembered by their number; more at once are a flood of SYN.
const MAX_BEGUN: usize = 8_192;

/// Copies of one connection: translations and interfaces that it passes on its way, and far more than there are.
const MAX_COPIES: usize = 64;

/// With more connections than these, those whose beginning was not captured are not compared with each other.
const MAX_COMPARED: usize = 2_048;

/// How far apart copies of a connection may be in their bytes if both ports are the same, and if one is. With
/// [`MAX_COMPARED`] connections, one in a thousand captures has two that are that close by chance.
const NEAR: [u32; 2] = [1 << 20, 1 << 14];

impl Copies {
    pub(super) fn new() -> Self {
        Self {
            of: HashMap::new(),
            begun: HashMap::new(),
            by_time: VecDeque::new(),
        }
    }

    /// The addresses under which the connection of a segment is followed.
    pub(super) fn followed(&self, four_tuple: FourTuple) -> FourTuple {
        self.of.get(&four_tuple).copied().unwrap_or(four_tuple)
    }

    /// Notes that what comes from `copy` belongs to the connection `followed`.
    pub(super) fn join(&mut self, copy: FourTuple, followed: FourTuple) {
        self.of.insert(copy, followed);
    }

    /// Notes that these addresses have a connection of their own from now on.
    pub(super) fn part(&mut self, copy: FourTuple) {
        self.of.remove(&copy);
    }

    /// Notes that the connection `followed` has ended, and so have these copies of it.
    pub(super) fn part_from(&mut self, followed: FourTuple, copies: &[FourTuple]) {
        for copy in copies {
            if self.of.get(copy) == Some(&followed) {
                self.of.remove(copy);
            }
        }
    }

    /// Notes a connection that begins with `segment`.
    pub(super) fn note_begin(&mut self, four_tuple: FourTuple, segment: &Segment) {
        let Some(number) = initial_number(segment) else {
            return;
        };
        while let Some((at, number)) = self.by_time.front()
            && (segment.at.since(*at) > APART || self.by_time.len() >= MAX_BEGUN)
        {
            self.begun.remove(number);
            self.by_time.pop_front();
        }
        self.begun.insert(number, four_tuple);
        self.by_time.push_back((segment.at, number));
    }

    /// Forgets the copies of connections that are not followed any more.
    pub(super) fn forget(&mut self, connections: &HashMap<FourTuple, TcpConnection>) {
        self.of.retain(|_, followed| connections.contains_key(followed));
    }

    /// The connection of which `segment` opens a copy.
    pub(super) fn find(
        &self,
        four_tuple: FourTuple,
        segment: &Segment,
        direction: Direction,
        connections: &HashMap<FourTuple, TcpConnection>,
    ) -> Option<FourTuple> {
        if self.of.len() >= MAX_CONNECTIONS {
            return None;
        }
        if let Some(number) = initial_number(segment) {
            let followed = *self.begun.get(&number)?;
            let connection = connections.get(&followed)?;
            let is_copy = has_room(connection, four_tuple)
                && is_begin_of(followed, connection, four_tuple, segment, number);
            return is_copy.then_some(followed);
        }
        if connections.len() > MAX_COMPARED {
            return None;
        }
        let is_copy = |followed: FourTuple, connection: &TcpConnection| {
            let kept = Kept::of(followed, four_tuple)?;
            let near = NEAR[usize::from(!kept.both_ports)];
            let away = connection.distance_to(segment, direction)?;
            (away < near && has_room(connection, four_tuple)).then_some((away, followed))
        };
        connections
            .iter()
            .filter(|(followed, _)| **followed != four_tuple)
            .filter_map(|(followed, connection)| is_copy(*followed, connection))
            .min()
            .map(|(_, followed)| followed)
    }
}

/// Whether one more copy of the connection may be followed.
fn has_room(connection: &TcpConnection, copy: FourTuple) -> bool {
    let copies = connection.copies();
    copies.len() < MAX_COPIES || copies.contains(&copy)
}

/// The sequence number with which the client of a connection has begun, by a segment that opens it.
fn initial_number(segment: &Segment) -> Option<u32> {
    match (segment.syn, segment.acknowledgment) {
        (true, None) => Some(segment.sequence),
        (true, Some(acknowledgment)) => Some(acknowledgment.wrapping_sub(1)),
        (false, _) => None,
    }
}

/// Whether a connection that opens with `segment` is a copy of one that has begun with the same number.
fn is_begin_of(
    followed: FourTuple,
    connection: &TcpConnection,
    four_tuple: FourTuple,
    segment: &Segment,
    number: u32,
) -> bool {
    let Some(kept) = Kept::of(followed, four_tuple) else {
        return false;
    };
    let away = segment
        .at
        .since(connection.begun)
        .max(connection.begun.since(segment.at));
    let is_in_time = match kept.client || number >= MADE_UP {
        true => away <= APART,
        false => kept.both_ports && !away.is_zero() && away <= CLOSE,
    };
    is_in_time && connection.may_begin_with(segment)
}

/// What two pairs of addresses have in common that may be those of one connection.
struct Kept {
    /// The client's address and port.
    client: bool,
    both_ports: bool,
}

impl Kept {
    /// None where no translation leads from one to the other: neither port is the same, or one client has two
    /// connections to the same server.
    fn of(one: FourTuple, other: FourTuple) -> Option<Self> {
        let ((client, server), (other_client, other_server)) = (one.sockets(), other.sockets());
        let ports =
            [(client, other_client), (server, other_server)].map(|(one, other)| one.port() == other.port());
        let is_second = server == other_server && client.ip() == other_client.ip();
        (ports.contains(&true) && !is_second).then_some(Self {
            client: client == other_client,
            both_ports: ports == [true, true],
        })
    }
}

#[cfg(test)]
mod tests;
