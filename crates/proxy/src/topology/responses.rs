//! The responses of one connection on their way to the client.
//!
//! An envelope that names no nodes passes in the pieces in which it came. One that may name nodes is held
//! until it is whole, up to [`MAX_HELD`] bytes (the client gets an error in place of a longer response about
//! nodes), and until the nodes that it names are ready; the bytes behind it wait. Only segments with a
//! changed envelope are encoded anew; the others pass as they are, unopened if no response is pending.
//!
//! Bytes that cannot be read end the connection, since they might name nodes. The exception are errors of
//! unknown versions: with them drivers find the version that both sides speak.

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
    hold_budget::{HeldBytes, MAX_HELD},
    response_rewriter::{Disposition, ResponseRewriter},
    rows::AddressView,
    segments::{Opened, Segments, joined},
    shared::Shared,
    walk::{Held, Piece, ResponseWalk, Unreadable},
};

/// The responses of one connection.
#[derive(Debug)]
pub(crate) struct Responses<'a> {
    shared: &'a Shared,
    /// Bytes from the node that have not been passed on.
    input: Bytes,
    /// Bytes that are ready to be written.
    ready: VecDeque<Bytes>,
    framing: Framing,
    walk: ResponseWalk,
    segments: Segments,
}

impl<'a> Responses<'a> {
    pub(crate) fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            input: Bytes::new(),
            ready: VecDeque::new(),
            framing: Framing::Envelopes,
            walk: ResponseWalk::default(),
            segments: Segments::default(),
        }
    }

    /// Adds what the node sent next, once everything before it has been taken.
    pub(crate) fn feed(&mut self, chunk: Bytes) {
        self.input = joined(std::mem::take(&mut self.input), chunk);
    }

    /// The next bytes to write to the client; `None` when more has to come from the node.
    ///
    /// # Errors
    /// Bytes that cannot be read: nothing more may pass.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Unreadable> {
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
            .next(&mut self.input, |header| shared.hold_request(header))?
        {
            None => return Ok(false),
            Some(Piece::Same(bytes)) => self.ready.push_back(bytes),
            Some(Piece::Held(held)) => {
                let out = match settle(shared, &held).await {
                    Disposition::Same | Disposition::Waits(_) => Some(held.wire()),
                    Disposition::Dropped => None,
                    Disposition::New(envelope) => on_the_wire(shared, &held, &envelope).ok(),
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
        while let Some(piece) = self
            .walk
            .next(&mut payload, |header| shared.hold_request(header))?
        {
            match piece {
                Piece::Same(bytes) => self.segments.same(bytes),
                Piece::Held(held) => match settle(shared, &held).await {
                    Disposition::Same | Disposition::Waits(_) => self.segments.whole(held.wire()),
                    Disposition::Dropped => self.segments.changed(None),
                    Disposition::New(envelope) => self.segments.changed(plain(&envelope).ok()),
                },
            }
        }
        self.segments.end(encoding, payload, &self.walk, &mut self.ready);
        Ok(true)
    }
}

/// Decides what becomes of an envelope, once the nodes that it names are ready or the wait for them is over.
async fn settle(shared: &Shared, held: &Held) -> Disposition {
    let Pairing { addresses, own } = &shared.pairing;
    let opened = opened(shared, held);
    let envelope = opened.as_ref().map(|(envelope, _budget)| envelope);
    for may_wait in [true, false] {
        let known = addresses.known();
        let rewriter = ResponseRewriter {
            addresses,
            view: AddressView {
                known: &known,
                own,
                names_by_peer: shared.names_by_peer() && known.listen_addresses_differ(),
            },
            extensions: shared.extensions(),
            may_wait,
        };
        let outcome = match envelope {
            Some(envelope) => rewriter.rewrite(envelope, &held.pending),
            None => unopened(rewriter, held),
        };
        let Disposition::Waits(nodes) = outcome else {
            return outcome;
        };
        addresses.wait_for(&nodes, own.native.port()).await;
    }
    // Nothing waits when it may not.
    Disposition::Dropped
}

/// The envelope with its body uncompressed, and its part of the budget; none if that is used up, or the body
/// is damaged.
fn opened(shared: &Shared, held: &Held) -> Option<(Envelope, Option<HeldBytes>)> {
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
    let budget = shared.pairing.addresses.hold_budget().take(body.len())?;
    Some((Envelope { header, body }, Some(budget)))
}

fn unopened(rewriter: ResponseRewriter<'_>, held: &Held) -> Disposition {
    let header = held.header;
    let body = Bytes::new();
    rewriter.unreadable(&Envelope { header, body }, &held.pending)
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
