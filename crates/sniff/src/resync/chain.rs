//! Judges whether bytes are a segment, or a chain of envelopes.

use bytes::Bytes;
use cqlens_proto::{
    compress::Compression,
    cutter::Framing,
    envelope::{Direction, HEADER_LEN, Header, Version},
    segment::{self, Encoding, SegmentHeader, TRAILER_LEN},
};

use super::{
    SyncPoint,
    evidence::{begins_header, evidence_of, is_plausible},
};

/// Consecutive envelopes so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chain {
    /// Their bytes.
    pub(super) length: usize,
    /// How many of them cannot be anything else.
    pub(super) conclusive: u32,
    pub(super) version: Option<Version>,
    pub(super) compression: Compression,
}

/// A chain of so many bytes is believed although no packet ends with it: longer than most values.
pub(super) const ENOUGH_BYTES: usize = 128 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChainVerdict {
    No,
    Maybe,
    /// Long enough to be believed, unless an earlier candidate may be right.
    Long(SyncPoint),
    Yes(SyncPoint),
}

impl ChainVerdict {
    pub(super) fn or(self, other: Self) -> Self {
        match (self, other) {
            (Self::Yes(_) | Self::Long(_), _) | (Self::Maybe, Self::No | Self::Maybe) => self,
            _ => other,
        }
    }
}

pub(super) fn judge_segment(bytes: &[u8], encoding: Encoding) -> ChainVerdict {
    let Some(header) = bytes.get(..encoding.header_len()) else {
        return ChainVerdict::Maybe;
    };
    // Reserved bits.
    let unused = match encoding {
        Encoding::Plain => header.get(2).map_or(0, |byte| byte & 0xfc),
        Encoding::Lz4 => header.get(4).map_or(0, |byte| byte & 0xf8),
    };
    if unused != 0 {
        return ChainVerdict::No;
    }
    let Ok(header) = SegmentHeader::decode(encoding, header) else {
        return ChainVerdict::No;
    };
    if header.payload_len == 0 {
        return ChainVerdict::No;
    }
    let start = encoding.header_len();
    let end = start + header.payload_len;
    let trailer = bytes.get(end..end + TRAILER_LEN).and_then(<[u8]>::first_chunk);
    let (Some(payload), Some(trailer)) = (bytes.get(start..end), trailer) else {
        return ChainVerdict::Maybe;
    };
    let payload = Bytes::copy_from_slice(payload);
    match segment::open_payload(&header, payload, *trailer) {
        Ok(_) => ChainVerdict::Yes(SyncPoint {
            framing: Framing::Segments(encoding),
            compression: match encoding {
                Encoding::Plain => Compression::None,
                Encoding::Lz4 => Compression::Lz4,
            },
            version: None,
        }),
        Err(_) => ChainVerdict::No,
    }
}

impl Chain {
    pub(super) fn new(version: Option<Version>) -> Self {
        Self {
            length: 0,
            conclusive: 0,
            version,
            compression: Compression::None,
        }
    }

    /// Extends the chain in `bytes`, which reach from its beginning to the end of the last packet.
    pub(super) fn follow(&mut self, bytes: &[u8], direction: Direction, ends_a_write: bool) -> ChainVerdict {
        loop {
            let rest = bytes.get(self.length..).unwrap_or_default();
            if rest.is_empty() {
                return match self.conclusive > 0 && ends_a_write {
                    true => ChainVerdict::Yes(self.point()),
                    false => self.so_far(),
                };
            }
            let Some(header) = Header::decode_from(rest) else {
                return match begins_header(rest, direction, self.version) {
                    true => self.so_far(),
                    false => ChainVerdict::No,
                };
            };
            if !is_plausible(&header, direction, self.version) {
                return ChainVerdict::No;
            }
            let end = HEADER_LEN + header.body_len as usize;
            let Some(body) = rest.get(HEADER_LEN..end) else {
                return self.so_far();
            };
            let Some((is_conclusive, used)) = evidence_of(&header, body) else {
                return ChainVerdict::No;
            };
            self.version = Some(header.version);
            self.conclusive += u32::from(is_conclusive);
            if used != Compression::None {
                self.compression = used;
            }
            self.length += end;
            // In version 5 only the envelopes of the handshake are bare; a segment follows the last of them.
            if header.version.uses_segments() && rest.len() > end {
                return ChainVerdict::No;
            }
        }
    }

    fn so_far(&self) -> ChainVerdict {
        match self.conclusive > 0 && self.length >= ENOUGH_BYTES {
            true => ChainVerdict::Long(self.point()),
            false => ChainVerdict::Maybe,
        }
    }

    fn point(&self) -> SyncPoint {
        SyncPoint {
            framing: Framing::Envelopes,
            compression: self.compression,
            version: self.version,
        }
    }
}
