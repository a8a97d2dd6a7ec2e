//! The bounded hand-over between the data path and the auditors.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use cqlens_proto::cutter::Opaque;
use crossbeam_queue::SegQueue;

use super::{Capture, ConnectionId, Refusal};

/// How much may wait for the auditors.
///
/// An eighth of it is kept for chunks with a part of a PREPARE or of its answer.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes that wait in one auditor's line, each chunk with what it takes to hold it.
    pub bytes: usize,
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

/// A list, not a ring: a ring of a size that is never too small goes through all of its memory also where next to nothing waits.
#[derive(Debug, Default)]
struct Line {
    captures: SegQueue<Capture>,
    /// Room that is taken up.
    taken: AtomicUsize,
}

impl Line {
    fn push(&self, weight: usize, capture: Capture) {
        // Counted first, so that what is taken at once is not taken off what was never added.
        self.taken.fetch_add(weight, Ordering::Relaxed);
        self.captures.push(capture);
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
        let taken = self.lines.iter().map(|line| line.taken.load(Ordering::Relaxed));
        taken.sum()
    }

    /// How many bytes wait for `auditor`, as [`Limits::bytes`] counts them.
    pub fn waiting_bytes(&self, auditor: usize) -> usize {
        self.lines
            .get(auditor)
            .map_or(0, |line| line.taken.load(Ordering::Relaxed))
    }

    /// How many captures wait for `auditor`.
    pub fn waiting(&self, auditor: usize) -> usize {
        self.lines.get(auditor).map_or(0, |line| line.captures.len())
    }

    /// Takes the oldest capture that waits for `auditor`.
    pub fn pop(&self, auditor: usize) -> Option<Capture> {
        let line = self.lines.get(auditor)?;
        let capture = line.captures.pop()?;
        line.taken
            .fetch_sub(weight(capture.bytes.len()), Ordering::Relaxed);
        Some(capture)
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
        let room = if keeps { self.room } else { self.open_room };
        if line.taken.load(Ordering::Relaxed) + weight > room {
            return false;
        }
        line.push(weight, capture());
        true
    }

    /// Hands a capture over as soon as there is room for it: for those who are in nobody's way.
    pub(super) fn wait_and_offer(&self, capture: Capture) {
        let line = self.line_of(capture.connection.id);
        let weight = weight(capture.bytes.len());
        let taken = || line.taken.load(Ordering::Relaxed);
        // What is larger than all the room goes through an empty line.
        while taken() > 0 && taken() + weight > self.room {
            std::thread::sleep(FULL);
        }
        line.push(weight, capture);
    }

    fn line_of(&self, connection: ConnectionId) -> &Line {
        let index = usize::try_from(connection.0).unwrap_or(0) % self.lines.len();
        &self.lines[index]
    }

    /// Waits until nothing waits in any line; what was taken last may still be looked at, under the lock of its window.
    pub fn wait_until_empty(&self) {
        while self.lines.iter().any(|line| !line.captures.is_empty()) {
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
            chunks: self.lines.iter().map(|line| line.captures.len()).sum(),
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

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
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
