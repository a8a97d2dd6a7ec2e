//! Resynchronisation: finds where an envelope or segment begins after missing bytes, or in the middle of a
//! connection.
//!
//! A sync point is accepted only where the bytes cannot be anything else: a version 5 segment whose two
//! checksums hold (56 bits), or an envelope whose header is valid for its direction and whose body decodes to
//! its last byte, followed by nothing but such envelopes up to the end of a packet that is not full. A header
//! alone is not enough: a bound `int` of 5 before an empty value looks like OPTIONS. Nor are several
//! envelopes: a bound value may contain whole envelopes (an application that stores requests in a table), and
//! then something else follows them.
//!
//! Known limit: a wrong sync point is accepted inside such a value if an envelope in it ends where a packet
//! that is not full ends, or if its envelopes go on for [`chain::ENOUGH_BYTES`]; the same holds for whole
//! segments.

mod chain;
mod evidence;

use bytes::Bytes;
use chain::{Chain, ChainVerdict, judge_segment};
use cqlens_proto::{
    compress::Compression,
    cutter::Framing,
    envelope::{Direction, Version},
    segment::{self, Encoding},
};

use cqlens_capture::{Moment, memory::Part};

/// Bytes that a search keeps: enough for the largest segment and most envelopes. The sync point behind a
/// longer envelope is found once that has passed.
const MAX_KEPT: usize = 512 << 10;

/// Candidates that wait for more bytes.
const MAX_CANDIDATES: usize = 64;

/// What other bytes of the connection have shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct KnownFraming {
    /// The version of its envelopes.
    pub(super) version: Option<Version>,
    /// How its segments are encoded, where there are segments.
    pub(super) encoding: Option<Encoding>,
}

/// Where an envelope or segment begins, and how the connection is encoded from there on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SyncPoint {
    /// The framing from there on.
    pub(super) framing: Framing,
    /// The negotiated compression, as far as the bytes show it.
    pub(super) compression: Compression,
    /// The version of the envelopes; `None` inside segments.
    pub(super) version: Option<Version>,
}

/// A sync point with the bytes that were kept.
#[derive(Debug)]
pub(super) struct Resynced {
    /// The sync point.
    pub(super) point: SyncPoint,
    /// Bytes before it, which are lost.
    pub(super) lost: usize,
    /// The bytes from there on, with their times.
    pub(super) pieces: Vec<(Bytes, Moment)>,
}

/// Searches contiguous bytes of one direction for a sync point.
#[derive(Debug)]
pub(super) struct Resync {
    kept: Vec<u8>,
    /// The bound of all searches together.
    memory: Part,
    /// What this one is charged for.
    taken: usize,
    /// Where pieces begin in `kept`, and when they were captured.
    pieces: Vec<(usize, Moment)>,
    /// The offset up to which all bytes were tried.
    searched_until: usize,
    candidates: Vec<Candidate>,
    /// The largest packet so far.
    largest: usize,
    /// Whether the latest packet may end a write of its sender.
    ends_a_write: bool,
}

/// A packet of fewer bytes is not full on any network.
const NOT_FULL: usize = 1_000;

/// A possible sync point with the envelopes that follow it.
#[derive(Debug)]
struct Candidate {
    start: usize,
    chain: Chain,
}

impl Candidate {
    fn end(&self) -> usize {
        self.start + self.chain.length
    }
}

impl Drop for Resync {
    fn drop(&mut self) {
        self.memory.give_back(self.taken);
    }
}

impl Resync {
    /// A search that is charged to `memory`, the bound of all searches.
    pub(super) fn within(memory: Part) -> Self {
        Self {
            kept: Vec::new(),
            memory,
            taken: 0,
            pieces: Vec::new(),
            searched_until: 0,
            candidates: Vec::new(),
            largest: 0,
            ends_a_write: false,
        }
    }

    /// A search with as much memory as one needs.
    #[cfg(test)]
    fn alone() -> Self {
        Self::within(Part::new("test", 4 * MAX_KEPT))
    }

    /// Charges what this search holds. Where all searches together would exceed their bound, it drops what it
    /// keeps instead. Returns the number of dropped bytes.
    fn charge(&mut self) -> usize {
        self.memory.give_back(std::mem::take(&mut self.taken));
        let held = self.held_bytes();
        if self.memory.has_room_for(held) {
            self.memory.take(held);
            self.taken = held;
            return 0;
        }
        self.memory.count_evicted(1);
        let kept = self.kept.len();
        *self = Self::within(self.memory.clone());
        kept
    }

    /// Memory of the vectors, unused capacity included.
    fn held_bytes(&self) -> usize {
        let pieces = self.pieces.capacity() * size_of::<(usize, Moment)>();
        let candidates = self.candidates.capacity() * size_of::<Candidate>();
        self.kept.capacity() + pieces + candidates
    }

    /// The number of bytes that are kept.
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Adds a packet's bytes. Returns how many kept bytes were dropped, and the sync point if there is one
    /// now.
    pub(super) fn add(
        &mut self,
        direction: Direction,
        known: KnownFraming,
        bytes: &[u8],
        at: Moment,
    ) -> (usize, Option<Resynced>) {
        self.largest = self.largest.max(bytes.len());
        self.ends_a_write = bytes.len() < self.largest.max(NOT_FULL);
        self.pieces.push((self.kept.len(), at));
        self.kept.extend_from_slice(bytes);
        let found = self.search(direction, known);
        if let Some((offset, point)) = found {
            let found = Resynced {
                point,
                lost: offset,
                pieces: self.pieces_from(offset),
            };
            *self = Self::within(self.memory.clone());
            return (0, Some(found));
        }
        let forgotten = self.forget_oldest();
        (forgotten + self.charge(), None)
    }

    fn search(&mut self, direction: Direction, known: KnownFraming) -> Option<(usize, SyncPoint)> {
        let mut candidates = std::mem::take(&mut self.candidates);
        let mut found = None;
        let mut is_first = true;
        candidates.retain_mut(|candidate| {
            if found.is_some() {
                return false;
            }
            match self.judge(candidate, direction, known) {
                ChainVerdict::Yes(point) => found = Some((candidate.start, point)),
                ChainVerdict::Long(point) if is_first => found = Some((candidate.start, point)),
                ChainVerdict::Long(_) | ChainVerdict::Maybe => {
                    is_first = false;
                    return true;
                }
                ChainVerdict::No => {}
            }
            false
        });
        self.candidates = candidates;
        while found.is_none() && self.searched_until < self.kept.len() {
            if let Some(end) = self.chained_to(self.searched_until) {
                self.searched_until = end + 1;
                continue;
            }
            let mut candidate = Candidate {
                start: self.searched_until,
                chain: Chain::new(known.version),
            };
            match self.judge(&mut candidate, direction, known) {
                ChainVerdict::Yes(point) => found = Some((candidate.start, point)),
                ChainVerdict::Long(point) if self.candidates.is_empty() => {
                    found = Some((candidate.start, point))
                }
                ChainVerdict::Maybe if self.kept.len() - candidate.start < segment::MAX_HEADER_LEN + 1 => {
                    // Too few bytes to decide: tried again with the next packet.
                    break;
                }
                ChainVerdict::Long(_) | ChainVerdict::Maybe => {
                    if self.candidates.len() == MAX_CANDIDATES {
                        self.candidates.remove(0);
                    }
                    self.candidates.push(candidate);
                    self.searched_until += 1;
                }
                ChainVerdict::No => self.searched_until += 1,
            }
        }
        found
    }

    /// The end of the chain that contains `offset`: an envelope inside a chain is no candidate of its own.
    fn chained_to(&self, offset: usize) -> Option<usize> {
        let mut chains = self
            .candidates
            .iter()
            .filter(|candidate| candidate.chain.length > 0);
        let chain = chains.find(|candidate| (candidate.start..=candidate.end()).contains(&offset));
        chain.map(Candidate::end)
    }

    fn judge(&self, candidate: &mut Candidate, direction: Direction, known: KnownFraming) -> ChainVerdict {
        let bytes = self.kept.get(candidate.start..).unwrap_or_default();
        let mut best = ChainVerdict::No;
        let by_version = known.version.map(Version::uses_segments);
        if by_version != Some(false) && candidate.chain.length == 0 {
            for encoding in [Encoding::Plain, Encoding::Lz4] {
                if known.encoding.is_none_or(|known| known == encoding) {
                    best = best.or(judge_segment(bytes, encoding));
                }
            }
        }
        // A connection that uses segments has no bare envelopes.
        if known.encoding.is_none() {
            best = best.or(candidate.chain.follow(bytes, direction, self.ends_a_write));
        }
        best
    }

    fn pieces_from(&self, offset: usize) -> Vec<(Bytes, Moment)> {
        let kept = Bytes::copy_from_slice(&self.kept);
        let ends = self.pieces.iter().skip(1).map(|(start, _)| *start);
        let ends = ends.chain([kept.len()]);
        let pieces = self.pieces.iter().zip(ends);
        pieces
            .filter(|(_, end)| *end > offset)
            .map(|((start, at), end)| (kept.slice(offset.max(*start)..end), *at))
            .collect()
    }

    fn forget_oldest(&mut self) -> usize {
        if self.kept.len() <= MAX_KEPT {
            return 0;
        }
        let forgotten = self.kept.len() - MAX_KEPT / 2;
        self.kept.drain(..forgotten);
        let last_gone = self.pieces.iter().rposition(|(start, _)| *start <= forgotten);
        self.pieces.drain(..last_gone.unwrap_or(0));
        for (start, _) in &mut self.pieces {
            *start = start.saturating_sub(forgotten);
        }
        self.searched_until = self.searched_until.saturating_sub(forgotten);
        self.candidates.retain(|candidate| candidate.start >= forgotten);
        for candidate in &mut self.candidates {
            candidate.start -= forgotten;
        }
        forgotten
    }
}

#[cfg(test)]
mod tests;
