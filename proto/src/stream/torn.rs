//! Segments of which something is missing.
//!
//! The checksum of their header, which holds, says where they end. That of the payload cannot be checked: what is there of it is read as
//! envelopes are that have no segment around them.

use bytes::{Buf, Bytes};

use crate::segment::{SegmentHeader, TRAILER_LEN};

/// A segment with a hole, or with several.
#[derive(Debug)]
pub(super) struct TornSegment {
    header: SegmentHeader,
    /// The payload before the first hole, until it is taken.
    begun: Option<Bytes>,
    /// Bytes of the payload that nobody has, and that come next.
    hole: usize,
    /// Bytes of the payload behind those.
    payload_left: usize,
    trailer_left: usize,
}

/// What comes next of a torn segment.
#[derive(Debug)]
pub(super) enum TornPart {
    /// All that is there before the first hole.
    Begun(SegmentHeader, Bytes),
    /// So many bytes of the payload are missing.
    Hole(usize),
    /// More of the payload.
    Payload(Bytes),
    /// The segment is over.
    End(SegmentHeader),
}

impl TornSegment {
    /// A segment of which `begun` has come: payload, and perhaps a part of the CRC32 behind it.
    pub(super) fn new(header: SegmentHeader, mut begun: Bytes) -> Self {
        let trailer = begun.len().saturating_sub(header.payload_len);
        begun.truncate(header.payload_len);
        TornSegment {
            header,
            hole: 0,
            payload_left: header.payload_len - begun.len(),
            trailer_left: TRAILER_LEN.saturating_sub(trailer),
            begun: Some(begun),
        }
    }

    /// Bytes that nobody has come next; beyond the end of the segment that means nothing.
    pub(super) fn pass_over(&mut self, length: usize) {
        let of_payload = length.min(self.payload_left);
        self.hole += of_payload;
        self.payload_left -= of_payload;
        self.trailer_left = self.trailer_left.saturating_sub(length - of_payload);
    }

    /// The next part; `None` when `source` is used up. After [`TornPart::End`] there is none.
    pub(super) fn next(&mut self, source: &mut Bytes) -> Option<TornPart> {
        if let Some(begun) = self.begun.take() {
            return Some(TornPart::Begun(self.header, begun));
        }
        if self.hole > 0 {
            return Some(TornPart::Hole(std::mem::take(&mut self.hole)));
        }
        if self.payload_left > 0 {
            let part = source.split_to(self.payload_left.min(source.len()));
            self.payload_left -= part.len();
            return (!part.is_empty()).then_some(TornPart::Payload(part));
        }
        let passed = self.trailer_left.min(source.len());
        source.advance(passed);
        self.trailer_left -= passed;
        (self.trailer_left == 0).then_some(TornPart::End(self.header))
    }
}
