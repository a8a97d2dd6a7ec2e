//! Connections: which side is the server, both directions in order, and in order with each other.
//!
//! A response must not come to the audit before its request. Each segment says what its sender had received, so what it answers is
//! known: its bytes wait until the other direction has told that much, or has been found to lack it.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::{cutter::Framing, envelope::Direction};

use super::{
    link::Segment,
    losses::Losses,
    resync::Known,
    side::{Hopeless, Side},
    tcp::{Order, Part, distance},
};
use cqlens_audit::{
    capture::{Connection, Moment, Queue},
    memory,
};

/// A connection.
#[derive(Debug)]
pub(super) struct Flow {
    connection: Arc<Connection>,
    client: Half,
    server: Half,
    known: Known,
    /// When its last segment was captured.
    pub(super) last: Moment,
    state: State,
    /// Whether it is open, both sides were heard, and nothing waits, has ended or is unusual: what most segments are asked of it.
    is_smooth: bool,
}

/// What of a segment tells whether its connection just [goes on](Flow::goes_on_with) with it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// The number of its first byte.
    pub(super) sequence: u32,
    /// The number of the byte that its sender waits for.
    pub(super) acknowledgment: u32,
    /// Whether it has that number, and begins and ends nothing.
    pub(super) is_usual: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Its bytes are not looked into.
    Opaque,
    /// It has ended; segments that come late belong to it all the same.
    Closed,
}

#[derive(Debug)]
struct Half {
    order: Order,
    side: Option<Side>,
    /// Number of its SYN, if that is in the capture.
    syn: Option<u32>,
    /// The number after the last byte that it is known to have sent, by whatever shows it: an acknowledgment, or the number of a later
    /// segment without bytes.
    reached: Option<u32>,
    /// The latest number that somebody has waited for and that is not near what is known of it.
    strange: Option<u32>,
    /// Whether anything was captured of it.
    is_seen: bool,
    /// Nothing was captured of it, and it has been waited for: the capture has the other direction alone.
    is_absent: bool,
}

/// Where a number is that somebody waits for.
enum Place {
    /// Within a window of what is known of the direction.
    Near,
    /// Far away, as the one before it was: nothing of the direction is captured, and it has moved on by more than anybody can count.
    MovedOn,
    /// Far away: another connection's, or damage.
    Strange,
}

/// Bytes that a direction may be ahead of what has been told of it. No window is larger in practice (TCP's limit is 1 GiB, systems' own
/// ones are some MiB): numbers that are further away are those of another connection between the same ports, or damage.
const WINDOW: i32 = 64 << 20;

impl Half {
    /// Notes that all bytes before `number` were sent; whether that is so far ahead of what was captured that the rest will not come.
    fn reach(&mut self, number: u32) -> bool {
        let Some(next) = self.order.next() else {
            return false;
        };
        let ahead = distance(next, number);
        let is_news = self.reached.is_none_or(|reached| distance(reached, number) > 0);
        if is_news && (1..WINDOW).contains(&ahead) {
            self.reached = Some(number);
        }
        ahead > WINDOW / 2 && ahead < WINDOW && self.order.first_waiting().is_none()
    }

    /// What `number`, which the other side waits for, says of this direction.
    fn place(&mut self, number: u32) -> Place {
        let is_near = |next| distance(next, number).unsigned_abs() < WINDOW.unsigned_abs();
        if self.order.next().is_none_or(is_near) {
            self.strange = None;
            return Place::Near;
        }
        let before = self.strange.replace(number);
        let agree = before.is_some_and(|before| (1..WINDOW).contains(&distance(before, number)));
        if agree && !self.is_seen {
            Place::MovedOn
        } else {
            Place::Strange
        }
    }

    /// Whether it was heard, nothing waits, nothing has ended, and nobody has waited for what was not captured.
    fn is_quiet(&self) -> bool {
        self.is_seen && self.order.is_quiet() && self.strange.is_none() && !self.is_absent
    }

    /// The number after the last byte that was sent, if that is not the next one to be told.
    fn unseen_end(&self) -> Option<u32> {
        let (next, reached) = (self.order.next()?, self.reached?);
        // The end takes a number of its own.
        let reached = match self.order.end() {
            Some(end) if distance(end, reached) > 0 => end,
            _ => reached,
        };
        (distance(next, reached) > 0).then_some(reached)
    }

    /// Whether all that is missing before `to` is the number of the end: no envelope ends with a packet of one byte.
    fn lacks_only_its_end(&self, to: u32) -> bool {
        let is_one = self.order.next().is_some_and(|next| distance(next, to) == 1);
        let is_inside = self.side.as_ref().is_some_and(Side::is_in_the_middle);
        is_one && !is_inside && self.order.end().is_none() && self.order.first_waiting().is_none()
    }
}

/// How long bytes wait that the other side has acknowledged: they have arrived, and are in the capture a little later or not at all.
const ACKNOWLEDGED: std::time::Duration = std::time::Duration::from_millis(20);

/// How long bytes wait that nobody has acknowledged: they are sent again.
const SENT_AGAIN: std::time::Duration = std::time::Duration::from_secs(3);

impl Flow {
    /// The connection of which `segment` is the first one that was captured.
    pub(super) fn new(
        connection: Arc<Connection>,
        segment: &Segment,
        queue: &Arc<Queue>,
        searching: &memory::Part,
        losses: &mut Losses,
    ) -> Self {
        let from_start = segment.syn;
        losses.begun_before += u64::from(!from_start);
        let half = |direction| Half {
            order: Order::default(),
            side: Some(Side::new(&connection, direction, queue, searching, from_start)),
            syn: None,
            reached: None,
            strange: None,
            is_seen: false,
            is_absent: false,
        };
        Self {
            client: half(Direction::Request),
            server: half(Direction::Response),
            connection,
            known: Known::default(),
            last: segment.at,
            state: State::Open,
            is_smooth: false,
        }
    }

    /// Whether `segment` belongs to another connection between the same ports.
    pub(super) fn is_followed_by(&self, segment: &Segment, direction: Direction) -> bool {
        let own = match direction {
            Direction::Request => &self.client,
            Direction::Response => &self.server,
        };
        if !segment.syn {
            // The capture has a hole that is longer than any connection's window, of hours perhaps.
            let away = own
                .order
                .next()
                .map_or(0, |next| distance(next, segment.sequence));
            return !segment.payload.is_empty() && away.unsigned_abs() > WINDOW.unsigned_abs();
        }
        if let Some(syn) = own.syn {
            return syn != segment.sequence;
        }
        match (direction, segment.acknowledgment, self.client.syn) {
            (Direction::Response, Some(acknowledgment), Some(syn)) => syn.wrapping_add(1) != acknowledgment,
            // It may be sent again before anything else was captured.
            _ => self.state == State::Closed || own.is_seen,
        }
    }

    /// Whether both sides have said that they have nothing more to say.
    fn is_ending(&self) -> bool {
        self.client.order.end().is_some() && self.server.order.end().is_some()
    }

    /// Whether anything waits for bytes that may still come.
    pub(super) fn is_waiting(&self) -> bool {
        let something_waits = self.client.order.since().is_some() || self.server.order.since().is_some();
        something_waits || (self.state == State::Open && self.is_ending())
    }

    /// Bytes that wait.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.client.order.waiting_bytes() + self.server.order.waiting_bytes()
    }

    /// Says that it is not known when its segments were captured.
    pub(super) fn lack_times(&self) {
        self.connection.lack_times();
    }

    /// Whether it has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether a segment is what nearly all are: its bytes, if it has any, are the next ones, what it answers has been told, and nothing waits.
    #[inline]
    pub(super) fn goes_on_with(&self, step: Step, direction: Direction) -> bool {
        let (own, other) = match direction {
            Direction::Request => (&self.client, &self.server),
            Direction::Response => (&self.server, &self.client),
        };
        let is_answered = |next| (1 - WINDOW..=0).contains(&distance(next, step.acknowledgment));
        self.is_smooth
            && step.is_usual
            && own.order.next() == Some(step.sequence)
            && other.order.next().is_some_and(is_answered)
    }

    /// Takes the bytes of a segment with which it [goes on](Flow::goes_on_with), and notes the `cut` that follow them: the same as [`Flow::take`],
    /// in fewer steps.
    #[inline]
    pub(super) fn go_on(
        &mut self,
        direction: Direction,
        (bytes, cut): (&[u8], usize),
        share: impl Fn() -> Bytes,
        at: Moment,
        losses: &mut Losses,
    ) {
        let (own, _) = self.halves(direction);
        own.order.pass(bytes.len() + cut);
        if cut == 0
            && let Some(side) = &mut own.side
            && side.take_whole(bytes, &share, at)
        {
            losses.seen_bytes += bytes.len() as u64;
        } else {
            self.tell(direction, share(), cut, at, losses);
        }
    }

    /// Takes note of what nearly all segments ask of it.
    fn settle(&mut self) {
        self.is_smooth = self.state == State::Open && self.client.is_quiet() && self.server.is_quiet();
    }

    /// Takes a segment of one of its directions.
    pub(super) fn take(&mut self, segment: Segment, direction: Direction, losses: &mut Losses) {
        self.put(segment, direction, losses);
        self.settle();
    }

    /// The segment goes where it belongs.
    fn put(&mut self, segment: Segment, direction: Direction, losses: &mut Losses) {
        self.last = self.last.max(segment.at);
        if self.state != State::Open {
            return;
        }
        let Segment {
            at,
            sequence,
            acknowledgment,
            payload,
            cut,
            ..
        } = segment;
        let mut first = sequence;
        let length = u32::try_from(payload.len() + cut).unwrap_or(u32::MAX);
        let acknowledgment =
            acknowledgment.filter(|number| self.believes(opposite(direction), *number, losses));
        let (own, other) = self.halves(direction);
        if segment.syn {
            own.syn.get_or_insert(sequence);
            first = sequence.wrapping_add(1);
        }
        own.is_seen = true;
        own.is_absent = false;
        own.order.begin(first);
        own.reach(first);
        let mut is_far_behind = false;
        if let Some(acknowledgment) = acknowledgment {
            other.order.begin(acknowledgment);
            is_far_behind = other.reach(acknowledgment);
        }
        if segment.fin {
            let end = first.wrapping_add(length);
            own.order.finish(end);
            own.reach(end);
        }
        if other.is_absent || is_far_behind {
            self.miss_until(opposite(direction), acknowledgment, at, losses);
        }
        if length > 0 {
            let part = Part {
                sequence: first,
                bytes: payload,
                cut,
                at,
                acknowledgment,
            };
            let (own, other) = self.halves(direction);
            let may_pass = other.order.has_told(acknowledgment);
            if let Some(part) = own.order.take(part, may_pass) {
                self.tell(direction, part.bytes, part.cut, part.at, losses);
            }
        }
        if self.is_waiting() {
            self.tell_waiting(losses);
            self.give_up_due(at, losses);
        }
        let both_have_ended = self.client.order.is_finished() && self.server.order.is_finished();
        if segment.rst || both_have_ended {
            self.close(losses);
        }
    }

    /// Whether bytes of `direction` up to the one with that number can have been received. What lies before a number from which it goes on
    /// unseen is not counted: nobody knows how often numbers have come round since.
    fn believes(&mut self, direction: Direction, number: u32, losses: &mut Losses) -> bool {
        let (own, _) = self.halves(direction);
        match own.place(number) {
            Place::Near => true,
            Place::Strange => false,
            Place::MovedOn => {
                self.flush(losses);
                let (own, _) = self.halves(direction);
                own.order = Order::default();
                own.reached = None;
                true
            }
        }
    }

    #[inline]
    fn halves(&mut self, direction: Direction) -> (&mut Half, &mut Half) {
        match direction {
            Direction::Request => (&mut self.client, &mut self.server),
            Direction::Response => (&mut self.server, &mut self.client),
        }
    }

    /// Hands on bytes that are in order, and `cut` that follow them and are not there.
    fn tell(&mut self, direction: Direction, bytes: Bytes, cut: usize, at: Moment, losses: &mut Losses) {
        let known = &mut self.known;
        if known.encoding.is_none()
            && let Framing::Segments(encoding) = self.connection.negotiated.framing()
        {
            known.encoding = Some(encoding);
        }
        let half = match direction {
            Direction::Request => &mut self.client,
            Direction::Response => &mut self.server,
        };
        let Some(side) = &mut half.side else { return };
        let mut taken = Ok(());
        losses.seen_bytes += bytes.len() as u64;
        if !bytes.is_empty() {
            taken = side.take(bytes, at, known, losses);
        }
        if cut > 0 {
            losses.cut_bytes += cut as u64;
            side.skip(cut, at, losses);
        }
        if let Err(hopeless) = taken {
            self.turn_opaque(hopeless, losses);
        }
    }

    fn turn_opaque(&mut self, hopeless: Hopeless, losses: &mut Losses) {
        self.state = State::Opaque;
        self.drop_sides(losses);
        let reason = match hopeless {
            Hopeless::Opaque(reason) => cqlens_audit::capture::opaque_name(reason),
            Hopeless::NoPlace => "no-place",
        };
        *losses.opaque.entry(reason).or_default() += 1;
        if reason == "tls"
            && let Some(server) = self.connection.upstream()
        {
            losses.tls_servers.insert(server);
        }
    }

    /// Hands on what need not wait any longer.
    fn tell_waiting(&mut self, losses: &mut Losses) {
        loop {
            let mut has_told = false;
            for direction in [Direction::Request, Direction::Response] {
                let (own, other) = self.halves(direction);
                let is_alone = other.is_absent;
                let popped = own
                    .order
                    .pop(|acknowledgment| is_alone || other.order.has_told(acknowledgment));
                if let Some(part) = popped {
                    if is_alone {
                        self.miss_until(opposite(direction), part.acknowledgment, part.at, losses);
                    }
                    self.tell(direction, part.bytes, part.cut, part.at, losses);
                    has_told = true;
                }
            }
            if !has_told {
                return;
            }
        }
    }

    /// Gives up bytes that have been waited for long enough at `now`.
    pub(super) fn give_up(&mut self, now: Moment, losses: &mut Losses) {
        self.give_up_due(now, losses);
        self.settle();
    }

    fn give_up_due(&mut self, now: Moment, losses: &mut Losses) {
        while self.state == State::Open {
            let mut progress = false;
            for direction in [Direction::Request, Direction::Response] {
                progress |= self.give_up_in(direction, Some(now), losses);
            }
            if !progress {
                break;
            }
            self.tell_waiting(losses);
        }
        if self.is_ending() && now.since(self.last) >= SENT_AGAIN {
            self.close(losses);
        }
    }

    /// Gives up the next missing bytes that something in `direction` waits for, if the time has come (at the end it has).
    fn give_up_in(&mut self, direction: Direction, now: Option<Moment>, losses: &mut Losses) -> bool {
        let (own, other) = self.halves(direction);
        let (Some(since), Some(first)) = (own.order.since(), own.order.first_waiting()) else {
            return false;
        };
        let waited = now.map_or(SENT_AGAIN, |now| now.since(since));
        let is_due = |patience| waited >= patience || own.order.is_full();
        let next = own.order.next().unwrap_or(first);
        if distance(next, first) > 0 {
            let is_acknowledged = other
                .order
                .first_acknowledgment()
                .is_some_and(|has| distance(has, first) <= 0);
            let patience = if is_acknowledged { ACKNOWLEDGED } else { SENT_AGAIN };
            if !is_due(patience) {
                return false;
            }
            let Some((length, at)) = own.order.give_up() else {
                return false;
            };
            self.miss(direction, length, at, losses);
            return true;
        }
        // It waits for the other direction, which its sender has received.
        let Some(acknowledgment) = own.order.first_acknowledgment() else {
            return false;
        };
        if !is_due(ACKNOWLEDGED) {
            return false;
        }
        // Of what lies before the first bytes that wait there.
        let to = match other.order.first_waiting() {
            Some(first) if distance(first, acknowledgment) > 0 => first,
            _ => acknowledgment,
        };
        other.is_absent = !other.is_seen;
        if other.lacks_only_its_end(to) {
            let end = to.wrapping_sub(1);
            other.order.finish(end);
            return true;
        }
        self.miss_until(opposite(direction), Some(to), since, losses)
    }

    /// Gives up what was not captured of `direction` before the byte with that number; whether there was anything.
    fn miss_until(&mut self, direction: Direction, to: Option<u32>, at: Moment, losses: &mut Losses) -> bool {
        let (own, _) = self.halves(direction);
        let Some(length) = to.and_then(|to| own.order.advance_to(to)) else {
            return false;
        };
        self.miss(direction, length, at, losses);
        true
    }

    /// Gives up what each side is known to have sent last, and that was not captured.
    fn miss_ends(&mut self, losses: &mut Losses) {
        let at = self.last;
        for direction in [Direction::Request, Direction::Response] {
            let (own, _) = self.halves(direction);
            if let Some(end) = own.unseen_end()
                && !own.lacks_only_its_end(end)
            {
                self.miss_until(direction, Some(end), at, losses);
            }
        }
    }

    fn miss(&mut self, direction: Direction, length: usize, at: Moment, losses: &mut Losses) {
        losses.lost_bytes += length as u64;
        let (own, _) = self.halves(direction);
        if let Some(side) = &mut own.side {
            side.skip(length, at, losses);
        }
    }

    /// Ends it: what waits is told, what is missing before it is given up.
    pub(super) fn close(&mut self, losses: &mut Losses) {
        if self.state == State::Closed {
            return;
        }
        self.flush(losses);
        if self.state == State::Open {
            self.miss_ends(losses);
        }
        losses.one_way += u64::from(self.client.is_seen != self.server.is_seen);
        self.drop_sides(losses);
        self.state = State::Closed;
    }

    /// Tells all that waits.
    fn flush(&mut self, losses: &mut Losses) {
        while self.state == State::Open && self.is_waiting() {
            self.tell_waiting(losses);
            let [requests, responses] = [Direction::Request, Direction::Response]
                .map(|direction| self.give_up_in(direction, None, losses));
            if !requests && !responses {
                return;
            }
        }
    }

    fn drop_sides(&mut self, losses: &mut Losses) {
        self.is_smooth = false;
        let sides = [&self.client, &self.server].map(|half| half.side.as_ref());
        let is_understood = sides.into_iter().flatten().any(Side::is_understood);
        losses.understood += u64::from(is_understood);
        for half in [&mut self.client, &mut self.server] {
            // A side says how many requests there were when it ends: before the connection is closed.
            if let Some(mut side) = half.side.take() {
                side.forget(losses);
            }
            half.order = Order::default();
        }
        self.connection.close();
    }
}

fn opposite(direction: Direction) -> Direction {
    match direction {
        Direction::Request => Direction::Response,
        Direction::Response => Direction::Request,
    }
}

#[cfg(test)]
mod tests;
