//! All connections of a capture, as many as there is room for.

use std::{collections::BTreeMap, sync::Arc};

use cqlens_proto::envelope::Direction;

use super::{
    ends::Ends,
    file::Packet,
    flow::Flow,
    link::{Packets, Segment},
    losses::Losses,
    plain::Headers,
    probe::Probe,
    table::Table,
};
use cqlens_audit::{
    capture::{Connection, ConnectionId, Moment, Queue},
    memory::{Memory, Part, Use},
};

/// How many connections are followed at once; beyond, the one that was silent for longest is given up.
pub const MAX_CONNECTIONS: usize = 65_536;

/// How long a connection that has ended is remembered, for segments that come late.
const REMEMBERED: std::time::Duration = std::time::Duration::from_secs(60);

/// How often connections are looked at in which something waits, or that have ended.
const LOOK: std::time::Duration = std::time::Duration::from_millis(10);

/// Takes segments and hands what they carry to the audit.
#[derive(Debug)]
pub struct Flows {
    queue: Arc<Queue>,
    ports: Vec<u16>,
    flows: Table,
    next: u64,
    /// Connections in which something waits, perhaps.
    waiting: Vec<Ends>,
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
            flows: Table::new(),
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

    /// Takes the next packet of the capture, with `packets` to read it where its connection does not just go on with it.
    #[inline]
    pub fn take_packet(&mut self, packet: &Packet<'_>, packets: &mut Packets) {
        let goes_on = Headers::read(packet).is_some_and(|headers| self.go_on(&headers, packet));
        if !goes_on {
            // A copy: the packet itself need not be in memory.
            self.take_any(*packet, packets);
        }
    }

    /// The same, whatever its packet is.
    pub fn take_any(&mut self, packet: Packet<'_>, packets: &mut Packets) {
        if let Some(segment) = packets.read(&packet) {
            self.take(segment);
        }
    }

    /// Takes a segment with which its connection just goes on: the same as [`Flows::take`], in fewer steps. False, and nothing has changed, where
    /// it is any other.
    #[inline]
    fn go_on(&mut self, headers: &Headers, packet: &Packet<'_>) -> bool {
        let (from, to) = headers.ends.ports();
        let (ends, direction) = match (self.is_server(to), self.is_server(from)) {
            (true, false) => (headers.ends, Direction::Request),
            (false, true) => (headers.ends.swapped(), Direction::Response),
            _ => return false,
        };
        let Some(flow) = self.flows.get_mut(&ends) else {
            return false;
        };
        if !flow.goes_on_with(headers.step, direction) {
            return false;
        }
        self.now = self.now.max(packet.at);
        self.segments += 1;
        flow.last = flow.last.max(packet.at);
        let payload = packet.bytes.get(headers.payload.clone()).unwrap_or_default();
        if payload.len() + headers.cut > 0 {
            self.has_carried |= !payload.is_empty();
            let carried = (payload, headers.cut);
            let share = || packet.share(headers.payload.clone());
            flow.go_on(direction, carried, share, packet.at, &mut self.losses);
        }
        self.look();
        true
    }

    /// Takes the next segment of the capture.
    pub fn take(&mut self, segment: Segment) {
        self.now = self.now.max(segment.at);
        let Some((ends, direction)) = self.ends(&segment) else {
            self.probe.look(&segment);
            return;
        };
        self.segments += 1;
        self.has_carried |= !segment.payload.is_empty();
        match self.flows.get_mut(&ends) {
            Some(flow)
                if flow.is_followed_by(&segment, direction)
                    || (flow.is_closed() && segment.at.since(flow.last) >= REMEMBERED) =>
            {
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
        self.look();
    }

    fn open(&mut self, ends: Ends, segment: Segment, direction: Direction) {
        // Nothing of a connection that ends is of use.
        if segment.rst {
            return;
        }
        if self.flows.len() >= MAX_CONNECTIONS {
            self.evict();
        }
        let (client, server) = match direction {
            Direction::Request => (segment.from, segment.to),
            Direction::Response => (segment.to, segment.from),
        };
        let connection = Arc::new(Connection::recorded(ConnectionId(self.next), client));
        connection.reaches(server);
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
        // Nearly always there is one.
        match &self.ports[..] {
            [only] => *only == port,
            all => all.contains(&port),
        }
    }

    /// Client and server, and which of them has sent the segment; none where neither is at one of the ports.
    fn ends(&self, segment: &Segment) -> Option<(Ends, Direction)> {
        let to_server = Ends::new(segment.from, segment.to);
        let to_client = to_server.swapped();
        let direction = match (
            self.is_server(segment.to.port()),
            self.is_server(segment.from.port()),
        ) {
            (true, false) => Direction::Request,
            (false, true) => Direction::Response,
            (false, false) => return None,
            // Both: whoever was called first, else whoever is not known as a client.
            (true, true) => match (segment.syn, segment.acknowledgment) {
                (true, None) => Direction::Request,
                (true, Some(_)) => Direction::Response,
                _ if self.flows.contains(&to_client) => Direction::Response,
                _ => Direction::Request,
            },
        };
        match direction {
            Direction::Request => Some((to_server, direction)),
            Direction::Response => Some((to_client, direction)),
        }
    }

    /// Gives up what has been waited for long enough, and forgets what has ended long ago.
    #[inline]
    fn look(&mut self) {
        if self.now >= self.next_look {
            self.look_at_all();
        }
    }

    fn look_at_all(&mut self) {
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
                .retain(|flow| !(flow.is_closed() && now.since(flow.last) >= REMEMBERED));
        }
    }

    /// Makes room: those that have ended, then those that were silent for longest.
    fn evict(&mut self) {
        self.flows.retain(|flow| !flow.is_closed());
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
        for flow in self.flows.iter_mut() {
            flow.close(&mut self.losses);
        }
        self.flows.clear();
        self.waiting.clear();
    }

    /// Says that a packet has no time: which connections others belong to that have none is not known before they are read, so from then on
    /// no latency is told of any.
    pub fn lack_times(&mut self) {
        if !std::mem::replace(&mut self.lacks_times, true) {
            self.flows.iter().for_each(|(_, flow)| flow.lack_times());
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
mod tests {
    #![allow(clippy::unwrap_used, clippy::cast_possible_truncation)]
    use std::net::SocketAddr;

    use super::*;
    use crate::sniff::testing::{Talk, follow, query, void};
    use cqlens_proto::envelope::Version;
    use proptest::{collection::vec, prelude::*};

    const CQL: &str = "SELECT name, email FROM users WHERE id = 4711 AND day = '2026-11-22'";

    /// Requests and their answers, one after the other.
    fn session(talk: &mut Talk, count: i16, size: usize) -> Vec<Segment> {
        (0..count)
            .flat_map(|stream| {
                let mut segments = talk.say(Direction::Request, &query(Version::V4, stream, CQL), size);
                segments.extend(talk.say(Direction::Response, &void(Version::V4, stream), size));
                segments
            })
            .collect()
    }

    fn whole(talk: &mut Talk, count: i16, size: usize) -> Vec<Segment> {
        [talk.open(), session(talk, count, size), talk.close()].concat()
    }

    #[test]
    fn a_whole_session_is_told_whole() {
        for size in [1, 7, 50, 1_448] {
            let told = follow(whole(&mut Talk::new((u32::MAX - 100, 77)), 20, size));
            assert_eq!((told.requests.len(), told.responses.len()), (20, 20), "{size}");
            assert_eq!(of_missing(told.losses), Losses::default());
        }
    }

    /// Without what is there.
    fn of_missing(losses: Losses) -> Losses {
        Losses {
            seen_bytes: 0,
            understood: 0,
            ..losses
        }
    }

    #[test]
    fn an_answer_that_was_captured_before_its_request_comes_after_it() {
        let mut talk = Talk::new((5, 6));
        let mut segments = talk.open();
        let mut exchange = session(&mut talk, 2, 1_448);
        exchange.swap(0, 1);
        segments.extend(exchange);
        let told = follow(segments);
        let directions: Vec<_> = told.captures.iter().map(|capture| capture.direction).collect();
        let (request, response) = (Direction::Request, Direction::Response);
        assert_eq!(directions, [request, response, request, response]);
        assert_eq!(of_missing(told.losses), Losses::default());
    }

    #[test]
    fn a_request_that_the_capture_lacks_is_missed_by_its_answer() {
        let mut talk = Talk::new((5, 6));
        let mut segments = whole(&mut talk, 3, 1_448);
        let lost = segments.remove(5);
        let told = follow(segments);
        assert_eq!(told.losses.lost_bytes, lost.payload.len() as u64);
        assert_eq!((told.requests.len(), told.responses.len()), (2, 3));
        assert_eq!(told.losses.unplaced_bytes, 0);
    }

    #[test]
    fn a_snap_length_costs_the_envelopes_that_it_cuts_and_no_others() {
        let mut segments = whole(&mut Talk::new((5, 6)), 10, 1_448);
        let mut cut = 0;
        for segment in segments.iter_mut().skip(3).step_by(4) {
            let keep = segment.payload.len().min(20);
            segment.cut = segment.payload.len() - keep;
            segment.payload.truncate(keep);
            cut += segment.cut;
        }
        let told = follow(segments);
        assert_eq!(told.losses.cut_bytes, cut as u64);
        assert_eq!((told.requests.len(), told.skipped), (5, 5));
        assert_eq!(told.responses.len(), 10);
        assert_eq!(told.losses.unplaced_bytes, 0);
    }

    #[test]
    fn a_capture_that_begins_in_mid_connection_finds_its_place() {
        let segments = whole(&mut Talk::new((5, 6)), 10, 30);
        for from in 1..segments.len() - 12 {
            let told = follow(segments[from..].to_vec());
            assert_eq!(told.losses.begun_before, u64::from(from > 1), "{from}");
            assert!(
                told.requests.len() <= 10 && told.requests.len() + from / 4 + 2 >= 10,
                "{from}"
            );
            assert!(told.losses.unplaced_bytes < 200, "{from}");
        }
    }

    #[test]
    fn one_direction_alone_is_told() {
        for direction in [Direction::Request, Direction::Response] {
            let mut segments = whole(&mut Talk::new((5, 6)), 10, 1_448);
            segments.retain(|segment| (segment.to.port() == 9042) == (direction == Direction::Request));
            let told = follow(segments);
            assert_eq!(told.losses.one_way, 1);
            // What the others' acknowledgments tell of.
            let request = query(Version::V4, 0, CQL).len();
            let one = match direction {
                Direction::Request => void(Version::V4, 0).len(),
                Direction::Response => request,
            };
            assert_eq!(told.losses.missing_bytes(), 10 * one as u64);
            assert_eq!(told.requests.len() + told.responses.len(), 10);
        }
    }

    #[test]
    fn a_damaged_acknowledgment_of_a_direction_that_is_not_there_counts_nothing_as_lost() {
        let mut talk = Talk::new((5, 6));
        let mut segments = whole(&mut talk, 10, 1_448);
        segments.retain(|segment| segment.to.port() == 9042);
        let lost = follow(segments.clone()).losses.lost_bytes;
        for damaged in 2..segments.len() - 1 {
            for by in [1 << 26, 1 << 29, (1 << 30) + 7, 1 << 31, 3 << 30] {
                let mut segments = segments.clone();
                let number = &mut segments[damaged].acknowledgment;
                *number = number.map(|number| number.wrapping_add(by));
                let told = follow(segments);
                assert_eq!(told.losses.lost_bytes, lost, "{damaged}, {by}");
                assert_eq!(told.requests.len(), 10);
            }
        }
    }

    #[test]
    fn a_direction_that_is_not_there_may_move_on_by_more_than_anybody_can_count() {
        let mut talk = Talk::new((5, 6));
        let mut segments = [talk.open(), session(&mut talk, 5, 1_448)].concat();
        for jump in [1 << 27, 1 << 31] {
            talk.next.1 = talk.next.1.wrapping_add(jump);
            segments.extend(session(&mut talk, 5, 1_448));
        }
        segments.extend(talk.close());
        segments.retain(|segment| segment.to.port() == 9042);
        let told = follow(segments);
        let one = void(Version::V4, 0).len() as u64;
        // The answer before each jump is acknowledged together with it, and the one after it is what the next number is believed by.
        assert_eq!(
            (told.requests.len(), told.losses.lost_bytes),
            (15, (4 + 3 + 4) * one)
        );
    }

    #[test]
    fn what_is_missing_at_the_end_shows_by_what_comes_after_it() {
        // The last answer, whose end the client acknowledges; the last request, which is answered; both, where both close.
        for (lost, of_all) in [(vec![1], 0), (vec![0], 1), (vec![0, 1], 1)] {
            let mut talk = Talk::new((5, 6));
            let mut segments = whole(&mut talk, 3, 1_448);
            let last = segments.len() - 4;
            let mut bytes = 0;
            for index in lost.iter().rev() {
                bytes += segments.remove(last + index).payload.len() as u64;
            }
            let told = follow(segments);
            assert_eq!(told.losses.lost_bytes, bytes, "{lost:?}");
            assert_eq!(told.requests.len(), 3 - of_all, "{lost:?}");
            assert_eq!(told.losses.unplaced_bytes, 0);
        }
    }

    #[test]
    fn the_end_of_a_request_that_is_missing_costs_that_request() {
        let mut talk = Talk::new((5, 6));
        let mut segments = talk.open();
        segments.extend(talk.say(Direction::Request, &query(Version::V4, 1, CQL), 50));
        segments.pop();
        segments.extend(talk.close());
        let told = follow(segments);
        let length = query(Version::V4, 1, CQL).len() as u64;
        assert_eq!(told.losses.lost_bytes, length - 50);
        assert_eq!((told.requests.len(), told.skipped), (0, 1));
    }

    #[test]
    fn the_number_of_an_end_that_was_not_captured_is_no_byte() {
        let mut segments = whole(&mut Talk::new((5, 6)), 3, 1_448);
        let fin = segments.len() - 2;
        // The server's own end acknowledges the client's.
        let last = segments.last_mut().unwrap();
        last.acknowledgment = last.acknowledgment.map(|number| number.wrapping_add(1));
        segments.remove(fin);
        assert_eq!(of_missing(follow(segments).losses), Losses::default());
    }

    #[test]
    fn after_a_long_silence_the_same_ports_go_on_as_another_connection() {
        let mut talk = Talk::new((5, 6));
        let mut segments = talk.open();
        segments.extend(session(&mut talk, 3, 1_448));
        // Ahead, and so far ahead that it looks like what was before.
        for jump in [1 << 30, 3 << 30] {
            talk.next.0 = talk.next.0.wrapping_add(jump);
            talk.next.1 = talk.next.1.wrapping_add(jump);
            talk.at += 3_600_000_000_000;
            segments.extend(session(&mut talk, 3, 1_448));
        }
        let told = follow(segments);
        assert_eq!((told.requests.len(), told.responses.len()), (9, 9));
        assert_eq!((told.losses.lost_bytes, told.losses.begun_before), (0, 2));
    }

    #[test]
    fn a_port_that_is_used_again_is_another_connection() {
        let mut first = whole(&mut Talk::new((5, 6)), 2, 1_448);
        first.truncate(first.len() - 2);
        let mut next = Talk::new((90_000, 1_000_000));
        next.at += 1_000_000_000;
        let told = follow([first, whole(&mut next, 3, 1_448)].concat());
        assert_eq!(
            (told.requests.len(), of_missing(told.losses)),
            (5, Losses::default())
        );
    }

    #[test]
    fn tls_is_said_once_with_its_server() {
        let mut talk = Talk::new((5, 6));
        let mut segments = talk.open();
        segments.extend(talk.say(Direction::Request, &[0x16, 3, 1, 0, 5, 1, 2, 3, 4, 5], 1_448));
        segments.extend(talk.say(Direction::Response, &[0x16, 3, 3, 0, 1, 9], 1_448));
        let losses = follow(segments).losses;
        assert_eq!(losses.opaque, BTreeMap::from([("tls", 1)]));
        assert_eq!(losses.tls_servers, [talk.server].into());
    }

    #[test]
    fn other_ports_that_speak_cql_are_found() {
        let mut talk = Talk::new((5, 6));
        talk.server.set_port(9043);
        let queue = Arc::new(Queue::new(1, cqlens_audit::capture::Limits::default()));
        let mut flows = Flows::new(queue, vec![9042]);
        for segment in whole(&mut talk, 4, 1_448) {
            flows.take(segment);
        }
        assert_eq!(flows.ports_like_cql(), BTreeMap::from([(9043, 8)]));
        assert_eq!(flows.segments(), 0);
    }

    #[test]
    fn no_more_connections_are_kept_than_there_is_room_for() {
        let queue = Arc::new(Queue::new(1, cqlens_audit::capture::Limits::default()));
        let mut flows = Flows::new(queue, vec![9042]);
        for number in 0..MAX_CONNECTIONS + 100 {
            let mut talk = Talk::new((5, 6));
            talk.client = SocketAddr::new(std::net::Ipv4Addr::from(number as u32).into(), 1_024);
            talk.at += number as i64;
            flows.take(talk.open().remove(0));
        }
        assert!(flows.flows.len() <= MAX_CONNECTIONS);
        assert_eq!(
            flows.take_losses().evicted_connections,
            MAX_CONNECTIONS as u64 / 16
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_order_and_no_loss_invents_a_request_and_every_lost_byte_is_counted(
            size in 5_usize..200,
            lost in vec(any::<prop::sample::Index>(), 0..6),
            moved in vec((any::<prop::sample::Index>(), 1_usize..4), 0..6),
            again in vec(any::<prop::sample::Index>(), 0..6),
            first in any::<(u32, u32)>(),
        ) {
            let mut talk = Talk::new(first);
            let opening = talk.open();
            let mut data = session(&mut talk, 14, size);
            // What ends the connection shows what was lost before it.
            let end = talk.close();
            let mut expected = 0;
            for index in &lost {
                let segment = data.remove(index.index(data.len()));
                expected += segment.payload.len() as u64;
            }
            for index in &again {
                let segment = data[index.index(data.len())].clone();
                data.push(segment);
            }
            for (index, by) in &moved {
                let from = index.index(data.len());
                let to = (from + by).min(data.len() - 1);
                let segment = data.remove(from);
                data.insert(to, segment);
            }
            let told = follow([opening, data, end].concat());
            let known = query(Version::V4, 0, CQL);
            prop_assert!(told.requests.len() <= 14);
            for request in &told.requests {
                prop_assert_eq!(&request.body[..], &known[9..]);
            }
            let mut streams: Vec<_> = told.requests.iter().map(|request| request.header.stream_id.0).collect();
            streams.sort_unstable();
            prop_assert!(streams.windows(2).all(|two| two[0] != two[1]));
            let whole: usize = (0..14).map(|_| query(Version::V4, 0, CQL).len() + void(Version::V4, 0).len()).sum();
            prop_assert_eq!(told.losses.seen_bytes + told.losses.lost_bytes, whole as u64);
            prop_assert_eq!(told.losses.lost_bytes, expected);
            if expected == 0 {
                prop_assert_eq!(told.requests.len(), 14);
                prop_assert_eq!(told.losses.missing_bytes(), 0);
            }
        }
    }
}
