//! The bounded hand-over between the data path and the auditors.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use cqlens_proto::cutter::Opaque;
use crossbeam_queue::SegQueue;

use super::{Capture, ConnectionId, Refusal};
use crate::memory::{Memory, Use};

/// How much may wait for the auditors.
///
/// An eighth of it is kept for chunks with a part of a PREPARE or of its answer.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes that wait in one auditor's line, each chunk with what it takes to hold it.
    pub bytes: usize,
}

impl Limits {
    /// What the budget of the process has for them.
    pub fn of(memory: &Memory) -> Self {
        Self {
            bytes: memory.part(Use::Queue).limit(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 64 << 20 }
    }
}

/// What did not reach the audit, since the last time that somebody asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Chunks left out. How many requests those held, the audit tells.
    pub chunks: u64,
    /// Bytes left out.
    pub bytes: u64,
    /// Connections that could not be cut and were only forwarded, by reason.
    pub opaque: BTreeMap<&'static str, u64>,
    /// Connections that TLS ended, by reason.
    pub tls_failures: BTreeMap<&'static str, u64>,
    /// Connections that were not let in, by reason.
    pub refused: BTreeMap<&'static str, u64>,
}

/// How much waits for the auditors now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Chunks that wait, in all lines.
    pub chunks: usize,
    /// Their bytes, and what it takes to keep them.
    pub bytes: usize,
    /// Bytes left out since [`Queue::take_dropped`] was last called.
    pub dropped_bytes: u64,
}

/// Whose TLS failed, and so a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsFailure {
    /// A client did not speak TLS where nothing else is spoken.
    PlainClient,
    /// A client's.
    Client,
    /// The upstream's.
    Upstream,
}

/// Lines of captures, one for each auditor; all captures of a connection go through the same one, in order.
///
/// Offering never blocks and never wakes anybody: an auditor looks when it wakes by itself. What finds no room is left
/// out and counted.
#[derive(Debug)]
pub struct Queue {
    lines: Vec<Line>,
    /// Room in each line, in bytes.
    room: usize,
    /// Of it, what anything may take.
    open_room: usize,
    dropped_chunks: AtomicU64,
    dropped_bytes: AtomicU64,
    /// Rare: once for each connection that turns opaque.
    opaque: Mutex<BTreeMap<&'static str, u64>>,
    /// Not on the way of any bytes.
    tls_failures: Mutex<BTreeMap<&'static str, u64>>,
    /// Not on the way of any bytes.
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

#[derive(Debug, Default)]
struct Line {
    /// A list, not a ring: a ring of a size that is never too small goes through all of its memory also where next to nothing waits.
    captures: SegQueue<Capture>,
    /// Room that is taken up.
    taken: AtomicUsize,
    /// Captures are left out until the auditor has caught up.
    is_behind: AtomicBool,
    /// Captures of those who wait for room.
    recorded: Recorded,
}

/// What one thread hands over that waits for room: the auditor takes all of it at once, and while it is looked at the other one fills what
/// is empty. So neither touches what the other does but once for many captures.
#[derive(Debug, Default)]
struct Recorded {
    coming: Mutex<Coming>,
    /// What the auditor has taken and not looked at yet: nobody else's but for a glance.
    opened: Mutex<VecDeque<Capture>>,
}

#[derive(Debug, Default)]
struct Coming {
    captures: Vec<Capture>,
    /// Room that they take up.
    weight: usize,
}

impl Recorded {
    /// What comes, as soon as there is room in it for as much as `weight`.
    #[inline]
    fn wait_for(&self, weight: usize, room: usize) -> MutexGuard<'_, Coming> {
        loop {
            if let Some(coming) = self.with_room_for(weight, room) {
                return coming;
            }
            std::thread::sleep(FULL);
        }
    }

    /// What comes, if there is room in it for as much as `weight`.
    #[inline]
    fn with_room_for(&self, weight: usize, room: usize) -> Option<MutexGuard<'_, Coming>> {
        let coming = lock(&self.coming);
        // What is larger than all the room goes through an empty line.
        (coming.weight == 0 || coming.weight + weight <= room).then_some(coming)
    }

    /// Takes up to `most`, oldest first; how many there were, fewer only where no more wait. Nobody else learns how many wait until
    /// that is done.
    #[inline]
    fn take(&self, most: usize, mut each: impl FnMut(Capture)) -> usize {
        let mut opened = lock(&self.opened);
        let mut taken = 0;
        while taken < most {
            if opened.is_empty() {
                self.open(&mut opened);
            }
            let Some(capture) = opened.pop_front() else {
                break;
            };
            each(capture);
            taken += 1;
        }
        taken
    }

    /// Takes over all that has come.
    fn open(&self, opened: &mut VecDeque<Capture>) {
        let empty = Vec::from(std::mem::take(opened));
        let mut coming = lock(&self.coming);
        *opened = std::mem::replace(&mut coming.captures, empty).into();
        coming.weight = 0;
    }

    /// What comes is looked at first: it may be opened meanwhile, and is still there then.
    fn len(&self) -> usize {
        let coming = lock(&self.coming).captures.len();
        coming + lock(&self.opened).len()
    }

    fn waiting_bytes(&self) -> usize {
        lock(&self.coming).weight
    }
}

impl Coming {
    /// Adds a capture, which is made in its place.
    #[inline]
    fn push(&mut self, weight: usize, capture: impl FnOnce() -> Capture) {
        self.weight += weight;
        self.captures.extend(std::iter::once_with(capture));
    }
}

impl Line {
    fn push(&self, weight: usize, capture: Capture) {
        // Counted first, so that what is taken at once is not taken off what was never added.
        self.taken.fetch_add(weight, Ordering::Relaxed);
        self.captures.push(capture);
    }

    #[inline]
    fn take(&self, most: usize, mut each: impl FnMut(Capture)) -> usize {
        let mut taken = 0;
        while taken < most
            && let Some(capture) = self.captures.pop()
        {
            self.taken
                .fetch_sub(weight(capture.bytes.len()), Ordering::Relaxed);
            each(capture);
            taken += 1;
        }
        taken + self.recorded.take(most - taken, each)
    }

    /// How many captures wait.
    fn len(&self) -> usize {
        self.captures.len() + self.recorded.len()
    }

    /// Room that is taken up.
    fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed) + self.recorded.waiting_bytes()
    }
}

/// What a capture counts for in [`Limits::bytes`].
fn weight(len: usize) -> usize {
    len + size_of::<Capture>()
}

impl Queue {
    /// Lines for `auditors` auditors.
    pub fn new(auditors: usize, limits: Limits) -> Self {
        Self {
            lines: (0..auditors.max(1)).map(|_| Line::default()).collect(),
            room: limits.bytes,
            open_room: limits.bytes - limits.bytes / RESERVED_PART,
            dropped_chunks: AtomicU64::new(0),
            dropped_bytes: AtomicU64::new(0),
            opaque: Mutex::default(),
            tls_failures: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// The number of lines.
    pub fn auditors(&self) -> usize {
        self.lines.len()
    }

    /// Room that captures take up now, in bytes, in all lines together.
    pub fn taken(&self) -> usize {
        self.lines.iter().map(Line::taken).sum()
    }

    /// How many bytes wait for `auditor`, as [`Limits::bytes`] counts them.
    pub fn waiting_bytes(&self, auditor: usize) -> usize {
        self.lines.get(auditor).map_or(0, Line::taken)
    }

    /// How many captures wait for `auditor`.
    pub fn waiting(&self, auditor: usize) -> usize {
        self.lines.get(auditor).map_or(0, Line::len)
    }

    /// Takes up to `most` of the captures that wait for `auditor`, oldest first; how many there were.
    #[inline]
    pub fn take(&self, auditor: usize, most: usize, each: impl FnMut(Capture)) -> usize {
        self.lines.get(auditor).map_or(0, |line| line.take(most, each))
    }

    /// Takes the oldest capture that waits for `auditor`.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn pop(&self, auditor: usize) -> Option<Capture> {
        let mut oldest = None;
        self.take(auditor, 1, |capture| oldest = Some(capture));
        oldest
    }

    /// Hands a capture of `len` bytes of `connection` over, or gives it up: false if there was no room. What `keeps` may
    /// take all the room that there is.
    pub(super) fn offer(
        &self,
        connection: ConnectionId,
        len: usize,
        keeps: bool,
        capture: impl FnOnce() -> Capture,
    ) -> bool {
        let line = self.line_of(connection);
        let weight = weight(len);
        let has_room = line.taken.load(Ordering::Relaxed) + weight <= self.open_room;
        if !has_room || line.is_behind.load(Ordering::Relaxed) {
            return self.offer_behind(line, weight, keeps, capture);
        }
        line.push(weight, capture());
        true
    }

    /// The same for an auditor that is behind. A capture holds the whole slab that its bytes were read into, so what is kept between others
    /// that are left out would take up many times what it counts for. So nothing is kept until a quarter of the line has been taken, but
    /// for what `keeps`, as a copy.
    #[cold]
    fn offer_behind(
        &self,
        line: &Line,
        weight: usize,
        keeps: bool,
        capture: impl FnOnce() -> Capture,
    ) -> bool {
        let taken = line.taken.load(Ordering::Relaxed);
        let has_room = taken + weight <= self.open_room;
        let is_behind = !has_room || taken > self.open_room / 4 * 3;
        line.is_behind.store(is_behind, Ordering::Relaxed);
        if !is_behind {
            line.push(weight, capture());
            return true;
        }
        if !keeps || taken + weight > self.room {
            return false;
        }
        let capture = capture();
        let bytes = Bytes::copy_from_slice(&capture.bytes);
        line.push(weight, Capture { bytes, ..capture });
        true
    }

    /// Hands a capture of `len` bytes of `connection` over as soon as there is room for it: for those who are in nobody's way. Of what they
    /// hand over as much may wait as [`Limits::bytes`] say, and as much again is being looked at.
    #[inline]
    pub(super) fn wait_and_offer(
        &self,
        connection: ConnectionId,
        len: usize,
        capture: impl FnOnce() -> Capture,
    ) {
        let line = self.line_of(connection);
        let weight = weight(len);
        line.recorded.wait_for(weight, self.room).push(weight, capture);
    }

    #[inline]
    fn line_of(&self, connection: ConnectionId) -> &Line {
        // A division takes longer than all the rest.
        if let [only] = &*self.lines {
            return only;
        }
        let index = usize::try_from(connection.0).unwrap_or(0) % self.lines.len();
        &self.lines[index]
    }

    /// Waits until nothing waits in any line; what was taken last may still be looked at, under the lock of its window.
    pub fn wait_until_empty(&self) {
        while self.lines.iter().any(|line| line.len() > 0) {
            std::thread::sleep(FULL);
        }
    }

    /// Counts a chunk that was left out.
    pub(super) fn count_dropped(&self, bytes: usize) {
        self.dropped_chunks.fetch_add(1, Ordering::Relaxed);
        self.dropped_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn count_opaque(&self, reason: Opaque) {
        *lock(&self.opaque).entry(opaque_name(reason)).or_default() += 1;
    }

    /// Counts a connection that TLS ended, at its beginning or later.
    pub fn count_tls_failure(&self, failure: TlsFailure) {
        *lock(&self.tls_failures).entry(failure.name()).or_default() += 1;
    }

    /// Counts a connection that was not let in.
    pub fn count_refused(&self, refusal: Refusal) {
        *lock(&self.refused).entry(refusal.name()).or_default() += 1;
    }

    /// How much waits now.
    pub fn backlog(&self) -> Backlog {
        Backlog {
            chunks: self.lines.iter().map(Line::len).sum(),
            bytes: self.taken(),
            dropped_bytes: self.dropped_bytes.load(Ordering::Relaxed),
        }
    }

    /// What was left out since the last call.
    pub fn take_dropped(&self) -> Dropped {
        Dropped {
            chunks: self.dropped_chunks.swap(0, Ordering::Relaxed),
            bytes: self.dropped_bytes.swap(0, Ordering::Relaxed),
            opaque: std::mem::take(&mut *lock(&self.opaque)),
            tls_failures: std::mem::take(&mut *lock(&self.tls_failures)),
            refused: std::mem::take(&mut *lock(&self.refused)),
        }
    }
}

/// One part in so many is kept for what later requests need to be understood.
const RESERVED_PART: usize = 8;

/// How long to wait where there is no room: an auditor empties a good part of its line meanwhile.
const FULL: std::time::Duration = std::time::Duration::from_micros(200);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that holds these locks can panic; a poisoned one would hold whole counts all the same.
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The reason as reports name it.
pub fn opaque_name(reason: Opaque) -> &'static str {
    match reason {
        Opaque::Tls => "tls",
        Opaque::Text => "text",
        Opaque::Version(_) => "unknown-version",
        Opaque::Direction => "wrong-direction",
        Opaque::Length(_) => "impossible-length",
        Opaque::SegmentHeader => "damaged-segment",
    }
}

impl TlsFailure {
    /// The failure as reports name it.
    fn name(self) -> &'static str {
        match self {
            Self::PlainClient => "plain-client",
            Self::Client => "client",
            Self::Upstream => "upstream",
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use cqlens_proto::envelope::Direction;

    use super::*;
    use crate::capture::{Connection, Moment};

    fn capture(number: u64, length: usize) -> Capture {
        Capture {
            connection: Arc::new(Connection::recorded(
                ConnectionId(0),
                "10.0.0.1:40000".parse().unwrap(),
            )),
            direction: Direction::Request,
            at: Moment::from_unix_nanoseconds(0),
            hole: 0,
            bytes: vec![0; length].into(),
            boundary: None,
            begun: number,
            after_gap: None,
            request_gaps: 0,
        }
    }

    #[test]
    fn what_waits_for_room_comes_out_in_order_and_is_counted_until_then() {
        let queue = Queue::new(1, Limits { bytes: 1 << 20 });
        let (mut given, mut taken) = (0, 0);
        for _ in 0..10 {
            for _ in 0..10 {
                queue.wait_and_offer(ConnectionId(0), 100, || capture(given, 100));
                given += 1;
            }
            // Some stay that were taken together with these.
            for _ in 0..7 {
                assert_eq!(queue.pop(0).unwrap().begun, taken);
                taken += 1;
            }
            let there = usize::try_from(given - taken).unwrap();
            assert_eq!((queue.waiting(0), queue.backlog().chunks), (there, there));
        }
        while let Some(capture) = queue.pop(0) {
            assert_eq!(capture.begun, taken);
            taken += 1;
        }
        assert_eq!((taken, queue.taken(), queue.waiting(0)), (given, 0, 0));
        queue.wait_until_empty();
    }

    #[test]
    fn what_is_kept_between_captures_that_are_left_out_holds_no_slab() {
        const ROOM: usize = 64 << 10;
        let queue = Queue::new(1, Limits { bytes: ROOM });
        let slab = Bytes::from(vec![0; 8 << 10]);
        let part = |range: std::ops::Range<usize>| Capture {
            bytes: slab.slice(range),
            ..capture(0, 0)
        };
        let offer = |keeps| queue.offer(ConnectionId(0), 1_000, keeps, || part(0..1_000));
        while offer(false) {}
        assert!(offer(true), "a PREPARE has room");
        let before = queue.waiting(0);
        assert!(queue.pop(0).is_some());
        assert!(!offer(false), "not before the auditor has caught up");
        let others_hold = |queue: &Queue| {
            let mut held = 0;
            while let Some(capture) = queue.pop(0) {
                held += usize::from(slab.as_ptr_range().contains(&capture.bytes.as_ptr()));
            }
            held
        };
        assert_eq!(others_hold(&queue), before - 2, "all but the PREPARE");
        assert!(offer(false));
    }

    /// An auditor ends connections once it has found their line empty: it must not seem empty before it is.
    #[test]
    fn fewer_than_asked_for_means_that_no_more_wait() {
        let queue = Queue::new(1, Limits { bytes: 1 << 20 });
        let offer = |number| queue.wait_and_offer(ConnectionId(0), 1, || capture(number, 1));
        (0..10).for_each(offer);
        assert_eq!(queue.take(0, 5, |_| ()), 5);
        (10..50).for_each(offer);
        let mut expected = 5;
        let taken = queue.take(0, 32, |capture| {
            assert_eq!(capture.begun, expected);
            expected += 1;
        });
        assert_eq!((taken, queue.waiting(0)), (32, 13));
    }

    #[test]
    fn no_more_comes_than_there_is_room_for_until_somebody_takes_it() {
        let recorded = Recorded::default();
        let room = 10 * weight(100);
        let push = |number: u64, length: usize| {
            let coming = recorded.with_room_for(weight(length), room);
            let is_room = coming.is_some();
            if let Some(mut coming) = coming {
                coming.push(weight(length), || capture(number, length));
            }
            is_room
        };
        for number in 0..10 {
            assert!(push(number, 100));
        }
        assert!(!push(10, 0));
        assert_eq!(recorded.waiting_bytes(), room);
        assert_eq!(recorded.take(1, |capture| assert_eq!(capture.begun, 0)), 1);
        // Alone it has room, however large it is.
        assert!(push(10, 2 * room));
        assert!(!push(11, 0));
        assert_eq!(recorded.len(), 10);
    }
}
