//! Puts together what was split: envelopes over chunks or payloads, segments over chunks.

use bytes::{Buf, Bytes, BytesMut};

use super::long::LongEnvelope;
use crate::envelope::{Direction, Flags, HEADER_LEN, Header, MAX_BODY_LEN, Opcode};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::partial::Partial;
use crate::segment::{Encoding, MAX_HEADER_LEN, SegmentHeader, TRAILER_LEN};

/// The envelope that is being put together.
#[derive(Debug, Default)]
pub(super) struct EnvelopeJoin {
    header: Partial<HEADER_LEN>,
    body: Option<Body>,
}

#[derive(Debug)]
enum Body {
    /// Grows with the bytes that arrive, not with what the header claims.
    Keeping(Header, BytesMut),
    Collecting(Box<LongEnvelope>),
    /// So many bytes are still to come; with the beginning of an error's body.
    Skipping(Header, usize, Bytes),
}

/// An envelope that has passed.
pub(super) enum Joined {
    Whole(Header, Bytes),
    Long(Box<LongEnvelope>),
    Skipped(Header, Bytes, DecodeError),
}

impl EnvelopeJoin {
    pub(super) fn is_at_boundary(&self) -> bool {
        self.body.is_none() && self.header.is_empty()
    }

    /// Bytes of a body that are kept until the rest has come.
    pub(super) fn kept(&self) -> usize {
        match &self.body {
            Some(Body::Keeping(_, kept)) => kept.len(),
            Some(Body::Collecting(long)) => long.body_len(),
            Some(Body::Skipping(..)) | None => 0,
        }
    }

    /// Keeps nothing of the body, neither what has come nor the rest.
    pub(super) fn skip(&mut self) {
        let kept = self.kept();
        let (header, begun) = match &self.body {
            Some(Body::Keeping(header, kept)) => (*header, begun(header, kept)),
            Some(Body::Collecting(long)) => (long.header, Bytes::new()),
            Some(Body::Skipping(..)) | None => return,
        };
        self.body = Some(Body::Skipping(header, header.body_len as usize - kept, begun));
    }

    /// Moves on over bytes of the body that nobody has; beyond its end that means nothing.
    pub(super) fn pass_over(&mut self, length: usize) {
        self.skip();
        if let Some(Body::Skipping(_, left, _)) = &mut self.body {
            *left = left.saturating_sub(length);
        }
    }

    /// Takes bytes from `source` until an envelope is whole; `None` when `source` is used up.
    ///
    /// # Errors
    /// A header that cannot be one.
    pub(super) fn join(
        &mut self,
        direction: Direction,
        source: &mut Bytes,
        limits: BodyLimits,
    ) -> Result<Option<Joined>, DecodeError> {
        let max_body = limits.max;
        if self.body.is_none() {
            let (taken, header) = self.header.fill(HEADER_LEN, source);
            source.advance(taken);
            let Some(header) = header else { return Ok(None) };
            let header = Header::decode(&header);
            check(&header, direction)?;
            let body_len = header.body_len as usize;
            if body_len <= max_body && body_len <= source.len() {
                return Ok(Some(Joined::Whole(header, source.split_to(body_len))));
            }
            self.body = Some(if body_len > max_body {
                Body::Skipping(header, body_len, Bytes::new())
            } else if body_len > limits.join && is_plain_result(&header) {
                Body::Collecting(Box::new(LongEnvelope::new(header)))
            } else {
                Body::Keeping(header, BytesMut::with_capacity(body_len.min(MAX_RESERVED)))
            });
        }
        Ok(self.join_body(source, max_body))
    }

    fn join_body(&mut self, source: &mut Bytes, max_body: usize) -> Option<Joined> {
        match self.body.take()? {
            Body::Skipping(header, left, begun) => {
                let skipped = left.min(source.len());
                source.advance(skipped);
                if skipped < left {
                    self.body = Some(Body::Skipping(header, left - skipped, begun));
                    return None;
                }
                let kind = DecodeErrorKind::TooLarge {
                    announced: header.body_len as usize,
                    limit: max_body,
                };
                Some(Joined::Skipped(
                    header,
                    begun,
                    DecodeError {
                        what: "body",
                        offset: 0,
                        kind,
                    },
                ))
            }
            Body::Collecting(mut long) => {
                let missing = long.header.body_len as usize - long.body_len();
                let part = source.split_to(missing.min(source.len()));
                let is_whole = part.len() == missing;
                long.add(part);
                if !is_whole {
                    self.body = Some(Body::Collecting(long));
                    return None;
                }
                Some(Joined::Long(long))
            }
            Body::Keeping(header, mut kept) => {
                let missing = header.body_len as usize - kept.len();
                let part = source.split_to(missing.min(source.len()));
                kept.extend_from_slice(&part);
                if part.len() < missing {
                    self.body = Some(Body::Keeping(header, kept));
                    return None;
                }
                Some(Joined::Whole(header, kept.freeze()))
            }
        }
    }
}

/// The beginning of an error's body, which has its code: as much as a limited number of warnings and the code take. Of what is
/// compressed a part says nothing.
fn begun(header: &Header, kept: &[u8]) -> Bytes {
    let is_compressed = header.flags.contains(Flags::COMPRESSED) && !header.version.uses_segments();
    if header.opcode != Opcode::ERROR || is_compressed {
        return Bytes::new();
    }
    Bytes::copy_from_slice(kept.get(..MAX_BEGUN).unwrap_or(kept))
}

const MAX_BEGUN: usize = 4 << 10;

/// Room that a header alone can ask for.
const MAX_RESERVED: usize = 64 * 1024;

/// What to do with bodies of which length, in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyLimits {
    /// Longer ones are skipped.
    pub(super) max: usize,
    /// Longer ones of results are kept in parts.
    pub(super) join: usize,
}

/// Whether the beginning of a body can be read without the rest of it.
fn is_plain_result(header: &Header) -> bool {
    let is_compressed = header.flags.contains(Flags::COMPRESSED) && !header.version.uses_segments();
    header.opcode == Opcode::RESULT && !is_compressed
}

/// Whether a header can be one at all.
fn check(header: &Header, direction: Direction) -> Result<(), DecodeError> {
    let error = |what, kind| {
        Err(DecodeError {
            what,
            offset: 0,
            kind,
        })
    };
    if !header.version.is_known() {
        return error(
            "protocol version",
            DecodeErrorKind::Invalid(header.version.number().into()),
        );
    }
    if header.direction != direction {
        return error("direction", DecodeErrorKind::Invalid(header.opcode.0.into()));
    }
    if header.body_len > MAX_BODY_LEN {
        let (announced, limit) = (header.body_len as usize, MAX_BODY_LEN as usize);
        return error("body length", DecodeErrorKind::TooLarge { announced, limit });
    }
    Ok(())
}

/// Whether a part of an envelope is likely its first: it has a header of a version with segments and of a known opcode,
/// and a body that does not fit. Bytes from inside a body pass this about once in 2^30.
pub(super) fn begins_envelope(part: &[u8], direction: Direction) -> bool {
    Header::decode_from(part).is_some_and(|header| {
        header.version.uses_segments()
            && check(&header, direction).is_ok()
            && header.opcode.name().is_some()
            && header.body_len as usize > part.len() - HEADER_LEN
    })
}

/// The segment that is being put together.
#[derive(Debug, Default)]
pub(super) struct SegmentJoin {
    header: Partial<MAX_HEADER_LEN>,
    /// The payload and its CRC32; at most 128 KiB.
    rest: Option<(SegmentHeader, BytesMut)>,
}

impl SegmentJoin {
    pub(super) fn is_at_boundary(&self) -> bool {
        self.rest.is_none() && self.header.is_empty()
    }

    /// Takes bytes from `source` until a segment is whole; `None` when `source` is used up.
    ///
    /// # Errors
    /// A header whose checksum does not match.
    pub(super) fn join(
        &mut self,
        encoding: Encoding,
        source: &mut Bytes,
    ) -> Result<Option<(SegmentHeader, Bytes, [u8; TRAILER_LEN])>, DecodeError> {
        let (header, mut kept) = match self.rest.take() {
            Some(rest) => rest,
            None => {
                let header_len = encoding.header_len();
                let (taken, header) = self.header.fill(header_len, source);
                source.advance(taken);
                let Some(bytes) = header else { return Ok(None) };
                let header = SegmentHeader::decode(encoding, &bytes[..header_len])?;
                let rest_len = header.payload_len + TRAILER_LEN;
                if rest_len <= source.len() {
                    return Ok(Some(split_trailer(header, source.split_to(rest_len))));
                }
                (header, BytesMut::with_capacity(source.len()))
            }
        };
        let missing = header.payload_len + TRAILER_LEN - kept.len();
        let part = source.split_to(missing.min(source.len()));
        kept.extend_from_slice(&part);
        if part.len() < missing {
            self.rest = Some((header, kept));
            return Ok(None);
        }
        Ok(Some(split_trailer(header, kept.freeze())))
    }
}

fn split_trailer(header: SegmentHeader, mut payload: Bytes) -> (SegmentHeader, Bytes, [u8; TRAILER_LEN]) {
    let mut trailer = [0; TRAILER_LEN];
    trailer.copy_from_slice(&payload.split_off(header.payload_len));
    (header, payload, trailer)
}
