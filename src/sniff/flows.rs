//! All connections of a capture, as many as there is room for.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::Arc,
};

use cqlens_proto::envelope::Direction;

use super::{
    flow::Flow,
    link::Segment,
    losses::Losses,
    probe::Probe,
};
use crate::capture::{Connection, ConnectionId, Moment, Queue};

/// How many connections are followed at once; beyond, the one that was silent for longest is given up.
pub const MAX_CONNECTIONS: usize = 65_536;

/// Bytes that may wait for others, in all connections together.
const MAX_WAITING_BYTES: usize = 256 << 20;

/// How long a connection that has ended is remembered, for segments that come late.
const REMEMBERED: std::time::Duration = std::time::Duration::from_secs(60);

/// How often connections are looked at in which something waits, or that have ended.
const LOOK: std::time::Duration = std::time::Duration::from_millis(10);

/// Takes segments and hands what they carry to the audit.
#[derive(Debug)]
pub struct Flows {
    queue: Arc<Queue>,
    ports: Vec<u16>,
    flows: HashMap<Ends, Flow>,
    next: u64,
    /// Connections in which something waits, perhaps.
    waiting: Vec<Ends>,
    now: Moment,
    looked: Moment,
    swept: Moment,
    losses: Losses,
    probe: Probe,
    segments: u64,
}

/// The client and the server of a connection.
type Ends = (SocketAddr, SocketAddr);

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
            looked: beginning,
            swept: beginning,
            losses: Losses::default(),
            probe: Probe::default(),
            segments: 0,
        }
    }

    /// Takes the next segment of the capture.
    pub fn take(&mut self, segment: Segment) {
        self.now = self.now.max(segment.at);
        let Some((ends, direction)) = self.ends(&segment) else {
            self.probe.look(&segment);
            return;
        };
        self.segments += 1;
        let is_new = match self.flows.get_mut(&ends) {
            Some(flow) if direction == Direction::Request && flow.is_followed_by(&segment) => {
                flow.close(&mut self.losses);
                true
            }
            Some(flow) => {
                let waited = flow.is_waiting();
                flow.take(segment, direction, &mut self.losses);
                if !waited && flow.is_waiting() {
                    self.waiting.push(ends);
                }
                self.look();
                return;
            }
            None => true,
        };
        // Nothing of a connection that ends is of use.
        if is_new && !segment.rst {
            self.open(ends, segment, direction);
        }
        self.look();
    }

    fn open(&mut self, ends: Ends, segment: Segment, direction: Direction) {
        if self.flows.len() >= MAX_CONNECTIONS {
            self.evict();
        }
        let (client, server) = ends;
        let connection = Arc::new(Connection::new(ConnectionId(self.next), client));
        connection.reaches(server);
        self.next += 1;
        let mut flow = Flow::new(connection, &segment, &self.queue, &mut self.losses);
        flow.take(segment, direction, &mut self.losses);
        if flow.is_waiting() {
            self.waiting.push(ends);
        }
        self.flows.insert(ends, flow);
    }

    /// Client and server, and which of them has sent the segment; none where neither is at one of the ports.
    fn ends(&self, segment: &Segment) -> Option<(Ends, Direction)> {
        let of_client = ((segment.from, segment.to), Direction::Request);
        let of_server = ((segment.to, segment.from), Direction::Response);
        let is_server = |address: SocketAddr| self.ports.contains(&address.port());
        match (is_server(segment.to), is_server(segment.from)) {
            (true, false) => Some(of_client),
            (false, true) => Some(of_server),
            (false, false) => None,
            // Both: whoever was called first, else whoever is not known as a client.
            (true, true) => Some(match (segment.syn, segment.acknowledgment) {
                (true, None) => of_client,
                (true, Some(_)) => of_server,
                _ if self.flows.contains_key(&of_server.0) => of_server,
                _ => of_client,
            }),
        }
    }

    /// Gives up what has been waited for long enough, and forgets what has ended long ago.
    fn look(&mut self) {
        if self.now.since(self.looked) < LOOK {
            return;
        }
        self.looked = self.now;
        let mut waiting = std::mem::take(&mut self.waiting);
        let mut bytes = 0;
        waiting.retain(|ends| {
            let Some(flow) = self.flows.get_mut(ends) else { return false };
            flow.give_up(self.now, &mut self.losses);
            bytes += flow.waiting_bytes();
            flow.is_waiting()
        });
        if bytes > MAX_WAITING_BYTES {
            // Those that have waited for longest are given up until there is room for half as much again.
            let mut left = bytes;
            waiting.retain(|ends| {
                let Some(flow) = self.flows.get_mut(ends).filter(|_| left > MAX_WAITING_BYTES / 2) else {
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
        for flow in self.flows.values_mut() {
            flow.close(&mut self.losses);
        }
        self.flows.clear();
        self.waiting.clear();
    }

    /// The time of the latest segment.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Segments of connections to the ports so far.
    pub fn segments(&self) -> u64 {
        self.segments
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
