//! All connections of a capture, as many as there is room for.

mod connection;
mod four_tuple;
mod half;
mod reassembler;

use std::{collections::BTreeMap, sync::Arc};

use cqlens_proto::envelope::Direction;
use foldhash::{HashMap, HashMapExt};

use connection::{Flow, REMEMBERED};
use four_tuple::FourTuple;

use super::{
    files::Packet,
    losses::Losses,
    packets::{Headers, Packets, Segment},
    probe::Probe,
};
use crate::{
    capture::{Connection, ConnectionId, Moment, Queue},
    memory::{Memory, Part, Use},
};

/// How many connections are followed at once; beyond, the one that was silent for longest is given up.
pub const MAX_CONNECTIONS: usize = 65_536;

/// How often connections are looked at in which something waits, or that have ended.
const LOOK: std::time::Duration = std::time::Duration::from_millis(10);

/// Takes segments and hands what they carry to the audit.
#[derive(Debug)]
pub struct Flows {
    queue: Arc<Queue>,
    ports: Vec<u16>,
    flows: HashMap<FourTuple, Flow>,
    next: u64,
    /// Connections in which something waits, perhaps.
    waiting: Vec<FourTuple>,
    now: Moment,
    /// When connections are looked at next: told as a time, since every packet asks.
    next_look: Moment,
    swept: Moment,
    losses: Losses,
    probe: Probe,
    segments: u64,
    /// Whether any segment had bytes.
    has_carried: bool,
    /// Whether any packet had no time.
    lacks_times: bool,
    /// Bytes that may wait for others, in all connections together.
    most_waiting: usize,
    /// What is kept where the place is looked for, in all connections together.
    searching: Part,
}

impl Flows {
    /// Follows the connections to servers at any of `ports`.
    pub fn new(queue: Arc<Queue>, ports: Vec<u16>) -> Self {
        let beginning = Moment::from_unix_nanoseconds(0);
        Self {
            queue,
            ports,
            flows: HashMap::new(),
            next: 0,
            waiting: Vec::new(),
            now: beginning,
            next_look: beginning,
            swept: beginning,
            losses: Losses::default(),
            probe: Probe::default(),
            segments: 0,
            has_carried: false,
            lacks_times: false,
            most_waiting: 0,
            searching: Part::new("searching", 0),
        }
        .within(&Memory::default())
    }

    /// Keeps to the part of `memory` that captures have: three quarters for bytes that wait for others, one where the place is looked for.
    #[must_use]
    pub fn within(self, memory: &Memory) -> Self {
        let room = memory.part(Use::Queue).limit();
        Self {
            most_waiting: room / 4 * 3,
            searching: Part::new("searching", room / 4),
            ..self
        }
    }

    /// Takes the next packet of the capture, which `packets` reads.
    #[inline]
    pub fn take_packet(&mut self, packet: &Packet<'_>, packets: &mut Packets) {
        let goes_on = Headers::read(packet).is_some_and(|headers| self.go_on(&headers, packet));
        if !goes_on && let Some(segment) = packets.read(packet) {
            self.take(segment);
        }
    }

    /// The short cut for a plain packet with which its connection goes on: what it carries goes straight to the audit, and nothing is copied
    /// or counted that only other segments need. Without it a request costs half as much again. False, and nothing has changed, where the
    /// segment is any other.
    #[inline]
    fn go_on(&mut self, headers: &Headers, packet: &Packet<'_>) -> bool {
        let (from, to) = (headers.from, headers.to);
        let direction = match (self.is_server(to.port()), self.is_server(from.port())) {
            (true, false) => Direction::Request,
            (false, true) => Direction::Response,
            _ => return false,
        };
        let Some(flow) = self.flows.get_mut(&FourTuple::new(from, to, direction)) else {
            return false;
        };
        if !flow.goes_on_with(headers, direction) {
            return false;
        }
        flow.go_on(headers, packet, direction, &mut self.losses);
        self.has_carried |= !headers.payload.is_empty();
        self.passed(packet.at);
        true
    }

    /// Counts a segment that has been taken.
    #[inline]
    fn passed(&mut self, at: Moment) {
        self.segments += 1;
        self.now = self.now.max(at);
        if self.now >= self.next_look {
            self.look();
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
        let ends = FourTuple::new(segment.from, segment.to, direction);
        match self.flows.get_mut(&ends) {
            Some(flow) if flow.is_followed_by(&segment, direction) => {
                flow.close(&mut self.losses);
                self.open(ends, segment, direction);
            }
            Some(flow) => {
                let waited = flow.is_waiting();
                flow.take(segment, direction, &mut self.losses);
                if !waited && flow.is_waiting() {
                    self.waiting.push(ends);
                }
            }
            None => self.open(ends, segment, direction),
        }
        self.passed(at);
    }

    fn open(&mut self, ends: FourTuple, segment: Segment, direction: Direction) {
        // Nothing of a connection that ends is of use.
        if segment.rst {
            return;
        }
        if self.flows.len() >= MAX_CONNECTIONS {
            self.evict();
        }
        let connection = Arc::new(Connection::recorded(ConnectionId(self.next), ends.client));
        connection.reaches(ends.server);
        if self.lacks_times {
            connection.lack_times();
        }
        self.next += 1;
        let mut flow = Flow::new(
            connection,
            &segment,
            &self.queue,
            &self.searching,
            &mut self.losses,
        );
        flow.take(segment, direction, &mut self.losses);
        if flow.is_waiting() {
            self.waiting.push(ends);
        }
        self.flows.insert(ends, flow);
    }

    #[inline]
    fn is_server(&self, port: u16) -> bool {
        self.ports.iter().any(|server| *server == port)
    }

    /// Which side has sent the segment; none where neither is at one of the ports.
    fn direction(&self, segment: &Segment) -> Option<Direction> {
        let (from, to) = (segment.from, segment.to);
        match (self.is_server(to.port()), self.is_server(from.port())) {
            (true, false) => Some(Direction::Request),
            (false, true) => Some(Direction::Response),
            (false, false) => None,
            // Both ports are server ports: the receiver of the SYN is the server, otherwise the side that is not yet known as a client.
            (true, true) => Some(match (segment.syn, segment.acknowledgment) {
                (true, None) => Direction::Request,
                (true, Some(_)) => Direction::Response,
                _ => {
                    let ends = FourTuple::new(from, to, Direction::Response);
                    match self.flows.contains_key(&ends) {
                        true => Direction::Response,
                        false => Direction::Request,
                    }
                }
            }),
        }
    }

    /// Gives up what has been waited for long enough, and forgets what has ended long ago.
    #[cold]
    fn look(&mut self) {
        self.next_look = self.now.after(LOOK);
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut bytes = 0;
        waiting.retain(|ends| {
            let Some(flow) = self.flows.get_mut(ends) else {
                return false;
            };
            flow.give_up(self.now, &mut self.losses);
            bytes += flow.waiting_bytes();
            flow.is_waiting()
        });
        if bytes > self.most_waiting {
            // Those that have waited for longest are given up until there is room for half as much again.
            let mut left = bytes;
            waiting.retain(|ends| {
                let Some(flow) = self.flows.get_mut(ends).filter(|_| left > self.most_waiting / 2) else {
                    return true;
                };
                left = left.saturating_sub(flow.waiting_bytes());
                flow.close(&mut self.losses);
                self.losses.evicted_connections += 1;
                false
            });
        }
        self.waiting = waiting;
        if self.now.since(self.swept) >= REMEMBERED {
            self.swept = self.now;
            let now = self.now;
            self.flows
                .retain(|_, flow| !(flow.is_closed() && now.since(flow.last) >= REMEMBERED));
        }
    }

    /// Makes room: those that have ended, then those that were silent for longest.
    fn evict(&mut self) {
        self.flows.retain(|_, flow| !flow.is_closed());
        if self.flows.len() < MAX_CONNECTIONS {
            return;
        }
        let mut by_time: Vec<_> = self.flows.iter().map(|(ends, flow)| (flow.last, *ends)).collect();
        let part = (by_time.len() / 16).max(1);
        let last = by_time.len().saturating_sub(1);
        by_time.select_nth_unstable(part.min(last));
        for (_, ends) in by_time.into_iter().take(part) {
            if let Some(mut flow) = self.flows.remove(&ends) {
                flow.close(&mut self.losses);
                self.losses.evicted_connections += 1;
            }
        }
    }

    /// Ends all connections, as the capture does.
    pub fn end(&mut self) {
        // In the order in which they were opened, so that the same captures make the same report.
        let mut flows: Vec<_> = self.flows.drain().map(|(_, flow)| flow).collect();
        flows.sort_unstable_by_key(Flow::id);
        for flow in &mut flows {
            flow.close(&mut self.losses);
        }
        self.waiting.clear();
    }

    /// Says that a packet has no time: which connections others belong to that have none is not known before they are read, so from then on
    /// no latency is told of any.
    pub fn lack_times(&mut self) {
        if !std::mem::replace(&mut self.lacks_times, true) {
            self.flows.values().for_each(Flow::lack_times);
        }
    }

    /// The time of the latest segment.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Segments of connections to the ports so far.
    pub fn segments(&self) -> u64 {
        self.segments
    }

    /// Whether any of them had bytes.
    pub fn has_carried(&self) -> bool {
        self.has_carried
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.next
    }

    /// What is missing or could not be read, since the last call.
    pub fn take_losses(&mut self) -> Losses {
        std::mem::take(&mut self.losses)
    }

    /// Other ports whose traffic looks like CQL, with how many packets do.
    pub fn ports_like_cql(&self) -> BTreeMap<u16, u64> {
        self.probe.ports()
    }
}

#[cfg(test)]
mod tests;
