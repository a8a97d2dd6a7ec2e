//! A connection as the data path and the audit both know it.

use std::{
    net::SocketAddr,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering},
    },
};

use cqlens_proto::{
    cutter::{Negotiated, OpcodeCounts},
    envelope::Direction,
};

use super::Moment;

/// Of connections that are open.
const OPEN: i64 = i64::MAX;

/// Identifies a connection within one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Whether the bytes of a connection are cut into envelopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Cutting {
    /// In both directions.
    GoesOn,
    /// The client has sent what is no envelope, and the node has not said what it makes of that.
    AwaitsRefusal,
    /// The node has refused it, and reads on as if it had not come: so it is done with what the client sends next.
    Refused,
    /// Not any more.
    Ended,
}

/// Whether a client's connection was encrypted, and as far as where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// Not at all.
    Plain,
    /// With TLS that ends here, or whose keys are known here.
    Here,
    /// With TLS that a load balancer has ended, as its PROXY header says.
    Before,
}

/// One client connection and the upstream connection it is paired with.
///
/// Created by the data path, kept by it and by the audit. Only the data path writes the counters: the two
/// taps of a connection are in one task and never run at once.
#[derive(Debug)]
pub struct Connection {
    /// Its number.
    pub id: ConnectionId,
    /// Where the client connected from.
    pub client: SocketAddr,
    /// Where its requests go: set before the first of them is captured.
    upstream: OnceLock<SocketAddr>,
    /// The name in the client's certificate, if it has shown one: set before the first request is captured.
    certificate: OnceLock<Box<str>>,
    /// Set before the first request is captured, where it is known.
    encryption: OnceLock<Encryption>,
    /// Compression and framing, as both directions negotiate them.
    pub negotiated: Arc<Negotiated>,
    /// Requests whose responses have not come whole yet, outside compressed segments.
    in_flight: AtomicI64,
    /// The last bytes came from the client.
    client_sent_last: AtomicBool,
    /// Bytes in both directions.
    bytes: AtomicU64,
    /// Requests that have begun, outside compressed segments.
    requests: AtomicU64,
    /// Chunks of requests that were left out.
    requests_gaps: AtomicU64,
    /// A part of a PREPARE or of the answer to one was left out, perhaps.
    prepares_missed: AtomicBool,
    /// Compressed segments of requests that began in chunks that were left out: they hide how many requests
    /// there were.
    hidden_segments: AtomicU64,
    /// All requests by opcode, once no more come, and whether the last one has no end; only where some were left out.
    ended: OnceLock<Box<(OpcodeCounts, bool)>>,
    /// A [`Cutting`].
    cutting: AtomicU8,
    /// The client is logged in, as far as that is visible.
    logged_in: AtomicBool,
    /// When it was closed, in nanoseconds since the Unix epoch; [`OPEN`] before.
    closed_at: AtomicI64,
    is_recorded: bool,
    /// Some of what passed has no time.
    untimed: AtomicBool,
}

impl Connection {
    /// A connection on which nothing has passed yet.
    pub fn new(id: ConnectionId, client: SocketAddr) -> Self {
        Self {
            id,
            client,
            upstream: OnceLock::new(),
            certificate: OnceLock::new(),
            encryption: OnceLock::new(),
            negotiated: Arc::new(Negotiated::new()),
            in_flight: AtomicI64::new(0),
            client_sent_last: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            requests_gaps: AtomicU64::new(0),
            prepares_missed: AtomicBool::new(false),
            hidden_segments: AtomicU64::new(0),
            ended: OnceLock::new(),
            cutting: AtomicU8::new(Cutting::GoesOn as u8),
            logged_in: AtomicBool::new(false),
            closed_at: AtomicI64::new(OPEN),
            is_recorded: false,
            untimed: AtomicBool::new(false),
        }
    }

    /// A connection that is read from a record, which may lack any part of it.
    pub fn recorded(id: ConnectionId, client: SocketAddr) -> Self {
        Self {
            is_recorded: true,
            ..Self::new(id, client)
        }
    }

    /// Whether missing bytes were not counted when they were lost: see [`Connection::recorded`].
    pub fn is_recorded(&self) -> bool {
        self.is_recorded
    }

    /// Whether it is known when all of its bytes passed.
    pub fn is_timed(&self) -> bool {
        !self.untimed.load(Ordering::Relaxed)
    }

    /// Notes that the record lacks the times of some bytes.
    pub fn lack_times(&self) {
        self.untimed.store(true, Ordering::Relaxed);
    }

    /// Where its requests go; none where that is not known.
    pub fn upstream(&self) -> Option<SocketAddr> {
        self.upstream.get().copied()
    }

    /// Sets where its requests go, once.
    pub fn reaches(&self, upstream: SocketAddr) {
        // A connection is made once, so a second call has the same address.
        let _ = self.upstream.set(upstream);
    }

    /// The name in the certificate that the client has shown; none where it has shown none.
    pub fn certificate(&self) -> Option<&str> {
        self.certificate.get().map(AsRef::as_ref)
    }

    /// Sets the name in the client's certificate, once, cut off where it is too long for a report.
    pub fn certified(&self, name: &str) {
        let printable = name.chars().filter(|c| !c.is_control());
        let name: String = printable.take(MAX_CERTIFICATE_NAME).collect();
        // A client shows one certificate.
        let _ = self.certificate.set(name.into());
    }

    /// Whether the client's connection is encrypted; none where that is not known. What can be read of a record was
    /// not, unless something else was set.
    pub fn encryption(&self) -> Option<Encryption> {
        let of_record = self.is_recorded.then_some(Encryption::Plain);
        self.encryption.get().copied().or(of_record)
    }

    /// Sets how the client's connection is encrypted, once.
    pub fn encrypted(&self, how: Encryption) {
        // A connection is made once.
        let _ = self.encryption.set(how);
    }

    /// Whether a request may be in flight.
    ///
    /// The count of requests without a whole response cannot be trusted everywhere: it misses requests in
    /// compressed segments, stops where a connection turns opaque, and is too low after a request with
    /// several responses. So a request is in flight as well while nothing has come back since the client sent
    /// last. Behind a response, other requests that the count misses go unnoticed.
    pub fn has_request_in_flight(&self) -> bool {
        let is_counted = !self.is_opaque() && self.in_flight.load(Ordering::Relaxed) > 0;
        is_counted || self.client_sent_last.load(Ordering::Relaxed)
    }

    /// Bytes forwarded so far, both directions together.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Requests that have begun so far, those inside compressed segments not counted.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Acquire)
    }

    /// Whether any bytes of requests were left out.
    pub fn has_gaps(&self) -> bool {
        self.request_gaps() > 0
    }

    pub(super) fn request_gaps(&self) -> u64 {
        self.requests_gaps.load(Ordering::Acquire)
    }

    /// Whether a part of a PREPARE or of the answer to one was left out, perhaps: the room kept for them was
    /// full.
    pub fn misses_prepares(&self) -> bool {
        self.prepares_missed.load(Ordering::Acquire)
    }

    pub(super) fn miss_prepare(&self) {
        self.prepares_missed.store(true, Ordering::Release);
    }

    /// Compressed segments of requests that were left out so far.
    pub fn hidden_segments(&self) -> u64 {
        self.hidden_segments.load(Ordering::Acquire)
    }

    /// All requests of the connection by opcode; known once it is closed, where some were left out.
    pub fn requests_by_opcode(&self) -> Option<&OpcodeCounts> {
        self.ended.get().map(|ended| &ended.0)
    }

    /// Whether the client has begun a request and never finished it; known once the connection is closed, where some
    /// requests were left out.
    pub fn ends_unfinished(&self) -> bool {
        self.ended.get().is_some_and(|ended| ended.1)
    }

    pub(super) fn end_requests(&self, opcodes: OpcodeCounts, is_unfinished: bool) {
        // There is one tap of requests.
        let _ = self.ended.set(Box::new((opcodes, is_unfinished)));
    }

    pub(super) fn count_requests(&self, requests: u32) {
        add(&self.requests, u64::from(requests));
    }

    pub(super) fn count_gap(&self, hidden_segments: u32) {
        add(&self.requests_gaps, 1);
        add(&self.hidden_segments, u64::from(hidden_segments));
    }

    /// Whether one of its directions could not be cut: the connection is only forwarded from then on.
    pub fn is_opaque(&self) -> bool {
        self.cutting() == Cutting::Ended
    }

    #[inline]
    pub(super) fn cutting(&self) -> Cutting {
        match self.cutting.load(Ordering::Relaxed) {
            0 => Cutting::GoesOn,
            1 => Cutting::AwaitsRefusal,
            2 => Cutting::Refused,
            _ => Cutting::Ended,
        }
    }

    pub(super) fn cut_as(&self, cutting: Cutting) {
        self.cutting.store(cutting as u8, Ordering::Relaxed);
    }

    /// Whether the client is logged in: the node sent READY or AUTH_SUCCESS, or a first compressed segment,
    /// which hides its opcode. On opaque connections, whether the node sent anything.
    pub fn is_logged_in(&self) -> bool {
        self.logged_in.load(Ordering::Relaxed)
    }

    pub(super) fn log_in(&self) {
        self.logged_in.store(true, Ordering::Relaxed);
    }

    /// Whether the data path is done with the connection: no more captures follow.
    pub fn is_closed(&self) -> bool {
        self.closed_at.load(Ordering::Acquire) != OPEN
    }

    /// Whether it was open at that time.
    pub fn was_open(&self, at: Moment) -> bool {
        self.closed_at.load(Ordering::Acquire) > at.unix_nanoseconds()
    }

    /// Notes that no more captures follow; the first time counts.
    pub fn close(&self, at: Moment) {
        let at = at.unix_nanoseconds().min(OPEN - 1);
        let _was_closed = self
            .closed_at
            .compare_exchange(OPEN, at, Ordering::Release, Ordering::Relaxed);
    }

    pub(super) fn count(&self, direction: Direction, in_flight: i64, bytes: usize) {
        self.client_sent_last
            .store(direction == Direction::Request, Ordering::Relaxed);
        if in_flight != 0 {
            let before = self.in_flight.load(Ordering::Relaxed);
            self.in_flight.store(before + in_flight, Ordering::Relaxed);
        }
        add(&self.bytes, bytes as u64);
    }
}

/// Common names have at most 64 characters (RFC 5280); names of other kinds may have any number.
const MAX_CERTIFICATE_NAME: usize = 100;

/// Adds to a counter with a single writer, which is cheaper than an atomic addition.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Release);
}
