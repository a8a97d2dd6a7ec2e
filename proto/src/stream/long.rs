//! Long results that nobody has put together.

use bytes::{Bytes, BytesMut};

use crate::envelope::{Envelope, Header};

/// Parts shorter than this are copied together: a part costs memory of its own, and keeps alive what it was cut from.
const MIN_PART: usize = 16 * 1024;

/// A RESULT whose body came in parts. Its beginning tells the metadata and the number of rows; most readers need no more, and putting
/// the rest together would cost them more than reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LongEnvelope {
    /// As on the wire.
    pub header: Header,
    parts: Vec<Bytes>,
    /// Short parts after `parts`.
    short: BytesMut,
    body_len: usize,
}

impl LongEnvelope {
    pub(super) fn new(header: Header) -> Self {
        Self {
            header,
            parts: Vec::new(),
            short: BytesMut::new(),
            body_len: 0,
        }
    }

    pub(super) fn add(&mut self, part: Bytes) {
        self.body_len += part.len();
        if part.len() < MIN_PART {
            self.short.extend_from_slice(&part);
            return;
        }
        if !self.short.is_empty() {
            self.parts.push(self.short.split().freeze());
        }
        self.parts.push(part);
    }

    /// Length of the body in bytes, as far as it has come.
    pub fn body_len(&self) -> usize {
        self.body_len
    }

    /// The beginning of the body, as an envelope whose body ends too early.
    pub fn head(&self) -> Envelope {
        let body = match self.parts.first() {
            Some(first) => first.clone(),
            None => Bytes::copy_from_slice(&self.short),
        };
        Envelope {
            header: self.header,
            body,
        }
    }

    /// The whole envelope. O(length).
    pub fn join(&self) -> Envelope {
        let mut body = BytesMut::with_capacity(self.body_len);
        for part in &self.parts {
            body.extend_from_slice(part);
        }
        body.extend_from_slice(&self.short);
        Envelope {
            header: self.header,
            body: body.freeze(),
        }
    }
}
