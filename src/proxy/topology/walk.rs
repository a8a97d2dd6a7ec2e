//! Tells the envelopes apart that may pass as they are from those that are held until they are whole.

use bytes::{Buf, Bytes, BytesMut};
use cqlens_proto::envelope::{Direction, HEADER_LEN, Header, MAX_BODY_LEN, Opcode, Version};
use thiserror::Error;

use super::{
    room::Taken,
    shared::{Attention, Expected},
};

/// The longest body that is held, in bytes, as on the wire and decompressed: what ten thousand nodes have in `system.peers`.
pub(super) const MAX_HELD: usize = 16 << 20;

/// The longest error of an unknown version that passes, in bytes.
const MAX_ERROR: u32 = 64 << 10;

/// What a node sent that cannot be told to be free of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(in crate::proxy) enum Unreadable {
    #[error("the node speaks TLS, which has to end at cqlens")]
    Tls,
    #[error("protocol version {0} is not known")]
    Version(u8),
    #[error("what the node sends is no response")]
    Direction,
    #[error("a body of {0} bytes is announced")]
    Length(u32),
    #[error("a segment is damaged")]
    Segment,
}

/// An envelope that is not passed on as it comes.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) header: Header,
    pub(super) expected: Expected,
    /// As on the wire; empty if there is no room for it.
    pub(super) body: BytesMut,
    pub(super) room: Option<Taken>,
}

impl Held {
    /// Whether the body is kept: it is not too long, and there is room for it.
    pub(super) fn is_kept(&self) -> bool {
        self.room.is_some()
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

/// A place in a sequence of envelopes.
#[derive(Debug, Default)]
pub(super) struct Walk {
    state: State,
    /// What follows the envelope that is passing may be framed otherwise.
    stops: bool,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Boundary,
    /// So many bytes are left that pass.
    Passing(usize),
    /// So many bytes are left of an envelope that is held.
    Holding(usize, Box<Held>),
}

impl Walk {
    /// Takes bytes from the front of `input`; none when it is used up but for a part of a header, which the next bytes must follow.
    ///
    /// `attention` says what an envelope is held for.
    ///
    /// # Errors
    /// What can be no envelope of a node, or of which nothing is known.
    pub(super) fn next(
        &mut self,
        input: &mut Bytes,
        mut attention: impl FnMut(&Header) -> Option<Attention>,
    ) -> Result<Option<Piece>, Unreadable> {
        let mut passed = 0;
        loop {
            let rest = input.get(passed..).unwrap_or_default();
            match &mut self.state {
                State::Passing(left) => {
                    let length = (*left).min(rest.len());
                    passed += length;
                    *left -= length;
                    if *left > 0 {
                        break;
                    }
                    self.state = State::Boundary;
                    if std::mem::take(&mut self.stops) {
                        break;
                    }
                }
                State::Boundary => {
                    let Some(header) = Header::decode_from(rest) else {
                        break;
                    };
                    let length = match envelope_len(&header, rest) {
                        Ok(length) => length,
                        // What came before it has not been passed on yet.
                        Err(_) if passed > 0 => break,
                        Err(unreadable) => return Err(unreadable),
                    };
                    if !header.version.is_known() {
                        self.state = State::Passing(length);
                        continue;
                    }
                    let Some(attention) = attention(&header) else {
                        self.stops = starts_segments(&header);
                        self.state = State::Passing(length);
                        continue;
                    };
                    let before = input.split_to(passed);
                    input.advance(HEADER_LEN);
                    self.hold(header, length - HEADER_LEN, attention);
                    if !before.is_empty() {
                        return Ok(Some(Piece::Same(before)));
                    }
                    passed = 0;
                }
                State::Holding(left, held) => {
                    let part = input.split_to((*left).min(input.len()));
                    *left -= part.len();
                    if held.is_kept() {
                        held.body.extend_from_slice(&part);
                    }
                    return Ok(self.end_of_held());
                }
            }
        }
        Ok((passed > 0).then(|| Piece::Same(input.split_to(passed))))
    }

    fn hold(&mut self, header: Header, length: usize, Attention { expected, room }: Attention) {
        let held = Held {
            header,
            expected,
            room,
            // Grows with the bytes that come.
            body: BytesMut::new(),
        };
        self.state = State::Holding(length, Box::new(held));
    }

    fn end_of_held(&mut self) -> Option<Piece> {
        match std::mem::take(&mut self.state) {
            State::Holding(0, held) => Some(Piece::Held(held)),
            state => {
                self.state = state;
                None
            }
        }
    }

    pub(super) fn is_at_boundary(&self) -> bool {
        matches!(self.state, State::Boundary)
    }

    /// Bytes that are left of the envelope that is passing.
    pub(super) fn passing(&self) -> usize {
        match self.state {
            State::Passing(left) => left,
            State::Boundary | State::Holding(..) => 0,
        }
    }

    /// Moves on over bytes of the envelope that is passing.
    pub(super) fn pass(&mut self, length: usize) {
        if let State::Passing(left) = &mut self.state {
            *left = left.saturating_sub(length);
            if *left == 0 {
                self.state = State::Boundary;
            }
        }
    }

    /// Whether the envelope that is coming will be answered for without having been kept.
    pub(super) fn is_skipping(&self) -> bool {
        matches!(&self.state, State::Holding(_, held) if !held.is_kept())
    }
}

/// The length of an envelope that `bytes` begin with, header included.
fn envelope_len(header: &Header, bytes: &[u8]) -> Result<usize, Unreadable> {
    const TLS_ALERT: u8 = 0x15;
    const TLS_HANDSHAKE: u8 = 0x16;
    if header.direction != Direction::Response {
        return Err(match bytes.first() {
            Some(&(TLS_ALERT | TLS_HANDSHAKE)) => Unreadable::Tls,
            _ => Unreadable::Direction,
        });
    }
    if !header.version.is_known() {
        return error_len(bytes);
    }
    if header.body_len > MAX_BODY_LEN {
        return Err(Unreadable::Length(header.body_len));
    }
    Ok(HEADER_LEN + header.body_len as usize)
}

/// The length of an error of a version that is not known, header included: a node that speaks none of the versions that are known
/// says so in its own, and drivers take another one then. Nothing else of such a version may pass.
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
