//! Finds the place again where bytes are missing, or where a capture begins in mid-connection.
//!
//! A place counts as found where what follows cannot be anything else: a segment of version 5 whose two checksums hold (56 bits), or
//! an envelope whose header is one that its direction can have, and whose body decodes to its last byte, with all that follows it: each
//! the same way, up to where a packet ends that is not full. Nine bytes alone are never enough: a bound `int` of 5 before an empty value looks like
//! OPTIONS. Nor is one envelope after another: a bound value may hold whole envelopes (somebody keeps requests in a table), and then
//! something else follows.
//!
//! What cannot be told: bytes that are joined inside such a value, of which an envelope ends where such a packet does (the value
//! ends its request, and the client sends neither page size nor time), or that goes on like that for [`ENOUGH_BYTES`]; and the same with
//! whole segments.

mod chain;
mod evidence;

use bytes::Bytes;
use chain::{Chain, Verdict, judge_segment};
use cqlens_proto::{
    compress::Compression,
    cutter::Framing,
    envelope::{Direction, Version},
    segment::{self, Encoding},
};

use crate::{capture::Moment, memory::Part};

/// Bytes that are kept while the place is looked for: the largest segment, and most envelopes. A place after a longer envelope is
/// found when that has passed.
const MAX_KEPT: usize = 512 << 10;

/// Places that may be right and wait for more bytes.
const MAX_CANDIDATES: usize = 64;

/// What is known of a connection from its other bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct KnownFraming {
    /// The version of its envelopes.
    pub(super) version: Option<Version>,
    /// How its segments are encoded, where there are segments.
    pub(super) encoding: Option<Encoding>,
}

/// A place that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SyncPoint {
    /// How bytes are framed from there on.
    pub(super) framing: Framing,
    /// What the connection has agreed on, as far as it shows.
    pub(super) compression: Compression,
    /// The version of its envelopes; none where segments hide it.
    pub(super) version: Option<Version>,
}

/// What was found, with the bytes that were kept.
#[derive(Debug)]
pub(super) struct Resynced {
    /// Where it is.
    pub(super) point: SyncPoint,
    /// Bytes before it, which nobody can read.
    pub(super) lost: usize,
    /// From there on.
    pub(super) pieces: Vec<(Bytes, Moment)>,
}

/// Looks for a place in contiguous bytes.
#[derive(Debug)]
pub(super) struct Resync {
    kept: Vec<u8>,
    /// What all searches keep.
    memory: Part,
    /// What it has taken of that.
    taken: usize,
    /// Where pieces begin in `kept`, and when they were captured.
    pieces: Vec<(usize, Moment)>,
    /// All before it was looked at.
    searched_until: usize,
    candidates: Vec<Candidate>,
    /// Bytes of the largest packet.
    largest: usize,
    /// Whether the latest packet may be the last one of what its sender has written at once.
    ends_a_write: bool,
}

/// A packet of fewer bytes is not full, whatever the network.
const NOT_FULL: usize = 1_000;

/// A place that may be right, and what follows it.
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
    /// Looks for a place from now on; what all searches together keep fits into `memory`.
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

    /// The same with as much memory as one search needs.
    #[cfg(test)]
    fn alone() -> Self {
        Self::within(Part::new("test", 4 * MAX_KEPT))
    }

    /// Counts the memory that it holds; gives up all that it keeps where all searches together would hold too much. How many bytes it gave up.
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

    /// What its vectors have grown to.
    fn held_bytes(&self) -> usize {
        let pieces = self.pieces.capacity() * size_of::<(usize, Moment)>();
        let candidates = self.candidates.capacity() * size_of::<Candidate>();
        self.kept.capacity() + pieces + candidates
    }

    /// Bytes that are kept.
    pub(super) fn kept(&self) -> usize {
        self.kept.len()
    }

    /// Adds bytes; says how many of the oldest were given up, and what was found.
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
                Verdict::Yes(point) => found = Some((candidate.start, point)),
                Verdict::Long(point) if is_first => found = Some((candidate.start, point)),
                Verdict::Long(_) | Verdict::Maybe => {
                    is_first = false;
                    return true;
                }
                Verdict::No => {}
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
                Verdict::Yes(point) => found = Some((candidate.start, point)),
                Verdict::Long(point) if self.candidates.is_empty() => found = Some((candidate.start, point)),
                Verdict::Maybe if self.kept.len() - candidate.start < segment::MAX_HEADER_LEN + 1 => {
                    // Too few bytes to say anything: they are looked at again.
                    break;
                }
                Verdict::Long(_) | Verdict::Maybe => {
                    if self.candidates.len() == MAX_CANDIDATES {
                        self.candidates.remove(0);
                    }
                    self.candidates.push(candidate);
                    self.searched_until += 1;
                }
                Verdict::No => self.searched_until += 1,
            }
        }
        found
    }

    /// The end of the chain that has `offset` in it: an envelope of it is no place of its own.
    fn chained_to(&self, offset: usize) -> Option<usize> {
        let mut chains = self
            .candidates
            .iter()
            .filter(|candidate| candidate.chain.length > 0);
        let chain = chains.find(|candidate| (candidate.start..=candidate.end()).contains(&offset));
        chain.map(Candidate::end)
    }

    fn judge(&self, candidate: &mut Candidate, direction: Direction, known: KnownFraming) -> Verdict {
        let bytes = self.kept.get(candidate.start..).unwrap_or_default();
        let mut best = Verdict::No;
        let by_version = known.version.map(Version::uses_segments);
        if by_version != Some(false) && candidate.chain.length == 0 {
            for encoding in [Encoding::Plain, Encoding::Lz4] {
                if known.encoding.is_none_or(|known| known == encoding) {
                    best = best.or(judge_segment(bytes, encoding));
                }
            }
        }
        // Once segments were seen there is nothing without them.
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
