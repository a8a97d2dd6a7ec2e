//! When which exchange is sent: a pure function of what was recorded, of what was answered, and of the time.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use crate::exchange::RecordedExchange;

/// How fast a recording is replayed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// So many times as fast as it was recorded.
    Times(f64),
    /// As fast as responses come.
    Max,
}

/// Exchanges that are not sent yet.
///
/// A recording has exchanges in the order of their responses; they are sent in the order of their requests. What
/// its client has sent after a response came is sent after it comes, and after as long a pause.
#[derive(Debug)]
pub struct Schedule {
    speed: Speed,
    /// When the first request came, in microseconds since 1970.
    first_us: Option<i64>,
    /// By the time of their requests.
    ahead: BinaryHeap<Reverse<Ahead>>,
    /// Those whose turn it is by their connection, and when.
    ready: BinaryHeap<Reverse<Due>>,
    connections: HashMap<u64, Connection>,
    waiting: usize,
    /// Of all that were not taken yet.
    bytes: usize,
    /// When the response of the last exchange that was added came.
    read_up_to_us: i64,
    is_complete: bool,
}

/// What a connection has in flight.
#[derive(Debug, Default)]
struct Connection {
    /// Numbers, and when their responses came.
    in_flight: Vec<(u64, i64)>,
    /// In order.
    waiting: VecDeque<Arc<RecordedExchange>>,
    /// Those that are ready and not taken yet.
    ready: usize,
}

/// An exchange to send.
#[derive(Debug, Clone, PartialEq)]
pub struct Due {
    /// When, since the beginning.
    pub at: Duration,
    /// Whether it had to wait for a response before.
    pub has_waited: bool,
    /// The exchange.
    pub exchange: Arc<RecordedExchange>,
}

impl Eq for Due {}

impl Ord for Due {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.exchange.number).cmp(&(other.at, other.exchange.number))
    }
}

impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Debug)]
struct Ahead(Arc<RecordedExchange>);

impl Ahead {
    fn key(&self) -> (i64, u64) {
        (self.0.at_us, self.0.number)
    }
}

impl PartialEq for Ahead {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Ahead {}

impl Ord for Ahead {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Ahead {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Responses that take longer than clients wait may put a request behind one that came after it.
const HORIZON_US: i64 = 12_000_000;
/// No more exchanges are read ahead.
const MOST_AHEAD: usize = 50_000;
/// With as many the next one is taken for known, so that each that is sent need not be replaced first.
const MANY_AHEAD: usize = 45_000;
/// The same in bytes.
const MOST_BYTES_AHEAD: usize = 128 << 20;
const MANY_BYTES_AHEAD: usize = 112 << 20;

impl Schedule {
    /// Nothing to send yet.
    pub fn new(speed: Speed) -> Self {
        Self {
            speed,
            first_us: None,
            ahead: BinaryHeap::new(),
            ready: BinaryHeap::new(),
            connections: HashMap::new(),
            waiting: 0,
            bytes: 0,
            read_up_to_us: i64::MIN,
            is_complete: false,
        }
    }

    /// Whether more of the recording is needed before the next exchange is known.
    pub fn wants_more(&self) -> bool {
        let is_full = self.ahead.len() + self.waiting >= MOST_AHEAD || self.bytes >= MOST_BYTES_AHEAD;
        if self.is_complete || is_full {
            return false;
        }
        match self.ahead.peek() {
            None => true,
            Some(Reverse(next)) => self.read_up_to_us.saturating_sub(next.0.at_us) < 2 * HORIZON_US,
        }
    }

    /// Whether no earlier exchange than the next one can come.
    fn is_next_known(&self) -> bool {
        let is_far =
            |Reverse(next): &Reverse<Ahead>| self.read_up_to_us.saturating_sub(next.0.at_us) >= HORIZON_US;
        let is_full = self.ahead.len() + self.waiting >= MANY_AHEAD || self.bytes >= MANY_BYTES_AHEAD;
        self.is_complete || is_full || self.ahead.peek().is_some_and(is_far)
    }

    /// Adds the next exchange of the recording.
    pub fn add(&mut self, exchange: Arc<RecordedExchange>) {
        self.read_up_to_us = self.read_up_to_us.max(responded_us(&exchange));
        self.bytes += exchange.weight();
        self.ahead.push(Reverse(Ahead(exchange)));
    }

    /// There are no more.
    pub fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Whether all were taken.
    pub fn is_over(&self) -> bool {
        self.is_complete && self.ahead.is_empty() && self.ready.is_empty() && self.waiting == 0
    }

    /// When the next exchange is due; none if there is none, or if a response has to come first.
    pub fn next_due(&self) -> Option<Duration> {
        let ready = self.ready.peek().map(|Reverse(due)| due.at);
        let ahead = self.ahead.peek().filter(|_| self.is_next_known());
        let ahead = ahead.map(|Reverse(next)| self.at(next.0.at_us));
        match (ready, ahead) {
            (Some(ready), Some(ahead)) => Some(ready.min(ahead)),
            (one, other) => one.or(other),
        }
    }

    /// The next exchange that is due, `now` being the time since the beginning.
    pub fn take_due(&mut self, now: Duration) -> Option<Due> {
        loop {
            let next = self.next_due().filter(|due| *due <= now)?;
            if self.ready.peek().is_some_and(|Reverse(due)| due.at <= next) {
                let Reverse(due) = self.ready.pop()?;
                let connection = self.connections.entry(due.exchange.connection).or_default();
                connection.ready -= 1;
                connection.send(&due.exchange);
                self.bytes -= due.exchange.weight();
                return Some(due);
            }
            let Reverse(Ahead(exchange)) = self.ahead.pop()?;
            self.first_us.get_or_insert(exchange.at_us);
            let connection = self.connections.entry(exchange.connection).or_default();
            if connection.has_to_wait(&exchange) {
                connection.waiting.push_back(exchange);
                self.waiting += 1;
                continue;
            }
            connection.send(&exchange);
            self.bytes -= exchange.weight();
            return Some(Due {
                at: next,
                has_waited: false,
                exchange,
            });
        }
    }

    /// An exchange is done: those that waited for it are due after the pause that their client made.
    pub fn done(&mut self, connection: u64, number: u64, now: Duration) {
        let Some(lane) = self.connections.get_mut(&connection) else {
            return;
        };
        let Some(place) = lane.in_flight.iter().position(|(other, _)| *other == number) else {
            return;
        };
        let (_, responded_us) = lane.in_flight.swap_remove(place);
        let mut released = Vec::new();
        while let Some(next) = lane.waiting.pop_front_if(|next| {
            !lane
                .in_flight
                .iter()
                .any(|(_, responded_us)| *responded_us <= next.at_us)
        }) {
            lane.ready += 1;
            released.push(next);
        }
        if lane.in_flight.is_empty() && lane.waiting.is_empty() && lane.ready == 0 {
            self.connections.remove(&connection);
        }
        self.waiting -= released.len();
        for exchange in released {
            let pause = exchange.at_us.saturating_sub(responded_us).max(0);
            let at = self.at(exchange.at_us).max(now + self.stretched(pause));
            self.ready.push(Reverse(Due {
                at,
                has_waited: true,
                exchange,
            }));
        }
    }

    /// When a request is due that came at this time.
    fn at(&self, at_us: i64) -> Duration {
        let first = self.first_us.unwrap_or(at_us);
        self.stretched(at_us.saturating_sub(first).max(0))
    }

    #[allow(clippy::cast_precision_loss, reason = "microseconds of centuries")]
    fn stretched(&self, micros: i64) -> Duration {
        match self.speed {
            Speed::Max => Duration::ZERO,
            Speed::Times(times) => {
                Duration::try_from_secs_f64(micros as f64 / 1e6 / times).unwrap_or(Duration::MAX)
            }
        }
    }
}

impl Connection {
    /// Whether its client had to see a response first, or an earlier request has to.
    fn has_to_wait(&self, exchange: &RecordedExchange) -> bool {
        let comes_before = |(_, responded_us): &(u64, i64)| *responded_us <= exchange.at_us;
        !self.waiting.is_empty() || self.ready > 0 || self.in_flight.iter().any(comes_before)
    }

    fn send(&mut self, exchange: &RecordedExchange) {
        self.in_flight.push((exchange.number, responded_us(exchange)));
    }
}

/// When a response came, in microseconds since 1970; that of an unknown latency came at once.
fn responded_us(exchange: &RecordedExchange) -> i64 {
    let latency = exchange.latency.map_or(0, |latency| latency.as_micros());
    exchange
        .at_us
        .saturating_add(i64::try_from(latency).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{digest::ResponseDigest, testing};

    /// An exchange of a connection, from one millisecond to another.
    fn exchange(number: u64, connection: u64, from_ms: i64, to_ms: i64) -> Arc<RecordedExchange> {
        let plain = testing::exchange(number, "SELECT a FROM k.t", ResponseDigest::Void);
        Arc::new(RecordedExchange {
            connection,
            at_us: 1_000_000_000 + from_ms * 1_000,
            latency: Some(Duration::from_millis((to_ms - from_ms).unsigned_abs())),
            ..plain
        })
    }

    fn schedule(speed: Speed, exchanges: &[Arc<RecordedExchange>]) -> Schedule {
        let mut schedule = Schedule::new(speed);
        exchanges
            .iter()
            .for_each(|exchange| schedule.add(Arc::clone(exchange)));
        schedule.complete();
        schedule
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn due(schedule: &mut Schedule, now: Duration) -> Vec<u64> {
        std::iter::from_fn(|| schedule.take_due(now))
            .map(|due| due.exchange.number)
            .collect()
    }

    #[test]
    fn requests_are_sent_in_their_order_and_at_their_time() {
        // The slow one has come first, and was answered last.
        let all = [
            exchange(1, 1, 10, 12),
            exchange(2, 2, 20, 21),
            exchange(3, 3, 0, 30),
        ];
        let mut schedule = schedule(Speed::Times(2.0), &all);
        assert_eq!(due(&mut schedule, ms(0)), [3]);
        assert_eq!(schedule.next_due(), Some(ms(5)));
        assert_eq!(due(&mut schedule, ms(9)), [1]);
        assert_eq!(due(&mut schedule, ms(10)), [2]);
        assert!(schedule.is_over());
    }

    #[test]
    fn who_waited_for_a_response_waits_for_it_and_thinks_as_long() {
        let all = [
            exchange(1, 1, 0, 10),
            exchange(2, 1, 15, 16),
            exchange(3, 2, 15, 16),
        ];
        let mut schedule = schedule(Speed::Times(1.0), &all);
        assert_eq!(
            due(&mut schedule, ms(20)),
            [1, 3],
            "another connection does not wait"
        );
        assert_eq!(schedule.next_due(), None);
        schedule.done(1, 1, ms(40));
        assert_eq!(schedule.next_due(), Some(ms(45)));
        assert_eq!(due(&mut schedule, ms(45)), [2]);
        assert!(schedule.is_over());
    }

    #[test]
    fn who_did_not_wait_does_not() {
        let all = [exchange(1, 1, 0, 10), exchange(2, 1, 5, 8), exchange(3, 1, 9, 30)];
        let mut schedule = schedule(Speed::Max, &all);
        assert_eq!(
            due(&mut schedule, ms(0)),
            [1, 2],
            "the third has seen the response to the second"
        );
        schedule.done(1, 2, ms(1));
        assert_eq!(due(&mut schedule, ms(1)), [3]);
    }

    #[test]
    fn one_connection_keeps_its_order_through_pauses() {
        let all = [
            exchange(1, 1, 0, 10),
            exchange(2, 1, 20, 21),
            exchange(3, 1, 30, 31),
        ];
        let mut schedule = schedule(Speed::Times(1.0), &all);
        assert_eq!(due(&mut schedule, ms(100)), [1]);
        schedule.done(1, 1, ms(100));
        assert_eq!(due(&mut schedule, ms(109)), [0_u64; 0]);
        assert_eq!(due(&mut schedule, ms(110)), [2]);
        schedule.done(1, 2, ms(111));
        assert_eq!(schedule.next_due(), Some(ms(120)));
    }

    #[test]
    fn a_request_is_held_until_no_earlier_one_can_come() {
        let mut schedule = Schedule::new(Speed::Times(1.0));
        schedule.add(exchange(1, 1, 20, 21));
        assert!(schedule.wants_more() && schedule.take_due(ms(100)).is_none());
        schedule.add(exchange(2, 2, 0, 13_000));
        assert_eq!(due(&mut schedule, ms(0)), [2]);
    }

    #[test]
    fn what_is_read_ahead_is_limited_in_bytes() {
        let mut schedule = Schedule::new(Speed::Max);
        let long = "a".repeat(1 << 20);
        let mut kept = 0;
        for number in 0..500 {
            if !schedule.wants_more() {
                // Whatever comes later: there is no room to wait for it.
                let due = schedule.take_due(Duration::ZERO).unwrap();
                schedule.done(due.exchange.connection, due.exchange.number, Duration::ZERO);
                kept -= 1;
            }
            let text = format!("SELECT {number} {long}");
            let plain = testing::exchange(number, &text, ResponseDigest::Void);
            schedule.add(Arc::new(RecordedExchange {
                connection: number,
                ..plain
            }));
            kept += 1;
            assert!(
                kept <= 130 && schedule.bytes <= MOST_BYTES_AHEAD + (2 << 20),
                "{kept}"
            );
        }
        schedule.complete();
        let rest = std::iter::from_fn(|| schedule.take_due(Duration::ZERO)).count();
        assert_eq!((rest, schedule.bytes), (kept, 0));
    }
}
