//! Envelopes on their way out: compressed or in segments, whatever the connection agreed on.
//!
//! For senders of envelopes (a client, a test node); the counterpart of [`crate::stream`].

use std::sync::Arc;

use crate::compress::{self, Compression};
use crate::cutter::{Framing, Negotiated};
use crate::envelope::{Envelope, HEADER_LEN};
use crate::error::EncodeError;
use crate::segment::{self, Encoding, MAX_PAYLOAD};
use bytes::BytesMut;

/// Collects envelopes until they are written. Small ones share a segment, as Cassandra's flusher and drivers
/// do it.
#[derive(Debug)]
pub struct Outgoing {
    negotiated: Arc<Negotiated>,
    waiting: BytesMut,
    wire: BytesMut,
}

impl Outgoing {
    /// Nothing to send yet, on a connection that agreed on what `negotiated` says at the time of each
    /// envelope.
    pub fn new(negotiated: Arc<Negotiated>) -> Outgoing {
        Outgoing {
            negotiated,
            waiting: BytesMut::new(),
            wire: BytesMut::new(),
        }
    }

    /// Adds an envelope.
    ///
    /// # Errors
    /// If its body is longer than a header can say.
    pub fn push(&mut self, envelope: &Envelope) -> Result<(), EncodeError> {
        match self.negotiated.framing() {
            Framing::Envelopes => {
                // An empty body has nothing to compress, and STARTUP must be readable without knowing how.
                let is_bare = envelope.body.is_empty() || envelope.header.version.uses_segments();
                let agreed = self.negotiated.compression();
                let compression = if is_bare { Compression::None } else { agreed };
                compress::encode_compressed(envelope, compression, &mut self.wire)
            }
            Framing::Segments(encoding) => self.push_into_segment(encoding, envelope),
        }
    }

    /// The bytes to write now.
    ///
    /// # Errors
    /// None in practice: segments are cut to size.
    pub fn take(&mut self) -> Result<BytesMut, EncodeError> {
        if let Framing::Segments(encoding) = self.negotiated.framing() {
            self.close_segment(encoding)?;
        }
        Ok(self.wire.split())
    }

    fn push_into_segment(&mut self, encoding: Encoding, envelope: &Envelope) -> Result<(), EncodeError> {
        if self.waiting.len() + HEADER_LEN + envelope.body.len() > MAX_PAYLOAD {
            self.close_segment(encoding)?;
        }
        envelope.encode(&mut self.waiting)?;
        if self.waiting.len() > MAX_PAYLOAD {
            self.close_segment(encoding)?;
        }
        Ok(())
    }

    fn close_segment(&mut self, encoding: Encoding) -> Result<(), EncodeError> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        segment::encode_envelopes(encoding, &self.waiting.split(), &mut self.wire)
    }
}
