//! The responses of one connection on their way to the client.
//!
//! What names no nodes passes as it comes, in the pieces in which it came. An envelope that may name some is held until it is whole
//! (at most [`MAX_HELD`] bytes: in place of a longer answer about nodes the client gets an error), and whatever follows it waits behind
//! it, also while a node is waited for. In segments, those are encoded anew that have an envelope that changed; the others pass as they
//! are, unopened if nothing is expected.
//!
//! What cannot be read ends the connection: it might name nodes. The exception are errors of versions that are not known, since drivers
//! find the version that both speak by them.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use cqlens_proto::{
    compress::{self, Compression},
    cutter::Framing,
    envelope::{Envelope, Flags},
    error::EncodeError,
};

use super::{
    addresses::Pairing,
    answer::{Judge, Outcome},
    room::Taken,
    rows::Sight,
    segments::{Opened, Segments},
    shared::Shared,
    walk::{Held, MAX_HELD, Piece, Unreadable, Walk},
};

/// The responses of one connection.
#[derive(Debug)]
pub(in crate::proxy) struct Responses<'a> {
    shared: &'a Shared,
    /// What has come and is not passed on yet.
    input: Bytes,
    /// What is ready to be written.
    ready: VecDeque<Bytes>,
    framing: Framing,
    walk: Walk,
    segments: Segments,
}

impl<'a> Responses<'a> {
    pub(in crate::proxy) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            input: Bytes::new(),
            ready: VecDeque::new(),
            framing: Framing::Envelopes,
            walk: Walk::default(),
            segments: Segments::default(),
        }
    }

    /// Adds what the node sent next, once everything before it has been taken.
    pub(in crate::proxy) fn feed(&mut self, chunk: Bytes) {
        self.input = joined(std::mem::take(&mut self.input), chunk);
    }

    /// What to write to the client next; none when more has to come from the node.
    ///
    /// # Errors
    /// What cannot be read: nothing more may pass.
    pub(in crate::proxy) async fn next(&mut self) -> Result<Option<Bytes>, Unreadable> {
        loop {
            if let Some(ready) = self.ready.pop_front() {
                return Ok(Some(ready));
            }
            if self.framing == Framing::Envelopes && self.walk.is_at_boundary() {
                self.framing = self.shared.negotiated.framing();
            }
            let more = match self.framing {
                Framing::Envelopes => self.next_envelope().await?,
                Framing::Segments(_) => self.next_segment().await?,
            };
            if !more {
                // Not to keep the memory of the chunk that it was a part of.
                self.input = Bytes::copy_from_slice(&self.input);
                return Ok(None);
            }
        }
    }

    /// False if more has to come.
    async fn next_envelope(&mut self) -> Result<bool, Unreadable> {
        let shared = self.shared;
        match self
            .walk
            .next(&mut self.input, |header| shared.attention(header))?
        {
            None => return Ok(false),
            Some(Piece::Same(bytes)) => self.ready.push_back(bytes),
            Some(Piece::Held(held)) => {
                let out = match settle(shared, &held).await {
                    Outcome::Same | Outcome::Waits(_) => Some(held.wire()),
                    Outcome::Dropped => None,
                    Outcome::New(envelope) => on_the_wire(shared, &held, &envelope).ok(),
                };
                self.ready.extend(out);
            }
        }
        Ok(true)
    }

    async fn next_segment(&mut self) -> Result<bool, Unreadable> {
        let Framing::Segments(encoding) = self.framing else {
            return Ok(false);
        };
        let shared = self.shared;
        let is_quiet = || shared.is_quiet();
        let opened = match self
            .segments
            .next(encoding, &mut self.input, &mut self.walk, is_quiet)?
        {
            None => return Ok(false),
            Some(Opened::Same(bytes)) => {
                self.ready.push_back(bytes);
                return Ok(true);
            }
            Some(Opened::Segment(segment)) => segment,
        };
        let mut payload = self.segments.begin(opened);
        while let Some(piece) = self.walk.next(&mut payload, |header| shared.attention(header))? {
            match piece {
                Piece::Same(bytes) => self.segments.same(bytes),
                Piece::Held(held) => match settle(shared, &held).await {
                    Outcome::Same | Outcome::Waits(_) => self.segments.whole(held.wire()),
                    Outcome::Dropped => self.segments.changed(None),
                    Outcome::New(envelope) => self.segments.changed(plain(&envelope).ok()),
                },
            }
        }
        self.segments.end(encoding, payload, &self.walk, &mut self.ready);
        Ok(true)
    }
}

/// Bytes that follow each other; copied only where some were left.
pub(super) fn joined(rest: Bytes, more: Bytes) -> Bytes {
    if rest.is_empty() {
        return more;
    }
    [&rest[..], &more[..]].concat().into()
}

/// Says what becomes of an envelope, once the nodes that it depends on are ready or were waited for.
async fn settle(shared: &Shared, held: &Held) -> Outcome {
    let Pairing { addresses, own } = &shared.pairing;
    let opened = opened(shared, held);
    let envelope = opened.as_ref().map(|(envelope, _room)| envelope);
    for may_wait in [true, false] {
        let known = addresses.known();
        let judge = Judge {
            addresses,
            sight: Sight {
                known: &known,
                own,
                names_by_peer: shared.names_by_peer() && known.listen_addresses_differ(),
            },
            extensions: shared.extensions(),
            may_wait,
        };
        let outcome = match envelope {
            Some(envelope) => judge.outcome(envelope, &held.expected),
            None => unopened(judge, held),
        };
        let Outcome::Waits(nodes) = outcome else {
            return outcome;
        };
        addresses.wait_for(&nodes, own.native.port()).await;
    }
    // Nothing waits when it may not.
    Outcome::Dropped
}

/// The envelope with its body uncompressed, and the room that this takes; none if there is too little, or it is damaged.
fn opened(shared: &Shared, held: &Held) -> Option<(Envelope, Option<Taken>)> {
    if !held.is_kept() {
        return None;
    }
    let header = held.header;
    let body = Bytes::copy_from_slice(&held.body);
    // In segments the flag means nothing.
    let is_compressed = header.flags.contains(Flags::COMPRESSED) && !header.version.uses_segments();
    if !is_compressed {
        return Some((Envelope { header, body }, None));
    }
    let body = compress::decompress_body(shared.negotiated.compression(), &body, MAX_HELD).ok()?;
    let room = shared.pairing.addresses.room().take(body.len())?;
    Some((Envelope { header, body }, Some(room)))
}

fn unopened(judge: Judge<'_>, held: &Held) -> Outcome {
    let header = held.header;
    let body = Bytes::new();
    judge.unreadable(&Envelope { header, body }, &held.expected)
}

fn plain(envelope: &Envelope) -> Result<Bytes, EncodeError> {
    let mut out = BytesMut::new();
    envelope.encode(&mut out)?;
    Ok(out.freeze())
}

/// A new envelope, compressed if the one that it stands for was.
fn on_the_wire(shared: &Shared, held: &Held, envelope: &Envelope) -> Result<Bytes, EncodeError> {
    let compression = match held.header.flags.contains(Flags::COMPRESSED) {
        true => shared.negotiated.compression(),
        false => Compression::None,
    };
    let mut out = BytesMut::new();
    compress::encode_compressed(envelope, compression, &mut out)?;
    Ok(out.freeze())
}
