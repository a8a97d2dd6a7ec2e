//! One record of a capture file, whatever its format.

use std::ops::Range;

use cqlens_capture::Moment;

/// Longer records are damage: the largest that tcpdump makes is 256 KiB.
pub(super) const MAX_RECORD: usize = 16 << 20;

/// A packet as a range of the bytes that contain it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PacketSpan {
    pub(super) at: Moment,
    pub(super) is_timed: bool,
    pub(super) link: i32,
    pub(super) length: usize,
    pub(super) begin: usize,
    pub(super) end: usize,
}

/// The result of reading one record.
pub(super) enum Record {
    /// Its length, and its packet if it has one.
    Whole(usize, Option<PacketSpan>),
    /// So many bytes are needed to go on.
    Incomplete(usize),
}

/// The range of `part` within `bytes`, of which it is a subslice.
pub(crate) fn range(part: &[u8], bytes: &[u8]) -> Range<usize> {
    let begin = (part.as_ptr() as usize).saturating_sub(bytes.as_ptr() as usize);
    begin..begin + part.len()
}
