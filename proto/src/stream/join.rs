//! Joins what was split: envelopes over chunks or payloads, segments over chunks.

use bytes::{Buf, Bytes, BytesMut};

use super::long::LongEnvelope;
use super::partial::{PartialSegment, SegmentPart};
use crate::compress::LZ4_EXPANSION;
use crate::envelope::{Direction, Envelope, Flags, HEADER_LEN, Header, MAX_BODY_LEN, Opcode, Version};
use crate::error::{DecodeError, DecodeErrorKind};
use crate::segment::{Encoding, SegmentHeader, TRAILER_LEN};
use crate::walk::{EnvelopeStep, EnvelopeWalk, Opaque, SegmentStep, SegmentWalk, is_possible};

/// The envelope that is being joined.
#[derive(Debug, Default)]
pub(super) struct EnvelopeJoin {
    walk: EnvelopeWalk,
    body: Option<Body>,
}

/// The body that is passing.
#[derive(Debug)]
enum Body {
    /// Grows with the bytes that arrive, not with what the header claims.
    Keeping(Header, BytesMut),
    Collecting(Box<LongEnvelope>),
    /// Only the head is kept.
    Beginning(Header, BytesMut),
    /// Nothing is kept but the beginning of an error's body.
    Skipping(Header, Bytes),
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
        self.body.is_none() && self.walk.is_at_boundary()
    }

    /// Bytes of a body that are kept until the rest has come.
    /// The header of the envelope that is being joined.
    pub(super) fn header(&self) -> Option<&Header> {
        self.body.as_ref().map(|body| match body {
            Body::Keeping(header, _) | Body::Beginning(header, _) | Body::Skipping(header, _) => header,
            Body::Collecting(long) => &long.header,
        })
    }

    pub(super) fn kept(&self) -> usize {
        match &self.body {
            Some(Body::Keeping(_, kept) | Body::Beginning(_, kept)) => kept.len(),
            Some(Body::Collecting(long)) => long.body_len(),
            Some(Body::Skipping(..)) | None => 0,
        }
    }

    /// Keeps nothing of the body, neither what has come nor the rest.
    pub(super) fn skip(&mut self) {
        self.body = Some(match self.body.take() {
            Some(Body::Keeping(header, kept) | Body::Beginning(header, kept)) => {
                Body::Skipping(header, begun(&header, &kept))
            }
            Some(Body::Collecting(long)) => Body::Skipping(long.header, Bytes::new()),
            Some(skipping @ Body::Skipping(..)) => skipping,
            None => return,
        });
    }

    /// Skips a gap, up to the end of the current body, and returns how many of its bytes lie beyond it. The
    /// envelope with the gap is skipped; a header with one is discarded.
    pub(super) fn skip_gap(&mut self, length: usize) -> usize {
        self.skip();
        self.walk.skip(length)
    }

    /// Enters a segment; true if that leaves an envelope unfinished.
    pub(super) fn enter(&mut self, segment: &SegmentHeader) -> bool {
        let is_cut_off = segment.is_self_contained && !self.is_at_boundary();
        self.walk.enter(segment);
        if segment.is_self_contained {
            self.body = None;
        }
        is_cut_off
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
        loop {
            if self.walk.is_at_boundary()
                && let Some(body) = self.body.take()
            {
                return Ok(Some(body.end(limits)));
            }
            let Some(first) = source.first() else {
                return Ok(None);
            };
            let step = self.walk.next(direction, source);
            match step.map_err(|opaque| impossible(opaque, *first))? {
                EnvelopeStep::HeaderPart(length) => source.advance(length),
                EnvelopeStep::Body(length) => self.add(source.split_to(length), limits),
                EnvelopeStep::Header {
                    header,
                    header_len,
                    length,
                } => {
                    if proof == Proof::Missing {
                        check_inside_segment(&header)?;
                    }
                    source.advance(header_len);
                    let body = source.split_to(length - header_len);
                    if self.walk.is_at_boundary() && body.len() <= limits.max {
                        return Ok(Some(Joined::Whole(header, body)));
                    }
                    self.body = Some(Body::new(header, limits));
                    self.add(body, limits);
                }
            }
        }
    }

    fn add(&mut self, part: Bytes, limits: BodyLimits) {
        match &mut self.body {
            Some(Body::Keeping(_, kept)) => kept.extend_from_slice(&part),
            Some(Body::Collecting(long)) => long.add(part),
            Some(Body::Beginning(header, head)) => {
                let missing = limits.head_of(header).saturating_sub(head.len());
                head.extend_from_slice(part.get(..missing).unwrap_or(&part));
            }
            Some(Body::Skipping(..)) | None => {}
        }
    }
}

impl Body {
    /// For a body that has not come whole, or is too long to be kept.
    fn new(header: Header, limits: BodyLimits) -> Self {
        let length = header.body_len as usize;
        match length > limits.max {
            true if limits.head > 0 => Body::Beginning(header, BytesMut::new()),
            true => Body::Skipping(header, Bytes::new()),
            false if length > limits.join && is_plain_result(&header) => {
                Body::Collecting(Box::new(LongEnvelope::new(header)))
            }
            false => Body::Keeping(header, BytesMut::with_capacity(length.min(MAX_RESERVED))),
        }
    }

    /// All of it has passed.
    fn end(self, limits: BodyLimits) -> Joined {
        match self {
            Body::Keeping(header, kept) => Joined::Whole(header, kept.freeze()),
            Body::Collecting(long) => Joined::Long(long),
            Body::Beginning(header, head) => Joined::Head(header, head.freeze()),
            Body::Skipping(header, begun) => {
                let (announced, limit) = (header.body_len as usize, limits.max);
                let error = error("body", DecodeErrorKind::TooLarge { announced, limit });
                Joined::Skipped(header, begun, error)
            }
        }
    }
}

/// Whether `chunk` ends where the envelope does that it begins with.
#[inline]
pub(super) fn is_one_envelope(chunk: &[u8]) -> bool {
    Header::decode_from(chunk).is_some_and(|header| chunk.len() - HEADER_LEN == header.body_len as usize)
}

/// The envelope at the beginning of `source`, if it is whole, uncompressed and no longer than what is kept.
#[inline]
pub(super) fn take_whole(source: &mut Bytes, direction: Direction, limits: BodyLimits) -> Option<Envelope> {
    let header = Header::decode_from(source)?;
    let body_len = header.body_len as usize;
    let is_whole = body_len <= limits.max.min(source.len() - HEADER_LEN);
    if !is_whole || is_compressed(&header) || !is_possible(&header, direction) {
        return None;
    }
    source.advance(HEADER_LEN);
    // Most come alone: what has nothing behind it need not be cut off.
    let body = match body_len == source.len() {
        true => std::mem::take(source),
        false => source.split_to(body_len),
    };
    Some(Envelope { header, body })
}

/// Whether the body is compressed. In version 5 segments are, and the flag of the envelope means nothing.
pub(super) fn is_compressed(header: &Header) -> bool {
    header.flags.contains(Flags::COMPRESSED) && !header.version.uses_segments()
}

/// The beginning of an error's body, which has its code: as much as a limited number of warnings and the code
/// take. Of what is compressed a part says nothing.
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
    /// How much is kept of a body that is too long. Where LZ4 finds nothing to compress, the length of what
    /// it found stands before it: a byte for each 255.
    fn head_of(&self, header: &Header) -> usize {
        match is_compressed(header) {
            true => self.head + header.body_len as usize / LZ4_EXPANSION,
            false => self.head,
        }
    }
}

/// What vouches for a header, beside its own bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// All that its version has: the checksum of its segment, or its position.
    Usual,
    /// Its segment has a gap, so nothing was checked.
    Missing,
}

/// Whether the beginning of a body can be read without the rest of it.
fn is_plain_result(header: &Header) -> bool {
    header.opcode == Opcode::RESULT && !is_compressed(header)
}

/// What is wrong with bytes of which the `first` should begin an envelope.
fn impossible(opaque: Opaque, first: u8) -> DecodeError {
    match opaque {
        Opaque::Length(announced) => {
            let (announced, limit) = (announced as usize, MAX_BODY_LEN as usize);
            error("body length", DecodeErrorKind::TooLarge { announced, limit })
        }
        Opaque::Direction => error("direction", DecodeErrorKind::Invalid(first.into())),
        Opaque::Tls | Opaque::Text | Opaque::Version(_) | Opaque::SegmentHeader => {
            let version = Version::from_number(first).number();
            error("protocol version", DecodeErrorKind::Invalid(version.into()))
        }
    }
}

fn error(what: &'static str, kind: DecodeErrorKind) -> DecodeError {
    DecodeError {
        what,
        offset: 0,
        kind,
    }
}

/// Whether a header is one that its direction sends in a segment.
fn check_inside_segment(header: &Header) -> Result<(), DecodeError> {
    if header.version.uses_segments() && header.is_specified() {
        return Ok(());
    }
    let kind = DecodeErrorKind::Invalid(header.opcode.0.into());
    Err(error("header in a segment with a gap", kind))
}

/// Whether a part of an envelope is likely its first: it has a header of a version with segments and of a
/// known opcode, and a body that does not fit. Bytes from inside a body pass this about once in 2^30.
pub(super) fn begins_envelope(part: &[u8], direction: Direction) -> bool {
    Header::decode_from(part).is_some_and(|header| {
        header.version.uses_segments()
            && is_possible(&header, direction)
            && header.opcode.name().is_some()
            && header.body_len as usize > part.len() - HEADER_LEN
    })
}

/// The segment that is being joined.
#[derive(Debug, Default)]
pub(super) struct SegmentJoin {
    walk: SegmentWalk,
    segment: Option<Segment>,
}

#[derive(Debug)]
enum Segment {
    /// The payload and its CRC32, as far as they have come; at most 128 KiB.
    Keeping(SegmentHeader, BytesMut),
    Partial(PartialSegment),
}

/// What has come of a segment.
pub(super) enum JoinedSegment {
    /// All of it: the payload and its CRC32.
    Whole(SegmentHeader, Bytes, [u8; TRAILER_LEN]),
    /// The next part of one that has a gap.
    Part(SegmentPart),
}

impl SegmentJoin {
    pub(super) fn is_at_boundary(&self) -> bool {
        self.segment.is_none() && self.walk.is_at_boundary()
    }

    /// How far its payloads can be trusted.
    pub(super) fn proof(&self) -> Proof {
        match self.segment {
            Some(Segment::Partial(_)) => Proof::Missing,
            Some(Segment::Keeping(..)) | None => Proof::Usual,
        }
    }

    /// Skips a gap, up to the end of the current segment; without effect where none has begun.
    pub(super) fn skip_gap(&mut self, length: usize) {
        let mut partial = match self.segment.take() {
            Some(Segment::Keeping(header, kept)) => PartialSegment::new(header, kept.freeze()),
            Some(Segment::Partial(partial)) => partial,
            None => return,
        };
        partial.skip_gap(length.min(self.walk.payload_left()));
        self.walk.skip(length);
        self.segment = Some(Segment::Partial(partial));
    }

    /// Takes bytes from `source` until a segment is whole, or the next part of one with a gap is there;
    /// `None` when `source` is used up.
    ///
    /// # Errors
    /// A header whose checksum does not match.
    pub(super) fn join(
        &mut self,
        encoding: Encoding,
        source: &mut Bytes,
    ) -> Result<Option<JoinedSegment>, DecodeError> {
        loop {
            if let Some(part) = self.next_of_partial() {
                return Ok(Some(JoinedSegment::Part(part)));
            }
            if source.is_empty() {
                return Ok(None);
            }
            match self.walk.next(encoding, source)? {
                SegmentStep::HeaderPart(length) => source.advance(length),
                SegmentStep::Header(header, length) => {
                    source.advance(length);
                    let left = self.walk.left();
                    if left <= source.len() {
                        self.walk.skip(left);
                        return Ok(Some(split_trailer(header, source.split_to(left))));
                    }
                    let kept = BytesMut::with_capacity(source.len());
                    self.segment = Some(Segment::Keeping(header, kept));
                }
                SegmentStep::Payload(length) => {
                    let part = source.split_to(length);
                    match &mut self.segment {
                        Some(Segment::Keeping(_, kept)) => kept.extend_from_slice(&part),
                        _ => return Ok(Some(JoinedSegment::Part(SegmentPart::Payload(part)))),
                    }
                }
                SegmentStep::Trailer(length) => {
                    let part = source.split_to(length);
                    if let Some(Segment::Keeping(_, kept)) = &mut self.segment {
                        kept.extend_from_slice(&part);
                    }
                }
            }
            if self.walk.is_at_boundary() {
                match self.segment.take() {
                    Some(Segment::Keeping(header, kept)) => {
                        return Ok(Some(split_trailer(header, kept.freeze())));
                    }
                    partial => self.segment = partial,
                }
            }
        }
    }

    /// What comes next of a segment with a gap, apart from bytes that are still to come.
    fn next_of_partial(&mut self) -> Option<SegmentPart> {
        let Some(Segment::Partial(partial)) = &mut self.segment else {
            return None;
        };
        let part = partial.next();
        if part.is_some() || !self.walk.is_at_boundary() {
            return part;
        }
        let end = SegmentPart::End(partial.header);
        self.segment = None;
        Some(end)
    }
}

fn split_trailer(header: SegmentHeader, mut payload: Bytes) -> JoinedSegment {
    let mut trailer = [0; TRAILER_LEN];
    trailer.copy_from_slice(&payload.split_off(header.payload_len));
    JoinedSegment::Whole(header, payload, trailer)
}
