//! Puts together what was split: envelopes over chunks or payloads, segments over chunks.

use bytes::{Buf, Bytes, BytesMut};

use super::long::LongEnvelope;
use super::torn::{TornPart, TornSegment};
use crate::compress::LZ4_EXPANSION;
use crate::envelope::{Direction, Envelope, Flags, HEADER_LEN, Header, MAX_BODY_LEN, Opcode};
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
    /// The head, and how many bytes are still to come.
    Beginning(Header, BytesMut, usize),
    /// So many bytes are still to come; with the beginning of an error's body.
    Skipping(Header, usize, Bytes),
}

/// An envelope that has passed.
pub(super) enum Joined {
    Whole(Header, Bytes),
    Long(Box<LongEnvelope>),
    /// Of which the head was kept, as on the wire.
    Head(Header, Bytes),
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
            Some(Body::Beginning(_, head, _)) => head.len(),
            Some(Body::Skipping(..)) | None => 0,
        }
    }

    /// Keeps nothing of the body, neither what has come nor the rest.
    pub(super) fn skip(&mut self) {
        let after = |header: &Header, kept: usize| header.body_len as usize - kept;
        self.body = Some(match &self.body {
            Some(Body::Keeping(header, kept)) => {
                Body::Skipping(*header, after(header, kept.len()), begun(header, kept))
            }
            Some(Body::Collecting(long)) => {
                Body::Skipping(long.header, after(&long.header, long.body_len()), Bytes::new())
            }
            Some(Body::Beginning(header, head, left)) => Body::Skipping(*header, *left, begun(header, head)),
            Some(Body::Skipping(..)) | None => return,
        });
    }

    /// Moves on over bytes that nobody has, at most to the end of the body; how many lie beyond it. A header with a hole is none.
    pub(super) fn pass_over(&mut self, length: usize) -> usize {
        self.skip();
        self.header = Partial::default();
        let Some(Body::Skipping(_, left, _)) = &mut self.body else {
            return length;
        };
        let of_body = length.min(*left);
        *left -= of_body;
        length - of_body
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
        proof: Proof,
    ) -> Result<Option<Joined>, DecodeError> {
        let max_body = limits.max;
        if self.body.is_none() {
            let (taken, header) = self.header.fill(HEADER_LEN, source);
            source.advance(taken);
            let Some(header) = header else { return Ok(None) };
            let header = Header::decode(&header);
            check(&header, direction)?;
            if proof == Proof::Missing {
                check_inside_segment(&header)?;
            }
            let body_len = header.body_len as usize;
            if body_len <= max_body && body_len <= source.len() {
                return Ok(Some(Joined::Whole(header, source.split_to(body_len))));
            }
            self.body = Some(if body_len > max_body && limits.head > 0 {
                Body::Beginning(header, BytesMut::new(), body_len)
            } else if body_len > max_body {
                Body::Skipping(header, body_len, Bytes::new())
            } else if body_len > limits.join && is_plain_result(&header) {
                Body::Collecting(Box::new(LongEnvelope::new(header)))
            } else {
                Body::Keeping(header, BytesMut::with_capacity(body_len.min(MAX_RESERVED)))
            });
        }
        Ok(self.join_body(source, limits))
    }

    fn join_body(&mut self, source: &mut Bytes, limits: BodyLimits) -> Option<Joined> {
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
                    limit: limits.max,
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
            Body::Beginning(header, mut head, left) => {
                let part = source.split_to(left.min(source.len()));
                let kept = part.len().min(limits.head_of(&header).saturating_sub(head.len()));
                head.extend_from_slice(&part[..kept]);
                if part.len() < left {
                    self.body = Some(Body::Beginning(header, head, left - part.len()));
                    return None;
                }
                Some(Joined::Head(header, head.freeze()))
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

/// Whether `chunk` ends where the envelope does that it begins with.
#[inline]
pub(super) fn is_one_envelope(chunk: &[u8]) -> bool {
    Header::decode_from(chunk).is_some_and(|header| chunk.len() - HEADER_LEN == header.body_len as usize)
}

/// The envelope at the beginning of `source`, where all of it is there and its body is taken as it is; none where more has to be looked at.
#[inline]
pub(super) fn take_whole(source: &mut Bytes, direction: Direction, limits: BodyLimits) -> Option<Envelope> {
    let header = Header::decode_from(source)?;
    let body_len = header.body_len as usize;
    let is_whole = body_len <= limits.max.min(source.len() - HEADER_LEN);
    if !is_whole || is_compressed(&header) || check(&header, direction).is_err() {
        return None;
    }
    // Most come alone: what has nothing behind it need not be cut off.
    let mut body = match HEADER_LEN + body_len {
        length if length == source.len() => std::mem::take(source),
        length => source.split_to(length),
    };
    body.advance(HEADER_LEN);
    Some(Envelope { header, body })
}

/// Whether the body is compressed. In version 5 segments are, and the flag of the envelope means nothing.
pub(super) fn is_compressed(header: &Header) -> bool {
    header.flags.contains(Flags::COMPRESSED) && !header.version.uses_segments()
}

/// The beginning of an error's body, which has its code: as much as a limited number of warnings and the code take. Of what is
/// compressed a part says nothing.
fn begun(header: &Header, kept: &[u8]) -> Bytes {
    if header.opcode != Opcode::ERROR || is_compressed(header) {
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
    /// Longer ones are skipped, or only their heads are kept.
    pub(super) max: usize,
    /// How much is kept of those; 0 where they are skipped.
    pub(super) head: usize,
    /// Longer ones of results are kept in parts.
    pub(super) join: usize,
}

impl BodyLimits {
    /// How much is kept of a body that is too long. Where LZ4 finds nothing to compress, the length of what it found stands before it: a
    /// byte for each 255.
    fn head_of(&self, header: &Header) -> usize {
        match is_compressed(header) {
            true => self.head + header.body_len as usize / LZ4_EXPANSION,
            false => self.head,
        }
    }
}

/// What speaks for a header, beside its own bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// All that its version has: the checksum of its segment, or where it stands.
    Usual,
    /// Its segment is torn: there is no checksum.
    Missing,
}

/// Whether the beginning of a body can be read without the rest of it.
fn is_plain_result(header: &Header) -> bool {
    header.opcode == Opcode::RESULT && !is_compressed(header)
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

/// Whether a header is one that its direction sends in a segment.
fn check_inside_segment(header: &Header) -> Result<(), DecodeError> {
    if header.version.uses_segments() && header.is_specified() {
        return Ok(());
    }
    Err(DecodeError {
        what: "header in a segment with a hole",
        offset: 0,
        kind: DecodeErrorKind::Invalid(header.opcode.0.into()),
    })
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
    rest: Option<Rest>,
}

#[derive(Debug)]
enum Rest {
    /// The payload and its CRC32, as far as they have come; at most 128 KiB.
    Keeping(SegmentHeader, BytesMut),
    Torn(TornSegment),
}

/// What has come of a segment.
pub(super) enum JoinedSegment {
    /// All of it: the payload and its CRC32.
    Whole(SegmentHeader, Bytes, [u8; TRAILER_LEN]),
    /// The next part of one that has a hole.
    Torn(TornPart),
}

impl SegmentJoin {
    pub(super) fn is_at_boundary(&self) -> bool {
        self.rest.is_none() && self.header.is_empty()
    }

    /// How far what it gives can be trusted.
    pub(super) fn proof(&self) -> Proof {
        match self.rest {
            Some(Rest::Torn(_)) => Proof::Missing,
            Some(Rest::Keeping(..)) | None => Proof::Usual,
        }
    }

    /// Moves on over bytes that nobody has; beyond the end of the segment, and where none has begun, that means nothing.
    pub(super) fn pass_over(&mut self, length: usize) {
        let mut torn = match self.rest.take() {
            Some(Rest::Keeping(header, kept)) => TornSegment::new(header, kept.freeze()),
            Some(Rest::Torn(torn)) => torn,
            None => return,
        };
        torn.pass_over(length);
        self.rest = Some(Rest::Torn(torn));
    }

    /// Takes bytes from `source` until a segment is whole, or the next part of a torn one is there; `None` when `source` is used up.
    ///
    /// # Errors
    /// A header whose checksum does not match.
    pub(super) fn join(
        &mut self,
        encoding: Encoding,
        source: &mut Bytes,
    ) -> Result<Option<JoinedSegment>, DecodeError> {
        let (header, mut kept) = match self.rest.take() {
            Some(Rest::Keeping(header, kept)) => (header, kept),
            Some(Rest::Torn(torn)) => return Ok(self.join_torn(torn, source)),
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
            self.rest = Some(Rest::Keeping(header, kept));
            return Ok(None);
        }
        Ok(Some(split_trailer(header, kept.freeze())))
    }

    fn join_torn(&mut self, mut torn: TornSegment, source: &mut Bytes) -> Option<JoinedSegment> {
        let part = torn.next(source);
        if !matches!(part, Some(TornPart::End(_))) {
            self.rest = Some(Rest::Torn(torn));
        }
        part.map(JoinedSegment::Torn)
    }
}

fn split_trailer(header: SegmentHeader, mut payload: Bytes) -> JoinedSegment {
    let mut trailer = [0; TRAILER_LEN];
    trailer.copy_from_slice(&payload.split_off(header.payload_len));
    JoinedSegment::Whole(header, payload, trailer)
}
