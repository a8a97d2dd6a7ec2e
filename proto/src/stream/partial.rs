//! Segments with missing bytes.
//!
//! The checksum of the header still says where such a segment ends. The one of the payload cannot be checked,
//! so the bytes of the payload are read like envelopes without a segment around them.

use bytes::Bytes;

use crate::segment::SegmentHeader;

/// A segment with a gap, or with several; the [walk](crate::walk::SegmentWalk) knows where it ends.
#[derive(Debug)]
pub(super) struct PartialSegment {
    pub(super) header: SegmentHeader,
    /// The payload before the first gap, until it is taken.
    begun: Option<Bytes>,
    /// Missing bytes of the payload that come next.
    gap: usize,
}

/// What comes next of a segment with a gap.
#[derive(Debug)]
pub(super) enum SegmentPart {
    /// All of the payload before the first gap.
    Begun(SegmentHeader, Bytes),
    /// So many bytes of the payload are missing.
    Gap(usize),
    /// More of the payload.
    Payload(Bytes),
    /// The segment is over.
    End(SegmentHeader),
}

impl PartialSegment {
    /// A segment of which `begun` has come: payload, and perhaps a part of the CRC32 behind it.
    pub(super) fn new(header: SegmentHeader, mut begun: Bytes) -> Self {
        begun.truncate(header.payload_len);
        PartialSegment {
            header,
            begun: Some(begun),
            gap: 0,
        }
    }

    /// Skips `length` bytes of the payload.
    pub(super) fn skip_gap(&mut self, length: usize) {
        self.gap += length;
    }

    /// What comes before the next bytes.
    pub(super) fn next(&mut self) -> Option<SegmentPart> {
        if let Some(begun) = self.begun.take() {
            return Some(SegmentPart::Begun(self.header, begun));
        }
        (self.gap > 0).then(|| SegmentPart::Gap(std::mem::take(&mut self.gap)))
    }
}
