//! What a connection yields: requests with their responses, and what is missing.

use bytes::Bytes;
use cqlens_proto::{
    cutter::OpcodeCounts,
    envelope::{Envelope, Header},
    stream::{EnvelopeHead, LongEnvelope},
};

use cqlens_capture::Moment;

/// What a connection yields. Each request is in exactly one of these.
#[derive(Debug)]
pub(crate) enum ConnectionEvent {
    /// A request with its response, or without one.
    Exchange(RawExchange),
    /// A request that could not be decoded, or of which a part was left out.
    UndecodedRequest,
    /// Requests that did not reach the audit, or not as a whole.
    MissingRequests(MissingRequests),
    /// A response that could not be decoded, or has no request.
    LostResponse,
}

/// Requests that are missing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MissingRequests {
    /// How many; a compressed segment counts as one.
    pub(crate) requests: u64,
    /// What is known of their opcodes, now or of requests that were missing before.
    pub(crate) opcodes: OpcodeCounts,
}

impl MissingRequests {
    /// So many, of which nothing is known.
    pub(crate) fn requests(requests: u64) -> Self {
        Self {
            requests,
            opcodes: OpcodeCounts::default(),
        }
    }
}

/// A request with what came back, as envelopes.
#[derive(Debug)]
pub(crate) struct RawExchange {
    /// The request, or its head.
    pub(crate) request: Envelope,
    /// Length of its body in bytes, uncompressed; of a request that is too long to be kept, `request` has
    /// less.
    pub(crate) request_len: usize,
    /// When its last byte came.
    pub(crate) requested_at: Moment,
    /// The response; none if it never came, or was lost. With the time at which its first byte came, if that
    /// is known.
    pub(crate) response: Option<(ReceivedResponse, Option<Moment>)>,
    /// How many times USE had changed the keyspace of the connection when the request came.
    pub(crate) keyspace_changes: u64,
    /// There is no response because the connection has ended: the client has not received one either.
    pub(crate) cut_off: bool,
}

/// A response as it came.
#[derive(Debug)]
pub(crate) enum ReceivedResponse {
    /// In one piece, or put together.
    Whole(Envelope),
    /// The head of one that is too long to be kept, or of an error of which no more came.
    Head(Box<EnvelopeHead>),
    /// A long result in parts.
    Long(Box<LongEnvelope>),
}

impl RawExchange {
    /// Whether there is only the head of the request.
    #[inline]
    pub(crate) fn is_request_cut(&self) -> bool {
        self.request.body.len() < self.request_len
    }

    /// Makes the bytes its own: parts of what the data path reads into would keep all of that.
    pub(crate) fn detach(&mut self) {
        detach(&mut self.request);
        match &mut self.response {
            Some((ReceivedResponse::Whole(envelope), _)) => detach(envelope),
            Some((ReceivedResponse::Head(head), _)) => detach(&mut head.envelope),
            Some((long @ ReceivedResponse::Long(_), _)) => {
                if let ReceivedResponse::Long(parts) = long {
                    *long = ReceivedResponse::Whole(parts.join());
                }
            }
            None => {}
        }
    }
}

/// Copies the body.
pub(crate) fn detach(envelope: &mut Envelope) {
    envelope.body = Bytes::copy_from_slice(&envelope.body);
}

impl ReceivedResponse {
    pub(crate) fn header(&self) -> &Header {
        match self {
            Self::Whole(envelope) => &envelope.header,
            Self::Head(head) => &head.envelope.header,
            Self::Long(long) => &long.header,
        }
    }

    /// Length of the body in bytes, uncompressed.
    pub(crate) fn body_len(&self) -> usize {
        match self {
            Self::Whole(envelope) => envelope.body.len(),
            Self::Head(head) => head.body_len,
            Self::Long(long) => long.body_len(),
        }
    }

    /// How much of that is kept.
    pub(crate) fn kept(&self) -> usize {
        match self {
            Self::Head(head) => head.envelope.body.len(),
            Self::Whole(_) | Self::Long(_) => self.body_len(),
        }
    }
}
