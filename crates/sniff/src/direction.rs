//! Parses one direction of a connection: bytes in order go to the audit while in sync; otherwise a sync point
//! is searched.

use std::sync::Arc;

use bytes::Bytes;
use cqlens_proto::{
    cutter::{Framing, Opaque, Skipped},
    envelope::Direction,
};

use super::{
    losses::Losses,
    resync::{KnownFraming, Resync, Resynced},
};
use cqlens_capture::{Connection, Moment, ReplayQueue, ReplayTap, memory::Part};

/// A direction without a sync point in so many bytes is not CQL, or is encrypted.
const MAX_SEARCHED: u64 = 16 << 20;

/// Parser of one direction.
#[derive(Debug)]
pub(super) struct DirectionParser {
    direction: Direction,
    feed: ReplayTap,
    sync: Sync,
    /// The bound of all searches together.
    memory: Part,
    /// Bytes searched since the direction was last in sync.
    searched: u64,
    /// What its first bytes look like, if not like CQL. A node answers them with an error and reads on, so a client could hide
    /// all its requests behind them: the connection is opaque only when the other direction looks like that too, or at its end.
    looks_like: Option<Opaque>,
}

#[derive(Debug)]
enum Sync {
    InSync,
    Searching(Resync),
}

/// Why a direction is not parsed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GiveUp {
    /// It is not plain CQL.
    Opaque(Opaque),
    /// There is no sync point.
    NoSyncPoint,
}

impl DirectionParser {
    /// A parser for `direction` of a connection; `from_start` if the capture has its first byte.
    pub(super) fn new(
        connection: &Arc<Connection>,
        direction: Direction,
        queue: &Arc<ReplayQueue>,
        memory: &Part,
        from_start: bool,
    ) -> Self {
        Self {
            direction,
            feed: ReplayTap::new(Arc::clone(connection), direction, Arc::clone(queue)),
            sync: match from_start {
                true => Sync::InSync,
                false => Sync::Searching(Resync::within(memory.clone())),
            },
            memory: memory.clone(),
            searched: 0,
            looks_like: None,
        }
    }

    /// A parser for the same direction that has read nothing: for what its bytes turn out to contain.
    pub(super) fn afresh(&self) -> Self {
        Self {
            direction: self.direction,
            feed: self.feed.afresh(),
            sync: Sync::InSync,
            memory: self.memory.clone(),
            searched: 0,
            looks_like: None,
        }
    }

    /// Whether the next byte is the first one of its direction.
    pub(super) fn is_at_start(&self) -> bool {
        matches!(self.sync, Sync::InSync) && !self.is_understood() && !self.feed.is_in_the_middle()
    }

    /// The bound of what all connections keep to be read later.
    pub(super) fn memory(&self) -> &Part {
        &self.memory
    }

    fn begin_resync(&self) -> Sync {
        Sync::Searching(Resync::within(self.memory.clone()))
    }

    /// Whether any envelope or segment has been parsed.
    pub(super) fn is_understood(&self) -> bool {
        self.feed.has_begun()
    }

    /// What it is instead of CQL, by its first bytes and as long as nothing else is found behind them.
    pub(super) fn looks_like(&self) -> Option<Opaque> {
        self.looks_like
    }

    /// Whether it is in sync and within an envelope or segment.
    pub(super) fn is_in_the_middle(&self) -> bool {
        matches!(self.sync, Sync::InSync) && self.feed.is_in_the_middle()
    }

    /// Takes the next bytes if they are exactly one envelope and the direction is in sync. False, with
    /// nothing changed, otherwise.
    #[inline]
    pub(super) fn take_whole(&mut self, bytes: &[u8], share: impl FnOnce() -> Bytes, at: Moment) -> bool {
        matches!(self.sync, Sync::InSync) && self.feed.offer_whole(bytes, share, at)
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// The direction is not worth parsing any further.
    pub(super) fn take(
        &mut self,
        bytes: Bytes,
        at: Moment,
        known: &mut KnownFraming,
        losses: &mut Losses,
    ) -> Result<(), GiveUp> {
        match &mut self.sync {
            Sync::InSync => self.offer(bytes, at, known, losses),
            Sync::Searching(_) => self.search(bytes, at, known, losses),
        }
    }

    fn offer(
        &mut self,
        bytes: Bytes,
        at: Moment,
        known: &mut KnownFraming,
        losses: &mut Losses,
    ) -> Result<(), GiveUp> {
        let Err(stray) = self.feed.offer(bytes, at) else {
            return Ok(());
        };
        if !self.is_understood() && matches!(stray.reason, Opaque::Tls | Opaque::Text) {
            self.looks_like = Some(stray.reason);
        }
        self.sync = self.begin_resync();
        self.search(stray.rest, at, known, losses)
    }

    fn search(
        &mut self,
        bytes: Bytes,
        at: Moment,
        known: &mut KnownFraming,
        losses: &mut Losses,
    ) -> Result<(), GiveUp> {
        let Sync::Searching(resync) = &mut self.sync else {
            return Ok(());
        };
        if resync.kept() == 0 && !self.feed.has_begun() && is_tls(&bytes) {
            self.looks_like = Some(Opaque::Tls);
        }
        self.searched += bytes.len() as u64;
        let (forgotten, found) = resync.add(self.direction, *known, &bytes, at);
        losses.unplaced_bytes += forgotten as u64;
        match found {
            Some(found) => self.resume(found, known, losses),
            None if self.searched > MAX_SEARCHED && !self.feed.has_begun() => {
                Err(self.looks_like.map_or(GiveUp::NoSyncPoint, GiveUp::Opaque))
            }
            None => Ok(()),
        }
    }

    fn resume(
        &mut self,
        found: Resynced,
        known: &mut KnownFraming,
        losses: &mut Losses,
    ) -> Result<(), GiveUp> {
        losses.unplaced_bytes += found.lost as u64;
        self.searched = 0;
        self.looks_like = None;
        self.sync = Sync::InSync;
        if let Framing::Segments(encoding) = found.point.framing {
            known.encoding = Some(encoding);
        }
        known.version = known.version.or(found.point.version);
        self.feed.resume(found.point.framing, found.point.compression);
        for (bytes, at) in found.pieces {
            self.take(bytes, at, known, losses)?;
        }
        Ok(())
    }

    /// Skips `length` missing bytes.
    pub(super) fn skip(&mut self, length: usize, at: Moment, losses: &mut Losses) {
        let is_lost = match &mut self.sync {
            Sync::InSync => self.feed.skip(length, at) == Skipped::Lost,
            Sync::Searching(_) => true,
        };
        if is_lost {
            self.forget(losses);
            self.sync = self.begin_resync();
        }
    }

    /// Notes that an unknown number of bytes is missing: the place in the stream is lost.
    pub(super) fn lose_place(&mut self, at: Moment, losses: &mut Losses) {
        // Longer than any envelope.
        self.skip(1 << 40, at, losses);
    }

    /// Counts kept bytes as lost, unless they are no CQL.
    pub(super) fn forget(&mut self, losses: &mut Losses) {
        if self.looks_like.is_none()
            && let Sync::Searching(resync) = &self.sync
        {
            losses.unplaced_bytes += resync.kept() as u64;
        }
    }
}

/// Whether bytes from the middle of a connection look like TLS records: a header of five bytes, with another
/// record or the end of the bytes behind it.
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
