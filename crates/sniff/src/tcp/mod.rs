//! The TCP connections of a capture: finds the connection of each segment, and keeps their number and memory
//! bounded.

mod beginning;
mod clocks;
mod connection;
mod copies;
mod four_tuple;
mod half;
mod reassembler;
mod relays;

use std::{collections::BTreeMap, sync::Arc};

use cqlens_proto::envelope::Direction;
use foldhash::{HashMap, HashMapExt};

use clocks::Patience;
use connection::{TIME_WAIT, TcpConnection};
use copies::Copies;
pub(crate) use four_tuple::FourTuple;
use relays::Relays;

use super::{
    files::Packet,
    losses::Losses,
    packets::{Headers, PacketReader, Segment},
    probe::Probe,
    tls::KeyLog,
};
use cqlens_capture::{
    Connection, ConnectionId, Moment, ReplayQueue,
    memory::{Memory, Part, Use},
};

/// Connections that are followed at once; beyond, those that were idle for longest are evicted.
pub const MAX_CONNECTIONS: usize = 65_536;

/// How often waiting connections are checked, in capture time.
const CHECK_INTERVAL: std::time::Duration = std::time::Duration::from_millis(10);

/// Reassembles connections and hands their bytes to the audit.
#[derive(Debug)]
pub struct TcpConnections {
    queue: Arc<ReplayQueue>,
    ports: Vec<u16>,
    connections: HashMap<FourTuple, TcpConnection>,
    copies: Copies,
    relays: Relays,
    next: u64,
    /// Connections that may have buffered bytes.
    waiting: Vec<FourTuple>,
    now: Moment,
    /// When waiting connections are checked next.
    next_check: Moment,
    last_cleanup: Moment,
    losses: Losses,
    probe: Probe,
    segments: u64,
    /// Whether any segment had a payload.
    has_carried: bool,
    /// Whether any packet had no time.
    lacks_times: bool,
    /// Bytes that may be buffered, in all connections together.
    max_buffered_bytes: usize,
    /// Memory of all resynchronisations together.
    searching: Part,
    /// Secrets of connections that use TLS.
    keys: KeyLog,
    patience: Arc<Patience>,
}

impl TcpConnections {
    /// Follows the connections to servers at any of `ports`.
    pub fn new(queue: Arc<ReplayQueue>, ports: Vec<u16>) -> Self {
        let beginning = Moment::from_unix_nanoseconds(0);
        Self {
            queue,
            ports,
            connections: HashMap::new(),
            copies: Copies::new(),
            relays: Relays::default(),
            next: 0,
            waiting: Vec::new(),
            now: beginning,
            next_check: beginning,
            last_cleanup: beginning,
            losses: Losses::default(),
            probe: Probe::default(),
            segments: 0,
            has_carried: false,
            lacks_times: false,
            max_buffered_bytes: 0,
            searching: Part::new("searching", 0),
            keys: KeyLog::default(),
            patience: Arc::default(),
        }
        .within(&Memory::default())
    }

    /// Keeps to the queue's part of `memory`: three quarters for buffered segments, one for
    /// resynchronisation.
    #[must_use]
    pub fn within(self, memory: &Memory) -> Self {
        let room = memory.part(Use::Queue).limit();
        Self {
            max_buffered_bytes: room / 4 * 3,
            searching: Part::new("searching", room / 4),
            ..self
        }
    }

    /// Decrypts connections whose secrets are in `keys`.
    #[must_use]
    pub fn decrypting(self, keys: KeyLog) -> Self {
        Self { keys, ..self }
    }

    /// Takes the next packet of the capture; `packets` decodes it where the short cut does not apply.
    #[inline]
    pub fn take_packet(&mut self, packet: &Packet<'_>, packets: &mut PacketReader) {
        if let Some(headers) = &Headers::read(packet)
            && self.take_in_order(headers, packet)
        {
            return;
        }
        if let Some(segment) = packets.read(packet) {
            self.take(segment);
        }
    }

    /// Short cut: the payload of a plain packet that is the next of an established connection goes straight
    /// to the audit. Without it, auditing a capture of prepared reads costs half as much again. False, with
    /// nothing changed, for all other packets.
    #[inline]
    fn take_in_order(&mut self, headers: &Headers, packet: &Packet<'_>) -> bool {
        let (from, to) = headers.from_to.ports();
        let (direction, four_tuple) = match (self.is_server(to), self.is_server(from)) {
            (true, false) => (Direction::Request, headers.from_to),
            (false, true) => (Direction::Response, headers.from_to.reversed()),
            _ => return false,
        };
        let Some(connection) = self.connections.get_mut(&four_tuple) else {
            return false;
        };
        if !connection.continues_with(headers, direction) {
            return false;
        }
        connection.take_in_order(headers, packet, direction, &mut self.losses);
        self.has_carried |= !headers.payload.is_empty();
        self.count_segment(packet.at);
        true
    }

    /// Counts a segment, and checks waiting connections where it is time.
    #[inline]
    fn count_segment(&mut self, at: Moment) {
        self.segments += 1;
        self.now = self.now.max(at);
        if self.now >= self.next_check {
            self.check_waiting();
        }
    }

    /// Takes the next segment of the capture.
    pub fn take(&mut self, segment: Segment) {
        let at = segment.at;
        self.now = self.now.max(at);
        let Some(direction) = self.direction(&segment) else {
            self.probe.look(&segment);
            return;
        };
        self.has_carried |= !segment.payload.is_empty();
        let captured = FourTuple::new(segment.from, segment.to, direction);
        let four_tuple = self.copies.followed(captured);
        match self.connections.get_mut(&four_tuple) {
            Some(connection) if connection.is_replaced_by(&segment, direction) => {
                if captured == four_tuple {
                    connection.close(&mut self.losses);
                    self.copies.part_from(four_tuple, connection.copies());
                }
                self.open(captured, segment, direction);
            }
            Some(_) => self.go_on(four_tuple, captured, segment, direction),
            None => self.open(captured, segment, direction),
        }
        self.count_segment(at);
    }

    fn open(&mut self, four_tuple: FourTuple, segment: Segment, direction: Direction) {
        // A reset without its connection has nothing to audit.
        if segment.rst {
            return;
        }
        self.copies.part(four_tuple);
        if let Some(followed) = self
            .copies
            .find(four_tuple, &segment, direction, &self.connections)
        {
            return self.join(four_tuple, followed, segment, direction);
        }
        self.copies.note_begin(four_tuple, &segment);
        if self.connections.len() >= MAX_CONNECTIONS {
            self.evict();
        }
        let (client, server) = four_tuple.sockets();
        let shared = Arc::new(Connection::recorded(ConnectionId(self.next), client));
        shared.reaches(server);
        if self.lacks_times {
            shared.lack_times();
        }
        self.next += 1;
        let mut connection = TcpConnection::new(
            shared,
            &segment,
            &self.queue,
            &self.searching,
            &self.keys,
            &self.patience,
            &mut self.losses,
        );
        connection.note_relays(|| self.relays.may_lead_to(four_tuple));
        connection.take(segment, four_tuple, direction, &mut self.losses);
        if connection.is_waiting() {
            self.waiting.push(four_tuple);
        }
        self.connections.insert(four_tuple, connection);
        self.look(four_tuple);
    }

    /// Goes on with the connection `followed`, of which `segment` opens a copy.
    fn join(&mut self, copy: FourTuple, followed: FourTuple, segment: Segment, direction: Direction) {
        self.connections.remove(&copy);
        self.copies.join(copy, followed);
        if let Some(connection) = self.connections.get_mut(&followed) {
            connection.has_copy(copy);
        }
        self.losses.note_copy(followed.sockets().1, copy.sockets().1);
        self.go_on(followed, copy, segment, direction);
    }

    /// Takes a segment of the connection that is followed under `four_tuple`, from where it was captured.
    fn go_on(&mut self, four_tuple: FourTuple, captured: FourTuple, segment: Segment, direction: Direction) {
        if segment.fin || segment.rst {
            self.end_beginning(four_tuple);
        }
        let Some(connection) = self.connections.get_mut(&four_tuple) else {
            return;
        };
        connection.note_relays(|| self.relays.may_lead_to(four_tuple));
        let waited = connection.is_waiting();
        connection.take(segment, captured, direction, &mut self.losses);
        if !waited && connection.is_waiting() {
            self.waiting.push(four_tuple);
        }
        if connection.is_beginning() {
            self.look(four_tuple);
        }
    }

    /// Decides what depends on a connection that ends, if it is at its beginning.
    fn end_beginning(&mut self, four_tuple: FourTuple) {
        let connection = self.connections.get(&four_tuple);
        if connection.is_some_and(TcpConnection::is_beginning) {
            self.relays
                .end(four_tuple, &mut self.connections, &mut self.losses);
        }
    }

    /// Compares the beginning of a connection with others, if it may lead through a relay.
    #[cold]
    fn look(&mut self, four_tuple: FourTuple) {
        let (now, losses) = (self.now, &mut self.losses);
        self.relays.look(four_tuple, now, &mut self.connections, losses);
    }

    #[inline(always)]
    fn is_server(&self, port: u16) -> bool {
        // Inlined for the one port that is usual: a call of `contains` for each packet costs a request 1 %.
        match self.ports[..] {
            [only] => only == port,
            _ => self.ports.contains(&port),
        }
    }

    /// The direction of a segment; `None` where neither port is a server's.
    fn direction(&self, segment: &Segment) -> Option<Direction> {
        let (from, to) = (segment.from, segment.to);
        match (self.is_server(to.port()), self.is_server(from.port())) {
            (true, false) => Some(Direction::Request),
            (false, true) => Some(Direction::Response),
            (false, false) => None,
            // Both ports are server ports: the receiver of the SYN is the server, otherwise the side that is
            // not yet known as a client.
            (true, true) => Some(match (segment.syn, segment.acknowledgment) {
                (true, None) => Direction::Request,
                (true, Some(_)) => Direction::Response,
                _ => {
                    let four_tuple = FourTuple::new(from, to, Direction::Response);
                    match self.connections.contains_key(&four_tuple) {
                        true => Direction::Response,
                        false => Direction::Request,
                    }
                }
            }),
        }
    }

    /// Gives up missing bytes that are overdue, evicts where too much is buffered, and forgets closed
    /// connections.
    #[cold]
    fn check_waiting(&mut self) {
        self.next_check = self.now.after(CHECK_INTERVAL);
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut bytes = 0;
        waiting.retain(|four_tuple| {
            let Some(connection) = self.connections.get_mut(four_tuple) else {
                return false;
            };
            connection.give_up(self.now, &mut self.losses);
            bytes += connection.buffered_bytes();
            connection.is_waiting()
        });
        if bytes > self.max_buffered_bytes {
            // Evicts those that have waited for longest until half of the room is free.
            let mut left = bytes;
            waiting.retain(|four_tuple| {
                let Some(connection) = self
                    .connections
                    .get_mut(four_tuple)
                    .filter(|_| left > self.max_buffered_bytes / 2)
                else {
                    return true;
                };
                left = left.saturating_sub(connection.buffered_bytes());
                connection.close(&mut self.losses);
                self.losses.evicted_connections += 1;
                false
            });
        }
        self.waiting = waiting;
        self.relays
            .decide_due(Some(self.now), &mut self.connections, &mut self.losses);
        if self.now.since(self.last_cleanup) >= TIME_WAIT {
            self.last_cleanup = self.now;
            let now = self.now;
            self.connections
                .retain(|_, connection| !(connection.is_closed() && now.since(connection.last) >= TIME_WAIT));
            self.copies.forget(&self.connections);
        }
    }

    /// Makes room: evicts closed connections, then those that were idle for longest.
    fn evict(&mut self) {
        self.connections.retain(|_, connection| !connection.is_closed());
        if self.connections.len() < MAX_CONNECTIONS {
            return;
        }
        let mut by_time: Vec<_> = self
            .connections
            .iter()
            .map(|(four_tuple, connection)| (connection.last, *four_tuple))
            .collect();
        let part = (by_time.len() / 16).max(1);
        let last = by_time.len().saturating_sub(1);
        by_time.select_nth_unstable(part.min(last));
        for (_, four_tuple) in by_time.into_iter().take(part) {
            if let Some(mut connection) = self.connections.remove(&four_tuple) {
                connection.close(&mut self.losses);
                self.losses.evicted_connections += 1;
            }
        }
        self.copies.forget(&self.connections);
    }

    /// Closes all connections at the end of the capture.
    pub fn end(&mut self) {
        self.relays
            .decide_due(None, &mut self.connections, &mut self.losses);
        // In the order in which they were opened, so that the same captures make the same report.
        let mut connections: Vec<_> = self
            .connections
            .drain()
            .map(|(_, connection)| connection)
            .collect();
        connections.sort_unstable_by_key(TcpConnection::id);
        for connection in &mut connections {
            connection.close(&mut self.losses);
        }
        self.waiting.clear();
    }

    /// Notes that a packet has no time. Other packets without one may belong to any connection, so no latency
    /// is reported from then on.
    pub fn lack_times(&mut self) {
        if !std::mem::replace(&mut self.lacks_times, true) {
            self.connections.values().for_each(TcpConnection::lack_times);
        }
    }

    /// The time of the latest segment.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Segments of followed connections so far.
    pub fn segments(&self) -> u64 {
        self.segments
    }

    /// Whether any of them had a payload.
    pub fn has_carried(&self) -> bool {
        self.has_carried
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.next
    }

    /// What was missing or could not be parsed, since the last call.
    pub fn take_losses(&mut self) -> Losses {
        std::mem::take(&mut self.losses)
    }

    /// Other ports whose traffic looks like CQL, with the number of such packets.
    pub fn ports_like_cql(&self) -> BTreeMap<u16, u64> {
        self.probe.ports()
    }
}

#[cfg(test)]
mod tests;
