//! What the two directions of a connection learn from each other.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::handshake::Handshake;
use crate::compress::Compression;
use crate::envelope::{Header, Opcode, StreamId};
use crate::message::StartupScan;
use crate::segment::Encoding;

/// What both directions of one connection have to agree on; written by whichever direction learns it.
///
/// The client's STARTUP names the compression, if it is the one that the server [accepts](Handshake); the
/// server's READY or AUTHENTICATE in version 5 starts the segments.
#[derive(Debug, Default)]
pub struct Negotiated {
    compression: AtomicU8,
    segments: AtomicU8,
    /// Whether a STARTUP was seen that the server has accepted: what it names is certain then.
    is_settled: AtomicBool,
    startups: Mutex<Handshake<Compression>>,
    /// Whether `prepares` holds any, which is checked for every answer.
    expects_prepared: AtomicBool,
    /// PREPAREs whose answers have not begun.
    prepares: Mutex<BTreeSet<StreamId>>,
}

/// More PREPAREs in flight on one connection are handled like other requests.
const MAX_PREPARES: usize = 4_096;

/// How the bytes of a connection are framed at some point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Envelope after envelope: versions 3 and 4, DSE, and version 5 until it is set up.
    Envelopes,
    /// Segments around them.
    Segments(Encoding),
}

impl Negotiated {
    /// A connection without any bytes yet.
    pub fn new() -> Self {
        Negotiated::default()
    }

    /// What STARTUP named: the one that the server has accepted, or will if it does not refuse it.
    pub fn compression(&self) -> Compression {
        match self.compression.load(Ordering::Acquire) {
            1 => Compression::Lz4,
            2 => Compression::Snappy,
            _ => Compression::None,
        }
    }

    /// How the bytes are framed from now on.
    #[inline]
    pub fn framing(&self) -> Framing {
        if self.segments.load(Ordering::Acquire) == 0 {
            return Framing::Envelopes;
        }
        Framing::Segments(Encoding::of(self.compression()))
    }

    /// Records what STARTUP named, where it was not seen.
    pub fn set_compression(&self, compression: Compression) {
        let number = match compression {
            Compression::None => 0,
            Compression::Lz4 => 1,
            Compression::Snappy => 2,
        };
        self.compression.store(number, Ordering::Release);
    }

    /// Whether bodies are known not to be compressed, whatever their headers say: servers read the flag only
    /// where a compression was agreed on.
    pub(crate) fn is_never_compressed(&self) -> bool {
        self.is_settled() && self.compression() == Compression::None
    }

    #[inline]
    fn is_settled(&self) -> bool {
        self.is_settled.load(Ordering::Acquire)
    }

    /// Learns from a client's STARTUP that has passed.
    #[cold]
    pub(crate) fn learn_from_startup(&self, startup: &StartupScan) {
        // One that cannot be read is for the server to refuse.
        if let Some(compression) = startup.compression() {
            self.shake_hands(|startups| startups.propose(&startup.header, compression));
        }
    }

    /// Learns from the header of a response whether the server accepted a STARTUP, and a version with
    /// segments.
    #[inline]
    pub fn learn_from_response(&self, header: &Header) {
        let may_answer_startup = matches!(
            header.opcode,
            Opcode::READY | Opcode::AUTHENTICATE | Opcode::ERROR
        );
        if may_answer_startup && !self.is_settled() {
            self.learn_from_answer(header);
        }
    }

    #[cold]
    fn learn_from_answer(&self, header: &Header) {
        self.shake_hands(|startups| startups.answer(header));
        if header.opcode != Opcode::ERROR && header.version.uses_segments() {
            self.start_segments();
        }
    }

    /// Takes a step; what is in force by it is what the bytes from there on are read by.
    fn shake_hands(&self, step: impl FnOnce(&mut Handshake<Compression>)) {
        let mut startups = self.startups.lock().unwrap_or_else(PoisonError::into_inner);
        if startups.is_settled() {
            return;
        }
        step(&mut startups);
        if let Some(compression) = startups.in_force() {
            self.set_compression(*compression);
        }
        self.is_settled.store(startups.is_settled(), Ordering::Release);
    }

    /// Records that the server accepted a version with segments.
    pub fn start_segments(&self) {
        self.segments.store(1, Ordering::Release);
    }

    /// Whether the answer to any PREPARE is still to come.
    #[inline]
    pub(super) fn expects_prepared(&self) -> bool {
        self.expects_prepared.load(Ordering::Relaxed)
    }

    /// Records that a PREPARE has passed.
    pub(super) fn expect_prepared(&self, stream: StreamId) {
        let mut prepares = self.prepares();
        if prepares.len() < MAX_PREPARES {
            prepares.insert(stream);
            self.expects_prepared.store(true, Ordering::Relaxed);
        }
    }

    /// Whether an answer with this stream id is one to a PREPARE; it is expected no longer then.
    pub(super) fn answers_prepare(&self, stream: StreamId) -> bool {
        let mut prepares = self.prepares();
        let expected = prepares.remove(&stream);
        self.expects_prepared
            .store(!prepares.is_empty(), Ordering::Relaxed);
        expected
    }

    fn prepares(&self) -> MutexGuard<'_, BTreeSet<StreamId>> {
        // Nothing that holds the lock can panic.
        self.prepares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
