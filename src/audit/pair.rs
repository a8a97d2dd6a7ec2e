//! What is found on a connection: requests with their responses, and what is missing.

use bytes::Bytes;
use cqlens_proto::{
    cutter::OpcodeCounts,
    envelope::{Envelope, Header},
    stream::LongEnvelope,
};

use super::session::{Keyspace, Session};
use crate::capture::Moment;

/// What has been found on a connection.
#[derive(Debug)]
pub(super) enum Found {
    /// A request with its response, or without one.
    Pair(Pair),
    /// A request that could not be decoded, or of which a part was left out.
    UndecodedRequest,
    /// Requests that did not reach the audit, or not as a whole.
    Dropped(Missing),
    /// A response that could not be decoded, or has no request.
    LostResponse,
}

/// Requests that are missing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Missing {
    /// How many; a compressed segment counts as one.
    pub(super) requests: u64,
    /// What is known of their opcodes, now or of requests that were missing before.
    pub(super) opcodes: OpcodeCounts,
}

impl Missing {
    /// So many, of which nothing is known.
    pub(super) fn requests(requests: u64) -> Self {
        Self {
            requests,
            opcodes: OpcodeCounts::default(),
        }
    }
}

/// A request with what came back.
#[derive(Debug)]
pub(super) struct Pair {
    /// The request.
    pub(super) request: Envelope,
    /// When its last byte came.
    pub(super) requested_at: Moment,
    /// The response; none if it never came, or was lost. With the time at which its first byte came, if that is known.
    pub(super) response: Option<(Received, Option<Moment>)>,
    /// The keyspace that was set when the request came, if another one is set by now.
    pub(super) keyspace: Option<Keyspace>,
    /// There is no response because the connection has ended: nobody has received one.
    pub(super) cut_off: bool,
}

/// A response as it came.
#[derive(Debug)]
pub(super) enum Received {
    /// In one piece, or put together.
    Whole(Envelope),
    /// An error of which only the beginning came.
    CutError(Box<Envelope>),
    /// A long result in parts.
    Long(Box<LongEnvelope>),
}

impl Pair {
    /// The keyspace of the request's unqualified names, on a connection with `session`.
    pub(super) fn keyspace<'k>(&'k self, session: &'k Session) -> Option<&'k str> {
        match &self.keyspace {
            Some(then) => then.as_deref(),
            None => session.keyspace(),
        }
    }

    /// Makes the bytes its own: parts of what the data path reads into would keep all of that.
    pub(super) fn detach(&mut self) {
        detach(&mut self.request);
        match &mut self.response {
            Some((Received::Whole(envelope), _)) => detach(envelope),
            Some((Received::CutError(envelope), _)) => detach(envelope),
            Some((long @ Received::Long(_), _)) => {
                if let Received::Long(parts) = long {
                    *long = Received::Whole(parts.join());
                }
            }
            None => {}
        }
    }
}

/// Copies the body.
pub(super) fn detach(envelope: &mut Envelope) {
    envelope.body = Bytes::copy_from_slice(&envelope.body);
}

impl Received {
    pub(super) fn header(&self) -> &Header {
        match self {
            Self::Whole(envelope) => &envelope.header,
            Self::CutError(envelope) => &envelope.header,
            Self::Long(long) => &long.header,
        }
    }

    /// Length of the body in bytes, uncompressed.
    pub(super) fn body_len(&self) -> usize {
        match self {
            Self::Whole(envelope) => envelope.body.len(),
            Self::CutError(envelope) => envelope.header.body_len as usize,
            Self::Long(long) => long.body_len(),
        }
    }
}
