//! One direction of a connection: chunks become envelopes.

use std::sync::Arc;

use cqlens_proto::{
    cutter::{Framing, Negotiated},
    envelope::{Direction, Envelope, Opcode},
    stream::{EnvelopeStream, Gap, StreamItem},
};

use crate::audit::connection::budget::{Budget, BudgetShare};
use cqlens_capture::{Capture, Moment};

/// Results that are longer than this, and in parts, are put together only where their rows are read.
const LONG: usize = 16 << 10;

/// How much is kept of bodies that are too long to be kept as a whole: metadata and warnings of a result are
/// rarely longer, nor is what stands before the values of a request.
pub(crate) const HEAD: usize = 64 << 10;

/// One direction.
#[derive(Debug)]
pub(crate) struct Side {
    stream: EnvelopeStream,
    /// What the envelope that is being joined takes up.
    kept: BudgetShare,
    /// When the first byte of the envelope that is being joined came.
    pub(crate) begun: Option<Moment>,
    /// Something before the next chunk is missing: the place is found again at its boundary, or at that of a
    /// later one.
    pub(crate) lost: bool,
}

impl Side {
    /// A direction of a connection that is just opened.
    pub(crate) fn new(direction: Direction, negotiated: &Arc<Negotiated>, budget: &Budget) -> Self {
        Self {
            stream: EnvelopeStream::new(direction, Arc::clone(negotiated))
                .with_long_results(LONG)
                .with_heads(HEAD),
            kept: BudgetShare::of(budget.clone()),
            begun: None,
            lost: false,
        }
    }

    /// The envelope that a chunk is, where it is just one: what most are, and what needs no feeding.
    #[inline]
    pub(crate) fn take_envelope(&mut self, capture: &mut Capture) -> Option<Envelope> {
        let goes_on = !self.lost && capture.after_gap.is_none() && capture.gap == 0;
        if !goes_on || capture.boundary != Some((0, Framing::Envelopes)) {
            return None;
        }
        let taken = self.stream.take_envelope(std::mem::take(&mut capture.bytes));
        taken.map_err(|chunk| capture.bytes = chunk).ok()
    }

    /// The opcode of an envelope that has begun and has no end.
    pub(crate) fn unfinished(&self) -> Option<Opcode> {
        self.stream.unfinished()
    }

    pub(crate) fn feed(&mut self, capture: Capture) {
        let compression = capture.connection.negotiated.compression();
        if self.lost {
            self.lost = capture.boundary.is_none();
            let (boundary, framing) = match capture.boundary {
                Some((offset, framing)) => (Some(offset), framing),
                None => (None, Framing::Envelopes),
            };
            self.stream.feed_after_gap(
                capture.bytes,
                Gap {
                    boundary,
                    framing,
                    compression,
                },
            );
            return;
        }
        if capture.gap > 0 {
            self.stream.skip_gap(capture.gap);
        }
        if let Some((_, framing @ Framing::Segments(_))) = capture.boundary {
            // The other direction's chunk that said so may have been left out.
            self.stream.learn(framing, compression);
        }
        self.stream.feed(capture.bytes);
    }

    /// The next item of the chunk that came at `at` if it is an envelope that lies whole in it, with the time
    /// at which its first byte came.
    #[inline(always)]
    pub(crate) fn next_whole(&mut self, at: Moment) -> Option<(Envelope, Moment)> {
        let envelope = self.stream.next_whole()?;
        Some((envelope, self.begun.take().unwrap_or(at)))
    }

    /// The next item of the chunk that came at `at`, with the time at which its first byte came.
    pub(crate) fn next(&mut self, at: Moment) -> Option<(StreamItem, Moment)> {
        match self.stream.next_item() {
            Some(item) => Some((item, self.begun.take().unwrap_or(at))),
            None => {
                if self.begun.is_none() && self.stream.is_joining() {
                    self.begun = Some(at);
                }
                if !self.kept.change_to(self.stream.kept()) {
                    self.stream.skip();
                }
                None
            }
        }
    }
}
