//! What leaves the data path: chunks of bytes with the places where envelopes begin, handed over by reference.
//!
//! The hand-over is bounded and wakes nobody. Where it is full, chunks are left out and counted, and the next one
//! that fits says that something is missing and where the first whole envelope begins. The last part of the room is kept for
//! PREPARE and its answers: without those, later executions could not be counted.

mod clock;
mod connection;
mod feed;
mod queue;
mod refusal;
mod tap;

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::{
    cutter::{Framing, OpcodeCounts},
    envelope::Direction,
};

pub use clock::{Clock, Moment};
pub use connection::{Connection, ConnectionId};
pub use feed::{Feed, Stray};
pub use queue::{Backlog, Dropped, Limits, Queue, TlsFailure, opaque_name};
pub use refusal::Refusal;
pub use tap::Tap;

/// Bytes that passed in one direction of a connection, as they were read.
#[derive(Debug, Clone)]
pub struct Capture {
    /// Whose bytes these are.
    pub connection: Arc<Connection>,
    /// Requests or responses.
    pub direction: Direction,
    /// When they were read.
    pub at: Moment,
    /// Bytes of the envelope that is passing that nobody has; they come before `bytes`. Only recorded traffic has such holes.
    pub hole: usize,
    /// The bytes: parts of envelopes, whole ones, or several.
    pub bytes: Bytes,
    /// Where the first envelope (or segment) begins in `bytes`, and how it is framed; none where one goes on
    /// through all of it.
    pub boundary: Option<(usize, Framing)>,
    /// How many envelopes of this direction began before that place, since the connection was opened; those inside
    /// compressed segments are not among them.
    pub begun: u64,
    /// Said where bytes between the last boundary that was handed over and these were left out: all envelopes of `begun`, by
    /// opcode.
    pub after_gap: Option<Box<OpcodeCounts>>,
    /// Chunks of requests of the connection that had been left out before these bytes were read.
    pub request_gaps: u64,
}
