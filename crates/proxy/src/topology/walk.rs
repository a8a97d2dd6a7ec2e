//! Separates the envelopes that pass as they are from those that are held until they are whole.

use bytes::{Buf, Bytes, BytesMut};
use cqlens_proto::{
    envelope::{Direction, HEADER_LEN, Header, Opcode, Version},
    segment::SegmentHeader,
    walk::{EnvelopeStep, EnvelopeWalk, Opaque},
};
use thiserror::Error;

use super::{
    hold_budget::HeldBytes,
    pending::{HoldRequest, PendingResponse},
};

/// The longest error of an unknown version that passes, in bytes.
const MAX_ERROR: u32 = 64 << 10;

/// Why bytes of a node cannot be forwarded: they might hide addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Unreadable {
    #[error("the node uses TLS, which has to end at cqlens")]
    Tls,
    #[error("protocol version {0} is unknown")]
    Version(u8),
    #[error("the node does not send a response")]
    Direction,
    #[error("a body of {0} bytes is announced")]
    Length(u32),
    #[error("a segment is damaged")]
    Segment,
}

/// An envelope that is held until it is whole.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) header: Header,
    pub(super) pending: PendingResponse,
    /// As on the wire; empty beyond the budget.
    pub(super) body: BytesMut,
    pub(super) budget: Option<HeldBytes>,
}

impl Held {
    fn new(header: Header, HoldRequest { pending, budget }: HoldRequest) -> Self {
        Self {
            header,
            pending,
            budget,
            // Grows with the bytes that come.
            body: BytesMut::new(),
        }
    }

    /// Whether the body is kept: it is not too long, and within the budget.
    pub(super) fn is_kept(&self) -> bool {
        self.budget.is_some()
    }

    /// As it was on the wire.
    pub(super) fn wire(&self) -> Bytes {
        [&self.header.encode()[..], &self.body].concat().into()
    }
}

/// A part of what a node sent.
#[derive(Debug)]
pub(super) enum Piece {
    /// Passes as it is: parts of envelopes, or whole ones.
    Same(Bytes),
    /// An envelope that has come to its end.
    Held(Box<Held>),
}

/// The position in a sequence of envelopes, and the one that is held.
#[derive(Debug, Default)]
pub(super) struct ResponseWalk {
    envelopes: EnvelopeWalk,
    held: Option<Box<Held>>,
    /// The bytes behind the current envelope may be framed differently.
    stops: bool,
}

impl ResponseWalk {
    /// Takes bytes from the front of `input`; `None` when it is used up but for a part of a header, which the
    /// next bytes must follow.
    ///
    /// `hold_request` decides whether an envelope is held.
    ///
    /// # Errors
    /// Bytes that are no envelope of a node, or of an unknown version.
    pub(super) fn next(
        &mut self,
        input: &mut Bytes,
        mut hold_request: impl FnMut(&Header) -> Option<HoldRequest>,
    ) -> Result<Option<Piece>, Unreadable> {
        let mut passed = 0;
        loop {
            let rest = input.get(passed..).unwrap_or_default();
            if self.envelopes.is_at_boundary() {
                if let Some(held) = self.held.take() {
                    return Ok(Some(Piece::Held(held)));
                }
                if std::mem::take(&mut self.stops) || rest.len() < HEADER_LEN {
                    break;
                }
            } else if rest.is_empty() {
                break;
            }
            match self.envelopes.next(Direction::Response, rest) {
                Ok(EnvelopeStep::Header { header, length, .. }) => {
                    let Some(hold_request) = hold_request(&header) else {
                        self.stops = starts_segments(&header);
                        passed += length;
                        continue;
                    };
                    let before = input.split_to(passed);
                    input.advance(HEADER_LEN);
                    self.held = Some(Box::new(Held::new(header, hold_request)));
                    self.hold(input.split_to(length - HEADER_LEN));
                    if !before.is_empty() {
                        return Ok(Some(Piece::Same(before)));
                    }
                    passed = 0;
                }
                Ok(step) if self.held.is_some() => self.hold(input.split_to(step.length())),
                Ok(step) => passed += step.length(),
                // The bytes before it have not been passed on yet.
                Err(_) if passed > 0 => break,
                Err(opaque) => self.envelopes.expect_foreign(foreign_len(opaque, rest)?),
            }
        }
        Ok((passed > 0).then(|| Piece::Same(input.split_to(passed))))
    }

    fn hold(&mut self, part: Bytes) {
        if let Some(held) = self.held.as_mut().filter(|held| held.is_kept()) {
            held.body.extend_from_slice(&part);
        }
    }

    /// Enters a segment: what a self-contained one leaves unfinished is of no use to the client either.
    pub(super) fn enter(&mut self, segment: &SegmentHeader) {
        self.envelopes.enter(segment);
        if segment.is_self_contained {
            self.held = None;
            self.stops = false;
        }
    }

    /// Whether an envelope is held whose end has not come.
    pub(super) fn is_holding(&self) -> bool {
        self.held.is_some()
    }

    /// Bytes that are left of an envelope that passes.
    pub(super) fn passing(&self) -> usize {
        match self.held {
            Some(_) => 0,
            None => self.envelopes.body_left(),
        }
    }

    /// Moves on over bytes of the envelope that passes.
    pub(super) fn pass(&mut self, length: usize) {
        self.envelopes.skip(length);
    }

    pub(super) fn is_at_boundary(&self) -> bool {
        self.held.is_none() && self.envelopes.is_at_boundary()
    }

    /// Whether an envelope is held whose body is dropped.
    pub(super) fn is_skipping(&self) -> bool {
        self.held.as_ref().is_some_and(|held| !held.is_kept())
    }
}

/// The length of what `bytes` begin with, where it is an error of a version that is not known.
fn foreign_len(opaque: Opaque, bytes: &[u8]) -> Result<usize, Unreadable> {
    Err(match opaque {
        Opaque::Tls => Unreadable::Tls,
        Opaque::Length(length) => Unreadable::Length(length),
        Opaque::Version(_) if bytes.first().is_some_and(|byte| byte & 0x80 != 0) => return error_len(bytes),
        Opaque::Text | Opaque::Direction | Opaque::Version(_) => Unreadable::Direction,
        Opaque::SegmentHeader => Unreadable::Segment,
    })
}

/// The length of an error of an unknown version, header included: a node that speaks no known version says so
/// in its own, and drivers then try another one. Nothing else of such a version may pass.
///
/// Versions 1 and 2 have one byte of stream id, and so a header of eight bytes.
fn error_len(bytes: &[u8]) -> Result<usize, Unreadable> {
    let version = bytes.first().map_or(0, |byte| byte & 0x7f);
    let unknown = Unreadable::Version(version);
    let shift = usize::from(!matches!(Version::from_number(version), Version::Other(1 | 2)));
    let opcode = bytes.get(3 + shift).copied().ok_or(unknown)?;
    let length = bytes
        .get(4 + shift..8 + shift)
        .and_then(|bytes| bytes.first_chunk());
    let length = u32::from_be_bytes(*length.ok_or(unknown)?);
    if Opcode(opcode) == Opcode::ERROR && length <= MAX_ERROR {
        Ok(8 + shift + length as usize)
    } else {
        Err(unknown)
    }
}

/// READY and AUTHENTICATE of version 5 come before the first segment.
fn starts_segments(header: &Header) -> bool {
    matches!(header.opcode, Opcode::READY | Opcode::AUTHENTICATE) && header.version.uses_segments()
}
