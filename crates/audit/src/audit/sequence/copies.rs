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
    /// The writes that have values of another one, once for each of them.
    common: Vec<u32>,
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
    /// Hashes of its values, each once, in their order.
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

/// Values of a write that are compared: those with the lowest hashes, which are the same ones of a copy.
const MOST_VALUES: usize = 64;

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
        let (oldest, writes) = (self.oldest, &mut self.writes);
        self.common.clear();
        for &value in first_values(write) {
            let waiting = self.places.of(value).filter(|place| place.read >= oldest);
            self.common.extend(waiting.map(|place| place.read));
        }
        self.common
            .sort_unstable_by_key(|number| std::cmp::Reverse(*number));
        let common = self.common.chunk_by(|one, next| one == next);
        let found = common.filter(|times| times.len() >= IN_COMMON).find_map(|times| {
            let at = times.first()?.checked_sub(oldest)? as usize;
            writes.get(at)?.is_copied_by(write, times.len()).then_some(at)
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
        for &value in first_values(write) {
            self.places.put(value, number, (0, 0), self.oldest);
        }
        self.writes.push_back(Write {
            pattern: write.request.pattern,
            table: write.table,
            at: write.request.at,
            answered_at: write.request.answered_at,
            values: first_values(write).len(),
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

fn first_values<'v>(write: &NewWrite<'v>) -> &'v [u64] {
    write.values.get(..MOST_VALUES).unwrap_or(write.values)
}

/// Whether so many values in common are most of those of two writes, of which each has so many.
pub(super) fn is_most(common: usize, one: usize, other: usize) -> bool {
    common >= IN_COMMON && common * 4 >= one.min(other) * 3
}

impl Write {
    fn is_copied_by(&self, write: &NewWrite<'_>, common: usize) -> bool {
        self.table != write.table
            && self.pattern != write.request.pattern
            && is_most(common, self.values, first_values(write).len())
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

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;

    #[test]
    fn a_write_is_compared_with_as_many_places_however_many_came_before() {
        let mut window = Window::new(Timestamp::UNIX_EPOCH, "test");
        let mut copies = CopyFinder::new();
        for number in 1..=10_000_u64 {
            let at = number.cast_signed() * 10_000;
            // Each is a statement of its own, and has its own values beside two that all have.
            let own = (0..100).map(|value| (number * 100 + value).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut values: Vec<u64> = own.chain([7, 9]).collect();
            values.sort_unstable();
            let write = NewWrite {
                request: KeyedRequest {
                    pattern: PatternId(number),
                    at,
                    answered_at: at + 1_000,
                },
                table: number % 2,
                values: &values,
                succeeded: true,
            };
            let before = copies.places.compared;
            copies.note(&write, true, &mut window);
            // Once to find another write, once to be found.
            assert_eq!(copies.places.compared - before, 2 * 8 * MOST_VALUES);
            assert!(copies.common.len() <= 8 * 4, "{}", copies.common.len());
        }
        assert!(copies.writes.len() <= MOST_WRITES);
    }
}
