//! One direction of a connection: ordered bytes go to the audit while the place is known, else the place is looked for.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::{
    cutter::{Framing, Opaque, Skipped},
    envelope::Direction,
};

use super::{
    losses::Losses,
    resync::{Found, Known, Search},
};
use cqlens_audit::{
    capture::{Connection, Feed, Moment, Queue},
    memory::Part,
};

/// Bytes that are looked through for a place at most; a connection that has none in so many is not one of CQL, or encrypted.
const MAX_SEARCHED: u64 = 16 << 20;

/// One direction.
#[derive(Debug)]
pub(super) struct Side {
    direction: Direction,
    feed: Feed,
    place: Place,
    /// What all searches keep.
    memory: Part,
    /// Bytes that were looked through since the place was last known.
    searched: u64,
}

#[derive(Debug)]
enum Place {
    Known,
    Searching(Search),
}

/// A direction that is not looked into any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hopeless {
    /// It cannot be cut.
    Opaque(Opaque),
    /// No place was found.
    NoPlace,
}

impl Side {
    /// The direction of a connection: `from_start` if its first byte is in the capture.
    pub(super) fn new(
        connection: &Arc<Connection>,
        direction: Direction,
        queue: &Arc<Queue>,
        memory: &Part,
        from_start: bool,
    ) -> Self {
        Self {
            direction,
            feed: Feed::new(Arc::clone(connection), direction, Arc::clone(queue)),
            place: match from_start {
                true => Place::Known,
                false => Place::Searching(Search::within(memory.clone())),
            },
            memory: memory.clone(),
            searched: 0,
        }
    }

    fn begin_search(&self) -> Place {
        Place::Searching(Search::within(self.memory.clone()))
    }

    /// Whether anything of it was ever understood.
    pub(super) fn is_understood(&self) -> bool {
        self.feed.has_begun()
    }

    /// Whether an envelope or segment has begun and not ended, as far as the place is known.
    pub(super) fn is_in_the_middle(&self) -> bool {
        matches!(self.place, Place::Known) && self.feed.is_in_the_middle()
    }

    /// Takes the next bytes if they are one whole envelope: the same as [`Side::take`], in fewer steps. False, and nothing has changed, where
    /// they are anything else.
    #[inline]
    pub(super) fn take_whole(&mut self, bytes: &[u8], share: impl FnOnce() -> Bytes, at: Moment) -> bool {
        matches!(self.place, Place::Known) && self.feed.offer_whole(bytes, share, at)
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// It is of no use to go on.
    pub(super) fn take(
        &mut self,
        bytes: Bytes,
        at: Moment,
        known: &mut Known,
        losses: &mut Losses,
    ) -> Result<(), Hopeless> {
        match &mut self.place {
            Place::Known => self.offer(bytes, at, known, losses),
            Place::Searching(_) => self.search(bytes, at, known, losses),
        }
    }

    fn offer(
        &mut self,
        bytes: Bytes,
        at: Moment,
        known: &mut Known,
        losses: &mut Losses,
    ) -> Result<(), Hopeless> {
        let Err(stray) = self.feed.offer(bytes, at) else {
            return Ok(());
        };
        if !self.is_understood() && matches!(stray.reason, Opaque::Tls | Opaque::Text) {
            return Err(Hopeless::Opaque(stray.reason));
        }
        self.place = self.begin_search();
        self.search(stray.rest, at, known, losses)
    }

    fn search(
        &mut self,
        bytes: Bytes,
        at: Moment,
        known: &mut Known,
        losses: &mut Losses,
    ) -> Result<(), Hopeless> {
        let Place::Searching(search) = &mut self.place else {
            return Ok(());
        };
        if search.kept() == 0 && !self.feed.has_begun() && is_tls(&bytes) {
            return Err(Hopeless::Opaque(Opaque::Tls));
        }
        self.searched += bytes.len() as u64;
        let (forgotten, found) = search.add(self.direction, *known, &bytes, at);
        losses.unplaced_bytes += forgotten as u64;
        match found {
            Some(found) => self.resume(found, known, losses),
            None if self.searched > MAX_SEARCHED && !self.feed.has_begun() => Err(Hopeless::NoPlace),
            None => Ok(()),
        }
    }

    fn resume(&mut self, found: Found, known: &mut Known, losses: &mut Losses) -> Result<(), Hopeless> {
        losses.unplaced_bytes += found.lost as u64;
        self.searched = 0;
        self.place = Place::Known;
        if let Framing::Segments(encoding) = found.place.framing {
            known.encoding = Some(encoding);
        }
        known.version = known.version.or(found.place.version);
        self.feed.resume(found.place.framing, found.place.compression);
        for (bytes, at) in found.pieces {
            self.take(bytes, at, known, losses)?;
        }
        Ok(())
    }

    /// Takes note of bytes that are not there.
    pub(super) fn skip(&mut self, length: usize, at: Moment, losses: &mut Losses) {
        let is_lost = match &mut self.place {
            Place::Known => self.feed.skip(length, at) == Skipped::Lost,
            Place::Searching(_) => true,
        };
        if is_lost {
            self.forget(losses);
            self.place = self.begin_search();
        }
    }

    /// Gives up what is kept.
    pub(super) fn forget(&mut self, losses: &mut Losses) {
        if let Place::Searching(search) = &self.place {
            losses.unplaced_bytes += search.kept() as u64;
        }
    }
}

/// Whether a piece that begins in the middle of a connection looks like records of TLS: each has five bytes of header, and the first
/// one is followed by the next, or ends with the piece.
pub(super) fn is_tls(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    for _ in 0..2 {
        let Some([kind, 3, minor, high, low]) = rest.first_chunk::<5>() else {
            return false;
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if !(0x14..=0x18).contains(kind) || *minor > 4 || length == 0 || length > MAX_TLS_RECORD {
            return false;
        }
        match rest.get(5 + length..) {
            Some([]) => return true,
            Some(next) => rest = next,
            None => return *kind == TLS_HANDSHAKE && rest.len() == bytes.len(),
        }
    }
    true
}

const TLS_HANDSHAKE: u8 = 0x16;

/// 16 KiB and what encryption adds (RFC 8446 §5.2).
const MAX_TLS_RECORD: usize = (16 << 10) + 256;
