//! The segments around responses of version 5: which of them have to be opened, and how what came out of them
//! goes on.
//!
//! A segment is no use to a client before it is whole, since its checksum is at the end; so one that is
//! opened is held until then.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use cqlens_proto::{
    segment::{self, Encoding, MAX_PAYLOAD, SegmentHeader},
    walk::{SegmentStep, SegmentWalk},
};

use super::walk::{ResponseWalk, Unreadable};

/// The position in a sequence of segments, and what is held of them.
#[derive(Debug, Default)]
pub(super) struct Segments {
    walk: SegmentWalk,
    /// A segment that will be opened, as far as it has come.
    gathering: Option<(SegmentHeader, BytesMut)>,
    /// The payload of the segment that was opened belongs to whole envelopes only.
    is_self_contained: bool,
    /// A part of an envelope's header at the end of the last payload.
    rest: Bytes,
    pending: Pending,
}

/// Segments that wait for an envelope that is held to become whole.
#[derive(Debug, Default)]
struct Pending {
    /// As they came.
    raw: Vec<Bytes>,
    /// What goes on of them.
    parts: Vec<SegmentPart>,
    /// Those are not the same.
    is_changed: bool,
}

#[derive(Debug)]
struct SegmentPart {
    bytes: Bytes,
    /// Whole envelopes; else a part of one.
    is_whole: bool,
}

/// What follows in a sequence of segments.
pub(super) enum Opened {
    /// Segments, or parts of them, that pass.
    Same(Bytes),
    /// A whole one to look into.
    Segment(Whole),
}

/// A segment that was opened.
pub(super) struct Whole {
    raw: Bytes,
    payload: Bytes,
    is_self_contained: bool,
}

impl Segments {
    /// Takes bytes from the front of `input`; none when it is used up but for a part of a header.
    ///
    /// `walk` is the place among the envelopes in the segments; `is_quiet` says whether no envelope in the
    /// next one can be of interest.
    ///
    /// # Errors
    /// A segment that is damaged: the place of the next one is not known, or what is in it.
    pub(super) fn next(
        &mut self,
        encoding: Encoding,
        input: &mut Bytes,
        walk: &mut ResponseWalk,
        is_quiet: impl Fn() -> bool,
    ) -> Result<Option<Opened>, Unreadable> {
        let mut passed = 0;
        loop {
            let rest = input.get(passed..).unwrap_or_default();
            let needed = match self.walk.is_at_boundary() {
                true => encoding.header_len(),
                false => 1,
            };
            if rest.len() < needed {
                break;
            }
            let step = self.walk.next(encoding, rest).map_err(|_| Unreadable::Segment)?;
            match (step, &mut self.gathering) {
                (SegmentStep::Header(header, length), _) if !passes(&header, walk, &is_quiet) => {
                    let before = input.split_to(passed);
                    self.gathering = Some((header, input.split_to(length).into()));
                    if !before.is_empty() {
                        return Ok(Some(Opened::Same(before)));
                    }
                    passed = 0;
                }
                (step, Some((_, raw))) => raw.extend_from_slice(&input.split_to(step.length())),
                (step, None) => passed += step.length(),
            }
            if self.walk.is_at_boundary()
                && let Some((header, raw)) = self.gathering.take()
            {
                return opened(encoding, &header, raw.freeze()).map(Some);
            }
        }
        Ok((passed > 0).then(|| Opened::Same(input.split_to(passed))))
    }

    /// Begins with the payload of a segment.
    pub(super) fn begin(&mut self, segment: Whole) -> Bytes {
        if segment.is_self_contained {
            // Whatever was not finished never will be: a client has no use for it either.
            self.rest = Bytes::new();
            self.pending = Pending::default();
        }
        self.is_self_contained = segment.is_self_contained;
        self.pending.raw.push(segment.raw);
        joined(std::mem::take(&mut self.rest), segment.payload)
    }

    /// Bytes of the payload that stay as they are.
    pub(super) fn same(&mut self, bytes: Bytes) {
        let is_whole = self.is_self_contained;
        self.pending.parts.push(SegmentPart { bytes, is_whole });
    }

    /// A whole envelope that stays as it is.
    pub(super) fn whole(&mut self, bytes: Bytes) {
        let is_whole = true;
        self.pending.parts.push(SegmentPart { bytes, is_whole });
    }

    /// What stands in place of an envelope, if anything does.
    pub(super) fn changed(&mut self, envelope: Option<Bytes>) {
        self.pending.is_changed = true;
        if let Some(bytes) = envelope {
            self.whole(bytes);
        }
    }

    /// Ends with a payload of which `rest` is left; adds to `ready` what goes on, unless an envelope is not
    /// whole yet.
    pub(super) fn end(
        &mut self,
        encoding: Encoding,
        rest: Bytes,
        walk: &ResponseWalk,
        ready: &mut VecDeque<Bytes>,
    ) {
        if walk.is_skipping() {
            // What it will be is known: nothing of it.
            self.pending.raw.clear();
            self.pending.is_changed = true;
        }
        let continues = walk.is_holding() || (!rest.is_empty() && !self.is_self_contained);
        if continues {
            self.rest = rest;
            return;
        }
        if !rest.is_empty() {
            // No header is so short. It goes on with what it came with.
            self.same(rest);
        }
        let pending = std::mem::take(&mut self.pending);
        if pending.is_changed {
            ready.extend(encoded(encoding, &pending.parts));
        } else {
            ready.extend(pending.raw);
        }
    }
}

/// Whether a segment passes unopened; the walk moves on over what is in it.
fn passes(header: &SegmentHeader, walk: &mut ResponseWalk, is_quiet: impl Fn() -> bool) -> bool {
    walk.enter(header);
    if header.is_self_contained {
        return is_quiet();
    }
    let length = header.uncompressed_len.unwrap_or(header.payload_len);
    let is_inside = length <= walk.passing();
    if is_inside {
        walk.pass(length);
    }
    is_inside && length > 0
}

fn opened(encoding: Encoding, header: &SegmentHeader, raw: Bytes) -> Result<Opened, Unreadable> {
    let payload_at = encoding.header_len();
    let trailer_at = payload_at + header.payload_len;
    let trailer = raw.get(trailer_at..).and_then(<[u8]>::first_chunk);
    let trailer = *trailer.ok_or(Unreadable::Segment)?;
    let payload = segment::open_payload(header, raw.slice(payload_at..trailer_at), trailer);
    Ok(Opened::Segment(Whole {
        payload: payload.map_err(|_| Unreadable::Segment)?,
        is_self_contained: header.is_self_contained,
        raw,
    }))
}

/// Bytes that follow each other; copied only where some were left.
pub(super) fn joined(rest: Bytes, more: Bytes) -> Bytes {
    if rest.is_empty() {
        return more;
    }
    [&rest[..], &more[..]].concat().into()
}

/// Segments around parts of a payload: whole envelopes share one as long as they fit.
fn encoded(encoding: Encoding, parts: &[SegmentPart]) -> Option<Bytes> {
    let mut out = BytesMut::new();
    let mut waiting = BytesMut::new();
    for part in parts {
        let fits = part.is_whole && waiting.len() + part.bytes.len() <= MAX_PAYLOAD;
        if !fits && !waiting.is_empty() {
            segment::encode(encoding, true, &waiting.split(), &mut out).ok()?;
        }
        if fits {
            waiting.extend_from_slice(&part.bytes);
        } else if part.is_whole {
            segment::encode_envelopes(encoding, &part.bytes, &mut out).ok()?;
        } else {
            segment::encode(encoding, false, &part.bytes, &mut out).ok()?;
        }
    }
    if !waiting.is_empty() {
        segment::encode(encoding, true, &waiting, &mut out).ok()?;
    }
    (!out.is_empty()).then(|| out.freeze())
}
