//! The bounded hand-over of live traffic: it never blocks the data path, and counts what it leaves out.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use cqlens_proto::cutter::Opaque;
use crossbeam_queue::SegQueue;

use super::{Capture, Forwarding, Refusal};
use crate::memory::{Memory, Use};

/// How much live traffic may wait for the auditor.
///
/// An eighth of it is reserved for chunks with a part of a PREPARE or of its answer.
#[derive(Debug, Clone, Copy)]
pub struct QueueLimits {
    /// Bytes that wait, each chunk with what it takes to hold it.
    pub bytes: usize,
}

impl QueueLimits {
    /// The queue's part of the memory budget of the process.
    pub fn of(memory: &Memory) -> Self {
        Self {
            bytes: memory.part(Use::Queue).limit(),
        }
    }
}

impl Default for QueueLimits {
    fn default() -> Self {
        Self { bytes: 64 << 20 }
    }
}

/// What did not reach the audit, since the last call of [`Queue::take_dropped`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Chunks left out. The audit counts how many requests those held.
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

/// How much waits for the auditor now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Chunks that wait.
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

/// Captures of live traffic on their way to the auditor; those of one connection stay in order.
///
/// Offering never blocks and never wakes the auditor, which polls. A capture that finds no room is left out
/// and counted.
#[derive(Debug)]
pub struct Queue {
    /// A list, not a ring: a ring of a size that is never too small goes through all of its memory also where
    /// next to nothing waits.
    captures: SegQueue<Capture>,
    /// Bytes that wait, as [`QueueLimits::bytes`] counts them.
    used: AtomicUsize,
    forwarding: Forwarding,
    /// Captures are left out until the auditor has caught up.
    is_behind: AtomicBool,
    /// What `used` may come to.
    capacity: usize,
    /// The part of it that any chunk may take.
    open_capacity: usize,
    dropped_chunks: AtomicU64,
    dropped_bytes: AtomicU64,
    /// Rare: once for each connection that turns opaque.
    opaque: Mutex<BTreeMap<&'static str, u64>>,
    /// Not on the way of any bytes.
    tls_failures: Mutex<BTreeMap<&'static str, u64>>,
    /// Not on the way of any bytes.
    refused: Mutex<BTreeMap<&'static str, u64>>,
}

/// What a capture counts for in [`QueueLimits::bytes`].
pub(super) fn weight(len: usize) -> usize {
    len + size_of::<Capture>()
}

impl Queue {
    /// An empty queue.
    pub fn new(limits: QueueLimits) -> Self {
        Self {
            captures: SegQueue::new(),
            used: AtomicUsize::new(0),
            forwarding: Forwarding::default(),
            is_behind: AtomicBool::new(false),
            capacity: limits.bytes,
            open_capacity: limits.bytes - limits.bytes / RESERVED_PART,
            dropped_chunks: AtomicU64::new(0),
            dropped_bytes: AtomicU64::new(0),
            opaque: Mutex::default(),
            tls_failures: Mutex::default(),
            refused: Mutex::default(),
        }
    }

    /// How many bytes wait, as [`QueueLimits::bytes`] counts them.
    pub fn waiting_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// How many captures wait.
    pub fn waiting(&self) -> usize {
        self.captures.len()
    }

    /// Takes up to `most` captures, oldest first, and returns how many there were: fewer only where no more
    /// wait.
    #[inline]
    pub fn take(&self, most: usize, mut each: impl FnMut(Capture)) -> usize {
        let mut taken = 0;
        while taken < most
            && let Some(capture) = self.captures.pop()
        {
            self.used
                .fetch_sub(weight(capture.bytes.len()), Ordering::Relaxed);
            each(capture);
            taken += 1;
        }
        taken
    }

    /// Takes the oldest capture.
    #[cfg(any(test, feature = "testing"))]
    #[doc(hidden)]
    pub fn pop(&self) -> Option<Capture> {
        let mut oldest = None;
        self.take(1, |capture| oldest = Some(capture));
        oldest
    }

    /// Hands over a capture of `len` bytes, or drops it and returns false if there is no room. One that is
    /// `reserved` for may use all of the capacity.
    pub(super) fn offer(&self, len: usize, reserved: bool, capture: impl FnOnce() -> Capture) -> bool {
        let weight = weight(len);
        let has_room = self.waiting_bytes() + weight <= self.open_capacity;
        if !has_room || self.is_behind.load(Ordering::Relaxed) {
            return self.offer_behind(weight, reserved, capture);
        }
        self.push(weight, capture());
        true
    }

    fn push(&self, weight: usize, capture: Capture) {
        // Counted first, so that what is taken at once is not taken off what was never added.
        self.used.fetch_add(weight, Ordering::Relaxed);
        self.captures.push(capture);
    }

    /// The same for an auditor that is behind. A capture holds the whole slab that its bytes were read into,
    /// so a few captures between many that are left out would hold many times what they count for. So nothing
    /// is kept until a quarter of the queue has been taken, but what is `reserved` for, and that as a copy.
    #[cold]
    fn offer_behind(&self, weight: usize, reserved: bool, capture: impl FnOnce() -> Capture) -> bool {
        let used = self.waiting_bytes();
        let has_room = used + weight <= self.open_capacity;
        let is_behind = !has_room || used > self.open_capacity / 4 * 3;
        self.is_behind.store(is_behind, Ordering::Relaxed);
        if !is_behind {
            self.push(weight, capture());
            return true;
        }
        if !reserved || used + weight > self.capacity {
            return false;
        }
        let capture = capture();
        let bytes = Bytes::copy_from_slice(&capture.bytes);
        self.push(weight, Capture { bytes, ..capture });
        true
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

    /// What the data path has sent on, whether it was audited or not.
    pub fn forwarding(&self) -> &Forwarding {
        &self.forwarding
    }

    /// How much waits now.
    pub fn backlog(&self) -> Backlog {
        Backlog {
            chunks: self.waiting(),
            bytes: self.waiting_bytes(),
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

/// One part in so many is reserved for what later requests need to be understood.
const RESERVED_PART: usize = 8;

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
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

/// All names of reasons.
pub const OPAQUE_NAMES: [&str; 6] = [
    "tls",
    "text",
    "unknown-version",
    "wrong-direction",
    "impossible-length",
    "damaged-segment",
];

impl TlsFailure {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::PlainClient, Self::Client, Self::Upstream];

    /// The failure as reports name it.
    pub fn name(self) -> &'static str {
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
    use super::*;
    use crate::testing::capture;

    #[test]
    fn every_reason_of_an_opaque_connection_is_among_the_names() {
        for reason in [
            Opaque::Tls,
            Opaque::Text,
            Opaque::Version(0),
            Opaque::Direction,
            Opaque::Length(0),
            Opaque::SegmentHeader,
        ] {
            assert!(OPAQUE_NAMES.contains(&opaque_name(reason)), "{reason:?}");
        }
    }

    #[test]
    fn what_is_kept_between_captures_that_are_left_out_holds_no_slab() {
        const ROOM: usize = 64 << 10;
        let queue = Queue::new(QueueLimits { bytes: ROOM });
        let slab = Bytes::from(vec![0; 8 << 10]);
        let part = |range: std::ops::Range<usize>| Capture {
            bytes: slab.slice(range),
            ..capture(0, 0)
        };
        let offer = |keeps| queue.offer(1_000, keeps, || part(0..1_000));
        while offer(false) {}
        assert!(offer(true), "a PREPARE has room");
        let before = queue.waiting();
        assert!(queue.pop().is_some());
        assert!(!offer(false), "not before the auditor has caught up");
        let others_hold = |queue: &Queue| {
            let mut held = 0;
            while let Some(capture) = queue.pop() {
                held += usize::from(slab.as_ptr_range().contains(&capture.bytes.as_ptr()));
            }
            held
        };
        assert_eq!(others_hold(&queue), before - 2, "all but the PREPARE");
        assert!(offer(false));
    }
}
