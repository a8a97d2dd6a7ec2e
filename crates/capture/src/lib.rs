#![doc = include_str!("../README.md")]
//!
//! What leaves the data path: chunks of bytes with the positions where envelopes begin, handed over by
//! reference.
//!
//! A [`Tap`] hands over live traffic through a [`Queue`], which is bounded, drops and counts, and neither
//! blocks nor wakes a thread. After a drop, the next capture says that bytes are missing and where the first
//! whole envelope begins. The last part of the capacity is reserved for PREPARE and its answers: without
//! those, later executions could not be counted. A [`ReplayTap`] hands over recorded traffic through a
//! [`ReplayQueue`], which waits instead. The auditor sees either as an [`AuditorQueue`].
//!
//! [`memory`] is the budget that all keep to that observe traffic, [`pulse`] the sign of life of their threads,
//! [`priority`] the one that they have.

mod auditor_queue;
mod clock;
mod connection;
mod forwarding;
pub mod memory;
pub mod priority;
pub mod pulse;
mod queue;
mod refusal;
mod replay_queue;
mod replay_tap;
mod tap;
mod tap_core;

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::{
    cutter::{Framing, OpcodeCounts},
    envelope::Direction,
};

pub use auditor_queue::AuditorQueue;
pub use clock::{Clock, Moment};
pub use connection::{Connection, ConnectionId, Encryption};
pub use forwarding::{Forwarded, Forwarding, TIMED_PART, TIMES_WITHIN_NS};
pub use queue::{Backlog, Dropped, OPAQUE_NAMES, Queue, QueueLimits, TlsFailure, opaque_name};
pub use refusal::Refusal;
pub use replay_queue::ReplayQueue;
pub use replay_tap::{Desync, ReplayTap};
pub use tap::Tap;

/// Bytes that passed in one direction of a connection, as they were read.
#[derive(Debug, Clone)]
pub struct Capture {
    /// The connection that the bytes passed on.
    pub connection: Arc<Connection>,
    /// Requests or responses.
    pub direction: Direction,
    /// When they were read.
    pub at: Moment,
    /// Number of bytes that are missing just before `bytes`, in the current envelope. Always 0 for live
    /// traffic.
    pub gap: usize,
    /// The bytes: parts of envelopes, whole ones, or several.
    pub bytes: Bytes,
    /// Where the first envelope (or segment) begins in `bytes`, and how it is framed; none where one goes on
    /// through all of them.
    pub boundary: Option<(usize, Framing)>,
    /// How many envelopes of this direction began before that boundary, since the connection was opened;
    /// those inside compressed segments are not counted.
    pub begun: u64,
    /// All envelopes of `begun`, by opcode; present where bytes between the last boundary that was handed
    /// over and these are missing.
    pub after_gap: Option<Box<OpcodeCounts>>,
    /// Chunks of requests of the connection that had been left out before these bytes were read.
    pub request_gaps: u64,
}

#[cfg(test)]
mod testing;
