//! Writes of the same values into several tables, each by itself: copies that no batch keeps together.
//!
//! Looks at INSERTs and UPDATEs outside of batches. A write is the copy of another one if one actor sends both within a short time, and most of the values of the shorter one are in both.

use std::collections::VecDeque;

use super::{SOON, follow_ups::KeyedRequest, places::Places};
use cqlens_window::{CopiedWrites, PairRoom, PatternId, Sequences, Window, WritePairs};

/// Finds writes of the same values.
#[derive(Debug)]
pub(super) struct CopyFinder {
    places: Places,
    /// The writes that have values of another one, and how many.
    common: Vec<(u32, usize)>,
    /// By age; the first one has the number `oldest`.
    writes: VecDeque<Write>,
    oldest: u32,
    room: PairRoom,
}

/// A write whose copies are waited for.
#[derive(Debug)]
struct Write {
    pattern: PatternId,
    table: u64,
    at: i64,
    answered_at: i64,
    values: usize,
    succeeded: bool,
    copies: Vec<Copied>,
}

/// The copy of a write.
#[derive(Debug)]
struct Copied {
    pattern: PatternId,
    succeeded: bool,
    is_concurrent: bool,
    apart_us: u64,
}

/// A write of one row or several.
pub(super) struct NewWrite<'v> {
    pub(super) request: KeyedRequest,
    /// Stands for its table.
    pub(super) table: u64,
    /// Hashes of its values, each once.
    pub(super) values: &'v [u64],
    pub(super) succeeded: bool,
}

/// Two to this power are the buckets of values.
const PLACES: u32 = 12;

/// How long copies are waited for, in nanoseconds: what comes late has the same values by chance.
pub(super) const WAITS: i64 = SOON * (1 + WritePairs::LATE);

/// Writes whose copies are waited for, whatever the times of a capture say.
const MOST_WRITES: usize = 1 << 13;

/// Copies of a write, by pattern.
const MOST_COPIES: usize = 8;

/// Fewer values in common are the key of something else.
const IN_COMMON: usize = 2;

impl CopyFinder {
    pub(super) fn new() -> Self {
        Self {
            places: Places::new(PLACES),
            common: Vec::new(),
            writes: VecDeque::new(),
            oldest: 1,
            room: PairRoom::default(),
        }
    }

    /// Takes a write to those before it.
    pub(super) fn note(&mut self, write: &NewWrite<'_>, is_first: bool, window: &mut Window) {
        self.count_old(write.request.at, window);
        if let Some(first) = self.copied_by(write) {
            first.put(write);
        }
        if is_first {
            self.remember(write, window);
        }
    }

    /// The latest write into another table that this one is the copy of.
    fn copied_by(&mut self, write: &NewWrite<'_>) -> Option<&mut Write> {
        let common = &mut self.common;
        common.clear();
        for &value in write.values {
            for place in self.places.of(value).filter(|place| place.read >= self.oldest) {
                match common.iter_mut().find(|(number, _)| *number == place.read) {
                    Some((_, times)) => *times += 1,
                    None => common.push((place.read, 1)),
                }
            }
        }
        common.retain(|(_, times)| *times >= IN_COMMON);
        common.sort_unstable_by_key(|(number, _)| std::cmp::Reverse(*number));
        let (oldest, writes) = (self.oldest, &mut self.writes);
        let index = |number: u32| number.checked_sub(oldest).map(|at| at as usize);
        let found = common.iter().find_map(|&(number, times)| {
            let at = index(number)?;
            writes.get(at)?.is_copied_by(write, times).then_some(at)
        });
        writes.get_mut(found?)
    }

    fn remember(&mut self, write: &NewWrite<'_>, window: &mut Window) {
        let next = u32::try_from(self.writes.len()).ok();
        let Some(number) = next.and_then(|waiting| self.oldest.checked_add(waiting)) else {
            self.end(window);
            *self = Self::new();
            return;
        };
        for &value in write.values {
            self.places.put(value, number, (0, 0), self.oldest);
        }
        self.writes.push_back(Write {
            pattern: write.request.pattern,
            table: write.table,
            at: write.request.at,
            answered_at: write.request.answered_at,
            values: write.values.len(),
            succeeded: write.succeeded,
            copies: Vec::new(),
        });
    }

    /// Nothing is seen after this time: what may be copied later is not counted.
    pub(super) fn end_at(&mut self, end: i64, window: &mut Window) {
        self.count_old(end, window);
        self.oldest += u32::try_from(self.writes.len()).unwrap_or(0);
        self.writes.clear();
    }

    fn count_old(&mut self, now: i64, window: &mut Window) {
        while let Some(write) = self.writes.front()
            && (now.saturating_sub(write.at) >= WAITS || self.writes.len() >= MOST_WRITES)
        {
            if let Some(write) = self.writes.pop_front() {
                self.oldest += 1;
                write.count(&mut window.sequences, &mut self.room);
            }
        }
    }

    /// Counts all writes, of which nothing more is seen.
    pub(super) fn end(&mut self, window: &mut Window) {
        self.oldest += u32::try_from(self.writes.len()).unwrap_or(0);
        for write in self.writes.drain(..) {
            write.count(&mut window.sequences, &mut self.room);
        }
    }
}

/// Whether so many values in common are most of those of two writes, of which each has so many.
pub(super) fn is_most(common: usize, one: usize, other: usize) -> bool {
    common >= IN_COMMON && common * 4 >= one.min(other) * 3
}

impl Write {
    fn is_copied_by(&self, write: &NewWrite<'_>, common: usize) -> bool {
        self.table != write.table
            && self.pattern != write.request.pattern
            && is_most(common, self.values, write.values.len())
            && write.request.at.saturating_sub(self.at) < WAITS
    }

    fn put(&mut self, write: &NewWrite<'_>) {
        let pattern = write.request.pattern;
        if let Some(copy) = self.copies.iter_mut().find(|copy| copy.pattern == pattern) {
            // Another try.
            copy.succeeded |= write.succeeded;
        } else if self.copies.len() < MOST_COPIES {
            self.copies.push(Copied {
                pattern,
                succeeded: write.succeeded,
                is_concurrent: write.request.at < self.answered_at,
                apart_us: write.request.at.abs_diff(self.at) / 1_000,
            });
        }
    }

    fn count(self, sequences: &mut Sequences, room: &mut PairRoom) {
        let all = &mut sequences.copies;
        if all.is_empty() {
            room.begin();
        }
        let ids = self.copies.iter().map(|copy| copy.pattern).chain([self.pattern]);
        let new = ids.filter(|id| !all.contains_key(id)).count();
        if all.len() + new > Sequences::MOST {
            return;
        }
        all.entry(self.pattern).or_default().writes += 1;
        for copy in self.copies {
            let (first, second) = (self.pattern.min(copy.pattern), self.pattern.max(copy.pattern));
            let is_known = |writes: &CopiedWrites| writes.pairs.contains_key(&second);
            let pairs = || all.values().map(|writes| writes.pairs.len()).sum();
            if !all.get(&first).is_some_and(is_known) && !room.takes(pairs) {
                continue;
            }
            let pairs = &mut all.entry(first).or_default().pairs;
            let pair = pairs.entry(second).or_default();
            if copy.apart_us > SOON.unsigned_abs() / 1_000 {
                pair.late += 1;
                continue;
            }
            pair.pairs += 1;
            pair.one_failed += u64::from(copy.succeeded != self.succeeded);
            pair.concurrent += u64::from(copy.is_concurrent);
            pair.apart_us.record(copy.apart_us);
        }
    }
}
